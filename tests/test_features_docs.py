"""Spec and commands of docs/features.md, as they stand there, on a small hospital."""

import re
import shlex
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from commands import LOGISTIC, screen
from event_tables import FIRST, LAST, hospital, written_events

pytest.importorskip("duckdb")

from screening import Features
from screening.features.spec import Feature, Outcome, Source, Spec, Stays

PAGE = Path(__file__).parents[1] / "docs" / "features.md"
CODES = {
    "LAB/crea": "LOINC/2160-0",
    "DRUG/a": "ATC/J01CA",
    "DRUG/b": "RISK/1",
    "DX/sepsis": "SNOMED/91302008",
}


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with the page's spec, its value set, and a hospital's events."""
    (tmp_path / "events").mkdir()
    events = hospital().replace({"code": CODES})
    written_events(events, tmp_path / "events" / "all.parquet")
    (tmp_path / "drugs.csv").write_text("code\nATC/J01CA\nRISK/1\n")
    (tmp_path / "spec.toml").write_text(blocks("toml")[0], encoding="utf-8")
    return tmp_path


def test_commands_of_the_page(folder, monkeypatch):
    """The page's commands make a past, a model, a night, outcomes and a first spec."""
    events = pd.read_parquet(folder / "events" / "all.parquet")
    later = events[["time", "known_since"]] + pd.Timedelta(days=700)
    renamed = events[["subject", "stay"]] + "-later"
    written_events(
        events.assign(**later, **renamed), folder / "events" / "later.parquet"
    )
    monkeypatch.chdir(folder)
    inline = re.findall(r"`(screen features [^`]*)`", PAGE.read_text("utf-8"))
    commands = [*blocks("bash")[0].splitlines(), *inline]

    for command in commands:
        _, *words = shlex.split(command)
        screen(*words, *(LOGISTIC if words[0] == "train" else ()))

    assert len(commands) >= 5
    assert pq.read_table("tonight.parquet").num_rows > 10
    assert pq.read_table("past.parquet").num_rows > 50
    assert pq.read_table("outcomes.parquet").num_rows > 10
    assert (folder / "trained" / "sepsis" / "model.json").exists()


def test_spec_of_the_page(folder):
    """The page's spec makes a past with its features and labels, and a night."""
    features = Features(folder / "spec.toml")

    past = features.past(FIRST, LAST)

    names = ["creatinine", "creatinine_change", "antibiotic", "risk_drugs"]
    names += ["age", "sex", "ward", "days_in"]
    assert list(past.columns) == ["id", "group", "time", *names, "label"]
    assert past[names].notna().any().all()
    assert set(past["label"]) == {0, 1}
    assert len(features.night("2024-03-31")) > 0


@pytest.mark.parametrize("table", [Source, Stays, Feature, Outcome, Spec])
def test_keys_of_the_spec_are_on_the_page(table):
    """Each key that a spec may have is on the page."""
    words = set(re.findall(r"[a-z_]+", PAGE.read_text("utf-8")))

    assert set(table.model_fields) <= words
