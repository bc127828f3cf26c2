"""What c(x) can be: one file a factor, found by being in this folder.

A factor is a frozen dataclass with a ``name`` (what recipes call it) and the members of ``base.Factor``.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from screening.factors.base import Factor, FirstPass, JointFirstPass, why_not

__all__ = ["FACTORS", "Factor", "FirstPass", "JointFirstPass", "why_not"]


def _found() -> dict[str, type]:
    found = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name == "base":
            continue
        here = f"{__name__}.{module.name}"
        for member in vars(importlib.import_module(here)).values():
            if isinstance(member, type) and member.__module__ == here and "name" in vars(member):
                found[member.name] = member  # type: ignore[attr-defined]
    return dict(sorted(found.items()))


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    factors = _found()
    if name == "FACTORS":
        return factors
    for factor in factors.values():
        if factor.__name__ == name:
            return factor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
