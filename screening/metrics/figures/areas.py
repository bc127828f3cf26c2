"""How scores rank cases above others, at any threshold."""

from __future__ import annotations

import numpy as np

from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.figures.base import AREA, Formulas, figure
from screening.metrics.paired import ResampledRows, area_difference
from screening.metrics.ranking import delong, precision_with_interval
from screening.schemas.base import Estimate


def _difference(first: EvaluatedRows, second: EvaluatedRows) -> Estimate:
    return area_difference(
        first.scores,
        second.scores,
        first.positive,
        first.groups,
        variance_inflation=max(first.variance_inflation, second.variance_inflation),
    )


def _area_of_samples(rows: ResampledRows) -> np.ndarray:
    hits, alarms = rows.counts
    n_cases, n_others = rows.sizes
    gained = np.diff(hits, axis=1, prepend=0.0)
    tied = np.diff(alarms, axis=1, prepend=0.0)
    below = alarms[:, -1:] - alarms + tied / 2
    return (gained * below).sum(axis=1) / (n_cases * n_others)


def _precision_of_samples(rows: ResampledRows) -> np.ndarray:
    hits, alarms = rows.counts
    gained = np.diff(hits, axis=1, prepend=0.0)
    # No row of a draw may be above its highest scores.
    precision = gained * hits / np.maximum(hits + alarms, 1e-12)
    return precision.sum(axis=1) / rows.sizes[0]


@figure(
    title="AUROC",
    help="Chance that a case scores higher than another row; 0.5 is guessing.",
    form=AREA,
    needs=("cases", "others", "one_model"),
    tables=(
        "subgroups",
        "outcomes_overall",
        "labelled_night",
        "summary",
        "promise",
        "side_by_side",
        "baselines",
        "members",
        "temporal_validation",
        "validate_differences",
        "compare",
        "compare_charts",
        "compare_ranks",
        "compare_factors",
    ),
    order=60,
    formulas=Formulas(difference=_difference, of_samples=_area_of_samples),
)
def auroc(rows: EvaluatedRows) -> Estimate:
    """Return the area under the ROC curve (DeLong 1988, of groups Obuchowski 1997)."""
    return delong(rows.scores, rows.positive, rows.codes, rows.variance_inflation)


@figure(
    title="Average precision",
    help="Mean PPV over all thresholds; guessing gives the prevalence.",
    form=AREA,
    needs=("cases", "others", "one_model"),
    tables=(
        "labelled_night",
        "summary",
        "side_by_side",
        "compare",
        "compare_charts",
        "compare_ranks",
    ),
    order=65,
    formulas=Formulas(of_samples=_precision_of_samples),
)
def average_precision(rows: EvaluatedRows) -> Estimate:
    """Return the mean precision over the cases, with its bootstrap interval."""
    return precision_with_interval(
        rows.scores, rows.positive, rows.codes, rows.seed, rows.variance_inflation
    )
