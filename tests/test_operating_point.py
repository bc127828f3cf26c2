"""Thresholds: chosen by the stated rule, exactly, and honest about what they promise."""

from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_scores import labelled
from scipy.stats import binomtest

from screening.metrics.operating_point import (
    FLAG_EVERYTHING,
    RULES,
    ThresholdSelector,
    choose,
    excess,
    overall,
    pick,
)
from screening.schemas.figures import GMean, MaxFlagRate, MinSensitivity, MissCost, Threshold, rule_named

# Few distinct values, so that ties within and between the classes are the rule.
cohorts = st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: 0 < sum(positive for _, positive in rows) < len(rows)
)


def arrays(rows):
    return np.array([score for score, _ in rows], float), np.array([positive for _, positive in rows])


@given(cohorts, st.sampled_from([0.5, 0.75, 0.8, 0.9, 0.95]))
@settings(max_examples=60, deadline=None)
def test_min_sensitivity_is_the_promised_rank_of_the_positive_scores(rows, least):
    scores, y = arrays(rows)
    rank = floor((1 - least) * (y.sum() + 1) + 1e-9)
    ladder = np.concatenate([[FLAG_EVERYTHING], np.sort(scores[y])])

    assert choose(scores, y, MinSensitivity(least)).threshold == ladder[rank]


@given(cohorts, st.floats(0.01, 1.0))
@settings(max_examples=60, deadline=None)
def test_max_flag_rate_flags_as_many_as_it_may_and_no_more(rows, most):
    scores, y = arrays(rows)
    threshold = choose(scores, y, MaxFlagRate(most)).threshold
    lower = np.append(scores[scores < threshold], -np.inf).max()

    assert np.mean(scores >= threshold) <= most + 1e-12
    assert np.mean(scores >= lower) > most or threshold == scores.min()


@given(cohorts, st.floats(0.5, 100.0), st.floats(0.01, 0.5))
@settings(max_examples=60, deadline=None)
def test_miss_cost_is_the_cheapest_of_all_thresholds_at_the_prevalence(rows, miss, prevalence):
    scores, y = arrays(rows)

    def cost(threshold):
        found, false = np.mean(scores[y] >= threshold), np.mean(scores[~y] >= threshold)
        return prevalence * (miss * (1 - found) + found) + (1 - prevalence) * false

    chosen = choose(scores, y, MissCost(miss, prevalence=prevalence))
    assert cost(chosen.threshold) <= min(map(cost, [*scores, np.inf])) + 1e-9


def test_rules_at_known_thresholds():
    """At a prevalence of a half a false alarm weighs half; a flag rate may be reached exactly."""
    hits, alarms = np.array([10, 9, 5, 0]), np.array([10, 5, 1, 0])
    exact = choose(np.arange(100.0), np.arange(100) < 10, MaxFlagRate(0.1))

    # 0.825 a row at the second threshold, 0.925 at the third.
    assert pick(MissCost(2.5, prevalence=0.5), hits, alarms, 1.0) == 1
    assert (exact.threshold, exact.flag_rate.value) == (90.0, pytest.approx(0.1))


@given(cohorts)
@settings(max_examples=60, deadline=None)
def test_g_mean_is_the_largest_of_all_thresholds(rows):
    scores, y = arrays(rows)

    def g_mean(threshold):
        return np.sqrt(np.mean(scores[y] >= threshold) * np.mean(scores[~y] < threshold))

    assert g_mean(choose(scores, y, GMean()).threshold) >= max(map(g_mean, scores)) - 1e-9


@pytest.mark.parametrize("rule", [*RULES, Threshold(0.5)], ids=str)
def test_rates_shown_are_expected_of_the_threshold_and_hang_together(rule):
    scores, y = labelled()
    scores = np.round(scores, 1)
    point = choose(scores, y, rule, fold=np.arange(len(y)) % 5)
    hits, share = (scores[y] >= point.threshold).sum(), y.mean()
    found, false = share * point.sensitivity.value, (1 - share) * (1 - point.specificity.value)

    assert point.misses == y.sum() - hits
    assert point.sensitivity.value == pytest.approx(hits / (y.sum() + 1))
    assert point.specificity.value == pytest.approx(np.mean(scores[~y] < point.threshold))
    assert point.flag_rate.value == pytest.approx(found + false)
    assert point.ppv.value == pytest.approx(found / point.flag_rate.value)
    assert point.npv.value == pytest.approx((1 - share - false) / (1 - point.flag_rate.value))
    assert point.nne.value == pytest.approx(1 / point.ppv.value)
    for name in ("sensitivity", "specificity", "ppv", "npv", "nne", "flag_rate"):
        value, low, high = getattr(point, name).ends
        assert low < value < high


def test_an_interval_holds_its_figure_even_where_no_case_is_found():
    y = np.arange(60) < 20
    point = choose(np.where(np.arange(60) >= 50, 1.0, 0.0), y, Threshold(0.5))

    assert point.sensitivity.value == point.sensitivity.low == point.ppv.value == point.ppv.low == 0
    assert point.ppv.high > 0 and point.nne.value is None


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_row_order_does_not_move_a_threshold(rule):
    scores, y = labelled()
    fold, order = np.arange(len(y)) % 5, np.random.default_rng(1).permutation(len(y))
    repeats = scores + np.random.default_rng(2).normal(size=(3, len(y)))
    point = choose(scores, y, rule, fold=fold, repeats=repeats)
    moved = choose(scores[order], y[order], rule, fold=fold[order], repeats=repeats[:, order])

    assert moved == point


@given(cohorts, st.sampled_from(RULES))
@settings(max_examples=40, deadline=None)
def test_only_the_order_of_scores_counts(rows, rule):
    scores, y = arrays(rows)
    fold = np.arange(len(y)) % 3
    point = choose(scores, y, rule, fold=fold)
    bent = choose(np.exp(scores) - 1, y, rule, fold=fold)

    assert bent.replace(threshold=point.threshold) == point


def test_a_promise_no_rank_can_keep_flags_everything_and_says_so():
    scores, y = labelled(100, 0.1)
    point = choose(scores, y, MinSensitivity(0.95))
    unsure = choose(*labelled(200, 0.1), MinSensitivity(0.9, confidence=0.95))
    sensitivity, flag_rate = point.sensitivity, point.flag_rate

    assert (point.threshold, sensitivity.value, point.specificity.value) == (FLAG_EVERYTHING, 1.0, 0.0)
    assert "every row is flagged" in point.notes[0]
    assert (sensitivity.low, flag_rate.low, flag_rate.high, point.npv.value) == (1, 1, 1, None)
    assert point.ppv.value == pytest.approx(0.1)
    assert point.ppv.low < 0.06 and point.ppv.high > 0.15
    assert unsure.threshold == FLAG_EVERYTHING
    assert "with confidence 0.95 cannot be promised from 20 positives" in unsure.notes[0]


def test_confidence_takes_the_largest_threshold_whose_exact_lower_bound_is_enough():
    scores, y = labelled(800, 0.1)
    threshold = choose(scores, y, MinSensitivity(0.9, confidence=0.95)).threshold

    def lower_bound(threshold):
        found = int((scores[y] >= threshold).sum())
        return binomtest(found, int(y.sum()), alternative="greater").proportion_ci(0.95).low

    assert lower_bound(threshold) >= 0.9
    assert lower_bound(np.min(scores[y & (scores > threshold)])) < 0.9


def test_few_positives_are_said_aloud():
    scores, y = labelled(240, 0.1)
    point = choose(scores, y, MinSensitivity(0.9))
    reach = (point.sensitivity.high - point.sensitivity.low) / 2

    assert f"with 24 positives, sensitivity 0.92 is known to ± {reach:.2f}" in point.notes
    assert 0.1 < reach < 0.14


@pytest.mark.parametrize(("alike", "said"), [(0, False), (2, False), (60, True)])
def test_rows_that_share_a_score_beside_the_threshold_are_said_aloud(alike, said):
    scores, y = labelled(600)
    threshold = choose(scores, y, MinSensitivity(0.8)).threshold
    beside = np.flatnonzero(~y & (scores < threshold))[:alike]
    scores[beside] = threshold - 1e-6

    notes = choose(scores, y, MinSensitivity(0.8)).notes
    assert any("of the negatives have one of few scores" in note for note in notes) == said


def test_of_several_classes_the_one_furthest_above_its_threshold_speaks_for_a_row():
    scores, thresholds = np.array([[3.0, 1.0], [0.0, 4.0], [1.0, 1.0]]), np.array([2.0, 2.0])

    assert overall(scores, thresholds).tolist() == [1.0, 2.0, -1.0]
    assert overall(scores[:, :1], thresholds[:1]).tolist() == [3.0, 0.0, 1.0]
    # A class that flags everything says nothing of a row.
    assert excess(scores, np.array([2.0, FLAG_EVERYTHING]))[:, 1].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "sensitivity", "value": 0.9}, {"name": "min_sensitivity"},
        {"name": "min_sensitivity", "value": 1.2}, {"name": "max_flag_rate", "value": 0.0},
        {"name": "miss_cost", "value": -1.0}, {"name": "g_mean", "value": 1.0},
        {"name": "threshold", "value": float("nan")}, {"name": "g_mean", "confidence": 0.9},
        {"name": "min_sensitivity", "value": 0.9, "prevalence": 1.0},
    ],
    ids=str,
)  # fmt: skip
def test_a_rule_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError):
        rule_named(**wrong)


def test_flag_rate_and_predictive_values_have_the_ends_that_two_and_a_half_per_cent_lie_beyond():
    scores, y = labelled()
    point = choose(scores, y, Threshold(1.0, prevalence=0.1), seed=3)
    choice = ThresholdSelector.of(scores, y, None, 3, None, None)
    drawn = choice.evidence(1.0, point.rule).drawn(0.1, 3)

    for name, value in (("ppv", point.ppv.value), ("flag_rate", point.flag_rate.value)):
        low, high = np.quantile(drawn[name], [0.025, 0.975])
        assert getattr(point, name).low == pytest.approx(min(low, value))
        assert getattr(point, name).high == pytest.approx(max(high, value))
