"""Intervals: agreement with reference implementations, and coverage where it is the
point.
"""

import numpy as np
import pytest
from faults.amounts import repeats
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.special import expit, logit
from scipy.stats import binomtest, norm
from sklearn.metrics import average_precision_score, roc_auc_score

from screening import MinSensitivity
from screening.metrics.intervals import (
    beta_quantile,
    design_effect,
    grouped_rate_interval,
    percentiles,
    rate_interval,
    shared_design,
    student_size_factor,
)
from screening.metrics.operating_point import choose
from screening.metrics.predictive_intervals import predictive_interval
from screening.metrics.ranking import (
    area_under_roc,
    average_precision,
    delong,
    half_width,
    placements,
    precision_with_interval,
)
from screening.metrics.tally import ThresholdCounts, rate_bands


@st.composite
def counts(draw) -> tuple[int, int]:
    """Events, and the rows among which they are counted."""
    n_rows = draw(st.integers(1, 200))
    return draw(st.integers(0, n_rows)), n_rows


def has_both_classes(rows) -> bool:
    return len({positive for _, positive in rows}) == 2


scored_rows = st.tuples(st.integers(-5, 5), st.booleans())
rows = st.lists(scored_rows, min_size=2, max_size=50).filter(has_both_classes)


@given(counts(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_agrees_with_scipy(count, level):
    reference = binomtest(*count).proportion_ci(level, method="wilson")
    expected = tuple(reference)
    assert rate_interval(*count, level) == pytest.approx(expected, abs=1e-9)


def test_intervals_at_their_edges():
    """No trials and one group tell nothing; few groups widen, many do not; certain
    areas are not promised.
    """
    few = rate_interval(8, 10, freedom=4)
    many = rate_interval(8, 10, freedom=10**9)
    plain = rate_interval(8, 10)
    y = np.arange(50) < 10
    _, low, high = delong(y.astype(float), y).value_and_interval
    alone = grouped_rate_interval([[30]], [40], [20])
    no_trials = rate_interval([0], [0])
    scores = np.arange(8.0)
    one_patient = np.zeros(8, int)
    thresholds = np.array([-np.inf, 4.0])
    positive = np.ones(8, bool)
    rows = ThresholdCounts(scores, positive, one_patient, thresholds)
    bands = np.array(rate_bands(rows, True))
    one_of_two = rate_interval([1, 0.5], [1, 1])

    assert np.ravel(no_trials).tolist() == [0.0, 1.0]
    # Rows of one patient are one.
    assert bands == pytest.approx(np.array(one_of_two))
    certain = beta_quantile(0.5, [0, 3], [3, 0])
    assert certain.tolist() == [0.0, 1.0]
    assert few[0] < plain[0] < plain[1] < few[1]
    assert np.array(many) == pytest.approx(np.array(plain))
    assert 0.6 < low < 0.8
    assert high == 1.0
    assert alone[0] < 0.05
    assert alone[1] > 0.95
    for figure in (area_under_roc, average_precision, delong):
        with pytest.raises(ValueError, match="labels must be boolean, not int64"):
            figure(np.arange(4.0), np.array([0, 1, 0, 1]))


@given(rows)
def test_areas_agree_with_scikit_learn_under_ties(rows):
    scores, positive = np.array(rows, float).T
    y = positive > 0
    expected_precision = average_precision_score(y, scores)
    expected_area = roc_auc_score(y, scores)
    assert area_under_roc(scores, y) == pytest.approx(expected_area)
    assert average_precision(scores, y) == pytest.approx(expected_precision)


def test_delong_has_the_variance_of_its_definition():
    rng = default_rng(0)
    y = np.arange(60) < 20
    scores = np.round(rng.normal(size=60) + y, 1)
    pairs = np.sign(scores[y][:, None] - scores[~y]) / 2 + 0.5
    area = pairs.mean()
    of_cases = pairs.mean(axis=1).var(ddof=1) / 20
    of_others = pairs.mean(axis=0).var(ddof=1) / 40
    spread = np.sqrt(of_cases + of_others)
    standard_error = spread / (area * (1 - area))
    expected = norm.ppf(0.975) * standard_error

    _, low, high = logit(delong(scores, y).value_and_interval)

    assert (high - low) / 2 == pytest.approx(expected)


def test_a_bootstrap_of_few_units_is_widened():
    draws = default_rng(0).normal(size=100_000)
    of_many = percentiles(draws, 10**6)
    of_ten = percentiles(draws, 10)
    student = 2.262 * np.sqrt(10 / 9)
    assert of_many[1] == pytest.approx(1.96, abs=0.03)
    assert of_ten[1] == pytest.approx(student, abs=0.05)


EVENTS = default_rng(0).random(400) < 0.3


@pytest.mark.parametrize(
    ("events", "rows", "effect"),
    [
        (EVENTS, 1, 1.0),
        (np.repeat(EVENTS, 5), 5, 5.0),
        # One event and one without in every group: the groups' share has no spread at
        # all.
        (np.tile([True, False], 50), 2, 1.0),
        # Where all rows say the same, a group tells as much as a row.
        (np.ones(60, bool), 5, 5.0),
    ],
    ids=["apart", "copies", "balanced", "all the same"],
)
def test_design_effect_of_rows_in_groups(events, rows, effect):
    n_groups = len(events) // rows
    groups = np.repeat(np.arange(n_groups), rows)
    assert design_effect(events, groups) == pytest.approx(effect, rel=0.01)


def test_few_groups_widen_the_area_by_their_number_and_by_student():
    rng = default_rng(0)
    positive = np.arange(60) % 3 == 0
    codes = np.repeat(np.arange(5), 12)
    scores = rng.normal(size=60) + positive
    _, pull = placements(scores, positive)
    sums = np.bincount(codes, weights=pull)
    variance = np.square(sums).sum() * 5 / 4
    expected = 2.776445 * np.sqrt(variance)
    assert half_width(pull, positive, codes) == pytest.approx(expected)
    quantiles = {2: 12.7062, 5: 2.776445, 31: 2.042272}
    for groups, quantile in quantiles.items():
        factor = (1.959964 / quantile) ** 2
        assert student_size_factor(groups) == pytest.approx(factor, rel=1e-5)


def test_a_factor_on_the_variance_widens_both_intervals_by_its_root():
    rng = default_rng(0)
    positive = np.arange(400) % 4 == 0
    scores = rng.normal(size=400) + 1.5 * positive
    middle, _, high = logit(delong(scores, positive).value_and_interval)
    wide = delong(scores, positive, variance_inflation=4.0)
    precision = precision_with_interval(scores, positive, None)
    wide_precision = precision_with_interval(
        scores, positive, None, variance_inflation=4.0
    )
    once = np.subtract([precision.low, precision.high], precision.value)
    moved = np.subtract([wide_precision.low, wide_precision.high], precision.value)
    expected = expit(middle + 2 * (high - middle))

    assert wide.high == pytest.approx(expected)
    assert moved == pytest.approx(2 * once)


def test_precision_repeated_rows():
    """Rows written ten times over in their groups leave the precision as sure as it
    was.

    Nor is a draw without a case one without precision.
    """
    rng = default_rng(0)
    codes = np.repeat(np.arange(6), 4)
    positive = np.arange(24) % 4 == 0
    scores = rng.normal(size=24) + positive
    rows = np.repeat(np.arange(24), 10)
    once = precision_with_interval(scores, positive, codes)
    often = precision_with_interval(scores[rows], positive[rows], codes[rows])
    few = np.arange(100) < 25
    groups = np.repeat(np.arange(4), 25)
    perfect = precision_with_interval(few.astype(float), few, groups)
    assert once.value_and_interval == pytest.approx(often.value_and_interval)
    assert perfect.low == 1.0


def test_resampled_groups_have_the_spread_of_the_ratio_estimator():
    rng = default_rng(0)
    codes = np.repeat(np.arange(200), 6)
    positive = np.ones(1200, bool)
    shared = rng.normal(size=200)[codes]
    is_event = shared + rng.normal(size=1200) > 0
    events = is_event.astype(float)
    thresholds = np.array([0.0, 1.0])
    tally = ThresholdCounts(events, positive, codes, thresholds)
    hits = tally.resampled[0]
    p = is_event.mean()
    effect = design_effect(is_event, codes)
    variance = effect * p * (1 - p) / 1200

    ratios = hits[:, 1] / hits[:, 0]

    assert np.std(ratios) == pytest.approx(np.sqrt(variance), rel=0.08)


def of_patients(
    seed: int, patients: int, voxels: int, correlation: float
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of positive voxels, standard normal over the population, and the patient
    of each.
    """
    rng = default_rng(seed)
    patient = np.repeat(np.arange(patients), voxels)
    shared = np.sqrt(correlation) * rng.normal(size=patients)
    own = np.sqrt(1 - correlation) * rng.normal(size=len(patient))
    return shared[patient] + own, patient


@pytest.mark.repeated
@pytest.mark.parametrize(
    ("patients", "sensitivity", "correlation"),
    [
        (10, 0.75, 0.3),
        (10, 0.75, 0.8),
        (20, 0.9, 0.3),
        (80, 0.9, 0.8),
    ],
)
def test_intervals_by_patient_hold_where_intervals_by_row_do_not(
    patients, sensitivity, correlation
):
    def holds(codes) -> bool:
        tally = ThresholdCounts(scores, positive, codes, thresholds, seed)
        low, high = rate_bands(tally, True)
        return low[1] <= sensitivity <= high[1]

    by_patient = []
    by_row = []
    thresholds = np.array([-np.inf, norm.isf(sensitivity)])
    for seed in repeats(150, 500):
        scores, patient = of_patients(seed, patients, 30, correlation)
        positive = np.ones(len(scores), bool)
        by_patient.append(holds(patient))
        by_row.append(holds(None))

    assert 0.92 <= np.mean(by_patient) <= 0.98
    assert np.mean(by_row) <= 0.7


@pytest.mark.repeated
def test_interval_coverage_voxels():
    """Intervals at a promised sensitivity hold for patients of many voxels."""
    inside = []
    rule = MinSensitivity(0.9)
    for seed in repeats(100, 300):
        ill, patient = of_patients(seed, 20, 30, 0.5)
        well, other = of_patients(seed + 999, 60, 30, 0.3)
        y = np.arange(2400) < 600
        scores = np.concatenate([ill + 2, well])
        groups = np.concatenate([patient, 20 + other])
        point = choose(scores, y, rule, groups)
        hit = norm.sf(point.threshold - 2)
        clear = norm.cdf(point.threshold)
        true = {
            "sensitivity": hit,
            "specificity": clear,
            "flag_rate": 0.25 * hit + 0.75 * (1 - clear),
        }
        found = {name: point[name] for name in true}
        inside.append(
            [found[name].low <= true[name] <= found[name].high for name in true]
        )

    # One and the same machine scores all rows here, so that the widening for fold
    # machines is to spare.
    held = np.mean(inside, axis=0)
    assert np.all(held >= 0.93)
    assert held[0] < 1
    assert held[1] <= 0.98


@pytest.mark.repeated
@pytest.mark.parametrize("patients", [15, 60])
def test_the_interval_of_the_area_holds_for_patients_of_many_voxels(patients):
    inside = []
    area = norm.cdf(1 / np.sqrt(2))
    for seed in repeats(100, 300):
        scores, patient = of_patients(seed, patients, 20, 0.5)
        rng = default_rng(seed)
        y = rng.random(len(scores)) < 0.2
        found = delong(scores + y, y, codes=patient)
        inside.append(found.low <= area <= found.high)
    assert 0.92 <= np.mean(inside) <= 0.985


@pytest.mark.parametrize(
    ("alike", "effect"),
    [
        (False, 1.0),
        (True, 6.0),
    ],
)
def test_the_shared_design_is_that_of_rows_apart_and_of_rows_alike(alike, effect):
    rng = default_rng(0)
    n_draws = 1 if alike else 6
    draws = rng.random((2000, n_draws)) * np.ones((1, 6))
    counts = [(draws < share).sum(axis=1) for share in (0.0, 0.05, 0.5)]
    sizes = np.full(2000, 6)
    design = shared_design(np.stack(counts, axis=1), sizes, counts[2])
    assert design == pytest.approx([6.0, effect, effect], rel=0.06)


def test_share_interval_few_groups():
    """A share that few groups decide borrows the correlation of the median split."""
    # One patient has the only miss: alone it would pass for one row in sixty.
    counts = np.full((6, 1), 10)
    counts[0] = 9
    sizes = np.full(6, 10)
    alike = np.full(6, 5)
    apart = np.array([0, 10, 10, 0, 10, 0])
    assert shared_design(counts, sizes, alike) == pytest.approx(1.0, abs=0.02)
    assert shared_design(counts, sizes, apart) > 5


@pytest.mark.parametrize("end", [0, 1])
def test_predictive_interval_sides(end):
    """Each side of a predictive interval comes from the ends that move it.

    By Bayes, as at its centre.
    """
    wrong = [(0.1, 0.1, 0.2), (0.1, 0.05, 0.1)][end]
    right = [(0.8, 0.6, 0.8), (0.8, 0.8, 0.9)][end]
    centre = predictive_interval(0.1, (0.9,) * 3, (0.2,) * 3)[end]
    by_right = predictive_interval(0.1, right, (0.1,) * 3)[end]
    by_wrong = predictive_interval(0.1, (0.8,) * 3, wrong)[end]
    hits = 0.1 * right[end + 1]
    false = 0.9 * wrong[2 - end]
    assert centre == pytest.approx(0.09 / (0.09 + 0.18))
    by_right_expected = hits / (hits + 0.9 * 0.1)
    by_wrong_expected = 0.1 * 0.8 / (0.1 * 0.8 + false)
    assert by_right == pytest.approx(by_right_expected)
    assert by_wrong == pytest.approx(by_wrong_expected)


def test_groups_pooled_by_hash():
    """Many groups are pooled by lot and not in the order of their names."""
    # Every second thousand of names is alike: pooled in their order, two groups would
    # tell no more than one.
    is_first_half = np.arange(4000) % 2000 < 1000
    event = np.repeat(is_first_half, 2).astype(float)
    codes = np.repeat(np.arange(4000), 2)
    thresholds = np.array([-np.inf, 0.5])
    positive = np.ones(8000, bool)
    tally = ThresholdCounts(event, positive, codes, thresholds)
    expected = 2 * 1.96 * np.sqrt(0.25 / 4000)
    low, high = rate_bands(tally, True)
    assert high[1] - low[1] == pytest.approx(expected, rel=0.1)
