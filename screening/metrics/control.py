"""Control charts of shares: which nights lie further from the usual than chance takes them.

The p-chart of Shewhart, with its limits for nights of different sizes, and Laney's p' where nights differ by
more than chance (Laney, Quality Engineering 14, 2002: "Improved control charts for attributes").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import betabinom

SIGMAS = 3.0
TAIL = 0.00135
"""Chance beyond a limit on one side: what three sigmas leave of a normal distribution."""

BASELINE = 20
"""Nights that fix centre and limits of a phase; what comes later changes neither."""

LEAST = 10
"""Nights below which there are no limits yet."""

MANY = 100
"""Expected events from which on three sigmas are as seldom passed as of a normal distribution."""

# Mean distance of two draws from a normal distribution, in its standard deviations.
RANGE_OF_TWO = 1.128


@dataclass(frozen=True)
class Limits:
    """Centre and limits, as the nights of a baseline fix them."""

    count: float  # events in the baseline
    of: float  # what they are a share of
    # >= 1, Laney's sigma of z: how much more the nights differ than chance explains; 1 is a p-chart
    spread: float

    @property
    def centre(self) -> float:
        """Share of the baseline."""
        return self.count / self.of

    def at(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Low and high limit of shares of so many, `sizes` (n_nights,) being whole numbers above 0.

        Three sigmas, or where chance alone passes them more than once in 740 nights, since counts are small
        or the baseline is, the bound that it passes so seldom.
        """
        variance = self.centre * (1 - self.centre) * (1 / sizes + 1 / self.of)
        reach = SIGMAS * self.spread * np.sqrt(variance)
        high = np.maximum(self.centre + reach, _seldom_above(sizes, self.count, self.of))
        low = np.minimum(self.centre - reach, 1 - _seldom_above(sizes, self.of - self.count, self.of))
        return np.clip(low, 0, 1), np.clip(high, 0, 1)


def limits(counts: np.ndarray, sizes: np.ndarray) -> Limits | None:
    """Centre and spread of a baseline, from events and what they are a share of, (n_nights,) each.

    Nights of size 0 are left out; None below `LEAST` nights.
    """
    counts, sizes = counts[sizes > 0], sizes[sizes > 0]
    if len(sizes) < LEAST:
        return None
    count, of = float(counts.sum()), float(sizes.sum())
    share = count / of
    spread = 1.0
    if 0 < share < 1:
        z = (counts / sizes - share) / np.sqrt(share * (1 - share) / sizes)
        # Patients who stay make neighbours alike: moving ranges alone would then take too little for usual.
        spread = max(1.0, float(np.abs(np.diff(z)).mean()) / RANGE_OF_TWO, float(z.std(ddof=1)))
    return Limits(count, of, spread)


def _seldom_above(sizes: np.ndarray, count: float, of: float) -> np.ndarray:
    """The share that chance exceeds with probability `TAIL` at most, its own rate known from a baseline.

    Quantile of the beta-binomial distribution: how many of `size`, after `count` of `of` (Jeffreys' prior);
    0 where `MANY` or more are expected.
    """
    a, b = count + 0.5, of - count + 0.5
    each, place = np.unique(np.where(sizes * a / (a + b) < MANY, sizes, 0), return_inverse=True)
    mean = each * a / (a + b)
    # So far out that nothing is left beyond, whatever the rate; `betabinom.ppf` looks at one night at a time.
    furthest = np.minimum(each, np.ceil(mean + 12 * np.sqrt(mean * (1 + each / of)) + 40))
    mass = betabinom.pmf(np.arange(furthest.max() + 1), each[:, None], a, b)
    reached = np.argmax(np.cumsum(mass, axis=1) >= 1 - TAIL, axis=1)
    return np.asarray((reached / np.maximum(each, 1))[place])
