"""Grouping redundant features into blocks, to be left out together."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components

from screening.data.cohort import Cohort

# Columns with a larger correlation, of values or of missing cells, are one block.
MIN_CORRELATION = 0.95
# Missing cells are compared only for columns with a share of them of at least this, and
# at most 1 less this.
MIN_MISSING_SHARE = 0.01
# Correlations are computed on every k-th row, at most so many.
MAX_ROWS = 5000
# What the end of a name says of how one quantity was summarised or when it was taken.
SUMMARY_WORDS = frozenset(
    "min max mean median sd std var first last sum delta change slope range iqr count n"
    " low high lowest highest worst best avg average missing flag baseline day".split()
)


def correlated_blocks(
    cohort: Cohort, joined: Sequence[Sequence[str]] = ()
) -> list[list[str]]:
    """Return the features in blocks, in the order of the contract.

    Two columns are joined if they are in one group of `joined`, if the correlation of
    their missing cells, or the absolute correlation of their values, exceeds
    `MIN_CORRELATION`, or if their names have one stem. Blocks are the connected
    components: two columns of a block need not be joined directly.
    """
    names = list(cohort.contract.features)
    step = max(1, -(-cohort.n_rows // MAX_ROWS))
    sample = cohort.take(np.arange(0, cohort.n_rows, step))
    masks = np.column_stack([pd.isna(sample.values[name]) for name in names])
    share = masks.mean(axis=0)
    has_pattern = (share >= MIN_MISSING_SHARE) & (share <= 1 - MIN_MISSING_SHARE)
    of_masks = _correlations(np.where(has_pattern, masks, 0.0))
    of_values = _correlations(_imputed_values(sample, names, masks))
    is_joined = of_masks > MIN_CORRELATION
    is_joined |= np.abs(of_values) > MIN_CORRELATION
    stems = np.array(list(map(stem_of, names)))
    is_joined |= stems[:, None] == stems
    for group in joined:
        in_group = np.isin(names, group)
        is_joined |= in_group[:, None] & in_group
    _, codes = connected_components(is_joined, directed=False)
    blocks: dict[int, list[str]] = {}
    for name, code in zip(names, codes.tolist(), strict=True):
        blocks.setdefault(code, []).append(name)
    return list(blocks.values())


def _imputed_values(cohort: Cohort, names: list[str], masks: np.ndarray) -> np.ndarray:
    """Return the values with the mean for missing ones; 0 for categories."""
    columns = np.zeros(masks.shape)
    for column, name in enumerate(names):
        values = cohort.values[name]
        is_present = ~masks[:, column]
        if values.dtype.kind == "f" and is_present.any():
            mean = values[is_present].mean()
            columns[:, column] = np.where(is_present, values, mean)
    return columns


def _correlations(columns: np.ndarray) -> np.ndarray:
    """Return the correlations of columns, (n_columns, n_columns); 0 of constants."""
    is_constant = np.ptp(columns, axis=0) == 0
    centred = np.where(is_constant, 0.0, columns - columns.mean(axis=0))
    length = np.linalg.norm(centred, axis=0)
    unit = centred / np.where(is_constant, 1.0, length)
    correlations: np.ndarray = unit.T @ unit
    return correlations


def stem_of(name: str) -> str:
    """Return a name without trailing numbers and `SUMMARY_WORDS`.

    `lactate_max_day1` becomes `lactate`.
    """
    words = re.findall(r"[a-z]+|\d+", name.lower())
    while len(words) > 1:
        last = words[-1]
        if last not in SUMMARY_WORDS and not last.isdigit():
            break
        words.pop()
    return " ".join(words)
