"""Drift over nights: a site's columns, scores and flags beside their own nights before.

The recent nights of a series are compared with the ninety before them, by the mean rank
of a column's values (Mann-Whitney) or by a share of patients. A patient who lies
several nights is counted on each, so the width of a difference is that of a sum over
patients: it grows with the squares of the nights that each of them lies. An analyser
serves every ward, so the site is tested first: the differences of all series that have
a column, each weighted by how certainly it is known, are one statistic. Then each
series is tested alone.

Everything here is a function of counts by night; ledger and pages are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from screening.monitoring.drift import STAY_UNKNOWN, independent

WINDOWS = (7, 14, 28)
"""Numbers of recent nights that are compared with the nights before them."""

REFERENCE = 90
"""Nights before the recent ones that these are compared with."""

MIN_REFERENCE = 20
"""Nights before the recent ones below which a series is not tested."""

# Expected false names of a site in a quarter, of all its columns: one a year in all.
FALSE_NAMES_OF_SITE = 0.05
FALSE_NAMES_OF_WARDS = 0.2
# How much more often one of the looks of a quarter is beyond a bound than one look by
# chance: all windows, every night (`benchmarks/column_drift.py`, up to 106).
LOOKS_A_QUARTER = 150
# Difference of mean ranks (of a largest 0.5) or of shares from which it is worth a word.
WORTH_SAYING = 0.02
# Log-likelihood below the largest up to which a night may be that of the change.
LOG_LIKELIHOOD_BELOW = 1.0
# Number of standard errors from which a series is named as part of a site's change.
CLEAR_IN_SERIES = 2.0


@dataclass(frozen=True, eq=False)
class SeriesNights:
    """What one series counted on its nights, in order.

    Parameters
    ----------
    nights : sequence of str
        Dates, ascending.
    counts : mapping of Measure to ndarray of shape (n_nights, n_bins)
        Rows of each night in ordered bins; two bins are a share.
    patients : sequence of sequences of int
        Hashes of patients of each night; an empty one where nobody is recognised.
    sizes : ndarray of shape (n_nights,)
        Patients of each night. Of many patients the hashes are a sample.
    """

    nights: Sequence[str]
    counts: Mapping[Measure, np.ndarray]
    patients: Sequence[Sequence[int]]
    sizes: np.ndarray


class Measure(NamedTuple):
    """One thing that is compared over nights.

    Parameters
    ----------
    kind : {"values", "missing", "scores", "flags"}
        Of "values" and "missing" all series that have the column are tested together.
    column : str
        Empty for scores and flags.
    """

    kind: str
    column: str = ""

    @property
    def is_of_site(self) -> bool:
        """Return True if one source may serve all series that have it."""
        return self.kind in ("values", "missing")


class Difference(NamedTuple):
    """Difference of recent nights from those before, in one series or in several.

    Parameters
    ----------
    effect : float
        Difference of mean ranks or shares, in standard deviations of a patient's.
    variance : float
        Of `effect`, with the dependence of nights that patients share.
    skew : float
        Skewness of `effect` where nothing changed.
    raw : float
        Difference of mean ranks or shares.
    """

    effect: float
    variance: float
    skew: float
    raw: float

    @property
    def z(self) -> float:
        """Return the effect in standard errors, as of a normal law.

        A rare event makes the law of the difference skew: its tail is that of the gamma
        law (Pearson type III) with the same skewness.
        """
        z = abs(self.effect) / np.sqrt(self.variance)
        skew = self.skew * np.sign(self.effect)
        if skew > 1e-3:
            return float(stats.norm.isf(stats.pearson3.sf(z, skew)))
        return float(z)


class Width(NamedTuple):
    """Variance of a mean difference, and the sum of cubed weights of its patients."""

    variance: float
    cubes: float


def width_of(nights: SeriesNights, window: int, n_nights: int) -> Width:
    """Return the width of a difference of the last `window` nights from those before.

    Patients are independent, and a patient's nights all alike.

    Parameters
    ----------
    nights : SeriesNights
    window : int
    n_nights : int
        Number of nights compared, the recent ones included.
    """
    sizes = nights.sizes[-n_nights:]
    n_recent = max(sizes[-window:].sum(), 1)
    n_before = max(sizes[:-window].sum(), 1)
    hashes = nights.patients[-n_nights:]
    lengths = np.array([len(of_night) for of_night in hashes])
    if not lengths.all():
        worth = independent(STAY_UNKNOWN)
        variance = (1 / n_recent + 1 / n_before) / worth
        return Width(variance, (1 / n_recent**2 - 1 / n_before**2) / worth**2)
    # Where the hashes are a sample, each stands for so many patients.
    weights = np.where(
        np.arange(n_nights) < n_nights - window,
        -sizes / (lengths * n_before),
        sizes / (lengths * n_recent),
    )
    flat = np.concatenate([np.asarray(of_night, np.uint64) for of_night in hashes])
    _, patient = np.unique(flat, return_inverse=True)
    of_patient = np.bincount(patient, np.repeat(weights, lengths))
    share = lengths.sum() / max(sizes.sum(), 1)
    return Width(
        float(np.square(of_patient).sum() * share),
        float((of_patient**3).sum() * share**2),
    )


def difference(counts: np.ndarray, window: int, width: Width) -> Difference | None:
    """Return how the last `window` nights differ from those before; None without any.

    Parameters
    ----------
    counts : ndarray of shape (n_nights, n_bins)
    window : int
    width : Width
    """
    recent = counts[-window:].sum(axis=0)
    before = counts[:-window].sum(axis=0)
    if not recent.sum() or not before.sum():
        return None
    shares = (recent + before) / (recent.sum() + before.sum())
    rank = np.cumsum(shares) - shares / 2
    centred = rank - 0.5
    deviation = float(np.sqrt((shares * centred**2).sum()))
    if deviation < 1e-9:
        return None
    raw = float((recent / recent.sum() - before / before.sum()) @ rank)
    third = float((shares * centred**3).sum()) / deviation**3
    return Difference(
        effect=raw / deviation,
        variance=width.variance,
        skew=third * width.cubes / width.variance**1.5,
        raw=raw,
    )


def stratified(differences: Sequence[Difference]) -> Difference:
    """Return the mean difference of several series, the certain ones counting most."""
    weights = np.array([1 / each.variance for each in differences])
    weights /= weights.sum()
    variances = np.array([each.variance for each in differences])
    variance = float((weights**2 * variances).sum())
    cubes = [each.skew * each.variance**1.5 for each in differences]
    return Difference(
        effect=float(weights @ [each.effect for each in differences]),
        variance=variance,
        skew=float((weights**3) @ cubes) / variance**1.5,
        raw=float(weights @ [each.raw for each in differences]),
    )


def bound(n_tests: int, false_names: float) -> float:
    """Return the standard errors beyond which a difference is named.

    Parameters
    ----------
    n_tests : int
        Tests that are looked at every night.
    false_names : float
        Expected number of false names of all of them in a quarter.
    """
    chance = false_names / (max(n_tests, 1) * LOOKS_A_QUARTER)
    return float(stats.norm.isf(min(chance, 1.0) / 2))


@dataclass(frozen=True)
class Drift:
    """A column that has changed over nights.

    Parameters
    ----------
    measure : Measure
    series : tuple of str
        Those in which the change is clear; one for a change of a series alone.
    n_series : int
        Number of series that have the column and were tested.
    of_site : bool
    since : str
        First night on which the change may have begun.
    window : int
        Recent nights that were compared.
    difference : Difference
    bound : float
        Standard errors beyond which it is named.
    """

    measure: Measure
    series: tuple[str, ...]
    n_series: int
    of_site: bool
    since: str
    window: int
    difference: Difference
    bound: float


def drifts(site: Mapping[str, SeriesNights]) -> list[Drift]:
    """Return the columns of a site that changed: of all its series first, then of one.

    Parameters
    ----------
    site : mapping of str to SeriesNights
        By series, with tonight as the last night.
    """
    tests = {name: _SeriesTests(nights) for name, nights in site.items()}
    series_of: dict[Measure, list[str]] = {}
    for name, nights in site.items():
        if not tests[name].windows:
            continue
        for measure in nights.counts:
            series_of.setdefault(measure, []).append(name)
    n_pairs = sum(len(names) for names in series_of.values())
    shared = [
        measure
        for measure, names in series_of.items()
        if measure.is_of_site and len(names) > 1
    ]
    site_bound = bound(len(shared), FALSE_NAMES_OF_SITE)
    ward_bound = bound(n_pairs, FALSE_NAMES_OF_WARDS)
    changed = []
    for measure, names in series_of.items():
        tested = {name: tests[name] for name in names}
        drift = None
        if measure in shared:
            drift = _drift_of_site(measure, tested, site_bound)
        if drift is not None:
            changed.append(drift)
        else:
            changed += _drifts_of_wards(measure, tested, ward_bound)
    return changed


class _SeriesTests:
    """Tests of one series; widths are those of all its columns."""

    def __init__(self, nights: SeriesNights):
        self.nights = nights
        n_nights = len(nights.nights)
        self.windows = [
            window for window in WINDOWS if n_nights >= window + MIN_REFERENCE
        ]
        self._widths: dict[int, Width] = {}

    def difference(self, measure: Measure, window: int) -> Difference | None:
        """Return the difference of a measure over the last `window` nights."""
        n_nights = min(len(self.nights.nights), window + REFERENCE)
        if n_nights < window + MIN_REFERENCE:
            return None
        if window not in self._widths:
            self._widths[window] = width_of(self.nights, window, n_nights)
        counts = self.nights.counts[measure][-n_nights:]
        return difference(counts, window, self._widths[window])


def _site_differences(
    measure: Measure, tests: Mapping[str, _SeriesTests], window: int
) -> dict[str, Difference]:
    """Return the difference of a column by series, of those that have enough nights."""
    by_series = {}
    for name, series in tests.items():
        differs = series.difference(measure, window)
        if differs is not None:
            by_series[name] = differs
    return by_series


def _drift_of_site(
    measure: Measure, tests: Mapping[str, _SeriesTests], limit: float
) -> Drift | None:
    """Return the change of a column in all series together, if it is beyond the limit."""
    best = None
    for window in WINDOWS:
        by_series = _site_differences(measure, tests, window)
        if len(by_series) < 2:
            continue
        joint = stratified([*by_series.values()])
        is_named = joint.z > limit and abs(joint.raw) >= WORTH_SAYING
        if is_named and (best is None or joint.z > best[1].z):
            best = (window, joint, by_series)
    if best is None:
        return None
    window, joint, by_series = best
    sign = np.sign(joint.effect)
    clear = [
        name
        for name, differs in by_series.items()
        if differs.z > CLEAR_IN_SERIES and np.sign(differs.effect) == sign
    ]
    return Drift(
        measure=measure,
        series=tuple(clear),
        n_series=len(by_series),
        of_site=True,
        since=_since(measure, tests),
        window=window,
        difference=joint,
        bound=limit,
    )


def _drifts_of_wards(
    measure: Measure, tests: Mapping[str, _SeriesTests], limit: float
) -> Iterator[Drift]:
    """Yield the changes of a column in single series that are beyond the limit."""
    for name, series in tests.items():
        best = None
        for window in series.windows:
            differs = series.difference(measure, window)
            if differs is None or abs(differs.raw) < WORTH_SAYING:
                continue
            if differs.z > limit and (best is None or differs.z > best[1].z):
                best = (window, differs)
        if best is not None:
            yield Drift(
                measure=measure,
                series=(name,),
                n_series=1,
                of_site=False,
                since=_since(measure, {name: series}),
                window=best[0],
                difference=best[1],
                bound=limit,
            )


def _since(measure: Measure, tests: Mapping[str, _SeriesTests]) -> str:
    """Return the first night from which the nights may differ from those before.

    The earliest beginning whose likelihood is not far below the largest.
    """
    nights = max((series.nights.nights for series in tests.values()), key=len)
    z_of_night = {}
    for window in range(2, max(WINDOWS) + 1):
        by_series = _site_differences(measure, tests, window)
        if by_series:
            z_of_night[nights[-window]] = stratified([*by_series.values()]).z
    least = max(z_of_night.values()) ** 2 - 2 * LOG_LIKELIHOOD_BELOW
    return min(night for night, z in z_of_night.items() if z**2 >= least)


def factor_of(
    counts: np.ndarray, edges: np.ndarray, window: int
) -> tuple[str, float] | None:
    """Return by how much the values of recent nights are multiplied, or shifted.

    Parameters
    ----------
    counts : ndarray of shape (n_nights, n_edges + 1)
    edges : ndarray of shape (n_edges,)
        Between the bins, ascending.
    window : int

    Returns
    -------
    (kind, size) : (str, float), optional
        "factor" if all edges are positive, else "shift"; None for too few bins.
    """
    if len(edges) < 3:
        return None
    is_positive = bool(edges[0] > 0)
    scale = np.log(edges) if is_positive else np.asarray(edges, float)
    shares = (np.arange(1, 10)) / 10
    ends = []
    for part in (counts[-window:], counts[:-window]):
        reached = np.cumsum(part.sum(axis=0))
        inner = reached[:-1] / max(reached[-1], 1)
        quantiles = np.interp(shares, inner, scale)
        quantiles[(shares < inner[0]) | (shares > inner[-1])] = np.nan
        ends.append(quantiles)
    moved = ends[0] - ends[1]
    moved = moved[np.isfinite(moved)]
    if not len(moved):
        return None
    size = float(np.median(moved))
    if is_positive:
        return "factor", float(np.exp(size))
    return "shift", size


def slow_rise(
    nights: Sequence[str], flagged: np.ndarray, sizes: np.ndarray, n_series: int
) -> tuple[float, float] | None:
    """Return the shares flagged at first and of late, if they have come to differ.

    A share that doubles in half a year differs little from the ninety nights before, so
    the last `max(WINDOWS)` nights are compared with the first `REFERENCE`.

    Parameters
    ----------
    nights : sequence of str
    flagged, sizes : ndarray of shape (n_nights,)
        Flagged patients, and all.
    n_series : int
        Series that are looked at every night.

    Returns
    -------
    (at_first, of_late) : (float, float), optional
    """
    window = max(WINDOWS)
    if len(nights) < REFERENCE + 2 * window:
        return None
    counts = np.column_stack([flagged, sizes - flagged])
    chosen = np.concatenate([counts[:REFERENCE], counts[-window:]])
    # Hashes of half a year ago are not read: their patients have long left.
    unknown = SeriesNights(nights, {}, [()] * len(chosen), chosen.sum(axis=1))
    differs = difference(chosen, window, width_of(unknown, window, len(chosen)))
    limit = bound(n_series, FALSE_NAMES_OF_WARDS)
    if differs is None or differs.z <= limit or abs(differs.raw) < WORTH_SAYING:
        return None
    ends = []
    for part in (chosen[:REFERENCE], chosen[-window:]):
        n_flagged, n_others = part.sum(axis=0)
        ends.append(float(n_flagged / max(n_flagged + n_others, 1)))
    return ends[0], ends[1]


@dataclass(frozen=True)
class Outbreak:
    """More new cases than the nights before let expect.

    Parameters
    ----------
    new : int
        Newly flagged patients since `since`.
    expected : float
    p : float
        Probability of so many or more.
    since : str
    """

    new: int
    expected: float
    p: float
    since: str


# Nights over which new cases are added up.
OUTBREAK_WINDOWS = (1, 3, 7, 14)
# Expected false outbreaks of a site in a quarter.
FALSE_OUTBREAKS = 0.05


def outbreak(
    nights: Sequence[str], new_cases: np.ndarray, n_series: int
) -> Outbreak | None:
    """Return the outbreak of a ward if its new cases are above what its nights allow.

    Negative binomial after the nights before (a Poisson count of a rate that is known
    from them), widened where nights differ more than a Poisson count does.

    Parameters
    ----------
    nights : sequence of str
    new_cases : ndarray of shape (n_nights,)
        Newly flagged patients of each night.
    n_series : int
        Series that are looked at every night.
    """
    limit = FALSE_OUTBREAKS / (max(n_series, 1) * LOOKS_A_QUARTER)
    best = None
    for window in OUTBREAK_WINDOWS:
        before = new_cases[:-window][-REFERENCE:]
        if len(before) < MIN_REFERENCE:
            continue
        mean = float(before.mean())
        spread = 1.0
        if mean > 0:
            spread = max(1.0, float(before.var(ddof=1)) / mean)
        events = float(before.sum()) / spread + 0.5
        n_new = int(new_cases[-window:].sum())
        chance_of_event = len(before) / (len(before) + window)
        p = float(stats.nbinom.sf(n_new / spread - 1, events, chance_of_event))
        if p < limit and (best is None or p < best.p):
            best = Outbreak(n_new, mean * window, p, nights[-window])
    return best
