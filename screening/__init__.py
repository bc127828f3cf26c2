"""Nightly batch screening for rare conditions with conformally rescaled kernel machines.

Names are imported when they are first used, so that `screen --help` does not wait for scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from screening.cohort.reading import read_cohort
    from screening.comparison.compare import compare
    from screening.documents.figures import GMean, MaxFlagRate, MinSensitivity, MissCost, Threshold
    from screening.ledger.database import open_ledger
    from screening.ledger.history import history
    from screening.machines.multi_class import MultiClassSVM
    from screening.machines.one_class import OneClassSVM
    from screening.machines.two_class import TwoClassSVM
    from screening.recipes.building import build
    from screening.recipes.loading import load_recipe
    from screening.scoring.explaining import explain
    from screening.scoring.flagged import export
    from screening.scoring.score import score
    from screening.screen import Screen
    from screening.sources.database import Database
    from screening.storage.loading import load_model
    from screening.storage.model import save_model
    from screening.training.train import train
    from screening.validation.external import validate

_HOMES = {
    "Database": "sources.database",
    "GMean": "documents.figures",
    "MaxFlagRate": "documents.figures",
    "MinSensitivity": "documents.figures",
    "MissCost": "documents.figures",
    "MultiClassSVM": "machines.multi_class",
    "OneClassSVM": "machines.one_class",
    "Screen": "screen",
    "Threshold": "documents.figures",
    "TwoClassSVM": "machines.two_class",
    "build": "recipes.building",
    "compare": "comparison.compare",
    "explain": "scoring.explaining",
    "export": "scoring.flagged",
    "history": "ledger.history",
    "load_model": "storage.loading",
    "load_recipe": "recipes.loading",
    "open_ledger": "ledger.database",
    "read_cohort": "cohort.reading",
    "save_model": "storage.model",
    "score": "scoring.score",
    "train": "training.train",
    "validate": "validation.external",
}

__all__ = [
    "Database",
    "GMean",
    "MaxFlagRate",
    "MinSensitivity",
    "MissCost",
    "MultiClassSVM",
    "OneClassSVM",
    "Screen",
    "Threshold",
    "TwoClassSVM",
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

# In a checkout the recipes, templates and samples lie beside this package. Looking there keeps a clone on
# PYTHONPATH from taking those of another installation.
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
