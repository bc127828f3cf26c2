"""What training on landmarks costs: measured against exact training where that is still quick."""

from __future__ import annotations

import numpy as np

from screening.documents.model import Approximation
from screening.documents.tables import number
from screening.recipes.building import build
from screening.recipes.recipe import Recipe
from screening.validation.fold_fits import EncodedCohort
from screening.validation.folds import Study, dealt, sub_sample
from screening.validation.held_out import HeldOut
from screening.validation.search import Parameters, criterion

# Rows of the sub-sample; half of them are trained on, and of that half a fifth are the landmarks.
SUB_SAMPLE = 10_000
_FEWER = 5


def with_landmarks(recipe: Recipe, params: Parameters, too_many: bool) -> Parameters:
    """The caller's parameters, landmarks among them where rows are too many for all."""
    every = recipe.every.values() if recipe.machine == "blend" else [recipe]
    if too_many and any("approximation" in each.names for each in every):
        return {"approximation": "landmarks"} | params
    return params


def cost_of_landmarks(study: Study, held_out: HeldOut, rare_share: float, seed: int) -> Approximation:
    """AUROC on held-out rows of a sub-sample, trained exactly and on a fifth of the rows as landmarks.

    `held_out` has the chosen setting, the approximation in it; of a blend the first member that has one
    counts. Groups are never on both sides.
    """
    parts = held_out.parts or (held_out,)
    one = next(part for part in parts if "approximation" in part.recipe.names)
    recipe, settings = one.recipe, dict(one.search.chosen)
    sample, task, target = study.sample, study.task, study.target
    rows = sub_sample(target, study.groups, min(SUB_SAMPLE, sample.n_rows), rare_share, seed)
    some, inside = sample.take(rows), None if study.groups is None else study.groups[rows]
    encoded = EncodedCohort.of(some, recipe, task, inside)
    test = dealt(some, target[rows], inside, 2, seed) == 0
    learned = encoded.learnable(np.flatnonzero(~test))
    few = max(len(learned) // _FEWER, 2)
    tried = [settings | {"approximation": name, "n_landmarks": few} for name in ("none", "landmarks")]
    _, decided = encoded.tried(np.flatnonzero(~test), tried, encoded.x[test])
    auroc = {
        str(each["approximation"]): criterion("auroc", decisions, encoded.target[test])
        for decisions, each in zip(decided, tried, strict=True)
    }
    exact, landmarks = auroc["none"], auroc["landmarks"]
    # Where the recipe names none, the machine's own number holds.
    wanted = int(number(settings.get("n_landmarks", build(recipe, **settings).n_landmarks)))
    two_classes = recipe.machine != "one_class" and len(task.classes) == 2
    weighed = ", the rarer class weighed up to a fifth" if two_classes else ""
    return Approximation(
        method="landmarks",
        n_landmarks=wanted,
        n_rows=sample.n_rows,
        n_train=int((~test).sum()),
        n_test=int(test.sum()),
        auroc_exact=float(exact),
        auroc_landmarks=float(landmarks),
        note=(
            f"approximate: trained on {wanted} landmarks that stand for {sample.n_rows} rows{weighed}; "
            f"on {int(test.sum())} held-out rows of a sub-sample AUROC was {landmarks:.3f} with {few} "
            f"landmarks and {exact:.3f} with exact training on {int((~test).sum())} rows"
        ),
    )
