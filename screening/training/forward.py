"""Forward validation: train on the past, test on what came after, as the model will be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from screening.cohort.cohort import Cohort, labels_of
from screening.documents.figures import Observed
from screening.documents.validation import Forward, LaterClass
from screening.errors import CohortError, RecipeError, UsageError
from screening.statistics.performance import performance
from screening.storage.model import Model
from screening.validation.task import Task

PAST_SHARE = 0.7
FEWEST_CASES = 5


def split_by_time(cohort: Cohort, groups: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, str]:
    """Rows of the first 70 % and of what came after, whole days and whole groups on one side.

    A group that reaches over the cut belongs to the past; so does a row without a date.

    Returns
    -------
    past, later : ndarray of int
    cut : str
        First day of what came after, YYYY-MM-DD.
    """
    days = np.asarray(cohort.time).astype("datetime64[D]")
    known = ~np.isnat(days)
    first = days.copy()
    if groups is not None:
        place = np.unique(groups, return_inverse=True)[1].ravel()
        first_of = np.full(place.max() + 1, np.datetime64("9999-12-31"))
        np.minimum.at(first_of, place[known], days[known])
        first = first_of[place]
    if not known.any():
        raise UsageError("no row has a date")
    cut = np.sort(first[known])[min(int(PAST_SHARE * known.sum()), known.sum() - 1)]
    after = known & (first >= cut)
    return np.flatnonzero(~after), np.flatnonzero(after), str(cut)


def forward_validation(
    cohort: Cohort, task: Task, groups: np.ndarray | None, learn: Callable[[Cohort], Model]
) -> Forward:
    """Train on the past with everything chosen there, and see what the threshold does to what came after.

    Parameters
    ----------
    cohort : Cohort with labels and times
    groups : ndarray, shape (n_rows,), optional
    learn : callable
        The whole training, parameters and threshold included, on the rows it is given.

    Returns
    -------
    Forward
        Figures of each class, or the reason why it says nothing.
    """
    try:
        past, later, cut = split_by_time(cohort, groups)
        facts = Forward(cut=cut, n_past=len(past), n_later=len(later), classes={}, reason=None)
        cases = task.is_watched(labels_of(cohort))
        fewest = min(int(cases[rows, m].sum()) for rows in (past, later) for m in range(cases.shape[1]))
        if fewest < FEWEST_CASES:
            return replace(facts, reason=f"a side of the cut holds {fewest} cases; {FEWEST_CASES} are needed")
        # The whole table's labels were judged already; of the past alone some may be rare.
        others = [text for text in cohort.classes if text not in task.positive]
        known = cohort.contract.with_roles(positive=list(task.positive), negative=others)
        model = learn(replace(cohort.take(past), contract=known))
        test = cohort.take(later)
        scores = model.scores(model.encoder.transform(test))
        truth = Task.of(model.facts.task).is_watched(labels_of(test))
    except (UsageError, CohortError, RecipeError) as error:
        return Forward(reason=f"training on the past alone failed: {error}")
    inside = None if groups is None else groups[later]
    classes = {
        name: performance(scores[:, m], truth[:, m], model.thresholds[m], inside)
        for m, name in enumerate(model.watched)
    }
    return replace(facts, classes={name: _later(found) for name, found in classes.items()})


def _later(found: Observed) -> LaterClass:
    return LaterClass(**{each.name: getattr(found, each.name) for each in fields(LaterClass)})
