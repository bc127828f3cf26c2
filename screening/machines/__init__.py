"""Dual problems and their decision functions, as scikit-learn estimators.

The estimators are imported when first asked for: recipes and remedies can be read without scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from screening.machines.baselines import Logistic
    from screening.machines.boosting import Boosting
    from screening.machines.ensembles import EasyEnsemble
    from screening.machines.forests import BalancedForest, RandomForest
    from screening.machines.multi_class import MultiClassSVM
    from screening.machines.one_class import OneClassSVM
    from screening.machines.two_class import TwoClassSVM

_FOUND_IN = {
    "BalancedForest": "forests",
    "Boosting": "boosting",
    "EasyEnsemble": "ensembles",
    "Logistic": "baselines",
    "MultiClassSVM": "multi_class",
    "OneClassSVM": "one_class",
    "RandomForest": "forests",
    "TwoClassSVM": "two_class",
}

# What a recipe may say, known without reading scikit-learn. There is no stopping by test rows: a score that
# the machine was chosen by is no test.
STOPS = ("fixed", "inner")
SCHEME_NAMES = ("one_vs_rest", "one_vs_one", "crammer_singer", "simplified")

__all__ = [
    "SCHEME_NAMES",
    "STOPS",
    "BalancedForest",
    "Boosting",
    "EasyEnsemble",
    "Logistic",
    "MultiClassSVM",
    "OneClassSVM",
    "RandomForest",
    "TwoClassSVM",
]


def __getattr__(name: str) -> Any:
    if name not in _FOUND_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FOUND_IN[name]}"), name)
