"""Remedies for imbalance: frozen values wrapped around the two-class machine; one file a remedy."""

from __future__ import annotations

from typing import Any

from screening.registry import members
from screening.remedies.base import Remedy

__all__ = ["REMEDIES", "Remedy"]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    remedies = members(__name__, __path__)
    if name == "REMEDIES":
        return remedies
    for remedy in remedies.values():
        if remedy.__name__ == name:
            return remedy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
