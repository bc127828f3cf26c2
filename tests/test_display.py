"""Columns to display: beside the patient on the page and in flagged.csv, never learned from, never told."""

import json

import pandas as pd
import pytest
from commands import screen
from flow_cohorts import patients, written

from screening import read_cohort
from screening.contract.contract import Contract
from screening.errors import CohortError
from screening.schemas.run import RunDocument
from screening.teaching import deidentified
from screening.teaching.key import SiteKey

CONTRACT = """
[cohort]
id = "patient"
label = "ill"
positive = ["yes"]
display = ["ward", "bed", "name"]
capacity = 5
[features.fever]
type = "number"
[features.crp]
type = "number"
"""


def placed(table: pd.DataFrame) -> pd.DataFrame:
    names = [f"Surname {i}" for i in range(len(table))]
    return table.assign(bed=[f"{i % 9}-{i % 4}" for i in range(len(table))], name=names)


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    desk = tmp_path_factory.mktemp("desk")
    (desk / "contract.toml").write_text(CONTRACT)
    past = written(patients(), desk / "past.csv")
    tonight = written(placed(patients(60, seed=7)), desk / "night.csv")
    quick = ["--recipe", "logistic", "--search", "1", "--folds", "3", "--max-flag-rate", "0.3", "--jobs", "1"]
    screen("train", past, "--contract", desk / "contract.toml", *quick, "--out", desk / "model")
    scored = screen("score", desk / "model", tonight, "--out", desk / "run", "--date", "2026-03-01")
    return desk, scored.stdout + scored.stderr


def test_a_training_table_needs_none_of_them_and_no_feature_is_made_of_them():
    """Neither the label nor what is dropped can be displayed."""
    contract = Contract.from_dict({"cohort": {"display": ["bed", "name"], "label": "ill", "id": "patient"}})
    cohort = read_cohort(placed(patients(40)), contract)

    assert not {"bed", "name"} & set(cohort.contract.features)
    assert cohort.display is None
    for role in ({"label": "ward"}, {"drop": ["ward"]}):
        with pytest.raises(CohortError, match="'ward' is"):
            Contract.from_dict({"cohort": {"display": ["ward"], **role}})


def test_they_stand_in_run_json_and_flagged_csv_beside_their_patient(night):
    desk, _ = night
    run = json.loads((desk / "run" / "run.json").read_text())
    table = pd.read_csv(desk / "night.csv", dtype=str).set_index("patient")[["ward", "bed", "name"]]
    flagged = pd.read_csv(desk / "run" / "flagged.csv", dtype=str).set_index("id")
    page = (desk / "run" / "report.html").read_text(encoding="utf-8")
    audit = page[page.index('<section class="list drawn"') :]

    assert run["cases"] and run["sample"]
    for case in run["cases"] + run["sample"]:
        assert case["display"] == table.loc[case["id"]].to_dict()
    assert all(f"<bdi>{drawn['display']['bed']}</bdi>" in audit for drawn in run["sample"])
    assert flagged[[*table]].equals(table.loc[flagged.index])


def test_no_log_and_no_copy_for_teaching_holds_them_and_the_scores_those_of_the_flagged(night):
    desk, told = night
    run = RunDocument.from_dict(json.loads((desk / "run" / "run.json").read_text()))
    key = SiteKey(bytes(range(32)))

    assert "Surname" not in told
    assert "Surname" not in repr(deidentified(run, key).run)
    scores = pd.read_parquet(desk / "run" / "scores.parquet")
    assert scores["display_name"].notna().equals(scores["flagged"]) and not scores["flagged"].all()
