"""The share of errors at the threshold."""

import numpy as np

from screening.metrics.figures import SHARE, figure


@figure(
    title="Errors",
    help="Share of all rows that are flagged wrongly or missed.",
    form=SHARE,
    better="lower",
    needs=("rows", "class_sizes"),
    tables=("subgroups",),
    order=95,
)
def error_rate(rows):
    """Return the share of rows whose flag is wrong."""
    every_row = np.ones(len(rows.scores), dtype=bool)
    return rows.share(rows.flagged != rows.positive, every_row)
