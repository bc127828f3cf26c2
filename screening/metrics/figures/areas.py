"""How scores rank cases above others, at any threshold."""

from __future__ import annotations

from screening.metrics.figures.base import figure
from screening.metrics.judged_rows import JudgedRows
from screening.metrics.paired import area_difference
from screening.metrics.ranking import auroc_with_interval, precision_with_interval
from screening.schemas.base import UNDEFINED, Estimate


def _difference(rows: JudgedRows, others: JudgedRows) -> Estimate:
    return area_difference(
        rows.scores,
        others.scores,
        rows.positive,
        rows.groups,
        variance_inflation=max(rows.variance_inflation, others.variance_inflation),
    )


@figure(
    title="AUROC",
    help="Chance that a case scores higher than another row; 0.5 is guessing.",
    form="area",
    tables=("subgroups", "nights", "observed", "beside", "members", "factors"),
    place=60,
    paired=_difference,
)
def auroc(rows: JudgedRows) -> Estimate:
    """Return the area under the ROC curve (DeLong 1988, of groups Obuchowski 1997)."""
    if rows.positive.all() or not rows.positive.any():
        return UNDEFINED
    area = auroc_with_interval(
        rows.scores, rows.positive, rows.codes, rows.variance_inflation
    )
    return Estimate(*area)


@figure(
    title="Average precision",
    help="Mean PPV over all thresholds; guessing gives the prevalence.",
    form="area",
    tables=("observed",),
    place=65,
)
def average_precision(rows: JudgedRows) -> Estimate:
    """Return the mean precision over the cases, with its bootstrap interval."""
    if rows.positive.all() or not rows.positive.any():
        return UNDEFINED
    return precision_with_interval(rows.scores, rows.positive, rows.codes)
