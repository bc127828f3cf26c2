"""Where tonight's scores lie among the held-out ones, and what reading the list only so far would find."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from screening.documents.figures import Share
from screening.documents.run import ScoreScale, Stopping
from screening.statistics.intervals import wilson
from screening.statistics.operating_point import FLAG_EVERYTHING
from screening.statistics.p_values import group_maxima
from screening.statistics.predictive_intervals import Evidence
from screening.storage.model import Model
from screening.validation.task import Task

BINS = 120
# An outlier among thousands of held-out scores would press all others into one bin.
OUTSIDE = 0.001


class Standing:
    """Counts scores on equal steps between the lowest and the highest held-out ones.

    What is reviewed as one has one score: a row, or the highest of a patient's rows.

    Parameters
    ----------
    model : Model

    Attributes
    ----------
    least : float
        Score from which on a row is flagged.
    past : ndarray, shape (n_cases,)
        Held-out scores of past cases, sorted ascending.
    """

    def __init__(self, model: Model):
        table = model.held_out
        scores = table["score"]
        positive = Task.of(model.facts.task).is_watched(table["label"]).any(axis=1)
        self.grouped = model.contract.group is not None
        names = table["group"] if self.grouped else np.arange(table.n_rows)
        is_case = np.isin(names, names[positive])
        self.past = group_maxima(scores[is_case], names[is_case])
        everyone = group_maxima(scores, names)
        self.low, self.high = map(float, np.quantile(everyone, [OUTSIDE, 1.0]))
        self.least = float(model.thresholds[0]) if len(model.thresholds) == 1 else 0.0
        if abs(self.least) < abs(FLAG_EVERYTHING):
            self.low, self.high = min(self.low, self.least), max(self.high, self.least)
        if not self.high > self.low:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self.tonight = np.zeros(BINS, dtype=np.int64)

    def add(self, scores: np.ndarray) -> None:
        """Count in scores; those beyond either end are in the last bin there."""
        self.tonight += self._binned(scores)

    def _binned(self, scores: np.ndarray) -> np.ndarray:
        place = (np.asarray(scores, float) - self.low) / (self.high - self.low) * BINS
        return np.bincount(np.clip(place, 0, BINS - 1).astype(np.int64), minlength=BINS)

    def facts(self) -> ScoreScale:
        """`scale` of `run.json`: tonight's scores and those of past cases on the same bins."""
        return ScoreScale(
            low=self.low,
            high=self.high,
            tonight=self.tonight.tolist(),
            past_cases=self._binned(self.past).tolist(),
        )

    def stopping(self, waiting: Sequence[float], capacity: int | None) -> Stopping | None:
        """What the reviews that a night has room for would find, of all cases; None where all have room.

        Parameters
        ----------
        waiting : sequence of float
            Scores of those who wait for a review, the highest first.
        capacity : int, optional
        """
        if capacity is None or len(waiting) <= capacity or not len(self.past):
            return None
        least = waiting[capacity - 1]
        return Stopping(
            reviews=capacity,
            score=float(least),
            n_cases=len(self.past),
            found=self._found(least),
            all_found=self._found(self.least),
        )

    def _found(self, threshold: float) -> Share:
        """Share of cases at or above a score, expected of new ones, as the operating point has it."""
        m = len(self.past)
        hits = m - int(np.searchsorted(self.past, threshold, side="left"))
        told = Evidence(hits, m - hits, 0, 0, everything=threshold <= FLAG_EVERYTHING)
        low, high = told.sensitivity_range()
        # A new case is one more among m + 1 (METHODS 4).
        return Share(value=1.0 if told.everything else hits / (m + 1), low=low, high=high)


def rarity_range(p_values: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval of the share of past negatives that score as high, from a p-value among n of them."""
    at_least = np.rint(np.asarray(p_values, float) * (n + 1)) - 1
    return wilson(at_least, np.full(at_least.shape, n))
