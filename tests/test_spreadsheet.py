"""`flagged.csv`: the promised columns, what the ledger knows, and nothing a spreadsheet would run."""

import pandas as pd
import pytest
from flow_cohorts import patients, voxels, written

from screening import score
from screening.ledger.database import open_ledger
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.store.loading import load_model
from screening.store.model import CHANCES

COLUMNS = ["rank", "id", "group", "class", "score", "p_value", *CHANCES]


@pytest.fixture
def model(logistic_model):
    return load_model(logistic_model)


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(tmp_path / "screening.db", make=True) as opened:
        yield opened


def flagged(run) -> pd.DataFrame:
    return pd.read_csv(run.directory / "flagged.csv", dtype=str, keep_default_na=False)


def test_without_a_ledger_there_are_the_promised_columns_and_no_others(model, tmp_path):
    run = score(model, written(patients(60, seed=7), tmp_path / "night.csv"), tmp_path / "run")
    assert list(flagged(run).columns) == COLUMNS


def test_with_a_ledger_the_state_of_every_case_stands_behind(model, ledger, tmp_path):
    first, later = patients(60, seed=7), patients(20, seed=8)
    one, two = written(first, tmp_path / "1.csv"), written(pd.concat([first[:40], later]), tmp_path / "2.csv")
    before = score(model, one, tmp_path / "run1", date="2026-03-01", ledger=ledger)
    judged = min(set(flagged(before)["id"]) & set(first["patient"][:40]))
    record_verdicts(ledger, before.document["ledger"]["key"], [Verdict(judged, "ruled out")])

    run = score(model, two, tmp_path / "run2", date="2026-03-02", ledger=ledger)

    table = flagged(run).set_index("id")
    assert set(table.columns) == {*COLUMNS, "state", "nights", "drawn"} - {"id"}
    assert dict(table.loc[judged, ["state", "nights"]]) == {"state": "ruled out", "nights": "2"}
    assert set(table.loc[table.index.isin(later["patient"]), "state"]) == {"new"}
    for state in ("new", "pending", "ruled out"):
        assert (table["state"] == state).sum() == run.document["counts"][state.replace(" ", "_")] > 0


def test_rows_of_a_group_have_the_state_of_their_patient(ledger, tissue, trained, tmp_path):
    model = trained(tissue, "one_vs_rest", search=1, folds=4)
    three = voxels(3, 50, seed=9)
    for day, rows in ((1, three[three["patient"] != "P91"]), (2, three)):
        night = written(rows, tmp_path / f"{day}.parquet")
        run = score(model, night, tmp_path / f"run{day}", date=f"2026-03-0{day}", ledger=ledger)

    found = flagged(run).groupby("group")[["state", "nights"]].agg(set).to_dict("index")

    known, new = {"state": {"pending"}, "nights": {"2"}}, {"state": {"new"}, "nights": {"1"}}
    assert found == {"P90": known, "P91": new, "P92": known}
