"""The settings a search tries, and the order that lets neighbours share most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from screening.documents.tables import number
from screening.recipes.building import build, candidates_for
from screening.recipes.recipe import Recipe

Parameters = dict[str, object]
# Where none is given; as the machines have it.
LANDMARKS = 8000


def candidates_of(recipe: Recipe, params: Parameters, search: int | None, seed: int) -> list[Parameters]:
    """The recipe's candidates with the caller's parameters fixed, without repetitions."""
    build(recipe, **params)
    candidates = candidates_for(
        recipe, recipe.search.candidates if search is None else search, np.random.default_rng(seed)
    )
    fixed = [candidate | params for candidate in candidates]
    return [candidate for i, candidate in enumerate(fixed) if candidate not in fixed[:i]]


def by_shared_work(candidates: Sequence[Parameters]) -> list[int]:
    """Numbers of the candidates: those of one kernel after each other, from the smallest C upwards."""

    def place(at: int) -> tuple[list[str], float, int]:
        cost = candidates[at].get("C", 0.0)
        return kernel_of(candidates[at]), cost if isinstance(cost, float | int) else 0.0, at

    return sorted(range(len(candidates)), key=place)


def kernel_of(candidate: Parameters) -> list[str]:
    """What tells the kernel of a candidate from another's; no solution is shared between two."""
    return [str(candidate.get(name)) for name in ("kernel", "gamma", "sigma")]


def rows_held(candidates: Sequence[Parameters], n_rows: int) -> int:
    """Rows of the largest Gram that fitting any of them to so many rows makes."""
    held = [
        min(n_rows, int(number(each.get("n_landmarks", LANDMARKS))))
        if each.get("approximation") == "landmarks"
        else n_rows
        for each in candidates
    ]
    return max(held, default=n_rows)
