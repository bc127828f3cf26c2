"""Numbers that mean "not known" in a column, such as -9 or 999.9."""

from __future__ import annotations

import numpy as np

from screening.data.measurements import excludes_zero
from screening.data.summary import ColumnSummary

# A number that is not a usual code must be in so many rows, and a usual code in two.
MIN_ROWS = 3
MIN_ROWS_OF_CODE = 2
# Beside fewer distinct values only a usual code is recognised: grades of 0, 1 and 5
# are apart, and -1 beside 1 is an answer.
MIN_OTHER_VALUES = 5
MIN_OTHER_VALUES_OF_CODE = 2


def _codes_for_unknown() -> frozenset[float]:
    """Return numbers written for "not known", such as -1, -9, 99, -999 and 8888."""
    codes = {-1.0, -7.0, -8.0, -9.0}
    for digit in "789":
        for length in range(2, 16):
            code = float(digit * length)
            codes |= {code, -code}
    return frozenset(codes)


CODES = _codes_for_unknown()


def is_usual_code(value: float) -> bool:
    """Return True for a number written for "not known", such as -9, 999 and 99.99."""
    digits = f"{abs(value):g}".replace(".", "")
    is_one_digit = len(digits) > 1 and digits == digits[0] * len(digits)
    return value in CODES or (is_one_digit and digits[0] in "789")


def sentinel_counts(values: np.ndarray) -> dict[float, int]:
    """Count the numbers of a column that mean "not known".

    Such a number is repeated and the lowest or highest one. It is apart from all
    others by more than their range, or it alone is negative. Zero is none of them:
    counts and amplitudes are 0 as well.

    Parameters
    ----------
    values : ndarray of float, shape (n_values,)
        Finite numbers.
    """
    # Most columns have no such number at an end, and need no sorting.
    ends = (float(values.min()), float(values.max()))
    is_repeated = any((values == end).sum() >= MIN_ROWS for end in ends)
    if CODES.isdisjoint(ends) and not is_repeated:
        return {}
    distinct, counts = np.unique(values, return_counts=True)
    is_sentinel = _are_codes(distinct, counts)
    while True:
        rest = np.flatnonzero(~is_sentinel)
        if rest.size <= MIN_OTHER_VALUES:
            break
        apart = [
            end
            for end in (rest[0], rest[-1])
            if counts[end] >= MIN_ROWS and _is_apart(distinct[end], distinct[rest])
        ]
        if not apart:
            break
        is_sentinel[apart[0]] = True
    sentinels = distinct[is_sentinel].tolist()
    return dict(zip(sentinels, counts[is_sentinel].tolist(), strict=True))


def _are_codes(distinct: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return a mask of the repeated usual codes that are apart from the others.

    Where every negative number is a repeated code, all of them are.
    """
    is_code = np.isin(distinct, list(CODES)) & (counts >= MIN_ROWS_OF_CODE)
    others = distinct[~is_code]
    if not is_code.any() or others.size < MIN_OTHER_VALUES_OF_CODE:
        return np.zeros(distinct.size, dtype=bool)
    width = others[-1] - others[0]
    is_apart = (distinct < others[0] - width) | (distinct > others[-1] + width)
    if others[0] >= 0 and others.size >= MIN_OTHER_VALUES:
        is_apart |= (distinct < 0) & (counts >= MIN_ROWS)
    return is_code & is_apart


def _is_apart(value: float, rest: np.ndarray) -> bool:
    """Return True if an end of sorted numbers is apart, or the only negative one."""
    others = rest[rest != value]
    if value == 0:
        return False
    lowest = others[0]
    highest = others[-1]
    if value < 0 <= lowest:
        return True
    gap = lowest - value if value < lowest else value - highest
    return bool(gap > highest - lowest)


def sentinels_of(name: str, summary: ColumnSummary) -> dict[float, int]:
    """Return the numbers of a column that mean "not known".

    Among them is 0 where name and unit are of a measurement that is never 0.

    Returns
    -------
    dict of float to int
        The number of cells of each; an estimate where only a sample is held.
    """
    sample = summary.sample
    counts = sentinel_counts(sample) if sample.size else {}
    usual = sample[~np.isin(sample, [0.0, *counts])]
    n_zeros = int(np.count_nonzero(sample == 0))
    # Beside 1 alone a 0 is the answer no.
    answers_no = bool(np.all(usual == 1))
    if n_zeros and usual.size and not answers_no:
        low, high = np.percentile(usual, [1, 99])
        if excludes_zero(name, None, float(low), float(high)):
            counts[0.0] = n_zeros
    return {
        value: round(count * summary.numbers / sample.size)
        for value, count in counts.items()
    }
