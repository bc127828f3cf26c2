"""Tables that installed packages ship, as rows with a known outcome.

`public_tables.toml` says what the outcome of each table is. Nothing is downloaded.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from strangers import lifelines_tables

LISTED = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class PublicTable:
    """Rows of a public table, split by patient.

    Attributes
    ----------
    rows : DataFrame
        Features.
    case : bool ndarray of shape (n_rows,)
        Rows with the condition.
    group : ndarray of shape (n_rows,), optional
        Patient of each row; None if every row is a patient.
    """

    rows: pd.DataFrame
    case: np.ndarray
    group: np.ndarray | None = None

    def take(self, chosen: np.ndarray) -> PublicTable:
        """Return the chosen rows, a bool ndarray of shape (n_rows,)."""
        group = None if self.group is None else self.group[chosen]
        rows = self.rows[chosen].reset_index(drop=True)
        return PublicTable(rows, self.case[chosen], group)


def _scikit_learn(name: str) -> pd.DataFrame:
    return getattr(datasets, f"load_{name}")(as_frame=True).frame


def _statsmodels(name: str) -> pd.DataFrame:
    return import_module(f"statsmodels.datasets.{name}").load_pandas().data


def _lifelines(name: str) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(lifelines_tables()[name]))


def _scikit_survival(name: str) -> pd.DataFrame:
    features, outcome = getattr(import_module("sksurv.datasets"), f"load_{name}")()
    return features.assign(**{field: outcome[field] for field in outcome.dtype.names})


def _run_r(expression: str) -> str:
    command = ["Rscript", "--vanilla", "-e", expression]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return run.stdout


def _r_survival(name: str) -> pd.DataFrame:
    text = _run_r(f"write.csv(survival::{name}, stdout(), row.names = FALSE)")
    return pd.read_csv(io.StringIO(text))


READERS: dict[str, Callable[[str], pd.DataFrame]] = {
    "scikit-learn": _scikit_learn,
    "statsmodels": _statsmodels,
    "lifelines": _lifelines,
    "scikit-survival": _scikit_survival,
    "survival": _r_survival,
}


def _r_version() -> str | None:
    if shutil.which("Rscript") is None:
        return None
    try:
        return _run_r('cat(as.character(packageVersion("survival")))')
    except subprocess.CalledProcessError:
        return None


def installed_version(package: str) -> str | None:
    """Return the version of a Python package, None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def package_versions() -> dict[str, str | None]:
    """Return the version of each package that has tables, None if it is missing."""
    python_packages = [package for package in READERS if package != "survival"]
    found = {package: installed_version(package) for package in python_packages}
    return found | {"survival": _r_version()}


def listed_tables() -> dict[str, dict[str, Any]]:
    """Return the entries of `public_tables.toml` by the name of the table."""
    return tomllib.loads(LISTED.read_text(encoding="utf-8"))


def prepare(frame: pd.DataFrame, entry: Mapping[str, Any]) -> PublicTable:
    """Return the rows of a frame whose outcome is known.

    Parameters
    ----------
    frame : DataFrame
        The table as its package has it.
    entry : mapping
        `case`, and optionally `unknown`, `rows`, `group` and `drop`, as in
        `public_tables.toml`.
    """
    if "rows" in entry:
        frame = frame[_evaluated(frame, entry["rows"])]
    if "unknown" in entry:
        frame = frame[~_evaluated(frame, entry["unknown"])]
    case = _evaluated(frame, entry["case"])
    left_out = list(entry.get("drop", ()))
    group = None
    if "group" in entry:
        group = frame[entry["group"]].to_numpy()
        left_out.append(entry["group"])
    return PublicTable(_plain(frame.drop(columns=left_out)), case, group)


def load(entry: Mapping[str, Any]) -> PublicTable:
    """Read a listed table from its package."""
    return prepare(READERS[entry["package"]](entry["name"]), entry)


def _evaluated(frame: pd.DataFrame, expression: str) -> np.ndarray:
    return frame.eval(expression, engine="python").to_numpy(dtype=bool)


def _plain(features: pd.DataFrame) -> pd.DataFrame:
    """Return the features as floats, and as texts where they are not numbers."""
    plain = {}
    for name, column in features.items():
        if pd.api.types.is_numeric_dtype(column):
            plain[str(name)] = column.astype(float)
        else:
            plain[str(name)] = column.astype(object).where(column.notna(), None)
    return pd.DataFrame(plain).reset_index(drop=True)
