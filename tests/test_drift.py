"""Gates before scoring: other units stop the run, other patients are said aloud, the same night is silent."""

import re

import numpy as np
import pandas as pd
import pytest
from drift_gates import CONTRACT, codes, gated, kinds, said, stored
from flow_cohorts import patients
from hypothesis import given
from hypothesis import strategies as st

from screening.contract.contract import Contract
from screening.io.columns import columns_of
from screening.monitoring.drift import ALARMS, Gates, SampledValues, profile, steps
from screening.monitoring.tests import ks, psi, total_variation


@given(
    st.integers(2, 20).flatmap(
        lambda k: st.tuples(*[st.lists(st.integers(0, 99), min_size=k, max_size=k)] * 2)
    )
)
def test_distances_are_never_negative_the_same_in_both_directions_and_zero_of_equal_shares(pair):
    first, second = ([1 + n for n in counts] for counts in pair)
    for distance in (psi, ks, total_variation):
        assert distance(first, second) >= 0
        assert distance(first, second) == pytest.approx(distance(second, first))
        assert distance(first, [7 * n for n in first]) == pytest.approx(0, abs=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300))
def test_bins_hold_every_training_value_and_none_is_empty(values):
    counts = stored(pd.DataFrame({"x": values}), kinds(x="number")).features["x"].counts
    assert sum(counts) == len(values)
    assert min(counts) > 0
    assert len(np.unique(steps(counts, 10))) <= 10


def test_the_training_table_itself_passes_without_a_word():
    past = patients(600)
    gates = gated(past, past)
    assert gates.stops() == gates.attention() == []
    assert {facts.psi for facts in gates.facts().values()} == {0.0}


@pytest.mark.parametrize("seed", range(40))
def test_other_nights_of_the_same_ward_pass_without_a_word(seed):
    gates = gated(patients(5 + 9 * seed, seed=seed + 1))
    assert gates.stops() == gates.attention() == []


@pytest.mark.parametrize("n_rows", [3, 12, 90])
def test_a_fahrenheit_night_is_stopped_and_named(n_rows):
    night = patients(n_rows, seed=5)
    night["fever"] = 1.8 * night["fever"] + 32

    (reason,) = gated(night).stops()

    assert (reason.code, reason.column) == ("unit_changed", "fever")
    assert "in degrees F instead of degrees C (times 1.8, plus 32)" in reason.words
    assert reason.figure > reason.threshold
    assert reason.remedy


def test_degrees_are_not_looked_for_in_a_column_of_years():
    past = pd.DataFrame({"age": np.random.default_rng(0).normal(37, 0.5, 500)})
    contract = Contract.from_dict({"features": {"age": {"type": "number", "unit": "years"}}})
    assert gated(1.8 * past[:50] + 32, past, contract).stops() == []


def test_a_part_of_the_rows_in_another_unit_is_said_and_does_not_stop():
    night = patients(100, seed=5)
    night.loc[:19, "fever"] = 1.8 * night.loc[:19, "fever"] + 32
    gates = gated(night)
    assert gates.stops() == []
    assert re.search(r"fever: in (19|20)% of the rows the values look in degrees F", said(gates))


def test_unseen_categories_ranges_and_shifts_are_said_by_column():
    night = patients(200, seed=5)
    night.loc[:9, "ward"] = "tent"
    night["crp"] = night["crp"] * 2.5 + 3
    night["fever"] = night["fever"].where(night.index > 9, 44.5)
    gates = gated(night)

    assert {(reason.code, reason.column) for reason in gates.attention()} == {
        ("unseen_category", "ward"), ("values_differ", "crp"), ("outside_range", "fever"),
    }  # fmt: skip
    assert all(reason.figure < reason.threshold and reason.remedy for reason in gates.attention())
    assert "ward: 10 of 200 rows with a category never seen in training" in said(gates)
    assert "tent" not in said(gates)
    assert gates.facts()["ward"].unseen == 10


def test_a_single_row_of_a_new_ward_is_counted_by_column_and_no_alarm():
    night = patients(30, seed=5)
    night.loc[0, "ward"] = "tent"
    gates = gated(night)
    assert gates.attention() == []
    assert gates.notes() == ["ward: 1 row with a category never seen in training, scored as unknown"]


@pytest.mark.parametrize("n_rows", [5, 20, 240])
def test_a_column_whose_values_were_all_recoded_is_one_reason_and_no_error(n_rows):
    night = patients(n_rows, seed=5)
    night["ward"] = night["ward"].str.upper()
    (reason,) = gated(night).attention()
    assert (reason.code, reason.column) == ("unseen_category", "ward")
    assert gated(night).stops() == []


def test_a_column_that_is_missing_far_more_often_is_a_reason_at_any_batch_size():
    night = patients(60, seed=5)
    night.loc[:39, "crp"] = np.nan
    (reason,) = gated(night).attention()
    assert (reason.code, reason.column) == ("missing_more", "crp")
    assert "in training 1" in reason.words


EVEN = np.linspace(0, 1, 4000)
WARD = kinds(ward="category")


@pytest.mark.parametrize(
    ("night", "expected"),
    [
        (0.92 * EVEN, []),
        (0.85 * EVEN, ["values_differ"]),
        (np.where(np.arange(4000) % 25 == 0, np.nan, EVEN), []),
        (np.where(np.arange(4000) % 15 == 0, np.nan, EVEN), ["missing_more"]),
        (np.where(np.arange(4000) % 70 == 0, 5, EVEN), []),
        (np.where(np.arange(4000) % 40 == 0, -5, EVEN), ["outside_range"]),
        (np.where(np.arange(4000) % 40 == 0, 5, EVEN), ["outside_range"]),
        (np.where(np.arange(4000) % 40 == 0, 1, EVEN), []),
        (np.where(np.arange(4000) % 40 == 0, 0, EVEN), []),
    ],
)
def test_what_very_many_rows_make_sure_is_said_from_where_it_matters(night, expected):
    past = pd.DataFrame({"x": np.linspace(0, 1, 2000)})
    assert codes(gated(pd.DataFrame({"x": night}), past, kinds(x="number"))) == expected


@pytest.mark.parametrize("n_columns", [1, 4])
def test_one_night_in_a_hundred_is_shared_among_gates_and_columns(n_columns):
    names = [f"x{j}" for j in range(n_columns)]
    contract = kinds(**dict.fromkeys(names, "number"))
    past, night = (pd.DataFrame(dict.fromkeys(names, scale * EVEN)) for scale in (1.0, 0.8))

    thresholds = {reason.threshold for reason in gated(night, past, contract).attention()}

    assert thresholds == {ALARMS["values"] / n_columns}
    assert sum(ALARMS.values()) == pytest.approx(0.01)


def test_rows_added_after_a_look_are_looked_at_too():
    gates = gated(patients(30, seed=5))
    assert gates.stops() == []
    changed = patients(240, seed=6).assign(fever=lambda table: 1.8 * table["fever"] + 32)
    gates.add(columns_of(changed[list(CONTRACT.features)]))
    assert "in degrees F" in said(gates)


def test_texts_beyond_those_that_are_kept_are_not_taken_for_missing():
    past = pd.DataFrame({"code": [f"c{n}" for n in range(1200)] + [None] * 3})
    gates = gated(pd.DataFrame({"code": ["c5", "none that is kept"]}), past, kinds(code="category"))

    assert gates.past.features["code"].more == 200
    assert gates.training.columns["code"][:2].tolist() == [1203, 1200]
    # It may be one of those that training had and did not keep.
    assert gates.facts()["code"].unseen == 0
    assert gates.unseen_rows(columns_of(pd.DataFrame({"code": ["none that is kept"]}))) == {}


def test_a_night_of_new_texts_alone_is_far_from_training_in_bounded_memory():
    texts = ["a", "b", "b"] * 100, [f"new {n}" for n in range(3000)]
    past, night = (pd.DataFrame({"code": codes}) for codes in texts)
    gates = gated(night, past, kinds(code="category"))
    assert gates.facts()["code"].psi > 5
    assert gates.facts()["code"].unseen == 3000 and len(gates.columns["code"].unseen) <= 1001


def test_a_text_that_an_ordinal_does_not_list_is_a_present_row_of_an_unseen_category():
    contract = Contract.from_dict({"features": {"asa": {"type": "ordinal", "categories": ["low", "high"]}}})
    gates = Gates(profile(columns_of(pd.DataFrame({"asa": [0.0, 1.0] * 200})), contract), contract)
    unlisted = np.arange(40) < 10
    gates.add(columns_of(pd.DataFrame({"asa": np.where(unlisted, np.nan, 1.0)})), unlisted={"asa": unlisted})

    assert "asa: 10 of 40 rows with a category never seen in training" in said(gates)
    assert "missing" not in said(gates)


def test_shares_are_compared_as_their_definitions_say():
    assert psi([10, 0], [5, 5]) == pytest.approx(0.5 * np.log(2) + (0.5 - 0.05) * np.log(10))
    assert total_variation([1, 1], [2, 0]) == 0.5
    assert [*stored(pd.DataFrame({"ward": list("abb")}), WARD).features["ward"].counts] == ["b", "a"]
    # Twelve rows of one group and four of others: by Kish, 16^2 / (12^2 + 4).
    ward = pd.DataFrame({"ward": ["a"] * 16})
    assert stored(ward, WARD, np.array([0] * 12 + [1, 2, 3, 4])).n_units == pytest.approx(256 / 148)


def test_a_table_of_many_zeros_does_not_stop_itself():
    rng = np.random.default_rng(0)
    past = pd.DataFrame({"dose": np.where(rng.random(600) < 0.75, 0.0, rng.lognormal(1, 1, 600))})
    gates = gated(past, past, kinds(dose="number"))
    assert gates.stops() == gates.attention() == []


OF_PATIENTS = Contract.from_dict({"cohort": {"group": "p"}, "features": {"crp": {"type": "number"}}})


def measured_often(rng, n_patients, each):
    """Patients by their numbers, and a value of each that hardly varies between its rows."""
    names = np.repeat(np.arange(n_patients), each)
    return names, pd.DataFrame({"crp": rng.normal(0, 1, n_patients)[names] + rng.normal(0, 0.2, len(names))})


def test_rows_of_one_patient_tonight_or_in_training_are_not_taken_for_many():
    rng = np.random.default_rng(0)
    names, past = measured_often(rng, 40, 50)
    night = pd.DataFrame({"crp": rng.normal(1, 0.2, 100)})
    few, past_of_few = measured_often(rng, 4, 100)
    usual = pd.DataFrame({"crp": rng.normal(0, 1, 40)})

    assert codes(gated(night, past, OF_PATIENTS, np.zeros(100, int), names)) == []
    assert codes(gated(night, past, OF_PATIENTS, np.arange(100), names)) == ["values_differ"]
    assert codes(gated(usual, past_of_few, OF_PATIENTS, past_groups=few)) == []
    assert "values_differ" in codes(gated(usual, past_of_few, OF_PATIENTS))


def test_counts_do_not_depend_on_the_batches():
    night = patients(200, seed=5)
    split = Gates(stored(patients(600)), CONTRACT)
    for start in range(0, 200, 7):
        split.add(columns_of(night[list(CONTRACT.features)][start : start + 7]))
    assert split.facts() == gated(night).facts()


def test_the_sample_of_a_column_is_bounded_and_spread_over_it():
    sampled = SampledValues(8192)
    for start in range(0, 100_000, 3_000):
        sampled.add(np.arange(start, min(start + 3_000, 100_000), dtype=float))
    assert len(sampled.values) <= 8192
    assert len(np.unique(np.diff(sampled.values))) == 1


def test_rows_that_are_not_scored_are_not_said_to_be_scored_as_unknown():
    table = {"unknown": WARD}
    for policy in ("unknown", "refuse_row"):
        table[policy] = Contract.from_dict({"features": {"ward": {"type": "category", "on_unseen": policy}}})
    past, night = (pd.DataFrame({"ward": list(wards)}) for wards in ("abab", "abc"))

    assert len(gated(night, past, table["unknown"]).notes()) == 1
    assert gated(night, past, table["refuse_row"]).notes() == []


def test_the_share_of_missing_values_is_that_of_all_rows():
    past = pd.DataFrame({"crp": np.arange(200.0)})
    night = pd.DataFrame({"crp": np.where(np.arange(200) % 4 == 0, np.nan, np.arange(200.0))})
    assert "50 of 200 rows without a value, in training 0%" in said(gated(night, past, kinds(crp="number")))


def test_an_unseen_category_of_one_patients_many_rows_is_one_case_of_it():
    past = pd.DataFrame({"ward": ["a", "b"] * 300})
    night = pd.DataFrame({"ward": ["c"] * 30 + ["a", "b"] * 10})
    assert "unseen_category" not in codes(gated(night, past, WARD, np.array([0] * 30 + [*range(1, 21)])))
    assert "unseen_category" in codes(gated(night, past, WARD, np.arange(50)))
