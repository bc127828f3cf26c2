"""Drift over nights: a site's columns, scores and flags beside their own nights before.

The recent nights of a series are compared with the ninety and more before them, by the
mean rank of a column's values (Mann-Whitney) or by a share of patients. The ledger has
counts by night, and which nights a patient lay. So the patients are the units: means of
nights are alike by the patients that they share, and the difference of levels is
estimated by generalised least squares. Neither its weights nor its variance estimate
how alike a patient's values are: the least favourable likeness is taken. What nights
have in common beyond their patients, such as a day's calibration, is seen in how far
means of neighbouring nights lie apart.

An analyser serves every ward, so the site is tested first: the differences of all
series that have a column, each weighted by how certainly it is known, are one
statistic. Then each series is tested alone.

Everything here is a function of counts by night; ledger and pages are elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse, stats

from screening.monitoring.delivery import STAY_UNKNOWN, independent

WINDOWS = (3, 5, 7, 10, 14, 20, 28)
"""Numbers of recent nights that are compared with the nights before them."""

REFERENCE = 90
"""Nights before the longest window that these are compared with."""

MIN_REFERENCE = 20
"""Nights before the recent ones below which a series is not tested."""

MAX_NIGHTS = REFERENCE + max(WINDOWS)
"""Nights of a series that are compared."""

# Expected false names of a site in a quarter, less than one in all: of its columns, and
# of these the part of all series together where there are several; of slow rises.
FALSE_NAMES = 0.8
FALSE_NAMES_OF_SITE = 0.2
FALSE_RISES = 0.1
# How much more often one of the looks of a quarter is beyond a bound than one look by
# chance: all windows, every night (`benchmarks/column_drift.py --looks`).
LOOKS_A_QUARTER = 230
# How alike a patient's values are from one night to the next, from not at all to
# always: the weights of nights are for the mixture of these that makes a change least
# certain.
FADING = np.array([0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0])
# Steps towards that mixture, and their size.
STEPS_OF_MIXTURE = 8
STEP_OF_MIXTURE = 6.0
# Standard deviation that the weights take a night's patients to have in common.
SHARED_BY_NIGHT = 0.05
# At least so much of a column's variance is taken to be the patient's own where the
# distance of neighbouring nights is judged.
MIN_SHARE_OF_PATIENT = 0.8
# Difference of mean ranks (of a largest 0.5) or of shares from which it is worth a
# word.
WORTH_SAYING = 0.02
# Log-likelihood below the largest up to which a night may be that of the change.
LOG_LIKELIHOOD_BELOW = 1.0
# Number of standard errors from which a series is named as part of a site's change.
CLEAR_IN_SERIES = 2.0


@dataclass(frozen=True, eq=False)
class SeriesNights:
    """Counts of one series on its nights, in order.

    Parameters
    ----------
    nights : sequence of str
        Dates, ascending.
    counts : mapping of Measure to ndarray of shape (n_nights, n_bins)
        Rows of each night in ordered bins; two bins are a share.
    patients : sequence of sequences of int
        Hashes of patients of each night; empty if patients are not recognised.
    sizes : ndarray of shape (n_nights,)
        Patients of each night. Of many patients the hashes are a sample.
    table : str, optional
        Digest of the last night's table: series with the same one read the same rows.
    """

    nights: Sequence[str]
    counts: Mapping[Measure, np.ndarray]
    patients: Sequence[Sequence[int]]
    sizes: np.ndarray
    table: str | None = None


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
        """True if one source may serve all series that have it."""
        return self.kind in ("values", "missing")


class Contrast(NamedTuple):
    """Weights of nights; the weighted sum of nightly means estimates a change of level.

    Parameters
    ----------
    weights : ndarray of shape (n_nights,)
    variance : float
        Of the sum, a patient's value having variance 1: the largest that any fading
        likeness of a patient's nights gives.
    cubes : float
        Sum of cubed weights of patients.
    """

    weights: np.ndarray
    variance: float
    cubes: float


class NightPatients:
    """Patients of each night, and the covariance of nightly means that follows.

    Parameters
    ----------
    patients : sequence of sequences of int
        As `SeriesNights` has them.
    sizes : ndarray of shape (n_nights,)
    dates : ndarray of int, shape (n_nights,), optional
        Places of the nights in a row of dates; by default one after the other.
    n_dates : int, optional
        Length of that row; by default it ends with the last night.

    Attributes
    ----------
    shared : ndarray of shape (n_nights, n_nights)
        Covariance of nightly means if each patient had one value, of variance 1.
    neighbours : ndarray of shape (n_nights,)
        Half the variance between each night and the one before it, by patients alone;
        of the first night as of the second.
    contrast : callable
        Return the `Contrast` of a number of recent nights, which is computed once.
    """

    def __init__(
        self,
        patients: Sequence[Sequence[int]],
        sizes: np.ndarray,
        dates: np.ndarray | None = None,
        n_dates: int | None = None,
    ):
        n_nights = len(sizes)
        self._sizes = np.maximum(sizes, 1)
        self._dates = np.arange(n_nights) if dates is None else dates
        self._n_dates = int(self._dates[-1]) + 1 if n_dates is None else n_dates
        self._lag = np.abs(self._dates[:, None] - self._dates)
        lengths = np.array(list(map(len, patients)))
        self._stays: sparse.csr_array | None = None
        if lengths.all():
            flat = np.array([*chain.from_iterable(patients)], np.uint64)
            _, patient = np.unique(flat, return_inverse=True)
            night = np.repeat(np.arange(n_nights), lengths)
            shares = np.repeat(1 / lengths, lengths)
            self._stays = sparse.csr_array((shares, (night, patient)))
            # If the hashes are a sample, each represents so many patients.
            self._sampled = lengths.sum() / max(sizes.sum(), 1)
            overlaps = self._stays @ self._stays.T
            self.shared = overlaps.toarray() * self._sampled
        else:
            mean_sizes = np.sqrt(np.outer(self._sizes, self._sizes))
            self.shared = STAY_UNKNOWN**self._lag / mean_sizes
        variance = np.diag(self.shared)
        common = np.diag(self.shared, 1)
        mean_variance = (variance[1:] + variance[:-1]) / 2
        between = mean_variance - MIN_SHARE_OF_PATIENT * common
        self.neighbours = np.concatenate([between[:1], between])
        self.contrast = cache(self._contrast)

    def on_dates(self, by_night: np.ndarray, without: float = 0.0) -> np.ndarray:
        """Return values of nights by date; `without`: on dates without a night."""
        by_date = np.full(self._n_dates, without)
        by_date[self._dates] = by_night
        return by_date

    def _contrast(self, window: int) -> Contrast:
        """Return the change of level from the nights before to the last `window`.

        Its weights are those of generalised least squares for the likeness of a
        patient's values that makes it least certain, found by multiplicative weights.
        """
        n_nights = len(self.shared)
        is_recent = np.arange(n_nights) >= n_nights - window
        levels = np.column_stack([np.ones(n_nights), is_recent])
        lags = np.arange(self._lag.max() + 1)
        by_fading = FADING[:, None] ** lags
        mixture = np.full(len(FADING), 1 / len(FADING))
        best = None
        for _ in range(STEPS_OF_MIXTURE):
            covariance = (mixture @ by_fading)[self._lag] * self.shared
            covariance += SHARED_BY_NIGHT**2 * np.eye(n_nights)
            solved = linalg.solve(covariance, levels, assume_a="pos")
            _, weights = np.linalg.solve(levels.T @ solved, solved.T)
            products = np.outer(weights, weights) * self.shared
            by_lag = np.bincount(self._lag.ravel(), products.ravel())
            # A likeness that fades is a mean of such as end after 0, 1, 2... nights.
            variance = float(by_lag.cumsum().max())
            if best is None or variance < best.variance:
                best = Contrast(weights, variance, self._cubes(weights))
            variances = by_fading @ by_lag
            below_largest = variances / variances.max() - 1
            mixture *= np.exp(STEP_OF_MIXTURE * below_largest)
            mixture /= mixture.sum()
        assert best is not None, "there is at least one step"
        return best

    def _cubes(self, weights: np.ndarray) -> float:
        """Return the sum of cubed weights of patients, of values that do not change."""
        if self._stays is None:
            by_night = weights**3 / self._sizes**2
            return float(by_night.sum()) / independent(STAY_UNKNOWN) ** 2
        of_patient = weights @ self._stays
        return float((of_patient**3).sum() * self._sampled**2)


@dataclass(frozen=True, eq=False)
class NightMeans:
    """Mean rank of a column by night, or its share.

    Parameters
    ----------
    means : ndarray of shape (n_dates,)
        Centred, in standard deviations of a patient's; NaN on dates without a value.
    neighbours : ndarray of shape (n_dates,)
        Half the variance of each from the one before, by patients alone.
    deviation : float
        Standard deviation of a patient's rank or share.
    third : float
        Skewness of a patient's.
    n_values : ndarray of shape (n_dates,)
    """

    means: np.ndarray
    neighbours: np.ndarray
    deviation: float = 1.0
    third: float = 0.0
    n_values: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def noise(self) -> float:
        """Variance that nights have in common, beyond their patients'."""
        has_night = np.isfinite(self.means)
        apart = np.diff(self.means[has_night])
        expected = self.neighbours[has_night].mean()
        excess = np.square(apart).mean() / 2 - expected
        return max(float(excess), 0.0)


def means_of_nights(counts: np.ndarray, patients: NightPatients) -> NightMeans | None:
    """Return the mean rank of each night; None if all values are alike.

    Parameters
    ----------
    counts : ndarray of shape (n_nights, n_bins)
        Every night has a value.
    patients : NightPatients
        Of these nights.
    """
    n_values = counts.sum(axis=1)
    shares = counts.sum(axis=0) / n_values.sum()
    centred = np.cumsum(shares) - shares / 2 - 0.5
    second_moment = (shares * centred**2).sum()
    third_moment = float((shares * centred**3).sum())
    deviation = float(np.sqrt(second_moment))
    if deviation < 1e-9:
        return None
    # Not every patient has a value.
    variance = np.diag(patients.shared)
    scarcity = np.maximum(1 / n_values / variance, 1.0)
    means = counts @ centred / n_values / deviation
    return NightMeans(
        means=patients.on_dates(means, np.nan),
        neighbours=patients.on_dates(patients.neighbours * scarcity),
        deviation=deviation,
        third=third_moment / deviation**3,
        n_values=n_values,
    )


@dataclass(frozen=True, eq=False)
class Difference:
    """Difference of recent nights from those before, in one series or in several.

    Parameters
    ----------
    effect : float
        Difference of mean ranks or shares, in standard deviations of a patient's.
    raw : float
        Difference of mean ranks or shares.
    variance : float
        Of `effect`, by patients alone.
    third : float
        Third moment of `effect`, by patients alone.
    weights : ndarray of shape (n_dates,)
        Of the nights in `effect`; 0 for dates without a night.
    nights : NightMeans
    """

    effect: float
    raw: float
    variance: float
    third: float
    weights: np.ndarray
    nights: NightMeans

    @property
    def total_variance(self) -> float:
        """Variance of the effect, with what nights have in common."""
        squares = float(self.weights @ self.weights)
        return self.variance + self.nights.noise * squares

    @property
    def z(self) -> float:
        """Effect in standard errors, as of a normal law.

        A rare event makes the law of the difference skew: its tail is that of the gamma
        law (Pearson type III) with the same skewness.
        """
        variance = self.total_variance
        z = abs(self.effect) / np.sqrt(variance)
        skew = self.third / variance**1.5 * np.sign(self.effect)
        # Below, nothing is named, and the law costs time.
        if z > CLEAR_IN_SERIES and skew > 1e-3:
            p = stats.pearson3.sf(z, skew)
            return float(stats.norm.isf(p))
        return float(z)


def difference(
    nights: NightMeans, patients: NightPatients, contrast: Contrast
) -> Difference:
    """Return how the recent nights differ from those before.

    Parameters
    ----------
    nights : NightMeans
    patients : NightPatients
        Of these nights.
    contrast : Contrast
    """
    weights = patients.on_dates(contrast.weights)
    has_night = np.isfinite(nights.means)
    effect = float(weights[has_night] @ nights.means[has_night])
    squares = contrast.weights**2
    of_values = squares @ (1 / nights.n_values)
    of_patients = squares @ np.diag(patients.shared)
    scarcity = max(1.0, float(of_values / of_patients))
    return Difference(
        effect=effect,
        raw=effect * nights.deviation,
        variance=contrast.variance * scarcity,
        third=nights.third * contrast.cubes * scarcity**2,
        weights=weights,
        nights=nights,
    )


def stratified(differences: Sequence[Difference]) -> Difference:
    """Return the mean difference of several series, the certain ones counting most.

    All have the same dates.
    """
    if len(differences) == 1:
        return differences[0]
    variances = np.array([difference.variance for difference in differences])
    weights = 1 / variances
    weights /= weights.sum()
    means = np.array([difference.nights.means for difference in differences])
    centred = means - np.nanmean(means, axis=1, keepdims=True)
    on_date = weights[:, None] * np.isfinite(means)
    total = on_date.sum(axis=0)
    has_night = total > 0
    on_date[:, has_night] /= total[has_night]
    joint = (on_date * np.nan_to_num(centred)).sum(axis=0)
    joint[~has_night] = np.nan
    neighbours = np.array([difference.nights.neighbours for difference in differences])
    joint_neighbours = (on_date**2 * neighbours).sum(axis=0)
    return Difference(
        effect=float(weights @ [difference.effect for difference in differences]),
        raw=float(weights @ [difference.raw for difference in differences]),
        variance=float(weights**2 @ variances),
        third=float(weights**3 @ [difference.third for difference in differences]),
        weights=weights @ [difference.weights for difference in differences],
        nights=NightMeans(joint, joint_neighbours),
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


def bounds(n_shared: int, n_pairs: int) -> tuple[float, float]:
    """Return the bounds of a site and of its series, as `bound`.

    Parameters
    ----------
    n_shared : int
        Columns that several series have.
    n_pairs : int
        Columns, scores and flags of all series.
    """
    of_site = FALSE_NAMES_OF_SITE if n_shared else 0.0
    return bound(n_shared, FALSE_NAMES_OF_SITE), bound(n_pairs, FALSE_NAMES - of_site)


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
    dates = sorted(set().union(*[nights.nights for nights in site.values()]))
    series_of: dict[Measure, dict[str, _SeriesTests]] = defaultdict(dict)
    for name, nights in site.items():
        tests = _SeriesTests(nights, dates)
        for measure in tests.measures:
            series_of[measure][name] = tests
    n_pairs = sum(map(len, series_of.values()))
    shared = _shared_by_tables(series_of)
    site_bound, ward_bound = bounds(len(shared), n_pairs)
    changed: list[Drift] = []
    for measure, tested in series_of.items():
        of_site = None
        if measure in shared:
            of_site = _drift_of(measure, shared[measure], tested, site_bound)
        if of_site is not None:
            changed.append(of_site)
            continue
        for name, tests in tested.items():
            alone = {name: tests}
            changed += filter(None, [_drift_of(measure, alone, alone, ward_bound)])
    return changed


class _SeriesTests:
    """Tests of one series; weights of nights are those of all its columns.

    Parameters
    ----------
    nights : SeriesNights
    dates : sequence of str
        Nights of all series, ascending.

    Attributes
    ----------
    measures : list of Measure
        Those that can be tested.
    difference : callable
        Return the `Difference` of a measure over its last nights, a number of them;
        None for too few nights, or if all values are alike.
    """

    def __init__(self, nights: SeriesNights, dates: Sequence[str]):
        self.nights = nights
        self.dates = dates
        self._dates = np.searchsorted(dates, nights.nights)
        # Most columns have a value on the same nights.
        self._patients: dict[bytes, NightPatients] = {}
        self._nights_of = cache(self._measured)
        self.difference = cache(self._difference)
        self.measures = [
            measure for measure in nights.counts if self._can_be_tested(measure)
        ]

    def _can_be_tested(self, measure: Measure) -> bool:
        """Return True if there are enough nights, and not all values are alike."""
        counts = self.nights.counts[measure]
        n_nights = np.count_nonzero(counts.sum(axis=1))
        n_bins = np.count_nonzero(counts.sum(axis=0))
        return bool(n_nights >= min(WINDOWS) + MIN_REFERENCE and n_bins > 1)

    def _difference(self, measure: Measure, window: int) -> Difference | None:
        means, patients = self._nights_of(measure)
        if means is None or len(means.n_values) < window + MIN_REFERENCE:
            return None
        return difference(means, patients, patients.contrast(window))

    def _measured(self, measure: Measure) -> tuple[NightMeans | None, NightPatients]:
        """Return the nights on which a measure has a value, and their patients."""
        counts = self.nights.counts[measure]
        chosen = np.flatnonzero(counts.sum(axis=1))[-MAX_NIGHTS:]
        key = chosen.tobytes()
        if key not in self._patients:
            self._patients[key] = NightPatients(
                [self.nights.patients[position] for position in chosen],
                self.nights.sizes[chosen],
                self._dates[chosen],
                len(self.dates),
            )
        patients = self._patients[key]
        return means_of_nights(counts[chosen], patients), patients


def _shared_by_tables(
    series_of: Mapping[Measure, Mapping[str, _SeriesTests]],
) -> dict[Measure, dict[str, _SeriesTests]]:
    """Return the columns that several tables have, with one series of each table."""
    shared = {}
    for measure, tests in series_of.items():
        by_table = _one_of_each_table(tests)
        if measure.is_of_site and len(by_table) > 1:
            shared[measure] = by_table
    return shared


def _one_of_each_table(tests: Mapping[str, _SeriesTests]) -> dict[str, _SeriesTests]:
    """Return one series of those that read the same table: the one with most nights."""
    by_table: dict[str, str] = {}
    for name, series in tests.items():
        table = series.nights.table or name
        other = by_table.setdefault(table, name)
        if len(series.nights.nights) > len(tests[other].nights.nights):
            by_table[table] = name
    return {name: tests[name] for name in by_table.values()}


def _differences(
    measure: Measure, tests: Mapping[str, _SeriesTests], window: int
) -> dict[str, Difference]:
    """Return the difference of a column by series, of those that have enough nights."""
    by_series = {}
    for name, series in tests.items():
        differs = series.difference(measure, window)
        if differs is not None:
            by_series[name] = differs
    return by_series


def _drift_of(
    measure: Measure,
    tests: Mapping[str, _SeriesTests],
    all_tests: Mapping[str, _SeriesTests],
    limit: float,
) -> Drift | None:
    """Return the clearest change of a column in one or several series together.

    None if no change is beyond the limit and large enough to matter.

    Parameters
    ----------
    measure : Measure
    tests : mapping from str to _SeriesTests
        Of one series, or of one of each table of a site.
    all_tests : mapping from str to _SeriesTests
        Of all series in which the change may be clear.
    limit : float
        Standard errors.
    """
    of_site = len(tests) > 1
    least = 2 if of_site else 1
    beyond = {}
    for window in WINDOWS:
        differences = [*_differences(measure, tests, window).values()]
        if len(differences) >= least:
            joint = stratified(differences)
            if abs(joint.raw) >= WORTH_SAYING and joint.z > limit:
                beyond[window] = joint
    if not beyond:
        return None
    clearest = max(beyond, key=lambda window: beyond[window].z)
    joint = beyond[clearest]
    by_series = _differences(measure, all_tests, clearest)
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
        of_site=of_site,
        since=_since(measure, tests),
        window=clearest,
        difference=joint,
        bound=limit,
    )


def _since(measure: Measure, tests: Mapping[str, _SeriesTests]) -> str:
    """Return the first night from which the nights may differ from those before.

    The earliest beginning whose likelihood is not far below the largest.
    """
    nights = max((series.nights.nights for series in tests.values()), key=len)
    z_of_night = {}
    for window in range(2, max(WINDOWS) + 1):
        differences = [*_differences(measure, tests, window).values()]
        if differences:
            z_of_night[nights[-window]] = stratified(differences).z
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
    shares = np.arange(1, 10) / 10
    ends = []
    for part in (counts[-window:], counts[:-window]):
        reached = np.cumsum(part.sum(axis=0))
        inner = reached[:-1] / max(reached[-1], 1)
        quantiles = np.interp(shares, inner, scale)
        is_outside = (shares < inner[0]) | (shares > inner[-1])
        quantiles[is_outside] = np.nan
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
    flagged: np.ndarray, sizes: np.ndarray, n_series: int
) -> tuple[float, float] | None:
    """Return the shares flagged at first and of late, if they have come to differ.

    A share that doubles in half a year differs little from the ninety nights before, so
    the last `max(WINDOWS)` nights are compared with the first `REFERENCE`.

    Parameters
    ----------
    flagged, sizes : ndarray of shape (n_nights,)
        Flagged patients, and all, by night.
    n_series : int
        Series that are looked at every night.

    Returns
    -------
    (at_first, of_late) : (float, float), optional
    """
    window = max(WINDOWS)
    has_patients = np.flatnonzero(sizes)
    if len(has_patients) < REFERENCE + 2 * window:
        return None
    chosen = np.r_[has_patients[:REFERENCE], has_patients[-window:]]
    counts = np.column_stack([flagged, sizes - flagged])[chosen]
    # Hashes of half a year ago are not read: their patients have long left.
    patients = NightPatients([()] * len(chosen), sizes[chosen], chosen)
    means = means_of_nights(counts, patients)
    if means is None:
        return None
    differs = difference(means, patients, patients.contrast(window))
    limit = bound(n_series, FALSE_RISES)
    if differs.z <= limit or abs(differs.raw) < WORTH_SAYING:
        return None
    ends = []
    for part in (counts[:REFERENCE], counts[-window:]):
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
OUTBREAK_WINDOWS = (1, 2, 3, 4, 5, 7, 10, 14)
# Expected false outbreaks of a site in a quarter.
FALSE_OUTBREAKS = 0.05


def outbreak(
    nights: Sequence[str], new_cases: np.ndarray, n_series: int
) -> Outbreak | None:
    """Return the outbreak of a ward if its new cases are above what its nights allow.

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
        n_new = int(new_cases[-window:].sum())
        p = float(chance_of_new_cases(before, n_new, window))
        if p < limit and (best is None or p < best.p):
            expected = float(before.mean()) * window
            best = Outbreak(n_new, expected, p, nights[-window])
    return best


def chance_of_new_cases(
    before: np.ndarray, n_new: np.ndarray | int, window: int
) -> np.ndarray:
    """Return the probability of so many new cases or more, after the nights before.

    Negative binomial: a Poisson count if nights differ as Poisson counts do, wider if
    they differ more, and for a rate that is known from the nights before alone.

    Parameters
    ----------
    before : ndarray of shape (..., n_nights)
        New cases of each night.
    n_new : ndarray of shape (...) or int
        New cases of the window.
    window : int
        Its nights.

    Returns
    -------
    ndarray of shape (...)
    """
    n_nights = before.shape[-1]
    rate = (before.sum(axis=-1) + 0.5) / n_nights
    # A standard error above the estimate: too low a dispersion makes false outbreaks.
    estimate = before.var(axis=-1, ddof=1) / rate
    dispersion = np.maximum(estimate * (1 + np.sqrt(2 / n_nights)), 1.0)
    expected = rate * window
    size = expected / (dispersion - 1 + dispersion * window / n_nights)
    p = size / (size + expected)
    return stats.nbinom.sf(n_new - 1, size, p)
