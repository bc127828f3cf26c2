"""Nightly batch screening for rare conditions with rescaled kernel machines.

Names are imported when they are first used, so that `screen --help` does not wait for
scikit-learn.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Locks, modes and signals that a night relies on are POSIX's.
if sys.platform == "win32":
    raise ImportError(
        "screening runs on Linux and macOS; on Windows, install and run it in WSL, "
        "the Windows Subsystem for Linux"
    )

if TYPE_CHECKING:
    from screening.data.reading import read_cohort
    from screening.estimators.multi_class import MultiClassSVM
    from screening.estimators.one_class import OneClassSVM
    from screening.estimators.two_class import TwoClassSVM
    from screening.features.table import Features
    from screening.io.queries import Database
    from screening.ledger.database import open_ledger
    from screening.ledger.history import history
    from screening.model_selection.compare import compare
    from screening.model_selection.external import validate
    from screening.model_selection.train import train
    from screening.recipes.building import build, load_recipe
    from screening.schemas.figures import (
        GMean,
        MaxFlagRate,
        MinSensitivity,
        MissCost,
        Threshold,
    )
    from screening.scoring.explaining import explain
    from screening.scoring.exporting import export
    from screening.scoring.score import score
    from screening.screen import Screen
    from screening.settings import (
        NightOptions,
        Resources,
        Search,
        TableOptions,
        Validation,
    )
    from screening.store.loading import load_model
    from screening.store.model import save_model

_HOMES = {
    "Database": "io.queries",
    "Features": "features.table",
    "GMean": "schemas.figures",
    "MaxFlagRate": "schemas.figures",
    "MinSensitivity": "schemas.figures",
    "MissCost": "schemas.figures",
    "MultiClassSVM": "estimators.multi_class",
    "NightOptions": "settings",
    "OneClassSVM": "estimators.one_class",
    "Resources": "settings",
    "Screen": "screen",
    "Search": "settings",
    "TableOptions": "settings",
    "Threshold": "schemas.figures",
    "TwoClassSVM": "estimators.two_class",
    "Validation": "settings",
    "build": "recipes.building",
    "compare": "model_selection.compare",
    "explain": "scoring.explaining",
    "export": "scoring.exporting",
    "history": "ledger.history",
    "load_model": "store.loading",
    "load_recipe": "recipes.building",
    "open_ledger": "ledger.database",
    "read_cohort": "data.reading",
    "save_model": "store.model",
    "score": "scoring.score",
    "train": "model_selection.train",
    "validate": "model_selection.external",
}

__all__ = [
    "Database",
    "Features",
    "GMean",
    "MaxFlagRate",
    "MinSensitivity",
    "MissCost",
    "MultiClassSVM",
    "NightOptions",
    "OneClassSVM",
    "Resources",
    "Screen",
    "Search",
    "TableOptions",
    "Threshold",
    "TwoClassSVM",
    "Validation",
    "__version__",
    "build",
    "compare",
    "explain",
    "export",
    "history",
    "load_model",
    "load_recipe",
    "open_ledger",
    "read_cohort",
    "save_model",
    "score",
    "train",
    "validate",
]

__version__: str

# In a checkout the recipes, templates and samples lie beside this package. Looking
# there keeps a clone on PYTHONPATH from taking those of another installation.
if Path(__file__).parents[1].joinpath("pyproject.toml").is_file():
    __path__.append(str(Path(__file__).parents[1]))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("screening")
    if name not in _HOMES:
        raise AttributeError(f"module 'screening' has no attribute {name!r}")
    return getattr(import_module(f"screening.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
