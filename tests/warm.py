"""Compile what the tests share, once: workers of a fresh clone would each do it for themselves.

A second run finds all of it compiled, and takes seconds.
"""

from __future__ import annotations

import numpy as np
from machines_cohort import three_clouds, two_clouds

from screening.recipes.building import build
from screening.recipes.loading import list_recipes

QUICK = {"n_remove": 2, "trials": 5, "n_estimators": 2, "n_rounds": 2}


def warm() -> None:
    """Fit every recipe that can be stored on a few rows, and score with it."""
    for recipe in list_recipes():
        if recipe.persistable and not recipe.lacks and recipe.machine != "blend":
            x, y = three_clouds(60) if recipe.machine == "multi_class" else two_clouds(60)
            quick = {name: value for name, value in QUICK.items() if name in recipe.parameters}
            fitted = build(recipe.name, **quick).fit(x, y)
            fitted.decision_function(np.asarray(x))


if __name__ == "__main__":
    warm()
