"""Compile what the tests share, once: workers of a fresh clone would each do it for
themselves.

A second run finds all of it compiled, and takes seconds.
"""

from concurrent.futures import ProcessPoolExecutor

import numpy as np
from machines_cohort import problem_of, rows_and_labels, three_clouds, two_clouds

from screening import TwoClassSVM, build
from screening.kernels import Gaussian
from screening.recipes.building import list_recipes
from screening.solvers import KernelRows, smo

QUICK = {"n_remove": 2, "trials": 5, "n_estimators": 2, "n_rounds": 2}


def recipes() -> None:
    """Fit every recipe that can be stored on a few rows, and score with it."""
    for recipe in list_recipes():
        if recipe.persistable and not recipe.lacks and recipe.machine != "blend":
            x, y = (
                three_clouds(60) if recipe.machine == "multi_class" else two_clouds(60)
            )
            quick = {
                name: value
                for name, value in QUICK.items()
                if name in recipe.parameters
            }
            machine = build(recipe.name, **quick)
            machine.fit(x, y).decision_function(x)


def forms() -> None:
    """Solve over a kernel in either precision and as rows made when they are asked
    for.
    """
    TwoClassSVM(Gaussian(0.3)).fit(*two_clouds(3000))
    x, y = rows_and_labels(100)
    exact = Gaussian(0.4)(x, x)
    by_rows = KernelRows(x, Gaussian(0.4))
    for kernel in (exact, exact.astype(np.float32), by_rows):
        for kind in ("one_class", "two_class", "no_equality"):
            problem = problem_of(kind, kernel, x, y)
            smo.solve(problem, 1e-3)


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        for done in (pool.submit(recipes), pool.submit(forms)):
            done.result()
