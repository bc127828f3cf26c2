"""The dual problem and how it is solved; knows no method's name."""

from __future__ import annotations

from screening.solvers.kernel_rows import KernelRows
from screening.solvers.problem import Problem, Solution, Solutions
from screening.solvers.warm_start import gram_within, solve, solve_each

__all__ = [
    "KernelRows",
    "Problem",
    "Solution",
    "Solutions",
    "gram_within",
    "solve",
    "solve_each",
]
