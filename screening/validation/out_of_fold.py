"""Out-of-fold scores, with every parameter chosen by inner folds of the training rows alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from screening.cohort.cohort import Cohort
from screening.cohort.encoding import Encoder
from screening.errors import UsageError
from screening.kernels import shared
from screening.kernels.placing import beside_others
from screening.recipe import Recipe
from screening.suspicion import suspicion
from screening.task import Task
from screening.validation.candidates import Parameters, by_shared_work, rows_held
from screening.validation.criteria import criterion
from screening.validation.folds import Split, split
from screening.validation.picking import pick

INNER_FOLDS = 3

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Fitted:
    """An encoder and an estimator fitted on the same rows."""

    encoder: Encoder
    estimator: Any
    machine: str
    n_classes: int

    @property
    def one_class(self) -> bool:
        """Whether it learned from the negatives only."""
        return self.machine == "one_class"

    def decisions(self, cohort: Cohort) -> np.ndarray:
        """Decision values, higher for more suspicious, shape (n_rows, 1) or (n_rows, n_classes)."""
        return self.decisions_of(self.encoder.transform(cohort))

    def decisions_of(self, encoded: np.ndarray) -> np.ndarray:
        """Decision values of encoded rows."""
        return suspicion(self.estimator, encoded, self.machine, self.n_classes)


@dataclass(frozen=True)
class Search:
    """What inner validation chose, and the mean score of every candidate (empty: nothing to choose)."""

    chosen: Parameters
    candidates: list[Parameters]
    scores: list[float]


@dataclass(frozen=True)
class Fold:
    """What is kept of one outer fold: decisions on its test rows, and on its own training rows.

    `anchor` and `train_decisions` are those of a model with the *final* model's parameters, fitted on the
    same training rows: what ties this fold's scale to the final model's where it chose other parameters.
    """

    number: int
    test_rows: np.ndarray
    decisions: np.ndarray
    anchor: np.ndarray
    train_rows: np.ndarray
    train_decisions: np.ndarray
    search: Search


@dataclass(frozen=True)
class Lesson:
    """Encoded rows to learn from; for a one-class recipe the negatives only.

    Parameters
    ----------
    x : ndarray, shape (n_rows, n_encoded)
    target : ndarray of int, shape (n_rows,)
    groups : ndarray, shape (n_rows,), or None
        Kept whole by remedies that validate inside the fit.
    shared : Shared
        What fits on these rows have in common, with the memory they may take.
    """

    recipe: Recipe
    encoder: Encoder
    x: np.ndarray
    target: np.ndarray
    groups: np.ndarray | None
    n_classes: int
    shared: shared.Shared

    @classmethod
    def of(
        cls, cohort: Cohort, recipe: Recipe, task: Task,
        groups: np.ndarray | None = None, memory: int | None = None,
    ) -> Lesson:  # fmt: skip
        """Encode a cohort's rows, the encoder learned on these rows alone."""
        target = task.target(labels_of(cohort))
        if recipe.machine == "one_class":
            normal = np.flatnonzero(target == 0)
            cohort, target = cohort.take(normal), target[normal]
            groups = None if groups is None else groups[normal]
        encoder = Encoder(cohort.contract).fit(cohort)
        x = np.ascontiguousarray(encoder.transform(cohort), dtype=np.float64)
        return cls(recipe, encoder, x, target, groups, len(task.classes), shared.Shared(x, memory))

    def fit(self, parameters: Parameters) -> Fitted:
        """Fit the recipe with these parameters."""
        recipe, settings = self.recipe.resolve(parameters)
        estimator = recipe.build(**settings)
        known = {"groups": self.groups} if recipe.machine in ("two_class", "multi_class") else {}
        with shared.using(self.shared):
            estimator.fit(self.x, self.target, **known)
        return Fitted(self.encoder, estimator, recipe.machine, self.n_classes)


def fit(
    cohort: Cohort, recipe: Recipe, task: Task, parameters: Parameters,
    groups: np.ndarray | None = None, memory: int | None = None,
) -> Fitted:  # fmt: skip
    """Encode the cohort's rows and fit the recipe on them."""
    return Lesson.of(cohort, recipe, task, groups, memory).fit(parameters)


def labels_of(cohort: Cohort) -> np.ndarray:
    """The cohort's label text, shape (n_rows,).

    Raises
    ------
    UsageError
        The cohort was read without a label column.
    """
    if cohort.label is None:
        raise UsageError("this needs a label column: name it with --label or in the contract")
    return cohort.label


def choose_parameters(
    cohort: Cohort,
    recipe: Recipe,
    task: Task,
    subsets: Sequence[np.ndarray],
    candidates: Sequence[Parameters],
    groups: np.ndarray | None,
    seed: int,
    run: Callable[[list[Any]], list[Any]],
    memory: int | None = None,
) -> list[Search]:
    """Choose among candidates separately on each subset of rows, by inner cross-validation.

    Returns
    -------
    list of Search
        One a subset; see `pick`.
    """
    if len(candidates) < 2:
        return [Search(dict(candidates[0]), [], []) for _ in subsets]
    target = task.target(labels_of(cohort))
    jobs = []
    for rows in subsets:
        inner = split(target[rows], None if groups is None else groups[rows], INNER_FOLDS, seed)
        jobs += [
            delayed(_held_out_decisions)(
                cohort, recipe, task, candidates, groups, rows[train], rows[test], memory
            )
            for train, test in inner
        ]
    held_out = iter(run(jobs))
    found = []
    for _ in subsets:
        # Judged on the held-out rows of all inner folds together: one threshold has to serve several models,
        # so a setting whose scale drifts from fit to fit must lose, however well it ranks within a fold.
        parts, targets = zip(*(next(held_out) for _ in range(INNER_FOLDS)), strict=True)
        codes = np.concatenate(targets)
        decisions = [np.concatenate(each) for each in zip(*parts, strict=True)]
        scores = [criterion(recipe.criterion, each, codes) for each in decisions]
        chosen = pick(recipe.criterion, candidates, scores, decisions, codes, seed)
        found.append(Search(dict(candidates[chosen]), [dict(each) for each in candidates], scores))
    return found


def _held_out_decisions(
    cohort: Cohort,
    recipe: Recipe,
    task: Task,
    candidates: Sequence[Parameters],
    groups: np.ndarray | None,
    train: np.ndarray,
    test: np.ndarray,
    memory: int | None,
) -> tuple[list[np.ndarray], np.ndarray]:
    lesson = Lesson.of(cohort.take(train), recipe, task, None if groups is None else groups[train], memory)
    held_out = cohort.take(test)
    encoded = lesson.encoder.transform(held_out)
    found = {at: lesson.fit(candidates[at]).decisions_of(encoded) for at in by_shared_work(candidates)}
    return [found[at] for at in range(len(candidates))], task.target(labels_of(held_out))


def _run_fold(
    cohort: Cohort,
    recipe: Recipe,
    task: Task,
    groups: np.ndarray | None,
    number: int,
    rows: Split,
    search: Search,
    final: Search,
    memory: int | None,
) -> Fold:
    train, test = rows
    learned, held_out = cohort.take(train), cohort.take(test)
    lesson = Lesson.of(learned, recipe, task, None if groups is None else groups[train], memory)
    like_final = lesson.fit(final.chosen)
    decisions = anchor = like_final.decisions(held_out)
    if search.chosen != final.chosen:
        decisions = lesson.fit(search.chosen).decisions(held_out)
    return Fold(number, test, decisions, anchor, train, like_final.decisions(learned), search)


def cross_validate(
    cohort: Cohort,
    recipe: Recipe,
    task: Task,
    splits: Sequence[Split],
    candidates: Sequence[Parameters],
    groups: np.ndarray | None = None,
    *,
    seed: int = 0,
    jobs: int = -1,
    progress: Progress | None = None,
    memory: int | None = None,
) -> tuple[list[Fold], Search]:
    """Score every row by a model that has not seen it, nor chosen its parameters on it.

    Parameters
    ----------
    cohort : Cohort with labels
    splits : sequence of (train, test) row numbers
    candidates : sequence of dict
        Parameter settings of the recipe; the first is the default.
    groups : ndarray, shape (n_rows,), or None
        Kept whole in the inner folds too.
    progress : callable, optional
        Called with (fits finished, fits in all).
    memory : int, optional
        Bytes for kernel matrices: fewer fits run side by side where two would take more.

    Returns
    -------
    folds : list of Fold, in the order of splits
    search : Search
        The choice on all rows, for the final fit.
    """
    n_choices = (len(splits) + 1) * INNER_FOLDS if len(candidates) > 1 else 0
    total = n_choices + len(splits)
    finished = 0
    jobs = min(effective_n_jobs(jobs), shared.side_by_side(rows_held(candidates, cohort.n_rows), memory))

    def run(tasks: list[Any]) -> list[Any]:
        nonlocal finished
        results = []
        at_once = [delayed(beside_others)(jobs, function, *given) for function, given, _ in tasks]
        # Threads: the solvers release the interpreter lock, and a patient's table is not copied to workers.
        for result in Parallel(n_jobs=jobs, prefer="threads", return_as="generator")(at_once):
            results.append(result)
            finished += 1
            if progress is not None:
                progress(finished, total)
        return results

    everything = np.arange(cohort.n_rows)
    subsets = [train for train, _ in splits] + [everything]
    searches = choose_parameters(cohort, recipe, task, subsets, candidates, groups, seed, run, memory)
    folds = run(
        [
            delayed(_run_fold)(cohort, recipe, task, groups, number, rows, search, searches[-1], memory)
            for number, (rows, search) in enumerate(zip(splits, searches, strict=False))
        ]
    )
    return folds, searches[-1]
