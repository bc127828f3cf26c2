"""Describe columns by outcome: the first table of a paper, and where a wrong one shows.

Differences are standardised: of means by the pooled standard deviation, of shares and
of categories likewise (Yang and Dalton 2012).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from screening.contract.contract import Feature
from screening.io.columns import Columns
from screening.schemas.model import (
    SMALLEST_CELL,
    ColumnByOutcome,
    GroupOfOutcome,
    LevelByOutcome,
)

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
        is_present = ~pd.isna(column)
        present = column[is_present]
        is_case_present = is_case[is_present]
        groups = []
        for of_group, of_present in (
            (is_case, is_case_present),
            (~is_case, ~is_case_present),
        ):
            n_missing = int(np.count_nonzero(of_group & ~is_present))
            groups.append(_group(present, of_present, n_missing, feature, smallest))
        levels: list[LevelByOutcome] = []
        n_withheld = 0
        if feature.type in ("boolean", "category"):
            counts = _counts(present, is_case_present)
            levels, n_withheld = _levels(counts, feature, smallest)
        if min(group.present for group in groups) < smallest:
            difference = None
        elif feature.type == "category":
            difference = _difference_of_levels(counts)
        else:
            difference = _difference_of_means(present.astype(float), is_case_present)
        columns.append(
            ColumnByOutcome(
                column=name,
                cases=groups[0],
                others=groups[1],
                levels=levels,
                withheld=n_withheld,
                difference=difference,
            )
        )
    return columns


def _group(
    present: np.ndarray,
    in_group: np.ndarray,
    n_missing: int,
    feature: Feature,
    smallest: int,
) -> GroupOfOutcome:
    """Count the levels of a group; for numbers compute the quartiles."""
    n_present = int(np.count_nonzero(in_group))
    quartiles: list[float | None] = [None, None, None]
    if feature.type in ("number", "ordinal") and n_present >= smallest:
        numbers = present[in_group].astype(float)
        quartiles = np.quantile(numbers, [0.25, 0.5, 0.75]).tolist()
    low, median, high = quartiles
    return GroupOfOutcome(
        present=n_present, missing=n_missing, low=low, median=median, high=high
    )


def _counts(present: np.ndarray, is_case: np.ndarray) -> pd.DataFrame:
    """Return the rows of each level in the columns `cases` and `others`.

    Levels are in the order in which they first occur.
    """
    codes, levels = pd.factorize(present)
    counts = {
        name: np.bincount(codes[of_group], minlength=len(levels))
        for name, of_group in (("cases", is_case), ("others", ~is_case))
    }
    return pd.DataFrame(counts, index=pd.Index(levels, dtype=object))


def _levels(
    counts: pd.DataFrame, feature: Feature, smallest: int
) -> tuple[list[LevelByOutcome], int]:
    """Return shares of levels, the most frequent first, and how many are withheld."""
    n_rows = counts.sum()
    total = counts.sum(axis=1)
    frequent = total[total >= smallest].sort_values(ascending=False, kind="stable")
    listed = frequent.index.tolist()[:MAX_LEVELS]
    if feature.type == "boolean":
        listed = [level for level in listed if level == 1]
    levels = []
    for level in listed:
        with_level = counts.loc[level]
        levels.append(
            LevelByOutcome(
                level=feature.format_value(level),
                cases=_share(with_level.cases, n_rows.cases, feature, smallest),
                others=_share(with_level.others, n_rows.others, feature, smallest),
            )
        )
    n_levels = 1 if feature.type == "boolean" else len(counts)
    return levels, n_levels - len(levels)


def _share(n_with: int, n_rows: int, feature: Feature, smallest: int) -> float | None:
    """Return the share of a group that has a level; None if it shows too few rows."""
    cells = [n_with]
    if feature.type == "boolean":
        # One level of two determines the other.
        cells.append(n_rows - n_with)
    is_small = any(0 < cell < smallest for cell in cells)
    return None if is_small or not n_rows else float(n_with / n_rows)


def _difference_of_means(numbers: np.ndarray, is_case: np.ndarray) -> float | None:
    """Return the standardised difference; None where no value varies."""
    means = numbers[is_case].mean() - numbers[~is_case].mean()
    variance = (numbers[is_case].var() + numbers[~is_case].var()) / 2
    spread = np.sqrt(variance)
    return float(means / spread) if spread > 0 else None


def _difference_of_levels(counts: pd.DataFrame) -> float | None:
    """Return the standardised difference of a category, which has no sign.

    None where no level has rows of both groups: the difference has no bound.

    Notes
    -----
    With p and q the shares of levels in the groups, m their mean and g = p - q, the
    mean of both covariances is diag(m) - m m^T - g g^T / 4. By Sherman and Morrison g^T
    C^-1 g = s / (1 - s / 4), where s is the sum of g^2 / m.
    """
    cases = counts["cases"] / counts["cases"].sum()
    others = counts["others"] / counts["others"].sum()
    if not (cases * others).any():
        return None
    squares = (cases - others) ** 2 / ((cases + others) / 2)
    distance = float(squares.sum())
    return float(np.sqrt(distance / (1 - distance / 4)))
