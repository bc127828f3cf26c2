"""The gate of deliveries in the commands: what stops a night, what the page says, and the way on."""

import json

import pandas as pd
import pytest
from commands import screen
from flow_cohorts import patients, written

from screening import score
from screening.ledger.database import open_ledger
from screening.monitoring.drift import LEAST
from screening.schemas.run import Delivery
from screening.store.model import save_model

POOL = patients(700, seed=3)


def ward(number: int, beds: int = 60, leave: int = 6) -> pd.DataFrame:
    """The ward's table of a night: every night some of the patients are others."""
    return POOL.iloc[leave * number : leave * number + beds].drop(columns="ill")


@pytest.fixture(scope="module")
def model(cohort, trained):
    return trained(cohort, "logistic", search=1)


@pytest.fixture
def site(model, tmp_path):
    """A ledger with six nights of the ward, and the model as a directory."""
    save_model(model, tmp_path / "model")
    with open_ledger(tmp_path / "ledger.db", make=True) as ledger:
        for number in range(6):
            table = written(ward(number), tmp_path / f"{number}.csv")
            run = score(model, table, tmp_path / f"run{number}", date=f"2026-01-0{number + 1}", ledger=ledger)
            assert not {"not_whole", "patients_gone"} & {reason.code for reason in run.attention}
    return tmp_path


def night(site, table, *words: object, code: int = 0, day: int = 7):
    asked = ("--date", f"2026-01-{day:02}", "--ledger", site / "ledger.db", "--out", site / f"run{day}")
    return screen("score", site / "model", table, *asked, "--json", *words, code=code)


def test_half_a_ward_is_a_night_to_look_at_and_its_page_says_how_it_came(site):
    table = written(ward(6).iloc[::2], site / "half.csv")
    attention = json.loads(night(site, table).stdout)["attention"]
    page = (site / "run7" / "report.html").read_text()

    usual = [reason["code"] for reason in attention if "usual after the last nights" in reason["words"]]
    assert usual == ["not_whole"]
    assert "30 rows came" in page and "27 of 60 patients of 2026-01-06 still here" in page


def test_who_has_left_is_told_from_who_is_no_longer_flagged(site, model):
    well = written(ward(6).assign(fever=36.0, crp=1.0), site / "well.csv")
    with open_ledger(site / "ledger.db") as ledger:
        run = score(model, well, site / "well", date="2026-01-07", ledger=ledger)

    since, there = run.document["since"], set(ward(6)["patient"])
    assert since["left"] == [name for name in since["gone"] if name not in there]
    assert 0 < len(since["left"]) < len(since["gone"])


def test_yesterdays_table_under_todays_date_stops_and_writes_nothing(site):
    stopped = night(site, site / "5.csv", code=3)
    assert "The table is that of the night of 2026-01-06, byte for byte" in stopped.stderr
    assert "--accept-delivery REASON" in stopped.stderr
    assert not (site / "run7").exists()


def test_another_wards_table_stops_the_night(site):
    stopped = night(site, written(ward(60), site / "other.csv"), code=3)
    assert "0 of 60 patients of 2026-01-06 are still there" in stopped.stderr


def test_ids_of_another_shape_stop_the_night(site):
    """Numbers where training had text with zeros in front: every case would be a new one."""
    table = ward(6).assign(patient=lambda table: table["patient"].astype(int))
    assert "written otherwise" in night(site, written(table, site / "n.parquet"), code=3).stderr
    assert "without the zeros" in night(site, site / "n.parquet", code=3).stderr


def test_an_accepted_delivery_is_scored_says_why_and_is_found_again(site):
    words = ("--accept-delivery", "holiday: nobody came or left")
    first = json.loads(night(site, site / "5.csv", *words).stdout)
    document = json.loads((site / "run7" / "run.json").read_text())
    again = json.loads(night(site, site / "5.csv").stdout)

    assert document["delivery"]["accepted"] == words[1]
    assert document["delivery"]["found"][0] == "table_of_another_night"
    assert words[1] in (site / "run7" / "report.html").read_text()
    assert again["run_id"] == first["run_id"] and again["attention"] == first["attention"]
    screen("score", site / "model", site / "5.csv", "--out", site / "x", "--accept-delivery", " ", code=2)


def test_one_table_for_two_wards_is_named(site, model):
    """Where both are of one model, or had tables of their own on the night before."""
    table = written(ward(6), site / "6.csv")
    codes = [
        {reason["code"] for reason in json.loads(night(site, table, "--series", name).stdout)["attention"]}
        for name in ("ward-7", "ward-9")
    ]

    assert ["table_of_another_series" in some for some in codes] == [False, True]


def test_after_twenty_nights_of_its_own_a_ward_is_not_held_against_training(model, tmp_path):
    """A ward of feverish patients differs from training every night, and from itself when it changes."""
    with open_ledger(tmp_path / "ledger.db", make=True) as ledger:

        def told(number: int, warmer: float):
            table = ward(number, 50, 30).assign(fever=lambda table: table["fever"] + warmer)
            return score(
                model, written(table, tmp_path / f"{number}.csv"), tmp_path / f"run{number}",
                date=f"2026-01-{number + 1:02}", ledger=ledger,
            )  # fmt: skip

        early = told(0, 0.8)
        for number in range(1, LEAST):
            told(number, 0.8)
        usual, changed = told(LEAST, 0.8), told(LEAST + 1, 2.2)

    fever = ("values_differ", "fever")
    assert fever in {(one.code, one.column) for one in early.attention}
    assert fever not in {(one.code, one.column) for one in usual.attention}
    assert fever in {(one["code"], one["column"]) for one in usual.document["unlike_training"]}
    assert "like this series’ own nights" in (tmp_path / f"run{LEAST}" / "report.html").read_text()
    assert "on this series' last 20 nights" not in str(usual.attention)
    assert fever in {(one.code, one.column) for one in changed.attention}


def test_the_ledger_keeps_counts_and_no_value_of_a_delivery(site):
    document = json.loads((site / "run5" / "run.json").read_text())
    told = Delivery(**document["delivery"])
    assert (told.rows, told.earlier, told.before, told.still) == (60, "2026-01-05", 60, 54)


def test_a_site_scores_a_stopped_night_that_somebody_accepts(site):
    """Yesterday's table in tonight's place fails the series, until its delivery is accepted."""
    for number in (5, 6):
        written(ward(5), site / f"2026-01-{number + 1:02}.csv")
    (site / "NIGHT.toml").write_text(
        '[site]\nledger = "l.db"\nruns = "runs"\npublish = "pages"\n'
        '[series.ward]\nmodel = "model"\ncohort = "{date}.csv"\ncatch_up = 0\n'
    )
    run = ("run", site / "NIGHT.toml", "--json", "--date")
    screen(*run, "2026-01-06")

    stopped = json.loads(screen(*run, "2026-01-07", code=3).stdout)["series"][0]
    accepted = ("--accept-delivery", "static test table")
    screen(*run, "2026-01-07", *accepted, code=2)
    taken = json.loads(screen(*run, "2026-01-07", "--only", "ward", *accepted).stdout)["series"][0]
    later = json.loads(screen(*run, "2026-01-07").stdout)["series"][0]

    assert "byte for byte" in stopped["said"]
    assert (taken["status"], later["status"]) == ("published", "unchanged")
