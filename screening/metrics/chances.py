"""The chance of a score by a model's curve, with its interval."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from screening.schemas.validation import LARGEST, Platt


def chances_at(
    scores: np.ndarray, curve: Platt
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the chance of each score, and the ends of its 95 % interval.

    Each has shape (n_rows,), 0 to 1. The interval is logit +- 1.96 standard errors of
    the fitted curve at the score; it does not describe how patients differ.
    """
    limited = within_range(scores, curve)
    log_odds = log_odds_at(limited, curve)
    distance = _distances(limited, curve)
    of_intercept, both, of_slope = curve.covariance
    variance = of_intercept + 2 * both * distance + of_slope * distance**2
    error = 1.96 * np.sqrt(np.maximum(variance, 0.0))
    return expit(log_odds), expit(log_odds - error), expit(log_odds + error)


def within_range(scores: np.ndarray, curve: Platt) -> np.ndarray:
    """Return scores limited to the range of the held-out ones, shape (n_rows,)."""
    return scores if curve.range is None else np.clip(scores, *curve.range)


def log_odds_at(scores: np.ndarray, curve: Platt) -> np.ndarray:
    """Return the log odds of the chance of each score, shape (n_rows,).

    Scores beyond the range of the held-out ones are not limited to it.
    """
    return curve.intercept + curve.slope * _distances(scores, curve)


def _distances(scores: np.ndarray, curve: Platt) -> np.ndarray:
    """Return how far each score lies above the centre, shape (n_rows,)."""
    apart = np.asarray(scores, dtype=float) - curve.centre
    return np.clip(apart, -LARGEST, LARGEST)
