"""Find the members of a package by its files, and rooms that may be taken out."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from screening.errors import UsageError

# Rooms that may be taken out: without a folder and its lines here only what it does is
# gone.
# Nothing below imports them; by these names it asks for them.
OPTIONAL = {
    "images": "screening.imaging.images",
    "neighbourhood": "screening.imaging.neighbourhood",
    "lesions": "screening.imaging.lesions",
    "voxels": "screening.imaging.voxels",
}
# What a night is exported as, beside the forms of `scoring/exports`.
EXPORTS = {
    "dicom-seg": "screening.imaging.dicom_seg",
    "nifti": "screening.imaging.nifti",
}


def optional(name: str) -> ModuleType:
    """Return the module of an optional room; raise UsageError if it is removed."""
    if name not in OPTIONAL:
        raise UsageError(f"this installation was made without {name}")
    return importlib.import_module(OPTIONAL[name])


@cache
def members(package: str) -> Mapping[str, type]:
    """Return the classes with a `name` that a package defines, sorted by it.

    Those of its module `base` are left out.
    """
    by_name = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name == "base":
            continue
        here = f"{package}.{module.name}"
        for member in vars(importlib.import_module(here)).values():
            if isinstance(member, type) and member.__module__ == here:
                name = vars(member).get("name")
                if isinstance(name, str):
                    by_name[name] = member
    return dict(sorted(by_name.items()))


def attributes(package: str, every: str) -> Callable[[str], Any]:
    """Return a package's `__getattr__`: members by class name, all under `every`."""

    def attribute(name: str) -> Any:
        by_name = {} if name.startswith("_") else members(package)
        if by_name and name == every:
            return by_name
        for member in by_name.values():
            if member.__name__ == name:
                return member
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute
