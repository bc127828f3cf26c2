"""Backward pruning of majority support vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from screening.estimators.remedies.base import Remedy
from screening.estimators.training import (
    Solve,
    Training,
    duals_of,
    embedded,
    inner_folds,
    mean_recall,
    solve_two_class,
    two_class_problem,
    without_dust,
)
from screening.factors.base import check_count
from screening.factors.first_pass import DualSolution
from screening.kernels import rescaled
from screening.solvers import Problem, Solutions
from screening.solvers.leave_one_out import leave_one_out


@dataclass(frozen=True)
class Pruning(Remedy):
    """Support-vector pruning, Chen et al. (2005).

    Trains on all rows, then on the minority rows and the majority support vectors alone, and removes one of
    these at a time, training again without each: the one whose removal makes
    J = (accuracy of the minority) / (error of the majority) largest over all training rows goes.

    Parameters
    ----------
    n_remove : int >= 0 or "inner"
        "inner" removes as many as gave the best out-of-fold G-mean, the fewest of equally good ones.
    rule : {"max", "min"}
        "min" is the paper's text to the letter, which removes the vector with the smallest J.
    most : int, >= 1
        Removals that "inner" looks at.
    trials, inner_trials : int, >= 0
        Candidates trained without at each removal, those with the largest alpha; 0 is all of them, as
        published, in a time that grows with the square of their number. ``inner_trials`` is for the folds of
        "inner", which look for how many to remove and not for which.
    folds : int, >= 2
        Of "inner".
    seed : int
    """

    n_remove: int | str = "inner"
    rule: str = "max"
    most: int = 50
    trials: int = 0
    inner_trials: int = 10
    folds: int = 5
    seed: int = 0

    name: ClassVar[str] = "pruning"

    def __post_init__(self) -> None:
        if self.n_remove != "inner":
            check_count("n_remove", self.n_remove, least=0, or_else=" or 'inner'")
        if self.rule not in ("max", "min"):
            raise ValueError(f"rule must be 'max' or 'min', got {self.rule!r}")
        check_count("most", self.most)
        check_count("trials", self.trials, least=0)
        check_count("inner_trials", self.inner_trials, least=0)
        check_count("folds", self.folds, least=2)

    def solve(self, training: Training, solve: Solve) -> DualSolution:
        n_remove = (
            self._inner(training, solve)
            if self.n_remove == "inner"
            else int(self.n_remove)
        )
        path = []
        for step in self._path(training, solve, n_remove, self.trials):
            path.append((step.removed, step.worth, step.accuracy, step.error))
        noted = {
            **step.dual.noted,
            "pruning_path": np.array(path[1:], float).reshape(-1, 4),
        }
        return replace(step.dual, noted=noted)

    def _inner(self, training: Training, solve: Solve) -> int:
        """Number of removals with the best out-of-fold G-mean."""
        codes = (training.labels > 0).astype(int)
        depth = int(self.most)
        predicted = np.full((depth + 1, len(codes)), -1)
        for train, test in inner_folds(codes, training.groups, self.folds, self.seed):
            part = training.take(train)
            reached = 0
            for reached, step in enumerate(
                self._path(part, solve, depth, self.inner_trials)
            ):
                used = np.flatnonzero(step.dual.weights[:, 0])
                across = rescaled(
                    training.gram[np.ix_(test, train[used])],
                    training.c[test],
                    training.c[train[used]],
                )
                predicted[reached, test] = (
                    across @ step.dual.weights[used, 0] + step.dual.intercept > 0
                )
            depth = reached
        judged = predicted[0] >= 0
        if not judged.any():
            return 0
        return int(
            np.argmax(
                [
                    mean_recall(codes[judged], codes_then[judged])
                    for codes_then in predicted[: depth + 1]
                ]
            )
        )

    def _path(
        self, training: Training, solve: Solve, n_remove: int, trials: int
    ) -> Iterator[Step]:
        """The machine on minority rows and majority support vectors, then after each removal."""
        search = _Search(training, solve)
        step = search.first()
        yield search.over_all_rows(step)
        for _ in range(min(n_remove, len(search.left) - 1)):
            tried = search.left
            if 0 < trials < len(tried):
                alphas = np.abs(step.dual.weights[tried, 0])
                tried = np.sort(tried[np.argsort(-alphas, kind="stable")[:trials]])
            step = search.best_without(tried, step, largest=self.rule == "max")
            search.left = search.left[search.left != step.removed]
            yield search.over_all_rows(step)


@dataclass(frozen=True)
class Step:
    """A machine on the way, what was removed last (-1: nothing), and J with its two parts."""

    removed: int
    dual: DualSolution
    worth: float
    accuracy: float
    error: float


class _Search:
    """What is left of the majority, and machines trained on it and the minority.

    Numbers are positions among the minority rows and the majority support vectors, in row order.
    """

    def __init__(self, training: Training, solve: Solve) -> None:
        self.trained = solve
        self.c, self.labels = training.c, training.labels
        positive = training.labels > 0
        self.is_minority = (
            positive if 2 * positive.sum() <= len(positive) else ~positive
        )
        vectors = solve(training).weights[:, 0] != 0
        self.rows = np.flatnonzero(self.is_minority | vectors)
        part = training.take(self.rows)
        self.part = replace(
            part, gram=np.asarray(training.gram[np.ix_(self.rows, self.rows)], float)
        )
        # Every candidate is judged on all training rows: their kernel to these is laid out once.
        self.across = training.gram[:, self.rows] * self.part.c
        self.minority = np.flatnonzero(self.is_minority[self.rows])
        self.left = np.flatnonzero(~self.is_minority[self.rows])

    def first(self) -> Step:
        return self._judged(-1, self._on(self.left))

    def best_without(self, tried: np.ndarray, now: Step, largest: bool) -> Step:
        """The machine without the majority row whose removal makes J largest (or smallest)."""
        # Without an alpha a row was not in the machine anyway.
        used = np.array([at for at in tried if now.dual.weights[at, 0] != 0], int)
        judged = {int(at): (now.worth, now.accuracy, now.error) for at in tried}
        if self.trained is solve_two_class and len(used):
            problem, solutions = self._from(now, used)
            weights = (problem.signs * without_dust(solutions.alphas)).T
            worths = self._worths(weights, solutions.intercepts)
        else:
            duals = [self._on(self.left[self.left != at]) for at in used]
            worths = [self._worths(dual.weights, dual.intercept)[0] for dual in duals]
        judged |= dict(zip(used.tolist(), worths, strict=True))
        values = [figures[0] for figures in judged.values()]
        best = int(tried[np.argmax(values) if largest else np.argmin(values)])
        dual = now.dual
        if best in used:
            at = int(np.flatnonzero(used == best)[0])
            dual = (
                duals_of(problem, [solutions[at]])[0]
                if self.trained is solve_two_class
                else duals[at]
            )
        return Step(best, dual, *judged[best])

    def _from(self, now: Step, used: np.ndarray) -> tuple[Problem, Solutions]:
        """The plain machine without each of these rows, from what it is with all of them."""
        inside = np.zeros(len(self.rows), bool)
        inside[self.minority] = inside[self.left] = True
        part = self.part
        problem = two_class_problem(
            replace(part, costs=np.where(inside, part.costs, 0.0))
        )
        return problem, leave_one_out(
            problem, part.tol, np.abs(now.dual.weights[:, 0]), used
        )

    def over_all_rows(self, step: Step) -> Step:
        """The step with row numbers of the training table and a dual over all of it."""
        removed = -1 if step.removed < 0 else int(self.rows[step.removed])
        return replace(
            step, removed=removed, dual=embedded(step.dual, self.rows, len(self.labels))
        )

    def _on(self, majority: np.ndarray) -> DualSolution:
        taken = np.sort(np.concatenate([self.minority, majority]))
        return embedded(self.trained(self.part.take(taken)), taken, len(self.rows))

    def _judged(self, removed: int, dual: DualSolution) -> Step:
        return Step(removed, dual, *self._worths(dual.weights, dual.intercept)[0])

    def _worths(
        self, weights: np.ndarray, intercepts: np.ndarray
    ) -> list[tuple[float, float, float]]:
        """J, the minority's accuracy and the majority's error of machines (n, k), over all training rows."""
        right = (self.c[:, None] * (self.across @ weights) > -intercepts) == (
            self.labels > 0
        )[:, None]
        accuracy = right[self.is_minority].mean(axis=0)
        n_wrong = (~right[~self.is_minority]).sum(axis=0)
        n_majority = int((~self.is_minority).sum())
        worth = accuracy / (np.maximum(n_wrong, 0.5) / n_majority)
        return list(
            zip(
                worth.tolist(),
                accuracy.tolist(),
                (n_wrong / n_majority).tolist(),
                strict=True,
            )
        )
