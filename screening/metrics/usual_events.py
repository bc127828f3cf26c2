"""How many events of a night the nights before let expect."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import betabinom

from screening.metrics.control import limits

# Probability of a false alarm of a night's flags beside the series' own nights.
ALPHA_FLAGS = 0.001


def usual_events(
    counts: np.ndarray, sizes: np.ndarray, size: int, worth: float
) -> tuple[int, int]:
    """Return the fewest and most events that the nights before let expect of a night.

    Quantiles of the beta-binomial law after these nights (Jeffreys' prior), widened
    where nights differ more than chance explains.

    Parameters
    ----------
    counts, sizes : ndarray of shape (n_nights,)
        Events and trials of the nights before.
    size : int
        Trials of the night.
    worth : float
        Independent trials that a trial of the nights before is worth, <= 1: patients
        who stay are counted on several nights.
    """
    trials = float(sizes.sum())
    events = float(counts.sum())
    a = worth * events + 0.5
    b = worth * (trials - events) + 0.5
    centre = size * a / (a + b)
    tail = ALPHA_FLAGS / 2
    low, high = betabinom.ppf([tail, 1 - tail], size, a, b)
    fixed = limits(counts, sizes)
    spread = 1.0 if fixed is None else fixed.spread
    low = math.floor(centre - spread * (centre - low))
    high = math.ceil(centre + spread * (high - centre))
    return max(low, 0), min(high, size)
