"""What the commands say of themselves, and what they answer where something is mistyped."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import screen
from flow_cohorts import patients, written

from screening.cli import EXAMPLES, demo, options

DOCS = Path(__file__).parents[1] / "docs"
HEAVY = ("pandas", "pyarrow", "sklearn", "scipy", "numba", "dask", "distributed")


def test_the_documents_show_the_help_that_is_printed():
    written = runpy.run_path(str(DOCS / "commands.py"))

    assert written["commands"]() == (DOCS / "commands.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", EXAMPLES, ids=lambda command: command.__name__)
def test_help_shows_one_example_that_the_command_understands(command):
    shown = screen(command.__name__, "--help").stdout
    example = EXAMPLES[command].split()

    assert f"Example: {EXAMPLES[command]}" in " ".join(shown.split())
    assert example[:2] == ["screen", command.__name__]
    assert {word for word in example if word.startswith("--")} <= set(shown.split())


def test_help_is_quick_for_it_waits_for_no_numerical_package():
    code = "import sys\nfrom screening.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    command = [sys.executable, "-c", code, "--help"]

    answer = subprocess.run(command, capture_output=True, text=True, check=True)

    assert set(answer.stdout.split()) & set(HEAVY) == set()


def test_the_demo_writes_every_report_and_says_where(tmp_path, monkeypatch):
    job = demo.__globals__["JOBS"][0]._replace(recipe="logistic", max_rows=150)
    monkeypatch.setitem(demo.__globals__, "JOBS", (job,))
    places = json.loads(screen("demo", "--out", tmp_path / "demo", "--json").stdout)["reports"]

    assert len(places) == 2
    pages = [Path(place).read_text(encoding="utf-8").lower() for place in places]
    assert [page[:15] for page in pages] == ["<!doctype html>"] * 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("C=10", 10), ("C=1e-3", 0.001), ("class_weight=balanced", "balanced"), ("normalise=true", True),
        ("g=a=b", "a=b"),
    ],
)  # fmt: skip
def test_a_parameter_is_a_number_or_a_truth_where_it_looks_like_one(text, value):
    (read,) = options.parameters_from([text]).values()
    assert read == value
    assert type(read) is type(value)


QUICK = ["--recipe", "logistic", "--search", "1", "--repeats", "1", "--beside", "none"]


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    return written(patients(), tmp_path_factory.mktemp("words") / "past.csv")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tarin", "past.csv"], "'tarin'. Did you mean 'train'?"),
        (["train", "past.csv", "--recpie", "svm"], "no option --recpie; did you mean '--recipe'?"),
        (["train"], "missing argument 'COHORT'"),
        (["train", "past.csv", "--out", "m", "--folds", "x"], "'--folds'"),
        (["recipes", "svm_weigthed"], "did you mean 'svm_weighted'?"),
    ],
)
def test_a_mistyped_command_gets_one_line_and_json_where_asked_for(words, told):
    plain, asked = screen(*words, code=2), screen(*words, "--json", code=2)

    (line,) = plain.stderr.splitlines()
    assert line.startswith("screen: ")
    assert told in line
    assert plain.stdout == ""
    answer = json.loads(asked.stdout)["error"]
    assert (answer["kind"], answer["exit_code"]) == ("usage", 2)
    assert told in answer["message"]


def test_the_command_alone_shows_its_help():
    assert "Commands:" in screen(code=2).stderr


@pytest.mark.parametrize(
    ("option", "name", "told"),
    [("--label", "ll", "'ill'"), ("--id", "Patient", "'patient'"), ("--drop", "warrd", "'ward'")],
)
def test_a_column_that_is_not_there_asks_for_the_one_most_like_it(past, tmp_path, option, name, told):
    answer = screen("train", past, option, name, *QUICK, "--out", tmp_path / "m", code=3)

    assert f"missing column '{name}'; " in answer.stderr and f"; did you mean {told}?" in answer.stderr


# --- another model in the place


def trained(past, out, *more, code=0):
    return screen("train", past, "--label", "ill", "--id", "patient", *QUICK, *more, "--out", out, code=code)


def test_a_model_of_another_recipe_cohort_or_label_is_replaced_by_force_alone(past, tmp_path):
    out = tmp_path / "model"
    trained(past, out)
    before = (out / "model.json").read_bytes()
    table = patients(seed=1)
    table["cold"] = np.where(table["fever"] < 37, "yes", "no")
    other = written(table, tmp_path / "other.csv")

    recipe = trained(past, out, "--recipe", "svm", code=2)
    cohort = trained(other, out, "--label", "cold", code=2)

    assert "holds a model of another recipe; give another --out, or --force" in recipe.stderr
    assert "another cohort and label" in cohort.stderr
    assert (out / "model.json").read_bytes() == before
    trained(other, out, "--force")
    assert (out / "model.json").read_bytes() != before


def test_the_same_training_may_replace_its_own_model_byte_for_byte(past, tmp_path):
    trained(past, tmp_path / "model")
    before = (tmp_path / "model" / "model.json").read_bytes()
    trained(past, tmp_path / "model")

    assert (tmp_path / "model" / "model.json").read_bytes() == before


def test_a_damaged_model_is_not_swept_away_unasked(past, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text("{")

    assert "cannot be read; give another --out" in trained(past, tmp_path / "model", code=2).stderr


def test_every_summary_fits_a_terminal_of_80_columns():
    listed = screen("--help").stdout.partition("Commands:")[2]

    assert len(re.findall(r"^  [a-z]+  ", listed, re.MULTILINE)) == len(EXAMPLES)
    assert "..." not in listed
