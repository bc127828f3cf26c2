"""Backward pruning of majority support vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import starmap
from typing import ClassVar, NamedTuple

import numpy as np

from screening.estimators.remedies.base import Remedy
from screening.estimators.training import (
    SolveTraining,
    Training,
    drop_small_alphas,
    dual_solutions,
    expand_rows,
    inner_folds,
    mean_recall,
    solve_two_class,
    two_class_problem,
)
from screening.factors.base import check_count
from screening.factors.first_pass import DualSolution
from screening.kernels import rescaled
from screening.solvers import Problem, Solutions
from screening.solvers.leave_one_out import leave_one_out


@dataclass(frozen=True)
class Pruning(Remedy):
    """Support-vector pruning, Chen et al. (2005).

    Trains on all rows, then on the minority rows and the majority support vectors
    alone, and removes one of these at a time: it trains again without each, and removes
    the one that makes J = (accuracy of the minority) / (error of the majority) largest
    over all training rows.

    Parameters
    ----------
    n_remove : int >= 0 or "inner"
        "inner" removes as many as gave the best out-of-fold G-mean, the fewest of
        equally good numbers.
    rule : {"max", "min"}
        "min" follows the paper's text literally and removes the vector with the
        smallest J.
    most : int, >= 1
        Largest number of removals that "inner" tries.
    trials, inner_trials : int, >= 0
        Candidates that are tried at each removal, those with the largest alpha; 0 for
        all, as published, in a time that grows with the square of their number.
        ``inner_trials`` is for the folds of "inner", which look for the number of
        removals and not for the vectors.
    folds : int, >= 2
        Folds of "inner".
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

    def solve(self, training: Training, solve: SolveTraining) -> DualSolution:
        """Solve the pass, then prune.

        The path is noted as "pruning_path"; as "pruning_curve" what inner folds chose
        the number of removals by: the share of the minority found and of the majority
        flagged on rows held out, after each removal from none on.
        """
        curve = np.zeros((0, 2))
        if self.n_remove == "inner":
            n_remove, curve = self._choose_n_remove(training, solve)
        else:
            n_remove = int(self.n_remove)
        path = []
        for step in self._prune(training, solve, n_remove, self.trials):
            path.append((step.removed, *step.quality))
        pruning_path = np.array(path[1:], float).reshape(-1, 4)
        noted = {
            **step.dual.noted,
            "pruning_path": pruning_path,
            "pruning_curve": curve,
        }
        return replace(step.dual, noted=noted)

    def _choose_n_remove(
        self, training: Training, solve: SolveTraining
    ) -> tuple[int, np.ndarray]:
        """Choose the number of removals with the best out-of-fold G-mean.

        And the shares of the minority found and of the majority flagged after each
        removal, (n_removals + 1, 2).
        """
        codes = (training.labels > 0).astype(int)
        max_removed = int(self.most)
        predicted = np.full((max_removed + 1, len(codes)), -1)
        folds = inner_folds(codes, training.groups, self.folds, self.seed)
        for train, test in folds:
            part = training.take(train)
            n_removed = 0
            steps = self._prune(part, solve, max_removed, self.inner_trials)
            for n_removed, step in enumerate(steps):
                used = np.flatnonzero(step.dual.weights[:, 0])
                vectors = train[used]
                across = rescaled(
                    training.gram[np.ix_(test, vectors)],
                    training.c[test],
                    training.c[vectors],
                )
                sums = across @ step.dual.weights[used, 0]
                predicted[n_removed, test] = sums + step.dual.intercept > 0
            max_removed = n_removed
        tested = predicted[0] >= 0
        if not tested.any():
            return 0, np.zeros((0, 2))
        target = codes[tested]
        predicted = predicted[: max_removed + 1, tested]
        recalls = [mean_recall(target, of_step) for of_step in predicted]
        minority = int(2 * codes.sum() <= len(codes))
        is_minority = target == minority
        called_minority = predicted == minority
        found = called_minority[:, is_minority].mean(axis=1)
        flagged = called_minority[:, ~is_minority].mean(axis=1)
        return int(np.argmax(recalls)), np.column_stack([found, flagged])

    def _prune(
        self, training: Training, solve: SolveTraining, n_remove: int, trials: int
    ) -> Iterator[Step]:
        """Yield the machine before any removal, then after each removal."""
        search = _Search(training, solve)
        step = search.first()
        yield search.over_all_rows(step)
        for _ in range(min(n_remove, len(search.left) - 1)):
            candidates = search.left
            if 0 < trials < len(candidates):
                alphas = np.abs(step.dual.weights[candidates, 0])
                largest_first = np.argsort(-alphas, kind="stable")
                candidates = np.sort(candidates[largest_first[:trials]])
            step = search.best_without(candidates, step, largest=self.rule == "max")
            search.left = search.left[search.left != step.removed]
            yield search.over_all_rows(step)


class Quality(NamedTuple):
    """Quality of a machine over all training rows."""

    j: float  # minority accuracy / majority error
    accuracy: float  # share of the minority that is classified correctly
    error: float  # share of the majority that is misclassified


@dataclass(frozen=True)
class Step:
    """A machine on the way.

    Parameters
    ----------
    removed : int
        Row that was removed last, -1 for none.
    dual : DualSolution
    quality : Quality
    """

    removed: int
    dual: DualSolution
    quality: Quality


class _Search:
    """The majority rows that are left, and machines trained on them and the minority.

    Rows are numbered by their positions among the minority rows and the majority
    support vectors, in row order.
    """

    def __init__(self, training: Training, solve: SolveTraining) -> None:
        self._solve = solve
        self._c = training.c
        self._labels = training.labels
        positive = training.labels > 0
        if 2 * positive.sum() <= len(positive):
            self._is_minority = positive
        else:
            self._is_minority = ~positive
        is_support = solve(training).weights[:, 0] != 0
        self._rows = np.flatnonzero(self._is_minority | is_support)
        gram = training.gram[np.ix_(self._rows, self._rows)]
        part = training.take(self._rows)
        self._part = replace(part, gram=np.asarray(gram, float))
        # Every candidate is evaluated on all training rows: their kernel to these is
        # computed once.
        self._across = training.gram[:, self._rows] * self._part.c
        self._minority = np.flatnonzero(self._is_minority[self._rows])
        self.left = np.flatnonzero(~self._is_minority[self._rows])

    def first(self) -> Step:
        """Return the machine before any removal."""
        dual = self._fit(self.left)
        return Step(-1, dual, self._quality(dual))

    def best_without(self, candidates: np.ndarray, step: Step, largest: bool) -> Step:
        """Return the machine without the candidate that gives the largest J.

        The smallest J unless `largest`.
        """
        # A row without an alpha is not in the machine: it changes nothing.
        is_used = step.dual.weights[candidates, 0] != 0
        used = candidates[is_used].astype(int)
        qualities = {int(row): step.quality for row in candidates}
        is_plain = self._solve is solve_two_class
        if is_plain and len(used):
            problem, solutions = self._solve_without(step, used)
            weights = (problem.signs * drop_small_alphas(solutions.alphas)).T
            new_qualities = self._qualities(weights, solutions.intercepts)
        else:
            duals = [self._fit(self.left[self.left != row]) for row in used]
            new_qualities = list(map(self._quality, duals))
        qualities |= dict(zip(used.tolist(), new_qualities, strict=True))
        j = np.array([quality.j for quality in qualities.values()])
        # J counts rows, so many candidates tie: of these the one with the largest alpha
        # is removed.
        is_best = j == (j.max() if largest else j.min())
        alphas = np.abs(step.dual.weights[candidates, 0])
        alpha_if_best = np.where(is_best, alphas, -1.0)
        best = int(candidates[alpha_if_best.argmax()])
        dual = step.dual
        if best in used:
            index = int(np.flatnonzero(used == best)[0])
            if is_plain:
                (dual,) = dual_solutions(problem, [solutions[index]])
            else:
                dual = duals[index]
        return Step(best, dual, qualities[best])

    def _solve_without(self, step: Step, rows: np.ndarray) -> tuple[Problem, Solutions]:
        """Solve the plain machine without each of these rows, from the current one."""
        inside = np.zeros(len(self._rows), bool)
        inside[self._minority] = True
        inside[self.left] = True
        costs = np.where(inside, self._part.costs, 0.0)
        problem = two_class_problem(replace(self._part, costs=costs))
        alphas = np.abs(step.dual.weights[:, 0])
        return problem, leave_one_out(problem, self._part.tol, alphas, rows)

    def over_all_rows(self, step: Step) -> Step:
        """Return the step with rows numbered as in the training table."""
        removed = step.removed
        if removed >= 0:
            removed = int(self._rows[removed])
        dual = expand_rows(step.dual, self._rows, len(self._labels))
        return replace(step, removed=removed, dual=dual)

    def _fit(self, majority: np.ndarray) -> DualSolution:
        """Solve on the minority and these majority rows."""
        taken = np.sort(np.concatenate([self._minority, majority]))
        dual = self._solve(self._part.take(taken))
        return expand_rows(dual, taken, len(self._rows))

    def _quality(self, dual: DualSolution) -> Quality:
        """Return the quality of one machine."""
        (quality,) = self._qualities(dual.weights, dual.intercept)
        return quality

    def _qualities(self, weights: np.ndarray, intercepts: np.ndarray) -> list[Quality]:
        """Return the quality of k machines, with weights (n, k) and intercepts (k,)."""
        sums = self._c[:, None] * (self._across @ weights)
        predicted = sums > -intercepts
        correct = predicted == (self._labels > 0)[:, None]
        accuracy = correct[self._is_minority].mean(axis=0)
        n_wrong = (~correct[~self._is_minority]).sum(axis=0)
        n_majority = int((~self._is_minority).sum())
        # Half an error at least, so that J is finite.
        j = accuracy / (np.maximum(n_wrong, 0.5) / n_majority)
        error = n_wrong / n_majority
        columns = np.column_stack([j, accuracy, error])
        return list(starmap(Quality, columns.tolist()))
