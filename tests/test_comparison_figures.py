"""Figures of a comparison: those of scikit-learn, by weights, and their paired differences."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_outcomes import outcome
from sklearn.metrics import average_precision_score, roc_auc_score

from screening.documents.validation import Difference
from screening.validation import paired
from screening.validation.outcome import Truth, mean_curve, measured
from screening.validation.paired import difference, resampled


def test_figures_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    y = rng.random(60) < 0.3
    scores = np.round(rng.normal(size=60) + y, 1)  # with ties

    found = measured(outcome(scores), Truth(y[:, None]), asked=0.9)

    assert found["auroc"][0] == pytest.approx(roc_auc_score(y, scores))
    assert found["average_precision"][0] == pytest.approx(average_precision_score(y, scores))
    assert found["sensitivity"][0] == pytest.approx((scores[y] >= 0.5).mean())
    assert found["specificity"][0] == pytest.approx((scores[~y] < 0.5).mean())
    assert found["g_mean"][0] == pytest.approx(np.sqrt(found["sensitivity"] * found["specificity"])[0])


def test_weights_count_as_copies_of_rows():
    rng = np.random.default_rng(1)
    y = rng.random(40) < 0.4
    scores = rng.normal(size=40) + y
    weights = rng.integers(0, 3, size=(1, 40))
    copies = np.repeat(np.arange(40), weights[0])

    weighted = measured(outcome(scores), Truth(y[:, None]), 0.9, weights.astype(float))
    copied = measured(outcome(scores[copies]), Truth(y[copies, None]), 0.9)

    assert {name: value[0] for name, value in weighted.items()} == pytest.approx(
        {name: value[0] for name, value in copied.items()}
    )


def test_the_area_beside_the_drawn_curve_is_the_auroc():
    rng = np.random.default_rng(2)
    y = np.arange(400) % 4 == 0  # 100 positives: each step of the grid is one of them
    scores = rng.normal(size=400) + y

    curve = mean_curve(outcome(scores), Truth(y[:, None]))

    assert 1 - curve[1:].mean() == pytest.approx(roc_auc_score(y, scores))


def test_a_method_does_not_differ_from_itself_and_differs_from_noise():
    rng = np.random.default_rng(3)
    y = rng.random(200) < 0.3
    good, noise = rng.normal(size=200) + 3 * y, rng.normal(size=200)
    methods = {"a": outcome(good), "b": outcome(good), "c": outcome(noise)}
    groups = np.repeat(np.arange(50), 4).astype(str)

    draws = resampled(methods, dict.fromkeys(methods, Truth(y[:, None])), groups, 0.9, draws=300)

    same = difference((0.9, 0.9), (draws["a"]["auroc"], draws["b"]["auroc"]), 50)
    better = difference((0.9, 0.5), (draws["a"]["auroc"], draws["c"]["auroc"]), 50)
    assert same == Difference(difference=0.0, low=0.0, high=0.0)
    assert better.low > 0.2


def test_very_many_rows_are_thinned_about_the_figures_of_all(monkeypatch):
    rng = np.random.default_rng(4)
    y = rng.random(6000) < 0.05
    good, noise = rng.normal(size=6000) + 2 * y, rng.normal(size=6000)
    methods = {"a": outcome(good), "b": outcome(noise)}
    truths = dict.fromkeys(methods, Truth(y[:, None]))
    whole = resampled(methods, truths, None, 0.9, draws=300)
    monkeypatch.setattr(paired, "MOST", 1500)

    thin = resampled(methods, truths, None, 0.9, draws=300)

    for figure in ("auroc", "average_precision", "sensitivity", "specificity"):
        gaps = [draws["a"][figure] - draws["b"][figure] for draws in (whole, thin)]
        spread, spread_thin = (gap.std() for gap in gaps)
        assert abs(gaps[1].mean() - gaps[0].mean()) < spread
        assert 0.8 * spread <= spread_thin < 2.5 * spread
