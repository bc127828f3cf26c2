"""What `model.json` says of a training run: facts for reader and page, no clock and no patient."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from screening.auto import account
from screening.cohort.cohort import Cohort
from screening.cohort.drift import profile_of
from screening.operating_point import OperatingPoint, curve, points, summary
from screening.recipe import Recipe
from screening.statistics.intervals import wilson
from screening.task import Task
from screening.validation.criteria import criterion
from screening.validation.out_of_fold import Fitted, Fold, Search, labels_of

if TYPE_CHECKING:
    from screening.validation.final_scale import Validation

PACKAGES = ("screening", "numpy", "scikit-learn", "pandas", "pyarrow")


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def model_document(
    cohort: Cohort,
    sample: Cohort,
    recipe: Recipe,
    settings: dict[str, Any],
    task: Task,
    chosen: list[OperatingPoint],
    validation: Validation,
    search: Search,
    folds: list[Fold],
    final: Fitted,
    groups: np.ndarray | None,
    *,
    n_folds: int,
    repeats: int,
    seed: int,
    max_rows: int | None,
    command: str | None,
    notes: list[str],
) -> dict[str, Any]:
    """Gather everything that the model directory states, as plain JSON values."""
    return {
        "recipe": {
            "name": recipe.name,
            "title": recipe.title,
            "paper": recipe.paper,
            "machine": recipe.machine,
            "text": recipe.text,
            "parameters": recipe.parameters | settings,
        },
        "contract": cohort.contract.to_dict(),
        "task": task.to_dict(),
        "operating_points": [
            {"class": name, "chosen_by": "training", "reason": None} | point.to_dict()
            for name, point in zip(task.watched, chosen, strict=True)
        ],
        "validation": {
            "folds": n_folds,
            "repeats": repeats,
            "grouped": groups is not None,
            "n_rows": sample.n_rows,
            "n_groups": None if groups is None else len(np.unique(groups)),
            "placement": validation.placement,
            "search": _search_facts(recipe, search, folds),
        }
        | _figures(sample, task, chosen, validation, groups, repeats, seed),
        "training": {
            "source": cohort.source.to_dict(),
            "n_rows_read": cohort.n_rows + sum(cohort.refused.values()),
            "n_rows_used": sample.n_rows,
            "n_by_class": _class_counts(sample),
            "max_rows": max_rows,
            "window": _window(cohort),
            "seed": seed,
            "command": command,
            "notes": notes,
            "missing": {name: float(share) for name, share in cohort.features.isna().mean().items()},
            "features": _features(sample, final),
            "profile": profile_of(cohort),
        },
        "machine": _machine(final, sample, task),
        "versions": versions(),
    }


def _figures(
    sample: Cohort,
    task: Task,
    chosen: list[OperatingPoint],
    validation: Validation,
    groups: np.ndarray | None,
    repeats: int,
    seed: int,
) -> dict[str, Any]:
    """Curves, tables and summaries of the out-of-fold scores, one a watched class."""
    label = labels_of(sample)[validation.rows]
    watched = task.is_watched(label)
    together = validation.clusters(groups, repeats)
    facts: dict[str, Any] = {"summary": {}, "curves": {}, "points": {}}
    for m, (name, point) in enumerate(zip(task.watched, chosen, strict=True)):
        scores, y = validation.scores[:, m], watched[:, m]
        facts["summary"][name] = summary(scores, y, together, seed=seed)
        facts["curves"][name] = curve(scores, y, together, seed=seed, prevalence=point.prevalence)
        facts["points"][name] = points(scores, y, together, prevalence=point.prevalence)
    if validation.predicted is not None:
        facts |= per_class(task.target(label), validation.predicted, task.classes)
    return facts


def per_class(target: np.ndarray, predicted: np.ndarray, classes: tuple[str, ...]) -> dict[str, Any]:
    """Confusion counts (true class by row), and recall with precision a class."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (target, predicted), 1)
    rows = []
    for m, name in enumerate(classes):
        n, hits, called = int(counts[m].sum()), int(counts[m, m]), int(counts[:, m].sum())
        low, high = map(float, wilson(hits, n)) if n else (None, None)
        rows.append(
            {
                "class": name,
                "n": n,
                "recall": hits / n if n else None,
                "recall_low": low,
                "recall_high": high,
                "precision": hits / called if called else None,
            }
        )
    return {"confusion": {"classes": list(classes), "counts": counts.tolist()}, "per_class": rows}


def _search_facts(recipe: Recipe, search: Search, folds: list[Fold]) -> dict[str, Any]:
    """What was tuned, on what, and how often the folds agreed."""
    return {
        "criterion": recipe.criterion,
        "n_candidates": max(len(search.candidates), 1),
        "chosen": search.chosen,
        "candidates": search.candidates,
        "scores": search.scores,
        "chosen_in_folds": [fold.search.chosen for fold in folds],
    }


def cost_of_choosing(
    asked: Recipe, search: Search, folds: list[Fold], validation: Validation, sample: Cohort, task: Task
) -> dict[str, Any]:
    """What `auto` adds: its search, the runner-up table, its criterion with the choice made in each fold."""
    if task.kind == "binary":
        target = task.target(labels_of(sample))[validation.rows]
        nested = criterion(asked.criterion, validation.scores, target)
    else:
        rows = np.concatenate([fold.test_rows for fold in folds])
        decisions = np.concatenate([fold.decisions for fold in folds])
        nested = criterion(asked.criterion, decisions, task.target(labels_of(sample))[rows])
    named = [asked.resolve(fold.search.chosen)[0].name for fold in folds]
    return {
        "search": _search_facts(asked, search, folds),
        "auto": account(asked.criterion, search.candidates, search.scores, search.chosen, named, nested),
    }


def _features(sample: Cohort, final: Fitted) -> list[dict[str, Any]]:
    """Each feature with unit, usual range (the contract's, else 5 to 95 % of training rows) and median."""
    described = []
    for name, feature in sample.contract.features.items():
        usual, origin = feature.usual, "contract"
        column = sample.features[name]
        if usual is None and feature.type == "number":
            usual, origin = np.nanquantile(column.to_numpy(dtype=float), [0.05, 0.95]), "training, 5 to 95 %"
        median = final.encoder.medians[name]
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


def _machine(final: Fitted, sample: Cohort, task: Task) -> dict[str, Any]:
    """Size and certificate of the fitted machine; a baseline has no support vectors."""
    support = getattr(final.estimator, "support_", None)
    if support is None:
        return {"n_support_vectors": None, "sv_share": None, "passes": [], "kkt_gap": None}
    seen = int((task.target(labels_of(sample)) == 0).sum()) if final.one_class else sample.n_rows
    return {
        "n_support_vectors": len(support),
        "sv_share": len(support) / seen,
        "passes": [_plain(one) for one in final.estimator.passes_],
        "kkt_gap": float(np.max(final.estimator.kkt_gap_)),
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
