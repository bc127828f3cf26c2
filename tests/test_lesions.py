"""An operating point by lesions: openings held to brute force, promises to patients
held out, one rule.
"""

import numpy as np
import pytest
from commands import screen
from hypothesis import given
from hypothesis import strategies as st
from image_folders import brains, folder_of, table_of
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal
from scipy.ndimage import label
from written_files import scores_in

from screening import GMean, MinSensitivity, read_cohort, score, train, validate
from screening.data.stream import whole_groups
from screening.errors import CohortError, UsageError
from screening.imaging.lesions import (
    Grid,
    Patient,
    area_opening,
    choose_by_lesions,
    smooth,
)
from screening.model_selection.revising import set_threshold
from screening.store.loading import load_model
from screening.store.model import save_model

TOUCHING = np.ones((3, 3, 3))
PAST = brains(10, shape=(14, 13, 12), n_lesions=3)
NIGHT = brains(3, seed=1, shape=(14, 13, 12))
ROLES = {"label": "lesion", "group": "patient_id"}


QUICK = "--search 1 --folds 3 --repeats 1 --beside none --jobs 1".split()


@pytest.fixture(scope="module")
def model():
    past = read_cohort(table_of(PAST), **ROLES, neighbourhood=3)
    return train(
        past,
        "logistic",
        search=1,
        jobs=1,
        beside=(),
        rule=MinSensitivity(0.7),
        lesions=True,
    )


def some_map(seed: int, levels: int) -> tuple[Grid, np.ndarray]:
    """A map of few levels, so that many voxels are alike, on a mask with holes and
    islands.
    """
    rng = default_rng(seed)
    is_voxel = rng.random((6, 5, 4)) < rng.uniform(0.3, 1)
    places = np.argwhere(is_voxel)
    if not len(places):
        places = np.zeros((1, 3), int)
    scores = rng.integers(0, levels, len(places)).astype(float)
    return Grid.of(places), scores


def large_enough(grid: Grid, chosen: np.ndarray, least: int) -> np.ndarray:
    """Which voxels lie in a cluster of at least so many chosen voxels, by counting."""
    numbers, _ = label(grid.filled(chosen), structure=TOUCHING)
    number = numbers[*grid.index.T]
    size = np.bincount(number)[number]
    return (number > 0) & (size >= least)


@given(st.integers(0, 10**6), st.sampled_from([2, 5, 1000]), st.integers(1, 30))
def test_area_opening_threshold(seed, levels, least):
    """A voxel reaches a threshold if its cluster there is large enough."""
    grid, scores = some_map(seed, levels)
    found = area_opening(grid, scores, least)
    for threshold in np.unique(scores)[1:]:
        assert np.array_equal(
            found >= threshold, large_enough(grid, scores >= threshold, least)
        )
    assert (found <= scores).all()
    assert np.array_equal(area_opening(grid, found, least), found)


@given(st.integers(0, 10**6), st.floats(0.3, 2), st.floats(-100, 100))
def test_smoothing_keeps_what_is_level_and_moves_with_it(seed, sd, level):
    grid, scores = some_map(seed, 1000)
    level_map = np.full(len(scores), level)
    flat = smooth(grid, level_map, sd)
    moved = smooth(grid, scores + level, sd)
    assert_allclose(flat, level, rtol=1e-12, atol=1e-9)
    expected = smooth(grid, scores, sd) + level
    assert_allclose(moved, expected, atol=1e-8)
    assert smooth(grid, scores, 0.0) is scores


def test_peaks_and_false_clusters_are_those_counted_by_hand():
    line = np.array([(x, 0, 0) for x in range(12)], float)
    scores = np.array([0, 5, 1, 0, 3, 0, 4, 4, 0, 0, 9, 0], float)
    lesion = np.isin(np.arange(12), [1, 2, 6])
    patient = Patient.of(line, scores, lesion)
    assert patient.peaks(scores).tolist() == [5, 4]
    n_false = [patient.false_clusters(scores, t) for t in (1, 4, 6, 10)]
    assert n_false == [2, 1, 1, 0]


def test_lesion_setting_chosen():
    """The setting with fewest false clusters keeps the promise of lesions."""
    rng = default_rng(0)
    places = np.argwhere(np.ones((10, 10, 10), bool))
    patients = []
    for _ in range(12):
        corner = rng.integers(0, 7, 3)
        is_inside = (places >= corner) & (places < corner + 3)
        lesion = is_inside.all(axis=1)
        scores = rng.normal(0, 1, 1000) + 2.5 * lesion
        patients.append(Patient.of(places, scores, lesion))

    threshold, facts = choose_by_lesions(patients, MinSensitivity(0.8), seed=0)

    assert facts.n_lesions == 12
    assert facts.missed <= 0.2 * 13 - 1
    assert facts.sensitivity.value >= 0.8
    # Lone voxels of noise are what a smallest cluster or smoothing is for.
    assert facts.min_voxels > 1 or facts.smoothing > 0
    assert (
        facts.false_positives.low
        <= facts.false_positives.value
        <= facts.false_positives.high
    )
    assert threshold in facts.froc.threshold
    assert (np.diff(facts.froc.sensitivity) <= 0).all()


def test_flags_are_whole_clusters_and_one_rule_of_score_and_threshold(model, tmp_path):
    run = score(model, table_of(NIGHT), tmp_path / "run", batch_rows=50)
    rows = scores_in(run.directory)
    facts = model.lesions
    threshold = model.thresholds[0]

    assert rows["flagged"].any()
    assert not rows["flagged"].all()
    assert np.array_equal(rows["flagged"], rows["score"] >= threshold)
    for _, own in rows.groupby("group"):
        grid = Grid.of(own[["x", "y", "z"]].to_numpy())
        flagged = own["flagged"].to_numpy()
        assert np.array_equal(large_enough(grid, flagged, facts.min_voxels), flagged)


def test_images_tables_and_batches_give_the_same_lesions(model, tmp_path):
    """The operating point by lesions is stored and read back; no other is chosen
    without the maps.
    """
    again = load_model(save_model(model, tmp_path / "model"))
    runs = (
        score(again, folder_of(NIGHT, tmp_path / "night"), tmp_path / "a"),
        score(model, table_of(NIGHT), tmp_path / "b", batch_rows=33),
    )
    images, table = (scores_in(run.directory) for run in runs)

    assert_frame_equal(images, table)
    in_memory = model.score_frame(table_of(NIGHT))
    assert np.array_equal(in_memory["score"], table["score"])
    assert again.lesions == model.lesions
    assert again.lesions.connectivity == 26
    assert again.lesions.n_patients == 10
    assert again.lesions.asked == 0.7
    assert again.operating_points[0]["rule"]["name"] == "threshold"
    with pytest.raises(UsageError, match="train it again"):
        set_threshold(model, MinSensitivity(0.5), "more")


def test_lesion_maps_whole_patients():
    """Held out maps are of whole patients even where rows are sampled."""
    past = read_cohort(table_of(PAST), **ROLES)
    model = train(
        past,
        "logistic",
        search=1,
        jobs=1,
        beside=(),
        rule=MinSensitivity(0.7),
        lesions=True,
        max_rows=3000,
    )
    assert len(model.validation) == 3000
    counted = []
    for volumes in PAST.values():
        _, n_lesions = label(volumes["lesion"], structure=TOUCHING)
        counted.append(n_lesions)
    assert model.lesions.n_lesions == sum(counted)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda table: table, {"rule": GMean()}, "min_sensitivity"),
        (lambda table: table, {"repeats": 2}, "repeats"),
        (lambda table: table, {"folds": 11}, "fewer `folds`"),
        (lambda table: table, {"rule": MinSensitivity(0.999)}, "too few"),
        (lambda table: table.drop(columns="x"), {}, "voxels"),
    ],
    ids=["another rule", "repeats", "too few patients", "too few lesions", "no voxels"],
)
def test_lesions_that_cannot_be_promised_are_refused(change, options, words):
    past = read_cohort(change(table_of(PAST)), **ROLES)
    with pytest.raises(UsageError, match=words):
        quick = {"search": 1, "jobs": 1, "lesions": True}
        train(past, "logistic", **quick | options)


def test_patients_whose_rows_are_scattered_have_no_lesions(model, tmp_path):
    scattered = table_of(NIGHT).sort_values("z", kind="stable")
    with pytest.raises(CohortError, match="next to each other"):
        score(model, scattered, tmp_path / "run")
    with pytest.raises(CohortError, match="next to each other"):
        list(whole_groups([read_cohort(scattered, **ROLES)]))


def test_train_takes_lesions_and_a_neighbourhood(tmp_path):
    folder = folder_of(PAST, tmp_path / "past")
    words = [
        "--recipe",
        "logistic",
        "--label",
        "lesion",
        "--lesions",
        "--neighbourhood",
        "3",
        *QUICK,
    ]
    screen(
        "train",
        folder,
        *words,
        "--min-sensitivity",
        "0.7",
        "--out",
        tmp_path / "model",
    )
    model = load_model(tmp_path / "model")
    assert model.lesions.n_patients == 10
    assert model.contract.neighbourhood == 3


def test_a_model_by_lesions_is_validated_by_lesions(model):
    """Lesions that its threshold finds in new patients, counted by hand, beside what
    was promised.
    """
    new = brains(
        6,
        seed=2,
        shape=(14, 13, 12),
        n_lesions=3,
    )
    table = table_of(new)
    found = validate(model, table)
    (point,) = found.operating_points
    one = found.classes["1"]

    hit = total = 0
    flagged = model.score_frame(table)["flagged"].to_numpy()
    with_flags = table.assign(flagged=flagged)
    for _, own in with_flags.groupby("patient_id"):
        grid = Grid.of(own[["x", "y", "z"]].to_numpy(float))
        number = grid.clusters(own["lesion"].to_numpy() == 1)
        is_flagged = own["flagged"].to_numpy()
        touched = set(number[is_flagged]) - {0}
        hit = hit + len(touched)
        total = total + int(number.max())

    assert point.lesions.n_lesions == total
    assert (point.lesions.n_lesions - point.lesions.missed) == hit
    assert point.lesions.sensitivity.value == pytest.approx(hit / total)
    assert one.promise.lesions == model.lesions
    assert one.differences["lesions"].value == pytest.approx(
        hit / total - model.lesions.sensitivity.value
    )
    assert one.local.rule.name == "threshold"
    assert one.local_reason is None
