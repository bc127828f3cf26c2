"""What one method did on rows held out from its machines, as arrays that can be kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from screening.documents.comparison import Figure
from screening.documents.figures import Ends
from screening.documents.shape import document, plain, rare, read
from screening.documents.validation import SearchFacts
from screening.errors import ModelError
from screening.statistics.operating_point import OperatingPoint
from screening.validation.held_out import HeldOut
from screening.validation.validation import Validation

BY_ROW = ("rows", "fold", "scores", "own", "predicted")
"""Arrays of an outcome that hold an entry a row."""


@document
class Made:
    """What choosing the setting and fitting the machines came to."""

    search: SearchFacts
    sv_share: float | None
    fit_seconds: float
    score_seconds: float


@document
class Judged:
    """What an outcome states beside its arrays.

    `sensitivity` is the one expected at the thresholds, one a watched class; `figures` are AUROC, sensitivity
    and specificity, means over the watched classes. `made` is told of methods that are compared.
    """

    sensitivity: Sequence[float]
    figures: Mapping[str, Figure]
    n_settings: int
    made: Made | None = rare()


@dataclass(frozen=True)
class Outcome:
    """Held-out scores of one method, and the thresholds chosen on them."""

    rows: np.ndarray  # row numbers of the cohort the folds were dealt from
    fold: np.ndarray  # the fold each row was held out in
    # (n_rows, n_watched), of machines that had not seen the row; higher is more suspicious
    scores: np.ndarray
    thresholds: np.ndarray  # (n_watched,), by the caller's rule, from these scores
    own: np.ndarray  # bool, (n_rows, n_watched): flagged by the machine's own boundary
    predicted: np.ndarray  # number of the class with the largest decision; -1 for a binary task
    facts: Judged  # what was chosen, what that cost, and the figures at the thresholds

    def among(self, place: np.ndarray) -> Outcome:
        """The same on the rows that have a place (a new row number, -1 for none) in ``place``."""
        rows = place[self.rows]
        kept = rows >= 0
        others = {name: getattr(self, name)[kept] for name in BY_ROW if name != "rows"}
        return replace(self, rows=rows[kept], **others)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays without objects; `from_arrays` takes them back."""
        facts = json.dumps(plain(self.facts), sort_keys=True).encode()
        named = {name: getattr(self, name) for name in (*BY_ROW, "thresholds")}
        return named | {"facts": np.frombuffer(facts, np.uint8)}

    @classmethod
    def from_arrays(cls, stored: dict[str, np.ndarray]) -> Outcome:
        """Rebuild an outcome; ModelError where the arrays do not belong together."""
        try:
            facts = read(Judged, json.loads(stored["facts"].tobytes()), "a kept outcome")
            given = {name: stored[name] for name in (*BY_ROW, "thresholds")}
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
        return self.facts.n_settings

    @property
    def figures(self) -> Mapping[str, Figure]:
        """AUROC, sensitivity and specificity at the thresholds, means over the watched classes."""
        return self.facts.figures

    @property
    def flagged(self) -> np.ndarray:
        """Flagged at the tuned thresholds, shape (n_test, n_watched)."""
        return self.scores >= self.thresholds


def outcome_of(
    validation: Validation, points: Sequence[OperatingPoint], held_out: HeldOut | None = None
) -> Outcome:
    """What held-out scores say of every row at these operating points, and what `held_out` took to make."""
    rows = np.arange(len(validation.fold))
    made = None
    if held_out is not None:
        fit_seconds, score_seconds = held_out.seconds
        made = Made(
            search=held_out.searched(),
            sv_share=held_out.sv_share,
            fit_seconds=fit_seconds,
            score_seconds=score_seconds,
        )
    return Outcome(
        rows=rows,
        fold=validation.fold,
        scores=validation.scores,
        thresholds=np.array([point.threshold for point in points]),
        own=validation.own,
        predicted=np.full(len(rows), -1) if validation.predicted is None else validation.predicted,
        facts=Judged(
            sensitivity=[float(point.sensitivity or 0.0) for point in points],
            figures={
                "auroc": _mean([validation.area(m) for m in range(len(points))]),
                "sensitivity": _mean([point.sensitivity_ends for point in points]),
                "specificity": _mean([point.specificity_ends for point in points]),
            },
            n_settings=validation.n_settings,
            made=made,
        ),
    )


def _mean(found: Sequence[Ends]) -> Figure:
    value, low, high = (float(each) for each in np.mean(np.array(found, float), axis=0))
    return Figure(value=value, low=low, high=high)
