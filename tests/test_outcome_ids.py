"""Patients of a table of outcomes: are they those of the nights, and how many are."""

import json
from html import unescape

import pandas as pd
import pytest
from commands import as_json, screen
from faults.shell import HOSTILE, typed
from flow_cohorts import patients
from test_outcomes import SITE, trained

from screening import save_model, score
from screening.contract.contract import Contract, OutcomeDefinition
from screening.errors import CohortError
from screening.ledger.entries import Outcomes, append
from screening.ledger.erasing import Scope, erase
from screening.ledger.history import history
from screening.ledger.outcome_entries import last_figures, reasons_of_outcomes
from screening.ledger.outcome_ids import (
    EarlierTables,
    TableIds,
    earlier_tables,
)
from screening.ledger.outcomes import enter_outcomes
from screening.schemas.history import PatientsOfTable

WINDOW = {"id": "patient", "time": "when", "within": 72.0}


@pytest.fixture(scope="module")
def model():
    """A model of patients whose numbers have zeros in front."""
    contract = Contract(
        label="ill", id="patient", outcome=OutcomeDefinition(within="3d", time="when")
    )
    return trained(contract)


@pytest.fixture
def names(model, ledger, tmp_path):
    """Ids of sixty patients of a night that the ledger has."""
    night = patients(60, share=0.2, seed=2)
    night["patient"] = [f"00{41000 + 37 * n}" for n in range(60)]
    score(
        model,
        night.drop(columns="ill"),
        tmp_path / "run",
        ledger=ledger,
        series="ward",
        date="2026-03-01",
        accept_delivery="other numbers than in training",
        jobs=1,
    )
    return night["patient"].tolist()


def table_of(ids):
    return pd.DataFrame({"patient": [*ids], "when": "2026-03-02 10:00"}, dtype=str)


def enter(ledger, ids, **how):
    return enter_outcomes(ledger, "ward", table_of(ids), **WINDOW, **how)


@pytest.mark.parametrize(("n_lost", "words"), [(1, "row 20: 1 id "), (19, "rows 2, 3")])
def test_ids_written_otherwise_are_refused_by_row(ledger, names, n_lost, words):
    """One of twenty or all but one: they are named by row, and never by id."""
    ids = names[:20]
    ids[20 - n_lost :] = [name.lstrip("0") for name in ids[20 - n_lost :]]

    with pytest.raises(
        CohortError, match="in the nights, or elsewhere in this table"
    ) as error:
        enter(ledger, ids)

    assert words in str(error.value)
    assert "42" not in str(error.value)
    with ledger.reading() as connection:
        assert last_figures(connection, "ward") is None


def test_ids_of_the_table_that_differ_in_writing_alone_are_refused(ledger, names):
    with pytest.raises(CohortError, match="rows 2, 3: 2 ids"):
        enter(ledger, [names[0], "K12", "k-12"])


def test_digits_with_an_exponent_are_refused(ledger, names):
    with pytest.raises(CohortError, match="row 2: the ids have an exponent"):
        enter(ledger, [names[0], "4.1E+04"])


def test_table_of_which_nobody_was_scored_is_refused(ledger, names):
    with pytest.raises(CohortError, match="none of 2 patients was scored"):
        enter(ledger, ["9001", "9002"])

    entered = enter(ledger, ["9001", "9002"], accept_delivery="all of another ward")

    assert entered.unknown == 2


def test_accepted_ids_are_accepted_in_the_next_table_too(ledger, names):
    """An id that somebody accepted is another patient; a further one stops again."""
    ids = [*names[:5], names[6].lstrip("0")]

    enter(ledger, ids, accept_delivery="another hospital's patient")
    again = enter(ledger, ids)

    assert again.unknown == 1
    with pytest.raises(CohortError, match="row 7: 1 id "):
        enter(ledger, [*ids, names[8].lstrip("0")])
    erase(ledger, "asked for", Scope(names[6].lstrip("0")))
    assert history(ledger, verify=True)["audit"]["verified"]


def test_table_whose_patients_nobody_counted_is_no_measure(ledger, names):
    first = enter(ledger, names[:20])
    uncounted = Outcomes(
        series="ward",
        night="2026-03-02",
        figures=first.figures.replace(table=None),
        accepted=None,
    )
    with ledger.writing() as connection:
        append(connection, ledger.clock(), uncounted)
        counted = earlier_tables(connection, "ward").counted

    assert counted == [first.figures.table]


def test_ids_of_which_many_are_one_in_another_writing_are_compared_whole():
    """As of training's: a reduced form says nothing then."""
    table = ["A-1", "a1"]

    assert TableIds("id", table).rewritten(["A-1"], set(), "ward").keys() == {2}
    assert TableIds("id", table, whole_only=True).rewritten(["A-1"], set(), "w") == {}


def compared(patients, unknown, earlier):
    return EarlierTables(set(), earlier).compared(patients, unknown, None)


def test_unknown_patients_are_compared_with_the_largest_table_before():
    usual = PatientsOfTable(patients=119, unknown=20)
    lost = compared(119, 80, [usual])

    assert lost.grown
    assert (lost.usual_unknown, lost.usual_patients) == (20, 119)
    assert not compared(119, 26, [usual]).grown
    assert not compared(119, 80, []).grown
    # What is lost for good is lost on the next night too, until somebody accepts it.
    assert compared(119, 80, [usual, lost]).grown
    accepted = lost.replace(grown=False, accepted=True)
    assert not compared(119, 80, [usual, accepted]).grown


def test_unknown_patients_beyond_chance_need_attention(ledger, names):
    """Half of the ids are lost: that is said, and not that the model is worse."""
    first = enter(ledger, [*names[:50], *map(str, range(9000, 9010))])
    second = enter(ledger, [*names[:20], *map(str, range(9000, 9040))])

    with ledger.reading() as connection:
        reasons = reasons_of_outcomes(last_figures(connection, "ward"))
    (series,) = history(ledger)["series"]
    assert not first.figures.table.grown
    assert second.figures.table.grown
    assert [reason.code for reason in reasons] == ["outcomes_of_unknown"]
    assert "40 of 60 patients" in reasons[0].words
    assert series["outcomes"]["table"]["usual_unknown"] == 10


def test_command_and_overview_show_the_unknown(model, tmp_path, monkeypatch):
    """The share is in the answer, in the history and on the site's overview."""
    save_model(model, tmp_path / "model")
    (tmp_path / "in").mkdir()
    (tmp_path / "NIGHT.toml").write_text(SITE)
    monkeypatch.chdir(tmp_path)
    night = patients(60, share=0.2, seed=2)
    table = tmp_path / "in" / "2026-03-01.csv"
    night.drop(columns="ill").to_csv(table, index=False)
    ids = [*night["patient"][:10], "9001", "9002"]
    table_of(ids).to_csv(tmp_path / "events.csv", index=False)

    run = as_json("run", "NIGHT.toml", "--date", "2026-03-01")
    words = ("outcomes", "events.csv", "--ledger", "site.db", "--series", "ward")
    answer = screen(*words, "--as-of", "2026-03-20").stdout
    summary = screen("history", "--ledger", "site.db").stdout
    ids[0] = f"00{ids[0]}"
    table_of(ids).to_csv(tmp_path / "events.csv", index=False)
    refused = screen(*words, code=3).stderr
    accepted = as_json(*words, "--accept-delivery", "a twin", "--as-of", "2026-03-20")

    (read,) = run["outcomes"]
    assert read["table"]["unknown"] == 2
    overview = (tmp_path / "runs" / "overview" / "2026-03-01.html").read_text()
    assert "2 of 12" in overview
    assert "2 of 12, 2 of 12 before" in answer
    assert "patients never scored: 2 of 12" in summary
    assert "--accept-delivery" in refused
    assert json.dumps(ids[1]) not in refused
    assert accepted["unknown"] == 3


def test_outcomes_of_unknown_accepted(model, tmp_path):
    """A site's table of which many patients were never scored, or an id is written
    otherwise, is accepted by the command that the night prints.
    """
    folder = tmp_path / HOSTILE
    (folder / "in").mkdir(parents=True)
    save_model(model, folder / "model")
    site = folder / "NIGHT.toml"
    site.write_text(SITE)
    night = patients(60, share=0.2, seed=2)
    ids = night["patient"].tolist()
    table = folder / "in" / "2026-03-01.csv"
    night.drop(columns="ill").to_csv(table, index=False)
    lost = [*ids[:10], *map(str, range(9000, 9040))]
    tables = {
        "usual": [*ids[:50], *map(str, range(9000, 9010))],
        "lost": lost,
        "rewritten": [*lost, f"00{ids[11]}"],
    }
    lines = {}
    for name, named in tables.items():
        table_of(named).to_csv(folder / "events.csv", index=False)
        run = as_json("run", site, "--date", "2026-03-01")
        (lines[name],) = run["outcomes"]
        overview = (folder / "runs" / "overview" / "2026-03-01.html").read_text()
        # The first reads the table again, once it is corrected; the last accepts it.
        for command in lines[name]["remedies"][-1:]:
            assert command in unescape(overview)
            typed(command, folder, (0,))
        read = as_json("outcomes", "--site", site)["tables"][0]
        assert (read["refused"], read["remedies"]) == (None, [])

    assert lines["usual"]["remedies"] == []
    assert len(lines["lost"]["remedies"]) == 2
    assert "row 51" in lines["rewritten"]["refused"]
    status = screen("status", "--site", site, "--night", "2026-03-01").stdout
    assert "were never scored" not in status
    assert not list(folder.rglob("pwned"))
