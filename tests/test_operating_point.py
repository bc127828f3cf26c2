"""Thresholds: chosen by the stated rule, exactly, and honest about what they promise;
figures, as stored.

Rows alike in every value are flagged together: what is promised of them is what new
ones get.
"""

import json
from math import floor

import numpy as np
import pandas as pd
import pytest
from faults.amounts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.special import logit
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, f1_score

from screening import (
    GMean,
    MaxFlagRate,
    MinSensitivity,
    MissCost,
    Threshold,
    read_cohort,
    train,
)
from screening.errors import UsageError
from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.intervals import rate_interval
from screening.metrics.operating_point import (
    FLAG_EVERYTHING,
    RULES,
    choose,
    excess,
    overall,
    pick,
)
from screening.metrics.performance import (
    curve,
    figures_at_prevalence,
    performance,
    population_of,
)
from screening.metrics.ties import as_new, number_ties
from screening.schemas.figures import Observed, OperatingPoint, rule_named


def labelled(
    n_rows: int = 300,
    share: float = 0.1,
    shift: float = 1.5,
    seed: int = 0,
):
    y = np.arange(n_rows) < share * n_rows
    noise = default_rng(seed).normal(size=n_rows)
    return noise + shift * y, y


def grouped():
    """Scores, labels and groups: fifteen of twenty rows."""
    rng = default_rng(0)
    group = np.repeat(np.arange(15), 20)
    y = rng.random(300) < 0.2
    own = rng.normal(size=300) + 2 * y
    shared = rng.normal(size=15)[group]
    return own + shared, y, group


def has_both_classes(rows) -> bool:
    return len({positive for _, positive in rows}) == 2


# Few distinct values, so that ties within and between the classes are the rule.
scored_rows = st.tuples(st.integers(-4, 4), st.booleans())
cohorts = st.lists(scored_rows, min_size=2, max_size=40).filter(has_both_classes)


def arrays(rows):
    scores = [score for score, _ in rows]
    positive = [positive for _, positive in rows]
    return np.array(scores, float), np.array(positive)


@given(cohorts, st.sampled_from([0.5, 0.75, 0.8, 0.9, 0.95]))
def test_min_sensitivity_is_the_promised_rank_of_the_positive_scores(rows, least):
    scores, y = arrays(rows)
    rank = floor((1 - least) * (y.sum() + 1) + 1e-9)
    ladder = np.concatenate([[FLAG_EVERYTHING], np.sort(scores[y])])
    chosen = choose(scores, y, MinSensitivity(least))
    assert chosen.threshold == ladder[rank]


@given(cohorts, st.floats(0.01, 1.0))
def test_max_flag_rate_flags_as_many_as_it_may_and_no_more(rows, most):
    scores, y = arrays(rows)
    threshold = choose(scores, y, MaxFlagRate(most)).threshold
    lower = np.append(scores[scores < threshold], -np.inf).max()
    assert np.mean(scores >= threshold) <= most + 1e-12
    assert np.mean(scores >= lower) > most or threshold == scores.min()


@given(cohorts, st.floats(0.5, 100.0), st.floats(0.01, 0.5))
def test_miss_cost_is_the_cheapest_of_all_thresholds_at_the_prevalence(
    rows, miss, prevalence
):
    scores, y = arrays(rows)

    def cost(threshold):
        found = np.mean(scores[y] >= threshold)
        false = np.mean(scores[~y] >= threshold)
        of_cases = miss * (1 - found) + found
        return prevalence * of_cases + (1 - prevalence) * false

    chosen = choose(scores, y, MissCost(miss, prevalence=prevalence))
    costs = [cost(threshold) for threshold in [*scores, np.inf]]
    assert cost(chosen.threshold) <= min(costs) + 1e-9


def test_rules_at_known_thresholds():
    """At a prevalence of a half a false alarm weighs half; a flag rate may be reached
    exactly.
    """
    hits = np.array([10, 9, 5, 0])
    alarms = np.array([10, 5, 1, 0])
    is_case = np.arange(100) < 10
    exact = choose(np.arange(100.0), is_case, MaxFlagRate(0.1))
    rule = MissCost(2.5, prevalence=0.5)
    # 0.825 a row at the second threshold, 0.925 at the third.
    assert pick(rule, hits, alarms, 1.0) == 1
    assert exact.threshold == 90.0
    assert exact["flag_rate"].value == pytest.approx(0.1)


@given(cohorts)
def test_g_mean_is_the_largest_of_all_thresholds(rows):
    scores, y = arrays(rows)

    def g_mean(threshold):
        sensitivity = np.mean(scores[y] >= threshold)
        specificity = np.mean(scores[~y] < threshold)
        return np.sqrt(sensitivity * specificity)

    chosen = choose(scores, y, GMean())
    assert g_mean(chosen.threshold) >= max(map(g_mean, scores)) - 1e-9


@pytest.mark.parametrize("rule", [*RULES, Threshold(0.5)], ids=str)
def test_rates_shown_are_expected_of_the_threshold_and_hang_together(rule):
    scores, y = labelled()
    scores = np.round(scores, 1)
    fold = np.arange(len(y)) % 5
    point = choose(scores, y, rule, fold=fold)
    hits = (scores[y] >= point.threshold).sum()
    share = y.mean()
    found = share * point["sensitivity"].value
    false = (1 - share) * (1 - point["specificity"].value)

    assert point.misses == y.sum() - hits
    sensitivity = hits / (y.sum() + 1)
    assert point["sensitivity"].value == pytest.approx(sensitivity)
    specificity = np.mean(scores[~y] < point.threshold)
    assert point["specificity"].value == pytest.approx(specificity)
    assert point["flag_rate"].value == pytest.approx(found + false)
    flag_rate = point["flag_rate"].value
    npv = (1 - share - false) / (1 - flag_rate)
    assert point["ppv"].value == pytest.approx(found / flag_rate)
    assert point["npv"].value == pytest.approx(npv)
    assert point["nne"].value == pytest.approx(1 / point["ppv"].value)
    for name in ("sensitivity", "specificity", "ppv", "npv", "nne", "flag_rate"):
        value, low, high = point[name].value_and_interval
        assert low < value < high


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_row_order_does_not_move_a_threshold(rule):
    scores, y = labelled()
    fold = np.arange(len(y)) % 5
    order = default_rng(1).permutation(len(y))
    noise = default_rng(2).normal(size=(3, len(y)))
    repeats = scores + noise
    point = choose(scores, y, rule, fold=fold, repeats=repeats)
    in_order = {"fold": fold[order], "repeats": repeats[:, order]}
    moved = choose(scores[order], y[order], rule, **in_order)
    assert moved == point


@given(cohorts, st.sampled_from(RULES))
def test_only_the_order_of_scores_counts(rows, rule):
    scores, y = arrays(rows)
    fold = np.arange(len(y)) % 3
    point = choose(scores, y, rule, fold=fold)
    bent = choose(np.exp(scores) - 1, y, rule, fold=fold)
    assert bent.replace(threshold=point.threshold) == point


def test_a_promise_no_rank_can_keep_flags_everything_and_says_so():
    scores, y = labelled(100, 0.1)
    point = choose(scores, y, MinSensitivity(0.95))
    rule = MinSensitivity(0.9, confidence=0.95)
    unsure = choose(*labelled(200, 0.1), rule)
    sensitivity = point["sensitivity"]
    flag_rate = point["flag_rate"]

    assert point.threshold == FLAG_EVERYTHING
    assert sensitivity.value == 1.0
    assert point["specificity"].value_and_interval == ((0, 0, 0))
    assert "every row is flagged" in point.notes[0]
    assert sensitivity.low == 1
    assert flag_rate.low == 1
    assert flag_rate.high == 1
    assert point["npv"].value is None
    assert point["ppv"].value == pytest.approx(0.1)
    assert point["ppv"].low < 0.06
    assert point["ppv"].high > 0.15
    assert unsure.threshold == FLAG_EVERYTHING
    assert (
        "with confidence 0.95 cannot be promised from 20 positives" in unsure.notes[0]
    )


def test_confidence_exact_bound():
    """Confidence takes the largest threshold whose exact lower bound is enough."""
    scores, y = labelled(800, 0.1)
    rule = MinSensitivity(0.9, confidence=0.95)
    threshold = choose(scores, y, rule).threshold

    def lower_bound(threshold):
        found = int((scores[y] >= threshold).sum())
        return (
            binomtest(found, int(y.sum()), alternative="greater")
            .proportion_ci(0.95)
            .low
        )

    assert lower_bound(threshold) >= 0.9
    next_higher = np.min(scores[y & (scores > threshold)])
    assert lower_bound(next_higher) < 0.9


def test_few_positives_are_said_aloud():
    """An interval holds its figure even where no case is found."""
    point = choose(*labelled(240, 0.1), MinSensitivity(0.9))
    few = np.arange(60) < 20
    last_ten = np.where(np.arange(60) >= 50, 1.0, 0.0)
    none = choose(last_ten, few, Threshold(0.5))
    reach = (point["sensitivity"].high - point["sensitivity"].low) / 2
    assert (
        f"with 24 positives, sensitivity 0.92 is known to ± {reach:.2f}" in point.notes
    )
    assert 0.1 < reach < 0.14
    assert (
        none["sensitivity"].value
        == none["sensitivity"].low
        == none["ppv"].value
        == none["ppv"].low
        == 0
    )
    assert none["sensitivity"].high == pytest.approx(0.2, abs=0.001)
    assert none["ppv"].high > 0
    assert none["nne"].value is None


@pytest.mark.parametrize(
    ("alike", "said"),
    [
        (0, False),
        (20, False),
        (60, True),
    ],
)
def test_rows_that_share_a_score_beside_the_threshold_are_said_aloud(alike, said):
    """Beside it, or a few rows away."""
    scores, y = labelled(600)
    threshold = choose(scores, y, MinSensitivity(0.8)).threshold
    below = np.flatnonzero(~y & (scores < threshold))
    sixth_highest = np.sort(scores[below])[-6]
    scores[below[:alike]] = sixth_highest
    notes = choose(scores, y, MinSensitivity(0.8)).notes
    assert any("of the negatives share a few scores" in note for note in notes) == said


def test_overall_score_several_classes():
    """Of several classes the one furthest above its threshold speaks for a row."""
    scores = np.array(
        [
            [3.0, 1.0],
            [0.0, 4.0],
            [1.0, 1.0],
        ]
    )
    thresholds = np.array([2.0, 2.0])
    of_two = overall(scores, thresholds)
    of_one = overall(scores[:, :1], thresholds[:1])
    assert of_two.tolist() == [1.0, 2.0, -1.0]
    assert of_one.tolist() == [3.0, 0.0, 1.0]
    # A class that flags everything says nothing of a row.
    assert excess(scores, np.array([2.0, FLAG_EVERYTHING]))[:, 1].tolist() == [
        0.0,
        0.0,
        0.0,
    ]


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
        {"name": "min_sensitivity", "value": "0.9"},
        {"name": "max_flag_rate", "value": True},
        {"name": "threshold", "value": 0.0, "prevalence": "0.1"},
    ],
    ids=str,
)
def test_a_rule_out_of_range_is_refused(wrong):
    """And a table without rows of both classes."""
    with pytest.raises(ValueError):
        rule_named(**wrong)
    for y in (np.ones(9, bool), np.zeros(9, bool)):
        with pytest.raises(UsageError, match="some of both"):
            choose(np.arange(9.0), y, GMean())


def width(figures: Observed | OperatingPoint, name: str) -> float:
    figure = figures[name]
    return figure.high - figure.low


def test_what_is_not_known_of_the_prevalence_widens_what_depends_on_it():
    """Of a rare condition nearly all flags are false ones: they are as sure as the
    specificity.
    """
    scores, y = labelled()
    rare = choose(scores, y, Threshold(1.0, prevalence=0.001))
    estimated = choose(scores, y, Threshold(1.0))
    prevalence = float(y.mean())
    stated = choose(scores, y, Threshold(1.0, prevalence=prevalence))
    for name in ("ppv", "npv", "nne"):
        assert estimated[name].value == pytest.approx(stated[name].value)
        assert width(estimated, name) > 1.1 * width(stated, name)
    assert estimated["sensitivity"].high == stated["sensitivity"].high
    false = 1 - rare["specificity"].value
    assert rare["flag_rate"].value == pytest.approx(false, abs=0.001)
    assert width(rare, "flag_rate") == pytest.approx(
        width(rare, "specificity"), rel=0.05
    )


def test_folds_that_disagree_widen_specificity_alone():
    scores, y = labelled(600)
    fold = np.arange(600) % 5
    alike = choose(scores, y, Threshold(1.0), fold=fold)
    sorted_folds = fold.copy()
    rank = np.argsort(np.argsort(scores[~y]))
    sorted_folds[~y] = rank * 5 // (~y).sum()
    apart = choose(scores, y, Threshold(1.0), fold=sorted_folds)

    assert apart["specificity"].low < alike["specificity"].low - 0.1
    assert (
        apart["sensitivity"].value_and_interval[:2]
        == alike["sensitivity"].value_and_interval[:2]
    )


def test_repeats_that_differ_at_one_threshold_widen_specificity():
    scores, y = labelled(600)
    shift = np.array([-0.4, 0.0, 0.4])
    same = np.tile(scores, (3, 1))
    moved = same + shift[:, None]
    alike = choose(scores, y, Threshold(1.0), repeats=same)
    shifted = choose(scores, y, Threshold(1.0), repeats=moved)

    rates = np.mean(moved[:, ~y] < 1.0, axis=1)
    is_clear = scores[~y] < 1.0
    by_rows = np.mean(is_clear) * np.mean(~is_clear) / len(is_clear)
    growth = 1 + np.var(rates, ddof=1) / 3 / by_rows
    for end in ("low", "high"):
        reach = [
            logit(getattr(point["specificity"], end))
            - logit(point["specificity"].value)
            for point in (alike, shifted)
        ]
        expected = reach[0] * np.sqrt(growth)
        assert reach[1] == pytest.approx(expected)


def test_observed_predictive_interval():
    """Observed predictive values have the intervals of observed shares.

    At a given prevalence every figure lies in its interval.
    """
    scores, y = labelled(2000)
    seen = performance(scores, y, 1.0)
    flagged = seen.true_positive + seen.false_positive
    left = seen.true_negative + seen.false_negative
    prevalence = float(np.mean(y))
    known = figures_at_prevalence(seen["sensitivity"], seen["specificity"], prevalence)
    rare = figures_at_prevalence(seen["sensitivity"], seen["specificity"], 0.05)

    ppv_interval = np.array(rate_interval(seen.true_positive, flagged))
    npv_interval = np.array(rate_interval(seen.true_negative, left))
    assert [seen["ppv"].low, seen["ppv"].high] == pytest.approx(ppv_interval)
    assert [seen["npv"].low, seen["npv"].high] == pytest.approx(npv_interval)
    for name in ("ppv", "npv"):
        assert seen[name].value == pytest.approx(known[name].value)
    ppv = known["ppv"]
    assert width(seen, "ppv") > ppv.high - ppv.low
    for name in ("sensitivity", "specificity", "flag_rate", "ppv", "npv", "nne"):
        assert rare[name].low < rare[name].value < rare[name].high
    assert rare["nne"].low == pytest.approx(1 / rare["ppv"].high)
    # Of a hundred rows ninety-five are negatives: what is known of them is what is
    # known of the workload.
    workload = rare["flag_rate"].high - rare["flag_rate"].low
    expected = 0.95 * width(seen, "specificity")
    assert workload == pytest.approx(expected, rel=0.05)


def test_a_patients_repeated_rows_do_not_make_the_promise_stronger():
    scores, y = labelled(200, 0.2)
    once = choose(scores, y, MinSensitivity(0.9))
    thrice = choose(
        np.repeat(scores, 3),
        np.repeat(y, 3),
        MinSensitivity(0.9),
        np.repeat(np.arange(200), 3),
    )
    assert thrice.threshold == once.threshold
    expected = once["sensitivity"].value
    assert thrice["sensitivity"].value == pytest.approx(expected, abs=0.002)
    assert (
        thrice["sensitivity"].high - thrice["sensitivity"].low
        >= once["sensitivity"].high - once["sensitivity"].low
    )


def test_groups_widen_every_interval():
    """Groups of one row are independent rows; the best of many settings is ranked less
    surely.

    Folds of whole groups differ by the groups in them, which adds nothing.
    """
    scores, y, group = grouped()
    rows = performance(scores, y, 0.5)
    patients = performance(scores, y, 0.5, group)
    each_alone = np.arange(len(y))
    alone = choose(scores, y, GMean(), each_alone)
    dealt = choose(scores, y, Threshold(0.5), group, fold=group % 5)
    whole = choose(scores, y, Threshold(0.5), group, fold=None)
    one, best = (
        population_of(EvaluatedRows(*labelled(), np.inf, n_settings=n), "summary")
        for n in (1, 24)
    )

    assert patients["sensitivity"] != rows["sensitivity"]
    assert patients["sensitivity"].value == rows["sensitivity"].value
    for name in ("sensitivity", "specificity", "auroc"):
        assert width(patients, name) > width(rows, name)
    assert alone.replace(n_groups=None) == choose(scores, y, GMean())
    assert alone.n_groups == len(y)
    assert dealt["specificity"] == whole["specificity"]
    assert width(best, "auroc") > 1.1 * width(one, "auroc")


@pytest.mark.parametrize("group", [None, grouped()[2]], ids=["rows", "groups"])
def test_every_figure_survives_a_file_without_losing_a_bit(group):
    scores, y, _ = grouped()
    fold = np.arange(len(y)) % 5
    made = [choose(scores, y, rule, group, fold=fold) for rule in RULES]
    ranking = population_of(EvaluatedRows(scores, y, np.inf, group), "summary")
    made += [curve(scores, y, group), ranking]
    for figures in made:
        content = figures.to_dict()
        text = json.dumps(content, allow_nan=False)
        read = type(figures).from_dict(json.loads(text), "figures")
        assert read.to_dict() == content


def test_a_curve_passes_through_what_performance_says():
    scores, y = labelled()
    drawn = curve(scores, y, points=50)
    long = curve(*labelled(20_000))
    for i in range(0, len(drawn.threshold), 12):
        at = performance(scores, y, drawn.threshold[i])
        for name in ("sensitivity", "specificity"):
            band = vars(getattr(drawn, name)).values()
            assert [column[i] for column in band] == pytest.approx(
                at[name].value_and_interval
            )
        for name in ("flag_rate", "ppv", "npv"):
            shown = getattr(drawn, name)[i]
            assert shown == pytest.approx(at[name].value)

    assert drawn.threshold[0] == scores.min()
    assert drawn.threshold[-1] == scores.max()
    assert len(long.threshold) <= 202
    assert np.all(np.diff(long.sensitivity.value) <= 0)


@pytest.mark.parametrize(
    ("n_groups", "taken_back"),
    [
        (5, True),
        (15, False),
    ],
)
def test_promise_few_groups(n_groups, taken_back):
    """A promise about new groups that few cannot bear is taken back aloud."""
    # The positives of a group score alike, so that the promise hangs on the number of
    # groups.
    group = np.repeat(np.arange(n_groups), 40)
    y = np.tile(np.arange(40) < 20, n_groups)
    shared = default_rng(0).normal(size=n_groups)
    scores = shared[group] + y
    point = choose(scores, y, MinSensitivity(0.9), group)
    assert (
        any("too few groups to promise" in note for note in point.notes) == taken_back
    )
    assert (point["sensitivity"].value < 0.9) == taken_back


def test_a_promise_is_worth_what_groups_tell_of_the_cases_below_it():
    """Two groups hold all high scores, which says nothing of who is missed."""
    group = np.repeat(np.arange(20), 20)
    y = np.arange(400) % 4 > 0
    noise = default_rng(0).normal(size=400)
    scores = noise + 10 * (group < 2)
    by_group = choose(scores, y, MinSensitivity(0.9), group)
    by_row = choose(scores, y, MinSensitivity(0.9), None)
    assert by_group.threshold == by_row.threshold


def test_observed_shares_are_those_of_scikit_learn():
    """A night without positives still has a specificity and a flag rate."""
    scores, y = labelled()
    seen = performance(scores, y, 0.8)
    no_case = np.zeros(20, int)
    night = performance(np.arange(20.0), no_case, 15.0)

    is_flagged = scores >= 0.8
    assert seen["accuracy"].value == pytest.approx(accuracy_score(y, is_flagged))
    assert seen["f1"].value == pytest.approx(f1_score(y, is_flagged))
    least = min(seen["sensitivity"].value, seen["specificity"].value)
    assert seen["min_sensitivity"].value == least
    flag_rate = night["flag_rate"]
    for figure in (night["sensitivity"], night["nne"], night["auroc"]):
        assert figure.value is None
    assert night["ppv"].value == 0
    assert night["specificity"].value == 0.75
    assert 0 < flag_rate.low < flag_rate.value == 0.25 < flag_rate.high


# How many of 1,000 people answer three questions so, and how many of those are ill.
ANSWERS = {
    (0, 0, 0): (400, 30),
    (1, 0, 0): (250, 25),
    (0, 1, 0): (150, 30),
    (1, 1, 0): (100, 35),
    (0, 1, 1): (60, 40),
    (1, 1, 1): (40, 36),
}


def answered(rng, people: int = 1000) -> pd.DataFrame:
    numbers = np.array([*ANSWERS.values()])
    share = numbers[:, 1] / numbers[:, 0]
    kinds = rng.choice(len(ANSWERS), people, p=numbers[:, 0] / 1000)
    answers = np.array([*ANSWERS])[kinds]
    table = pd.DataFrame(answers, columns=["fever", "cough", "stay"])
    is_ill = rng.random(people) < share[kinds]
    return table.assign(ill=np.where(is_ill, "yes", "no"))


def past(folder, people: pd.DataFrame):
    people.to_csv(folder / "past.csv", index=False)
    return read_cohort(folder / "past.csv", label="ill", positive="yes")


@pytest.mark.parametrize("recipe", ["logistic", "random_forest"])
def test_what_is_promised_of_a_few_answers_is_what_new_people_get(tmp_path, recipe):
    rng = default_rng(0)
    model = train(
        past(tmp_path, answered(rng)),
        recipe,
        search=1,
        repeats=1,
        beside=(),
        jobs=1,
    )
    point = model.operating_points[0]
    new = answered(rng, 20_000)
    new.to_csv(tmp_path / "new.csv", index=False)

    flagged = model.score_frame(tmp_path / "new.csv")["flagged"].to_numpy()
    ill = new["ill"] == "yes"

    sensitivity = point["figures"]["sensitivity"]["value"]
    assert flagged[ill].mean() == pytest.approx(sensitivity, abs=0.06)
    assert 1 - flagged[~ill].mean() == pytest.approx(
        point["figures"]["specificity"]["value"], abs=0.05
    )
    together = (
        new.assign(flagged=flagged)
        .groupby(["fever", "cough", "stay"])["flagged"]
        .mean()
    )
    assert set(together) <= {0.0, 1.0}


sizes_and_shares = st.tuples(st.integers(5, 90), st.floats(0, 1))


@pytest.mark.repeated
@settings(max_examples=examples(30, 60), deadline=None)
@given(
    st.lists(sizes_and_shares, min_size=2, max_size=8),
    st.sampled_from(RULES),
    st.integers(0, 10_000),
)
def test_threshold_rates_of_new_rows(kinds, rule, seed):
    """A chosen threshold has the rates of new rows like those held out."""
    rng = default_rng(seed)
    sizes = [n for n, _ in kinds]
    shares = np.array([share for _, share in kinds])
    numbers = np.repeat(np.arange(len(kinds)), sizes)
    y = rng.random(len(numbers)) < shares[numbers]
    y[:2] = True, False
    scores = numbers + rng.normal(0, 0.2, len(numbers))

    point = choose(scores, y, rule, ties=numbers)

    new = as_new(scores, numbers) >= point.threshold
    held = scores >= point.threshold
    for rows in (y, ~y):
        n_new = new[rows].sum()
        apart = abs(n_new - held[rows].sum())
        assert apart <= max(0.03 * rows.sum(), 1)


def test_threshold_by_chance_refused():
    """No threshold is chosen where chance says which of two kinds is flagged.

    Two kinds score alike: half of each are flagged here, and all of one or the other of
    new rows.
    """
    numbers = np.repeat(np.arange(5), 200)
    levels = np.array([0.0, 1.0, 1.002, 2.0, 3.0])
    spread = np.tile(np.linspace(-0.3, 0.3, 200), 5)
    scores = levels[numbers] + spread
    y = np.arange(1000) % 4 == 0
    point = choose(scores, y, MaxFlagRate(0.65), ties=numbers)
    assert point["flag_rate"].value == pytest.approx(0.4, abs=0.001)


def test_tied_rows_threshold_halfway_to_the_next_lower_score():
    """Machines of folds score a tie differently; new rows have the mean."""
    numbers = np.repeat(np.arange(3), [300, 60, 40])
    y = np.repeat([True, False, True, False, True, False], [3, 297, 30, 30, 30, 10])
    fold = np.arange(400) % 5
    scores = numbers + 0.1 * (fold - 2)

    point = choose(scores, y, MinSensitivity(0.9), fold=fold, ties=numbers)

    assert point.threshold == pytest.approx(0.5)
    assert point["specificity"].value == pytest.approx(297 / 337)
    assert point.misses == 3


def test_threshold_flags_nearly_all():
    """Where the rule would flag nearly everybody the nearest threshold stands and says
    so."""
    numbers = np.repeat([0, 1], [400, 200])
    y = np.repeat([True, False, True, False], [20, 380, 120, 80])
    noise = default_rng(0).normal(0, 0.01, 600)
    scores = numbers + noise
    cut = choose(scores, y, MinSensitivity(0.9), ties=None)
    point = choose(scores, y, MinSensitivity(0.9), ties=numbers)
    assert cut["sensitivity"].value >= 0.9 > point["sensitivity"].value > 0.8
    assert point["specificity"].value == pytest.approx(380 / 460, abs=0.03)
    assert "cannot be separated" in point.notes[0]


def test_a_rule_that_would_flag_everybody_is_refused_with_what_to_do(tmp_path):
    row = np.arange(500)
    ill = np.where((row % 10 == 0) | (row < 50), "yes", "no")
    fever = (row < 100).astype(int)
    people = pd.DataFrame({"fever": fever, "ill": ill})
    with pytest.raises(
        UsageError,
        match=r"every row would be flagged: many cases have the same values.*`g_mean`",
    ):
        train(
            past(tmp_path, people),
            "logistic",
            search=1,
            repeats=1,
            beside=(),
            jobs=1,
        )


def test_rows_are_numbered_only_where_one_stands_for_many():
    """With rows of their own nothing changes."""
    rng = default_rng(0)
    scores = rng.normal(size=300)
    y = rng.random(300) < 0.3
    apart = rng.normal(size=(300, 3))
    thrice = np.repeat(rng.normal(size=(100, 3)), 3, axis=0)
    tied = np.array([[0.0, 1.0], [-0.0, 1.0]] * 20 + [[2.0, 1.0]])
    each_alone = np.arange(300)
    assert number_ties(apart) is None
    assert number_ties(thrice) is None
    assert len(np.unique(number_ties(tied))) == 2
    by_tie = choose(scores, y, GMean(), ties=each_alone)
    assert choose(scores, y, GMean()) == by_tie
