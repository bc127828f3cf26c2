"""The chance of a score by a model's curve, with its interval."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from screening.schemas.validation import Platt


def chances_at(
    scores: np.ndarray, curve: Platt
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the chance of each score, and the ends of its 95 % interval.

    Each has shape (n_rows,), 0 to 1. The interval is logit +- 1.96 standard errors of
    the fitted curve at the score; it does not describe how patients differ.
    """
    limited = curve.within_range(scores)
    log_odds = curve.log_odds(limited)
    distance = curve.distances(limited)
    of_intercept, both, of_slope = curve.covariance
    variance = of_intercept + 2 * both * distance + of_slope * distance**2
    error = 1.96 * np.sqrt(np.maximum(variance, 0.0))
    return expit(log_odds), expit(log_odds - error), expit(log_odds + error)
