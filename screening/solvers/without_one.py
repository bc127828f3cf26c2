"""The same problem again without one row, for many rows in turn, each from the solution with all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from screening.solvers.problem import Problem, Solutions
from screening.solvers.smo import DEFAULT_MEMORY, _Engine

_MOST_STEPS = 10_000_000


@dataclass(frozen=True)
class WithoutOne:
    """Solutions of a problem of which one row is left out.

    Parameters
    ----------
    problem : Problem
        With an equality; the matrix an array. A row whose ``upper`` is 0 is out already.
    tol : float, > 0
        As in ``solve``.
    """

    problem: Problem
    tol: float

    def solve(self, alphas: np.ndarray, left_out: np.ndarray) -> Solutions:
        """Solve without each row number in ``left_out`` in turn; its alpha is then 0.

        Parameters
        ----------
        alphas : ndarray of shape (n,)
            Solution with all rows; the free ones make up for the row first, then the steps of the SMO go on.
        left_out : ndarray of int, shape (m,)
        """
        from screening.kernels.compiled import prepare
        from screening.kernels.threads import n_threads, run_in_threads

        prepare()
        from screening.solvers import without_one_loops

        run = without_one_loops.solve_without
        engine = _Engine(self.problem, self.tol, DEFAULT_MEMORY)
        engine.alpha = np.minimum(alphas, self.problem.upper) * engine.unit
        engine.v = engine._levels()
        found = np.empty((len(left_out), len(alphas)))
        told = np.empty((len(left_out), 3))
        rows = np.asarray(left_out, np.int64)
        unit = self.problem.unit(engine.alpha, engine.s, engine.v)
        engine.stop = self.tol * unit
        start, matrix = engine._gathered(engine.active.points), engine.active.rows()
        threads = n_threads()

        def task(first: int) -> None:
            mine = slice(first, None, threads)
            run(rows[mine], _MOST_STEPS, engine.stop, *start, np.zeros(2), found[mine], told[mine], *matrix)

        run_in_threads(task, range(min(threads, len(rows))))
        found = np.minimum(found / engine.unit, self.problem.upper)
        return Solutions(found, told[:, 0], told[:, 1] / unit, told[:, 2].astype(int))
