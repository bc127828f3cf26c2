"""The machines of a stored model, of the folds or of the folds of each member of a blend."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from screening.documents.tables import Table, table, tables, word
from screening.recipes.building import build
from screening.recipes.loading import read_recipe
from screening.recipes.recipe import Recipe

if TYPE_CHECKING:
    import numpy as np

    from screening.machines.blend import BlendedEnsemble
    from screening.machines.fold_ensemble import FoldEnsemble


def restored(
    recipe: Recipe, stored: Table, n_classes: int, state: Mapping[str, np.ndarray]
) -> FoldEnsemble | BlendedEnsemble:
    """The machines that `state` holds.

    Parameters
    ----------
    stored : mapping
        `recipe` of `model.json`.
    state : mapping of ndarray
        As the ensemble's ``state`` made it.

    Raises
    ------
    ModelError
        Arrays are missing or do not fit each other.
    """
    from screening.machines.blend import BlendedEnsemble
    from screening.machines.fold_ensemble import FoldEnsemble

    if "members" not in stored:
        return FoldEnsemble.from_state(
            partial(build, recipe, **table(stored, "parameters")), recipe.machine, n_classes, state
        )
    members = [
        (read_recipe(word(each, "text")), table(each, "parameters")) for each in tables(stored, "members")
    ]
    builders = [(partial(build, member, **parameters), member.machine) for member, parameters in members]
    return BlendedEnsemble.from_state(builders, n_classes, state)
