"""A column that reads otherwise is named, with factor and night; a ward at rest is not."""

import numpy as np
import pytest

from screening.monitoring.column_drift import (
    LOOKS_A_QUARTER,
    Measure,
    SeriesNights,
    bound,
    difference,
    drifts,
    factor_of,
    outbreak,
    slow_rise,
    stratified,
    width_of,
)

CRP = Measure("values", "crp")
EDGES = np.quantile(np.random.default_rng(0).normal(size=20_000), np.arange(1, 20) / 20)
N_NIGHTS = 118
BEDS = 57


def ward(seed: int, changed_nights: int = 0, log_factor: float = 0.0) -> SeriesNights:
    """Return nights of beds that a fifth of the patients leaves every night."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=BEDS)
    names = np.arange(BEDS)
    counts = []
    patients = []
    for night in range(N_NIGHTS):
        leaves = rng.random(BEDS) < 0.2
        values = np.where(leaves, rng.normal(size=BEDS), values)
        names = np.where(leaves, names + BEDS, names)
        read = values + 0.4 * rng.normal(size=BEDS)
        if night >= N_NIGHTS - changed_nights:
            read = read + log_factor
        bins = np.searchsorted(EDGES, read)
        counts.append(np.bincount(bins, minlength=len(EDGES) + 1))
        patients.append(names.tolist())
    nights = [f"{night:03d}" for night in range(N_NIGHTS)]
    sizes = np.full(N_NIGHTS, BEDS)
    return SeriesNights(nights, {CRP: np.array(counts)}, patients, sizes)


def site(n_wards: int, **change: float) -> dict[str, SeriesNights]:
    return {f"ward-{seed}": ward(seed, **change) for seed in range(n_wards)}


def test_drifts_of_a_site_at_rest_are_none():
    assert drifts(site(6)) == []


def test_drifts_of_an_analyser_are_of_the_site_with_night_and_wards():
    (drift,) = drifts(site(6, changed_nights=10, log_factor=np.log(1.5)))
    assert drift.measure == CRP
    assert drift.of_site
    assert drift.n_series == 6
    assert len(drift.series) >= 4
    assert int(drift.since) == pytest.approx(N_NIGHTS - 10, abs=2)


def test_drifts_of_one_ward_name_it_alone():
    wards = site(6)
    wards["ward-2"] = ward(2, changed_nights=21, log_factor=np.log(2.2))
    named = drifts(wards)
    assert [drift.series for drift in named if not drift.of_site] == [("ward-2",)]


def test_drifts_of_too_few_nights_are_none():
    short = ward(0, changed_nights=10, log_factor=2.0)
    few = SeriesNights(
        short.nights[-25:],
        {CRP: short.counts[CRP][-25:]},
        short.patients[-25:],
        short.sizes[-25:],
    )
    assert drifts({"ward-0": few}) == []


def test_width_of_counts_a_patient_by_the_square_of_the_nights():
    nights = SeriesNights(
        ["1", "2", "3", "4"], {}, [[1, 2], [1, 2], [3, 4], [3, 5]], np.full(4, 2)
    )
    # Two patients lie two of four rows before, one two and two one of four since.
    expected = 2 * (2 / 4) ** 2 + (2 / 4) ** 2 + 2 * (1 / 4) ** 2
    assert width_of(nights, 2, 4).variance == pytest.approx(expected)


def test_width_of_a_patient_on_both_sides_cancels():
    nights = SeriesNights(["1", "2"], {}, [[1], [1]], np.full(2, 1))
    assert width_of(nights, 1, 2).variance == pytest.approx(0.0)


def test_width_of_unknown_patients_is_that_of_long_stays():
    known = ward(0)
    unknown = SeriesNights(known.nights, {}, [()] * N_NIGHTS, known.sizes)
    assert width_of(unknown, 14, 104).variance > width_of(known, 14, 104).variance


@pytest.mark.parametrize("seed", range(3))
def test_difference_of_wards_at_rest_has_the_stated_variance(seed):
    of_ward = [ward(100 * seed + number) for number in range(60)]
    z = []
    for nights in of_ward:
        width = width_of(nights, 14, 104)
        differs = difference(nights.counts[CRP][-104:], 14, width)
        z.append(differs.effect / np.sqrt(differs.variance))
    # Nights differ within a patient too, so the width is a little too large.
    assert 0.6 < np.std(z) < 1.2


def test_difference_of_a_rare_event_is_less_certain_than_its_deviations():
    counts = np.tile([99.0, 1.0], (104, 1))
    counts[-14:] = [97.0, 3.0]
    patients = [list(range(100 * night, 100 * night + 100)) for night in range(104)]
    nights = SeriesNights([], {}, patients, np.full(104, 100))
    differs = difference(counts, 14, width_of(nights, 14, 104))
    assert differs.z < differs.effect / np.sqrt(differs.variance)


def test_difference_without_a_value_is_none():
    counts = np.zeros((30, 5))
    assert difference(counts, 7, width_of(ward(0), 7, 30)) is None


def test_stratified_of_equal_series_is_as_much_more_certain():
    nights = ward(0, changed_nights=14, log_factor=0.3)
    width = width_of(nights, 14, 104)
    differs = difference(nights.counts[CRP][-104:], 14, width)
    assert stratified([differs] * 4).z == pytest.approx(2 * differs.z, rel=0.05)


def test_bound_grows_with_the_number_of_tests():
    assert bound(50, 0.05) > bound(5, 0.05) > 3
    assert LOOKS_A_QUARTER > 91


@pytest.mark.parametrize("factor", [0.5, 1.3, 2.0])
def test_factor_of_values_that_read_otherwise(factor):
    rng = np.random.default_rng(2)
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
    rng = np.random.default_rng(2)
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
    new_cases = np.random.default_rng(0).poisson(2, 100)
    new_cases[-3:] = 12
    cases = outbreak([f"{night:03d}" for night in range(100)], new_cases, 40)
    assert cases.since == "097"
    assert cases.p < 1e-6
    assert cases.new == 36


def test_outbreak_of_wards_at_rest_is_as_rare_as_stated():
    rng = np.random.default_rng(3)
    nights = [f"{night:03d}" for night in range(104)]
    n_named = 0
    for _ in range(2000):
        n_named += outbreak(nights, rng.poisson(1.5, 104), 1) is not None
    # One look each of a single series: far fewer than one in a thousand.
    assert n_named <= 4


def test_slow_rise_of_a_share_that_doubles_in_half_a_year():
    rng = np.random.default_rng(1)
    n_nights = 270
    rate = np.interp(np.arange(n_nights), [60, 240], [0.06, 0.2])
    sizes = np.full(n_nights, 120)
    flagged = rng.binomial(sizes, rate)
    nights = [f"{night:03d}" for night in range(n_nights)]
    at_first, of_late = slow_rise(nights, flagged, sizes, 1)
    assert of_late > 2 * at_first
    assert slow_rise(nights, rng.binomial(sizes, 0.06), sizes, 1) is None
