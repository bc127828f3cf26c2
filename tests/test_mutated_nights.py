"""Whatever a night's table looks like: a page, or exit 3 naming the column."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from commands import as_json, screen
from flow_cohorts import night_of_patients, patients, written
from numpy.random import default_rng
from typer.testing import CliRunner

from screening import read_cohort, train
from screening.cli import app
from screening.data.reading import starter_contract
from screening.store.model import save_model

Mutation = Callable[[pd.DataFrame, str, np.random.Generator], pd.DataFrame]

FEATURES = ("fever", "crp", "ward")


def _in_other_units(
    table: pd.DataFrame, column: str, rng: np.random.Generator
) -> pd.DataFrame:
    name = {"fever": "fever", "crp": "crp", "ward": "fever"}[column]
    values = (
        1.8 * table[name] + 32
        if name == "fever"
        else table[name] * rng.choice([0.1, 10, 1000])
    )
    return table.assign(**{name: values})


def _shifted_by_ward(
    table: pd.DataFrame, column: str, rng: np.random.Generator
) -> pd.DataFrame:
    ward = rng.choice(["icu", "medicine", "surgery"])
    factor = np.where(table["ward"] == ward, 8, 1)
    return table.assign(crp=table["crp"] * factor)


MUTATIONS: dict[str, Mutation] = {
    "as it is": lambda table, column, rng: table,
    "recoded": lambda table, column, rng: table.assign(
        ward=table["ward"].str.upper() + " 2"
    ),
    "renamed": lambda table, column, rng: table.rename(
        columns={column: f"{column}_new"}
    ),
    "reordered": lambda table, column, rng: table[
        rng.permutation(table.columns)
    ].sample(frac=1, random_state=1),
    "all missing": lambda table, column, rng: table.assign(**{column: np.nan}),
    "all unseen": lambda table, column, rng: table.assign(
        ward=[f"ward {i}" for i in range(len(table))]
    ),
    "one row": lambda table, column, rng: table[:1],
    "no rows": lambda table, column, rng: table[:0],
    "duplicated": lambda table, column, rng: pd.concat([table, table]),
    "other units": _in_other_units,
    "other types": lambda table, column, rng: table.assign(
        **{column: "about " + table[column].astype(str)}
    ),
    "shifted by ward": _shifted_by_ward,
}


def mutated(number: int) -> tuple[str, str, pd.DataFrame]:
    """The number-th mutated night: what was done, to which column, and the table."""
    rng = default_rng(number)
    name = list(MUTATIONS)[number % len(MUTATIONS)]
    column = FEATURES[number // len(MUTATIONS) % len(FEATURES)]
    n_rows = int(rng.choice([1, 4, 20, 90]))
    night = patients(n_rows, seed=number + 1).drop(columns="ill")
    return name, column, MUTATIONS[name](night, column, rng)


NEVER_STOPS = {"recoded", "all unseen", "one row", "reordered", "all missing"}
# What ends without a page: what is done, and a word of the answer besides the column's
# name.
REFUSED = {
    "renamed": "missing column",
    "no rows": "no data rows",
    "duplicated": "more than once",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model whose contract was inferred, and those of `screen init`, which lists the
    wards.
    """
    folder = tmp_path_factory.mktemp("models")
    past = written(patients(400), folder / "past.csv")
    starter, _ = starter_contract(past, label="ill", positive="yes", id="patient")
    contracts = {"inferred": None, "listed": starter}
    # Those whose contracts leave rows of an unseen ward out, or stop at them.
    contracts |= {
        name: starter.with_roles(on_unseen=name) for name in ("refuse_row", "stop")
    }
    for name, contract in contracts.items():
        cohort = read_cohort(
            past,
            contract,
            label="ill",
            positive="yes",
            id="patient",
            need_label=True,
        )
        model = train(cohort, "logistic", search=1, jobs=1, beside=())
        save_model(model, folder / name)
    night = night_of_patients(30, seed=5)
    night.loc[:1, "ward"] = "annex"
    written(night, folder / "night.csv")
    return folder


@pytest.mark.parametrize("kind", ["inferred", "listed"])
@pytest.mark.parametrize("number", range(3 * len(MUTATIONS)))
def test_a_mutated_night_is_a_page_or_exit_3_that_names_the_column(
    models, tmp_path, number, kind
):
    name, column, night = mutated(number)
    source = written(night, tmp_path / "night.csv")

    words = ["score", models / kind, source, "--out", tmp_path / "run"]
    answer = CliRunner().invoke(app, [*map(str, words)])

    drawn = (tmp_path / "run" / "report.html").exists()
    assert (answer.exit_code, drawn) in {(0, True), (3, False)}
    # An empty table has no column to blame.
    named = (
        column in answer.stderr
        or "column" in answer.stderr
        or "no data rows" in answer.stderr
    )
    assert drawn or (named and name not in NEVER_STOPS)
    assert REFUSED.get(name, "") in answer.stderr


def test_unseen_category_policy(models, tmp_path):
    """Rows of an unseen category are left out or stop the night by the contract."""
    out = ("--out", tmp_path / "run")
    stopped = screen(
        "score", models / "stop", models / "night.csv", *out, code=3
    ).stderr
    assert "ward" in stopped
    assert "annex" not in stopped
    assert not (tmp_path / "run").exists()
    counts = as_json("score", models / "refuse_row", models / "night.csv", *out)[
        "counts"
    ]
    assert counts["read"] == 30
    assert counts["scored"] == 28
    assert counts["refused"] == 2
