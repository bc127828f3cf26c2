"""Whatever a night's table looks like: a page, or exit 3 naming the column."""

from __future__ import annotations

import json

import pytest
from commands import screen
from flow_cohorts import patients, written
from mutations import MUTATIONS, mutated
from typer.testing import CliRunner

from screening import read_cohort, train
from screening.cli import app
from screening.cohort.reading import starter_contract
from screening.storage.model import save_model

# What ends without a page: what is done, and a word of the answer besides the column's name.
REFUSED = {"renamed": "missing column", "no rows": "no data rows", "duplicated": "more than once"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """One model whose contract was inferred, and one of `screen init`, which lists the wards."""
    folder = tmp_path_factory.mktemp("models")
    past = written(patients(400), folder / "past.csv")
    starter, _ = starter_contract(past, label="ill", positive="yes", id="patient")
    for name, given in (("inferred", None), ("listed", starter)):
        cohort = read_cohort(past, given, label="ill", positive="yes", id="patient", need_label=True)
        save_model(train(cohort, "logistic", search=1, jobs=1), folder / name)
    return folder


@pytest.mark.parametrize("kind", ["inferred", "listed"])
@pytest.mark.parametrize("number", range(3 * len(MUTATIONS)))
def test_a_mutated_night_is_a_page_or_exit_3_that_names_the_column(models, tmp_path, number, kind):
    name, column, night = mutated(number)
    source = written(night, tmp_path / "night.csv")

    answer = CliRunner().invoke(
        app, ["score", str(models / kind), str(source), "--out", str(tmp_path / "run")]
    )

    drawn = (tmp_path / "run" / "report.html").exists()
    assert (answer.exit_code, drawn) in {(0, True), (3, False)}
    # An empty table has no column to blame.
    named = column in answer.stderr or "column" in answer.stderr or "no data rows" in answer.stderr
    assert drawn or named
    assert REFUSED.get(name, "") in answer.stderr


@pytest.mark.parametrize("kind", ["inferred", "listed"])
@pytest.mark.parametrize("name", ["recoded", "all unseen", "one row", "reordered", "all missing"])
def test_recoded_unseen_and_missing_values_never_stop_a_ward(models, tmp_path, name, kind):
    number = list(MUTATIONS).index(name)
    source = written(mutated(number)[2], tmp_path / "night.csv")

    screen("score", models / kind, source, "--out", tmp_path / "run", code=0)

    assert (tmp_path / "run" / "report.html").exists()


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """Models whose contracts leave rows of an unseen ward out, or stop at them."""
    folder = tmp_path_factory.mktemp("strict")
    past = written(patients(400), folder / "past.csv")
    starter, _ = starter_contract(past, label="ill", positive="yes", id="patient")
    for name in ("refuse_row", "stop"):
        given = starter.with_roles(on_unseen=name)
        cohort = read_cohort(past, given, label="ill", positive="yes", id="patient", need_label=True)
        save_model(train(cohort, "logistic", search=1, jobs=1), folder / name)
    night = patients(30, seed=5).drop(columns="ill")
    written(night.assign(ward=night["ward"].where(night.index > 1, "annex")), folder / "night.csv")
    return folder


def test_rows_of_a_category_never_seen_are_left_out_and_counted_where_the_contract_asks(strict, tmp_path):
    answer = screen("score", strict / "refuse_row", strict / "night.csv", "--out", tmp_path / "run", "--json")

    counts = json.loads(answer.stdout)["counts"]
    assert (counts["read"], counts["scored"], counts["refused"]) == (30, 28, 2)


def test_a_category_never_seen_stops_the_night_where_the_contract_asks(strict, tmp_path):
    answer = screen("score", strict / "stop", strict / "night.csv", "--out", tmp_path / "run", code=3)

    assert "ward" in answer.stderr and "annex" not in answer.stderr
    assert not (tmp_path / "run").exists()
