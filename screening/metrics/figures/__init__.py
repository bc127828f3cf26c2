"""Figures of a population of rows: an entry each, in the modules of this folder."""

from screening.metrics.figures.base import (
    FIGURES,
    Figure,
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
)

__all__ = [
    "FIGURES",
    "Figure",
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
]
