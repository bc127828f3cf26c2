"""Reading what a command or a function has written into a folder."""

import json
from pathlib import Path
from typing import Any

import pandas as pd


def names_in(folder: Path) -> set[str]:
    """Return the names of all files and folders in a folder."""
    return {path.name for path in folder.iterdir()}


def contents_of(folder: Path) -> dict[str, bytes]:
    """Return the bytes of each file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def page_in(folder: Path) -> str:
    """Return the page of a model, a run or a comparison."""
    return (folder / "report.html").read_text(encoding="utf-8")


def scores_in(folder: Path) -> pd.DataFrame:
    """Return the scored rows of a run."""
    return pd.read_parquet(folder / "scores.parquet")
