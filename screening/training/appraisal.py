"""What more can be said of a trained model: subgroups, predictive values, calibration, the test of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from screening.cohort.cohort import Cohort, labels_of
from screening.documents.validation import Calibration, Forward, Predictive, SubgroupFacts
from screening.statistics.calibration import calibrate
from screening.statistics.operating_point import OperatingPoint
from screening.statistics.prevalence import at_local_prevalence
from screening.statistics.subgroups import performance_by_subgroup
from screening.storage.model import Model
from screening.training.forward import forward_validation
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
