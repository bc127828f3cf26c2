"""Solving beside other fits on the same rows: the same is not solved again, what is like it is a start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from screening.kernels.base import MAX_FLOAT64_ROWS, Kernel
from screening.kernels.kernel_cache import KernelCache
from screening.solvers import smo
from screening.solvers.kernel_rows import Gram, KernelRows
from screening.solvers.problem import AT_BOUND, Problem, Solution

# Up to so many rows a solution looks at enough of the matrix that making all of it pays: more where there are
# many features, as a row that is made alone reads all of them again.
_ROWS_A_SOLUTION, _ROWS_A_FEATURE = 1500, 60


def gram_within(
    kernel: Kernel, cache: KernelCache, n_solutions: int = 1, whole: bool = False
) -> Gram:
    """K over the cache's rows, or of many rows those that a solver asks for.

    A solution looks at a tenth to a fifth of the rows, so making them all pays where there are several.
    Unless the `whole` is wanted by what reads it in other ways, and fits the memory.
    """
    n, n_features = cache.rows.shape
    seldom = (
        n > (_ROWS_A_SOLUTION + _ROWS_A_FEATURE * n_features) * n_solutions
        and not whole
    )
    if n > MAX_FLOAT64_ROWS and (seldom or 4 * n**2 > cache.memory):
        cache.start(kernel)
        return KernelRows(cache.rows, kernel)
    return cache.gram(kernel)


def solve(
    problem: Problem, tol: float = 1e-3, cache: KernelCache | None = None
) -> Solution:
    """Solve a dual problem, as ``solve_each`` does."""
    return solve_each([problem], tol, cache)[0]


def solve_each(
    problems: Sequence[Problem], tol: float = 1e-3, cache: KernelCache | None = None
) -> list[Solution]:
    """Solve dual problems that differ in c alone: the one door through which every machine goes.

    With the `cache` that their kernel matrix is of, a two-class problem is solved once (the plain one for all
    factors that are built on it), and another c starts from the last solution with the same bounds: the pass
    before, or the factor before; a larger C from that of the smaller one. A solution that meets no bound is
    one under all wider bounds. The order of the fits decides, never the clock.
    """
    first = problems[0]
    memory = smo.DEFAULT_MEMORY if cache is None else cache.memory
    if not isinstance(first.gram, KernelRows):
        memory = min(memory, smo.DEFAULT_MEMORY)
    # A one-class problem starts cold: from a solution near by it takes more steps.
    if cache is None or first.total != 0.0:
        return smo.solve_each(problems, tol, memory=memory)
    solved = cache.solutions
    rows, upper = (tol, _bits(first.signs), _bits(first.linear)), first.upper
    bounds, factors = _bits(upper), [_bits(problem.c) for problem in problems]
    missing: dict[bytes, Problem] = {}

    def keep(factor: bytes, solution: Solution) -> None:
        solved[rows, bounds, factor] = solution
        solved["last", rows, bounds] = solution.alphas
        solved["path", rows, factor] = solution.alphas, upper

    def solve_missing() -> None:
        if not missing:
            return
        start, path = (
            solved.get(("last", rows, bounds)),
            ("path", rows, next(iter(missing))),
        )
        if start is None and path in solved:
            alphas, narrower = solved[path]
            start = _widened(alphas, narrower, upper)
        solutions = smo.solve_each([*missing.values()], tol, start=start, memory=memory)
        for (factor, problem), solution in zip(missing.items(), solutions, strict=True):
            if (solution.alphas < (1.0 - AT_BOUND) * upper).all():
                solved["within", rows, factor] = solution, problem.scale
            keep(factor, solution)
        missing.clear()

    for factor, problem in zip(factors, problems, strict=True):
        if (rows, bounds, factor) in solved or factor in missing:
            continue
        within, unit = solved.get(("within", rows, factor), (None, 0.0))
        if (
            within is not None
            and unit <= problem.scale
            and (within.alphas <= upper).all()
        ):
            solve_missing()  # in the order of the problems, each from the one before
            keep(factor, within)
        else:
            missing[factor] = problem
    solve_missing()
    return [solved[rows, bounds, factor] for factor in factors]


def _widened(
    alphas: np.ndarray, bounds: np.ndarray, wider: np.ndarray
) -> np.ndarray | None:
    """A start from the solution under other bounds, None where these are not so many times as wide.

    Where more alphas are at their bounds than free they stay there, and all grow alike; else all stay.
    """
    times = wider / bounds
    if times[0] < 1.0 or np.ptp(times) > 1e-12 * times[0]:
        return None
    at_bound = alphas >= (1.0 - AT_BOUND) * bounds
    return (
        np.minimum(alphas * times, wider)
        if 2 * at_bound.sum() > (alphas > 0).sum()
        else alphas
    )


def _bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array, float).tobytes()
