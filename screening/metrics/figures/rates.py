"""Shares of cases, of others and of all rows that a threshold flags."""

from __future__ import annotations

import math
from operator import attrgetter

import numpy as np

from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.figures.base import (
    NUMBER,
    SHARE,
    Formulas,
    Rates,
    Table,
    complement,
    figure,
)
from screening.metrics.paired import ResampledRows, share_difference
from screening.metrics.predictive_intervals import predictive_interval
from screening.schemas.base import UNDEFINED, Estimate

_OF_BOTH_RATES: tuple[Table, ...] = (
    "subgroups",
    "night_subgroups",
    "outcomes_by_month",
    "labelled_night",
    "own_boundary",
    "operating_point",
    "promise",
    "validate_differences",
    "temporal_validation",
    "side_by_side",
    "baselines",
    "compare",
    "compare_own_ranks",
)


def _ppv_of_rates(rates: Rates) -> Estimate:
    return _by_bayes(rates.prevalence, rates.sensitivity, complement(rates.specificity))


def _npv_of_rates(rates: Rates) -> Estimate:
    return _by_bayes(
        complement(rates.prevalence), rates.specificity, complement(rates.sensitivity)
    )


def _by_bayes(prevalence: Estimate, right: Estimate, wrong: Estimate) -> Estimate:
    """Return the share of rows on a side of the threshold that belong there.

    Parameters
    ----------
    prevalence : Estimate
        Share of rows that belong to this side; taken as known.
    right, wrong : Estimate
        Share that is on this side, of the rows that belong there and of the others.
    """
    share = prevalence.value
    if share is None or right.value is None or wrong.value is None:
        return UNDEFINED
    on_side = share * right.value + (1 - share) * wrong.value
    if not on_side or not 0 < share < 1:
        return UNDEFINED
    low, high = predictive_interval(
        share, right.value_and_interval, wrong.value_and_interval
    )
    return Estimate(share * right.value / on_side, float(low), float(high))


def _nne_of_rates(rates: Rates) -> Estimate:
    return _reciprocal(_ppv_of_rates(rates))


def _reciprocal(share: Estimate) -> Estimate:
    """Return 1 over a share; undefined where it is 0."""
    if not share.value:
        return UNDEFINED
    value, low, high = share.value_and_interval
    return Estimate(1 / value, 1 / high if high else None, 1 / low if low else None)


def _flag_rate_of_rates(rates: Rates) -> Estimate:
    """Return the flag rate at the prevalence, taken as known.

    Without the rate of a class, the flag rate is that of the other.
    """
    sensitivity = rates.sensitivity
    false = complement(rates.specificity)
    if false.value is None:
        return sensitivity
    if sensitivity.value is None:
        return false
    if rates.prevalence.value is None:
        return UNDEFINED
    of_cases = rates.prevalence.value * np.array(sensitivity.value_and_interval, float)
    of_others = (1 - rates.prevalence.value) * np.array(false.value_and_interval)
    value = float(of_cases[0] + of_others[0])
    below = math.hypot(of_cases[0] - of_cases[1], of_others[0] - of_others[1])
    above = math.hypot(of_cases[2] - of_cases[0], of_others[2] - of_others[0])
    return Estimate(value, value - below, value + above)


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
    form=SHARE,
    needs=("cases",),
    tables=_OF_BOTH_RATES,
    order=10,
    formulas=Formulas(
        of_rates=attrgetter("sensitivity"),
        difference=_sensitivity_difference,
        of_samples=attrgetter("sensitivity"),
    ),
)
def sensitivity(rows: EvaluatedRows) -> Estimate:
    """Return the share of cases that is flagged."""
    return rows.sensitivity


@figure(
    title="Specificity",
    help="Share of the others that is not flagged.",
    form=SHARE,
    needs=("others",),
    tables=_OF_BOTH_RATES,
    order=20,
    formulas=Formulas(
        of_rates=attrgetter("specificity"),
        difference=_specificity_difference,
        of_samples=attrgetter("specificity"),
    ),
)
def specificity(rows: EvaluatedRows) -> Estimate:
    """Return the share of others that is not flagged."""
    return rows.specificity


@figure(
    title="PPV",
    help="Share of the flagged rows that are cases.",
    form=SHARE,
    needs=("flagged", "class_sizes"),
    tables=(
        "subgroups",
        "outcomes_by_month",
        "labelled_night",
        "operating_point",
        "promise",
        "side_by_side",
    ),
    order=30,
    formulas=Formulas(of_rates=_ppv_of_rates),
)
def ppv(rows: EvaluatedRows) -> Estimate:
    """Return the share of flagged rows that are cases."""
    return rows.share(rows.positive, rows.flagged)


@figure(
    title="NPV",
    help="Share of the unflagged rows that are not cases.",
    form=SHARE,
    needs=("unflagged", "class_sizes"),
    tables=("subgroups", "labelled_night", "operating_point", "promise"),
    order=40,
    formulas=Formulas(of_rates=_npv_of_rates),
)
def npv(rows: EvaluatedRows) -> Estimate:
    """Return the share of unflagged rows that are others."""
    return rows.share(~rows.positive, ~rows.flagged)


@figure(
    title="Flagged",
    help="Share of all rows that is flagged.",
    form=SHARE,
    better=None,
    needs=("rows",),
    tables=(
        "subgroups",
        "night_subgroups",
        "labelled_night",
        "operating_point",
        "side_by_side",
    ),
    order=90,
    formulas=Formulas(of_rates=_flag_rate_of_rates),
)
def flag_rate(rows: EvaluatedRows) -> Estimate:
    """Return the share of rows that is flagged."""
    return rows.share(rows.flagged, np.ones(len(rows.scores), dtype=bool))


@figure(
    title="Reviews per case",
    help="Number of flagged rows for each case among them.",
    form=NUMBER,
    better="lower",
    needs=("flagged", "class_sizes"),
    tables=("labelled_night", "operating_point"),
    order=35,
    formulas=Formulas(of_rates=_nne_of_rates),
)
def nne(rows: EvaluatedRows) -> Estimate:
    """Return the number needed to evaluate, 1 / PPV."""
    return _reciprocal(rows.share(rows.positive, rows.flagged))


def _accuracy_of_samples(rows: ResampledRows) -> np.ndarray:
    every_row = np.ones(len(rows.scores), dtype=bool)
    return rows.share(rows.flagged == rows.positive, every_row)


@figure(
    title="Accuracy",
    help="Share of all rows that are classified correctly.",
    form=SHARE,
    needs=("rows", "class_sizes"),
    tables=("labelled_night", "own_boundary", "compare_own_ranks"),
    order=5,
    formulas=Formulas(of_samples=_accuracy_of_samples),
)
def accuracy(rows: EvaluatedRows) -> Estimate:
    """Return the share of rows whose flag is right, without an interval."""
    return Estimate(float(np.mean(rows.flagged == rows.positive)))


@figure(
    title="F1",
    help="Harmonic mean of sensitivity and PPV.",
    form=SHARE,
    needs=("cases", "class_sizes"),
    tables=("labelled_night",),
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
    form=SHARE,
    tables=("labelled_night", "own_boundary", "compare", "compare_own_ranks"),
    order=22,
    formulas=Formulas(of_samples=_min_sensitivity_of_samples),
)
def min_sensitivity(rows: EvaluatedRows) -> Estimate:
    """Return the smaller of both rates, without an interval."""
    of_cases = rows.sensitivity.value
    of_others = rows.specificity.value
    assert of_cases is not None and of_others is not None
    return Estimate(min(of_cases, of_others))


def _g_mean_of_samples(rows: ResampledRows) -> np.ndarray:
    return np.sqrt(np.maximum(rows.sensitivity * rows.specificity, 0.0))


@figure(
    title="G-mean",
    help="Geometric mean of sensitivity and specificity.",
    form=SHARE,
    tables=(
        "labelled_night",
        "own_boundary",
        "compare",
        "compare_charts",
        "compare_ranks",
        "compare_own_ranks",
    ),
    order=23,
    formulas=Formulas(of_samples=_g_mean_of_samples),
)
def g_mean(rows: EvaluatedRows) -> Estimate:
    """Return the geometric mean of both rates, without an interval."""
    of_cases = rows.sensitivity.value
    of_others = rows.specificity.value
    assert of_cases is not None and of_others is not None
    return Estimate(float(np.sqrt(of_cases * of_others)))
