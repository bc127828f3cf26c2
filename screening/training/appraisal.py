"""What more can be said of a trained model: subgroups, predictive values, calibration, the test of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from screening.cohort.cohort import Cohort
from screening.statistics.chances import calibrate
from screening.statistics.local import at_local_prevalence
from screening.statistics.operating_point import OperatingPoint
from screening.statistics.subgroups import performance_by_subgroup
from screening.storage.model import Model
from screening.training.forward import forward_validation
from screening.validation.lesson import labels_of
from screening.validation.task import Task
from screening.validation.validation import Validation


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
) -> dict[str, Any]:
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
    facts: dict[str, Any] = {"subgroups": {}, "predictive": {}, "calibration": {}}
    for m, (name, point) in enumerate(zip(task.watched, points, strict=True)):
        scores, y = validation.scores[:, m], validation.watched[:, m]
        if sample.subgroups is not None:
            facts["subgroups"][name] = performance_by_subgroup(
                sample.subgroups, scores, y, point.threshold, groups, everyone[:, m].mean()
            )
        facts["predictive"][name] = at_local_prevalence(point, everyone[:, m], prevalence, cohort.group)
        facts["calibration"][name] = calibrate(
            scores, y, validation.fold, point.prevalence, groups, one_class
        )
    if learn is not None and sample.time is not None:
        facts["forward"] = forward_validation(sample, task, groups, learn)
    return facts
