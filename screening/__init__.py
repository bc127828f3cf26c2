"""Nightly batch screening for rare conditions with conformally rescaled kernel machines.

Names are imported when they are first used, so that `screen --help` does not wait for scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "build": "screening.recipes.building",
    "load_recipe": "screening.recipes.loading",
    "read_cohort": "screening.cohort.reading",
    "train": "screening.training.train",
    "score": "screening.scoring.score",
    "load_model": "screening.storage.model",
    "save_model": "screening.storage.model",
    "OneClassSVM": "screening.machines.one_class",
    "TwoClassSVM": "screening.machines.two_class",
    "MultiClassSVM": "screening.machines.multi_class",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'screening' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
