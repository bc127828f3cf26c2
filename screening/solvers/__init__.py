"""Dual problems of the kernel machines and their solvers; no recipe is named here."""

from __future__ import annotations

from screening.solvers.kernel_rows import Gram, KernelRows
from screening.solvers.problem import Problem, Solution, Solutions
from screening.solvers.warm_start import gram_within, solve_warm_started

__all__ = [
    "Gram",
    "KernelRows",
    "Problem",
    "Solution",
    "Solutions",
    "gram_within",
    "solve_warm_started",
]
