"""Holding rows out by any recipe; of a blend by its members on the same folds, each with its own search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from screening.cohort.cohort import Cohort, labels_of
from screening.errors import RecipeError, UsageError
from screening.machines.blend import BlendedEnsemble, standards
from screening.recipes.blend import members_for, tells_apart
from screening.recipes.building import build
from screening.recipes.recipe import ALWAYS, Recipe
from screening.validation.candidates import candidates_of
from screening.validation.choice import Search
from screening.validation.encoded import EncodedCohort
from screening.validation.folds import Plan
from screening.validation.held_out import EFFORT, Effort, HeldOut, Progress, hold_out
from screening.validation.task import Task


def held_out_by(
    sample: Cohort,
    recipe: Recipe,
    task: Task,
    plan: Plan,
    *,
    params: Mapping[str, object],
    search: int | None,
    seed: int = 0,
    effort: Effort = EFFORT,
) -> HeldOut:
    """Hold every row out by a recipe, its settings drawn from its search; see `hold_out`.

    `params` are fixed by the caller; of a blend only what every kernel machine takes (landmarks). `search`
    settings compete, of every member of a blend; the recipe's own number if None. RecipeError or UsageError
    where the recipe, or every member of a blend, cannot be fitted on this cohort.
    """
    if recipe.machine != "blend":
        candidates = candidates_of(recipe, dict(params), search, seed)
        return hold_out(sample, recipe, task, plan, candidates, effort)
    for name in params:
        if name not in ALWAYS:
            build(recipe, **{name: params[name]})
    n_positive = int((task.target(labels_of(sample)) == 1).sum())
    parts: list[HeldOut] = []
    notes = []
    members = members_for(recipe, tells_apart(recipe, sample), n_positive)
    encode_all = any(each.machine != "one_class" for each in members)
    encoded = effort.encoded(sample, recipe if encode_all else members[0], task, plan)
    for j, member in enumerate(members):
        own = {name: value for name, value in params.items() if name in member.names}
        candidates = candidates_of(member, own, search, seed)
        step = None if effort.progress is None else _part(effort.progress, j, len(members))
        # However the rows were encoded, for this member they stay so.
        own_effort = replace(effort, progress=step, like=replace(encoded, recipe=member))
        try:
            parts.append(hold_out(sample, member, task, plan, candidates, own_effort))
        except (RecipeError, UsageError) as error:
            notes.append(f"member {member.name} left out: {error}")
    if not parts:
        raise RecipeError(f"recipe {recipe.name}: no member can be used; " + "; ".join(notes))
    return blended(recipe, encoded, parts, tuple(notes))


def blended(
    recipe: Recipe, encoded: EncodedCohort, parts: Sequence[HeldOut], notes: tuple[str, ...]
) -> HeldOut:
    """The mean of members' standardised held-out decisions, and of their machines."""
    repeats = min(len(part.decisions) for part in parts)
    standard = [standards(part.decisions[:repeats].mean(axis=0, dtype=float)) for part in parts]
    centres, scales = (np.array(each) for each in zip(*standard, strict=True))
    decisions = np.mean(
        [
            (part.decisions[:repeats] - centre) / scale
            for part, centre, scale in zip(parts, centres, scales, strict=True)
        ],
        axis=0,
    )
    widest = max(parts, key=lambda part: len(part.search.candidates))
    return HeldOut(
        decisions=decisions,
        fold=parts[0].fold[:repeats],
        ensemble=BlendedEnsemble([part.first_repeats(repeats) for part in parts], centres, scales),
        recipe=recipe,
        encoded=encoded,
        # Settings compete within a member only: the member that tried most says what choosing is worth.
        search=Search(0, [{}] * len(widest.search.candidates), [None], [None]),
        sv_share=None,
        seconds=(
            float(np.sum([part.seconds[0] for part in parts])),
            float(np.sum([part.seconds[1] for part in parts])),
        ),
        parts=tuple(parts),
        notes=notes,
    )


def _part(progress: Progress, number: int, of: int) -> Progress:
    """The progress of one member as a share of all."""
    return lambda done, total: progress(number * total + done, of * total)
