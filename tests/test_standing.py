"""Where scores and values lie among those of past patients, and what stopping early finds."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.contract.contract import Contract
from screening.io.columns import columns_of
from screening.metrics.calibration import p_values
from screening.metrics.operating_point import choose
from screening.monitoring.drift import profile
from screening.schemas.figures import MinSensitivity, Threshold
from screening.schemas.model import TaskFacts
from screening.scoring.reference_distribution import BINS, ScoreHistogram, among_past, rarity_range

TASK = TaskFacts(kind="binary", label="ill", positive=["yes"], classes=["negative", "yes"], watched=["yes"])
SCORES = st.lists(st.floats(-5, 5), min_size=2, max_size=60)


def standing(scores, ill, group=None, threshold: float = 0.0) -> ScoreHistogram:
    table = {"score": np.asarray(scores, float), "label": np.where(ill, "yes", "no")}
    table |= {} if group is None else {"group": group}
    contract = SimpleNamespace(group=None if group is None else "patient")
    return ScoreHistogram(
        SimpleNamespace(
            held_out=table, contract=contract, facts=SimpleNamespace(task=TASK),
            thresholds=np.array([threshold]),
        )
    )  # fmt: skip


@given(SCORES, SCORES)
def test_every_score_of_the_night_and_every_past_case_is_counted_once(past, tonight):
    there = standing(past, np.arange(len(past)) % 2 == 0)
    there.add(np.array(tonight))
    facts = there.facts()

    assert sum(facts.tonight) == len(tonight)
    assert sum(facts.past_cases) == (len(past) + 1) // 2
    assert len(facts.tonight) == len(facts.past_cases) == BINS
    assert facts.low < facts.high


@given(SCORES, st.integers(1, 30))
def test_more_reviews_never_find_fewer_and_never_more_than_the_whole_list(past, capacity):
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
    room = [there.stopping(waiting, n) for n, waiting in ((None, [3.0, 2.0]), (2, [3.0, 2.0]), (5, []))]

    # Ten of the twenty cases scored 90 or more; a new one is one of twenty-one.
    assert stopping.score == 90.0 and stopping.n_cases == 20
    assert stopping.found.value == pytest.approx(1 - 11 / 21)
    assert stopping.all_found.value == pytest.approx(1 - 1 / 21)
    assert room == [None] * 3


@pytest.mark.parametrize("rule", [MinSensitivity(0.9), Threshold(11.0), MinSensitivity(0.999)])
def test_the_whole_list_finds_what_the_operating_point_promises_with_its_interval(rule):
    scores, ill = np.arange(100.0), np.arange(100) % 5 == 0
    point = choose(scores, ill, rule)

    stopping = standing(scores, ill, threshold=point.threshold).stopping([3.0, 2.0, 1.0], 2)

    assert stopping.all_found.ends == pytest.approx(point.sensitivity.ends)


def test_a_patient_of_many_rows_is_one_score_and_one_case():
    names = np.repeat(["a", "b"], 50)
    there = standing(np.arange(100), np.arange(100) == 3, names)

    assert there.past.tolist() == [49.0]
    assert there.facts().past_cases.count(1) == 1


@given(st.integers(1, 300), st.floats(-3, 3))
def test_the_share_of_past_negatives_that_score_as_high_lies_in_its_interval(n, score):
    calibration = np.sort(np.random.default_rng(n).normal(size=n))
    p = p_values(calibration, np.array([score]))
    low, high = rarity_range(p, n)

    share = np.mean(calibration >= score)
    assert low[0] - 1e-12 <= share <= high[0] + 1e-12


@pytest.fixture(scope="module")
def past():
    line, ward = np.repeat([0.0, 1.0], [180, 20]), np.repeat(["icu", "medicine"], [20, 180])
    table = pd.DataFrame({"fever": np.linspace(36, 40, 200), "line": line, "ward": ward})
    kinds = {"fever": "number", "line": "boolean", "ward": "category"}
    contract = Contract.from_dict({"features": {name: {"type": kind} for name, kind in kinds.items()}})
    return profile(columns_of(table), contract).features


@pytest.mark.parametrize(
    ("name", "value", "lower", "alike"),
    [
        ("fever", 36.4, 0.1, None), ("fever", 41.0, 1.0, None), ("fever", 35.0, 0.0, None),
        ("line", 1.0, None, 0.1), ("ward", "icu", None, 0.1), ("ward", "never seen", None, 0.0),
        ("fever", np.nan, None, None), ("ward", None, None, None), ("unheard of", 1.0, None, None),
    ],
)  # fmt: skip
def test_a_value_is_told_by_the_share_of_past_patients_below_it_or_alike(past, name, value, lower, alike):
    assert among_past(past.get(name), value) == (pytest.approx(lower, abs=0.02), alike)
