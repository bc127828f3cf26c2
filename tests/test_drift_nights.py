"""The gates on a stream and in the commands: what stops a night, and where it is said."""

import numpy as np
import pandas as pd
import pytest
from commands import screen
from drift_gates import CONTRACT, stored
from flow_cohorts import patients, written

from screening import read_cohort, score, train
from screening.contract.contract import Contract
from screening.data.reading import check_cohort
from screening.monitoring.drift import Gates, profile
from screening.store.model import save_model


def test_leaving_implausible_rows_out_does_not_hide_the_unit(tmp_path):
    lenient = Contract.from_dict(
        CONTRACT.to_dict() | {"cohort": {"id": "patient", "on_violation": "refuse_rows"}}
    )
    night = patients(40, seed=5)
    night.loc[5:, "fever"] = 1.8 * night.loc[5:, "fever"] + 32
    gates = Gates(stored(patients(600)), lenient)

    violations, _ = check_cohort(written(night, tmp_path / "night.csv"), lenient, gates=gates)

    assert "column fever: the values look in degrees F" in violations[0]


def test_values_normalised_within_groups_are_described_and_raise_no_alarm(tmp_path):
    contract = Contract.from_dict(
        {"cohort": {"group": "p"}, "features": {"t2": {"type": "number", "normalise": "within_group"}}}
    )
    names = np.repeat([f"p{n}" for n in range(60)], 5)
    table = pd.DataFrame({"p": names, "t2": np.random.default_rng(0).normal(100, 9, 300)})
    past = read_cohort(written(table, tmp_path / "past.csv"), contract)
    raw = {**past.values, **past.raw}
    gates = Gates(profile(past.measured, contract, past.group), contract)

    violations, _ = check_cohort(
        written(table.assign(t2=table["t2"] * 1000), tmp_path / "night.csv"), contract, gates=gates
    )

    assert violations == gates.attention() == []
    assert gates.facts()["t2"].ks > 0.9
    described = profile(past.measured, contract, past.group)
    assert described == profile(raw, contract, past.group) != profile(past.values, contract)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train(
        read_cohort(written(patients(), tmp_path_factory.mktemp("past") / "past.csv"), CONTRACT),
        "svm_weighted",
        search=1,
        beside=(),
    )


def test_a_fahrenheit_night_exits_3_says_so_and_writes_nothing(model, tmp_path):
    night = patients(40, seed=5)
    night["fever"] = 1.8 * night["fever"] + 32
    save_model(model, tmp_path / "model")
    source = written(night, tmp_path / "night.csv")

    scored = screen("score", tmp_path / "model", source, "--out", tmp_path / "run", code=3)
    checked = screen("check", source, "--model", tmp_path / "model", code=3)

    assert "column fever: the values look in degrees F" in scored.stderr
    assert "outside the plausible range" in scored.stderr
    assert "column fever: the values look in degrees F" in checked.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "night.csv"]


def test_what_the_gates_found_stands_in_the_run_and_on_its_page(model, tmp_path):
    night = patients(90, seed=5)
    night.loc[:6, "ward"] = "tent"
    run = score(model, written(night, tmp_path / "night.csv"), tmp_path / "run", date="2026-01-31")
    page = (tmp_path / "run" / "report.html").read_text()
    ward = next(entry for entry in run.document["data"] if entry["name"] == "ward")

    assert ward["unseen"] == 7 and ward["psi"] > 0
    assert [reason["code"] for reason in run.document["attention"]] == ["unseen_category"]
    assert "ward: 7 of 90 rows with a category never seen in training" in page
    assert "PSI" in page and "7 unseen" in page
