"""How much a flag, or its absence, changes the odds of a case (Simel et al. 1991)."""

from __future__ import annotations

import numpy as np

from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.figures.base import (
    NUMBER,
    Formulas,
    Rates,
    Table,
    complement,
    figure,
)
from screening.metrics.intervals import rate_ratio
from screening.metrics.paired import ResampledRows
from screening.schemas.base import UNDEFINED, Estimate

_TABLES: tuple[Table, ...] = (
    "subgroups",
    "outcomes_by_month",
    "labelled_night",
    "own_boundary",
    "operating_point",
    "promise",
    "compare",
)


def _positive_of_samples(rows: ResampledRows) -> np.ndarray:
    return _ratio_of_samples(rows.sensitivity, 1 - rows.specificity)


def _negative_of_samples(rows: ResampledRows) -> np.ndarray:
    return _ratio_of_samples(1 - rows.sensitivity, rows.specificity)


def _ratio_of_samples(rate: np.ndarray, other: np.ndarray) -> np.ndarray:
    return rate / np.where(other > 0, other, np.nan)


def _positive_of_rates(rates: Rates) -> Estimate:
    return _ratio(rates.sensitivity, complement(rates.specificity))


def _negative_of_rates(rates: Rates) -> Estimate:
    return _ratio(complement(rates.sensitivity), rates.specificity)


@figure(
    title="LR+",
    help="Factor by which a flag multiplies the odds of a case; 1: no information.",
    form=NUMBER,
    tables=_TABLES,
    order=50,
    formulas=Formulas(of_rates=_positive_of_rates, of_samples=_positive_of_samples),
)
def positive_likelihood_ratio(rows: EvaluatedRows) -> Estimate:
    """Return sensitivity / (1 - specificity)."""
    return _positive_of_rates(Rates(rows.sensitivity, rows.specificity))


@figure(
    title="LR−",
    help="Factor by which the absence of a flag multiplies the odds; 1: no "
    "information.",
    form=NUMBER,
    better="lower",
    tables=_TABLES,
    order=51,
    formulas=Formulas(of_rates=_negative_of_rates, of_samples=_negative_of_samples),
)
def negative_likelihood_ratio(rows: EvaluatedRows) -> Estimate:
    """Return (1 - sensitivity) / specificity."""
    return _negative_of_rates(Rates(rows.sensitivity, rows.specificity))


def _ratio(rate: Estimate, other: Estimate) -> Estimate:
    """Return one rate over another; undefined where the other is 0."""
    if None in (*rate.value_and_interval, *other.value_and_interval) or not other.value:
        return UNDEFINED
    return Estimate(*rate_ratio(rate.value_and_interval, other.value_and_interval))
