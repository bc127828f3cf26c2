"""What calibrated chances promise, against what was seen."""

from __future__ import annotations

import numpy as np

from screening.metrics.calibration import observed_over_expected
from screening.metrics.figures.base import figure
from screening.metrics.judged_rows import JudgedRows
from screening.schemas.base import UNDEFINED, Estimate


@figure(
    title="Observed / expected",
    help="Number of cases over the sum of their chances; over 1, chances are too low.",
    form="ratio",
    better=None,
    needs=("cases", "others", "chance"),
    tables=("subgroups", "nights"),
    place=70,
)
def observed_expected(rows: JudgedRows) -> Estimate:
    """Return the number of cases over the sum of the rows' chances."""
    if rows.chance is None:
        return UNDEFINED
    weight = np.ones(len(rows.scores)) if rows.weight is None else rows.weight
    return observed_over_expected(rows.chance, rows.positive, weight, rows.codes)
