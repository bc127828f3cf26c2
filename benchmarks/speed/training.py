"""Training against scikit-learn, which has to build the rescaled kernel matrix for
every pass.

    python benchmarks/speed/training.py --rows 10000 --repeats 5

Both sides get the same c, so that the same problem is solved: what is timed is the
first pass, c at every row from that pass's decision, and the second pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.svm import OneClassSVM as ScikitOneClass
from timing import HEADER, Comparison, compare

from screening.kernels import Gaussian
from screening.kernels.kernel_cache import KernelCache
from screening.kernels.pairwise import symmetric_times
from screening.solvers import KernelRows, Problem, gram_within, smo

NU, COST, KAPPA = 0.1, 10.0, 0.5
TOL = 1e-3


def made_rows(n: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows, about one in twelve positive and overlapping."""
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.08).astype(int)
    return rng.normal(size=(n, n_features)) + 1.5 * y[:, None] / np.sqrt(
        n_features / 3
    ), y


def decay(decision: np.ndarray) -> np.ndarray:
    """c = exp(-kappa (f / max |f|)^2), by its root mean square."""
    c = np.exp(-KAPPA * np.square(decision / np.abs(decision).max()))
    return c / np.sqrt(np.mean(np.square(c)))


@dataclass(frozen=True)
class Solved:
    """The last pass: its decision at the training rows, and its dual objective."""

    decision: np.ndarray
    objective: float

    @classmethod
    def of(
        cls,
        decision: np.ndarray,
        weights: np.ndarray,
        intercept: float,
        two_class: bool,
    ) -> Solved:
        """From alphas with their signs, n of them."""
        linear = np.abs(weights).sum() if two_class else 0.0
        return cls(decision, float(0.5 * weights @ (decision - intercept) - linear))


def passes_of(
    first: np.ndarray | KernelRows, y: np.ndarray | None, passes: int, tol: float = TOL
) -> Solved:
    """The machine after ``passes`` rescalings, by our solver.

    As the machines do it, a two-class pass starts from the alphas of the one before.
    """
    n = len(first)
    c = np.ones(n)
    alphas = None
    for left in range(passes, -1, -1):
        if y is None:
            problem = Problem(first, np.ones(n), c, np.zeros(n), np.ones(n), NU * n)
        else:
            problem = Problem(
                first,
                np.where(y == 1, 1.0, -1.0),
                c,
                -np.ones(n),
                np.full(n, COST),
                0.0,
            )
        solution = smo.solve(problem, tol, start=alphas)
        alphas = None if y is None else solution.alphas
        weights = problem.signs * c * solution.alphas
        product = (
            first @ weights
            if isinstance(first, KernelRows)
            else symmetric_times(first, weights)
        )
        decision = c * product + solution.intercept
        if left:
            now = c * decay(decision)
            c = now / np.sqrt(np.mean(np.square(now)))
    signed = problem.signs * solution.alphas
    return Solved.of(decision, signed, solution.intercept, y is not None)


def scikit_passes(
    x: np.ndarray,
    y: np.ndarray | None,
    gamma: float,
    passes: int,
    shared: bool,
    tol: float = TOL,
) -> Solved:
    """The same by scikit-learn: from rows first, then on the matrix of the rescaled
    kernel.
    """
    matrix = rbf_kernel(x, gamma=gamma) if shared else None
    c = np.ones(len(x))
    for left in range(passes, -1, -1):
        plain = left == passes and not shared
        kernel = (
            {"kernel": "rbf", "gamma": gamma} if plain else {"kernel": "precomputed"}
        )
        machine: Any = (
            ScikitOneClass(nu=NU, cache_size=2000, tol=tol, **kernel)
            if y is None
            else SVC(C=COST, cache_size=2000, tol=tol, **kernel)
        )
        if plain:
            machine.fit(x, y)
            decision = machine.decision_function(x)
        else:
            whole = matrix if matrix is not None else rbf_kernel(x, gamma=gamma)
            rescaled = c[:, None] * whole * c
            machine.fit(rescaled, y)
            decision = (
                rescaled[:, machine.support_] @ machine.dual_coef_[0]
                + machine.intercept_[0]
            )
        if left:
            now = c * decay(decision)
            c = now / np.sqrt(np.mean(np.square(now)))
    signed = np.zeros(len(x))
    signed[machine.support_] = machine.dual_coef_[0]
    return Solved.of(decision, signed, float(machine.intercept_[0]), y is not None)


def apart(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Largest difference of decisions, in units of their range."""
    return f"decisions within {np.abs(ours - theirs).max() / np.ptp(theirs):.0e} of their range"


def solved_apart(ours: Solved, theirs: Solved) -> str:
    """How far the decisions are apart, and the objectives relative to each other."""
    objective = abs(ours.objective / theirs.objective - 1)
    return f"{apart(ours.decision, theirs.decision)}, objective within {objective:.0e}"


def one_class(n: int, repeats: int) -> Comparison:
    """Conformal one-class, one pass, 49 features."""
    x, _ = made_rows(n, 49)
    gamma = 1 / 49
    return compare(
        f"conformal one-class, 1 pass, n = {n}, 49 features",
        "scikit-learn with built K~",
        lambda: passes_of(KernelRows(x, Gaussian(gamma)), None, 1),
        lambda: scikit_passes(x, None, gamma, 1, shared=False),
        solved_apart,
        10,
        repeats,
    )


def two_class(
    n: int, repeats: int, passes: int = 1, tol: float = TOL, n_features: int = 3
) -> Comparison:
    """Conformal two-class."""
    x, y = made_rows(n, n_features)
    gamma = 1 / n_features
    several = passes > 1
    return compare(
        f"conformal two-class, {passes} pass{'es' * several}, n = {n}, {n_features} features, "
        f"tolerance {tol:g}",
        "scikit-learn, K shared and rescaled"
        if several
        else "scikit-learn with built K~",
        lambda: passes_of(
            gram_within(Gaussian(gamma), KernelCache(x), passes + 1), y, passes, tol
        ),
        lambda: scikit_passes(x, y, gamma, passes, shared=several, tol=tol),
        solved_apart,
        8 if several else 7 if n_features == 3 else 10,
        repeats,
    )


def large_one_class(n: int, repeats: int) -> Comparison:
    """Plain one-class, 3 features, 2 GB of cache on both sides."""
    x, _ = made_rows(n, 3)
    kernel = Gaussian(1 / 3)
    ones = np.ones(n)
    nu = NU / 10

    def ours() -> Solved:
        problem = Problem(KernelRows(x, kernel), ones, ones, np.zeros(n), ones, nu * n)  # type: ignore[arg-type]
        solution = smo.solve(problem, memory=2 << 30)
        decision = KernelRows(x, kernel) @ solution.alphas + solution.intercept
        return Solved.of(decision, solution.alphas, solution.intercept, False)

    def theirs() -> Solved:
        machine = ScikitOneClass(nu=nu, gamma=1 / 3, cache_size=2048).fit(x)
        weights = np.zeros(n)
        weights[machine.support_] = machine.dual_coef_[0]
        return Solved.of(
            machine.decision_function(x), weights, float(machine.intercept_[0]), False
        )

    return compare(
        f"one-class, n = {n}, nu = {nu:g}, 3 features, 2 GB cache",
        "scikit-learn",
        ours,
        theirs,
        solved_apart,
        6,
        repeats,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rows-wide", type=int, default=6_000, help="of 49 features")
    parser.add_argument("--rows-passes", type=int, default=3_000)
    parser.add_argument(
        "--rows-large",
        type=int,
        default=0,
        help="100000 for the table; 0 leaves it out",
    )
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    works: list[Callable[[], Comparison]] = [
        lambda: one_class(asked.rows, asked.repeats),
        lambda: two_class(asked.rows, asked.repeats),
        lambda: two_class(asked.rows, asked.repeats, tol=TOL / 10),
        lambda: two_class(asked.rows_wide, asked.repeats, n_features=49),
        lambda: two_class(asked.rows_passes, asked.repeats, passes=10),
        lambda: two_class(asked.rows_passes, asked.repeats, passes=10, tol=TOL / 10),
        lambda: two_class(asked.rows_passes, asked.repeats, passes=10, tol=TOL / 100),
    ]
    if asked.rows_large:
        works.append(lambda: large_one_class(asked.rows_large, asked.repeats))
    print(HEADER)
    for work in works:
        print(work().row(), flush=True)


if __name__ == "__main__":
    main()
