"""Where scores and values lie among those of past patients: exact p-values, discoveries, stopping early."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import columns_of, patients, voxels
from hypothesis import given
from hypothesis import strategies as st
from report_fixture import nosocomial_run
from scipy.stats import false_discovery_control

from screening import MinSensitivity, Threshold, read_cohort, score, train
from screening.contract.contract import Contract
from screening.metrics.calibration import group_maxima, p_values, resolution_warning
from screening.metrics.operating_point import choose
from screening.monitoring.drift import profile
from screening.report import draw_run
from screening.schemas.model import TaskFacts
from screening.schemas.run import RunDocument
from screening.scoring.reference_distribution import (
    DiscoveryCounts,
    ScoreHistogram,
    among_past,
    rarity_range,
)

TASK = TaskFacts(
    kind="binary",
    label="ill",
    positive=["yes"],
    classes=["negative", "yes"],
    watched=["yes"],
)
SCORES = st.lists(st.floats(-5, 5), min_size=2, max_size=60)


def standing(scores, ill, group=None, threshold: float = 0.0) -> ScoreHistogram:
    table = {"score": np.asarray(scores, float), "label": np.where(ill, "yes", "no")}
    table |= {} if group is None else {"group": group}
    contract = SimpleNamespace(group=None if group is None else "patient")
    return ScoreHistogram(
        SimpleNamespace(
            held_out=table,
            contract=contract,
            facts=SimpleNamespace(task=TASK),
            thresholds=np.array([threshold]),
        )
    )


@given(SCORES, SCORES)
def test_every_score_of_the_night_and_every_past_case_is_counted_once(past, tonight):
    there = standing(past, np.arange(len(past)) % 2 == 0)
    there.add(np.array(tonight))
    facts = there.facts()
    assert sum(facts.tonight) == len(tonight)
    assert sum(facts.past_cases) == (len(past) + 1) // 2
    assert len(facts.tonight) == len(facts.past_cases)
    assert facts.low < facts.high


@given(SCORES, st.integers(1, 30))
def test_more_reviews_never_find_fewer_and_never_more_than_the_whole_list(
    past, capacity
):
    there = standing(past, np.ones(len(past), bool), threshold=-6.0)
    waiting = sorted(past, reverse=True)
    few, more = there.stopping(waiting, capacity), there.stopping(waiting, capacity + 1)
    assert more is None or few.found.value <= more.found.value
    assert few is None or few.found.value <= few.all_found.value
    assert few is None or few.found.low <= few.found.value <= few.found.high


def test_stopping_finds_the_past_cases_at_or_above_the_last_score_reviewed():
    """Where there is room for all, nothing is said."""
    there = standing(np.arange(100), np.arange(100) >= 80)
    stopping = there.stopping([99.0, 90.0, 85.0], 2)
    room = [
        there.stopping(waiting, n)
        for n, waiting in ((None, [3.0, 2.0]), (2, [3.0, 2.0]), (5, []))
    ]

    # Ten of the twenty cases scored 90 or more; a new one is one of twenty-one.
    assert stopping.score == 90.0 and stopping.n_cases == 20
    assert stopping.found.value == pytest.approx(1 - 11 / 21)
    assert stopping.all_found.value == pytest.approx(1 - 1 / 21)
    assert room == [None] * 3
    # A patient of many rows is one score and one case.
    grouped = standing(np.arange(100), np.arange(100) == 3, np.repeat(["a", "b"], 50))
    assert grouped.past.tolist() == [49.0] and grouped.facts().past_cases.count(1) == 1


@pytest.mark.parametrize(
    "rule", [MinSensitivity(0.9), Threshold(11.0), MinSensitivity(0.999)]
)
def test_the_whole_list_finds_what_the_operating_point_promises_with_its_interval(rule):
    scores, ill = np.arange(100.0), np.arange(100) % 5 == 0
    point = choose(scores, ill, rule)
    stopping = standing(scores, ill, threshold=point.threshold).stopping(
        [3.0, 2.0, 1.0], 2
    )
    assert stopping.all_found.ends == pytest.approx(point.sensitivity.ends)


@given(st.integers(1, 300), st.floats(-3, 3))
def test_the_share_of_past_negatives_that_score_as_high_lies_in_its_interval(n, score):
    calibration = np.sort(np.random.default_rng(n).normal(size=n))
    p = p_values(calibration, np.array([score]))
    low, high = rarity_range(p, n)
    share = np.mean(calibration >= score)
    assert low[0] - 1e-12 <= share <= high[0] + 1e-12


@pytest.fixture(scope="module")
def past():
    line, ward = (
        np.repeat([0.0, 1.0], [180, 20]),
        np.repeat(["icu", "medicine"], [20, 180]),
    )
    table = pd.DataFrame(
        {"fever": np.linspace(36, 40, 200), "line": line, "ward": ward}
    )
    kinds = {"fever": "number", "line": "boolean", "ward": "category"}
    contract = Contract.from_dict(
        {"features": {name: {"type": kind} for name, kind in kinds.items()}}
    )
    return profile(columns_of(table), contract).features


@pytest.mark.parametrize(
    ("name", "value", "lower", "alike"),
    [
        ("fever", 36.4, 0.1, None),
        ("fever", 41.0, 1.0, None),
        ("fever", 35.0, 0.0, None),
        ("line", 1.0, None, 0.1),
        ("ward", "icu", None, 0.1),
        ("ward", "never seen", None, 0.0),
        ("fever", np.nan, None, None),
        ("ward", None, None, None),
        ("unheard of", 1.0, None, None),
    ],
)
def test_a_value_is_told_by_the_share_of_past_patients_below_it_or_alike(
    past, name, value, lower, alike
):
    assert among_past(past.get(name), value) == (pytest.approx(lower, abs=0.02), alike)


tied = st.lists(st.integers(0, 6), min_size=2, max_size=25)


def leave_one_out(scores: np.ndarray) -> list[Fraction]:
    """p-value of each row against all others: every row is the new one equally often."""
    rounds = [
        p_values(np.sort(np.delete(scores, i)), scores[i]) for i in range(len(scores))
    ]
    return [Fraction(float(p)).limit_denominator(1000) for p in rounds]


@given(st.integers(1, 30).flatmap(lambda n: st.permutations(range(n + 1))))
def test_p_is_exactly_uniform_on_its_ranks_without_ties(order):
    n = len(order) - 1
    p = leave_one_out(np.array(order, float))
    assert sorted(p) == [Fraction(j, n + 1) for j in range(1, n + 2)]


@given(tied, st.integers(-1, 7))
def test_p_is_never_too_small_whatever_the_ties(scores, score):
    """It counts the calibration scores that are at least as high."""
    n, p = len(scores) - 1, leave_one_out(np.array(scores, float))
    for j in range(1, n + 2):
        assert sum(value <= Fraction(j, n + 1) for value in p) <= j
    counted = sum(known >= score for known in scores)
    assert p_values(np.sort(scores), score) == (1 + counted) / (n + 2)


def test_patients_highest_scores_are_uniform_though_their_rows_are_alike():
    rng = np.random.default_rng(0)
    patients = rng.normal(size=(2000, 1)) + 0.3 * rng.normal(size=(2000, 20))
    known = group_maxima(patients[:1000].ravel(), np.repeat(np.arange(1000), 20))
    p = p_values(known, patients[1000:].max(axis=1))
    assert group_maxima([1.0, 5.0, 2.0, 3.0], ["a", "b", "a", "b"]).tolist() == [
        2.0,
        5.0,
    ]
    assert np.quantile(p, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.06)


@pytest.mark.parametrize(
    ("n", "m", "needed"), [(608, 240, "4"), (99, 100, "10"), (2399, 240, None)]
)
def test_too_coarse_a_calibration_is_said(n, m, needed):
    said = str(resolution_warning(n, m, 0.1))
    wanted = {None: "None"}.get(needed, f"needs at least {needed} of them")
    assert wanted in said
    smallest = np.full(m, 1.0)
    smallest[: int(needed or 1)] = 1 / (n + 1)
    assert (false_discovery_control(smallest) <= 0.1 * (1 + 1e-12)).sum() == int(
        needed or 1
    )


@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=60),
    st.lists(st.floats(-3, 6), min_size=1, max_size=60),
    st.sampled_from([0.05, 0.1, 0.3, 0.5]),
)
def test_the_cut_over_counted_ranks_is_that_of_benjamini_and_hochberg(
    calibration, scores, q
):
    known = np.sort(calibration)
    p = p_values(known, np.array(scores))
    counted = DiscoveryCounts(known)
    counted.add(p)
    expected = false_discovery_control(p) <= q * (1 + 1e-12)
    cut = counted.cut(q)

    assert np.array_equal(p <= (-1 if cut is None else cut * (1 + 1e-12)), expected)
    assert counted.facts("row", 0, q).found == expected.sum()


def test_a_false_discovery_rate_below_the_resolution_is_said_aloud():
    counted = DiscoveryCounts(np.arange(50.0))
    counted.add(np.full(400, 30 / 51))
    facts = counted.facts("row", 7)
    assert facts.found == 0
    assert "needs at least 79 of them above every known negative" in facts.warning
    night = RunDocument.from_dict(nosocomial_run()).replace(discoveries=facts)
    assert "Insufficient resolution" in draw_run(night)


def test_a_night_marks_its_discoveries_and_its_page_explains_the_mark(tmp_path):
    past = read_cohort(patients(400), label="ill", id="patient")
    night = patients(120, seed=7)
    night.loc[:24, "fever"], night.loc[:24, "crp"] = 38.4, 28.0
    run = score(
        train(past, "svm_weighted", search=1, beside=()), night, tmp_path / "run"
    )
    discoveries = run.document["discoveries"]
    marked = [case for case in run.document["cases"] if case["discovery"]]

    assert (discoveries["per"], discoveries["n_screened"]) == ("row", 120)
    assert len(marked) == discoveries["found"] > 0
    assert all(case["p_value"]["value"] <= discoveries["p_cut"] for case in marked)
    assert "· FDR" in (run.directory / "report.html").read_text()


def test_rows_of_one_patient_are_screened_as_one(tissue_model, tmp_path):
    run = score(tissue_model, voxels(3, seed=9), tmp_path / "run").document
    discoveries = run["discoveries"]
    assert (discoveries["per"], discoveries["n_calibration"]) == ("group", 8)
    assert discoveries["n_screened"] == len(run["groups"]) == run["groups_total"] == 3
    assert all("discovery" in group for group in run["groups"])
    assert run["groups_flagged"] == sum(group["flagged"] > 0 for group in run["groups"])
