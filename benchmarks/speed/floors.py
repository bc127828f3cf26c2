"""How far from the limit: what a work would take if it were nothing but its kernel evaluations and its steps.

    OMP_NUM_THREADS=1 python benchmarks/speed/floors.py

Rates are measured first, on one core: kernel evaluations with their weighted sum, sgemm (the products alone,
without the exponential), and points that a pair step visits. The floor of a fit is the rows it asked for at
the first rate and the points its steps visited at the last one; of a scoring, its evaluations on all cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from training import COST, NU, TOL, made_rows

from screening.kernels import Gaussian
from screening.kernels.pairwise import weighted_sum
from screening.kernels.threads import available_cores, limit_threads
from screening.solvers import Problem, gram_within, kernel_rows, smo

REPEATS = 5


def seconds(work: Callable[[], Any]) -> float:
    """Median of five, after one to warm up."""
    work()
    spent = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return float(np.median(spent))


def evaluations(n_features: int, dtype: Any) -> float:
    """Kernel evaluations with their sum, a second on one core."""
    x, _ = made_rows(4096, n_features)
    weights = np.full(2048, 1.0)
    kernel = Gaussian(1 / n_features)
    with limit_threads(1):
        spent = seconds(lambda: weighted_sum(kernel, x, x[:2048], weights, dtype=dtype))
    return len(x) * 2048 / spent


def products(n_features: int) -> float:
    """Scalar products by sgemm, a second."""
    x = made_rows(4096, n_features)[0].astype(np.float32)
    return len(x) * 2048 / seconds(lambda: x @ x[:2048].T)


class Counted(smo._Engine):
    """A solve that tells how many kernel values it asked for and how many points its steps visited."""

    asked = visited = 0
    in_steps = 0.0

    def _climb(self, limit: int, may_leave: bool, now: list[np.ndarray]) -> tuple[int, float, bool]:
        before = int(self.active.lru[kernel_rows.FETCHED])
        start = time.perf_counter()
        steps, gap, stuck = super()._climb(limit, may_leave, now)
        self.in_steps += time.perf_counter() - start
        self.asked += (int(self.active.lru[kernel_rows.FETCHED]) - before) * len(now[0])
        self.visited += steps * len(now[0])
        return steps, gap, stuck


def problem_of(n: int, n_features: int, two_class: bool) -> Problem:
    x, y = made_rows(n, n_features)
    ones = np.ones(n)
    matrix: Any = gram_within(Gaussian(1 / n_features), x)
    if two_class:
        return Problem(matrix, np.where(y == 1, 1.0, -1.0), ones, -ones, np.full(n, COST), 0.0)
    return Problem(matrix, ones, ones, np.zeros(n), ones, NU * n)


def fit(n: int, n_features: int, two_class: bool, a_visit: float) -> str:
    """One plain fit and its floor."""
    problem = problem_of(n, n_features, two_class)
    counted = Counted(problem, TOL, 2 << 30)
    counted.run(smo._feasible(problem, None), 10**7)
    spent = seconds(lambda: smo.solve(problem, TOL, memory=2 << 30))
    floor = counted.asked / evaluations(n_features, np.float32) + counted.visited * a_visit
    kind = "two-class" if two_class else "one-class"
    share = counted.asked / n**2
    return (
        f"| {kind} fit, n = {n}, {n_features} features | {spent:.3g} s | {floor:.3g} s | "
        f"{100 * floor / spent:.0f} % | {100 * share:.0f} % of the matrix asked for, "
        f"{counted.visited / 1e6:.0f} million points visited |"
    )


def scoring(n: int, n_support: int, n_features: int) -> str:
    """The sweep of a decision on all cores and its floor."""
    x, _ = made_rows(n, n_features)
    kernel, weights = Gaussian(1 / n_features), np.ones(n_support)
    spent = seconds(lambda: weighted_sum(kernel, x, x[:n_support], weights))
    floor = n * n_support / evaluations(n_features, np.float32) / available_cores()
    return (
        f"| scoring {n} rows, {n_support} support vectors, {n_features} features | {spent:.3g} s | "
        f"{floor:.3g} s | {100 * floor / spent:.0f} % | on {available_cores()} cores |"
    )


def main() -> None:
    print("| features | float32 kernels, 10^9 a second | float64 | sgemm alone |\n|---|---|---|---|")
    for n_features in (3, 8, 49):
        single, double = evaluations(n_features, np.float32), evaluations(n_features, np.float64)
        print(
            f"| {n_features} | {single / 1e9:.2g} | {double / 1e9:.2g} | {products(n_features) / 1e9:.2g} |"
        )
    problem = problem_of(2000, 3, True)
    for _ in range(2):  # the first one loads what is compiled
        counted = Counted(problem, 1e-6, 2 << 30)
        counted.kept[smo.PATIENCE] = np.inf  # steps alone
        counted.run(smo._feasible(problem, None), 10**7)
    a_visit = counted.in_steps / counted.visited
    print(f"\nA pair step visits a point in {1e9 * a_visit:.2f} ns.\n")
    print("| work | takes | floor | of it | |\n|---|---|---|---|---|")
    for n, n_features, two_class in ((10_000, 49, False), (10_000, 3, True), (100_000, 3, False)):
        print(fit(n, n_features, two_class, a_visit), flush=True)
    for n_features in (3, 49):
        print(scoring(20_000, 5000, n_features), flush=True)


if __name__ == "__main__":
    main()
