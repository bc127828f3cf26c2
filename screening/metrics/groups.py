"""Rows that come in groups, such as those of one patient: numbers and counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def codes_of(values: ArrayLike) -> np.ndarray:
    """Return the number of each value among the distinct ones, ascending, (n,)."""
    _, codes = np.unique(np.asarray(values), return_inverse=True)
    return codes.ravel()


def group_codes(groups: ArrayLike | None) -> np.ndarray | None:
    """Return numbers 0, 1, ... of the groups; None if rows are independent.

    They are without groups, or if every row is a group of its own.
    """
    if groups is None:
        return None
    codes = codes_of(groups)
    n_groups = codes.max(initial=-1) + 1
    return None if n_groups == len(codes) else codes


def units_of(chosen: np.ndarray, codes: np.ndarray | None) -> int:
    """Return the number of chosen rows, or of groups with chosen rows."""
    if codes is None:
        return int(chosen.sum())
    return len(np.unique(codes[chosen]))


def fewest_units(positive: np.ndarray, codes: np.ndarray | None) -> int:
    """Return the number of rows, or groups, of the class that has the fewest."""
    return min(units_of(positive, codes), units_of(~positive, codes))


def sum_by_group(values: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
    """Sum the values of each group; independent rows keep theirs."""
    return values if codes is None else np.bincount(codes, weights=values)
