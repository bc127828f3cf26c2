"""The chance of a score by a model's curve, and the benefit of acting on chances."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from screening.schemas.figures import BEYOND_SCORES
from screening.schemas.validation import LARGEST, Calibration, Platt


def chances_at(
    scores: np.ndarray, curve: Platt
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the chance of each score, and the ends of its 95 % interval.

    Each has shape (n_rows,), 0 to 1. The interval is logit +- 1.96 standard errors of
    the fitted curve at the score; it does not describe how patients differ.
    """
    limited = within_range(scores, curve)
    log_odds = log_odds_at(limited, curve)
    gradient = coefficient_gradient(limited, curve)
    variance = np.zeros(len(limited))
    # Products of matrices would depend, in the last bit, on how the rows are cut.
    for (i, j), covariance in np.ndenumerate(coefficient_covariance(curve)):
        variance += covariance * gradient[:, i] * gradient[:, j]
    error = 1.96 * np.sqrt(np.maximum(variance, 0.0))
    return expit(log_odds), expit(log_odds - error), expit(log_odds + error)


def chance_at_threshold(
    calibration: Calibration | None, threshold: float
) -> float | None:
    """Return the calibrated chance of a score at a threshold, between 0 and 1.

    None if scores are not calibrated or every row is flagged.
    """
    if calibration is None or calibration.platt is None or threshold <= -BEYOND_SCORES:
        return None
    (chance,), *_ = chances_at(np.array([threshold]), calibration.platt)
    return float(chance) if 0 < chance < 1 else None


def net_benefit(
    true_share: ArrayLike, false_share: ArrayLike, chance: ArrayLike
) -> np.ndarray:
    """Return the net benefit of reviewing rows (Vickers and Elkin 2006).

    These are the cases found per row, less unnecessary reviews at the exchange rate of
    the chance from which on a review is worth its effort.

    Parameters
    ----------
    true_share, false_share : array-like of shape (...)
        Cases, and others, that are reviewed, each as a share of all rows.
    chance : array-like of shape (...)
        Above 0 and below 1.
    """
    chance = np.asarray(chance, float)
    exchange_rate = chance / (1 - chance)
    return (
        np.asarray(true_share, float) - np.asarray(false_share, float) * exchange_rate
    )


def net_benefit_of_rates(
    sensitivity: float, specificity: float, prevalence: float, chance: float
) -> float:
    """Return the net benefit at a sensitivity, specificity and prevalence."""
    false_share = (1 - prevalence) * (1 - specificity)
    return float(net_benefit(prevalence * sensitivity, false_share, chance))


def coefficient_gradient(scores: np.ndarray, curve: Platt) -> np.ndarray:
    """Return derivatives of log odds by intercept, slope and floor (if there is one).

    Shape (n_rows, n_coefficients).
    """
    distance = _distances(scores, curve)
    gradient = np.column_stack([np.ones(len(distance)), distance])
    if curve.floor is None:
        return gradient
    by_line, by_floor = floor_gradient(line_at(scores, curve), curve.floor.log_odds)
    return np.column_stack([gradient * by_line[:, None], by_floor])


def coefficient_covariance(curve: Platt) -> np.ndarray:
    """Return the covariance of intercept, slope and floor (if there is one)."""
    of_intercept, both, of_slope = curve.covariance
    of_line = np.array([[of_intercept, both], [both, of_slope]])
    if curve.floor is None:
        return of_line
    of_floor, *with_line = curve.floor.covariance
    return np.block(
        [[of_line, np.array(with_line)[:, None]], [np.array([*with_line, of_floor])]]
    )


def within_range(scores: np.ndarray, curve: Platt) -> np.ndarray:
    """Return scores limited to the range of the held-out ones, shape (n_rows,)."""
    return scores if curve.range is None else np.clip(scores, *curve.range)


def log_odds_at(scores: np.ndarray, curve: Platt) -> np.ndarray:
    """Return the log odds of the chance of each score, shape (n_rows,).

    Scores beyond the range of the held-out ones are not limited to it.
    """
    line = line_at(scores, curve)
    return line if curve.floor is None else above_floor(line, curve.floor.log_odds)


def line_at(scores: np.ndarray, curve: Platt) -> np.ndarray:
    """Return the log odds of each score without the curve's floor, (n_rows,)."""
    return curve.intercept + curve.slope * _distances(scores, curve)


def above_floor(line: np.ndarray, floor: float) -> np.ndarray:
    """Return the log odds of f + (1 - f) p, where `line` has those of p.

    Parameters
    ----------
    line : ndarray of shape (n_rows,)
    floor : float
        Log odds of f.
    """
    return np.logaddexp(floor, line + np.logaddexp(0.0, floor))


def floor_gradient(line: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivatives of ``above_floor`` by its arguments, (n_rows,) each."""
    by_line = np.exp(line + np.logaddexp(0.0, floor) - above_floor(line, floor))
    return by_line, 1 - by_line * expit(-floor)


def _distances(scores: np.ndarray, curve: Platt) -> np.ndarray:
    """Return how far each score lies above the centre, shape (n_rows,)."""
    apart = np.asarray(scores, dtype=float) - curve.centre
    return np.clip(apart, -LARGEST, LARGEST)
