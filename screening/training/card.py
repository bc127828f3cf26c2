"""What `model.json` says of a training run: facts for reader and page, no clock and no patient."""

from __future__ import annotations

from typing import Any

import numpy as np

from screening.cohort.cohort import Cohort
from screening.cohort.encoding import Encoder
from screening.cohort.profiling import profile_of
from screening.documents.shape import plain
from screening.machines.blended import BlendedEnsemble
from screening.machines.fold_ensemble import FoldEnsemble
from screening.machines.landmarks import RARE_SHARE
from screening.statistics.operating_point import OperatingPoint, Rule, curve, points
from screening.statistics.ranking import auroc
from screening.training.per_class import per_class
from screening.training.planning import Groundwork
from screening.training.versions import versions
from screening.validation.approximation import cost_of_landmarks
from screening.validation.choice import Search
from screening.validation.held_out import HeldOut
from screening.validation.lesson import labels_of
from screening.validation.task import Task
from screening.validation.validation import Validation


def model_document(
    ground: Groundwork,
    chosen: list[OperatingPoint],
    validation: Validation,
    held_out: HeldOut,
    *,
    seed: int,
    max_rows: int | None,
    command: str | None,
) -> dict[str, Any]:
    """Gather what is known once every row was held out, as plain JSON values."""
    recipe, search = held_out.recipe, held_out.search
    cohort, sample, task, plan = ground.cohort, ground.sample, ground.task, ground.plan
    approximate = {}
    if not ground.exact:
        approximate = cost_of_landmarks(sample, held_out, task, plan.groups, RARE_SHARE, seed)
    said = [*ground.notes, *held_out.notes, *(each["note"] for each in approximate.values())]
    document: dict[str, Any] = {
        "recipe": {
            "name": recipe.name,
            "title": recipe.title,
            "paper": recipe.paper,
            "machine": recipe.machine,
            "text": recipe.text,
            "parameters": recipe.parameters | search.chosen,
        }
        | ({"members": [_member(part) for part in held_out.parts]} if held_out.parts else {}),
        "contract": cohort.contract.to_dict(),
        "task": task.to_dict(),
        "operating_points": [
            {"class": name, "chosen_by": "training", "reason": None} | point.to_dict()
            for name, point in zip(task.watched, chosen, strict=True)
        ],
        "validation": {
            "folds": plan.folds,
            "repeats": len(held_out.fold),
            "grouped": plan.groups is not None,
            "n_rows": sample.n_rows,
            "n_positive": int(validation.watched.any(axis=1).sum()),
            "n_groups": None if plan.groups is None else len(np.unique(plan.groups)),
            "n_machines": len(held_out.ensemble.machines),
            "encoded_by": "negatives" if held_out.one_class else "all rows",
            "search": _search_facts(recipe.criterion, search),
        }
        | _figures(sample, task, chosen, validation, seed),
        "training": {
            "source": cohort.source.to_dict(),
            "n_rows_read": cohort.n_rows + sum(cohort.refused.values()),
            "n_rows_used": sample.n_rows,
            "n_by_class": _class_counts(sample),
            "max_rows": max_rows,
            "window": _window(cohort),
            "seed": seed,
            "command": command,
            "notes": said,
            "missing": {name: float(share) for name, share in cohort.features.isna().mean().items()},
            "features": _features(sample, held_out.encoder),
            "profile": profile_of(cohort),
            "leaks": ground.suspects,
        }
        | approximate,
        "machine": _machine(held_out),
        "versions": versions(),
    }
    if held_out.parts:
        document["blend"] = _members_of(held_out, sample, task, plan.groups, ground.rule, seed)
    return document


def _member(part: HeldOut) -> dict[str, Any]:
    """A member of a blend, as much as makes its machines again."""
    recipe = part.recipe
    return {
        "name": recipe.name,
        "title": recipe.title,
        "machine": recipe.machine,
        "text": recipe.text,
        "parameters": recipe.parameters | part.search.chosen,
        "search": _search_facts(recipe.criterion, part.search),
        "machines": _machine(part),
    }


def _members_of(
    held_out: HeldOut, sample: Cohort, task: Task, groups: np.ndarray | None, rule: Rule, seed: int
) -> list[dict[str, Any]]:
    """What each member of a blend does alone, on the scale of its standardised scores.

    Returns
    -------
    list of dict
        `recipe`, `title`, and by watched class `auroc`, and the `threshold` that the member alone would have.
    """
    found: list[dict[str, Any]] = []
    blend = held_out.ensemble
    assert isinstance(blend, BlendedEnsemble)
    columns = [0] if task.kind == "binary" else task.watched_columns
    for part, centre, scale in zip(held_out.parts, blend.centres, blend.scales, strict=True):
        alone = Validation.of(part, sample, task, groups)
        facts: dict[str, Any] = {"recipe": part.recipe.name, "title": part.recipe.title, "classes": {}}
        for m, (name, column) in enumerate(zip(task.watched, columns, strict=True)):
            threshold = alone.operating_point(m, rule, seed).threshold
            facts["classes"][name] = {
                "auroc": float(auroc(alone.scores[:, m], alone.watched[:, m])),
                "threshold": float((threshold - centre[column]) / scale[column]),
            }
        found.append(facts)
    return found


def _figures(
    sample: Cohort, task: Task, chosen: list[OperatingPoint], validation: Validation, seed: int
) -> dict[str, Any]:
    """Curves, tables and summaries of the held-out scores, one a watched class."""
    facts: dict[str, Any] = {"summary": {}, "curves": {}, "points": {}}
    for m, (name, point) in enumerate(zip(task.watched, chosen, strict=True)):
        scores, y, groups = validation.scores[:, m], validation.watched[:, m], validation.groups
        facts["summary"][name] = validation.ranking(m, seed)
        facts["curves"][name] = curve(scores, y, groups, seed=seed, prevalence=point.prevalence)
        facts["points"][name] = points(**validation.of_class(m), seed=seed, prevalence=point.prevalence)
    if validation.predicted is not None:
        confusion, rows = per_class(task.target(labels_of(sample)), validation.predicted, task.classes)
        facts |= {"confusion": plain(confusion), "per_class": [plain(row) for row in rows]}
    return facts


def _search_facts(criterion: str, search: Search) -> dict[str, Any]:
    """What was tuned, on what, and which settings could not be used."""
    return {
        "criterion": criterion,
        "n_candidates": len(search.candidates),
        "chosen": search.chosen,
        "candidates": search.candidates,
        "scores": search.scores,
        "dropped": search.dropped,
    }


def _features(sample: Cohort, encoder: Encoder) -> list[dict[str, Any]]:
    """Each feature with unit, usual range (the contract's, else 5 to 95 % of training rows) and median."""
    described = []
    for name, feature in sample.contract.features.items():
        usual, origin = feature.usual, "contract"
        column = sample.features[name]
        if usual is None and feature.type == "number":
            usual, origin = np.nanquantile(column.to_numpy(dtype=float), [0.05, 0.95]), "training, 5 to 95 %"
        median = encoder.medians[name]
        described.append(
            {
                "name": name,
                "type": feature.type,
                "unit": feature.unit,
                "usual": None if usual is None else [float(bound) for bound in usual],
                "usual_from": None if usual is None else origin,
                "median": median if isinstance(median, str) else _finite(median),
                "description": feature.description,
            }
        )
    return described


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


def _machine(held_out: HeldOut) -> dict[str, Any]:
    """Size and certificate of the machines, with the passes of the first; a baseline has none of these."""
    ensemble = held_out.ensemble
    if not isinstance(ensemble, FoldEnsemble) or not ensemble.kernel_machines:
        return {"n_support_vectors": None, "sv_share": None, "passes": [], "kkt_gap": None}
    machines = ensemble.standing
    return {
        "n_support_vectors": len(ensemble.union[0]),
        "sv_share": held_out.sv_share,
        "passes": [_plain(one) for one in machines[0].passes_],
        "kkt_gap": float(max(np.max(each.kkt_gap_) for each in machines)),
    }


def _plain(value: Any) -> Any:
    """Arrays and NumPy scalars as lists and numbers; long arrays as their range."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray) and value.size > 16:
        return {"n": int(value.size), "min": float(value.min()), "max": float(value.max())}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def _class_counts(sample: Cohort) -> dict[str, int]:
    values, counts = np.unique(labels_of(sample), return_counts=True)
    return {str(value): int(count) for value, count in zip(values, counts, strict=True)}


def _window(cohort: Cohort) -> list[str] | None:
    """First and last day of the training rows, where the contract names a time column."""
    if cohort.time is None:
        return None
    days = np.sort(np.asarray(cohort.time).astype("datetime64[D]"))
    days = days[~np.isnat(days)]
    return [str(days[0]), str(days[-1])] if len(days) else None
