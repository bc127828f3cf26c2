"""Lesions: maps of scores smoothed within the mask and opened by area, and what a threshold finds in them.

An area opening lowers each voxel's score to the highest level at which it lies in a connected cluster of the
smallest size that counts. A voxel then reaches a threshold, whichever, if and only if it is part of a large
enough cluster of voxels that do: one rule, score against threshold, serves voxels and lesions alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import gaussian_filter, label

from screening.data.cohort import Cohort, labels_of
from screening.errors import UsageError
from screening.imaging.neighbourhood import cells_of
from screening.kernels.jit import njit
from screening.metrics.intervals import (
    beta_quantile,
    design_effect,
    percentiles,
    share_range,
    student_size_factor,
)
from screening.metrics.operating_point import FLAG_EVERYTHING, pick
from screening.model_selection.folds import Study
from screening.model_selection.held_out import HeldOut
from screening.model_selection.scores import HeldOutScores
from screening.schemas.base import Estimate
from screening.schemas.figures import MinSensitivity, Rule, Threshold
from screening.schemas.validation import Froc, LesionFacts
from screening.store.model import Model

CONNECTIVITY = 26
"""Voxels that share a face, an edge or a corner are neighbours."""


@dataclass(frozen=True)
class Grid:
    """Where the voxels of one patient lie."""

    place: np.ndarray  # Shape (n, 3), of whole numbers.
    shape: tuple[int, ...]

    @classmethod
    def of(cls, coordinates: np.ndarray) -> Grid:
        """The grid of one patient's coordinates (CohortError: two voxels in one place, or too far apart)."""
        return cls(*cells_of(np.asarray(coordinates, dtype=float)))

    def filled(self, values: np.ndarray) -> np.ndarray:
        """Values on the grid, 0 (or False) where there is no voxel."""
        grid = np.zeros(self.shape, dtype=values.dtype)
        grid[*self.place.T] = values
        return grid

    def clusters(self, chosen: np.ndarray) -> np.ndarray:
        """Number of the connected cluster of each chosen voxel, from 1; 0 for the others, shape (n,)."""
        return np.asarray(
            label(self.filled(chosen), structure=np.ones((3, 3, 3)))[0][*self.place.T]
        )


def smoothed(grid: Grid, scores: np.ndarray, sd: float) -> np.ndarray:
    """Scores averaged with their surroundings by a Gaussian within the mask; `sd` in voxels, 0 for none."""
    if sd == 0:
        return scores
    # About 0, so that the mask's edge costs no digits.
    middle = float(scores.mean())
    weight, total = (
        gaussian_filter(grid.filled(values), sd, mode="constant", truncate=3.0)[
            *grid.place.T
        ]
        for values in (np.ones(len(scores)), scores - middle)
    )
    return np.asarray(middle + total / weight)


def opened(grid: Grid, scores: np.ndarray, min_voxels: int) -> np.ndarray:
    """The area opening of a map, shape (n,).

    An island of the mask that has fewer voxels altogether gets the map's lowest score.
    """
    if min_voxels <= 1:
        return scores
    padded = tuple(side + 2 for side in grid.shape)
    at = np.ravel_multi_index(tuple(grid.place.T + 1), padded)
    row_at = np.full(int(np.prod(padded)), -1, dtype=np.int64)
    row_at[at] = np.arange(len(at))
    strides = np.array([padded[1] * padded[2], padded[2], 1])
    steps = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3, indexing="ij"), axis=-1).reshape(
        -1, 3
    )
    offsets = (steps @ strides)[np.any(steps != 0, axis=1)]
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    order = np.argsort(-scores, kind="stable")
    return np.asarray(
        _area_opening(
            scores, order, at, row_at, offsets, min_voxels, float(scores.min())
        )
    )


def lesion_map(
    grid: Grid, scores: np.ndarray, sd: float, min_voxels: int
) -> np.ndarray:
    """The scores of one patient's voxels by which lesions are flagged, shape (n,)."""
    return opened(grid, smoothed(grid, scores, sd), min_voxels)


def scored_as_map(
    how: LesionFacts, coordinates: np.ndarray, decisions: np.ndarray
) -> np.ndarray:
    """Decisions on one patient's voxels, shape (n, 1), as those of the patient's map."""
    return lesion_map(
        Grid.of(coordinates), decisions[:, 0], how.smoothing, how.min_voxels
    )[:, None]


@njit(nogil=True, cache=True)
def _area_opening(scores, order, at, row_at, offsets, least, floor):
    """The highest level at which each voxel lies in a connected cluster of at least `least` voxels.

    Union-find after Meijster and Wilkinson (2002). `order` has the rows by falling score, `at` the cell of
    each row in a padded grid, `row_at` the row in each cell or -1, `offsets` the steps to neighbouring cells.
    `floor` is given to voxels of a mask's islands that are smaller than `least`.
    """
    n = scores.size
    parent, size = np.full(n, -1), np.zeros(n, np.int64)
    for step in range(n):
        own = order[step]
        parent[own], size[own] = own, 1
        for offset in offsets:
            near = row_at[at[own] + offset]
            if near < 0 or parent[near] < 0:
                continue
            root = near
            while parent[root] != root:
                root = parent[root]
            while parent[near] != root:
                onward = parent[near]
                parent[near] = root
                near = onward
            if root == own:
                continue
            if size[root] < least or scores[root] == scores[own]:
                parent[root] = own
                size[own] += size[root]
            else:
                # It touches what is large enough already, and keeps its own level.
                size[own] = least
    result = np.empty(n)
    for step in range(n - 1, -1, -1):
        own = order[step]
        if parent[own] != own:
            result[own] = result[parent[own]]
        else:
            result[own] = scores[own] if size[own] >= least else floor
    return result


# Standard deviations of the Gaussian, in voxels, and sizes of the smallest cluster that counts.
SMOOTHINGS = (0.0, 1.0)
SMALLEST = (1, 5, 20)
CURVE = 30
"""Thresholds of the FROC curve."""
DRAWS = 2000


@dataclass(frozen=True)
class Patient:
    """One patient whose lesions are known.

    `scores`, shape (n,), are of a machine that has not seen the patient; `lesion`, shape (n,), has the number
    of the connected lesion that a voxel lies in, from 1, and 0 for none.
    """

    grid: Grid
    scores: np.ndarray
    lesion: np.ndarray

    @classmethod
    def of(
        cls, coordinates: np.ndarray, scores: np.ndarray, positive: np.ndarray
    ) -> Patient:
        """A patient by the voxels that are positive: those that touch are one lesion."""
        grid = Grid.of(coordinates)
        return cls(grid, scores, grid.clusters(positive))

    def peaks(self, scores: np.ndarray) -> np.ndarray:
        """The highest score in each lesion, shape (n_lesions,)."""
        peaks = np.full(int(self.lesion.max(initial=0)) + 1, -np.inf)
        np.maximum.at(peaks, self.lesion, scores)
        return peaks[1:]

    def false_clusters(self, scores: np.ndarray, threshold: float) -> int:
        """How many connected clusters at or above the threshold touch no lesion."""
        number = self.grid.clusters(scores >= threshold)
        return int(number.max(initial=0)) - len(
            np.unique(number[(number > 0) & (self.lesion > 0)])
        )


@dataclass(frozen=True)
class _Setting:
    """What one way of smoothing and opening finds."""

    smoothing: float
    min_voxels: int
    peaks: np.ndarray
    codes: np.ndarray
    threshold: float
    design: float
    false: np.ndarray

    @property
    def cost(self) -> tuple[float, float, int]:
        """Fewest false clusters first, then the least that is done to the map."""
        return float(self.false.mean()), self.smoothing, self.min_voxels


def refuse_without_lesions(cohort: Cohort, rule: Rule, repeats: int | None) -> None:
    """Refuse what no operating point by lesions can be chosen for, before anything is trained."""
    if cohort.coordinates is None or cohort.group is None:
        raise UsageError(
            "--lesions is of voxels: it needs the patient (`--group`) and x, y, z"
        )
    if not isinstance(rule, MinSensitivity):
        raise UsageError(
            "--lesions goes with --min-sensitivity, which then counts lesions"
        )
    if repeats not in (None, 1):
        raise UsageError("--lesions deals the folds once; leave --repeats out")


def by_lesions(study: Study, held_out: HeldOut) -> tuple[Rule, LesionFacts, HeldOut]:
    """Choose smoothing, smallest cluster and threshold by the lesions of patients held out.

    Gives the threshold as a rule, and the maps' scores in the place of decisions. Every voxel of a patient is
    scored, also where it was not trained on, by the machine of the fold that the patient was held out in.
    """
    cohort, sample = study.cohort, study.sample
    if study.task.kind != "binary":
        raise UsageError(
            "--lesions tells one class from the rest; name it with --positive"
        )
    if study.groups is not sample.group:
        raise UsageError(
            "--lesions is validated patient by patient: give fewer --folds, or more patients"
        )
    fold = dict(zip(np.asarray(sample.group), study.fold[0], strict=True))
    group, positive = (
        np.asarray(cohort.group),
        study.task.target(labels_of(cohort)) == 1,
    )
    rows = [np.flatnonzero(group == name) for name in fold]
    patients = []
    for own, number in zip(rows, fold.values(), strict=True):
        part = cohort.take(own)
        scores = held_out.ensemble.decision_of(
            int(number), held_out.encoder.transform(part)
        )[:, 0]
        patients.append(Patient.of(np.asarray(part.coordinates), scores, positive[own]))
    assert isinstance(study.rule, MinSensitivity)  # as `refuse_without_lesions` saw
    threshold, facts = chosen_by_lesions(patients, study.rule, study.seed)
    scores = np.empty(cohort.n_rows)
    for own, patient in zip(rows, patients, strict=True):
        scores[own] = lesion_map(
            patient.grid, patient.scores, facts.smoothing, facts.min_voxels
        )
    order = np.argsort(cohort.rows)
    position = order[np.searchsorted(cohort.rows, sample.rows, sorter=order)]
    rule = Threshold(threshold, prevalence=study.rule.prevalence)
    return rule, facts, replace(held_out, decisions=scores[position][None, :, None])


def chosen_by_lesions(
    patients: Sequence[Patient], rule: MinSensitivity, seed: int
) -> tuple[float, LesionFacts]:
    """The threshold, and how maps are smoothed and opened: fewest false clusters at the sensitivity asked.

    The rule is of lesions; `seed` is of the draws behind the interval of false clusters.
    Raises UsageError where there are too few lesions for the promise.
    """
    settings = [
        _setting(patients, rule, sd, least) for sd in SMOOTHINGS for least in SMALLEST
    ]
    best = min(settings, key=lambda setting: setting.cost)
    m, misses = len(best.peaks), int((best.peaks < best.threshold).sum())
    worth = student_size_factor(len(np.unique(best.codes))) / best.design
    hits, missed = worth * (m - misses), worth * misses
    sensitivity = (m - misses) / (m + best.design)
    return best.threshold, LesionFacts(
        smoothing=best.smoothing,
        min_voxels=best.min_voxels,
        connectivity=CONNECTIVITY,
        asked=rule.value,
        n_patients=len(patients),
        n_lesions=m,
        missed=misses,
        sensitivity=Estimate(
            sensitivity,
            min(float(beta_quantile(0.025, hits, missed + 1)), sensitivity),
            max(float(beta_quantile(0.975, hits + 1, missed)), sensitivity),
        ),
        false_positives=_false_range(best.false, seed),
        n_settings=len(settings),
        froc=_curve(patients, best),
    )


def lesions_elsewhere(
    model: Model, held: HeldOutScores, rows: Cohort
) -> tuple[LesionFacts, float | None]:
    """What the model's threshold did to other patients' lesions, and what the same promise would take there.

    `held` has the scores of the rows' maps, smoothed and opened as the model says. The share found
    is as seen, with Wilson's interval by patient. The threshold is None where there are too few lesions.
    """
    how, threshold = model.lesions, model.thresholds[0]
    assert how is not None and rows.coordinates is not None
    scores, lesion = held.scores[:, 0], held.watched[:, 0]
    names = np.asarray(rows.group)
    patients = [
        Patient.of(rows.coordinates[own], scores[own], lesion[own])
        for own in (names == name for name in np.unique(names))
    ]
    peaks, codes = _peaks(patients, [patient.scores for patient in patients])
    false = np.array(
        [patient.false_clusters(patient.scores, threshold) for patient in patients],
        dtype=float,
    )
    here = _Setting(0.0, 1, peaks, codes, threshold, 1.0, false)
    try:
        local = _threshold(peaks, codes, MinSensitivity(how.asked))[0]
    except UsageError:
        local = None
    seen = how.replace(
        n_patients=len(patients),
        n_lesions=len(peaks),
        missed=int((peaks < threshold).sum()),
        sensitivity=Estimate(*share_range(peaks >= threshold, codes)),
        false_positives=_false_range(false, model.facts.training.seed),
        froc=_curve(patients, here),
    )
    return seen, local


def _false_range(false: np.ndarray, seed: int) -> Estimate:
    """False clusters a patient, with the interval of resampled patients."""
    draws = np.random.default_rng(seed).choice(false, (DRAWS, len(false))).mean(axis=1)
    low, high = percentiles(draws[:, None], len(false))
    return Estimate(false.mean(), max(low[0], 0.0), high[0])


def _maps(patients: Sequence[Patient], sd: float, least: int) -> list[np.ndarray]:
    return [lesion_map(patient.grid, patient.scores, sd, least) for patient in patients]


def _peaks(
    patients: Sequence[Patient], maps: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The highest score in each lesion, and the number of its patient; (n_lesions,) each."""
    peaks = [
        patient.peaks(scores) for patient, scores in zip(patients, maps, strict=True)
    ]
    return np.concatenate(peaks), np.repeat(
        np.arange(len(peaks)), [len(own) for own in peaks]
    )


def _setting(
    patients: Sequence[Patient], rule: MinSensitivity, sd: float, least: int
) -> _Setting:
    maps = _maps(patients, sd, least)
    peaks, codes = _peaks(patients, maps)
    threshold, design = _threshold(peaks, codes, rule)
    false = [
        patient.false_clusters(scores, threshold)
        for patient, scores in zip(patients, maps, strict=True)
    ]
    return _Setting(
        sd, least, peaks, codes, threshold, design, np.array(false, dtype=float)
    )


def _threshold(
    peaks: np.ndarray, codes: np.ndarray, rule: MinSensitivity
) -> tuple[float, float]:
    """The largest threshold that keeps the promise of new lesions, and the design effect of those below."""
    m = len(peaks)
    distinct = np.unique(peaks)
    thresholds = np.concatenate([[FLAG_EVERYTHING], distinct])
    hits = m - np.searchsorted(np.sort(peaks), thresholds, side="left")
    cut = np.sort(peaks)[min(int((1 - rule.value) * m), m - 1)] if m else 0.0
    below = peaks < cut
    design = design_effect(below, codes) if below.any() and not below.all() else 1.0
    # Too few patients for a promise about new ones: it then holds for further lesions of these, and the
    # expected sensitivity says what that is worth for others.
    for effect in (design, 1.0):
        column = int(pick(rule, hits, np.ones(len(hits)), effect)) if m else 0
        if column:
            return float(thresholds[column]), design
    raise UsageError(
        f"{m} lesions are too few to promise that {rule.value:g} of new ones are found; bring more patients, "
        "or ask for less with --min-sensitivity"
    )


def _curve(patients: Sequence[Patient], best: _Setting) -> Froc:
    maps = _maps(patients, best.smoothing, best.min_voxels)
    ordered = np.sort(best.peaks)
    positions = np.linspace(0, len(ordered) - 1, CURVE).round().astype(int)
    thresholds = np.unique(np.append(ordered[positions], best.threshold))
    pairs = [*zip(patients, maps, strict=True)]
    false = [
        np.mean([patient.false_clusters(scores, t) for patient, scores in pairs])
        for t in thresholds
    ]
    return Froc(
        threshold=thresholds.tolist(),
        sensitivity=[float(np.mean(best.peaks >= t)) for t in thresholds],
        false_positives=[float(mean) for mean in false],
    )
