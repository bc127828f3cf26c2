"""Figures of a population of rows: an entry each, in the modules of this folder."""

from screening.metrics.figures.base import (
    FIGURES,
    BetweenMethods,
    Figure,
    Rates,
    Table,
    evaluate,
    evaluate_differences,
    evaluate_rates,
    evaluate_samples,
    figure,
    figure_of_rates,
    figures_in,
    gain,
    unmet_needs,
)

__all__ = [
    "FIGURES",
    "BetweenMethods",
    "Figure",
    "Rates",
    "Table",
    "evaluate",
    "evaluate_differences",
    "evaluate_rates",
    "evaluate_samples",
    "figure",
    "figure_of_rates",
    "figures_in",
    "gain",
    "unmet_needs",
]
