"""What `help()` says of the public names is whole, and its examples run."""

from __future__ import annotations

import doctest
import importlib
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from flow_cohorts import patients, voxels
from numpydoc.validate import validate
from scipy.sparse import csr_array

import screening
from screening import build, read_cohort, train
from screening.errors import ModelError
from screening.recipes.loading import list_recipes

PUBLIC = [name for name in screening.__all__ if not name.startswith("_")]
# ES01: one sentence may be all there is to say. SA01: thirteen names need no map of each other.
LEFT_OUT = {"ES01", "SA01"}
SINGLE = [each.name for each in list_recipes() if each.machine != "blend"]


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


def test_the_examples_of_the_page_on_python_run():
    page = Path(__file__).parents[1] / "docs" / "python.md"

    outcome = doctest.testfile(str(page), module_relative=False)

    assert outcome.attempted >= 10
    assert outcome.failed == 0


@pytest.mark.parametrize("recipe", SINGLE)
def test_sparse_rows_are_refused_with_the_remedy(recipe):
    rows = csr_array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]])

    with pytest.raises(TypeError, match=r"dense data is required. Use '\.toarray\(\)'"):
        build(recipe).fit(rows, [0, 1, 0, 1])


UNEARNED = [("one_class", "learns from patients without"), ("logistic", "too few to calibrate")]


@pytest.mark.parametrize(("recipe", "reason"), UNEARNED)
def test_chances_that_were_not_earned_are_refused_with_the_reason(recipe, reason):
    table = patients(110)
    model = train(
        read_cohort(table, label="ill", id="patient", need_label=True), recipe, search=1, forward=False
    )

    with pytest.raises(ModelError, match=reason):
        model.predict_proba(table)


def test_chances_are_those_of_the_scored_table():
    samples = files("screening.sample_cohorts")
    past = read_cohort(samples / "nosocomial_past.csv", samples / "nosocomial.toml")
    model = train(past, "logistic", search=1, forward=False)

    chances = model.predict_proba(samples / "nosocomial_night.csv")

    table = model.score_frame(samples / "nosocomial_night.csv")
    assert chances[:, 1].tolist() == table["chance"].tolist()
    assert len(set(chances[:, 1])) > 10


def test_chances_of_several_watched_classes_are_refused():
    tissue = read_cohort(voxels(), label="tissue", group="patient", positive=["zone", "lesion"])
    model = train(tissue, "one_vs_rest", search=1, folds=4, forward=False)

    with pytest.raises(ModelError, match="several classes are watched"):
        model.predict_proba(voxels(2, seed=5))
