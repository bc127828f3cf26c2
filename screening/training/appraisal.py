"""What is said of a model beyond its operating point: subgroups, predictive values, chances, time, class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from screening.cohort.cohort import Cohort, labels_of
from screening.documents.figures import Observed
from screening.documents.validation import (
    Calibration,
    Confusion,
    Forward,
    LaterClass,
    PerClass,
    Predictive,
    SubgroupFacts,
)
from screening.errors import CohortError, RecipeError, UsageError
from screening.statistics.calibration import calibrate
from screening.statistics.intervals import wilson
from screening.statistics.operating_point import OperatingPoint
from screening.statistics.performance import performance
from screening.statistics.prevalence import at_local_prevalence
from screening.statistics.subgroups import performance_by_subgroup
from screening.storage.model import Model
from screening.validation.task import Task
from screening.validation.validation import Validation


@dataclass(frozen=True)
class Appraisal:
    """What was found, by watched class; `forward` is None where there is no time to split by."""

    subgroups: Mapping[str, Sequence[SubgroupFacts]]
    predictive: Mapping[str, Predictive]
    calibration: Mapping[str, Calibration]
    forward: Forward | None


def appraise(
    cohort: Cohort,
    sample: Cohort,
    task: Task,
    points: list[OperatingPoint],
    validation: Validation,
    *,
    one_class: bool,
    prevalence: float | None,
    learn: Callable[[Cohort], Model] | None,
) -> Appraisal:
    """The parts of `model.json`'s validation that the operating point and its curve do not hold.

    Parameters
    ----------
    cohort, sample : Cohort
        All rows of the table, and those trained and validated on.
    prevalence : float, optional
        As the contract or the caller states it.
    learn : callable, optional
        Trains on rows of the past, for the forward validation; None where it is itself such a training.
    """
    everyone = task.is_watched(labels_of(cohort))
    groups = validation.groups
    subgroups, predictive, calibration = {}, {}, {}
    for m, (name, point) in enumerate(zip(task.watched, points, strict=True)):
        scores, y = validation.scores[:, m], validation.watched[:, m]
        if sample.subgroups is not None:
            subgroups[name] = performance_by_subgroup(
                sample.subgroups, scores, y, point.threshold, groups, everyone[:, m].mean()
            )
        predictive[name] = at_local_prevalence(point, everyone[:, m], prevalence, cohort.group)
        calibration[name] = calibrate(scores, y, validation.fold, point.prevalence, groups, one_class)
    forward = (
        None if learn is None or sample.time is None else forward_validation(sample, task, groups, learn)
    )
    return Appraisal(subgroups, predictive, calibration, forward)


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


def per_class(
    target: np.ndarray, predicted: np.ndarray, classes: tuple[str, ...]
) -> tuple[Confusion, list[PerClass]]:
    """Counts, true class by row, and recall with precision a class."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (target, predicted), 1)
    rows = []
    for m, name in enumerate(classes):
        n, hits, called = int(counts[m].sum()), int(counts[m, m]), int(counts[:, m].sum())
        low, high = map(float, wilson(hits, n)) if n else (None, None)
        rows.append(
            PerClass(
                label=name,
                n=n,
                recall=hits / n if n else None,
                recall_low=low,
                recall_high=high,
                precision=hits / called if called else None,
            )
        )
    return Confusion(classes=list(classes), counts=counts.tolist()), rows
