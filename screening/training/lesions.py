"""The operating point by lesions: whole patients scored by machines that have not seen them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from screening.cohort.cohort import Cohort, labels_of
from screening.documents.validation import LesionFacts
from screening.errors import UsageError
from screening.lesions.froc import Patient, chosen_by_lesions
from screening.lesions.maps import lesion_map
from screening.statistics.threshold_search import Rule
from screening.validation.folds import Study
from screening.validation.held_out import HeldOut


@dataclass(frozen=True)
class ByLesions:
    """What was chosen by lesions."""

    rule: Rule  # The threshold, as a rule.
    facts: LesionFacts
    held_out: HeldOut  # With the maps' scores in the place of decisions.


def refuse_without_lesions(cohort: Cohort, rule: Rule, repeats: int | None) -> None:
    """Refuse what no operating point by lesions can be chosen for, before anything is trained."""
    if cohort.coordinates is None or cohort.group is None:
        raise UsageError("--lesions is of voxels: it needs the patient (`--group`) and x, y, z")
    if rule.name != "min_sensitivity":
        raise UsageError("--lesions goes with --min-sensitivity, which then counts lesions")
    if repeats not in (None, 1):
        raise UsageError("--lesions deals the folds once; leave --repeats out")


def by_lesions(study: Study, held_out: HeldOut, seed: int) -> ByLesions:
    """Choose smoothing, smallest cluster and threshold by the lesions of patients held out.

    Every voxel of a patient is scored, also those that are not among the rows trained on, by the machine of
    the fold that the patient was held out in.

    Raises UsageError: several classes are told apart, there are fewer patients than folds, or too few
    lesions.
    """
    cohort, sample = study.cohort, study.sample
    if study.task.kind != "binary":
        raise UsageError("--lesions tells one class from the rest; name it with --positive")
    if study.groups is not sample.group:
        raise UsageError("--lesions is validated patient by patient: give fewer --folds, or more patients")
    fold = dict(zip(np.asarray(sample.group), study.fold[0], strict=True))
    group, positive = np.asarray(cohort.group), study.task.target(labels_of(cohort)) == 1
    rows = [np.flatnonzero(group == name) for name in fold]
    patients = []
    for at, number in zip(rows, fold.values(), strict=True):
        part = cohort.take(at)
        scores = held_out.ensemble.of_one(int(number), held_out.encoder.transform(part))[:, 0]
        patients.append(Patient.of(np.asarray(part.coordinates), scores, positive[at]))
    threshold, facts = chosen_by_lesions(patients, study.rule, seed)
    scores = np.empty(cohort.n_rows)
    for at, each in zip(rows, patients, strict=True):
        scores[at] = lesion_map(each.grid, each.scores, facts.smoothing, facts.min_voxels)
    order = np.argsort(cohort.rows)
    place = order[np.searchsorted(cohort.rows, sample.rows, sorter=order)]
    return ByLesions(
        rule=Rule("threshold", threshold, prevalence=study.rule.prevalence),
        facts=facts,
        held_out=replace(held_out, decisions=scores[place][None, :, None]),
    )
