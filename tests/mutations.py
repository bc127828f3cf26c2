"""Nights as a ward's export may spoil them: each a change of a table, named by what is done to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from flow_cohorts import patients

Mutation = Callable[[pd.DataFrame, str, np.random.Generator], pd.DataFrame]

FEATURES = ("fever", "crp", "ward")


def _as_texts(table: pd.DataFrame, column: str, rng: np.random.Generator) -> pd.DataFrame:
    return table.assign(**{column: [f"about {value}" for value in table[column]]})


def _in_other_units(table: pd.DataFrame, column: str, rng: np.random.Generator) -> pd.DataFrame:
    name = {"fever": "fever", "crp": "crp", "ward": "fever"}[column]
    values = 1.8 * table[name] + 32 if name == "fever" else table[name] * rng.choice([0.1, 10, 1000])
    return table.assign(**{name: values})


def _shifted_by_ward(table: pd.DataFrame, column: str, rng: np.random.Generator) -> pd.DataFrame:
    ward = rng.choice(["icu", "medicine", "surgery"])
    return table.assign(crp=table["crp"] * np.where(table["ward"] == ward, 8, 1))


MUTATIONS: dict[str, Mutation] = {
    "as it is": lambda table, column, rng: table,
    "recoded": lambda table, column, rng: table.assign(ward=table["ward"].str.upper() + " 2"),
    "renamed": lambda table, column, rng: table.rename(columns={column: f"{column}_new"}),
    "reordered": lambda table, column, rng: table[rng.permutation(table.columns)].sample(
        frac=1, random_state=int(rng.integers(1000))
    ),
    "all missing": lambda table, column, rng: table.assign(**{column: np.nan}),
    "all unseen": lambda table, column, rng: table.assign(ward=[f"ward {i}" for i in range(len(table))]),
    "one row": lambda table, column, rng: table[:1],
    "no rows": lambda table, column, rng: table[:0],
    "duplicated": lambda table, column, rng: pd.concat([table, table]),
    "other units": _in_other_units,
    "other types": _as_texts,
    "shifted by ward": _shifted_by_ward,
}


def mutated(number: int) -> tuple[str, str, pd.DataFrame]:
    """The number-th mutated night: what was done, to which column, and the table."""
    rng = np.random.default_rng(number)
    name = list(MUTATIONS)[number % len(MUTATIONS)]
    column = FEATURES[number // len(MUTATIONS) % len(FEATURES)]
    night = patients(int(rng.choice([1, 4, 20, 90])), seed=number + 1).drop(columns="ill")
    return name, column, MUTATIONS[name](night, column, rng)
