"""Figures of a population of rows: an entry each, in the modules of this folder."""

from importlib import import_module
from pkgutil import iter_modules

from screening.metrics.figures.base import (
    FIGURES,
    Figure,
    add,
    evaluate,
    figure,
    figures_in,
    lacking,
)

__all__ = [
    "FIGURES",
    "Figure",
    "add",
    "evaluate",
    "figure",
    "figures_in",
    "lacking",
]

# Being in this folder is enough.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
