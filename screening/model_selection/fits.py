"""The fits of a training: the method, its baselines and its temporal validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from screening.errors import ScreenError, UsageError
from screening.model_selection.fold_fits import EncodedRows
from screening.model_selection.folds import Study
from screening.model_selection.held_out import HeldOutDecisions, encode, plan_method
from screening.model_selection.plans import Plan, side_by_side
from screening.model_selection.scores import (
    HeldOutScores,
    OtherMethods,
    Population,
    TemporalValidation,
    shares_of,
)
from screening.model_selection.temporal_validation import validate_later
from screening.recipes.building import load_recipe
from screening.recipes.encoders import has_columns
from screening.recipes.recipe import ALWAYS, FITS, Recipe
from screening.schemas.validation import Beside

# Methods to compare a method with by default, itself left out.
USUAL = {
    "binary": ("svm", "logistic"),
    "multi": ("one_vs_rest", "logistic", "random_forest"),
}

# A blend is compared with those of its members that a user would pick instead: they are
# fitted anyway.
FAST_BASELINES = ("logistic", "histogram_boosting", "random_forest")
# With more rows than these a kernel machine would take most of the time of a training.
MAX_ROWS_FOR_KERNEL_BASELINE = 5_000


def recipes_to_compare(method: Recipe, study: Study) -> list[Recipe]:
    """Return the recipes that a method is compared with, each once, without itself.

    Those that the caller named, or the usual ones.

    Raises
    ------
    UsageError
        If one does not answer the cohort's question, or no case can judge them.
    """
    names = study.validation.beside
    if study.without_cases is not None:
        if names:
            raise UsageError(
                "`beside` compares methods by cases, and there are too few for every "
                "fold; leave it out",
                parameters=["beside"],
            )
        return []
    kind = study.task.kind
    if names is None:
        names = _usual_baselines(method, kind, study.sample.n_rows)
    recipes = {recipe.name: recipe for recipe in map(load_recipe, names)}
    machines = (*FITS[kind], "blend")
    wrong = [
        recipe.name for recipe in recipes.values() if recipe.machine not in machines
    ]
    if wrong:
        classes = {"binary": "one class from the rest", "multi": "several classes"}
        raise UsageError(
            f"{', '.join(wrong)} cannot separate {classes[kind]}; name other recipes "
            "with `beside`, or none",
            parameters=["beside"],
        )
    recipes.pop(method.name, None)
    if method.machine != "given":
        return [*recipes.values()]
    # A table of scores often has no column that another method could learn from.
    contract = study.cohort.contract
    return [other for other in recipes.values() if has_columns(other, contract)]


def _usual_baselines(method: Recipe, kind: str, n_rows: int) -> Sequence[str]:
    """Return the names of the recipes that a method is compared with by default."""
    usual = USUAL[kind]
    is_large_baseline = (
        method.machine == "baseline" and n_rows > MAX_ROWS_FOR_KERNEL_BASELINE
    )
    if method.machine != "blend" and not is_large_baseline:
        return usual
    candidates = (*usual, *method.members)
    return [name for name in FAST_BASELINES if name in candidates]


@dataclass(frozen=True)
class Fits:
    """Everything that a training fits.

    Parameters
    ----------
    method : HeldOutDecisions
    baselines : list of (Recipe, HeldOutDecisions or ScreenError)
        Other methods on the same folds, or why one could not be fitted.
    temporal_validation : TemporalValidation
    """

    method: HeldOutDecisions
    baselines: list[tuple[Recipe, HeldOutDecisions | ScreenError]]
    temporal_validation: TemporalValidation


def plan_training(
    study: Study,
    recipe: Recipe,
    others: Sequence[Recipe],
    memory: int | None = None,
) -> Plan[Fits]:
    """Plan the method, its baselines and its temporal validation side by side.

    A baseline that is a member of the blend is not fitted again. Parameters of the
    approximation that the caller fixed apply to the others too.

    Parameters
    ----------
    study : Study
    recipe : Recipe
    others : sequence of Recipe
    memory : int, optional
        Bytes for kernel matrices.
    """
    encoded = encode(study, recipe, memory)
    separate = [other for other in others if other.name not in recipe.members]
    plans: list[Plan[Any]] = [plan_method(study, recipe, encoded)]
    plans += [_plan_baseline(study, other, encoded) for other in separate]
    plans.append(validate_later(study, recipe, memory))
    method, *outcomes, temporal_validation = yield from side_by_side(plans)
    if isinstance(method, ScreenError):
        raise method
    assert isinstance(temporal_validation, TemporalValidation)
    names_of_others = [other.name for other in separate]
    fitted = dict(zip(names_of_others, outcomes, strict=True))
    for member in (*method.members, *method.dropped):
        fitted[member.recipe.name] = member
    # Members that were left out may do with other parameters.
    for other in others:
        if other.name not in fitted:
            plan = _plan_baseline(study, other, encoded)
            (fitted[other.name],) = yield from side_by_side([plan])
    baselines = [(other, fitted[other.name]) for other in others]
    return Fits(method, baselines, temporal_validation)


def _plan_baseline(
    study: Study, other: Recipe, encoded: EncodedRows
) -> Plan[HeldOutDecisions]:
    """Plan a baseline, with those fixed parameters that apply to every method."""
    shared = {
        name: value
        for name, value in study.params.items()
        if name in ALWAYS and name in other.names
    }
    return (yield from plan_method(replace(study, params=shared), other, encoded))


def scores_to_judge(
    study: Study, scores: HeldOutScores, fits: Fits, prevalence: float | None
) -> HeldOutScores:
    """Return everything that a model is judged by.

    Parameters
    ----------
    study : Study
    scores : HeldOutScores
        Of the method.
    fits : Fits
    prevalence : float, optional
        As the caller or the contract states it.
    """
    method = fits.method
    members = {
        member.recipe.name: HeldOutScores.of(member, study) for member in method.members
    }
    titles = {member.recipe.name: member.recipe.title for member in method.members}
    compared, baseline_scores = _scores_of_baselines(study, fits.baselines)
    target = study.task.target(study.cohort.labels)
    return replace(
        scores,
        population=Population(
            shares_of(study.task, target, study.cohort.group),
            prevalence,
            study.sample.subgroups,
            study.sample.contract.suppress,
        ),
        others=OtherMethods(
            scores=members | baseline_scores,
            members=titles,
            pooling=getattr(method.ensemble, "pooling", None),
            baselines=compared,
        ),
        temporal_validation=fits.temporal_validation,
    )


def _scores_of_baselines(
    study: Study, fitted: Sequence[tuple[Recipe, HeldOutDecisions | ScreenError]]
) -> tuple[list[Beside] | None, dict[str, HeldOutScores]]:
    """Return what the method is compared with, and the scores of these methods.

    One that cannot be trained on this cohort has the reason.
    """
    compared = []
    scores = {}
    for other, held_out in fitted:
        facts = Beside(recipe=other.name, title=other.title)
        if isinstance(held_out, ScreenError):
            compared.append(facts.replace(reason=str(held_out)))
            continue
        search = held_out.search
        compared.append(
            facts.replace(n_candidates=search.n_candidates, chosen=search.chosen)
        )
        scores[other.name] = HeldOutScores.of(held_out, study)
    return compared or None, scores
