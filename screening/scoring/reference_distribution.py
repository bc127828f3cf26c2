"""Tonight's values, scores and p-values among those of training.

A held-out score is that of one machine, and a night's score is the mean of several and
spreads less. So for the test of drift, and for it alone, every unit of tonight is
scored by one machine drawn by lot: then it is exchangeable with the held-out rows if
nothing has changed. Of a group one row counts: of an image its highest voxel, of a
patient one visit drawn by lot, since a patient has more visits in years of training
than in a night, and the highest of more is higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort
from screening.identity.hashes import keyed_hashes, short_hashes
from screening.io.columns import coded, count_rows
from screening.metrics.calibration import group_maxima, resolution_warning
from screening.metrics.control import inner_edges, score_cells, shift
from screening.metrics.intervals import rate_interval
from screening.metrics.operating_point import FLAG_EVERYTHING, overall
from screening.metrics.predictive_intervals import Evidence
from screening.model_selection.task import Task
from screening.schemas.base import Estimate
from screening.schemas.model import NumberProfile, TextProfile
from screening.schemas.run import Discoveries, ScoreCounts, ScoreScale, Stopping
from screening.store.model import Model, pad_rows

BINS = 120
# Scores beyond these quantiles may be outliers, which would press all others into one
# bin.
OUTLIER_SHARE = 0.001
FALSE_DISCOVERY_RATE = 0.1
MOST_UNITS = 20_000
# Highest short hash.
ALL_HASHES = 2**32 - 1
# Units that the ledger remembers, so that a patient counts once over several nights.
N_REMEMBERED_UNITS = 500


class ScoreHistogram:
    """Counts scores on equal steps between the lowest and the highest held-out ones.

    What is reviewed as one has one score: a row, or the highest of a patient's rows.

    Attributes
    ----------
    least : float
        Score from which on a row is flagged.
    past : ndarray
        Held-out scores of past cases, ascending.
    """

    def __init__(self, model: Model):
        table = model.held_out
        scores = table["score"]
        positive = Task.of(model.facts.task).is_watched(table["label"]).any(axis=1)
        names = np.arange(count_rows(table))
        if model.contract.group is not None:
            names = table["group"]
        # By hash: NumPy compares each text with each other one.
        is_case = pd.Index(names).isin(names[positive])
        self.past = group_maxima(scores[is_case], names[is_case])
        everyone = group_maxima(scores, names)
        self.low, upper, highest = map(
            float, np.quantile(everyone, [OUTLIER_SHARE, 1 - OUTLIER_SHARE, 1.0])
        )
        # One outlier would leave all others a few steps.
        self.high = min(highest, upper + (upper - self.low) / 4)
        self.least = float(model.thresholds[0]) if len(model.thresholds) == 1 else 0.0
        if abs(self.least) < abs(FLAG_EVERYTHING):
            self.low = min(self.low, self.least)
            self.high = max(self.high, self.least)
        if not self.high > self.low:
            self.low -= 0.5
            self.high += 0.5
        self.tonight = np.zeros(BINS, dtype=np.int64)

    def add(self, scores: np.ndarray) -> None:
        """Count in scores; those beyond either end are in the last bin there."""
        self.tonight += self.count(scores)

    def count(self, scores: np.ndarray) -> np.ndarray:
        """Count the scores in each bin, shape (BINS,)."""
        bins = (np.asarray(scores, float) - self.low) / (self.high - self.low) * BINS
        return np.bincount(np.clip(bins, 0, BINS - 1).astype(np.int64), minlength=BINS)

    def facts(self) -> ScoreScale:
        """Return tonight's scores and those of past cases on the same bins."""
        return ScoreScale(
            low=self.low,
            high=self.high,
            tonight=self.tonight.tolist(),
            past_cases=self.count(self.past).tolist(),
        )

    def stopping(
        self, waiting: Sequence[float], capacity: int | None
    ) -> Stopping | None:
        """Return the share of all cases that a night's reviews would find.

        None if all can be reviewed.

        Parameters
        ----------
        waiting : sequence of float
            Scores of the patients that wait for a review, the highest first.
        capacity : int or None
            Number of reviews that there is room for.
        """
        if capacity is None or len(waiting) <= capacity or not len(self.past):
            return None
        least = waiting[capacity - 1]
        return Stopping(
            reviews=capacity,
            score=float(least),
            n_cases=len(self.past),
            found=self._share_reaching(least),
            all_found=self._share_reaching(self.least),
        )

    def _share_reaching(self, threshold: float) -> Estimate:
        """Return the share of new cases expected at or above a score (METHODS 4)."""
        m = len(self.past)
        hits = int(np.count_nonzero(self.past >= threshold))
        evidence = Evidence(
            hits, m - hits, 0, 0, everything=threshold <= FLAG_EVERYTHING
        )
        low, high = evidence.sensitivity_range()
        if evidence.everything:
            return Estimate(1.0, low, high)
        # A new case is one more among m + 1.
        return Estimate(hits / (m + 1), low, high)


def rarity_range(p_values: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the 95 % interval of the share of past negatives that score as high.

    Parameters
    ----------
    p_values : ndarray of shape (n_rows,)
        Among n past negatives.
    n : int
    """
    at_least = np.rint(np.asarray(p_values, float) * (n + 1)) - 1
    return rate_interval(at_least, np.full(at_least.shape, n))


def among_past(
    past: NumberProfile | TextProfile | None, value: float | str | None
) -> tuple[float | None, float | None]:
    """Return where a value lies among those of the training rows.

    Both results are None for a missing value.

    Returns
    -------
    lower : float or None
        Share of rows with a lower value, half of the rows with the same code, or in the
        same bin, among them. None for texts, and for yes and no, which have no order.
    same : float or None
        Share of rows with the same value; None for values that have an order.
    """
    if past is None or value is None or value != value:
        return None, None
    if isinstance(past, TextProfile):
        return _among_texts(past, value)
    if past.range is None:
        return None, None
    number = float(value)
    counts = np.array(past.counts, float)
    if not past.range[0] <= number <= past.range[1]:
        return float(number > past.range[1]), None
    cell = int(np.searchsorted(past.edges, number, side="left"))
    return float((counts[:cell].sum() + counts[cell] / 2) / counts.sum()), None


def _among_texts(
    past: TextProfile, value: float | str
) -> tuple[float | None, float | None]:
    """Return where a code or text lies among those of the training rows."""
    whole = max(sum(past.counts.values()) + past.more, 1)
    text = value if isinstance(value, str) else f"{value:g}"
    same = past.counts.get(text, 0)
    if isinstance(value, str) or past.counts.keys() <= {"0", "1"}:
        return None, same / whole
    # Codes of an ordinal are ordered.
    below = sum(n for code, n in past.counts.items() if float(code) < value)
    return (below + same / 2) / whole, None


class DiscoveryCounts:
    """Counts p-values by rank, in memory that does not grow with the table."""

    def __init__(self, calibration: np.ndarray):
        self.calibration = calibration
        self.counts = np.zeros(len(calibration) + 1, dtype=np.int64)

    def add(self, p: np.ndarray) -> None:
        """Count in p-values of this calibration, each rank / (n + 1)."""
        self.counts += self.count(p)

    def count(self, p: np.ndarray) -> np.ndarray:
        """Count the p-values of each rank, shape (n + 1,)."""
        ranks = np.rint(np.asarray(p) * len(self.counts)).astype(np.int64)
        return np.bincount(ranks - 1, minlength=len(self.counts))

    def cut(self, q: float = FALSE_DISCOVERY_RATE) -> float | None:
        """Return the largest p-value that Benjamini and Hochberg report, or None.

        `q`: expected share of false ones among those reported.
        """
        among = np.cumsum(self.counts)
        ranks = np.arange(1, len(among) + 1)
        # Multiplied out: whole numbers on one side, so only q can be rounded.
        reaches = ranks * among[-1] <= among * q * len(among) * (1 + 1e-12)
        reported = np.flatnonzero((self.counts > 0) & reaches)
        if not len(reported):
            return None
        return float(ranks[reported[-1]] / len(among))

    def facts(
        self, per: str, flagged: int, q: float = FALSE_DISCOVERY_RATE
    ) -> Discoveries:
        """Return how many of the screened would be reported, and whether any could be.

        Parameters
        ----------
        per : str
            "row" or "group": what is screened.
        flagged : int
        q : float
        """
        cut = self.cut(q)
        n_screened = int(self.counts.sum())
        n_calibration = len(self.calibration)
        found = 0
        if cut is not None:
            found = int(self.counts[: round(cut * len(self.counts))].sum())
        warning = resolution_warning(n_calibration, n_screened, q)
        return Discoveries(
            q=q,
            per=per,
            n_screened=n_screened,
            n_calibration=n_calibration,
            p_cut=cut,
            found=found,
            flagged=flagged,
            warning=warning,
        )


def is_discovery(p: float, discoveries: Discoveries) -> bool:
    """Return True for a p-value among those that would be reported."""
    return discoveries.p_cut is not None and p <= discoveries.p_cut * (1 + 1e-12)


@dataclass(frozen=True)
class DriftUnits:
    """The units of some rows with the lowest hashes; those of two blocks add up.

    At most `MOST_UNITS`, the same ones on every night of as many units. Of a group one
    row counts, the one with the highest rank.

    Parameters
    ----------
    is_grouped : bool
        Units are groups, not rows.
    units : ndarray of uint64, shape (n_units,)
        Short hashes.
    rank : ndarray, shape (n_units,)
    scores : ndarray, shape (n_units,)
    """

    is_grouped: bool
    units: np.ndarray
    rank: np.ndarray
    scores: np.ndarray

    @property
    def limit(self) -> int:
        """Highest hash that units of further rows may have to count."""
        is_full = len(self.units) >= MOST_UNITS
        return int(self.units.max()) if is_full else ALL_HASHES

    def __add__(self, other: DriftUnits) -> DriftUnits:
        both = DriftUnits(
            self.is_grouped,
            np.concatenate([self.units, other.units]),
            np.concatenate([self.rank, other.rank]),
            np.concatenate([self.scores, other.scores]),
        )
        return both.lowest()

    def lowest(self) -> DriftUnits:
        """Return the units that count, each once."""
        counted = np.arange(len(self.units))
        if self.is_grouped:
            counted = _one_a_group(self.units, self.rank)
        if len(counted) > MOST_UNITS:
            units = self.units[counted]
            counted = counted[
                units <= np.partition(units, MOST_UNITS - 1)[MOST_UNITS - 1]
            ]
        return DriftUnits(
            self.is_grouped,
            self.units[counted],
            self.rank[counted],
            self.scores[counted],
        )


class ScoreDrift:
    """Counts a night's units in the cells of the held-out scores.

    Of very many units, rows or groups, only some are scored again, the same ones on
    every night.
    """

    def __init__(self, model: Model):
        self.model = model
        self.is_grouped = bool(model.contract.group)
        self.edges, self.known = reference_counts(model)

    def count(
        self,
        batch: Cohort,
        encoded: np.ndarray,
        id_hashes: np.ndarray | None = None,
        limit: int = ALL_HASHES,
    ) -> DriftUnits:
        """Score the units of one batch again, each by the machine that its hash draws.

        Parameters
        ----------
        batch : Cohort
        encoded : ndarray of shape (n_rows, n_encoded)
        id_hashes : ndarray of uint64, shape (n_rows,), optional
            Keyed hashes of the ids.
        limit : int
            Highest hash of units that are scored.
        """
        model = self.model
        machines = model.facts.validation.folds
        if self.is_grouped:
            hashes = keyed_hashes(np.asarray(batch.group), model.digest)
        elif id_hashes is None:
            hashes = keyed_hashes(batch.id, model.digest)
        else:
            hashes = id_hashes
        among = np.flatnonzero(self._may_count(short_hashes(hashes), limit))
        hashes = hashes[among]
        scores = np.empty(len(among))
        machine = (hashes >> np.uint64(32)) % np.uint64(machines)
        for k in range(machines):
            rows = np.flatnonzero(machine == k)
            if len(rows):
                drawn = pad_rows(encoded[among[rows]])
                decisions = model.ensemble.decision_of(k, drawn)[: len(rows)]
                scores[rows] = overall(
                    decisions[:, model.watched_columns], model.thresholds
                )
        rank = _rank_in_group(model, batch.id[among], scores)
        units = DriftUnits(self.is_grouped, short_hashes(hashes), rank, scores)
        return units.lowest()

    def _may_count(self, units: np.ndarray, limit: int) -> np.ndarray:
        """Return the mask of the rows whose unit may be among the lowest."""
        distinct = np.unique(units) if self.is_grouped else units
        if len(distinct) > MOST_UNITS:
            lowest = np.partition(distinct, MOST_UNITS - 1)[MOST_UNITS - 1]
            limit = min(limit, int(lowest))
        return units <= np.uint64(limit)

    def counts(self, tonight: DriftUnits) -> ScoreCounts:
        """Return what run document and ledger keep."""
        contract = self.model.contract
        units = tonight.units
        cell = score_cells(tonight.scores, self.edges)
        counts = np.bincount(cell, minlength=len(self.known)).tolist()
        # The lowest hashes are a random sample, and the same patients on every night.
        recognised = N_REMEMBERED_UNITS if contract.id or contract.group else 0
        kept = np.argsort(units, kind="stable")[:recognised]
        unit = "group" if contract.group else "row"
        counted = ScoreCounts(
            unit=unit,
            known=(),
            counted=counts,
            who=tuple(units[kept].tolist()),
            cell=tuple(cell[kept].tolist()),
        )
        return compared(counted, self.known)


def compared(tonight: ScoreCounts, known: np.ndarray) -> ScoreCounts:
    """Return a night's counts compared with those known on the same cells."""
    counts = tuple(known.tolist())
    difference = shift(known, tonight.counted)
    if difference is None:
        return tonight.replace(known=counts, distance=None, p=None, higher=False)
    return tonight.replace(known=counts, **vars(difference))


def _rank_in_group(model: Model, ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the ranks by which the row is chosen that a group counts by.

    It is an image's voxel with the highest score, or the row with the highest hash.
    """
    if model.contract.group and not model.contract.coordinates:
        return keyed_hashes(ids, model.digest).astype(float)
    return scores


def _one_a_group(group: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Return the number of the row with the highest rank of each group."""
    order = np.lexsort((rank, group))
    return order[np.diff(group[order], append=np.inf) > 0]


def reference_counts(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells that scores are counted in, and the held-out rows in each.

    If the stated prevalence is not that of the training rows, positives and negatives
    are weighted to it, and the counts are those of as many rows as would know the
    shares as well. Of a group one row counts.

    Returns
    -------
    edges : ndarray of shape (n_cells - 1,)
    known : ndarray of int, shape (n_cells,)
    """
    table = model.held_out
    task = Task.of(model.facts.task)
    points = model.facts.operating_points
    names = []
    for name in task.score_columns:
        # Of several repeats the first: their mean spreads less, as a night's does.
        first = f"{name}@0"
        column = first if first in table else name
        names.append(column)
    scores = overall(np.column_stack([table[name] for name in names]), model.thresholds)
    positive = task.is_watched(table["label"]).any(axis=1)
    stated = points[0].prevalence
    seen = positive.mean()
    weights = np.ones(len(scores))
    if model.contract.group:
        _, group = coded(table["group"])
        counted = _one_a_group(group, _rank_in_group(model, table["id"], scores))
        scores = scores[counted]
        weights = weights[counted]
    elif len(points) == 1 and 0 < seen < 1 and stated is not None:
        weights = np.where(positive, stated / seen, (1 - stated) / (1 - seen))
    edges = inner_edges(scores, weights)
    cells = score_cells(scores, edges)
    share = np.bincount(cells, weights, minlength=len(edges) + 1) / weights.sum()
    effective = weights.sum() ** 2 / np.square(weights).sum()
    return edges, np.rint(share * effective).astype(np.int64)
