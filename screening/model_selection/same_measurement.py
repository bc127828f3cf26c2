"""Columns that are the same measurement twice, such as INR and prothrombin ratio."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from screening.data.cohort import Cohort
from screening.metrics.ranking import area_either_way

# Correlation of ranks, over rows with both values, above which two numbers may be one
# measurement, and the rows that it is computed on at least, and at most.
MIN_RANK_CORRELATION = 0.95
MIN_COMPARED_ROWS = 20
MAX_COMPARED_ROWS = 5000
# A column is another one's measurement only if what it adds has at most this AUROC.
MAX_AUROC_ADDED = 0.6
# It is looked for among rows with like values of the other: intervals, and their rows.
MAX_INTERVALS = 20
ROWS_AN_INTERVAL = 20


def correlated_pairs(cohort: Cohort, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of numbers with correlated ranks, in either direction."""
    step = max(1, -(-cohort.n_rows // MAX_COMPARED_ROWS))
    table = pd.DataFrame({name: cohort.values[name][::step] for name in names})
    correlations = table.rank().corr(min_periods=MIN_COMPARED_ROWS).abs().to_numpy()
    is_pair = np.triu(correlations > MIN_RANK_CORRELATION, k=1)
    return [(names[i], names[j]) for i, j in np.argwhere(is_pair)]


def same_measurements(
    cohort: Cohort,
    names: Sequence[str],
    pairs: Collection[tuple[str, str]],
    watched: np.ndarray,
) -> list[list[str]]:
    """Return groups of numbers that are the same measurement as their first one.

    That is, which add nothing to it: a column that differs from another one in cases
    alone is a leak, however well they correlate.

    Parameters
    ----------
    cohort : Cohort
    names : sequence of str
        Numbers, the one that ranks best alone first.
    pairs : collection of (str, str)
        Those that are compared.
    watched : bool ndarray of shape (n_classes, n_rows)
        Rows of each watched class.
    """
    groups: list[list[str]] = []
    for name in names:
        for group in groups:
            first = group[0]
            is_pair = (first, name) in pairs or (name, first) in pairs
            if is_pair and _adds_nothing(
                cohort.values[name], cohort.values[first], watched
            ):
                group.append(name)
                break
        else:
            groups.append([name])
    return [group for group in groups if len(group) > 1]


def _adds_nothing(values: np.ndarray, given: np.ndarray, watched: np.ndarray) -> bool:
    """Return True if a number ranks no watched class among rows that are alike.

    Rows are alike in another number, `given`. Compared are how far the ranks of both
    lie apart, in either direction and in size, and which of them has a value. False too
    if that cannot be seen, since no case, or no other row, has both.
    """
    only_one = np.isnan(values).astype(float) - np.isnan(given)
    has_both = only_one == 0
    has_both &= ~np.isnan(values)
    ranks = rankdata(values[has_both])
    of_given = rankdata(given[has_both])
    if (ranks - ranks.mean()) @ (of_given - of_given.mean()) < 0:
        ranks = len(ranks) + 1 - ranks
    n_intervals = max(1, min(MAX_INTERVALS, len(ranks) // ROWS_AN_INTERVAL))
    interval = (of_given - 1) * n_intervals // len(of_given)
    apart = pd.Series(ranks - of_given)
    size = (apart - apart.groupby(interval).transform("median")).abs()
    compared = [_position(apart, interval), _position(size, interval)]
    for positive in watched:
        is_case = positive[has_both]
        if is_case.all() or not is_case.any():
            return False
        areas = [area_either_way(position, is_case) for position in compared]
        areas.append(area_either_way(only_one, positive))
        if max(areas) > MAX_AUROC_ADDED:
            return False
    return True


def _position(values: pd.Series, interval: np.ndarray) -> np.ndarray:
    """Return where values lie among those of their interval, 0 to 1; equal ones at .5.

    Not `rank(pct=True)`: there, equal values lie elsewhere in a smaller interval.
    """
    within = values.groupby(interval)
    position: np.ndarray = ((within.rank() - 0.5) / within.transform("size")).to_numpy()
    return position
