"""The chance of the condition that belongs to a score, by Platt's logistic curve, with its pointwise band."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from screening.documents.validation import Platt

Z95 = 1.96


def log_odds(platt: Platt, scores: np.ndarray) -> np.ndarray:
    """Log odds of the chance of each score, shape (n_rows,)."""
    return platt.intercept + platt.slope * (np.asarray(scores, dtype=float) - platt.centre)


def likeliest(chances: Sequence[Platt], decisions: np.ndarray) -> np.ndarray:
    """Number of the class with the highest chance, (n_rows,); `decisions`, (n_rows, n_classes).

    Scores of different classes are on scales of their own, and say nothing of how common a class is.
    """
    odds = [log_odds(platt, own) for platt, own in zip(chances, decisions.T, strict=True)]
    return np.argmax(odds, axis=0)


def chance_band(platt: Platt, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Chance of each score with the ends of its 95 % interval, each of shape (n_rows,), 0 to 1.

    The interval is logit +- 1.96 standard errors of the fitted curve at the score: what is not known of the
    curve, not how patients differ.
    """
    logit, apart = log_odds(platt, scores), np.asarray(scores, dtype=float) - platt.centre
    variance, both, slope_variance = platt.covariance
    error = np.sqrt(np.maximum(variance + 2 * both * apart + slope_variance * apart**2, 0.0))
    return expit(logit), expit(logit - Z95 * error), expit(logit + Z95 * error)
