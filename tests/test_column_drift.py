"""A column that reads otherwise is named, with factor and night; a ward at rest is
not.
"""

from dataclasses import replace

import numpy as np
import pytest
from faults.amounts import repeats
from numpy.random import default_rng
from numpy.testing import assert_allclose

from screening.monitoring.column_drift import (
    LOOKS_A_QUARTER,
    Measure,
    NightPatients,
    SeriesNights,
    bound,
    chance_of_new_cases,
    difference,
    drifts,
    factor_of,
    means_of_nights,
    outbreak,
    slow_rise,
    stratified,
)

CRP = Measure("values", "crp")
VALUES = default_rng(0).normal(size=20_000)
EDGES = np.quantile(VALUES, np.arange(1, 20) / 20)
N_NIGHTS = 118
BEDS = 57


def ward(
    seed: int,
    changed_nights: int = 0,
    log_factor: float = 0.0,
    shared: float = 0.0,
) -> SeriesNights:
    """Return nights of beds that a fifth of the patients leaves every night.

    `shared`: standard deviation that a night of all wards has in common.
    """
    rng = default_rng(seed)
    of_night = shared * default_rng(99).normal(size=N_NIGHTS)
    values = rng.normal(size=BEDS)
    names = np.arange(BEDS)
    counts = []
    patients = []
    for night in range(N_NIGHTS):
        leaves = rng.random(BEDS) < 0.2
        values = np.where(leaves, rng.normal(size=BEDS), values)
        names = np.where(leaves, names + BEDS, names)
        read = values + 0.4 * rng.normal(size=BEDS) + of_night[night]
        if night >= N_NIGHTS - changed_nights:
            read = read + log_factor
        bins = np.searchsorted(EDGES, read)
        counts.append(np.bincount(bins, minlength=20))
        patients.append(names.tolist())
    nights = [f"{night:03d}" for night in range(N_NIGHTS)]
    sizes = np.full(N_NIGHTS, BEDS)
    counts_of_nights = {CRP: np.array(counts)}
    return SeriesNights(nights, counts_of_nights, patients, sizes)


def site(n_wards: int, **change: float) -> dict[str, SeriesNights]:
    wards = {}
    for seed in range(n_wards):
        wards[f"ward-{seed}"] = ward(seed, **change)
    return wards


def test_drifts_of_a_site_at_rest_are_none():
    assert drifts(site(6)) == []


def test_drifts_of_an_analyser_are_of_the_site_with_night_and_wards():
    wards = site(6, changed_nights=10, log_factor=np.log(1.5))
    (drift,) = drifts(wards)
    assert drift.measure == CRP
    assert drift.of_site
    assert drift.n_series == 6
    assert len(drift.series) >= 4
    assert int(drift.since) == pytest.approx(N_NIGHTS - 10, abs=2)


def test_drifts_of_one_ward_name_it_alone():
    wards = site(6)
    doubled = ward(2, changed_nights=21, log_factor=np.log(2.2))
    wards["ward-2"] = doubled
    of_wards = [drift.series for drift in drifts(wards) if not drift.of_site]
    assert of_wards == [("ward-2",)]


def test_drifts_of_too_few_nights_are_none():
    short = ward(0, changed_nights=10, log_factor=2.0)
    few = SeriesNights(
        short.nights[-22:],
        {CRP: short.counts[CRP][-22:]},
        short.patients[-22:],
        short.sizes[-22:],
    )
    assert drifts({"ward-0": few}) == []


def difference_of(counts, patients, contrast):
    """Return the difference of counts by night."""
    return difference(means_of_nights(counts, patients), patients, contrast)


def patients_of(nights: SeriesNights, n_nights: int = N_NIGHTS) -> NightPatients:
    """Return who lay on the last nights."""
    patients = nights.patients[-n_nights:]
    sizes = nights.sizes[-n_nights:]
    return NightPatients(patients, sizes)


def test_shared_counts_the_patients_of_two_nights():
    patients = [[1, 2, 3, 4], [3, 4]]
    expected = [
        [1 / 4, 2 / 8],
        [2 / 8, 1 / 2],
    ]
    assert_allclose(NightPatients(patients, np.array([4, 2])).shared, expected)


def test_shared_of_a_sample_is_that_of_all_patients():
    rng = default_rng(0)
    everyone = [np.unique(rng.integers(0, 3000, 1500)) for _ in range(4)]
    sizes = np.array([len(night) for night in everyone])
    sample = [night[night < 600].tolist() for night in everyone]
    expected = NightPatients(everyone, sizes).shared
    assert_allclose(NightPatients(sample, sizes).shared, expected, rtol=0.15)


def test_contrast_is_of_levels():
    weights = patients_of(ward(0)).contrast(14).weights
    assert weights[-14:].sum() == pytest.approx(1.0)
    assert weights[:-14].sum() == pytest.approx(-1.0)


def test_contrast_counts_a_patient_who_stays_once():
    patients = [[1, 2]] * 30 + [[3, 4]] * 10
    stays = NightPatients(patients, np.full(40, 2))
    # However many nights: two patients are compared with two.
    assert stays.contrast(10).variance == pytest.approx(1.0)


def test_contrast_unknown_patients():
    """Contrast of unknown patients has at least the variance of wards."""
    sizes = np.full(N_NIGHTS, BEDS)
    contrast = NightPatients([()] * N_NIGHTS, sizes).contrast(28)
    of_wards = [patients_of(ward(seed)).shared for seed in range(20)]
    shared = np.mean(of_wards, axis=0)
    assert contrast.variance > contrast.weights @ shared @ contrast.weights


@pytest.mark.parametrize("within", [0.0, 0.4, 3.0])
def test_contrast_has_at_least_the_variance_of_wards_at_rest(within):
    patients = patients_of(ward(0))
    contrast = patients.contrast(14)
    own = 1 / (1 + within**2)
    covariance = own * patients.shared
    covariance += (1 - own) * np.diag(np.diag(patients.shared))
    assert contrast.variance >= contrast.weights @ covariance @ contrast.weights


def difference_over(nights: SeriesNights):
    """Return how the last fourteen nights of a ward differ from those before."""
    patients = patients_of(nights)
    contrast = patients.contrast(14)
    return difference_of(nights.counts[CRP], patients, contrast)


@pytest.mark.parametrize("seed", range(3))
def test_difference_of_wards_at_rest_has_the_stated_variance(seed):
    of_ward = [ward(100 * seed + number) for number in range(60)]
    z = []
    for nights in of_ward:
        differs = difference_over(nights)
        z.append(differs.effect / np.sqrt(differs.total_variance))
    assert 0.7 < np.std(z) < 1.2


def test_difference_of_noisy_nights_is_less_certain():
    differences = []
    for shared in (0.0, 0.3):
        nights = ward(0, shared=shared)
        differences.append(difference_over(nights))
    of_quiet, of_noisy = differences
    assert of_noisy.total_variance > 1.5 * of_quiet.total_variance
    assert of_noisy.variance == of_quiet.variance


def test_difference_half_missing():
    """Difference of a column that half the patients have is less certain."""
    nights = ward(0)
    patients = patients_of(nights)
    contrast = patients.contrast(14)
    whole = difference_of(nights.counts[CRP], patients, contrast)
    half = difference_of(nights.counts[CRP] / 2, patients, contrast)
    assert half.variance == pytest.approx(2 * whole.variance)


def test_difference_rare_event():
    """Difference of a rare event is less certain than its deviations."""
    counts = np.tile([99.0, 1.0], (104, 1))
    counts[-14:] = [97.0, 3.0]
    patients = np.arange(10_400).reshape(104, 100).tolist()
    sizes = np.full(104, 100)
    overlap = NightPatients(patients, sizes)
    differs = difference_of(counts, overlap, overlap.contrast(14))
    assert differs.z < differs.effect / np.sqrt(differs.total_variance)


def test_difference_of_equal_values_is_none():
    patients = patients_of(ward(0), 30)
    counts = np.tile([57.0, 0.0], (30, 1))
    assert means_of_nights(counts, patients) is None


def test_stratified_of_equal_series_is_as_much_more_certain():
    nights = ward(0, changed_nights=14, log_factor=0.3)
    differs = difference_over(nights)
    joint = stratified([differs] * 4)
    assert joint.variance == pytest.approx(differs.variance / 4)
    assert joint.effect == pytest.approx(differs.effect)


def test_stratified_sees_what_nights_of_all_series_have_in_common():
    differences = []
    for seed in range(8):
        nights = ward(seed, shared=0.15)
        differences.append(difference_over(nights))
    joint = stratified(differences)
    assert joint.total_variance > 2 * joint.variance


def test_drifts_without_a_value_on_some_nights_are_of_the_others():
    wards = site(6, changed_nights=12, log_factor=np.log(1.6))
    for nights in wards.values():
        nights.counts[CRP][[3, 50, -2]] = 0
    (drift,) = drifts(wards)
    assert drift.of_site
    assert int(drift.since) == pytest.approx(N_NIGHTS - 12, abs=3)


def test_drifts_count_a_table_that_two_models_read_once():
    one = ward(2, changed_nights=14, log_factor=np.log(1.25))
    same = replace(one, table="a digest")
    twice = drifts({"ward-2.sepsis": same, "ward-2.aki": same})
    assert not any(drift.of_site for drift in twice)


def test_drifts_of_a_site_name_every_model_of_a_table():
    wards = site(6, changed_nights=10, log_factor=np.log(1.6))
    series = {}
    for name, nights in wards.items():
        series[f"{name}.sepsis"] = replace(nights, table=name)
        series[f"{name}.aki"] = replace(nights, table=name)
    (drift,) = drifts(series)
    assert drift.n_series == 12
    assert {f"{name[:-6]}aki" for name in drift.series if "sepsis" in name} <= {
        *drift.series
    }


def test_bound_grows_with_the_number_of_tests():
    assert bound(50, 0.05) > bound(5, 0.05) > 3
    assert LOOKS_A_QUARTER > 91


@pytest.mark.parametrize("factor", [0.5, 1.3, 2.0])
def test_factor_of_values_that_read_otherwise(factor):
    rng = default_rng(2)
    edges = np.exp(EDGES)
    before = np.exp(rng.normal(size=20_000))
    recent = factor * np.exp(rng.normal(size=20_000))
    counts = np.array(
        [
            np.bincount(np.searchsorted(edges, before), minlength=20),
            np.bincount(np.searchsorted(edges, recent), minlength=20),
        ]
    )
    kind, size = factor_of(counts, edges, 1)
    assert kind == "factor"
    assert size == pytest.approx(factor, rel=0.05)


def test_factor_of_values_around_zero_is_a_shift():
    rng = default_rng(2)
    values = rng.normal(size=20_000)
    counts = np.array(
        [
            np.bincount(np.searchsorted(EDGES, values), minlength=20),
            np.bincount(np.searchsorted(EDGES, values + 0.5), minlength=20),
        ]
    )
    kind, size = factor_of(counts, EDGES, 1)
    assert kind == "shift"
    assert size == pytest.approx(0.5, abs=0.05)


def test_outbreak_of_many_new_cases_is_named_with_its_night():
    new_cases = default_rng(0).poisson(2, 100)
    new_cases[-3:] = 12
    dates = [f"{night:03d}" for night in range(100)]
    cases = outbreak(dates, new_cases, 40)
    assert cases.since == "097"
    assert cases.p < 1e-6
    assert cases.new == 36


@pytest.mark.repeated
def test_outbreak_of_wards_at_rest_is_as_rare_as_stated():
    rng = default_rng(3)
    nights = [f"{night:03d}" for night in range(104)]
    named = []
    for _ in repeats(500, 2000):
        found = outbreak(nights, rng.poisson(1.5, 104), 1)
        named.append(found is not None)
    # One look each of a single series: far fewer than one in a thousand.
    assert np.mean(named) <= 0.002


@pytest.mark.parametrize("dispersion", [1.0, 1.5, 2.0])
def test_outbreak_chance_is_kept_where_nights_differ(dispersion):
    """One look in a thousand is beyond a chance of .001, however nights differ."""
    rng = default_rng(5)
    shape = (40_000, 97)
    counts = rng.poisson(3, shape)
    if dispersion > 1:
        n_successes = 3 / (dispersion - 1)
        counts = rng.negative_binomial(n_successes, 1 / dispersion, shape)
    last_two_weeks = counts[:, 90:].sum(axis=1)
    chances = chance_of_new_cases(counts[:, :90], last_two_weeks, 7)
    assert 0 < (chances < 0.001).mean() < 0.0015


@pytest.mark.parametrize(
    ("n_nights", "least"),
    [
        (4, 0.75),
        (7, 0.97),
    ],
)
def test_outbreak_that_triples_new_cases_is_named(n_nights, least):
    """Of wards with three new cases a night, in a site of four."""
    rng = default_rng(6)
    dates = [f"{night:03d}" for night in range(104 + n_nights)]
    n_named = 0
    for _ in range(200):
        counts = rng.poisson(3, len(dates))
        counts[104:] += rng.poisson(6, n_nights)
        last = 105 + n_nights
        looks = [outbreak(dates[:end], counts[:end], 4) for end in range(105, last)]
        n_named += any(looks)
    assert n_named >= least * 200


def test_slow_rise_of_a_share_that_doubles_in_half_a_year():
    rng = default_rng(1)
    n_nights = 270
    rate = np.interp(np.arange(n_nights), [60, 240], [0.06, 0.2])
    sizes = np.full(n_nights, 120)
    flagged = rng.binomial(sizes, rate)
    at_first, of_late = slow_rise(flagged, sizes, 1)
    assert of_late > 2 * at_first
    steady = rng.binomial(sizes, 0.06)
    assert slow_rise(steady, sizes, 1) is None
