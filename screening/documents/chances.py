"""The chance of the condition that belongs to a score, by Platt's logistic curve, with its pointwise band."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from screening.documents.validation import Platt

Z95 = 1.96


def chance_band(platt: Platt, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Chance of each score with the ends of its 95 % interval, each of shape (n_rows,), 0 to 1.

    The interval is logit +- 1.96 standard errors of the fitted curve at the score: what is not known of the
    curve, not how patients differ.
    """
    apart = np.asarray(scores, dtype=float) - platt.centre
    logit = platt.intercept + platt.slope * apart
    variance, both, slope_variance = platt.covariance
    error = np.sqrt(np.maximum(variance + 2 * both * apart + slope_variance * apart**2, 0.0))
    return expit(logit), expit(logit - Z95 * error), expit(logit + Z95 * error)
