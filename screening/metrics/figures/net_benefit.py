"""What acting on the flags is worth (Vickers and Elkin 2006)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from screening.metrics import chances
from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.figures.base import Form, Formulas, Rates, figure
from screening.metrics.groups import sum_by_group
from screening.metrics.intervals import Z, student_size_factor
from screening.metrics.paired import ResampledRows
from screening.schemas.base import UNDEFINED, Estimate


def _of_each_row(rows: EvaluatedRows, chance: float) -> np.ndarray:
    """Return what each row adds to the net benefit, (n_rows,): 0 unless flagged."""
    is_true = rows.flagged & rows.positive
    is_false = rows.flagged & ~rows.positive
    return chances.net_benefit(is_true, is_false, chance)


def _mean(values: np.ndarray, rows: EvaluatedRows) -> Estimate:
    """Return the weighted mean of a value of each row, with its interval.

    It is a ratio of sums of independent groups, or rows; of few groups the interval has
    Student's quantile.
    """
    weight = np.ones(len(values)) if rows.weight is None else rows.weight
    mean = float(np.average(values, weights=weight))
    residuals = weight * (values - mean) / weight.sum()
    sums = sum_by_group(residuals, rows.codes)
    n_units = len(sums)
    if n_units < 2 or not sums.any():
        return Estimate(mean)
    variance = np.square(sums).sum() * n_units / (n_units - 1)
    reach = Z * float(np.sqrt(variance / student_size_factor(n_units)))
    return Estimate(mean, mean - reach, mean + reach)


def _difference(first: EvaluatedRows, second: EvaluatedRows) -> Estimate:
    """Return a paired difference; undefined unless both count reviews at one rate."""
    chance = first.chance_at_threshold
    if chance != second.chance_at_threshold:
        return UNDEFINED
    assert chance is not None
    gain = _of_each_row(first, chance) - _of_each_row(second, chance)
    return _mean(gain, first)


def _of_samples(rows: ResampledRows) -> np.ndarray:
    assert rows.chance_at_threshold is not None
    every_row = np.ones(len(rows.scores), dtype=bool)
    true_share = rows.share(rows.flagged & rows.positive, every_row)
    false_share = rows.share(rows.flagged & ~rows.positive, every_row)
    return chances.net_benefit(true_share, false_share, rows.chance_at_threshold)


def _of_rates(rates: Rates) -> Estimate:
    """Return the net benefit at the chance of the threshold.

    The intervals of both rates and of the prevalence are joined by MOVER (Zou and
    Donner 2008): each contributes by how far its own ends move the net benefit.
    """
    chance = rates.chance_at_threshold
    assert chance is not None
    hit, least_hit, most_hit = rates.sensitivity.value_and_interval
    clear, least_clear, most_clear = rates.specificity.value_and_interval
    share, least_share, most_share = rates.prevalence.value_and_interval
    ends = (least_hit, most_hit, least_clear, most_clear, least_share, most_share)
    if None in ends:
        return UNDEFINED
    benefit = partial(chances.net_benefit_of_rates, chance=chance)
    value = benefit(hit, clear, share)
    # It rises with each of the three.
    below = math.hypot(
        value - benefit(least_hit, clear, share),
        value - benefit(hit, least_clear, share),
        value - benefit(hit, clear, least_share),
    )
    above = math.hypot(
        benefit(most_hit, clear, share) - value,
        benefit(hit, most_clear, share) - value,
        benefit(hit, clear, most_share) - value,
    )
    return Estimate(value, value - below, value + above)


@figure(
    title="Net benefit",
    help="Cases found per row, less unnecessary reviews at the exchange rate of the "
    "threshold; without reviews: 0.",
    form=Form(decimals=3, signed=True, per_hundred="cases per 100 rows"),
    needs=("rows", "chance_at_threshold", "class_sizes"),
    tables=(
        "outcomes_by_month",
        "labelled_night",
        "operating_point",
        "promise",
        "compare",
        "compare_charts",
    ),
    order=55,
    formulas=Formulas(
        of_rates=_of_rates, difference=_difference, of_samples=_of_samples
    ),
)
def net_benefit(rows: EvaluatedRows) -> Estimate:
    """Return the net benefit of the flags."""
    assert rows.chance_at_threshold is not None
    return _mean(_of_each_row(rows, rows.chance_at_threshold), rows)
