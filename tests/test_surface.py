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
    return train(patients(), "logistic", rule=MinSensitivity(0.8), search=1, beside=(), **ROLES)


def test_a_table_in_memory_is_scored_as_the_file_is(model, tmp_path):
    """And trained on as the cohort that is read of it."""
    tonight, cohort = patients(60, seed=1).drop(columns="ill"), read_cohort(patients(), **ROLES)
    save_model(model, tmp_path / "model")
    score(load_model(tmp_path / "model"), written(tonight, tmp_path / "n.csv"), tmp_path / "run")

    in_memory = model.score_frame(tonight)
    again = train(cohort, "logistic", rule=MinSensitivity(0.8), search=1, beside=())

    scores = pd.read_parquet(tmp_path / "run" / "scores.parquet")
    pd.testing.assert_frame_equal(in_memory, scores[list(in_memory)])
    pd.testing.assert_frame_equal(in_memory, model.score_frame(pa.Table.from_pandas(tonight)))
    assert again.digest == model.digest
    with pytest.raises(UsageError, match="give label to read_cohort"):
        train(cohort, label="ill")


def test_a_notebook_shows_a_model_a_run_and_a_comparison(model, tmp_path):
    night = patients(40, seed=2).drop(columns="ill")
    run = score(model, night, tmp_path / "run", date="2026-03-01")
    cohort = read_cohort(patients(), **ROLES)
    compared = compare({"past": cohort}, ["logistic"], control="logistic", search=1)

    assert "trained on 240 rows" in model._repr_html_()
    assert "Night of 2026-03-01" in run._repr_html_()
    assert "<td>logistic</td>" in compared._repr_html_()


PUBLIC = [name for name in screening.__all__ if not name.startswith("_")]


# ES01: one sentence may be all there is to say. SA01: thirteen names need no map of each other.
LEFT_OUT = {"ES01", "SA01"}
ROLES = {"label": "ill", "positive": "yes", "id": "patient"}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_typed_and_documented_and_its_example_runs(name):
    """A notebook's checker knows what each call gives; numpydoc finds nothing missing."""
    public = getattr(screening, name)
    methods = [each for key, each in vars(public).items() if key[0] != "_"]
    signatures = [inspect.signature(each) for each in filter(inspect.isfunction, [public, *methods])]
    types = [each.return_annotation for each in signatures] + [
        one.annotation for each in signatures for one in each.parameters.values() if one.name != "self"
    ]
    errors = validate(f"{public.__module__}.{public.__qualname__}")["errors"]
    module = importlib.import_module(public.__module__)
    (example,) = doctest.DocTestFinder(recurse=False).find(public, name, module, globs={})
    outcome = doctest.DocTestRunner().run(example, out=sys.stderr.write)

    assert inspect.Signature.empty not in types
    assert [words for code, words in errors if code not in LEFT_OUT] == []
    assert outcome.attempted >= 2 and outcome.failed == 0


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
    tissue = read_cohort(voxels(), label="tissue", group="patient", positive=["zone", "lesion"])
    several = train(tissue, "one_vs_rest", search=1, folds=4, forward=False, beside=())

    with pytest.raises(ModelError, match="learns from patients without"):
        trained(cohort, "one_class", search=1).predict_proba(patients(60, seed=1))
    with pytest.raises(ModelError, match="several classes are watched"):
        several.predict_proba(voxels(2, seed=5))
