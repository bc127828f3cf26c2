"""The Python surface: a notebook gets what the command writes, and `help()` is whole, its examples run."""

import doctest
import importlib
import inspect
import re
import runpy
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from flow_cohorts import patients, voxels, written
from numpydoc.validate import validate

import screening
from screening import MinSensitivity, compare, read_cohort, save_model, score, train
from screening.errors import ModelError, UsageError
from screening.store.loading import load_model

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def model():
    cohort = read_cohort(patients(), label="ill", positive="yes", id="patient")
    return train(cohort, "logistic", rule=MinSensitivity(0.8), search=1, beside=())


def test_a_table_in_memory_is_scored_as_the_file_is(model, tmp_path):
    tonight = patients(60, seed=1).drop(columns="ill")
    save_model(model, tmp_path / "model")
    score(load_model(tmp_path / "model"), written(tonight, tmp_path / "n.csv"), tmp_path / "run")

    in_memory = model.score_frame(tonight)

    scores = pd.read_parquet(tmp_path / "run" / "scores.parquet")
    pd.testing.assert_frame_equal(in_memory, scores[list(in_memory)])
    pd.testing.assert_frame_equal(in_memory, model.score_frame(pa.Table.from_pandas(tonight)))


def test_a_frame_is_trained_on_as_the_cohort_that_is_read_of_it(model):
    roles = {"label": "ill", "positive": "yes", "id": "patient"}

    again = train(patients(), "logistic", rule=MinSensitivity(0.8), search=1, beside=(), **roles)

    assert again.digest == model.digest
    with pytest.raises(UsageError, match="give label to read_cohort"):
        train(read_cohort(patients(), **roles), label="ill")


def test_a_notebook_shows_a_model_a_run_and_a_comparison(model, tmp_path):
    night = written(patients(40, seed=2).drop(columns="ill"), tmp_path / "n.csv")
    run = score(model, night, tmp_path / "run", date="2026-03-01")
    cohort = read_cohort(patients(), label="ill", positive="yes", id="patient")
    compared = compare({"past": cohort}, ["logistic"], control="logistic", search=1)

    assert "trained on 240 rows" in model._repr_html_()
    assert "Night of 2026-03-01" in run._repr_html_()
    assert "<td>logistic</td>" in compared._repr_html_()


PUBLIC = [name for name in screening.__all__ if not name.startswith("_")]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_typed_throughout(name):
    """A notebook's checker knows what each call gives: parameters and results all have their types."""
    public = getattr(screening, name)
    methods = [each for key, each in vars(public).items() if key[0] != "_"]
    signatures = [inspect.signature(each) for each in filter(inspect.isfunction, [public, *methods])]
    types = [each.return_annotation for each in signatures] + [
        one.annotation for each in signatures for one in each.parameters.values() if one.name != "self"
    ]

    assert inspect.Signature.empty not in types


# ES01: one sentence may be all there is to say. SA01: thirteen names need no map of each other.
LEFT_OUT = {"ES01", "SA01"}


def path_of(name: str) -> str:
    public = getattr(screening, name)
    return f"{public.__module__}.{public.__qualname__}"


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_passes_numpydocs_checks(name):
    wrong = [words for code, words in validate(path_of(name))["errors"] if code not in LEFT_OUT]

    assert wrong == []


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_name_runs(name):
    module = importlib.import_module(path_of(name).rpartition(".")[0])
    public = getattr(screening, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(public, name, module, globs={})

    outcome = doctest.DocTestRunner().run(example, out=sys.stderr.write)

    assert outcome.attempted >= 2
    assert outcome.failed == 0


def test_the_notebook_on_python_runs_and_draws_the_pictures_that_it_shows():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    script = runpy.run_path(str(ROOT / "docs" / "plots.py"))

    drawn = script["pictures"]()

    pyplot.close("all")
    shown = (ROOT / "README.md").read_text(encoding="utf-8") + script["PAGE"].read_text(encoding="utf-8")
    names = {name for line in re.findall(r"from screening import (.*)", shown) for name in line.split(", ")}
    assert len(names) <= 10, "names that a first hour needs"
    assert drawn.keys() == {path.name for path in script["FOLDER"].iterdir()}
    assert max(path.stat().st_size for path in script["FOLDER"].iterdir()) < 50_000


def test_chances_that_were_not_earned_are_refused_with_the_reason(trained, cohort):
    model = trained(cohort, "one_class", search=1)

    with pytest.raises(ModelError, match="learns from patients without"):
        model.predict_proba(patients(60, seed=1))


def test_chances_of_several_watched_classes_are_refused():
    tissue = read_cohort(voxels(), label="tissue", group="patient", positive=["zone", "lesion"])
    model = train(tissue, "one_vs_rest", search=1, folds=4, forward=False, beside=())

    with pytest.raises(ModelError, match="several classes are watched"):
        model.predict_proba(voxels(2, seed=5))
