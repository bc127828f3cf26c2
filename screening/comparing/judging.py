"""One method on one outer fold: everything is chosen on the training rows, then the test rows are scored."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from screening.cohort.cohort import Cohort
from screening.comparing.outcome import Outcome
from screening.errors import UsageError
from screening.operating_point import Rule
from screening.recipe import Recipe
from screening.task import Task
from screening.validation.final_scale import on_final_scale, operating_points
from screening.validation.folds import Split, split
from screening.validation.out_of_fold import (
    Fitted,
    Parameters,
    choose_parameters,
    cross_validate,
    fit,
    labels_of,
)

THRESHOLD_FOLDS = 5
"""Folds of the training rows whose scores choose the threshold; fewer where positives are fewer."""


def judge(
    sample: Cohort,
    recipe: Recipe,
    task: Task,
    rule: Rule,
    candidates: Sequence[Parameters],
    rows: Split,
    groups: np.ndarray | None,
    *,
    repeat: int,
    fold: int,
    seed: int,
) -> Outcome:
    """Tune a method on training rows alone, and record what it does on the test rows.

    Parameters
    ----------
    sample : Cohort with labels
    rule : Rule
        Chooses the thresholds, from scores that are out-of-fold within the training rows.
    candidates : sequence of dict
    rows : (train, test) row numbers
    groups : ndarray, shape (n_rows,), or None
        Kept whole in every inner fold.

    Raises
    ------
    UsageError
        Too few positives or groups for inner validation.
    """
    train, test = rows
    learned, held_out = sample.take(train), sample.take(test)
    units = None if groups is None else groups[train]
    (search,) = choose_parameters(sample, recipe, task, [train], candidates, groups, seed, _here)

    began = time.perf_counter()
    fitted = fit(learned, recipe, task, search.chosen)
    fit_seconds = time.perf_counter() - began
    began = time.perf_counter()
    decisions = fitted.decisions(held_out)
    score_seconds = time.perf_counter() - began

    thresholds = tuned_thresholds(learned, fitted, recipe, task, rule, search.chosen, units, seed)
    binary = decisions.shape[1] == 1
    predicted = np.full(len(test), -1) if binary else decisions.argmax(axis=1)
    columns = [0] if binary else task.watched_columns
    return Outcome(
        repeat=repeat,
        fold=fold,
        rows=test,
        scores=decisions.reshape(len(test), -1)[:, columns],
        thresholds=thresholds,
        own=decisions > 0 if binary else predicted[:, None] == np.asarray(columns),
        predicted=predicted,
        facts={
            "chosen": search.chosen,
            "candidates": search.candidates,
            "scores": search.scores,
            "fit_seconds": fit_seconds,
            "score_seconds": score_seconds,
            "n_train": len(train),
            "n_test": len(test),
            "sv_share": _sv_share(fitted, task, learned),
        },
    )


def tuned_thresholds(
    learned: Cohort,
    fitted: Fitted,
    recipe: Recipe,
    task: Task,
    rule: Rule,
    chosen: Parameters,
    groups: np.ndarray | None,
    seed: int,
) -> np.ndarray:
    """One threshold a watched class on the scale of `fitted`, as `train` would choose it; (n_watched,)."""
    target = task.target(labels_of(learned))
    watched = task.is_watched(labels_of(learned))
    holders = [len(np.unique(np.arange(len(target)) if groups is None else groups, axis=0))]
    for side in (*watched.T, *~watched.T):
        holders.append(int(side.sum()) if groups is None else len(np.unique(groups[side])))
    folds = min(THRESHOLD_FOLDS, *holders)
    if folds < 2:
        raise UsageError(
            f"{min(holders)} positive row(s) or group(s) are left to choose a threshold on; use fewer --folds"
        )
    inner, _ = cross_validate(
        learned, recipe, task, split(target, groups, folds, seed), [chosen], groups, seed=seed, jobs=1
    )
    validation = on_final_scale(inner, fitted, learned, task, groups is not None)
    points = operating_points(validation, learned, task, rule, groups, 1, seed)
    return np.array([point.threshold for point in points])


def _here(tasks: list[Any]) -> list[Any]:
    """Run delayed calls one after another: the folds of a comparison are what runs side by side."""
    return [call(*args, **kwargs) for call, args, kwargs in tasks]


def _sv_share(fitted: Fitted, task: Task, learned: Cohort) -> float | None:
    support = getattr(fitted.estimator, "support_", None)
    if support is None:
        return None
    seen = int((task.target(labels_of(learned)) == 0).sum()) if fitted.one_class else learned.n_rows
    return len(support) / seen
