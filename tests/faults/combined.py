"""Tables, nights and commands that the test of all pairs combines."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import Generator, default_rng

from screening.io.opening import READERS
from screening.recipes.building import list_recipes

N_ROWS = 160
N_NIGHT = 30
NIGHT = "2026-03-01"
TRAINING = ("--jobs", "1", "--search", "1", "--folds", "2", "--repeats", "1")
POINTS = """
name = "ours"
title = "Ours"
paper = "none"
machine = "points"
about = "One column."

[points]
missing = 0

[[points.items]]
column = "score"
from = [20, 30]
points = [0, 1, 2]
"""

# Options that some forms of export need.
OPTIONS = {
    "fhir": ("--id-system", "urn:x"),
    "omop": ("--definition", "1"),
}
RULES = {
    "default": (),
    "sensitivity": ("--min-sensitivity", "0.8", "--confidence", "0.9"),
    "flag_rate": ("--max-flag-rate", "0.1"),
    "miss_cost": ("--miss-cost", "10"),
    "g_mean": ("--g-mean",),
    "threshold": ("--threshold", "0"),
}
BESIDE = {
    "default": (),
    "none": ("--beside", "none"),
    "two": ("--beside", "logistic,random_forest"),
}


def recipes() -> list[str]:
    """Every shipped recipe, and a table of points of one's own."""
    return [*(recipe.name for recipe in list_recipes()), "points"]


def other_rng(seed: int) -> Generator:
    """Return a generator whose draws are not those that `mixed` makes its labels of."""
    return default_rng([seed, 1])


@cache
def points_by_recipe():
    """Return the table of points of each shipped recipe, None for those without."""
    return {recipe.name: recipe.points for recipe in list_recipes()}


def with_items(table: pd.DataFrame, recipe: str) -> pd.DataFrame:
    """Add the columns that a shipped table of points needs, and the table lacks."""
    points = points_by_recipe().get(recipe)
    rng = other_rng(len(table))
    added = {}
    for item in [] if points is None else points.items:
        if item.column in table:
            continue
        if item.values:
            added[item.column] = rng.choice([*item.values], len(table))
        else:
            low, high = item.cuts[0] - 1, item.cuts[-1] + 1
            added[item.column] = rng.uniform(low, high, len(table)).round(1)
    return table.assign(**added)


def mixed(seed: int, n_rows: int = N_ROWS) -> pd.DataFrame:
    """A table of two numbers, a category and a yes/no, with a score and a label."""
    rng = default_rng(seed)
    ill = rng.random(n_rows) < 0.3
    age = rng.normal(50 + 12 * ill, 10).round(1)
    tube = rng.random(n_rows) < 0.2 + 0.4 * ill
    return pd.DataFrame(
        {
            "id": [f"P{seed}{number:05d}" for number in range(n_rows)],
            "age": age,
            "crp": np.exp(rng.normal(2.5 + ill, 1)).round(1),
            "ward": rng.choice(["north", "south", "east"], n_rows),
            "tube": np.where(tube, "yes", "no"),
            "score": np.clip(age / 2 + rng.normal(0, 5, n_rows), 0.5, 60).round(1),
            "label": np.where(ill, "1", "0"),
        }
    )


def score_only(seed: int) -> pd.DataFrame:
    """Id, score and outcome."""
    return mixed(seed)[["id", "score", "label"]]


def one_number(seed: int) -> pd.DataFrame:
    """One column to learn from."""
    return mixed(seed)[["id", "age", "score", "label"]]


def categories(seed: int) -> pd.DataFrame:
    """Nothing but texts."""
    table = mixed(seed)[["id", "ward", "score", "label"]]
    table["code"] = other_rng(seed).choice(list("ABCDEFG"), len(table))
    return table


def booleans(seed: int) -> pd.DataFrame:
    """Nothing but 0 and 1."""
    table = mixed(seed)[["id", "score", "label"]]
    rng = other_rng(seed)
    for number in range(5):
        share = 0.3 + 0.3 * (table.label == "1")
        table[f"b{number}"] = np.where(rng.random(len(table)) < share, "1", "0")
    return table


def grouped(seed: int) -> pd.DataFrame:
    """Three rows a patient."""
    table = mixed(seed)
    table["patient"] = [f"Q{number // 3:04d}" for number in range(len(table))]
    return table


def timed(seed: int) -> pd.DataFrame:
    """A day for each row."""
    table = mixed(seed)
    days = pd.date_range("2024-01-01", periods=len(table), freq="D")
    table["seen_on"] = days.strftime("%Y-%m-%d")
    return table


def three_classes(seed: int) -> pd.DataFrame:
    """Two classes to find, and the rest."""
    table = mixed(seed)
    is_sepsis = other_rng(seed).random(len(table)) < 0.5
    kind = np.where(is_sepsis, "sepsis", "wound")
    table["label"] = np.where(table.label == "1", kind, "none")
    return table


def nine_cases(seed: int) -> pd.DataFrame:
    """Nine cases."""
    table = mixed(seed)
    table["label"] = np.where(np.arange(len(table)) < 9, "1", "0")
    return table


def forty_rows(seed: int) -> pd.DataFrame:
    """Forty rows."""
    return mixed(seed, 40)


def skewed(seed: int) -> pd.DataFrame:
    """Numbers over many orders of magnitude."""
    table = mixed(seed)
    logarithm = other_rng(seed).normal(table.label == "1", 3)
    return table.assign(lab=np.exp(logarithm).round(4))


def wide(seed: int) -> pd.DataFrame:
    """Half as many columns as rows."""
    n_columns = N_ROWS // 2
    noise = other_rng(seed).normal(size=(N_ROWS, n_columns)).round(2)
    names = [f"x{number}" for number in range(n_columns)]
    return mixed(seed).join(pd.DataFrame(noise, columns=names))


def hostile_names(seed: int) -> pd.DataFrame:
    """Names of columns with every kind of mark."""
    names = {"age": "Alter (Jahre) ä", "crp": "CRP [mg/L]", "tube": "tube = ?"}
    return mixed(seed).rename(columns=names)


def blanks(seed: int) -> pd.DataFrame:
    """Empty cells in every column of values."""
    table = mixed(seed)
    columns = ["age", "crp", "ward", "tube"]
    is_blank = other_rng(seed).random((len(table), len(columns))) < 0.15
    table[columns] = table[columns].mask(is_blank)
    return table


TABLES: dict[str, Callable[[int], pd.DataFrame]] = {
    make.__name__: make
    for make in (
        mixed,
        score_only,
        one_number,
        categories,
        booleans,
        grouped,
        timed,
        three_classes,
        nine_cases,
        forty_rows,
        skewed,
        wide,
        hostile_names,
        blanks,
    )
}
ROLES = ("id", "patient", "seen_on", "label")


def numbers_of(table: pd.DataFrame) -> list[str]:
    """Columns of numbers that are features or the score."""
    names = [name for name in table.columns if name not in ROLES]
    return [name for name in names if pd.api.types.is_numeric_dtype(table[name])]


def _texts_of(table: pd.DataFrame) -> list[str]:
    numbers = numbers_of(table)
    return [name for name in table.columns if name not in (*ROLES, *numbers)]


def out_of_bounds(table: pd.DataFrame) -> pd.DataFrame:
    """Two rows of 9999 in every number."""
    table.loc[table.index[:2], numbers_of(table)] = 9999.0
    return table


def unseen(table: pd.DataFrame) -> pd.DataFrame:
    """A text that training never saw."""
    table.loc[table.index[:3], _texts_of(table)[:1]] = "elsewhere"
    return table


def missing_column(table: pd.DataFrame) -> pd.DataFrame:
    """A column less."""
    return table.drop(columns=[*_texts_of(table), *numbers_of(table)][0])


def blank_column(table: pd.DataFrame) -> pd.DataFrame:
    """An empty column."""
    table[numbers_of(table)[0]] = None
    return table


def constant(table: pd.DataFrame) -> pd.DataFrame:
    """The same values in every row."""
    for name in numbers_of(table):
        table[name] = table[name].iloc[0]
    return table


def no_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Texts in place of all numbers."""
    for name in numbers_of(table):
        table[name] = "n/k?"
    return table


def boolean_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Yes and no in place of all numbers."""
    for name in numbers_of(table):
        table[name] = "yes"
    return table


NIGHTS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "same": lambda table: table,
    "out_of_bounds": out_of_bounds,
    "unseen": unseen,
    "missing_column": missing_column,
    "blank_column": blank_column,
    "one_row": lambda table: table.iloc[:1],
    "no_rows": lambda table: table.iloc[:0],
    "extra_column": lambda table: table.assign(new=1),
    "labelled": lambda table: table.assign(label="0"),
    "no_numbers": no_numbers,
    "boolean_columns": boolean_columns,
    "constant": constant,
}


def roles_of(table: pd.DataFrame, recipe: str) -> list[str]:
    """Options that name the roles of a table's columns."""
    roles = ["--id", "id", "--label", "label"]
    positive = ["sepsis", "wound"] if "sepsis" in set(table.label) else ["1"]
    for value in positive:
        roles += ["--positive", value]
    if "patient" in table:
        roles += ["--group", "patient"]
    if "seen_on" in table:
        roles += ["--time", "seen_on"]
    if recipe == "given":
        roles += ["--score", "score"]
    return roles


def written(table: pd.DataFrame, folder: Path, stem: str, suffix: str) -> Path:
    """Write a table in a format that the tool reads; return its place."""
    path = folder / f"{stem}{suffix}"
    writers = {
        ".csv": lambda: table.to_csv(path, index=False),
        ".parquet": lambda: table.to_parquet(path, index=False),
        ".feather": lambda: table.reset_index(drop=True).to_feather(path),
        ".xlsx": lambda: table.to_excel(path, index=False),
    }
    writers[suffix]()
    return path


# A suffix of each reader.
SUFFIXES = {"ExcelFile": ".xlsx", "ParquetFile": ".parquet"}
SUFFIXES |= {"ArrowFile": ".feather", "CsvFile": ".csv"}
FORMATS = [SUFFIXES[reader.__name__] for reader in READERS.values()]
