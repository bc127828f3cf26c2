"""Figures of a comparison, paired differences and ranks: against scikit-learn, scipy and Demšar (2006)."""

import numpy as np
import pytest
from comparison_outcomes import outcome
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import friedmanchisquare
from sklearn.metrics import average_precision_score, roc_auc_score

from screening.metrics.paired import recall_difference, resampled_difference
from screening.metrics.ranks import against_control, cliques, critical_difference, friedman, holm
from screening.model_selection.compare import mean_curve, measured, resampled
from screening.schemas.base import Estimate


def test_figures_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    y = rng.random(60) < 0.3
    scores = np.round(rng.normal(size=60) + y, 1)  # with ties
    found = measured(outcome(scores, y), at_sensitivity=0.9)

    assert found["auroc"][0] == pytest.approx(roc_auc_score(y, scores))
    assert found["average_precision"][0] == pytest.approx(average_precision_score(y, scores))
    assert found["sensitivity"][0] == pytest.approx((scores[y] >= 0.5).mean())
    assert found["specificity"][0] == pytest.approx((scores[~y] < 0.5).mean())
    assert found["g_mean"][0] == pytest.approx(np.sqrt(found["sensitivity"] * found["specificity"])[0])


def test_weights_count_as_copies_of_rows():
    rng = np.random.default_rng(1)
    y = rng.random(40) < 0.4
    scores, weights = rng.normal(size=40) + y, rng.integers(0, 3, size=(1, 40))
    copies = np.repeat(np.arange(40), weights[0])
    weighted = measured(outcome(scores, y), 0.9, weights.astype(float))
    copied = measured(outcome(scores[copies], y[copies]), 0.9)

    assert weighted.keys() == copied.keys()
    for name, value in weighted.items():
        assert value[0] == pytest.approx(copied[name][0]), name


def test_the_area_beside_the_drawn_curve_is_the_auroc():
    rng = np.random.default_rng(2)
    y = np.arange(400) % 4 == 0  # 100 positives: each step of the grid is one of them
    scores = rng.normal(size=400) + y
    curve = mean_curve(outcome(scores, y).held)
    assert 1 - curve[1:].mean() == pytest.approx(roc_auc_score(y, scores))


def test_a_method_does_not_differ_from_itself_and_differs_from_noise():
    rng = np.random.default_rng(3)
    y = rng.random(200) < 0.3
    good, noise = rng.normal(size=200) + 3 * y, rng.normal(size=200)
    groups = np.repeat(np.arange(50), 4).astype(str)
    methods = [outcome(scores, y, groups) for scores in (good, good, noise)]
    one, other, blind = (figures["auroc"] for figures in resampled(methods, 0.9, draws=300))

    same = resampled_difference((0.9, 0.9), (one, other), 50)
    better = resampled_difference((0.9, 0.5), (one, blind), 50)
    assert same == Estimate(0.0, 0.0, 0.0)
    assert better.low > 0.2


@pytest.mark.parametrize("n_groups", [400, 60])
def test_a_difference_of_recalls_is_as_wide_as_its_bootstrap(n_groups):
    """A sum of what each row (or group) adds; the rows of a class are as many as they are."""
    rng = np.random.default_rng(5)
    target, groups = rng.choice(3, 400, p=[0.6, 0.3, 0.1]), np.arange(400) % n_groups
    right, others = rng.random((2, 400)) < np.array([[0.8], [0.6]])
    weights = rng.multinomial(n_groups, np.full(n_groups, 1 / n_groups), 2000)[:, groups]
    classes = [weights * (target == m) for m in range(3)]
    gaps = np.mean([own @ (right * 1.0 - others) / own.sum(axis=1) for own in classes], axis=0)
    found = recall_difference(right, others, target, groups)

    low, high = np.quantile(gaps, [0.025, 0.975])
    assert found.value == pytest.approx(gaps.mean(), abs=0.01)
    assert found.high - found.low == pytest.approx(high - low, rel=0.15)


# Demšar (2006), table 6: AUC of C4.5, C4.5+m, C4.5+cf, C4.5+m+cf on 14 data sets.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
    ]
)  # fmt: skip
TABLES = arrays(float, st.tuples(st.integers(3, 8), st.integers(3, 6)), elements=st.floats(0, 1, width=16))


def test_the_worked_example_of_the_literature_comes_out():
    found = friedman(DEMSAR)

    assert found.mean_ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=0.001)
    # The paper's 9.28 and 3.69 are without the correction for ties, which makes both a little larger.
    assert 9.28 <= found.chi2 <= 10.3
    assert 3.69 <= found.f <= 4.2
    assert found.p < 0.05
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.01)


@given(TABLES.filter(lambda table: len(np.unique(np.round(table, 9))) > 2))
def test_friedman_agrees_with_scipy(figures):
    expected = friedmanchisquare(*np.round(figures, 9).T).statistic
    assert friedman(figures).chi2 == pytest.approx(expected if np.isfinite(expected) else 0.0, abs=1e-8)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_the_raw_value_and_bonferroni(p):
    """It steps down and never decreases."""
    adjusted = holm(p)
    assert (adjusted >= np.asarray(p)).all()
    assert (adjusted <= np.minimum(1, np.asarray(p) * len(p))).all()
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_against_the_control_matches_the_worked_example():
    """A clique joins ranks within the critical difference only."""
    ranks = against_control(DEMSAR, control=0)
    assert np.isnan(ranks.p[0])
    assert ranks.z[1:] == pytest.approx([2.342, 0.512, 2.416], abs=0.01)
    assert ranks.p[1:] == pytest.approx([0.019, 0.607, 0.016], abs=0.002)
    assert ranks.p_holm[1:] == pytest.approx([0.047, 0.607, 0.047], abs=0.01)
    assert cliques(np.array([1.0, 1.8, 2.5, 4.0]), 1.0) == [(1.0, 1.8), (1.8, 2.5)]
