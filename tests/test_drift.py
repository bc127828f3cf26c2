"""Gates before scoring: other units stop the run, other patients are said aloud, the same night is silent."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients, written
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from screening import read_cohort, score, train
from screening.cli import app
from screening.cohort.contract import Contract
from screening.cohort.drift import Gates, ks, profile, psi, tenths
from screening.cohort.reading import check_cohort, open_cohort
from screening.cohort.units import SAMPLE, SampledValues, unit_shift
from screening.errors import CohortError
from screening.store import save_model

CONTRACT = Contract.from_dict(
    {
        "cohort": {"id": "patient", "label": "ill"},
        "features": {
            "fever": {"type": "number", "unit": "degC", "plausible": [30, 45]},
            "crp": {"type": "number"},
            "ward": {"type": "category"},
        },
    }
)


def stored(table: pd.DataFrame, contract: Contract = CONTRACT) -> dict:
    return profile(table[list(contract.features)], contract)


def gated(table: pd.DataFrame, past: pd.DataFrame | None = None, contract: Contract = CONTRACT) -> Gates:
    gates = Gates(stored(patients(600) if past is None else past, contract), contract)
    gates.add(table[list(contract.features)])
    return gates


counts = st.lists(st.integers(0, 500), min_size=2, max_size=30).filter(sum)


@given(counts, st.integers(1, 20))
def test_psi_and_ks_of_equal_shares_are_zero(bins, times):
    again = [times * n for n in bins]

    assert psi(bins, again) == pytest.approx(0, abs=1e-12)
    assert ks(bins, again) == pytest.approx(0, abs=1e-12)


@given(
    st.integers(2, 20).flatmap(
        lambda k: st.tuples(*[st.lists(st.integers(0, 99), min_size=k, max_size=k).filter(sum)] * 2)
    )
)
def test_psi_is_never_negative_and_the_same_in_both_directions(pair):
    one, other = pair

    assert psi(one, other) >= 0
    assert psi(one, other) == pytest.approx(psi(other, one))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300))
def test_bins_hold_every_training_value_and_none_is_empty(values):
    table = pd.DataFrame({"x": values})
    contract = Contract.from_dict({"features": {"x": {"type": "number"}}})

    found = stored(table, contract)["features"]["x"]

    assert sum(found["counts"]) == len(values)
    assert min(found["counts"]) > 0
    assert len(np.unique(tenths(found["counts"]))) <= 10


def test_the_training_table_itself_passes_without_a_word():
    past = patients(600)
    gates = gated(past, past)

    assert gates.stops() == gates.attention() == []
    assert {facts["psi"] for facts in gates.facts().values()} == {0.0}


@pytest.mark.parametrize("seed", range(40))
def test_other_nights_of_the_same_ward_pass_without_a_word(seed):
    gates = gated(patients(5 + 9 * seed, seed=seed + 1))

    assert gates.stops() == gates.attention() == []


@pytest.mark.parametrize("n_rows", [1, 3, 12, 90])
def test_a_fahrenheit_night_is_stopped_and_named(n_rows):
    night = patients(n_rows, seed=5)
    night["fever"] = 1.8 * night["fever"] + 32

    (reason,) = gated(night).stops()

    assert "temperature looks like degrees F" in reason


@pytest.mark.parametrize("factor", [18, 1000, 10, 1 / 18, 1 / 1000, 1 / 10])
def test_a_change_of_unit_by_a_factor_is_stopped_with_that_factor(factor):
    rng = np.random.default_rng(0)
    past = patients(600).assign(crp=rng.lognormal(1.8, 0.35, 600))
    night = patients(60, seed=5).assign(crp=rng.lognormal(1.8, 0.35, 60) * factor)

    (reason,) = gated(night, past).stops()

    assert f"{max(factor, 1 / factor):g} times as {'large' if factor > 1 else 'small'}" in reason


def test_celsius_where_fahrenheit_was_learned_is_stopped_too():
    past = patients(600)
    past["fever"] = 1.8 * past["fever"] + 32
    contract = Contract.from_dict({"features": {"fever": {"type": "number", "unit": "degF"}}})

    (reason,) = gated(patients(30, seed=2), past, contract).stops()

    assert "temperature looks like degrees C" in reason


def test_degrees_are_not_looked_for_in_a_column_of_years():
    past = pd.DataFrame({"age": np.random.default_rng(0).normal(37, 0.5, 500)})
    contract = Contract.from_dict({"features": {"age": {"type": "number", "unit": "years"}}})

    assert gated(1.8 * past[:50] + 32, past, contract).stops() == []


def test_a_part_of_the_rows_in_another_unit_is_said_and_does_not_stop():
    night = patients(100, seed=5)
    night.loc[:19, "fever"] = 1.8 * night.loc[:19, "fever"] + 32
    gates = gated(night)

    assert gates.stops() == []
    said = " ".join(gates.attention())
    assert re.search(r"fever: in (19|20)% of the rows the temperature looks like degrees F", said)


def test_unseen_categories_ranges_and_shifts_are_said_by_column():
    night = patients(200, seed=5)
    night.loc[:2, "ward"] = "tent"
    night["crp"] = night["crp"] * 2.5 + 3
    gates = gated(night)
    said = " ".join(gates.attention())

    assert "ward: 3 rows with a category never seen in training" in said
    assert "crp: distributed differently from training" in said
    assert "tent" not in said
    assert gates.facts()["ward"]["unseen"] == 3


def test_counts_do_not_depend_on_the_batches():
    night = patients(200, seed=5)
    split = Gates(stored(patients(600)), CONTRACT)
    for start in range(0, 200, 7):
        split.add(night[list(CONTRACT.features)][start : start + 7])

    assert split.facts() == gated(night).facts()


def test_the_sample_of_a_column_is_bounded_and_spread_over_it():
    sampled = SampledValues()
    for start in range(0, 100_000, 3_000):
        sampled.add(np.arange(start, min(start + 3_000, 100_000), dtype=float))

    assert len(sampled.values) <= SAMPLE
    assert len(np.unique(np.diff(sampled.values))) == 1


def test_the_stream_stops_before_the_first_batch_and_keeps_the_faults_of_the_contract(tmp_path):
    night = patients(40, seed=5)
    night["fever"] = 1.8 * night["fever"] + 32
    stream = open_cohort(
        written(night, tmp_path / "night.csv"), CONTRACT, gates=Gates(stored(patients(600)), CONTRACT)
    )

    with pytest.raises(CohortError) as stopped:
        next(iter(stream))

    assert "temperature looks like degrees F" in stopped.value.violations[0]
    assert "outside the plausible range" in stopped.value.violations[1]


def test_leaving_implausible_rows_out_does_not_hide_the_unit(tmp_path):
    lenient = Contract.from_dict(
        CONTRACT.to_dict() | {"cohort": {"id": "patient", "on_violation": "refuse_rows"}}
    )
    night = patients(40, seed=5)
    night.loc[5:, "fever"] = 1.8 * night.loc[5:, "fever"] + 32
    gates = Gates(stored(patients(600)), lenient)

    violations, _ = check_cohort(written(night, tmp_path / "night.csv"), lenient, gates=gates)

    assert "temperature looks like degrees F" in violations[0]


def test_values_normalised_within_groups_are_described_and_raise_no_alarm(tmp_path):
    contract = Contract.from_dict(
        {"cohort": {"group": "p"}, "features": {"t2": {"type": "number", "normalise": "within_group"}}}
    )
    table = pd.DataFrame({"p": np.repeat(["a", "b"], 50), "t2": np.random.default_rng(0).normal(100, 9, 100)})
    past = read_cohort(written(table, tmp_path / "past.csv"), contract)
    raw = past.features.assign(**past.raw)
    gates = Gates(profile(raw, contract, past.group), contract)

    violations, _ = check_cohort(
        written(table.assign(t2=table["t2"] * 1000), tmp_path / "night.csv"), contract, gates=gates
    )

    assert violations == gates.attention() == []
    assert gates.facts()["t2"]["ks"] > 0.9


def test_no_values_and_constant_columns_are_no_news():
    assert unit_shift(np.zeros(0), {"edges": [], "counts": [5], "range": [1, 1], "core": [1, 1]}) is None
    assert unit_shift(np.ones(9), {"edges": [], "counts": [0], "range": None, "core": None}) is None
    assert unit_shift(np.full(9, 18.0), {"edges": [], "counts": [5], "range": [1, 1], "core": [1, 1]}) is None


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train(
        read_cohort(written(patients(), tmp_path_factory.mktemp("past") / "past.csv"), CONTRACT),
        "svm_weighted",
        search=1,
    )


def test_a_fahrenheit_night_exits_3_says_so_and_writes_nothing(model, tmp_path):
    night = patients(40, seed=5)
    night["fever"] = 1.8 * night["fever"] + 32
    save_model(model, tmp_path / "model")
    source = written(night, tmp_path / "night.csv")
    command = CliRunner()

    scored = command.invoke(
        app, ["score", str(tmp_path / "model"), str(source), "--out", str(tmp_path / "run")]
    )
    checked = command.invoke(app, ["check", str(source), "--model", str(tmp_path / "model")])

    assert scored.exit_code == checked.exit_code == 3
    assert "temperature looks like degrees F" in scored.stderr
    assert "temperature looks like degrees F" in checked.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "night.csv"]


def test_what_the_gates_found_stands_in_the_run_and_on_its_page(model, tmp_path):
    night = patients(90, seed=5)
    night.loc[:2, "ward"] = "tent"
    run = score(model, written(night, tmp_path / "night.csv"), tmp_path / "run", date="2026-01-31")
    page = (tmp_path / "run" / "report.html").read_text()
    ward = next(entry for entry in run.document["data"] if entry["name"] == "ward")

    assert ward["unseen"] == 3 and ward["psi"] > 0
    assert "ward: 3 rows with a category never seen in training" in page
    assert "PSI" in page and "3 unseen" in page


def test_check_notes_what_differs_from_training(model, tmp_path):
    night = patients(90, seed=5)
    night.loc[:2, "ward"] = "tent"
    save_model(model, tmp_path / "model")
    source = written(night, tmp_path / "night.csv")

    said = CliRunner().invoke(app, ["check", str(source), "--model", str(tmp_path / "model"), "--json"])

    assert said.exit_code == 0
    assert any("never seen in training" in note for note in json.loads(said.stdout)["notes"])
