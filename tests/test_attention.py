"""What a night wants attention for: said on the page, in the answer, and with --strict by the exit code."""

from __future__ import annotations

import json

import pytest
from commands import screen
from flow_cohorts import patients, written

from screening import read_cohort, train
from screening.page import render_model
from screening.statistics.operating_point import Rule
from screening.storage.model import save_model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two models of one cohort, a quiet night, and one with a ward that training never saw."""
    folder = tmp_path_factory.mktemp("place")
    past = read_cohort(written(patients(), folder / "past.csv"), label="ill", id="patient", need_label=True)
    never = Rule("threshold", 50.0)
    save_model(train(past, "svm", search=1, jobs=1), folder / "model", render_model)
    save_model(train(past, "svm", search=1, jobs=1, rule=never), folder / "mute", render_model)
    night = patients(90, seed=7).drop(columns="ill")
    written(night, folder / "night.csv")
    written(night.assign(ward=night["ward"].where(night.index > 4, "annex")), folder / "odd.csv")
    return folder


def test_a_night_like_those_of_training_exits_0_with_strict(place, tmp_path):
    answer = screen(
        "score", place / "model", place / "night.csv", "--out", tmp_path / "run", "--strict", "--json"
    )

    assert json.loads(answer.stdout)["attention"] == []
    assert answer.stderr == ""


def test_strict_exits_5_after_the_whole_run_is_there_and_says_why_on_one_line(place, tmp_path):
    words = ("score", place / "model", place / "odd.csv", "--out", tmp_path / "run", "--json")
    answer = screen(*words, "--strict", code=5)

    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "flagged.csv", "report.html", "run.json", "scores.parquet",
    ]  # fmt: skip
    (why,) = answer.stderr.splitlines()
    assert "a category never seen in training" in why
    reasons = json.loads(answer.stdout)["attention"]
    assert reasons
    assert all(reason["words"] in why for reason in reasons)


def test_three_nights_in_a_row_without_a_flag_are_said_on_the_third(place, tmp_path):
    told = []
    for day in ("01", "02", "03", "03"):
        words = ("score", place / "mute", place / "night.csv", "--ledger", tmp_path / "book.db", "--json")
        out = tmp_path / f"run-{len(told)}"
        answer = screen(*words, "--date", f"2026-03-{day}", "--out", out, "--strict", code=5)
        told.append("quiet_nights" in {reason["code"] for reason in json.loads(answer.stdout)["attention"]})

    assert told == [False, False, True, True]
