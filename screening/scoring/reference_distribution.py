"""Where tonight's values, scores and p-values lie among those of training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from screening.metrics.intervals import wilson
from screening.metrics.operating_point import FLAG_EVERYTHING
from screening.metrics.p_values import group_maxima, resolution_warning
from screening.metrics.predictive_intervals import Evidence
from screening.model_selection.task import Task
from screening.schemas.base import Estimate
from screening.schemas.model import NumberProfile, TextProfile
from screening.schemas.run import Discoveries as DiscoveryFacts
from screening.schemas.run import ScoreScale, Stopping
from screening.store.model import Model

BINS = 120
# An outlier among thousands of held-out scores would press all others into one bin.
OUTSIDE = 0.001


class Standing:
    """Counts scores on equal steps between the lowest and the highest held-out ones.

    What is reviewed as one has one score: a row, or the highest of a patient's rows.

    `least`: score from which on a row is flagged. `past`, shape (n_cases,): held-out scores of past cases,
    sorted ascending.
    """

    def __init__(self, model: Model):
        table = model.held_out
        scores = table["score"]
        positive = Task.of(model.facts.task).is_watched(table["label"]).any(axis=1)
        self.grouped = model.contract.group is not None
        names = table["group"] if self.grouped else np.arange(table.n_rows)
        # By hash: NumPy compares each text with each other one.
        is_case = pd.Index(names).isin(names[positive])
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

        `waiting`: scores of those who wait for a review, the highest first.
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

    def _found(self, threshold: float) -> Estimate:
        """Share of cases at or above a score, expected of new ones, as the operating point has it."""
        m = len(self.past)
        hits = m - int(np.searchsorted(self.past, threshold, side="left"))
        told = Evidence(hits, m - hits, 0, 0, everything=threshold <= FLAG_EVERYTHING)
        low, high = told.sensitivity_range()
        # A new case is one more among m + 1 (METHODS 4).
        return Estimate(1.0 if told.everything else hits / (m + 1), low, high)


def rarity_range(p_values: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval of the share of past negatives that score as high, from a p-value among n of them."""
    at_least = np.rint(np.asarray(p_values, float) * (n + 1)) - 1
    return wilson(at_least, np.full(at_least.shape, n))


def among_past(
    past: NumberProfile | TextProfile | None, value: float | str | None
) -> tuple[float | None, float | None]:
    """Shares of training rows with a lower value of a feature (ties halved), and with the same.

    Texts have no order, so of a category the second alone is known, and elsewhere the first; neither of a
    missing value.
    """
    if past is None or value is None or value != value:
        return None, None
    if isinstance(past, TextProfile):
        whole = sum(past.counts.values()) + past.more
        if not whole:
            return None, None
        if isinstance(value, str):
            return None, past.counts.get(value, 0) / whole
        # Codes of steps and of yes and no have an order.
        below = sum(n for code, n in past.counts.items() if float(code) < value)
        return (below + past.counts.get(f"{value:g}", 0) / 2) / whole, None
    if past.range is None:
        return None, None
    number, counts = float(value), np.array(past.counts, float)
    if not past.range[0] <= number <= past.range[1]:
        return float(number > past.range[1]), None
    place = int(np.searchsorted(past.edges, number, side="left"))
    return float((counts[:place].sum() + counts[place] / 2) / counts.sum()), None


RATE = 0.1


class Discoveries:
    """Counts p-values by rank, so that memory grows with the calibration scores and not with the table.

    `calibration`, shape (n,): what the p-values are ranks in, one a row or one a group.
    """

    def __init__(self, calibration: np.ndarray):
        self.calibration = calibration
        self.counts = np.zeros(len(calibration) + 1, dtype=np.int64)

    def add(self, p: np.ndarray) -> None:
        """Count in p-values of this calibration, each (rank) / (n + 1)."""
        ranks = np.rint(np.asarray(p) * len(self.counts)).astype(np.int64)
        self.counts += np.bincount(ranks - 1, minlength=len(self.counts))

    def cut(self, q: float = RATE) -> float | None:
        """The largest p-value that Benjamini and Hochberg report at rate q; None for no discovery."""
        among = np.cumsum(self.counts)
        ranks = np.arange(1, len(among) + 1)
        # Multiplied out: whole numbers on one side, so only q can be rounded.
        small = np.flatnonzero(
            (self.counts > 0) & (ranks * among[-1] <= among * q * len(among) * (1 + 1e-12))
        )
        return float(ranks[small[-1]] / len(among)) if len(small) else None

    def facts(self, per: str, flagged: int, q: float = RATE) -> DiscoveryFacts:
        """What `run.json` says: how many of the screened would be reported, and whether any could be."""
        cut, screened = self.cut(q), int(self.counts.sum())
        found = 0 if cut is None else int(self.counts[: round(cut * len(self.counts))].sum())
        return DiscoveryFacts(
            q=q,
            per=per,
            n_screened=screened,
            n_calibration=len(self.calibration),
            p_cut=cut,
            found=found,
            flagged=flagged,
            warning=resolution_warning(len(self.calibration), screened, q) if screened else None,
        )


def is_discovery(p: float, said: DiscoveryFacts) -> bool:
    """Whether a p-value is among those that would be reported."""
    return said.p_cut is not None and p <= said.p_cut * (1 + 1e-12)
