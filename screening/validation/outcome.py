"""What one method did on rows held out from its machines, as arrays that can be kept, and its figures.

Figures are of weighted rows: weights 1 for the estimate, drawn ones for its spread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from screening.cohort.cohort import Cohort, labels_of
from screening.documents.comparison import Figure
from screening.documents.figures import Ends
from screening.documents.shape import document, plain, rare, read
from screening.documents.validation import SearchFacts
from screening.errors import ModelError
from screening.statistics.operating_point import OperatingPoint
from screening.validation.held_out import HeldOut
from screening.validation.task import Task
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
    predicted: np.ndarray  # number of the class with the highest chance; -1 for a binary task
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
            search=held_out.search,
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


GRID = np.linspace(0.0, 1.0, 101)
"""Sensitivities at which the mean ROC curve is kept."""

BINARY = (
    "sensitivity", "specificity", "g_mean", "min_sensitivity", "auroc", "average_precision", "specificity_at",
    "own_g_mean",
)  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """What the rows of a cohort really are."""

    watched: np.ndarray  # (n_rows, n_watched)
    target: np.ndarray | None = None  # class numbers of a multi-class task
    n_classes: int = 2

    def take(self, rows: np.ndarray) -> Truth:
        """What some of the rows are."""
        return replace(
            self, watched=self.watched[rows], target=None if self.target is None else self.target[rows]
        )


def truth_of(sample: Cohort, task: Task) -> Truth:
    """What a cohort's rows really are to a task."""
    label = labels_of(sample)
    target = task.target(label) if task.kind == "multi" else None
    return Truth(task.is_watched(label), target, len(task.classes))


def measured(
    outcome: Outcome, truth: Truth, asked: float, weights: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Figures of one method on one cohort, over the rows of all folds together, (n_draws,) each.

    Several watched classes are averaged. `asked` is the sensitivity at which `specificity_at` is read from
    the ROC curve; `weights` (n_draws, n_rows) say how often each row counts in each draw. NaN where a draw
    holds no positive or no negative row.
    """
    if weights is None:
        weights = np.ones((1, len(truth.watched)))
    w = weights[:, outcome.rows]
    by_class = [
        _one_class(outcome, truth.watched[outcome.rows, m], m, asked, w)
        for m in range(truth.watched.shape[1])
    ]
    found = {name: np.mean([figures[name] for figures in by_class], axis=0) for name in BINARY}
    if truth.target is not None:
        found |= _of_all_classes(outcome, truth, w)
    return found


def _one_class(
    outcome: Outcome, positive: np.ndarray, m: int, asked: float, w: np.ndarray
) -> dict[str, np.ndarray]:
    size = np.array([w[:, side].sum(axis=1) for side in (positive, ~positive)])
    tuned, own = (
        np.array([w[:, side] @ flags[side, m] for side in (positive, ~positive)])
        for flags in (outcome.flagged, outcome.own)
    )
    sensitivity, specificity, g_mean = _g_mean(tuned, size)
    return {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "g_mean": g_mean,
        "min_sensitivity": np.minimum(sensitivity, specificity),
        "own_g_mean": _g_mean(own, size)[2],
    } | _ranking(outcome.scores[:, m], positive, w, asked)


def _g_mean(flags: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rate = flags / np.where(size > 0, size, np.nan)
    sensitivity, specificity = rate[0], 1 - rate[1]
    return sensitivity, specificity, np.sqrt(np.maximum(sensitivity * specificity, 0.0))


def _steps(scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted hits and alarms at or above each distinct score, highest first; (n_draws, n_distinct)."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    w, hit = weights[:, order], positive[order]
    return np.cumsum(w * hit, axis=1)[:, ends], np.cumsum(w * ~hit, axis=1)[:, ends]


def _ranking(
    scores: np.ndarray, positive: np.ndarray, weights: np.ndarray, asked: float
) -> dict[str, np.ndarray]:
    # scikit-learn's functions take one vector of weights; here all draws of the bootstrap go at once.
    hits, alarms = _steps(scores, positive, weights)
    there = (hits[:, -1] > 0) & (alarms[:, -1] > 0)
    n_hits, n_alarms = (np.where(there, each[:, -1], np.nan) for each in (hits, alarms))
    gained = np.diff(hits, axis=1, prepend=0.0)
    tied = np.diff(alarms, axis=1, prepend=0.0)
    below = alarms[:, -1:] - alarms + tied / 2
    at = (hits >= asked * hits[:, -1:] - 1e-9).argmax(axis=1)
    return {
        "auroc": (gained * below).sum(axis=1) / (n_hits * n_alarms),
        "average_precision": (gained * hits / np.maximum(hits + alarms, 1e-12)).sum(axis=1) / n_hits,
        "specificity_at": 1 - np.take_along_axis(alarms, at[:, None], axis=1)[:, 0] / n_alarms,
    }


def _of_all_classes(outcome: Outcome, truth: Truth, w: np.ndarray) -> dict[str, np.ndarray]:
    """Figures of the predicted class; `macro_g` averages sqrt(sensitivity x specificity) over classes."""
    assert truth.target is not None
    k = truth.n_classes
    target = truth.target[outcome.rows]
    cells = np.zeros((len(target), k * k))
    cells[np.arange(len(target)), target * k + outcome.predicted] = 1.0
    counts = (w @ cells).reshape(-1, k, k)
    size, called = counts.sum(axis=2), counts.sum(axis=1)
    total = size.sum(axis=1, keepdims=True)
    right = np.diagonal(counts, axis1=1, axis2=2)
    # A class that a draw leaves out has no recall; the mean is over those that are there.
    recall = right / np.where(size > 0, size, np.nan)
    specificity = 1 - (called - right) / np.maximum(total - size, 1e-12)
    f1 = np.where(size > 0, 2 * right / np.maximum(size + called, 1e-12), np.nan)
    return {
        "macro_recall": np.nanmean(recall, axis=1),
        "macro_g": np.nanmean(np.sqrt(recall * specificity), axis=1),
        "geometric_recall": np.exp(np.nanmean(np.log(np.maximum(recall, 1e-300)), axis=1)),
        "min_recall": np.nanmin(recall, axis=1),
        "macro_f1": np.nanmean(f1, axis=1),
    }


def mean_curve(outcome: Outcome, truth: Truth) -> np.ndarray:
    """1 - specificity at each sensitivity of `GRID`, averaged over watched classes; shape (101,)."""
    curves = []
    for m in range(truth.watched.shape[1]):
        positive = truth.watched[outcome.rows, m]
        hits, alarms = _steps(outcome.scores[:, m], positive, np.ones((1, len(positive))))
        at = np.searchsorted(hits[0], GRID * hits[0, -1] - 1e-9)
        curve = alarms[0, at] / alarms[0, -1]
        curve[0] = 0.0
        curves.append(curve)
    return np.mean(curves, axis=0)
