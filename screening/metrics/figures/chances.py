"""What calibrated chances promise, against what was seen."""

from __future__ import annotations

import numpy as np

from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.figures.base import NUMBER, figure
from screening.metrics.groups import sum_by_group
from screening.metrics.intervals import Z
from screening.schemas.base import UNDEFINED, Estimate


@figure(
    title="Observed / expected",
    help="Observed over expected cases (sum of chances); above 1, chances are too low.",
    form=NUMBER,
    better=None,
    needs=("rows", "chance", "class_sizes"),
    tables=("subgroups", "outcomes_overall"),
    order=70,
)
def observed_expected(rows: EvaluatedRows) -> Estimate:
    """Return the number of cases over the sum of the rows' chances.

    The logarithm of the ratio is taken for normal, by groups where rows come in groups.
    """
    assert rows.chance is not None
    weight = np.ones(len(rows.scores)) if rows.weight is None else rows.weight
    expected = float((weight * rows.chance).sum())
    # NaN if a row has no chance.
    if not expected > 0:
        return UNDEFINED
    observed = float((weight * rows.positive).sum())
    if not observed:
        return Estimate(0.0)
    ratio = observed / expected
    residual = weight * (rows.positive - ratio * rows.chance)
    sums = sum_by_group(residual, rows.codes)
    n = len(sums)
    variance = np.square(sums).sum() * n / max(n - 1, 1)
    error = float(np.sqrt(variance)) / observed
    factor = float(np.exp(Z * error))
    return Estimate(ratio, ratio / factor, ratio * factor)
