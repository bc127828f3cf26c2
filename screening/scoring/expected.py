"""Cases of a night as its chances expect them: among the flagged, and missed."""

from __future__ import annotations

import numpy as np

from screening.metrics.chances import (
    coefficient_covariance,
    coefficient_gradient,
    within_range,
)
from screening.metrics.intervals import Z
from screening.schemas.base import Estimate
from screening.schemas.run import ExpectedCases
from screening.schemas.validation import Platt
from screening.store.model import Model

# Sums are whole numbers of this, so that they do not depend on how rows are cut.
UNIT = 1e-9
# Derivatives reach further, by the score's distance, and are counted in larger units.
UNIT_OF_GRADIENT = 1e-6
# What such a derivative is limited to.
LARGEST = 1e6
# Rows, chances, variances, and derivatives by intercept, slope and floor.
N_SUMS = 6


def curve_of(model: Model) -> Platt | None:
    """Return the curve of the chances of a model of one class and the rest, if any."""
    if len(model.watched) != 1:
        return None
    calibration = model.facts.validation.calibration.get(model.watched[0])
    return None if calibration is None else calibration.platt


def count_expected(
    curve: Platt | None, scores: np.ndarray, chances: np.ndarray, flagged: np.ndarray
) -> np.ndarray:
    """Sum over flagged rows, and over the others, so that sums add up exactly.

    Parameters
    ----------
    curve : Platt or None
    scores, chances : ndarray of shape (n_rows,)
        NaN where a row has no chance.
    flagged : bool ndarray of shape (n_rows,)

    Returns
    -------
    ndarray of int, shape (2, 6)
        Rows with a chance; chances; their variances; and the derivatives of chances by
        the curve's intercept, slope and floor, 0 without one.
    """
    sums = np.zeros((2, N_SUMS), dtype=np.int64)
    if curve is None:
        return sums
    has_chance = ~np.isnan(chances)
    variance = chances * (1 - chances)
    gradient = coefficient_gradient(within_range(scores, curve), curve)
    gradient = np.clip(variance[:, None] * gradient, -LARGEST, LARGEST)
    for side, rows in enumerate((flagged & has_chance, ~flagged & has_chance)):
        sums[side, 0] = np.count_nonzero(rows)
        columns = [(chances, UNIT), (variance, UNIT)]
        columns += [(values, UNIT_OF_GRADIENT) for values in gradient.T]
        for column, (values, unit) in enumerate(columns, start=1):
            sums[side, column] = np.rint(values[rows] / unit).astype(np.int64).sum()
    return sums


def expected_cases(curve: Platt | None, sums: np.ndarray) -> ExpectedCases | None:
    """Return what is expected of a night; None without chances.

    `sums`: as ``count_expected`` returns them.
    """
    if curve is None or not sums[:, 0].any():
        return None
    whole = sums.sum(axis=0)
    flagged = _number(curve, sums[0])
    ppv = Estimate()
    n_flagged = int(sums[0, 0])
    if n_flagged:
        ends = [
            min((end or 0.0) / n_flagged, 1.0) for end in flagged.value_and_interval
        ]
        ppv = Estimate(*ends)
    return ExpectedCases(
        rows=int(whole[0]),
        cases=_number(curve, whole),
        flagged=flagged,
        missed=_number(curve, sums[1]),
        ppv=ppv,
    )


def _number(curve: Platt, sums: np.ndarray) -> Estimate:
    """Return the expected number of cases, and where it will lie in 95 of 100 nights.

    Chance draws the cases, and the curve itself is uncertain (delta method). The
    interval is symmetric for the square root of the number, which keeps it above zero.
    """
    n_rows = int(sums[0])
    number = float(sums[1] * UNIT)
    drawn = float(sums[2] * UNIT)
    covariance = coefficient_covariance(curve)
    gradient = sums[3 : 3 + len(covariance)] * UNIT_OF_GRADIENT
    error = np.sqrt(max(drawn + gradient @ covariance @ gradient, 0.0))
    if number <= 0:
        return Estimate(0.0, 0.0, 0.0)
    root = np.sqrt(number)
    reach = Z * error / (2 * root)
    low = max(root - reach, 0.0) ** 2
    high = (root + reach) ** 2
    return Estimate(number, float(low), float(min(high, n_rows)))
