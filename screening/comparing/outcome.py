"""What one method did on rows held out from its machines, as arrays that can be kept."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from screening.errors import ModelError
from screening.validation.validation import Validation


@dataclass(frozen=True)
class Outcome:
    """Held-out scores of one method, and the thresholds chosen on them.

    Parameters
    ----------
    repeat : int
    rows : ndarray of int, shape (n_rows,)
        Row numbers of the cohort the folds were dealt from.
    fold : ndarray of int, shape (n_rows,)
        The fold each row was held out in.
    scores : ndarray, shape (n_rows, n_watched)
        Of machines that had not seen the row; higher is more suspicious.
    thresholds : ndarray, shape (n_watched,)
        By the caller's rule, from these scores.
    own : ndarray of bool, shape (n_rows, n_watched)
        Flagged by the machine's own boundary.
    predicted : ndarray of int, shape (n_rows,)
        Number of the class with the largest decision; -1 for a binary task.
    facts : dict
        What choosing and fitting cost; empty where nobody asks.
    """

    repeat: int
    rows: np.ndarray
    fold: np.ndarray
    scores: np.ndarray
    thresholds: np.ndarray
    own: np.ndarray
    predicted: np.ndarray
    facts: dict[str, Any]

    def among(self, place: np.ndarray) -> Outcome:
        """The same on the rows that have a place (a new row number, -1 for none) in ``place``."""
        rows = place[self.rows]
        kept = rows >= 0
        return replace(
            self,
            rows=rows[kept],
            fold=self.fold[kept],
            scores=self.scores[kept],
            own=self.own[kept],
            predicted=self.predicted[kept],
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays without objects; `from_arrays` takes them back."""
        facts = json.dumps([self.repeat, self.facts], sort_keys=True).encode()
        return {
            "rows": self.rows,
            "fold": self.fold,
            "scores": self.scores,
            "thresholds": self.thresholds,
            "own": self.own,
            "predicted": self.predicted,
            "facts": np.frombuffer(facts, np.uint8),
        }

    @classmethod
    def from_arrays(cls, stored: dict[str, np.ndarray]) -> Outcome:
        """Rebuild an outcome; ModelError where the arrays do not belong together."""
        try:
            repeat, facts = json.loads(stored["facts"].tobytes())
            given = {name: stored[name] for name in ("rows", "fold", "scores", "thresholds", "own", "predicted")}
        except (KeyError, ValueError) as error:
            raise ModelError(f"a kept outcome cannot be read ({type(error).__name__})") from None
        shape = (len(given["rows"]), len(given["thresholds"]))
        if (
            given["scores"].shape != shape
            or given["own"].shape != shape
            or not len(given["predicted"]) == len(given["fold"]) == shape[0]
        ):
            raise ModelError("the arrays of a kept outcome do not fit each other")
        return cls(repeat, **given, facts=facts)

    @property
    def flagged(self) -> np.ndarray:
        """Flagged at the tuned thresholds, shape (n_test, n_watched)."""
        return self.scores >= self.thresholds


def outcome_of(validation: Validation, thresholds: np.ndarray, facts: dict[str, Any] | None = None) -> Outcome:
    """What a validation says of every row at these thresholds."""
    rows = np.arange(len(validation.fold))
    predicted = np.full(len(rows), -1) if validation.predicted is None else validation.predicted
    return Outcome(
        0, rows, validation.fold, validation.scores, thresholds, validation.own, predicted, facts or {}
    )
