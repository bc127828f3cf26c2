"""From scores to probabilities, if that is justified; and their net benefit.

A score becomes a probability by Platt's logistic regression on held-out scores, above a
floor where low scores have one, if enough cases show that it helps. Whether the machine
itself learned from cases does not matter: held-out cases are all that the regression
needs.

Conformal p-values, ranks among known negatives, are at the end; they are unrelated to
the conformal factor of the kernels, which is geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit, ndtr
from sklearn.linear_model import LogisticRegression

from screening.metrics.chances import (
    above_floor,
    chances_at,
    coefficient_covariance,
    coefficient_gradient,
    floor_gradient,
    line_at,
    log_odds_at,
    net_benefit,
)
from screening.metrics.groups import codes_of, group_codes, sum_by_group
from screening.metrics.intervals import (
    design_effect,
    rate_interval,
    share_range,
    student_size_factor,
)
from screening.schemas.base import Estimate
from screening.schemas.validation import Bin, Calibration, DecisionCurve, Floor, Platt

FEWEST_CASES = 20
"""Cases below which scores are not calibrated."""
_FEWEST_GROUPS = 20
"""Groups, if rows come in groups, below which scores are not calibrated."""
CASES_FOR_SLOPE = 30
"""Cases in another place below which only the intercept of chances is fitted there."""
CASES_FOR_NEW_CURVE = 100
"""Cases in another place from which on its chances owe nothing to the model's own."""
# Largest change of log odds that is looked for.
MAX_SHIFT = 50.0
# Bins of the reliability diagram.
_BINS = 10
# Penalty of the slope: weaker than any data, but perfectly separated scores keep a
# finite slope.
_PENALTY = 1e-3
# Gain of log likelihood from which a floor is kept: without a true floor in 1 %, since
# a floor is not negative (half of the law of one degree of freedom).
_GAIN_OF_FLOOR = 2.7
# Cases from which one is looked for: with fewer, high chances become too high with it.
_CASES_FOR_FLOOR = 50
# How far, in log odds, a floor is looked for below half of the prevalence.
_LOWEST_FLOOR = 10.0
# One-sided 5 % quantile of the normal distribution.
_Z_ONE_SIDED = 1.645
# Two-sided 5 % quantile of the normal distribution.
_Z_TWO_SIDED = 1.96


def calibrate(
    scores: np.ndarray,
    positive: np.ndarray,
    fold: np.ndarray,
    prevalence: float,
    groups: np.ndarray | None = None,
) -> Calibration:
    """Fit Platt scaling to held-out scores and decide whether to show probabilities.

    It is judged by probabilities that each fold gets from the other folds. Rows are
    weighted so that positives have the local prevalence.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
        Held-out scores.
    positive : bool ndarray of shape (n_rows,)
    fold : int ndarray of shape (n_rows,)
    prevalence : float
        At the place of use, 0 to 1.
    groups : ndarray of shape (n_rows,), optional
        Group of each row, an independent unit.

    Returns
    -------
    Calibration
        Probabilities are shown even with misfit: it is stated, and the reliability
        diagram shows it.

    Notes
    -----
    Platt 1999, with a floor where the labels show one (``fit_curve``). On held-out
    thirds of 192 tables that were not used for tuning, bins of new patients lay within
    what this band and the binomial law allow in 98 %, also with 21 to 47 cases; a curve
    limited to what the end bins had observed had a larger log loss.
    """
    codes = group_codes(groups)
    n_cases = int(positive.sum())
    if n_cases < FEWEST_CASES:
        return _not_calibrated(
            f"{n_cases} cases are too few to calibrate it ({FEWEST_CASES} are needed)"
        )
    n_groups = None if codes is None else int(codes.max()) + 1
    if n_groups is not None and n_groups < _FEWEST_GROUPS:
        return _not_calibrated(
            f"{n_groups} patients are too few to calibrate it ({_FEWEST_GROUPS} are "
            "needed)"
        )
    weight = _weights_for_prevalence(positive, prevalence)
    p = _cross_fit(fit_curve, scores, positive, weight, fold)
    constant = np.full(len(p), prevalence)
    gained = weight * (_log_loss(constant, positive) - _log_loss(p, positive))
    if _z(gained, codes) < _Z_ONE_SIDED:
        return _not_calibrated(
            "its probabilities would not be significantly better than the prevalence"
        )
    platt = fit_curve(scores, positive, weight, codes)
    if platt.slope <= 0:
        return _not_calibrated("a higher score does not mean a higher chance")
    return _assess(platt, p, positive, weight, prevalence, codes)


def refit_calibration(
    written: Platt,
    scores: np.ndarray,
    positive: np.ndarray,
    fold: np.ndarray,
    prevalence: float,
    groups: np.ndarray | None = None,
) -> Calibration:
    """Recalibrate a model's probabilities on a cohort of another place.

    The fewer cases there are, the more of the model's own curve is kept, see
    ``refitted_curve``. Figures are of probabilities that each fold gets from the
    others.

    Parameters
    ----------
    written : Platt
        The model's curve.
    scores, positive, fold, prevalence, groups
        As for ``calibrate``, of rows that took no part in training.
    """
    codes = group_codes(groups)
    weight = _weights_for_prevalence(positive, prevalence)
    fit = partial(refitted_curve, written)
    p = _cross_fit(fit, scores, positive, weight, fold)
    curve = fit(scores, positive, weight, codes)
    if curve.slope <= 0:
        return _not_calibrated("a higher score does not mean a higher chance here")
    return _assess(curve, p, positive, weight, prevalence, codes)


def refitted_curve(
    written: Platt,
    scores: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    codes: np.ndarray | None = None,
) -> Platt:
    """Refit a model's curve to rows of another place.

    With fewer than 30 cases the intercept alone is fitted; with fewer than 100
    intercept and slope, both shrunk towards the model's own by the share of the
    likelihood that two coefficients gain by chance (van Houwelingen and le Cessie
    1990); with more the curve is a new one.

    Parameters
    ----------
    written : Platt
    scores, positive, weight, codes
        As for ``fit_platt``.

    Notes
    -----
    Steyerberg 2019, Clinical Prediction Models, chapter 20.
    """
    n_cases = int(positive.sum())
    if n_cases >= CASES_FOR_NEW_CURVE:
        return fit_curve(scores, positive, weight, codes)
    log_odds = log_odds_at(scores, written)
    if n_cases < CASES_FOR_SLOPE:
        shift = _intercept_shift(log_odds, positive, weight)
        p = expit(log_odds + shift)
        sums = sum_by_group(weight * (positive - p), codes)
        information = float((weight * p * (1 - p)).sum())
        variance = float(np.square(sums).sum()) / information**2
        return _moved(written, scores, shift, 1.0, (variance, 0.0, 0.0))
    fitted = fit_platt(log_odds, positive, weight, codes)
    gained = _log_likelihood(log_odds_at(log_odds, fitted), positive, weight)
    gained -= _log_likelihood(log_odds, positive, weight)
    shrinkage = max(0.0, 1 - 1 / gained) if gained > 0 else 0.0
    slope = 1 + shrinkage * (fitted.slope - 1)
    shift = shrinkage * (fitted.intercept - fitted.slope * fitted.centre)
    return _moved(written, scores, shift, slope, fitted.covariance)


def _intercept_shift(
    log_odds: np.ndarray, positive: np.ndarray, weight: np.ndarray
) -> float:
    """Return what is added to log odds so that as many cases are expected as seen."""

    def excess(shift: float) -> float:
        residual = expit(log_odds + shift) - positive
        return float((weight * residual).sum())

    return float(brentq(excess, -MAX_SHIFT, MAX_SHIFT))


def _log_likelihood(
    log_odds: np.ndarray, positive: np.ndarray, weight: np.ndarray
) -> float:
    """Return the weighted log likelihood of labels at these log odds."""
    loss = np.logaddexp(0, np.where(positive, -1, 1) * log_odds)
    return -float((weight * loss).sum())


def _moved(
    written: Platt,
    scores: np.ndarray,
    shift: float,
    slope: float,
    covariance: tuple[float, float, float],
) -> Platt:
    """Return the curve whose log odds are shift + slope times those of another.

    `covariance` is that of intercept and slope on the scale of the log odds, where the
    rows have their mean. With a floor and another slope that is so far below and far
    above the bend of the curve.
    """
    centre = float(np.mean(scores))
    of_intercept, both, of_slope = covariance
    unit = written.slope
    at_centre = float(line_at(np.array([centre]), written)[0])
    intercept = shift + slope * at_centre
    floor = written.floor
    if floor is not None:
        moved = shift + slope * floor.log_odds
        # Far above a floor the log odds are the line's and this term.
        intercept += slope * np.logaddexp(0, floor.log_odds) - np.logaddexp(0, moved)
        of_floor = of_intercept + slope**2 * floor.covariance[0]
        floor = Floor(log_odds=moved, covariance=(of_floor, of_intercept, both * unit))
    return Platt(
        centre=centre,
        intercept=float(intercept),
        slope=slope * unit,
        covariance=(of_intercept, both * unit, of_slope * unit**2),
        range=_range_of(scores),
        floor=floor,
    )


def _range_of(scores: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest score."""
    return float(np.min(scores)), float(np.max(scores))


def _weights_for_prevalence(positive: np.ndarray, prevalence: float) -> np.ndarray:
    """Return weights of rows with which positives have this prevalence, (n_rows,)."""
    share = float(positive.mean())
    of_positive = prevalence / share
    of_negative = (1 - prevalence) / (1 - share)
    return np.where(positive, of_positive, of_negative)


def calibration_elsewhere(
    written: Calibration,
    scores: np.ndarray,
    positive: np.ndarray,
    groups: np.ndarray | None = None,
    prevalence: float | None = None,
) -> Calibration:
    """Compare a model's probabilities with another cohort; nothing is fitted to it.

    Parameters
    ----------
    written : Calibration
        Of the model.
    scores, positive, groups
        As for ``calibrate``, of rows that took no part in training; both classes occur.
    prevalence : float, optional
        At the place of use, if it differs from that of the rows: they are then weighted
        to it.

    Notes
    -----
    `observed_expected` and `intercept` are calibration in the large, `slope` that of
    Cox's logistic recalibration, each with a 95 % interval, by groups if there are
    groups (Steyerberg 2019).
    """
    if written.platt is None:
        return written
    codes = group_codes(groups)
    weight = np.ones(len(scores))
    as_written = chances_at(scores, written.platt)[0]
    p = _bound(as_written)
    share, low, high = share_range(positive, codes).value_and_interval
    if prevalence is not None:
        weight = _weights_for_prevalence(positive, prevalence)
        share = low = high = prevalence
    narrowing = _narrowing(codes)
    low = max(share - (share - low) / narrowing, 0.0)
    high = share + (high - share) / narrowing
    # The sum of the chances on the page, without the bounds that logarithms need.
    expected = float(np.average(as_written, weights=weight))
    if prevalence is not None:
        error = _error_of_expected(as_written, positive, weight, codes)
        wide = _Z_TWO_SIDED * error / narrowing
        low = share * expected / (expected + wide)
        high = share * expected / max(expected - wide, 1e-9)
    assessed = _assess(written.platt, p, positive, weight, share, codes, scores)
    ratio = Estimate(share / expected, low / expected, high / expected)
    return assessed.replace(observed_expected=ratio)


def _narrowing(codes: np.ndarray | None) -> float:
    """Return by how much a normal interval is too narrow for a few groups.

    Few groups determine neither a figure nor its variance well.
    """
    if codes is None:
        return 1.0
    n_groups = int(codes.max()) + 1
    return float(np.sqrt(student_size_factor(n_groups)))


def _mean_of_class(values: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Return for each row the mean of the values of its class."""
    of_positive = values[positive].mean()
    of_negative = values[~positive].mean()
    return np.where(positive, of_positive, of_negative)


def _intercept(
    p: np.ndarray, positive: np.ndarray, weight: np.ndarray, codes: np.ndarray | None
) -> Estimate:
    """Return the calibration intercept with its 95 % interval.

    That is what is missing to the log odds, their slope being 1. Rows that are weighted
    to a known prevalence leave only the chances within each class uncertain.
    """
    log_odds = np.log(p / (1 - p))
    shift = _intercept_shift(log_odds, positive, weight)
    moved = expit(log_odds + shift)
    pull = weight * (positive - moved)
    if np.any(weight != 1):
        pull -= _mean_of_class(pull, positive)
    sums = sum_by_group(pull, codes)
    information = float((weight * moved * (1 - moved)).sum())
    variance = np.square(sums).sum()
    error = float(np.sqrt(variance)) / information
    reach = _Z_TWO_SIDED * error / _narrowing(codes)
    return Estimate(shift, shift - reach, shift + reach)


def _slope(
    p: np.ndarray, positive: np.ndarray, weight: np.ndarray, codes: np.ndarray | None
) -> Estimate:
    """Return the slope of Cox's logistic recalibration with its 95 % interval."""
    refitted = fit_platt(np.log(p / (1 - p)), positive, weight, codes)
    slope = refitted.slope
    error = float(np.sqrt(refitted.covariance[2]))
    reach = _Z_TWO_SIDED * error / _narrowing(codes)
    return Estimate(slope, slope - reach, slope + reach)


def _error_of_expected(
    p: np.ndarray, positive: np.ndarray, weight: np.ndarray, codes: np.ndarray | None
) -> float:
    """Return the standard error of the mean probability at a known prevalence.

    Only the mean probability within each class is then uncertain.
    """
    pull = weight * (p - _mean_of_class(p, positive)) / weight.sum()
    sums = sum_by_group(pull, codes)
    return float(np.sqrt(np.square(sums).sum()))


def _assess(
    platt: Platt,
    p: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    prevalence: float,
    codes: np.ndarray | None,
    scores: np.ndarray | None = None,
) -> Calibration:
    """Return figures of probabilities for rows that they were not fitted to.

    `scores`: where all probabilities come from the curve at these scores, whose own
    variance then counts in the misfit.
    """
    brier = float(np.average((p - positive) ** 2, weights=weight))
    log_loss = float(np.average(_log_loss(p, positive), weights=weight))
    return Calibration(
        earned=True,
        reason=None,
        platt=platt,
        log_loss=log_loss,
        misfit=_misfit(p, positive, weight, codes, platt, scores),
        prevalence=prevalence,
        brier=brier,
        brier_skill=1 - brier / (prevalence * (1 - prevalence)),
        slope=_slope(p, positive, weight, codes),
        intercept=_intercept(p, positive, weight, codes),
        reliability=_reliability(p, positive, weight, codes),
        decision_curve=decision_curve(p, positive, weight),
    )


def _misfit(
    p: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    codes: np.ndarray | None,
    platt: Platt,
    scores: np.ndarray | None,
) -> float:
    """Return the p-value of Spiegelhalter's test of calibration.

    With the scores that the curve made the probabilities of, the variance of its two
    coefficients counts too, by the delta method: a curve of few cases is off by chance.

    Parameters
    ----------
    p, positive, weight : ndarray of shape (n_rows,)
    codes : ndarray of shape (n_rows,), optional
        Rows of one group are added first.
    platt : Platt
    scores : ndarray of shape (n_rows,), optional
    """
    of_row = weight * (positive - p) * (1 - 2 * p)
    sums = sum_by_group(of_row, codes)
    variance = float(np.var(sums)) * len(sums)
    if scores is not None:
        slope_of_p = weight * p * (1 - p)
        gradient = coefficient_gradient(scores, platt).T @ (slope_of_p * (1 - 2 * p))
        variance += float(gradient @ coefficient_covariance(platt) @ gradient)
    # The variance is 0 where every chance is 1/2.
    z = float(sums.sum()) / np.sqrt(max(variance, np.finfo(float).tiny))
    return float(2 * ndtr(-abs(z)))


def fit_platt(
    scores: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    codes: np.ndarray | None = None,
) -> Platt:
    """Fit a logistic regression of labels on scores, with the covariance.

    The covariance of its two coefficients is the inverse information. For rows in
    groups, and for rows weighted to a known prevalence, it is the sandwich of that
    around the squares of what groups or rows contribute to the gradient.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    positive : bool ndarray of shape (n_rows,)
    weight : ndarray of shape (n_rows,)
    codes : int ndarray of shape (n_rows,), optional
        Group of each row.
    """
    centre = float(np.mean(scores))
    spread = float(np.std(scores)) or 1.0
    z = (scores - centre) / spread
    model = LogisticRegression(C=1 / _PENALTY, solver="newton-cholesky", tol=1e-9)
    model.fit(z[:, None], positive, sample_weight=weight)
    p = model.predict_proba(z[:, None])[:, 1]
    design = np.column_stack([np.ones(len(z)), z])
    covariance = _covariance(design, p, positive, weight, codes)
    scale = np.diag([1.0, 1.0 / spread])
    (variance, both), (_, slope_variance) = scale @ covariance @ scale
    return Platt(
        centre=centre,
        intercept=float(model.intercept_[0]),
        slope=float(model.coef_[0, 0]) / spread,
        covariance=(float(variance), float(both), float(slope_variance)),
        range=_range_of(scores),
    )


def _covariance(
    design: np.ndarray,
    p: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    codes: np.ndarray | None,
) -> np.ndarray:
    """Return the covariance of coefficients, see ``fit_platt``.

    Parameters
    ----------
    design : ndarray of shape (n_rows, n_coefficients)
        Derivatives of the log odds by the coefficients, the intercept first and the
        slope second.
    p, positive, weight, codes : ndarray of shape (n_rows,)
    """
    weighted_design = design * (weight * p * (1 - p))[:, None]
    information = design.T @ weighted_design
    information[1, 1] += _PENALTY
    covariance = np.linalg.inv(information)
    known_prevalence = not np.allclose(weight, weight[0])
    if codes is not None or known_prevalence:
        pull = design * (weight * (positive - p))[:, None]
        if known_prevalence:
            # The number of positives then contributes nothing.
            for side in (positive, ~positive):
                pull[side] -= pull[side].mean(axis=0)
        pull = np.column_stack([sum_by_group(column, codes) for column in pull.T])
        n_units = len(pull)
        sandwich = covariance @ (pull.T @ pull) @ covariance
        covariance = sandwich * n_units / (n_units - 1)
    return covariance


def fit_curve(
    scores: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    codes: np.ndarray | None = None,
) -> Platt:
    """Fit Platt's curve, with a floor where low scores have more cases than it says.

    Some cases have nothing in the table that shows them: their share bounds the chance
    of the lowest scores, where a straight line would go on falling. With 50 cases or
    more the floor is kept if it makes the labels significantly more likely.

    Parameters
    ----------
    scores, positive, weight, codes
        As for ``fit_platt``.
    """
    straight = fit_platt(scores, positive, weight, codes)
    if straight.slope <= 0 or positive.sum() < _CASES_FOR_FLOOR:
        return straight
    spread = float(np.std(scores))
    z = (scores - straight.centre) / spread

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        line = at[0] + at[1] * z
        log_odds = above_floor(line, at[2])
        by_line, by_floor = floor_gradient(line, at[2])
        residual = weight * (expit(log_odds) - positive)
        by_line *= residual
        gradient = [by_line.sum(), by_line @ z, residual @ by_floor]
        return -_log_likelihood(log_odds, positive, weight), np.array(gradient)

    share = float(np.average(positive, weights=weight))
    highest = float(logit(share / 2))
    start = [straight.intercept, straight.slope * spread, highest - 1]
    bounds = [(None, None), (None, None), (highest - _LOWEST_FLOOR, highest)]
    likeliest = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    line = log_odds_at(scores, straight)
    gained = -likeliest.fun - _log_likelihood(line, positive, weight)
    intercept, slope, floor = (float(value) for value in likeliest.x)
    if gained < _GAIN_OF_FLOOR or slope <= 0:
        return straight
    line = intercept + slope * z
    by_line, by_floor = floor_gradient(line, floor)
    design = np.column_stack([by_line, by_line * z, by_floor])
    p = expit(above_floor(line, floor))
    covariance = _covariance(design, p, positive, weight, codes)
    scale = np.diag([1.0, 1.0 / spread, 1.0])
    by_intercept, by_slope, of_floor = (scale @ covariance @ scale).tolist()
    return Platt(
        centre=straight.centre,
        intercept=intercept,
        slope=slope / spread,
        covariance=(by_intercept[0], by_intercept[1], by_slope[1]),
        range=straight.range,
        floor=Floor(log_odds=floor, covariance=(of_floor[2], of_floor[0], of_floor[1])),
    )


def likeliest(curves: Sequence[Platt], decisions: np.ndarray) -> np.ndarray:
    """Return the number of the class with the highest probability, (n_rows,).

    Decisions of different classes have different scales and do not say how common a
    class is.

    Parameters
    ----------
    curves : sequence of Platt
        One per class.
    decisions : ndarray of shape (n_rows, n_classes)
    """
    log_odds = [
        log_odds_at(decision, curve)
        for curve, decision in zip(curves, decisions.T, strict=True)
    ]
    return np.argmax(log_odds, axis=0)


def probability_intervals(
    calibration: Calibration | None, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return probabilities and the ends of their 95 % intervals, (n_rows,) each.

    NaN if scores are not calibrated.
    """
    if calibration is None or calibration.platt is None:
        undefined = np.full(len(scores), np.nan)
        return undefined, undefined, undefined
    return chances_at(scores, calibration.platt)


def decision_curve(
    p: np.ndarray, positive: np.ndarray, weight: np.ndarray
) -> DecisionCurve:
    """Return the net benefit of reviewing all rows above a threshold probability.

    It is compared with that of reviewing all; that of reviewing none is 0.

    Parameters
    ----------
    p : ndarray of shape (n_rows,)
        Probabilities.
    positive : bool ndarray of shape (n_rows,)
    weight : ndarray of shape (n_rows,)
    """
    prevalence = float(np.average(positive, weights=weight))
    highest = float(np.clip(4 * prevalence, 0.2, 0.6))
    at = np.linspace(0.01, highest, 40)
    reviewed = p >= at[:, None]
    total = weight.sum()
    true = reviewed @ (weight * positive) / total
    false = reviewed @ (weight * ~positive) / total
    return DecisionCurve(
        threshold=at.tolist(),
        model=net_benefit(true, false, at).tolist(),
        all=net_benefit(prevalence, 1 - prevalence, at).tolist(),
    )


def _not_calibrated(reason: str) -> Calibration:
    return Calibration(earned=False, reason=reason)


def _cross_fit(
    fit: Callable[[np.ndarray, np.ndarray, np.ndarray], Platt],
    scores: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    fold: np.ndarray,
) -> np.ndarray:
    """Return probabilities of each fold by a fit to the other folds, (n_rows,)."""
    p = np.empty(len(scores))
    for number in np.unique(fold):
        test = fold == number
        curve = fit(scores[~test], positive[~test], weight[~test])
        p[test] = chances_at(scores[test], curve)[0]
    return _bound(p)


def _bound(p: np.ndarray) -> np.ndarray:
    """Keep probabilities half a row away from 0 and 1, which no rows can prove."""
    half_row = 0.5 / len(p)
    return np.clip(p, half_row, 1 - half_row)


def _log_loss(p: np.ndarray, positive: np.ndarray) -> np.ndarray:
    return -np.log(np.where(positive, p, 1 - p))


def _z(values: np.ndarray, codes: np.ndarray | None) -> float:
    """Return the mean divided by its standard error, values of a group added first."""
    sums = sum_by_group(values, codes)
    error = float(np.std(sums)) * np.sqrt(len(sums))
    return float(sums.sum()) / error if error > 0 else 0.0


def _reliability(
    p: np.ndarray, positive: np.ndarray, weight: np.ndarray, codes: np.ndarray | None
) -> list[Bin]:
    """Return predicted and observed frequency in tenths of the expected cases.

    Equal predictions stay in one bin. Observed frequencies have 95 % intervals.
    """
    # Tenths of the expected cases, so that the rare high end has bins of its own.
    number = codes_of(p)
    expected = weight * p
    expected_of_p = np.bincount(number, weights=expected)
    reached = np.cumsum(expected_of_p) / expected.sum()
    tenth_of_p = (reached * _BINS * (1 - 1e-12)).astype(int)
    tenth = np.minimum(tenth_of_p, _BINS - 1)[number]
    bins = []
    for bin_number in np.unique(tenth):
        rows = tenth == bin_number
        w = weight[rows]
        observed = np.average(positive[rows], weights=w)
        size = float(w.sum() ** 2 / np.square(w).sum())
        if codes is not None:
            size /= design_effect(positive[rows], codes[rows])
        low, high = rate_interval(observed * size, size)
        bins.append(
            Bin(
                predicted=np.average(p[rows], weights=w),
                observed=Estimate(observed, float(low), float(high)),
                n=rows.sum(),
                size=size,
            )
        )
    return bins


def p_values(calibration: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return conformal p-values: shares of negatives that score at least as high.

    p = (1 + number of calibration scores >= s) / (n + 1), the new row counted among the
    negatives. For a negative that is exchangeable with these, P(p <= j / (n + 1)) is
    j / (n + 1) if scores do not tie, and less if they do (Vovk et al. 2005). The
    p-values are class-conditional: positives take no part.

    Parameters
    ----------
    calibration : ndarray of shape (n,)
        Held-out scores of known negatives, ascending. If rows come in groups, one score
        per group (``group_maxima``); the p-value is then for a group's highest score.
    scores : ndarray of shape (n_rows,)

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    calibration = np.asarray(calibration, float)
    below = np.searchsorted(calibration, np.asarray(scores, float))
    return (1 + len(calibration) - below) / (len(calibration) + 1)


def group_maxima(scores: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the highest score of each group, ascending.

    Rows of one group, such as a patient, are not independent.
    """
    highest = pd.Series(np.asarray(scores, float)).groupby(groups).max()
    return np.sort(highest.to_numpy())


def resolution_warning(
    n_calibration: int, n_screened: int, q: float = 0.1
) -> str | None:
    """Return a warning if no discovery may be possible at false discovery rate q.

    None if a single case could be one. The smallest p-value is 1 / (n + 1): q is
    reached only if m / (q (n + 1)) of m screened rows have it.
    """
    needed = n_screened / (q * (n_calibration + 1))
    if needed <= 1:
        return None
    smallest = 1 / (n_calibration + 1)
    n_needed = np.ceil(needed - 1e-9)
    return (
        f"a false discovery rate of {q:g} among {n_screened} screened rows needs at "
        f"least {n_needed:.0f} above every known negative, because {n_calibration} "
        f"negatives give p-values of {smallest:.2g} or more"
    )
