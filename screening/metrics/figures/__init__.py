"""Figures of a population of rows, such as sensitivity: an entry each.

A function decorated by `figure`, in a module of this folder or of a plug-in, is an
entry of `FIGURES`: that is all it takes. `base` has what entries are made of.
"""

from screening.metrics.figures.base import (
    AREA,
    FIGURES,
    NUMBER,
    SHARE,
    Figure,
    Form,
    Formulas,
    Rates,
    Table,
    evaluate,
    evaluate_differences,
    evaluate_rates,
    evaluate_samples,
    figure,
    figures_in,
    gain,
    withheld,
)

__all__ = [
    "AREA",
    "FIGURES",
    "NUMBER",
    "SHARE",
    "Figure",
    "Form",
    "Formulas",
    "Rates",
    "Table",
    "evaluate",
    "evaluate_differences",
    "evaluate_rates",
    "evaluate_samples",
    "figure",
    "figures_in",
    "gain",
    "withheld",
]
