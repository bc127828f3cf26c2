"""What one method did on the test rows of one outer fold, as arrays that can be kept."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from screening.errors import ModelError


@dataclass(frozen=True)
class Outcome:
    """Decisions on the test rows of a fold, and the threshold that its training rows alone led to.

    Parameters
    ----------
    repeat, fold : int
    rows : ndarray of int, shape (n_test,)
        Row numbers of the cohort the folds were dealt from.
    scores : ndarray, shape (n_test, n_watched)
        On the fold model's own scale; higher is more suspicious.
    thresholds : ndarray, shape (n_watched,)
        By the caller's rule, from scores that are out-of-fold within the training rows.
    own : ndarray of bool, shape (n_test, n_watched)
        Flagged by the machine's own boundary.
    predicted : ndarray of int, shape (n_test,)
        Number of the class with the largest decision; -1 for a binary task.
    facts : dict
        `chosen` parameters, `fit_seconds`, `score_seconds`, `n_train`, `sv_share` (None for baselines).
    """

    repeat: int
    fold: int
    rows: np.ndarray
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
            scores=self.scores[kept],
            own=self.own[kept],
            predicted=self.predicted[kept],
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays without objects; `from_arrays` takes them back."""
        facts = json.dumps([self.repeat, self.fold, self.facts], sort_keys=True).encode()
        return {
            "rows": self.rows,
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
            repeat, fold, facts = json.loads(stored["facts"].tobytes())
            given = {name: stored[name] for name in ("rows", "scores", "thresholds", "own", "predicted")}
        except (KeyError, ValueError) as error:
            raise ModelError(f"a kept fold cannot be read ({type(error).__name__})") from None
        shape = (len(given["rows"]), len(given["thresholds"]))
        if (
            given["scores"].shape != shape
            or given["own"].shape != shape
            or len(given["predicted"]) != shape[0]
        ):
            raise ModelError("the arrays of a kept fold do not fit each other")
        return cls(repeat, fold, **given, facts=facts)

    @property
    def flagged(self) -> np.ndarray:
        """Flagged at the tuned thresholds, shape (n_test, n_watched)."""
        return self.scores >= self.thresholds
