"""Compile what the tests share, once: workers of a fresh clone would each do it for
themselves.

A second run finds all of it compiled, and takes seconds.
"""

from concurrent.futures import ProcessPoolExecutor

import numpy as np
from machines_cohort import problem_of, rows_and_labels, three_clouds, two_clouds

from screening import TwoClassSVM, build
from screening.kernels import Gaussian
from screening.kernels.pairwise import gram_from_distances
from screening.recipes.building import list_recipes
from screening.solvers import KernelRows, smo

QUICK = {"n_remove": 2, "trials": 5, "n_estimators": 2, "n_rounds": 2}


def recipes() -> None:
    """Fit every recipe that can be stored on a few rows, and score with it."""
    for recipe in list_recipes():
        if (
            recipe.persistable
            and not recipe.missing_requirement
            and recipe.machine != "blend"
        ):
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


def forests() -> None:
    """Walk trees of as many leaves as words of each size have bits, and larger ones."""
    x, y = two_clouds(2000)
    for least in (300, 120, 60, 30, 1):
        forest = build("random_forest", n_estimators=2, min_samples_leaf=least)
        forest.fit(x, y).decision_function(x)


def grams() -> None:
    """Make kernels from distances that fits share, and leave rows out of a machine."""
    distances = np.abs(np.subtract.outer(np.arange(20.0), np.arange(20.0)))
    for precision in (np.float64, np.float32):
        gram_from_distances(Gaussian(0.3), distances.astype(precision))
    build("sv_pruning", n_remove=4).fit(*two_clouds(80))


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        started = [pool.submit(task) for task in (recipes, forms, forests, grams)]
        for done in started:
            done.result()
