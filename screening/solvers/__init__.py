"""The dual problem and how it is solved; knows no method's name."""

from __future__ import annotations

from screening.solvers.problem import AT_BOUND, Problem, Solution
from screening.solvers.smo import KernelRows

__all__ = ["AT_BOUND", "KernelRows", "Problem", "Solution", "solve"]


def solve(problem: Problem, tol: float = 1e-3) -> Solution:
    """Solve a dual problem: the one door through which every machine goes.

    Parameters
    ----------
    problem : Problem
    tol : float, > 0
        Largest violation of the optimality conditions left, in units of ``problem.scale``, so that it does
        not depend on the scale of c.
    """
    from screening.solvers import smo

    return smo.solve(problem, tol)
