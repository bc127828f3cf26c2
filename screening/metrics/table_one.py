"""Describe columns by outcome: the first table of a paper, and where a wrong one shows.

Differences are standardised: of means by the pooled standard deviation, of shares and
of categories likewise (Yang and Dalton 2012).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from screening.contract.contract import Feature
from screening.io.columns import Columns, absent
from screening.schemas.model import ColumnByOutcome, GroupOfOutcome, LevelByOutcome

# Rows of a level or a group below which nothing of it is shown, by default.
SMALLEST_CELL = 5
# Levels of a category that are shown.
MAX_LEVELS = 10


def table_one(
    values: Columns,
    features: Mapping[str, Feature],
    is_case: np.ndarray,
    smallest: int = SMALLEST_CELL,
) -> list[ColumnByOutcome]:
    """Return each feature by outcome.

    Parameters
    ----------
    values : dict of str to ndarray of shape (n_rows,)
        As `Cohort.values` has them.
    features : mapping of str to Feature
    is_case : bool ndarray of shape (n_rows,)
    smallest : int
        What fewer rows show is withheld: a level of a category, its share in a group,
        or all of a group.
    """
    columns = []
    for name, feature in features.items():
        column = values[name]
        is_present = ~absent(column)
        groups = []
        for of_group in (is_case, ~is_case):
            present = column[is_present & of_group]
            n_missing = int((of_group & ~is_present).sum())
            groups.append(_group(present, n_missing, feature, smallest))
        levels, n_withheld = _levels(
            column[is_present], is_case[is_present], feature, smallest
        )
        columns.append(
            ColumnByOutcome(
                column=name,
                cases=groups[0],
                others=groups[1],
                levels=levels,
                withheld=n_withheld,
                difference=_difference(
                    column[is_present], is_case[is_present], feature, smallest
                ),
            )
        )
    return columns


def _group(
    present: np.ndarray, n_missing: int, feature: Feature, smallest: int
) -> GroupOfOutcome:
    """Return counts, and of a number the quartiles."""
    quartiles: list[float | None] = [None, None, None]
    if feature.type in ("number", "ordinal") and len(present) >= smallest:
        quartiles = [
            float(value)
            for value in np.quantile(present.astype(float), [0.25, 0.5, 0.75])
        ]
    low, median, high = quartiles
    return GroupOfOutcome(
        present=len(present), missing=n_missing, low=low, median=median, high=high
    )


def _levels(
    present: np.ndarray, is_case: np.ndarray, feature: Feature, smallest: int
) -> tuple[list[LevelByOutcome], int]:
    """Return the shares of levels, the most frequent first, and how many are not shown."""
    if feature.type not in ("boolean", "category"):
        return [], 0
    counts = pd.Series(present).value_counts()
    shown = counts[counts >= smallest].index.tolist()[:MAX_LEVELS]
    if feature.type == "boolean":
        shown = [level for level in shown if level == 1]
    levels = []
    for level in shown:
        has_level = present == level
        shares = []
        for of_group in (is_case, ~is_case):
            shares.append(_share(has_level[of_group], feature, smallest))
        text = feature.format_value(level)
        levels.append(LevelByOutcome(level=text, cases=shares[0], others=shares[1]))
    n_levels = 1 if feature.type == "boolean" else len(counts)
    return levels, n_levels - len(levels)


def _share(has_level: np.ndarray, feature: Feature, smallest: int) -> float | None:
    """Return the share of a group that has a level; None if it shows too few rows."""
    n_rows = len(has_level)
    n_with = int(has_level.sum())
    cells = [n_with]
    if feature.type == "boolean":
        # One level of two tells the other.
        cells.append(n_rows - n_with)
    is_small = any(0 < cell < smallest for cell in cells)
    return None if is_small or not n_rows else n_with / n_rows


def _difference(
    present: np.ndarray, is_case: np.ndarray, feature: Feature, smallest: int
) -> float | None:
    """Return the standardised difference of cases and others; None for too few rows.

    That of a category has no sign.
    """
    if min(is_case.sum(), (~is_case).sum()) < smallest:
        return None
    if feature.type != "category":
        numbers = present.astype(float)
        means = numbers[is_case].mean() - numbers[~is_case].mean()
        spread = np.sqrt((numbers[is_case].var() + numbers[~is_case].var()) / 2)
        return float(means / spread) if spread > 0 else None
    codes, levels = pd.factorize(present)
    shares = []
    for of_group in (is_case, ~is_case):
        counts = np.bincount(codes[of_group], minlength=len(levels))
        # The last level follows from the others.
        shares.append(counts[:-1] / counts.sum())
    gap = shares[0] - shares[1]
    covariance = np.zeros((len(gap), len(gap)))
    for share in shares:
        covariance += (np.diag(share) - np.outer(share, share)) / 2
    return float(np.sqrt(max(gap @ np.linalg.pinv(covariance) @ gap, 0.0)))
