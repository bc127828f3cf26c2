"""One case explained alone, and templates of a site's own, from the command line."""

import json
import re
import runpy
import shutil
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from commands import screen
from flow_cohorts import patients, voxels, written

from screening import score
from screening.scoring import summary as night
from screening.store.model import save_model

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(cohort, trained, tmp_path_factory):
    """A model, a table and its run, in which five of the flagged have their reasons."""
    place = tmp_path_factory.mktemp("explain")
    written(patients(), place / "past.csv")
    model = trained(cohort, "svm_weighted", search=1)
    save_model(model, place / "model")
    tonight = written(patients(80, share=0.3, seed=7).drop(columns="ill"), place / "tonight.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(night, "CASES_EXPLAINED", 5)
        patch.setattr(night, "CASES_SHOWN", 8)
        score(model, tonight, place / "run", date="2026-03-01")
    return place


@pytest.fixture(scope="module")
def run(folder):
    return json.loads((folder / "run" / "run.json").read_text())


@pytest.fixture(scope="module")
def images(tissue, trained, tmp_path_factory):
    """A run of voxels, grouped by patient."""
    place = tmp_path_factory.mktemp("images")
    model = trained(tissue, "one_vs_rest", search=1, folds=4)
    tonight = written(voxels(3, seed=5).drop(columns="tissue"), place / "tonight.csv")
    score(model, tonight, place / "run", date="2026-03-01")
    return place / "run"


@pytest.mark.parametrize("content", [None, b"PAR1 and no more"])
def test_a_run_whose_rows_are_gone_or_damaged_is_told_as_that(folder, run, tmp_path, content):
    shutil.copytree(folder / "run", tmp_path / "run")
    scores = tmp_path / "run" / "scores.parquet"
    scores.unlink() if content is None else scores.write_bytes(content)

    answer = screen("explain", tmp_path / "run", run["cases"][0]["id"], code=4)

    assert "scores.parquet is missing or damaged" in answer.stderr


def test_a_case_of_the_page_is_explained_from_the_run_alone(folder, run):
    case = run["cases"][1]
    told = json.loads(screen("explain", folder / "run", case["id"], "--json").stdout)
    said = screen("explain", folder / "run", case["id"]).stdout

    assert told == {"run_id": run["run_id"], "date": "2026-03-01"} | case | {"flagged": True}
    assert f"number 2 of {run['cases_total']}" in said
    assert case["contributions"][0]["feature"] in said


def test_a_near_miss_is_explained_and_not_called_flagged(folder, run):
    assert "Not flagged" in screen("explain", folder / "run", run["near_misses"][0]["id"]).stdout


def test_a_case_without_kept_reasons_says_how_to_get_them(folder, run):
    later, unnamed = (
        run["cases"][6]["id"],
        pd.read_csv(folder / "run" / "flagged.csv", dtype=str)["id"].iloc[-1],
    )
    quiet = pd.read_parquet(folder / "run" / "scores.parquet").nsmallest(1, "score")["id"].iloc[0]

    answers = [screen("explain", folder / "run", name, code=2).stderr for name in (later, unnamed, quiet)]

    assert "number 7 of" in answers[0] and "first 5 only" in answers[0]
    assert "names 8 only" in answers[1]
    assert "not flagged" in answers[2]
    assert all("give --model and --cohort" in answer for answer in answers)
    assert not any(name in answer for answer, name in zip(answers, (later, unnamed, quiet), strict=True))


def test_an_id_that_is_not_there_is_said_so_without_repeating_it(folder):
    answer = screen("explain", folder / "run", "nobody", code=2).stderr

    assert "no row of this run has this id" in answer and "80 rows were scored" in answer
    assert "nobody" not in answer


def test_any_row_is_explained_from_its_model_and_table(folder, run):
    given = ("--model", folder / "model", "--cohort", folder / "tonight.csv", "--json")
    kept, later = run["cases"][0], run["cases"][6]

    again = json.loads(screen("explain", folder / "run", kept["id"], *given).stdout)
    told = json.loads(screen("explain", folder / "run", later["id"], *given).stdout)

    n = len(kept["contributions"])
    assert [one["feature"] for one in again["contributions"][:n]] == [
        one["feature"] for one in kept["contributions"]
    ]
    assert [one["change"] for one in again["contributions"][:n]] == pytest.approx(
        [one["change"] for one in kept["contributions"]]
    )
    assert told["score"] == pytest.approx(later["score"]) and told["rank"] == 7 and told["flagged"]
    assert told["contributions"]


def test_a_run_from_before_another_threshold_is_explained_at_the_threshold_it_had(folder, run, tmp_path):
    changed = shutil.copytree(folder / "model", tmp_path / "model")
    words = ["explain", folder / "run", run["cases"][-1]["id"], "--cohort", folder / "tonight.csv", "--json"]
    before = screen(*words, "--model", changed).stdout
    screen("threshold", changed, "--max-flag-rate", "0.01", "--reason", "fewer")

    assert screen(*words, "--model", changed).stdout == before


def test_another_table_or_half_of_what_is_needed_is_refused(folder, run):
    name, model = run["cases"][0]["id"], folder / "model"

    assert "belong together" in screen("explain", folder / "run", name, "--model", model, code=2).stderr
    other = screen(
        "explain", folder / "run", name, "--model", model, "--cohort", folder / "past.csv", code=2
    ).stderr
    assert "not the table of this run" in other


def test_the_page_of_one_case_names_that_case_alone(folder, run):
    first, *others = run["cases"]
    for _ in range(2):
        screen("explain", folder / "run", first["id"], "--out", folder / "case.html")
    page = (folder / "case.html").read_text()

    assert first["id"] in page and "Contributing values" in page
    assert not [case for case in others + run["near_misses"] if case["id"] in page]
    assert "script" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)


def test_a_patient_of_a_voxel_run_is_explained_by_the_row_that_scores_highest(images):
    run = json.loads((images / "run.json").read_text())
    first = run["cases"][0]

    told = json.loads(screen("explain", images, first["group"], "--json").stdout)

    assert (told["id"], told["rank"]) == (first["id"], 1)


def test_the_document_on_templates_lists_what_each_is_given(folder, run, tmp_path):
    written_by = runpy.run_path(str(ROOT / "docs" / "templates.py"))
    document = (ROOT / "docs" / "templates.md").read_text(encoding="utf-8")
    (tmp_path / "tonight.html.j2").write_text(
        "{{ run.counts.flagged }} of {{ run.counts.scored|plural('row') }}|{{ list.parts[0].lines[0].id }}"
    )
    screen("report", folder / "run", "--templates", tmp_path, "--out", tmp_path / "p.html")

    assert written_by["page"](document) == document, "run python docs/templates.py"
    assert f"{run['counts']['flagged']} of 80 rows|{run['cases'][0]['id']}" in unescape(
        (tmp_path / "p.html").read_text()
    )
