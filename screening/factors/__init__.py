"""What c(x) can be: one file a factor, found by being in this folder.

A factor is a frozen dataclass with a ``name`` (what recipes call it) and the members of ``base.Factor``.
"""

from __future__ import annotations

from typing import Any

from screening.factors.base import Factor, FirstPass, JointFirstPass, why_not
from screening.registry import members

__all__ = ["FACTORS", "Factor", "FirstPass", "JointFirstPass", "why_not"]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    factors = members(__name__, __path__)
    if name == "FACTORS":
        return factors
    for factor in factors.values():
        if factor.__name__ == name:
            return factor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
