"""The method beside those a user would pick instead: same folds, same rule, paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from screening.cohort.cohort import Cohort
from screening.documents.beside import Beside, BesideFacts, Difference
from screening.errors import RecipeError, UsageError
from screening.recipes.loading import load_recipe
from screening.recipes.recipe import ALWAYS, Recipe
from screening.statistics.operating_point import OperatingPoint, Rule
from screening.validation.blending import held_out_by
from screening.validation.elsewhere import Elsewhere
from screening.validation.figures import Truth, measured, truth_of
from screening.validation.folds import Plan
from screening.validation.held_out import Effort, HeldOut
from screening.validation.outcome import Outcome, outcome_of
from screening.validation.paired import difference, differences, independent_units, resampled
from screening.validation.task import Task
from screening.validation.validation import Validation

USUAL: dict[str, tuple[str, ...]] = {"binary": ("svm", "logistic"), "multi": ("one_vs_rest",)}
"""What a method is compared with where nobody says otherwise, itself left out."""

# Leaving itself out would leave nothing: the other plain way to tell several classes apart takes its place.
STANDS_IN = {"one_vs_rest": "one_vs_one"}

MACHINES = {"binary": ("one_class", "two_class", "baseline"), "multi": ("multi_class",)}

# Beside a method that is no kernel machine, one on more rows than this would take most of the time.
LARGEST_UNASKED = 5000


def recipes_of(names: Sequence[str] | None, method: Recipe, task: Task, n_rows: int) -> list[Recipe]:
    """The recipes to compare with, each once.

    Parameters
    ----------
    names : sequence of str, or None
        Names or files; None for the usual ones.
    method : Recipe
        Decides, with the number of rows, whether a kernel machine is added that nobody asked for.

    Raises
    ------
    RecipeError
        There is no such recipe.
    UsageError
        A recipe that does not answer the cohort's question.
    """
    usual = USUAL[task.kind]
    if usual == (method.name,):
        usual = (STANDS_IN.get(method.name, method.name),)
    loaded = [load_recipe(name) for name in (usual if names is None else names)]
    found = list({each.name: each for each in loaded}.values())
    if names is None and method.machine == "baseline" and n_rows > LARGEST_UNASKED:
        found = [each for each in found if each.machine == "baseline"]
    wrong = [each.name for each in found if each.machine not in MACHINES[task.kind]]
    if wrong:
        classes = "several classes" if task.kind == "multi" else "one class and the rest"
        raise UsageError(
            f"{', '.join(wrong)} cannot be compared where {classes} are told apart; name other recipes "
            "with --beside, or --beside none"
        )
    return found


def comparison(
    sample: Cohort,
    task: Task,
    others: Sequence[Recipe],
    method: HeldOut,
    validation: Validation,
    points: Sequence[OperatingPoint],
    plan: Plan,
    rule: Rule,
    *,
    search: int | None,
    params: Mapping[str, object],
    seed: int,
    jobs: int,
    memory: int | None,
    elsewhere: Elsewhere | None,
) -> BesideFacts | None:
    """Hold every row out by every other method on the method's own folds, and say what differs.

    Each has its setting and its thresholds chosen from its own held-out scores by the same rule, so that its
    figures are those that training it would state. A method that cannot be trained on this cohort is listed
    with the reason.

    Parameters
    ----------
    sample : Cohort
        The rows the folds were dealt from.
    others : sequence of Recipe
        The method itself is left out.
    method : HeldOut
        A member of a blend is not fitted again to stand beside it.
    validation : Validation
        The method's own scores.
    points : sequence of OperatingPoint
        The method's own thresholds, one a watched class.
    rule : Rule
        A threshold given by the user says nothing on another method's scale; the others then keep the
        sensitivity that the method has there.
    params : mapping
        What the caller fixed of the method; its approximation holds for the others too.

    Returns
    -------
    BesideFacts or None
        Figures of all methods, and differences (method minus other, 0 to 1) with 95 % intervals. None where
        there is nothing to compare.
    """
    others = [each for each in others if each.name != method.recipe.name]
    members = {part.recipe.name: part for part in method.parts}
    if not others:
        return None
    rules = [_shared(rule, point) for point in points]
    own = outcome_of(method, validation, points)
    rows: list[Beside] = []
    for other in others:
        try:
            fixed = {name: params[name] for name in ALWAYS if name in params and name in other.names}
            held_out = members.get(other.name) or held_out_by(
                sample, other, task, plan, params=fixed, search=search, seed=seed,
                effort=Effort(jobs, memory, elsewhere=elsewhere, like=method.encoded),
            )  # fmt: skip
            found = Validation.of(held_out, sample, task, plan.groups)
            chosen = [found.operating_point(m, each, seed) for m, each in enumerate(rules)]
        except (RecipeError, UsageError) as error:
            rows.append(Beside(recipe=other.name, title=other.title, reason=str(error)))
            continue
        outcome = outcome_of(held_out, found, chosen)
        figures, gaps = _judged(own, outcome, sample, task, plan.groups, seed)
        rows.append(
            Beside(
                recipe=other.name,
                title=other.title,
                n_candidates=outcome.n_settings,
                chosen=held_out.search.chosen,
                thresholds=outcome.thresholds.tolist(),
                figures=figures,
                differences=gaps,
            )
        )
    return BesideFacts(
        rule=rules[0], n_watched=len(points), figures=_figures(own, truth_of(sample, task)), beside=rows
    )


def _figures(outcome: Outcome, truth: Truth) -> dict[str, float | None]:
    figures = {name: figure.value for name, figure in outcome.facts.figures.items()}
    several = {} if truth.target is None else {"macro_recall": _recall(outcome, truth)}
    return figures | several


def _judged(
    own: Outcome, other: Outcome, sample: Cohort, task: Task, groups: np.ndarray | None, seed: int
) -> tuple[dict[str, float | None], dict[str, Difference]]:
    """Figures of another method, and what the method's own are above them."""
    truth = truth_of(sample, task)
    figures, gaps = _figures(other, truth), differences(own, other, truth, groups)
    if task.kind == "multi":
        pair = {"own": own, "other": other}
        draws = resampled(pair, dict.fromkeys(pair, truth), groups, 0.9, seed=seed)
        gaps["macro_recall"] = difference(
            (_recall(own, truth), figures["macro_recall"] or 0.0),
            (draws["own"]["macro_recall"], draws["other"]["macro_recall"]),
            independent_units(truth, groups),
        )
    return figures, gaps


def _recall(outcome: Outcome, truth: Truth) -> float:
    return float(measured(outcome, truth, 0.9)["macro_recall"][0])


def _shared(rule: Rule, point: OperatingPoint) -> Rule:
    """The rule that chooses the others' thresholds."""
    if rule.name != "threshold":
        return rule
    sensitivity = 0.5 if point.sensitivity is None else point.sensitivity
    return Rule("min_sensitivity", min(max(sensitivity, 0.01), 0.99), prevalence=rule.prevalence)
