"""Intervals for a model that is its folds: formulae computed another way, and how often
they hold.
"""

from dataclasses import replace

import flow_cohorts
import numpy as np
import pytest
from faults.amounts import repeats
from fold_machines import drawn, folded, held_out_by
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.special import expit, logit
from scipy.stats import beta, norm

from screening import (
    GMean,
    MaxFlagRate,
    MinSensitivity,
    MissCost,
    Threshold,
    load_recipe,
    read_cohort,
)
from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.figures import FIGURES
from screening.metrics.intervals import student_size_factor
from screening.metrics.operating_point import ThresholdSelector, choose
from screening.metrics.paired import area_difference, share_difference
from screening.metrics.predictive_intervals import (
    Evidence,
    between_folds,
    between_repeats,
    predictive,
    variance_inflation,
)
from screening.metrics.ranking import delong
from screening.model_selection.folds import split_study
from screening.model_selection.scores import HeldOutScores
from screening.model_selection.task import infer_task
from screening.schemas.base import Estimate
from screening.settings import Validation

RULES = (MinSensitivity(0.9), MaxFlagRate(0.2), MissCost(20.0), GMean(), Threshold(0.0))


@given(st.integers(1, 500), st.data())
def test_sensitivity_is_the_law_above_a_rank_with_its_sizes_divided(m, data):
    r = data.draw(st.integers(1, m))
    hits = m + 1 - r
    evidence = Evidence(hits=hits, misses=r - 1, false=3, clear=97)
    expected = beta.ppf([0.025, 0.975], hits / 1.5, r / 1.5)
    assert evidence.sensitivity_range() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("false", "n", "b"),
    [
        (20, 200, 0.0),
        (20, 200, 0.001),
        (0, 300, 0.0),
        (1, 10**6, 0),
    ],
)
def test_specificity_interval(false, n, b):
    """Specificity is Wald on the logit with the variance between folds."""
    q = 1 - false / n
    v0 = max(q * (1 - q), 0.5 / n) / n
    least = min(0.002, 1 / n)
    c = float(np.clip(q, least, 1 - least))
    standard_error = np.sqrt(v0 + b)
    half = 1.96 * standard_error / (c * (1 - c))
    low = expit(logit(c) - half)
    high = expit(logit(c) + half)
    evidence = Evidence(9, 1, false, n - false, b)
    expected = (low, max(high, q))
    assert evidence.specificity_range() == pytest.approx(expected)


def test_variance_between_folds():
    """Folds that differ by their rows alone add nothing and others add what they differ
    by."""
    rng = default_rng(0)
    sizes = np.full(2000, 90)
    alike = rng.binomial(90, 0.8, 2000) / 90
    chances = np.clip(0.8 + 0.05 * rng.normal(size=2000), 0, 1)
    apart = rng.binomial(90, chances) / 90
    own = 0.8 * 0.2 / sizes
    of_two = between_folds(np.array([0.8, 0.9]), np.zeros(2))
    of_repeats = between_repeats(np.array([0.7, 0.8, 0.9]))

    assert between_folds(np.full(3, 0.8), own[:3]) == 0.0
    assert 2000 * between_folds(alike, own) < 2e-4
    found = 2000 * between_folds(apart, own)
    assert found == pytest.approx(0.05**2, rel=0.15)
    assert of_two == pytest.approx(0.005 / 2)
    assert of_repeats == pytest.approx(0.01 / 3)
    # Many settings widen more.
    factors = [variance_inflation(tried) for tried in (1, 8, 14, 24, 500)]
    assert factors == pytest.approx([1.5, 1.5, 1.755, 2.0, 2.0], abs=0.001)


def test_draws_have_the_moments_of_their_laws():
    evidence = Evidence(
        hits=54,
        misses=6,
        false=90,
        clear=360,
        between=0.0004,
    )
    stated = evidence.drawn(0.1, 0)["flag_rate"]
    estimated = evidence.drawn((60.0, 450.0), 0)["flag_rate"]
    v0 = 0.2 * 0.8 / 450
    wider = 1 + 0.0004 / v0
    hit = beta(54 / 1.5, 7 / 1.5)
    false = beta(90.5 / wider, 360.5 / wider)
    mean = 0.1 * hit.mean() + 0.9 * false.mean()
    spread = np.hypot(0.1 * hit.std(), 0.9 * false.std())

    assert stated.mean() == pytest.approx(mean, abs=0.002)
    assert stated.std() == pytest.approx(spread, rel=0.05)
    variance = v0 + 0.0004
    assert false.std() == pytest.approx(np.sqrt(variance), rel=0.02)
    assert estimated.std() > stated.std()


@pytest.fixture(scope="module")
def cohorts():
    models = []
    for seed in repeats(250, 400):
        x, y = drawn(seed, 500, 0.1)
        models.append(folded(x, y, seed))
    return models


@pytest.mark.repeated
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_interval_coverage_every_rule(cohorts, rule):
    """Every interval holds for the mean of fold machines whatever the rule."""
    inside = []
    for seed, model in enumerate(cohorts):
        point = choose(
            model.scores[0],
            model.y,
            rule,
            seed=seed,
            fold=model.fold,
        )
        se = model.sensitivity(point.threshold)
        sp = model.specificity(point.threshold)
        chances = predictive(0.1, se, 1 - sp)
        true = {"sensitivity": se, "specificity": sp} | chances
        found = {name: point[name] for name in true}
        inside.append(
            [found[name].low <= true[name] <= found[name].high for name in true]
        )

    # 93 to 97 in 100 is meant; three standard errors of a share over so many cohorts
    # are 3 in 100. The sensitivity of a rule that no positive decides is widened though
    # it would not need it.
    held = np.mean(inside, axis=0)
    assert np.all(held >= 0.92)
    assert np.all(held <= 0.995)


@pytest.mark.repeated
def test_repeats_tell_the_spread_between_deals():
    inside = []
    widths = []
    widths_of_one = []
    for seed in repeats(60, 150):
        rows, y = drawn(seed, 500, 0.1)
        model = folded(rows, y, seed, repeats=3)
        mean = model.scores.mean(axis=0)
        point = choose(mean, y, RULES[0], repeats=model.scores)
        found = point["specificity"]
        bare = choose(mean, y, RULES[0], repeats=None)["specificity"]
        true = model.specificity(point.threshold)
        inside.append(found.low <= true <= found.high)
        widths.append(found.high - found.low)
        widths_of_one.append(bare.high - bare.low)

    assert np.mean(inside) >= 0.92
    assert np.mean(widths) > np.mean(widths_of_one)


@pytest.mark.repeated
def test_differences_of_two_methods_hold_at_their_thresholds():
    held = []
    for seed in repeats(100, 300):
        x, y = drawn(seed, 500, 0.1)
        one = folded(x, y, seed)
        two = folded(x, y, seed, features=2)
        a = one.scores[0]
        b = two.scores[0]
        at_one = choose(a, y, RULES[0]).threshold
        at_two = choose(b, y, RULES[0]).threshold
        area = area_difference(a, b, y, variance_inflation=1.5)
        is_clear = a[~y] < at_one
        is_clear_by_other = b[~y] < at_two
        clear = share_difference(is_clear, is_clear_by_other, one.fold[~y])
        true_area = one.auroc - two.auroc
        true_clear = one.specificity(at_one) - two.specificity(at_two)
        held.append(
            [
                area.low <= true_area <= area.high,
                clear.low <= true_clear <= clear.high,
            ]
        )

    assert np.all(np.mean(held, axis=0) >= 0.92)


def comparisons(scores, y):
    """Of each case with each other row: 1 if it scores higher, 0.5 of a tie, else 0."""
    pairs = scores[y][:, None] - scores[~y]
    return np.sign(pairs) / 2 + 0.5


def test_paired_auroc_variance():
    """The paired difference of areas has the variance of its definition."""
    rng = default_rng(0)
    y = np.arange(90) < 30
    a, b = np.round(rng.normal(size=(2, 90)) + y, 1)
    gap = comparisons(a, y) - comparisons(b, y)
    of_cases = gap.mean(axis=1).var(ddof=1) / 30
    of_others = gap.mean(axis=0).var(ddof=1) / 60
    variance = of_cases + of_others
    found = area_difference(a, b, y)

    assert found.value == pytest.approx(gap.mean())
    assert (found.high - found.low) / 2 == pytest.approx(
        norm.ppf(0.975) * np.sqrt(variance)
    )


def test_a_single_case_gives_no_interval_of_a_difference():
    y = np.arange(5) < 1
    found = area_difference(np.array([3, 1, 2, 4, 5]), np.arange(5), y)

    assert found == Estimate(0.5)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=5, max_size=60))
def test_the_difference_of_specificities_is_its_formula(rows):
    clear, others = np.array(rows).T
    u = clear.astype(int) - others
    n = len(u)
    total = u.sum()
    mean = total / (n + 2)
    v = (np.count_nonzero(u) + 1 - total * mean) / (n + 2) ** 2
    half = 1.96 * np.sqrt(v)
    found = share_difference(clear, others)
    assert found.low == pytest.approx(min(mean - half, u.mean()))
    assert found.high == pytest.approx(max(mean + half, u.mean()))


def test_rows_alike_within_a_group_count_once_in_a_difference():
    rng = default_rng(0)
    y = np.arange(400) < 100
    a, b = rng.normal(size=(2, 400)) + y

    def differences(times):
        rows = np.repeat(np.arange(400), times)
        one = a[rows]
        other = b[rows]
        negative = ~y[rows]
        shares = one[negative] < 1, other[negative] < 1
        return (
            area_difference(one, other, ~negative, rows),
            share_difference(*shares, groups=rows[negative]),
        )

    for once, four in zip(differences(1), differences(4), strict=True):
        assert four.value == pytest.approx(once.value)
        width = four.high - four.low
        expected = once.high - once.low
        assert width == pytest.approx(expected, rel=0.03)


def held_out(n_groups: int, rows: int = 50):
    rng = default_rng(0)
    n = n_groups * rows
    y = np.arange(n) % 5 == 0
    groups = np.repeat(np.arange(n_groups), rows)
    scores = rng.normal(size=n) + 2 * y
    return ThresholdSelector.of(scores, y, groups, 0, None, None)


def test_interval_few_groups():
    """Independent rows of few groups count as few as the groups tell.

    Those of a single group tell as much as one row, and not less.
    """
    rule = Threshold(1.0)
    for n_groups in (3, 10):
        choice = held_out(n_groups)
        share = student_size_factor(n_groups)
        rows = n_groups * 10
        evidence = choice.evidence(1.0)
        known = choice.prevalence(rule)

        assert evidence.hits + evidence.misses <= share * rows * 1.0001
        assert known[0] == pytest.approx(share * rows, rel=0.01)
    single = held_out(1).evidence(1.0)
    assert single.hits + single.misses == pytest.approx(1.0)


def interval(recipe: str, seed: int, *, permuted: bool) -> tuple[float, float]:
    """Of the AUROC that a model of these patients would print, three settings tried."""
    frame = flow_cohorts.patients(120, 0.2, seed)
    if permuted:
        rng = default_rng(seed)
        frame["ill"] = rng.permutation(frame["ill"])
    cohort = read_cohort(
        frame,
        label="ill",
        positive="yes",
        id="patient",
        need_label=True,
    )
    task, *_ = infer_task(cohort, False)
    study = replace(
        split_study(
            cohort,
            task.target(cohort.labels),
            task,
            Validation(folds=5, repeats=1, seed=seed),
        ),
        n_settings=3,
    )
    held_out = held_out_by(study, load_recipe(recipe), jobs=1)
    validation = HeldOutScores.of(held_out, study)
    scores = validation.scores[:, 0]
    y = validation.watched[:, 0]
    wider = variance_inflation(validation.n_settings)
    area = delong(scores, y, variance_inflation=wider)
    return area.low, area.high


@pytest.mark.parametrize("recipe", ["logistic", "svm_weighted", "one_class"])
def test_interval_permuted_labels(recipe):
    """With permuted labels intervals hold one half and with the true ones they do
    not.
    """
    blind = [interval(recipe, seed, permuted=True) for seed in range(8)]
    low, _ = interval(recipe, 0, permuted=False)
    # Each may miss once in twenty; two of eight would be one chance in twenty more.
    assert sum(low <= 0.5 <= high for low, high in blind) >= 7
    assert low > 0.5


@pytest.mark.repeated
def test_a_promised_sensitivity_is_kept_on_average(cohorts):
    """The interval of the area holds too."""
    areas = []
    promised = []
    true = []
    for model in cohorts:
        scores = model.scores[0]
        rows = EvaluatedRows(scores, model.y, np.inf, n_settings=1)
        area = FIGURES["auroc"].compute(rows)
        point = choose(scores, model.y, RULES[0])
        areas.append(area.low <= model.auroc <= area.high)
        promised.append(point["sensitivity"].value)
        true.append(model.sensitivity(point.threshold))
    assert np.mean(true) >= 0.9
    mean_promised = np.mean(promised)
    assert np.mean(true) == pytest.approx(mean_promised, abs=0.012)
    assert 0.93 <= np.mean(areas) <= 0.99
