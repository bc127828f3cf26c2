"""What one method did on rows held out from its machines, as arrays that can be kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from screening.errors import ModelError
from screening.statistics.operating_point import OperatingPoint
from screening.validation.validation import Validation


@dataclass(frozen=True)
class Outcome:
    """Held-out scores of one method, and the thresholds chosen on them.

    Parameters
    ----------
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
        `sensitivity`, expected at the thresholds, one a watched class; `points`, figures with intervals;
        `n_candidates`; and what choosing and fitting cost, where somebody asks.
    """

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
        facts = json.dumps(self.facts, sort_keys=True).encode()
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
            facts = json.loads(stored["facts"].tobytes())
            given = {
                name: stored[name] for name in ("rows", "fold", "scores", "thresholds", "own", "predicted")
            }
        except (KeyError, ValueError) as error:
            raise ModelError(f"a kept outcome cannot be read ({type(error).__name__})") from None
        shape = (len(given["rows"]), len(given["thresholds"]))
        if (
            given["scores"].shape != shape
            or given["own"].shape != shape
            or not len(given["predicted"]) == len(given["fold"]) == shape[0]
        ):
            raise ModelError("the arrays of a kept outcome do not fit each other")
        return cls(**given, facts=facts)

    @property
    def n_settings(self) -> int:
        """Settings that competed on these rows."""
        return int(self.facts["n_candidates"])

    @property
    def sensitivity(self) -> list[float]:
        """Expected sensitivity at the thresholds, one a watched class."""
        return list(self.facts["sensitivity"])

    def figures(self) -> dict[str, dict[str, float | None]]:
        """AUROC, sensitivity and specificity with their intervals, means over the watched classes."""
        points = self.facts["points"]
        return {
            name: {
                end: float(np.mean([each[name][end] for each in points])) for end in ("value", "low", "high")
            }
            for name in points[0]
        }

    @property
    def flagged(self) -> np.ndarray:
        """Flagged at the tuned thresholds, shape (n_test, n_watched)."""
        return self.scores >= self.thresholds


def outcome_of(
    validation: Validation,
    points: Sequence[OperatingPoint],
    seed: int,
    facts: Mapping[str, Any] | None = None,
) -> Outcome:
    """What a validation says of every row at these operating points."""
    rows = np.arange(len(validation.fold))
    shown = [asdict(point) for point in points]
    ranked = [validation.ranking(m, seed) for m in range(len(points))]
    own = {
        "n_candidates": validation.n_settings,
        "sensitivity": [point.sensitivity for point in points],
        "points": [
            {name: _ranged(each | rank, name) for name in ("auroc", "sensitivity", "specificity")}
            for each, rank in zip(shown, ranked, strict=True)
        ],
    }
    return Outcome(
        rows=rows,
        fold=validation.fold,
        scores=validation.scores,
        thresholds=np.array([point.threshold for point in points]),
        own=validation.own,
        predicted=np.full(len(rows), -1) if validation.predicted is None else validation.predicted,
        facts=own | dict(facts or {}),
    )


def _ranged(figures: Mapping[str, Any], name: str) -> dict[str, float | None]:
    return {"value": figures[name], "low": figures[f"{name}_low"], "high": figures[f"{name}_high"]}
