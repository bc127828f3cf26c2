"""Nights whose table is made by a spec of features, and whether a past one is again."""

import json
import sqlite3

import pandas as pd
import pyarrow.parquet as pq
import pytest
from commands import LOGISTIC, as_json, screen
from event_tables import FIRST, LAST, hospital, spec_of, written_events

from screening import Features
from screening.errors import UsageError
from screening.site.site import read_network

NIGHT, BEFORE = "2024-03-31", "2024-03-30"
SITE = """
[site]
ledger = "l.db"
time_zone = "Europe/Berlin"
hour = "06:00"
catch_up = 1
jobs = 1

[series.sepsis]
model = "model"
features = "spec.toml"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site after a night and a missed one, both made by features alone."""
    folder = tmp_path_factory.mktemp("features")
    written_events(hospital(), folder / "events.csv")
    spec = spec_of(folder, row="every")
    past = folder / "past.parquet"
    screen("features", spec, "--past", f"{FIRST}..{LAST}", "--out", past)
    screen("train", past, *LOGISTIC, "--out", folder / "model")
    (folder / "NIGHT.toml").write_text(SITE, encoding="utf-8")
    screen("run", folder / "NIGHT.toml", "--date", NIGHT)
    return folder


def test_night_by_features(site):
    """Tonight and the missed night are scored, each row of a table made of events."""
    made = pq.read_table(site / "runs" / ".features" / "sepsis" / f"{NIGHT}.parquet")
    scored = pq.read_table(site / "runs" / "sepsis" / NIGHT / "scores.parquet")

    assert made.num_rows > 10
    assert set(scored["id"].to_pylist()) == set(made["id"].to_pylist())
    assert (site / "runs" / "sepsis" / BEFORE / "run.json").is_file()


def test_night_by_features_again_is_unchanged(site):
    """A night that is published is neither made nor scored again."""
    answer = as_json("run", site / "NIGHT.toml", "--date", NIGHT)

    assert {line["status"] for line in answer["series"]} == {"unchanged"}


def test_table_of_features_is_in_the_register(site):
    """The ledger knows the tables of features, so that `forget` finds them."""
    answer = as_json(
        "status", "--ledger", site / "l.db", "--night", NIGHT, "--artefacts"
    )

    places = {artefact["place"] for artefact in answer["artefacts"]}
    assert any(place.endswith(f"{NIGHT}.parquet") for place in places)


def test_as_of_same_rows(site):
    """A past night is made again of the same events with the same rows."""
    answer = as_json("check", site / "NIGHT.toml", "--as-of", NIGHT)

    (line,) = answer["nights"]
    assert line["same"]
    assert (line["new"], line["gone"], line["columns"]) == (0, 0, [])


def test_outcomes_by_features(site):
    """The table of outcomes gives scored rows the labels that the past gives them.

    It may give more: where every night is a row, a patient's last stay ends the time in
    which outcomes are known.
    """
    nights = f"{BEFORE}..{NIGHT}"
    became = site / "became.parquet"
    screen("features", site / "spec.toml", "--outcomes", nights, "--out", became)
    truth = Features(site / "spec.toml").make_past(BEFORE, NIGHT).table.to_pandas()

    place = ("--ledger", site / "l.db", "--rows", site / "rows.csv")
    screen("outcomes", became, "--series", "sepsis", *place, "--as-of", "2024-04-20")

    rows = pd.read_csv(site / "rows.csv")
    labelled = rows[rows["truth"].isin(["case", "none"])].set_index("stay")["truth"]
    found = labelled.eq("case").astype(int).to_dict()
    expected = dict(zip(truth["id"], truth["label"], strict=True))
    assert sum(expected.values()) > 0
    assert found.items() >= expected.items()


def test_as_of_names_what_changed(site):
    """Events altered before the hour without known_since are found, by their column."""
    events = hospital()
    is_lab = events["code"].eq("LAB/crp") & events["value"].notna()
    is_early = events["known_since"].lt(pd.Timestamp(f"{NIGHT}T00:00:00Z"))
    events.loc[is_lab & is_early, "value"] += 1
    written_events(events, site / "events.csv")

    result = screen("check", site / "NIGHT.toml", "--as-of", NIGHT, code=5)

    written_events(hospital(), site / "events.csv")
    assert "0 rows are new, 0 are missing" in result.stdout
    named = result.stdout.partition("changed columns: ")[2].strip().split(", ")
    assert (
        {"crp_mean", "crp_max"}
        <= set(named)
        <= {f"crp_{take}" for take in ("mean", "sum", "slope", "min", "max")}
    )


def test_as_of_query(site, tmp_path):
    """A site's own SQL is proved too; a column that it gives otherwise is named."""
    table = pq.read_table(site / "runs" / ".features" / "sepsis" / f"{NIGHT}.parquet")
    frame = table.to_pandas().assign(night=NIGHT)
    frame["time"] = frame["time"].map(lambda time: time.isoformat())
    place = tmp_path / "ward.db"
    with sqlite3.connect(place) as connection:
        frame.to_sql("rows", connection, index=False)
    columns = ", ".join(f'"{name}"' for name in table.column_names)
    query = f"SELECT {columns} FROM rows WHERE night = :night ORDER BY id"
    (tmp_path / "tonight.sql").write_text(query, encoding="utf-8")
    series = (
        f'model = {json.dumps(str(site / "model"))}\ncohort = "sqlite:///{place}"\n'
    )
    text = SITE.partition("model")[0] + series + 'query = "tonight.sql"\n'
    (tmp_path / "NIGHT.toml").write_text(text, encoding="utf-8")
    screen("run", tmp_path / "NIGHT.toml", "--date", NIGHT)

    same = as_json("check", tmp_path / "NIGHT.toml", "--as-of", NIGHT)
    with sqlite3.connect(place) as connection:
        connection.execute("UPDATE rows SET crp_max = 1")
    other = as_json("check", tmp_path / "NIGHT.toml", "--as-of", NIGHT, code=5)

    assert same["nights"][0]["same"]
    assert other["nights"][0]["columns"] == ["crp_max"]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("", "series.a.cohort: give cohort, or features"),
        ('cohort = "x.csv"\nfeatures = "s.toml"', "give either features, or cohort"),
    ],
)
def test_series_without_one_source(tmp_path, keys, words):
    """A series has a cohort or features, and not both."""
    file = tmp_path / "NIGHT.toml"
    file.write_text(f'[site]\nledger = "l.db"\n[series.a]\nmodel = "m"\n{keys}\n')

    with pytest.raises(UsageError, match=words):
        read_network(file)
