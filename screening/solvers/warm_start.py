"""Solving beside other fits on the same rows.

A problem that was solved before is not solved again, and a similar one gives the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from screening.kernels.base import MAX_FLOAT64_ROWS, Kernel
from screening.kernels.kernel_cache import KernelCache
from screening.solvers import smo
from screening.solvers.kernel_rows import Gram, KernelRows
from screening.solvers.problem import AT_BOUND, Problem, Solution

# Up to this many rows per solution, computing the whole matrix pays: a solution uses
# enough of it. The number grows with the features, since computing a row alone reads
# all of them again.
_ROWS_PER_SOLUTION = 1500
_ROWS_PER_FEATURE = 60


def gram_within(
    kernel: Kernel, cache: KernelCache, n_solutions: int = 1, whole: bool = False
) -> Gram:
    """Return K over the cache's rows, stored or computed by rows.

    A solution uses a tenth to a fifth of the rows, so computing all pays if there are
    several solutions. With many rows, K is computed by rows if the whole does not pay
    or exceeds the memory.

    Parameters
    ----------
    kernel : Kernel
    cache : KernelCache
    n_solutions : int
        Number of problems that will be solved on K.
    whole : bool
        K is also read in other ways: store it if the memory allows.
    """
    n, n_features = cache.rows.shape
    rows_per_solution = _ROWS_PER_SOLUTION + _ROWS_PER_FEATURE * n_features
    is_rarely_read = n > rows_per_solution * n_solutions and not whole
    exceeds_memory = 4 * n**2 > cache.memory
    if n > MAX_FLOAT64_ROWS and (is_rarely_read or exceeds_memory):
        cache.start(kernel)
        return KernelRows(cache.rows, kernel)
    return cache.gram(kernel)


def solve_warm_started(
    problems: Sequence[Problem], tol: float = 1e-3, cache: KernelCache | None = None
) -> list[Solution]:
    """Solve dual problems that differ in c alone; every machine calls this.

    With the `cache` of their kernel matrix a two-class problem is solved once, for all
    factors that are built on it. Another c starts from the last solution with the same
    bounds (the pass or the factor before), a larger C from that of a smaller one. A
    solution that meets no bound is valid for all wider bounds. The result depends on
    the order of the fits, never on the clock.

    Parameters
    ----------
    problems : sequence of Problem
    tol : float
        Largest violation of the optimality conditions, in units of ``Problem.unit``.
    cache : KernelCache, optional

    Returns
    -------
    list of Solution
    """
    first = problems[0]
    memory = smo.DEFAULT_MEMORY if cache is None else cache.memory
    if not isinstance(first.gram, KernelRows):
        memory = min(memory, smo.DEFAULT_MEMORY)
    # A one-class problem starts cold: a warm start costs it more steps.
    if cache is None or first.total != 0.0:
        return smo.solve_each(problems, tol, memory=memory)
    return _CachedSolver(first, tol, memory, cache.solutions).solve(problems)


@dataclass
class _CachedSolver:
    """Solves problems that differ in c alone with the help of stored solutions.

    Parameters
    ----------
    problem : Problem
        One of them.
    tol : float
    memory : int
        Bytes for kernel rows.
    solutions : dict
        Stored solutions, of this solver and of earlier ones.
    """

    problem: Problem
    tol: float
    memory: int
    solutions: dict[Any, Any]
    _pending: dict[bytes, Problem] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.upper = self.problem.upper
        self._rows_key = (
            self.tol,
            _bits(self.problem.signs),
            _bits(self.problem.linear),
        )
        self._bounds_key = _bits(self.upper)

    def solve(self, problems: Sequence[Problem]) -> list[Solution]:
        """Return a solution for each problem."""
        c_keys = [_bits(problem.c) for problem in problems]
        for c_key, problem in zip(c_keys, problems, strict=True):
            if self._key(c_key) in self.solutions or c_key in self._pending:
                continue
            solution = self._unbounded_solution(c_key, problem)
            if solution is None:
                self._pending[c_key] = problem
            else:
                # Problems before it come first: each starts from the one before.
                self._solve_pending()
                self._store(c_key, solution)
        self._solve_pending()
        return [self.solutions[self._key(c_key)] for c_key in c_keys]

    def _key(self, c_key: bytes) -> tuple[Any, ...]:
        return self._rows_key, self._bounds_key, c_key

    def _unbounded_solution(self, c_key: bytes, problem: Problem) -> Solution | None:
        """Return a stored solution for narrower bounds that meets none of them."""
        key = "within", self._rows_key, c_key
        if key not in self.solutions:
            return None
        solution, scale = self.solutions[key]
        if scale > problem.scale or not (solution.alphas <= self.upper).all():
            return None
        return solution

    def _store(self, c_key: bytes, solution: Solution) -> None:
        """Keep a solution, as the last one with its bounds and for its c."""
        self.solutions[self._key(c_key)] = solution
        self.solutions["last", self._rows_key, self._bounds_key] = solution.alphas
        self.solutions["path", self._rows_key, c_key] = solution.alphas, self.upper

    def _solve_pending(self) -> None:
        """Solve the problems that wait, each from the solution before it."""
        if not self._pending:
            return
        problems = list(self._pending.values())
        solutions = smo.solve_each(
            problems, self.tol, start=self._start(), memory=self.memory
        )
        for (c_key, problem), solution in zip(
            self._pending.items(), solutions, strict=True
        ):
            is_inside = solution.alphas < (1.0 - AT_BOUND) * self.upper
            if is_inside.all():
                key = "within", self._rows_key, c_key
                self.solutions[key] = solution, problem.scale
            self._store(c_key, solution)
        self._pending.clear()

    def _start(self) -> np.ndarray | None:
        """Return alphas to start from, or None if no stored solution is similar."""
        last = self.solutions.get(("last", self._rows_key, self._bounds_key))
        path_key = "path", self._rows_key, next(iter(self._pending))
        if last is not None or path_key not in self.solutions:
            return last
        alphas, narrower = self.solutions[path_key]
        return _widen(alphas, narrower, self.upper)


def _widen(
    alphas: np.ndarray, bounds: np.ndarray, wider: np.ndarray
) -> np.ndarray | None:
    """Return a start for wider bounds, or None unless all bounds grow by one factor.

    If more alphas are at their bounds than free, all alphas grow by that factor;
    otherwise they stay.
    """
    growth = wider / bounds
    differs = np.ptp(growth) > 1e-12 * growth[0]
    if growth[0] < 1.0 or differs:
        return None
    at_bound = alphas >= (1.0 - AT_BOUND) * bounds
    if 2 * at_bound.sum() > (alphas > 0).sum():
        return np.minimum(alphas * growth, wider)
    return alphas


def _bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array, float).tobytes()
