"""Numbers of a column of training that stand for "not known"."""

from __future__ import annotations

import numpy as np

from screening.contract.sentinels import sentinel_counts
from screening.data.measurements import excludes_zero
from screening.data.summary import ColumnSummary


def sentinels_of(name: str, summary: ColumnSummary) -> dict[float, int]:
    """Return the numbers of a column that stand for "not known".

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
