"""Shares of cases, of others and of all rows that a threshold flags."""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.figures.base import Formulas, Table, figure
from screening.metrics.paired import ResampledRows, share_difference
from screening.schemas.base import UNDEFINED, Estimate

_OF_BOTH_RATES: tuple[Table, ...] = (
    "subgroups",
    "night",
    "outcomes",
    "observed",
    "own_boundary",
    "point",
    "promise",
    "side_by_side",
    "baselines",
    "compared",
)


def _sensitivity_difference(first: EvaluatedRows, second: EvaluatedRows) -> Estimate:
    cases = first.take(first.positive)
    by_second = second.take(second.positive)
    return share_difference(cases.flagged, by_second.flagged, groups=cases.groups)


def _specificity_difference(first: EvaluatedRows, second: EvaluatedRows) -> Estimate:
    # Folds differ in specificity, which is of many rows; of a few cases a fold their
    # variance between folds cannot be told from chance.
    without = first.take(~first.positive)
    by_second = second.take(~second.positive)
    return share_difference(
        ~without.flagged, ~by_second.flagged, without.fold, without.groups
    )


@figure(
    title="Sensitivity",
    help="Share of the cases that is flagged.",
    form="share",
    needs=("cases",),
    tables=_OF_BOTH_RATES,
    order=10,
    formulas=Formulas(
        difference=_sensitivity_difference, of_samples=attrgetter("sensitivity")
    ),
)
def sensitivity(rows: EvaluatedRows) -> Estimate:
    """Return the share of cases that is flagged."""
    return rows.sensitivity


@figure(
    title="Specificity",
    help="Share of the others that is not flagged.",
    form="share",
    needs=("others",),
    tables=_OF_BOTH_RATES,
    order=20,
    formulas=Formulas(
        difference=_specificity_difference, of_samples=attrgetter("specificity")
    ),
)
def specificity(rows: EvaluatedRows) -> Estimate:
    """Return the share of others that is not flagged."""
    return rows.specificity


@figure(
    title="PPV",
    help="Share of the flagged rows that are cases.",
    form="share",
    needs=("cases", "others", "flagged"),
    tables=(
        "subgroups",
        "outcomes",
        "observed",
        "point",
        "promise",
        "side_by_side",
    ),
    order=30,
)
def ppv(rows: EvaluatedRows) -> Estimate:
    """Return the share of flagged rows that are cases."""
    return rows.share(rows.positive, rows.flagged)


@figure(
    title="NPV",
    help="Share of the unflagged rows that are not cases.",
    form="share",
    needs=("cases", "others", "unflagged"),
    tables=("subgroups", "observed", "point", "promise"),
    order=40,
)
def npv(rows: EvaluatedRows) -> Estimate:
    """Return the share of unflagged rows that are others."""
    return rows.share(~rows.positive, ~rows.flagged)


@figure(
    title="Flagged",
    help="Share of all rows that is flagged.",
    form="share",
    better=None,
    needs=("rows",),
    tables=("subgroups", "night", "observed", "point", "side_by_side"),
    order=90,
)
def flag_rate(rows: EvaluatedRows) -> Estimate:
    """Return the share of rows that is flagged."""
    return rows.share(rows.flagged, np.ones(len(rows.scores), dtype=bool))


@figure(
    title="Reviews per case",
    help="Number of flagged rows for each case among them.",
    form="ratio",
    better="lower",
    needs=("cases", "others", "flagged"),
    tables=("observed", "point"),
    order=35,
)
def nne(rows: EvaluatedRows) -> Estimate:
    """Return the number needed to evaluate, 1 / PPV."""
    share, low, high = rows.share(rows.positive, rows.flagged).value_and_interval
    return Estimate(*[1 / end if end else None for end in (share, high, low)])


def _accuracy_of_samples(rows: ResampledRows) -> np.ndarray:
    every_row = np.ones(len(rows.scores), dtype=bool)
    return rows.share(rows.flagged == rows.positive, every_row)


@figure(
    title="Accuracy",
    help="Share of all rows that are classified correctly.",
    form="share",
    needs=("rows",),
    tables=("observed", "own_boundary"),
    order=5,
    formulas=Formulas(of_samples=_accuracy_of_samples),
)
def accuracy(rows: EvaluatedRows) -> Estimate:
    """Return the share of rows whose flag is right, without an interval."""
    return Estimate(float(np.mean(rows.flagged == rows.positive)))


@figure(
    title="F1",
    help="Harmonic mean of sensitivity and PPV.",
    form="share",
    needs=("cases",),
    tables=("observed",),
    order=24,
)
def f1(rows: EvaluatedRows) -> Estimate:
    """Return the harmonic mean of sensitivity and PPV, without an interval."""
    hits = int((rows.flagged & rows.positive).sum())
    n_flagged = int(rows.flagged.sum())
    return Estimate(2 * hits / (int(rows.positive.sum()) + n_flagged))


def _min_sensitivity_of_samples(rows: ResampledRows) -> np.ndarray:
    return np.minimum(rows.sensitivity, rows.specificity)


@figure(
    title="Minimum sensitivity",
    help="The smaller of sensitivity and specificity.",
    form="share",
    tables=("observed", "own_boundary", "compared"),
    order=22,
    formulas=Formulas(of_samples=_min_sensitivity_of_samples),
)
def min_sensitivity(rows: EvaluatedRows) -> Estimate:
    """Return the smaller of both rates, without an interval."""
    of_cases = rows.sensitivity.value
    of_others = rows.specificity.value
    if of_cases is None or of_others is None:
        return UNDEFINED
    return Estimate(min(of_cases, of_others))


def _g_mean_of_samples(rows: ResampledRows) -> np.ndarray:
    return np.sqrt(np.maximum(rows.sensitivity * rows.specificity, 0.0))


@figure(
    title="G-mean",
    help="Geometric mean of sensitivity and specificity.",
    form="share",
    tables=("observed", "own_boundary", "compared", "ranked"),
    order=23,
    formulas=Formulas(of_samples=_g_mean_of_samples),
)
def g_mean(rows: EvaluatedRows) -> Estimate:
    """Return the geometric mean of both rates, without an interval."""
    of_cases = rows.sensitivity.value
    of_others = rows.specificity.value
    if of_cases is None or of_others is None:
        return UNDEFINED
    return Estimate(float(np.sqrt(of_cases * of_others)))
