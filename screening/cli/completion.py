"""What the shell may complete: names of recipes, model directories, series of the ledger."""

from __future__ import annotations

import os
from glob import escape, glob
from importlib.resources import files
from pathlib import Path


def recipes(incomplete: str) -> list[str]:
    """The shipped recipes that begin so."""
    names = (Path(file.name) for file in files("screening.models").iterdir())
    return sorted(name.stem for name in names if name.suffix == ".toml" and name.stem.startswith(incomplete))


def models(incomplete: str) -> list[str]:
    """The model directories that begin so, and the directories on the way to them."""
    folders = [Path(found) for found in glob(f"{escape(incomplete)}*/")]
    found = [str(folder) for folder in folders if (folder / "model.json").exists()]
    return sorted(found + [str(file.parent) for folder in folders for file in folder.glob("*/model.json")])


def series(incomplete: str) -> list[str]:
    """The series of the ledger that SCREEN_LEDGER names, `screening.db` where it names none."""
    from screening.errors import ScreenError
    from screening.ledger.database import open_ledger
    from screening.ledger.model_registry import every_series

    try:
        with open_ledger(os.environ.get("SCREEN_LEDGER", "screening.db")) as ledger, ledger.reading() as rows:
            return [name for name in every_series(rows) if name.startswith(incomplete)]
    except (ScreenError, OSError):
        return []
