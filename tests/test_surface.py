"""The Python surface: what a notebook gets is what the command writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from flow_cohorts import patients, written

import screening
from screening import Rule, build, compare, load_recipe, read_cohort, save_model, score, train
from screening.storage.loading import load_model

ROOT = Path(__file__).parents[1]
NOTEBOOK = """\
# mypy: disallow-untyped-calls, disallow-any-generics, warn-return-any
import pandas as pd

from screening import Rule, load_model, read_cohort, train

past = pd.read_csv("past.csv")
cohort = read_cohort(past, label="ill", positive="yes", id="patient")
model = train(cohort, rule=Rule("min_sensitivity", 0.9))
tonight = model.score_frame(pd.read_csv("tonight.csv"))
again = load_model("model")
reveal_type(cohort)
reveal_type(model)
reveal_type(tonight)
reveal_type(again)
"""


@pytest.fixture(scope="module")
def model():
    cohort = read_cohort(patients(), label="ill", positive="yes", id="patient")
    return train(cohort, "logistic", rule=Rule("min_sensitivity", 0.8), search=1)


def test_a_table_in_memory_is_scored_as_the_file_is(model, tmp_path):
    tonight = patients(60, seed=1).drop(columns="ill")
    save_model(model, tmp_path / "model")
    score(load_model(tmp_path / "model"), written(tonight, tmp_path / "n.csv"), tmp_path / "run")

    in_memory = model.score_frame(tonight)

    pd.testing.assert_frame_equal(in_memory, pd.read_parquet(tmp_path / "run" / "scores.parquet"))
    pd.testing.assert_frame_equal(in_memory, model.score_frame(pa.Table.from_pandas(tonight)))


def test_a_notebook_shows_a_model_a_run_and_a_comparison(model, tmp_path):
    night = written(patients(40, seed=2).drop(columns="ill"), tmp_path / "n.csv")
    run = score(model, night, tmp_path / "run", date="2026-03-01")
    cohort = read_cohort(patients(), label="ill", positive="yes", id="patient")
    compared = compare({"past": cohort}, ["logistic"], control="logistic", search=1)

    assert "trained on 240 rows" in model._repr_html_()
    assert "Night of 2026-03-01" in run._repr_html_()
    assert "<td>logistic</td>" in compared._repr_html_()


def test_all_names_of_the_package_are_there_and_its_version_is_said():
    assert all(getattr(screening, name) for name in screening.__all__)
    assert screening.__version__.count(".") >= 1
    assert build(load_recipe("svm")).get_params() == build("svm").get_params()


def test_a_notebook_is_typed_throughout(tmp_path):
    notebook = tmp_path / "notebook.py"
    notebook.write_text(NOTEBOOK, encoding="utf-8")

    # With the settings and the cache of `make lint`, which has read the package already.
    answer = subprocess.run(
        [sys.executable, "-m", "mypy", notebook], cwd=ROOT, capture_output=True, text=True, check=False
    )

    revealed = [
        line.split("Revealed type is ")[1] for line in answer.stdout.splitlines() if "Revealed" in line
    ]
    assert [each.strip('"').rsplit(".", 1)[1] for each in revealed] == [
        "Cohort",
        "Model",
        "DataFrame",
        "Model",
    ]
    assert "Any" not in "".join(revealed)
