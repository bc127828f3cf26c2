"""One case explained alone, columns displayed beside it, and templates of a site's
own.
"""

import json
import re
import runpy
import shutil
from html import unescape
from pathlib import Path
from unittest.mock import patch

import pandas as pd
import pytest
from commands import LOGISTIC, screen
from flow_cohorts import patients, voxels, written
from written_files import page_in, read_json, scores_in

from screening import read_cohort, save_model, score
from screening.contract.contract import Contract
from screening.errors import CohortError
from screening.registry import Registry
from screening.report import columns, render_run
from screening.report.columns import Column
from screening.scoring import night_totals

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(cohort, trained, tmp_path_factory):
    place = tmp_path_factory.mktemp("explain")
    written(patients(), place / "past.csv")
    model = trained(cohort, "svm_weighted", search=1)
    save_model(model, place / "model")
    night = patients(80, share=0.3, seed=7).drop(columns="ill")
    tonight = written(night, place / "tonight.csv")
    with patch.multiple(night_totals, CASES_EXPLAINED=5, CASES_SHOWN=8):
        score(model, tonight, place / "run", date="2026-03-01")
    return place


def explained(folder, name, *words, code=0):
    """What `explain` says of a row of the run, or its answer with --json."""
    answer = screen("explain", folder / "run", name, *words, code=code)
    return (
        json.loads(answer.stdout)
        if "--json" in words
        else answer.stdout + answer.stderr
    )


@pytest.fixture(scope="module")
def run(folder):
    return read_json(folder / "run" / "run.json")


@pytest.fixture(scope="module")
def images(tissue_model, tmp_path_factory):
    place = tmp_path_factory.mktemp("images")
    night = voxels(3, seed=5).drop(columns="tissue")
    table = written(night, place / "night.parquet")
    score(tissue_model, table, place / "run", date="2026-03-01")
    return place


@pytest.mark.parametrize("content", [None, b"PAR1 and no more"])
def test_a_run_whose_rows_are_gone_or_damaged_is_told_as_that(
    folder, run, tmp_path, content
):
    shutil.copytree(folder / "run", tmp_path / "run")
    scores = tmp_path / "run" / "scores.parquet"
    scores.unlink() if content is None else scores.write_bytes(content)
    case = run["cases"][0]
    answer = explained(tmp_path, case["id"], code=4)
    assert "scores.parquet is missing or damaged" in answer


def test_a_case_of_the_page_is_explained_from_the_run_alone(folder, run, images):
    """A near miss is not called flagged; a patient of voxels is explained by the row
    that scores highest.
    """
    case = run["cases"][1]
    shown = read_json(images / "run" / "run.json")
    answer = explained(folder, case["id"], "--json")
    text = explained(folder, case["id"])
    first = shown["cases"][0]
    patient = explained(images, first["group"], "--json")

    assert answer == {"run_id": run["run_id"], "date": "2026-03-01"} | case | {
        "flagged": True
    }
    assert f"number 2 of {run['cases_total']}" in text
    assert case["contributions"][0]["feature"] in text
    assert "Not flagged" in explained(folder, run["near_misses"][0]["id"])
    assert patient["id"] == first["id"]
    assert patient["rank"] == 1


def test_a_case_without_kept_reasons_says_how_to_get_them(folder, run):
    """Of each what is known of it, and the id of none is repeated."""
    flagged = pd.read_csv(folder / "run" / "flagged.csv", dtype=str)
    lowest = scores_in(folder / "run").nsmallest(1, "score")
    names = (
        run["cases"][6]["id"],
        flagged["id"].iloc[-1],
        lowest["id"].iloc[0],
        "nobody",
    )
    half = explained(folder, names[0], "--model", folder / "model", code=2)
    given = ("--model", folder / "model", "--cohort", folder / "past.csv")
    later, unnamed, quiet, nobody = answers = [
        explained(folder, name, code=2) for name in names
    ]

    assert "number 7 of" in later
    assert "first 5 only" in later
    assert "names 8 only" in unnamed
    assert "not flagged" in quiet
    assert "no row of this run has this id" in nobody
    assert "80 rows were scored" in nobody
    assert all("give --model and --cohort" in answer for answer in answers[:3])
    for answer, name in zip(answers, names, strict=True):
        assert name not in answer
    assert "belong together" in half
    of_other = explained(folder, names[0], *given, code=2)
    assert "not the table of this run" in of_other


def test_any_row_is_explained_from_its_model_and_table(folder, run, tmp_path):
    """A run from before another threshold at the threshold it had."""
    model = shutil.copytree(folder / "model", tmp_path / "model")
    given = ("--model", model, "--cohort", folder / "tonight.csv", "--json")
    kept = run["cases"][0]
    later = run["cases"][6]
    last = run["cases"][-1]
    again = explained(folder, kept["id"], *given)
    answer = explained(folder, later["id"], *given)
    before = explained(folder, last["id"], *given)
    n = len(kept["contributions"])
    kept_first = kept["contributions"][:n]
    again_first = again["contributions"][:n]
    first = {one["feature"]: one["change"] for one in kept_first}
    second = {one["feature"]: one["change"] for one in again_first}

    assert list(second) == list(first)
    assert second == pytest.approx(first)
    assert answer["score"] == pytest.approx(later["score"])
    assert answer["rank"] == 7
    assert answer["flagged"]
    assert answer["contributions"]
    screen("threshold", model, "--max-flag-rate", "0.01", "--reason", "fewer")
    assert explained(folder, last["id"], *given) == before


def test_row_that_the_page_does_not_list_is_explained(folder):
    lowest = scores_in(folder / "run").nsmallest(1, "score").iloc[0]
    given = ("--model", folder / "model", "--cohort", folder / "tonight.csv", "--json")

    answer = explained(folder, lowest["id"], *given)

    assert answer["score"] == pytest.approx(lowest["score"])
    assert answer["rank"] is None
    assert not answer["flagged"]
    assert answer["contributions"]


def test_group_is_explained_by_its_highest_row(images, tissue_model, tmp_path):
    """Named by its group, a patient of many voxels is the voxel that scores highest."""
    model = save_model(tissue_model, tmp_path / "model")
    given = ("--model", model, "--cohort", images / "night.parquet", "--json")
    scored = scores_in(images / "run")
    highest = scored.loc[scored.groupby("group")["score"].idxmax()].iloc[0]

    answer = explained(images, highest["group"], *given)

    assert answer["id"] == highest["id"]
    assert answer["score"] == pytest.approx(highest["score"])


def test_explain_with_another_model(folder, cohort, trained, run):
    other = save_model(trained(cohort, "logistic", search=1), folder / "other")
    given = ("--model", other, "--cohort", folder / "tonight.csv")

    answer = explained(folder, run["cases"][0]["id"], *given, code=2)

    assert "but the run was scored by" in answer


def test_the_page_of_one_case_names_that_case_alone(folder, run):
    first, *others = run["cases"]
    for _ in range(2):
        explained(folder, first["id"], "--out", folder / "case.html")
    page = (folder / "case.html").read_text()
    assert first["id"] in page
    assert "Contributing values" in page
    without_style = re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    for case in [*others, *run["near_misses"]]:
        assert case["id"] not in page
    assert "script" not in without_style


def keep(name, column):
    return column


def test_column_of_the_worklist_is_one_entry(run, monkeypatch):
    """Head, cells, widths and help of an added column follow from its object."""
    points = Column(
        "points",
        "4rem",
        "12mm",
        "the score in points",
        head=lambda run: "Points",
        text=lambda line: f"{line.score:.1f} points",
    )
    shipped = [*columns.COLUMNS.items()]
    extended = Registry("column", lambda: [*shipped, ("points", points)], keep)
    monkeypatch.setattr(columns, "COLUMNS", extended)
    page = render_run(run)
    style = columns.grid_style([*extended.values()])
    n_lines = len(run["cases"]) + len(run["near_misses"])

    assert "<span>Points</span>" in page
    assert len(re.findall(r'<span class="k points"><bdi>.*? points<', page)) == n_lines
    tracks = re.findall(r"--(cells[\w-]*):([^;}]*)", style)
    assert style in page
    last_widths = {name: widths.split()[-1] for name, widths in tracks}
    assert last_widths == {
        "cells": "4rem",
        "cells-narrow": "4rem",
        "cells-print": "12mm",
        "cells-print-narrow": "12mm",
    }
    assert columns.COLUMNS["points"].help == "the score in points"


def test_columns_of_the_worklist_documented():
    """docs/page.md has the help of each."""
    written_by = runpy.run_path(str(ROOT / "docs" / "templates.py"))
    document = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")

    assert written_by["worklist"](document) == document, "run python docs/templates.py"


def test_the_document_on_templates_lists_what_each_is_given(folder, run, tmp_path):
    """And a site's own template is drawn of the same."""
    written_by = runpy.run_path(str(ROOT / "docs" / "templates.py"))
    listed = written_by["reference"]()
    own = "{{ run.counts.flagged }} of {{ run.counts.scored|plural('row') }}|{{ list.parts[0].lines[0].id }}"
    (tmp_path / "tonight.html.j2").write_text(own)
    screen(
        "report", folder / "run", "--templates", tmp_path, "--out", tmp_path / "p.html"
    )
    page = unescape((tmp_path / "p.html").read_text())

    assert "| `tonight.html.j2` | `review`, `sentences`, `strip`, `tasks` |" in listed
    assert "| `cases.html.j2` | `list`, `review` |" in listed
    assert f"{run['counts']['flagged']} of 80 rows|{run['cases'][0]['id']}" in page


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
    beds = [f"{i % 9}-{i % 4}" for i in range(len(table))]
    return table.assign(bed=beds, name=names)


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    desk = tmp_path_factory.mktemp("desk")
    (desk / "contract.toml").write_text(CONTRACT)
    past = written(patients(), desk / "past.csv")
    night = placed(patients(60, seed=7))
    tonight = written(night, desk / "night.csv")
    roles = ("--contract", desk / "contract.toml", "--max-flag-rate", "0.3")
    screen("train", past, *roles, *LOGISTIC, "--out", desk / "model")
    scored = screen(
        "score", desk / "model", tonight, "--out", desk / "run", "--date", "2026-03-01"
    )
    return desk, scored.stdout + scored.stderr


def test_display_not_in_training():
    """A training table needs none of them and no feature is made of them.

    Neither the label nor what is dropped can be displayed.
    """
    contract = Contract.from_dict(
        {
            "cohort": {
                "display": ["bed", "name"],
                "label": "ill",
                "id": "patient",
            }
        }
    )
    cohort = read_cohort(placed(patients(40)), contract)
    assert not {"bed", "name"} & set(cohort.contract.features)
    assert cohort.display is None
    for role in ({"label": "ward"}, {"drop": ["ward"]}):
        cohort = {"display": ["ward"], **role}
        with pytest.raises(CohortError, match="'ward' is"):
            Contract.from_dict({"cohort": cohort})


def test_they_stand_in_run_json_and_flagged_csv_beside_their_patient(night):
    desk, _ = night
    run = read_json(desk / "run" / "run.json")
    table = pd.read_csv(desk / "night.csv", dtype=str).set_index("patient")
    table = table[["ward", "bed", "name"]]
    flagged = pd.read_csv(desk / "run" / "flagged.csv", dtype=str)
    flagged = flagged.set_index("id")
    page = page_in(desk / "run")
    audit = page[page.index('<section class="list drawn"') :]

    assert run["cases"]
    assert run["sample"]
    for case in run["cases"] + run["sample"]:
        row = table.loc[case["id"]]
        assert case["display"] == row.to_dict()
    assert all(
        f"<bdi>{drawn['display']['bed']}</bdi>" in audit for drawn in run["sample"]
    )
    shown = flagged[[*table]]
    assert shown.equals(table.loc[flagged.index])


def test_no_log_holds_them_and_the_scores_those_of_the_flagged(night):
    desk, told = night
    assert "Surname" not in told
    scores = scores_in(desk / "run")
    assert scores["display_name"].notna().equals(scores["flagged"])
    assert not scores["flagged"].all()
