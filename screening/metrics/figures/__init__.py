"""Figures of a population of rows: an entry each, in the modules of this folder."""

from screening.metrics.figures.base import (
    FIGURES,
    Figure,
    evaluate,
    evaluate_differences,
    figure,
    figures_in,
    lacking,
)

__all__ = [
    "FIGURES",
    "Figure",
    "evaluate",
    "evaluate_differences",
    "figure",
    "figures_in",
    "lacking",
]
