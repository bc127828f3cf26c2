"""Remedies for imbalance: frozen values wrapped around the two-class machine; one file a remedy."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from screening.remedies.base import Remedy

__all__ = ["REMEDIES", "Remedy"]


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
    remedies = _found()
    if name == "REMEDIES":
        return remedies
    for remedy in remedies.values():
        if remedy.__name__ == name:
            return remedy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
