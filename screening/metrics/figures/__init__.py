"""Figures of a population of rows: an entry each, in the modules of this folder."""

from screening.metrics.figures.base import (
    FIGURES,
    BetweenMethods,
    Figure,
    Table,
    evaluate,
    evaluate_differences,
    evaluate_samples,
    figure,
    figures_in,
    lacking,
)

__all__ = [
    "FIGURES",
    "BetweenMethods",
    "Figure",
    "Table",
    "evaluate",
    "evaluate_differences",
    "evaluate_samples",
    "figure",
    "figures_in",
    "lacking",
]
