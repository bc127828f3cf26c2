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


@given(cohorts, st.sampled_from([0.5, 0.75, 0.8, 0.9, 0.95]))
@settings(max_examples=60, deadline=None)
def test_the_expected_sensitivity_is_at_least_the_one_asked_for(rows, least):
    scores, y = arrays(rows)
    point = choose(scores, y, Rule("min_sensitivity", least))

    assert point.sensitivity >= least - 1e-9
    assert point.misses == (scores[y] < point.threshold).sum()


@pytest.mark.parametrize("rule", [*RULES, Rule("threshold", 0.5)], ids=str)
def test_rates_shown_are_expected_of_the_threshold_and_hang_together(rule):
    scores, y = labelled()
    scores = np.round(scores, 1)
    point = choose(scores, y, rule, fold=np.arange(len(y)) % 5)
    hits, share = (scores[y] >= point.threshold).sum(), y.mean()
    found, false = share * point.sensitivity, (1 - share) * (1 - point.specificity)

    assert point.misses == y.sum() - hits
    assert point.sensitivity == pytest.approx(hits / (y.sum() + 1))
    assert point.specificity == pytest.approx(np.mean(scores[~y] < point.threshold))
    assert point.flag_rate == pytest.approx(found + false)
    assert point.ppv == pytest.approx(found / point.flag_rate)
    assert point.npv == pytest.approx((1 - share - false) / (1 - point.flag_rate))
    assert point.nne == pytest.approx(1 / point.ppv)
    for name in ("sensitivity", "specificity", "ppv", "npv", "nne", "flag_rate"):
        low, value, high = (getattr(point, f"{name}{end}") for end in ("_low", "", "_high"))
        assert low < value < high


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_row_order_does_not_move_a_threshold(rule):
    scores, y = labelled()
    fold, order = np.arange(len(y)) % 5, np.random.default_rng(1).permutation(len(y))
    repeats = scores + np.random.default_rng(2).normal(size=(3, len(y)))
    point = choose(scores, y, rule, fold=fold, repeats=repeats)
    moved = choose(scores[order], y[order], rule, fold=fold[order], repeats=repeats[:, order])

    assert moved.to_dict() == point.to_dict()


@given(cohorts, st.sampled_from(RULES))
@settings(max_examples=40, deadline=None)
def test_only_the_order_of_scores_counts(rows, rule):
    scores, y = arrays(rows)
    fold = np.arange(len(y)) % 3
    point = choose(scores, y, rule, fold=fold).to_dict()
    bent = choose(np.exp(scores) - 1, y, rule, fold=fold).to_dict()

    assert bent | {"threshold": None} == point | {"threshold": None}


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
    assert (point.sensitivity_low, point.flag_rate_low, point.flag_rate_high, point.npv) == (1, 1, 1, None)
    assert point.ppv == pytest.approx(0.1)
    assert point.ppv_low < 0.06 and point.ppv_high > 0.15


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
    point = choose(scores, y, Rule(value=0.9))
    reach = (point.sensitivity_high - point.sensitivity_low) / 2

    assert f"with 24 positives, sensitivity 0.92 is known to ± {reach:.2f}" in point.notes
    assert 0.1 < reach < 0.14


@pytest.mark.parametrize(("alike", "said"), [(0, False), (2, False), (60, True)])
def test_rows_that_share_a_score_beside_the_threshold_are_said_aloud(alike, said):
    scores, y = labelled(600)
    threshold = choose(scores, y, Rule(value=0.8)).threshold
    beside = np.flatnonzero(~y & (scores < threshold))[:alike]
    scores[beside] = threshold - 1e-6

    notes = choose(scores, y, Rule(value=0.8)).notes
    assert any("of the negatives have one of few scores" in note for note in notes) == said


def test_what_is_not_known_of_the_prevalence_widens_what_depends_on_it():
    scores, y = labelled()
    estimated = choose(scores, y, Rule("threshold", 1.0))
    stated = choose(scores, y, Rule("threshold", 1.0, prevalence=float(y.mean())))

    for name in ("ppv", "npv", "nne"):
        assert getattr(estimated, name) == pytest.approx(getattr(stated, name))
        widths = [getattr(p, f"{name}_high") - getattr(p, f"{name}_low") for p in (estimated, stated)]
        assert widths[0] > 1.1 * widths[1]
    assert estimated.sensitivity_high == stated.sensitivity_high


def test_folds_that_disagree_widen_specificity_alone():
    scores, y = labelled(600)
    fold = np.arange(600) % 5
    alike = choose(scores, y, Rule("threshold", 1.0), fold=fold)
    sorted_folds = fold.copy()
    sorted_folds[~y] = np.argsort(np.argsort(scores[~y])) * 5 // (~y).sum()
    apart = choose(scores, y, Rule("threshold", 1.0), fold=sorted_folds)

    assert apart.specificity_low < alike.specificity_low - 0.1
    assert (apart.sensitivity_low, apart.sensitivity) == (alike.sensitivity_low, alike.sensitivity)


@pytest.mark.parametrize(
    "wrong", [{"fold": np.zeros(3)}, {"repeats": np.zeros((3, 7))}], ids=["fold", "repeats"]
)
def test_folds_and_repeats_of_other_rows_are_refused(wrong):
    scores, y = labelled()

    with pytest.raises(ValueError, match="does not fit 300 scores"):
        choose(scores, y, Rule("g_mean"), **wrong)


def test_a_point_stored_before_there_were_misses_still_reads():
    scores, y = labelled()
    stored = choose(scores, y, Rule(value=0.9)).to_dict()
    old = {k: v for k, v in stored.items() if k not in {"misses", "nne_low", "nne_high"}}
    old = {k: v for k, v in old.items() if not k.startswith("flag_rate_")} | {"sensitivity": 27 / 30}
    point = OperatingPoint.from_dict(old)

    assert point.misses == 3
    assert point.nne_low == pytest.approx(1 / stored["ppv_high"])
    assert point.flag_rate_low is None
    assert point.sensitivity == 27 / 30


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
    assert thrice.sensitivity == pytest.approx(once.sensitivity, abs=0.002)
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
    for stored in points(scores, y, group, fold=np.arange(len(y)) % 5):
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
