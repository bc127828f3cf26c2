"""Thresholds: chosen by the stated rule, exactly, and honest about what they promise."""

from __future__ import annotations

import json
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.errors import UsageError
from screening.operating_point import (
    FLAG_EVERYTHING,
    RULES,
    OperatingPoint,
    Rule,
    choose,
    curve,
    performance,
    points,
    summary,
)
from screening.statistics.intervals import wilson
from screening.statistics.placement import place


def labelled(n_rows: int = 300, share: float = 0.1, shift: float = 1.5, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) < share * n_rows
    return rng.normal(size=n_rows) + shift * y, y


def grouped(n_groups: int = 15, rows: int = 20, seed: int = 0):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), rows)
    y = rng.random(len(group)) < 0.2
    return rng.normal(size=len(group)) + 2 * y + rng.normal(size=n_groups)[group], y, group


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

    assert choose(scores, y, Rule("min_sensitivity", least)).threshold == ladder[rank]


@given(cohorts, st.floats(0.01, 1.0))
@settings(max_examples=60, deadline=None)
def test_max_flag_rate_flags_as_many_as_it_may_and_no_more(rows, most):
    scores, y = arrays(rows)
    threshold = choose(scores, y, Rule("max_flag_rate", most)).threshold
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

    chosen = choose(scores, y, Rule("miss_cost", miss, prevalence=prevalence))
    assert cost(chosen.threshold) <= min(map(cost, [*scores, np.inf])) + 1e-9


@given(cohorts)
@settings(max_examples=60, deadline=None)
def test_g_mean_is_the_largest_of_all_thresholds(rows):
    scores, y = arrays(rows)

    def g_mean(threshold):
        return np.sqrt(np.mean(scores[y] >= threshold) * np.mean(scores[~y] < threshold))

    assert g_mean(choose(scores, y, Rule("g_mean")).threshold) >= max(map(g_mean, scores)) - 1e-9


@pytest.mark.parametrize("rule", [*RULES, Rule("threshold", 0.5)], ids=str)
def test_rates_shown_are_those_of_the_rows_flagged_at_or_above_the_threshold(rule):
    scores, y = labelled()
    point = choose(np.round(scores, 1), y, rule)
    flagged = np.round(scores, 1) >= point.threshold

    assert point.sensitivity == pytest.approx(flagged[y].mean())
    assert point.specificity == pytest.approx(1 - flagged[~y].mean())
    assert point.flag_rate == pytest.approx(flagged.mean())
    assert point.ppv == pytest.approx(y[flagged].mean())
    assert point.nne == pytest.approx(1 / y[flagged].mean())
    assert point.sensitivity_low <= point.sensitivity <= point.sensitivity_high
    assert point.specificity_low <= point.specificity <= point.specificity_high


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_row_order_does_not_move_a_threshold(rule):
    scores, y = labelled()
    order = np.random.default_rng(1).permutation(len(y))

    assert choose(scores, y, rule).to_dict() == choose(scores[order], y[order], rule).to_dict()


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_an_increasing_straight_line_of_the_scores_carries_the_threshold_with_it(rule):
    scores, y = labelled()
    threshold = choose(scores, y, rule).threshold

    assert choose(4 * scores - 8, y, rule).threshold == pytest.approx(4 * threshold - 8)


def test_a_promise_no_rank_can_keep_flags_everything_and_says_so():
    scores, y = labelled(100, 0.1)
    point = choose(scores, y, Rule("min_sensitivity", 0.95))

    assert (point.threshold, point.sensitivity, point.specificity) == (FLAG_EVERYTHING, 1.0, 0.0)
    assert "every row is flagged" in point.notes[0]


def test_confidence_takes_the_largest_threshold_whose_exact_lower_bound_is_enough():
    scipy_stats = pytest.importorskip("scipy.stats")
    scores, y = labelled(800, 0.1)
    threshold = choose(scores, y, Rule("min_sensitivity", 0.9, confidence=0.95)).threshold

    def lower_bound(threshold):
        found = int((scores[y] >= threshold).sum())
        return scipy_stats.binomtest(found, int(y.sum()), alternative="greater").proportion_ci(0.95).low

    assert lower_bound(threshold) >= 0.9
    assert lower_bound(np.min(scores[y & (scores > threshold)])) < 0.9


def test_a_confidence_out_of_reach_flags_everything_and_says_so():
    scores, y = labelled(200, 0.1)
    point = choose(scores, y, Rule("min_sensitivity", 0.9, confidence=0.95))

    assert point.threshold == FLAG_EVERYTHING
    assert "with confidence 0.95 cannot be promised from 20 positives" in point.notes[0]


def test_few_positives_are_said_aloud():
    scores, y = labelled(240, 0.1)

    assert (
        "with 24 positives, sensitivity 0.90 is known to ± 0.12" in choose(scores, y, Rule(value=0.9)).notes
    )


def test_predictive_values_and_workload_hold_at_the_given_prevalence():
    scores, y = labelled()
    point = choose(scores, y, Rule("threshold", 1.0, prevalence=0.01))
    found, false = point.sensitivity * 0.01, (1 - point.specificity) * 0.99

    assert point.flag_rate == pytest.approx(found + false)
    assert point.ppv == pytest.approx(found / (found + false))
    assert point.ppv_low < point.ppv < point.ppv_high


def test_observed_predictive_values_have_the_intervals_of_observed_shares():
    scores, y = labelled()
    seen = performance(scores, y, 1.0)
    flagged = seen["true_positive"] + seen["false_positive"]
    left = seen["true_negative"] + seen["false_negative"]

    assert [seen["ppv_low"], seen["ppv_high"]] == pytest.approx(
        np.array(wilson(seen["true_positive"], flagged))
    )
    assert [seen["npv_low"], seen["npv_high"]] == pytest.approx(np.array(wilson(seen["true_negative"], left)))
    known = performance(scores, y, 1.0, prevalence=float(np.mean(y)))
    assert seen["ppv"] == pytest.approx(known["ppv"])
    assert seen["ppv_high"] - seen["ppv_low"] > known["ppv_high"] - known["ppv_low"]


def test_a_patients_repeated_rows_do_not_make_the_promise_stronger():
    scores, y = labelled(200, 0.2)
    once = choose(scores, y, Rule(value=0.9))
    thrice = choose(np.repeat(scores, 3), np.repeat(y, 3), Rule(value=0.9), np.repeat(np.arange(200), 3))

    assert thrice.threshold == once.threshold
    assert thrice.sensitivity_high - thrice.sensitivity_low >= once.sensitivity_high - once.sensitivity_low


def test_groups_of_one_row_are_independent_rows():
    scores, y = labelled()
    alone = choose(scores, y, Rule("g_mean"), np.arange(len(y))).to_dict()

    assert alone | {"n_groups": None} == choose(scores, y, Rule("g_mean")).to_dict()
    assert alone["n_groups"] == len(y)


def test_groups_widen_every_interval():
    scores, y, group = grouped()
    rows, patients = performance(scores, y, 0.5), performance(scores, y, 0.5, group)

    assert patients["sensitivity"] == rows["sensitivity"]
    for name in ("sensitivity", "specificity", "auroc"):
        assert patients[f"{name}_high"] - patients[f"{name}_low"] > rows[f"{name}_high"] - rows[f"{name}_low"]


@pytest.mark.parametrize("group", [None, grouped()[2]], ids=["rows", "groups"])
def test_every_figure_survives_a_file_without_losing_a_bit(group):
    scores, y, _ = grouped()
    for stored in points(scores, y, group):
        text = json.dumps(stored, allow_nan=False)
        assert OperatingPoint.from_dict(json.loads(text)).to_dict() == stored
    json.dumps([curve(scores, y, group), summary(scores, y, group)], allow_nan=False)


def test_a_curve_passes_through_what_performance_says():
    scores, y = labelled()
    drawn = curve(scores, y, points=50)
    for i in range(0, len(drawn["threshold"]), 12):
        at = performance(scores, y, drawn["threshold"][i])
        assert {name: drawn[name][i] for name in drawn} == pytest.approx({name: at[name] for name in drawn})


def test_a_curve_keeps_both_extremes_and_its_length():
    scores, y = labelled(20_000)
    drawn = curve(scores, y)

    assert (drawn["threshold"][0], drawn["threshold"][-1]) == (scores.min(), scores.max())
    assert len(drawn["threshold"]) <= 202
    assert np.all(np.diff(drawn["sensitivity"]) <= 0)


def test_a_night_without_positives_still_has_a_specificity():
    scores, _ = labelled()
    night = performance(scores, np.zeros(len(scores), int), 1.0)

    assert night["sensitivity"] is None and night["ppv"] is None and night["auroc"] is None
    assert night["specificity"] == pytest.approx(np.mean(scores < 1.0))


def test_a_threshold_needs_both_classes():
    with pytest.raises(UsageError, match="0 positive and 5 negative"):
        choose(np.arange(5.0), np.zeros(5), Rule(value=0.9))


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "sensitivity", "value": 0.9},
        {"name": "min_sensitivity"},
        {"name": "min_sensitivity", "value": 1.2},
        {"name": "max_flag_rate", "value": 0.0},
        {"name": "miss_cost", "value": -1.0},
        {"name": "g_mean", "value": 1.0},
        {"name": "threshold", "value": float("nan")},
        {"name": "g_mean", "confidence": 0.9},
        {"name": "min_sensitivity", "value": 0.9, "prevalence": 1.0},
    ],
    ids=str,
)
def test_a_rule_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError):
        Rule(**wrong)


@given(st.floats(0.6, 1.8), st.floats(-5, 5))
@settings(max_examples=25, deadline=None)
def test_placement_undoes_a_straight_line_between_fold_model_and_final_model(slope, shift):
    rng = np.random.default_rng(0)
    negatives, positives, test = rng.normal(size=50), rng.normal(2, size=9), rng.normal(size=20)
    final = slope * negatives + shift, slope * positives + shift

    placed, statement = place(test, negatives, final[0], positives, final[1])

    assert placed == pytest.approx(slope * test + shift)
    assert "final model's scale" in statement


def test_rows_the_final_model_never_learned_from_keep_its_scores():
    test, final = np.array([1.0, 2.0, 3.0]), np.array([7.0, 8.0, 9.0])
    placed, _ = place(test, np.zeros(2), np.ones(2), unlearned=(np.array([False, True, False]), final))

    assert placed.tolist() == [2.0, 8.0, 4.0]
