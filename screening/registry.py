"""Membership by file: what lies in a package's folder is part of it, and nothing else has to be touched."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any


def members(package: str, folder: Iterable[str]) -> dict[str, type]:
    """Classes with a `name` that the modules of a package define (`base` apart), by that name, sorted.

    Parameters
    ----------
    package : str
        Dotted name.
    folder : iterable of str
        Its `__path__`.
    """
    return dict(_found(package, tuple(folder)))


def attributes(package: str, every: str) -> Callable[[str], Any]:
    """A package's `__getattr__`: its members by the names of their classes, and all of them under `every`."""

    def attribute(name: str) -> Any:
        found = {} if name.startswith("_") else members(package, importlib.import_module(package).__path__)
        if found and name == every:
            return found
        for member in found.values():
            if member.__name__ == name:
                return member
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute


@cache
def _found(package: str, folder: tuple[str, ...]) -> dict[str, type]:
    found = {}
    for module in pkgutil.iter_modules(folder):
        if module.name == "base":
            continue
        here = f"{package}.{module.name}"
        for member in vars(importlib.import_module(here)).values():
            if isinstance(member, type) and member.__module__ == here and "name" in vars(member):
                found[member.name] = member  # type: ignore[attr-defined]
    return dict(sorted(found.items()))
