"""Blocks of columns that tell the same: known together, or not at all."""

from __future__ import annotations

import re

import numpy as np
from scipy.sparse.csgraph import connected_components

from screening.data.cohort import Cohort
from screening.io.columns import absent

# Columns whose correlation, of values or of missing cells, exceeds this are one block.
MIN_CORRELATION = 0.95
# A column with fewer, or more, missing cells has no pattern of its own.
MIN_MISSING = 0.01
# Rows that correlations are computed on at most.
MAX_ROWS = 5000
# What the end of a name says of how one quantity was summarised or when it was taken.
SUMMARY_WORDS = frozenset(
    "min max mean median sd std var first last sum delta change slope range iqr count n "
    "low high lowest highest worst best avg average missing flag baseline day".split()
)


def blocks_of(cohort: Cohort) -> list[list[str]]:
    """Return the features in blocks, in the order of the contract.

    Two columns are of one block if they are missing in the same rows, if the absolute
    correlation of their values exceeds .95, or if their names have one stem.
    """
    names = list(cohort.contract.features)
    step = max(1, cohort.n_rows // MAX_ROWS)
    sample = cohort.take(np.arange(0, cohort.n_rows, step))
    masks = np.column_stack([absent(sample.values[name]) for name in names])
    share = masks.mean(axis=0)
    has_pattern = (share >= MIN_MISSING) & (share <= 1 - MIN_MISSING)
    is_joined = _are_correlated(np.where(has_pattern, masks, 0.0))
    is_joined |= _are_correlated(_numbers(sample, names, masks))
    stems = np.array([stem_of(name) for name in names])
    is_joined |= stems[:, None] == stems
    _, codes = connected_components(is_joined, directed=False)
    blocks: dict[int, list[str]] = {}
    for name, code in zip(names, codes.tolist(), strict=True):
        blocks.setdefault(code, []).append(name)
    return list(blocks.values())


def _numbers(cohort: Cohort, names: list[str], masks: np.ndarray) -> np.ndarray:
    """Return the values with the mean for missing ones; 0 for categories."""
    columns = np.zeros(masks.shape)
    for place, name in enumerate(names):
        values = cohort.values[name]
        is_present = ~masks[:, place]
        if values.dtype.kind == "f" and is_present.any():
            mean = values[is_present].mean()
            columns[:, place] = np.where(is_present, values, mean)
    return columns


def _are_correlated(columns: np.ndarray) -> np.ndarray:
    """Return which pairs of columns are correlated, shape (n_columns, n_columns)."""
    centred = columns - columns.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    unit = centred / np.where(length > 0, length, 1.0)
    return np.abs(unit.T @ unit) > MIN_CORRELATION


def stem_of(name: str) -> str:
    """Return a column's name without what says how or when one quantity was taken."""
    words = re.findall(r"[a-z]+|\d+", name.lower())
    while len(words) > 1 and (words[-1] in SUMMARY_WORDS or words[-1].isdigit()):
        words.pop()
    return " ".join(words)
