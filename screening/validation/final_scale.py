"""Out-of-fold scores on the scale of the model fitted on all rows, and the thresholds chosen on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from screening.cohort.cohort import Cohort
from screening.operating_point import OperatingPoint, Rule, choose
from screening.statistics.placement import like_anchor, place
from screening.task import Task
from screening.validation.out_of_fold import Fitted, Fold, labels_of


@dataclass(frozen=True)
class Validation:
    """Everything known of a recipe from rows it had not seen, with the scores on the final model's scale.

    Parameters
    ----------
    rows : ndarray of int, shape (n_scores,)
        Row of the training cohort each score belongs to; every row occurs once a repeat.
    scores : ndarray, shape (n_scores, n_watched)
    predicted : ndarray of int, shape (n_scores,), or None
        Class with the largest decision; None for a binary task.
    """

    rows: np.ndarray
    fold: np.ndarray
    scores: np.ndarray
    predicted: np.ndarray | None
    placement: str

    def clusters(self, groups: np.ndarray | None, repeats: int) -> np.ndarray | None:
        """What is one independent observation: the group, or the row where rows are scored several times."""
        if groups is not None:
            return groups[self.rows]
        return self.rows.astype(str) if repeats > 1 else None


def on_final_scale(
    folds: list[Fold], final: Fitted, sample: Cohort, task: Task, grouped: bool = False
) -> Validation:
    """Place every fold's out-of-fold decisions on the scale of the model fitted on all rows (METHODS 4)."""
    columns = slice(None) if task.kind == "binary" else task.watched_columns
    reference = final.decisions(sample)[:, columns]
    watched = task.is_watched(labels_of(sample))
    # A patient's positive rows are no strangers to a model that learned from the same patient's negatives.
    unlearned = final.one_class and not grouped
    placed, numbers, predicted = [], [], []
    statement = ""
    for fold in folds:
        test = fold.decisions[:, columns]
        anchor = fold.anchor[:, columns]
        own = fold.train_decisions[:, columns]
        moved = np.empty_like(test)
        for m in range(test.shape[1]):
            of_class, in_fold = watched[:, m], watched[fold.train_rows, m]
            moved[:, m], statement = place(
                like_anchor(test[:, m], anchor[:, m], ~of_class[fold.test_rows]),
                own[~in_fold, m],
                reference[~of_class, m],
                own[in_fold, m],
                reference[of_class, m],
                unlearned=(of_class[fold.test_rows], reference[fold.test_rows, m]) if unlearned else None,
            )
        placed.append(moved)
        numbers.append(np.full(len(fold.test_rows), fold.number))
        predicted.append(fold.decisions.argmax(axis=1))
    return Validation(
        rows=np.concatenate([fold.test_rows for fold in folds]),
        fold=np.concatenate(numbers),
        scores=np.concatenate(placed),
        predicted=None if task.kind == "binary" else np.concatenate(predicted),
        placement=statement,
    )


def operating_points(
    validation: Validation,
    sample: Cohort,
    task: Task,
    rule: Rule,
    groups: np.ndarray | None,
    repeats: int,
    seed: int,
) -> list[OperatingPoint]:
    """One operating point a watched class, each by the same rule."""
    watched = task.is_watched(labels_of(sample))[validation.rows]
    together = validation.clusters(groups, repeats)
    return [
        choose(validation.scores[:, m], watched[:, m], rule, together, seed) for m in range(watched.shape[1])
    ]
