"""Find lesions in maps of scores, and choose the threshold by lesions.

Maps are smoothed within the mask and opened by area.

An area opening lowers each voxel's score to the highest level at which it lies in a
connected cluster of the smallest size that counts. A voxel then reaches any threshold
if and only if it is part of a large enough cluster of voxels that do: one rule, score
against threshold, serves voxels and lesions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.ndimage import gaussian_filter, label

from screening.data.cohort import Cohort
from screening.errors import UsageError
from screening.imaging.neighbourhood import bounding_grid
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
from screening.model_selection.held_out import HeldOutDecisions
from screening.model_selection.scores import HeldOutScores, ScoredMethod
from screening.schemas.base import Estimate
from screening.schemas.figures import MinSensitivity, Rule, Threshold
from screening.schemas.validation import Froc, LesionFacts
from screening.store.model import Model

# Neighbors of a voxel: those that share a face, an edge or a corner.
_CONNECTIVITY = 26
_NEIGHBOURHOOD = np.ones((3, 3, 3))
# Standard deviations of the Gaussian that are tried, in voxels.
_SMOOTHINGS = (0.0, 1.0)
# Sizes of the smallest cluster that are tried, in voxels.
_MIN_VOXELS = (1, 5, 20)
# Thresholds of the FROC curve.
_CURVE_POINTS = 30
# Draws behind the interval of false clusters.
_DRAWS = 2000


@dataclass(frozen=True)
class Grid:
    """Positions of the voxels of one patient on a grid.

    Parameters
    ----------
    index : int ndarray of shape (n, 3)
    shape : tuple of 3 int
    """

    index: np.ndarray
    shape: tuple[int, ...]

    @classmethod
    def of(cls, coordinates: np.ndarray) -> Grid:
        """Return the grid of one patient's coordinates (n, 3).

        CohortError if two voxels share a position, or they lie too far apart.
        """
        return cls(*bounding_grid(np.asarray(coordinates, dtype=float)))

    def filled(self, values: np.ndarray) -> np.ndarray:
        """Return values (n,) on the grid, 0 or False without a voxel."""
        grid = np.zeros(self.shape, dtype=values.dtype)
        grid[*self.index.T] = values
        return grid

    def clusters(self, chosen: np.ndarray) -> np.ndarray:
        """Return the number of each chosen voxel's connected cluster, shape (n,).

        Numbers are from 1; 0 for voxels that are not chosen.
        """
        numbers, _ = label(self.filled(chosen), structure=_NEIGHBOURHOOD)
        return np.asarray(numbers[*self.index.T])


def smooth(grid: Grid, scores: np.ndarray, sd: float) -> np.ndarray:
    """Return scores averaged by a Gaussian within the mask, shape (n,).

    `sd` is its standard deviation in voxels, 0 for none.
    """
    if sd == 0:
        return scores
    # Centred, so that the edge of the mask costs no digits.
    centre = float(scores.mean())
    averages = []
    for values in (np.ones(len(scores)), scores - centre):
        volume = gaussian_filter(grid.filled(values), sd, mode="constant", truncate=3.0)
        averages.append(volume[*grid.index.T])
    weight, total = averages
    return np.asarray(centre + total / weight)


def area_opening(grid: Grid, scores: np.ndarray, min_voxels: int) -> np.ndarray:
    """Return the area opening of a map, shape (n,).

    An island of the mask with fewer than `min_voxels` voxels gets the lowest score of
    the map.
    """
    if min_voxels <= 1:
        return scores
    # A border of empty cells makes neighbors of edge voxels valid.
    padded = tuple([side + 2 for side in grid.shape])
    cell_of_row = np.ravel_multi_index(tuple(grid.index.T + 1), padded)
    row_of_cell = np.full(math.prod(padded), -1, dtype=np.int64)
    row_of_cell[cell_of_row] = np.arange(len(cell_of_row))
    strides = np.array([padded[1] * padded[2], padded[2], 1])
    steps = np.array(list(product([-1, 0, 1], repeat=3)))
    steps = steps[steps.any(axis=1)]
    offsets = steps @ strides
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    order = np.argsort(-scores, kind="stable")
    floor = float(scores.min())
    return np.asarray(
        _area_opening(
            scores, order, cell_of_row, row_of_cell, offsets, min_voxels, floor
        )
    )


def _lesion_map(
    grid: Grid, scores: np.ndarray, sd: float, min_voxels: int
) -> np.ndarray:
    """Return the scores of one patient's voxels by which lesions are flagged, (n,)."""
    return area_opening(grid, smooth(grid, scores, sd), min_voxels)


def scored_as_map(
    lesions: LesionFacts, coordinates: np.ndarray, decisions: np.ndarray
) -> np.ndarray:
    """Return decisions on one patient's voxels as those of the patient's map.

    Parameters
    ----------
    lesions : LesionFacts
        How the model makes maps.
    coordinates : ndarray of shape (n, 3)
    decisions : ndarray of shape (n, 1)

    Returns
    -------
    ndarray of shape (n, 1)
    """
    grid = Grid.of(coordinates)
    scores = _lesion_map(grid, decisions[:, 0], lesions.smoothing, lesions.min_voxels)
    return scores[:, None]


@njit(inline="always")
def _find_root(parent, row):
    """Find the root of a row's cluster, and shorten the path to it."""
    root = row
    while parent[root] != root:
        root = parent[root]
    while parent[row] != root:
        onward = parent[row]
        parent[row] = root
        row = onward
    return root


@njit(nogil=True, cache=True)
def _area_opening(scores, order, cell_of_row, row_of_cell, offsets, min_voxels, floor):
    """Return the highest level at which each voxel lies in a large enough cluster.

    Union-find after Meijster and Wilkinson (2002). `order` has the rows by falling
    score, `cell_of_row` the cell of each row in a padded grid, `row_of_cell` the row in
    each cell or -1, `offsets` the steps to neighboring cells. `floor` is given to
    voxels of islands with fewer than `min_voxels` voxels.
    """
    n = scores.size
    parent = np.full(n, -1)
    size = np.zeros(n, np.int64)
    for step in range(n):
        row = order[step]
        parent[row] = row
        size[row] = 1
        for offset in offsets:
            neighbor = row_of_cell[cell_of_row[row] + offset]
            if neighbor < 0 or parent[neighbor] < 0:
                continue
            root = _find_root(parent, neighbor)
            if root == row:
                continue
            if size[root] < min_voxels or scores[root] == scores[row]:
                parent[root] = row
                size[row] += size[root]
            else:
                # It touches a cluster that is large enough and keeps its own level.
                size[row] = min_voxels
    result = np.empty(n)
    for step in range(n - 1, -1, -1):
        row = order[step]
        if parent[row] != row:
            result[row] = result[parent[row]]
        else:
            result[row] = scores[row] if size[row] >= min_voxels else floor
    return result


@dataclass(frozen=True)
class Patient:
    """One patient with known lesions.

    Parameters
    ----------
    grid : Grid
    scores : ndarray of shape (n,)
        Scores of a machine that has not seen the patient.
    lesion : int ndarray of shape (n,)
        Number of the connected lesion of each voxel, from 1; 0 for none.
    """

    grid: Grid
    scores: np.ndarray
    lesion: np.ndarray

    @classmethod
    def of(
        cls, coordinates: np.ndarray, scores: np.ndarray, positive: np.ndarray
    ) -> Patient:
        """Return a patient; positive voxels that touch are one lesion."""
        grid = Grid.of(coordinates)
        return cls(grid, scores, grid.clusters(positive))

    def peaks(self, scores: np.ndarray) -> np.ndarray:
        """Return the highest score in each lesion, shape (n_lesions,)."""
        n_lesions = int(self.lesion.max(initial=0))
        peaks = np.full(n_lesions + 1, -np.inf)
        np.maximum.at(peaks, self.lesion, scores)
        return peaks[1:]

    def false_clusters(self, scores: np.ndarray, threshold: float) -> int:
        """Return how many clusters at or above the threshold touch no lesion."""
        number = self.grid.clusters(scores >= threshold)
        on_lesion = number[(number > 0) & (self.lesion > 0)]
        return int(number.max(initial=0)) - len(np.unique(on_lesion))


@dataclass(frozen=True)
class _Setting:
    """One way of smoothing and opening maps, and what it finds.

    Parameters
    ----------
    smoothing : float
        Standard deviation of the Gaussian, in voxels.
    min_voxels : int
        Size of the smallest cluster.
    peaks : ndarray of shape (n_lesions,)
        Highest score in each lesion.
    codes : int ndarray of shape (n_lesions,)
        Index of each lesion's patient.
    threshold : float
    design : float
        Design effect of the lesions below the threshold.
    false : ndarray of shape (n_patients,)
        False clusters of each patient.
    """

    smoothing: float
    min_voxels: int
    peaks: np.ndarray
    codes: np.ndarray
    threshold: float
    design: float
    false: np.ndarray

    @property
    def cost(self) -> tuple[float, float, int]:
        """Fewest false clusters first, then the least change of the map."""
        return float(self.false.mean()), self.smoothing, self.min_voxels


class ByLesion:
    """Lesions are counted: connected voxels that are positive.

    How maps of scores are smoothed, and which clusters are too small, is chosen with
    the threshold. Other methods, which are judged voxel by voxel, are not compared.
    """

    repeats: int | None = 1
    is_compared = False

    def check(self, cohort: Cohort, rule: Rule, repeats: int | None) -> None:
        """Raise UsageError if no operating point by lesions can be chosen."""
        if cohort.coordinates is None or cohort.group is None:
            raise UsageError(
                "`lesions` needs voxels, with the patient (`group`) and x, y, z",
                parameters=["lesions", "group"],
            )
        if not isinstance(rule, MinSensitivity):
            raise UsageError(
                "`lesions` needs `min_sensitivity`, which then counts lesions",
                parameters=["lesions", "min_sensitivity"],
            )
        if repeats not in (None, 1):
            raise UsageError(
                "`lesions` uses each fold once; leave out `repeats`",
                parameters=["lesions", "repeats"],
            )

    def rule(self, study: Study) -> Rule:
        """Require no number of positive rows: lesions are counted instead."""
        return study.rule

    def scored(self, study: Study, method: HeldOutDecisions, jobs: int) -> ScoredMethod:
        """Choose smoothing, smallest cluster and threshold by lesions of patients.

        Every voxel of a patient is scored by the machine of the fold in which the
        patient was held out, also voxels that are not in the training sample. The
        scores are those of the maps.
        """
        cohort = study.cohort
        sample = study.sample
        if study.task.kind != "binary":
            raise UsageError(
                "`lesions` separates one class from the rest; name it with `positive`",
                parameters=["lesions", "positive"],
            )
        if study.groups is not sample.group:
            raise UsageError(
                "`lesions` is validated by patient; give fewer `folds`, or more "
                "patients",
                parameters=["lesions", "folds"],
            )
        fold_of_patient = dict(
            zip(np.asarray(sample.group), study.fold[0], strict=True)
        )
        group = np.asarray(cohort.group)
        positive = study.task.target(cohort.labels) == 1
        rows_of_patients = [np.flatnonzero(group == name) for name in fold_of_patient]
        patients = []
        for rows, fold in zip(rows_of_patients, fold_of_patient.values(), strict=True):
            part = cohort.take(rows)
            encoded = method.encoder.transform(part.values)
            scores = method.ensemble.decision_of(int(fold), encoded)[:, 0]
            coordinates = np.asarray(part.coordinates)
            patients.append(Patient.of(coordinates, scores, positive[rows]))
        assert isinstance(study.rule, MinSensitivity)  # see `check`
        threshold, facts = choose_by_lesions(
            patients, study.rule, study.validation.seed
        )
        scores = np.empty(cohort.n_rows)
        for rows, patient in zip(rows_of_patients, patients, strict=True):
            scores[rows] = _lesion_map(
                patient.grid, patient.scores, facts.smoothing, facts.min_voxels
            )
        order = np.argsort(cohort.rows)
        position = order[np.searchsorted(cohort.rows, sample.rows, sorter=order)]
        rule = Threshold(threshold, prevalence=study.rule.prevalence)
        maps = replace(method, decisions=scores[position][None, :, None])
        held = HeldOutScores.of(maps, study)
        held = replace(held, trained=held.scores)
        return ScoredMethod(held, rule, lesions=facts)


def choose_by_lesions(
    patients: Sequence[Patient], rule: MinSensitivity, seed: int
) -> tuple[float, LesionFacts]:
    """Choose smoothing, smallest cluster and threshold with the fewest false clusters.

    Parameters
    ----------
    patients : sequence of Patient
    rule : MinSensitivity
        Of lesions.
    seed : int
        Of the draws behind the interval of false clusters.

    Raises
    ------
    UsageError
        If there are too few lesions for the promise.
    """
    settings = []
    for sd in _SMOOTHINGS:
        settings += [
            _setting(patients, rule, sd, min_voxels) for min_voxels in _MIN_VOXELS
        ]
    best = min(settings, key=lambda setting: setting.cost)
    m = len(best.peaks)
    misses = int((best.peaks < best.threshold).sum())
    worth = student_size_factor(len(np.unique(best.codes))) / best.design
    # In independent lesions.
    hits = worth * (m - misses)
    missed = worth * misses
    sensitivity = (m - misses) / (m + best.design)
    low = float(beta_quantile(0.025, hits, missed + 1))
    high = float(beta_quantile(0.975, hits + 1, missed))
    return best.threshold, LesionFacts(
        smoothing=best.smoothing,
        min_voxels=best.min_voxels,
        connectivity=_CONNECTIVITY,
        asked=rule.value,
        n_patients=len(patients),
        n_lesions=m,
        missed=misses,
        sensitivity=Estimate(
            sensitivity, min(low, sensitivity), max(high, sensitivity)
        ),
        false_positives=_false_range(best.false, seed),
        n_settings=len(settings),
        froc=_froc_curve(patients, best),
    )


def judge_lesions_elsewhere(
    model: Model, held: HeldOutScores, rows: Cohort
) -> tuple[LesionFacts, float | None]:
    """Evaluate the model's threshold on the lesions of other patients.

    Parameters
    ----------
    model : Model
    held : HeldOutScores
        Scores of the rows' maps, smoothed and opened as the model says.
    rows : Cohort

    Returns
    -------
    facts : LesionFacts
        The sensitivity is the observed one, with Wilson's interval by patient.
    threshold : float or None
        Threshold that keeps the same promise here; None for too few lesions.
    """
    lesions = model.lesions
    threshold = model.thresholds[0]
    assert lesions is not None
    assert rows.coordinates is not None
    scores = held.scores[:, 0]
    positive = held.watched[:, 0]
    group = np.asarray(rows.group)
    patients = []
    for name in np.unique(group):
        is_patient = group == name
        patients.append(
            Patient.of(
                rows.coordinates[is_patient], scores[is_patient], positive[is_patient]
            )
        )
    peaks, codes = _peaks(patients, [patient.scores for patient in patients])
    false = np.array(
        [patient.false_clusters(patient.scores, threshold) for patient in patients],
        dtype=float,
    )
    observed = _Setting(0.0, 1, peaks, codes, threshold, 1.0, false)
    local_threshold: float | None
    try:
        local_threshold, _ = _threshold(peaks, codes, MinSensitivity(lesions.asked))
    except UsageError:
        local_threshold = None
    facts = lesions.replace(
        n_patients=len(patients),
        n_lesions=len(peaks),
        missed=int((peaks < threshold).sum()),
        sensitivity=share_range(peaks >= threshold, codes),
        false_positives=_false_range(false, model.facts.training.seed),
        froc=_froc_curve(patients, observed),
    )
    return facts, local_threshold


def _false_range(false: np.ndarray, seed: int) -> Estimate:
    """Return false clusters per patient, with the interval of resampled patients."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(false, (_DRAWS, len(false)))
    low, high = percentiles(drawn.mean(axis=1), len(false))
    return Estimate(false.mean(), max(float(low), 0.0), float(high))


def _maps(patients: Sequence[Patient], sd: float, min_voxels: int) -> list[np.ndarray]:
    return [
        _lesion_map(patient.grid, patient.scores, sd, min_voxels)
        for patient in patients
    ]


def _peaks(
    patients: Sequence[Patient], maps: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the highest score in each lesion and its patient, (n_lesions,) each."""
    peaks = [
        patient.peaks(scores) for patient, scores in zip(patients, maps, strict=True)
    ]
    n_lesions = list(map(len, peaks))
    patient = np.repeat(np.arange(len(peaks)), n_lesions)
    return np.concatenate(peaks), patient


def _setting(
    patients: Sequence[Patient], rule: MinSensitivity, sd: float, min_voxels: int
) -> _Setting:
    """Return the threshold and false clusters of one way to smooth maps."""
    maps = _maps(patients, sd, min_voxels)
    peaks, codes = _peaks(patients, maps)
    threshold, design = _threshold(peaks, codes, rule)
    false = [
        patient.false_clusters(scores, threshold)
        for patient, scores in zip(patients, maps, strict=True)
    ]
    return _Setting(
        smoothing=sd,
        min_voxels=min_voxels,
        peaks=peaks,
        codes=codes,
        threshold=threshold,
        design=design,
        false=np.array(false, dtype=float),
    )


def _threshold(
    peaks: np.ndarray, codes: np.ndarray, rule: MinSensitivity
) -> tuple[float, float]:
    """Return the largest threshold that keeps the promise for new lesions.

    Also the design effect of the lesions below it. UsageError for too few lesions.
    """
    m = len(peaks)
    too_few = UsageError(
        f"{m} lesions are too few to promise that {rule.value:g} of new ones are "
        "found; give more patients, or request less with `min_sensitivity`",
        parameters=["min_sensitivity"],
    )
    if not m:
        raise too_few
    ordered = np.sort(peaks)
    thresholds = np.concatenate([[FLAG_EVERYTHING], np.unique(peaks)])
    hits = m - np.searchsorted(ordered, thresholds, side="left")
    n_missed = min(int((1 - rule.value) * m), m - 1)
    cut = ordered[n_missed]
    below = peaks < cut
    design = 1.0
    if below.any() and not below.all():
        design = design_effect(below, codes)
    # With too few patients for a promise about new ones, it is about further lesions of
    # these patients. The expected sensitivity is an estimate for others.
    for effect in (design, 1.0):
        column = int(pick(rule, hits, np.ones(len(hits)), effect))
        if column:
            return float(thresholds[column]), design
    raise too_few


def _froc_curve(patients: Sequence[Patient], setting: _Setting) -> Froc:
    """Return sensitivity and false clusters per patient over thresholds."""
    maps = _maps(patients, setting.smoothing, setting.min_voxels)
    ordered = np.sort(setting.peaks)
    spaced = np.linspace(0, len(ordered) - 1, _CURVE_POINTS)
    ranks = spaced.round().astype(int)
    thresholds = np.unique(np.append(ordered[ranks], setting.threshold))
    sensitivity = []
    false_positives = []
    for threshold in thresholds:
        n_false = [
            patient.false_clusters(scores, threshold)
            for patient, scores in zip(patients, maps, strict=True)
        ]
        sensitivity.append(float(np.mean(setting.peaks >= threshold)))
        false_positives.append(float(np.mean(n_false)))
    return Froc(
        threshold=thresholds.tolist(),
        sensitivity=sensitivity,
        false_positives=false_positives,
    )
