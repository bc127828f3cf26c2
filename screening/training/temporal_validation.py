"""Forward validation: train on the past, test on what came after, as the model will be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from screening.cohort.cohort import Cohort, labels_of
from screening.documents.validation import Forward
from screening.errors import CohortError, RecipeError, UsageError
from screening.training.planning import Groundwork
from screening.validation.held_out import HeldOut
from screening.validation.judge import Later
from screening.validation.task import Task
from screening.validation.validation import Validation

PAST_SHARE = 0.7
FEWEST_CASES = 5


def split_by_time(cohort: Cohort, groups: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, str]:
    """Rows of the first 70 % and of what came after, whole days and whole groups on one side.

    A group that reaches over the cut belongs to the past; so does a row without a date.

    `cut`: first day of what came after, YYYY-MM-DD.
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


def past_and_later(
    cohort: Cohort,
    task: Task,
    groups: np.ndarray | None,
    hold_out: Callable[[Cohort], tuple[Groundwork, HeldOut]],
) -> Later | Forward:
    """Hold rows out of the past alone, and score what came after: what a rule is then judged on.

    `groups`, shape (n_rows,). `hold_out`: the whole training but for the threshold, on the rows it is given.
    """
    try:
        past, later, cut = split_by_time(cohort, groups)
        facts = Forward(cut=cut, n_past=len(past), n_later=len(later), reason=None)
        cases = task.is_watched(labels_of(cohort))
        fewest = min(int(cases[rows, m].sum()) for rows in (past, later) for m in range(cases.shape[1]))
        if fewest < FEWEST_CASES:
            reason = f"a side of the cut holds {fewest} cases; {FEWEST_CASES} are needed"
            return replace(facts, classes={}, reason=reason)
        # The whole table's labels were judged already; of the past alone some may be rare.
        cases = cohort.y(task.positive) if task.positive else np.zeros(cohort.n_rows)
        others = sorted(set(labels_of(cohort)[cases == 0])) if task.positive else []
        known = cohort.contract.with_roles(positive=list(task.positive), negative=others)
        ground, held_out = hold_out(replace(cohort.take(past), contract=known, rows=np.arange(len(past))))
        own, test = ground.task, cohort.take(later)
        scores = held_out.ensemble.decisions(held_out.encoder.transform(test))[:, own.watched_columns]
        truth = own.is_watched(labels_of(test))
    except (UsageError, CohortError, RecipeError) as error:
        return Forward(reason=f"training on the past alone failed: {error}")
    # As the rows stand among all, so that they are judged in one order now and from the stored model.
    order = np.argsort(ground.sample.rows)
    trained = held_out.ensemble.decisions(held_out.encoded.x)[:, own.watched_columns]
    return Later(
        facts=facts,
        recipe=held_out.recipe.name,
        task=own,
        past=Validation.of(held_out, ground.sample, own, ground.plan.groups).take(order),
        trained=trained[order],
        scores=scores,
        watched=truth,
        groups=None if groups is None else groups[later],
        past_rows=past,
        later_rows=later,
    )
