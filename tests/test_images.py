"""Folders of images: the voxels of a table, patient by patient, and nothing of a
hostile file believed.

Features of a voxel's surroundings, and robust scales in a patient, held to what can be
counted by hand.
"""

import gzip
import struct
import sys

import numpy as np
import pandas as pd
import pytest
from commands import screen
from flow_cohorts import columns_of
from hypothesis import given
from hypothesis import strategies as st
from image_folders import (
    AFFINE,
    bids_of,
    brain,
    brains,
    folder_of,
    nibabel,
    nnunet_of,
    save,
    table_of,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal
from written_files import scores_in

from screening import read_cohort, score, train
from screening.contract.contract import Contract
from screening.data.cohort import concatenate
from screening.data.normalising import Medians
from screening.data.stream import open_cohort
from screening.errors import CohortError, UsageError
from screening.imaging import images
from screening.imaging.neighbourhood import bounding_grid, neighbourhood_features
from screening.io.opening import digests
from screening.scoring.erasing import document_without

PAST = brains(6)
NIGHT = brains(3, seed=1)
ROLES = {"label": "lesion", "group": "patient_id"}


@pytest.fixture(scope="module")
def model():
    past = read_cohort(table_of(PAST), **ROLES)
    return train(past, "logistic", search=1, jobs=1, beside=())


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    return folder_of(NIGHT, tmp_path_factory.mktemp("night"))


@pytest.fixture(scope="module")
def run(model, night, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    return score(model, night, out, batch_rows=100)


def test_a_folder_of_images_is_the_table_of_its_voxels(tmp_path):
    """A BIDS dataset too, with the masks and labels of its derivatives."""
    images = read_cohort(folder_of(PAST, tmp_path / "plain"), label="lesion")
    bids = read_cohort(bids_of(PAST, tmp_path / "bids"), label="lesion")
    table = read_cohort(table_of(PAST), **ROLES)

    assert images.contract == table.contract
    assert images.contract.coordinates == ["x", "y", "z"]
    assert images.contract.group == "patient_id"
    assert_frame_equal(images.features, table.features)
    assert np.array_equal(images.coordinates, table.coordinates)
    assert np.array_equal(images.group, table.group)
    assert np.array_equal(images.label, table.label)
    assert bids.names == ["FLAIR", "T1w"]
    assert np.array_equal(bids.features, images.features)
    assert np.array_equal(bids.label, images.label)
    without_prefix = [name.removeprefix("sub-") for name in bids.group]
    assert without_prefix == list(images.group)


def test_nnunet_dataset(tmp_path):
    """Channels have the names of dataset.json, and labels lie in labelsTr."""
    folder = nnunet_of(PAST, tmp_path / "Dataset001_Lesions")

    cohort = read_cohort(folder, label="label")
    night = read_cohort(folder / "imagesTr")

    table = read_cohort(table_of(PAST), **ROLES)
    assert cohort.names == ["flair", "t1"]
    assert sorted(set(cohort.group)) == sorted(PAST)
    assert cohort.n_rows == table.n_rows
    assert np.array_equal(cohort.label, table.label)
    assert night.names == ["flair", "t1"]


def test_a_subject_of_two_sessions_is_refused(tmp_path):
    folder = bids_of(brains(1), tmp_path / "bids")
    for session in ("ses-1", "ses-2"):
        save(
            folder / "sub-P00" / session / "anat" / f"sub-P00_{session}_T2w.nii.gz",
            PAST["P00"]["t1"],
        )
    with pytest.raises(UsageError, match="several sessions"):
        images.open_images(folder)


def test_grid_of_patient_erased(run):
    """The run keeps the grid of every patient and forgets it with the patient."""
    grids = run.document["geometries"]
    assert [each["group"] for each in grids] == list(NIGHT)
    assert grids[0]["affine"] == AFFINE.tolist()
    assert list(grids[0]["shape"]) == [
        9,
        8,
        7,
    ]
    assert "P11" not in str(document_without(run.document, "P11"))


def test_images_without_mask(tmp_path):
    """Without a mask what is zero is left out and what is no number is missing."""
    patients = {"A": brain(1), "B": brain(2)}
    for volumes in patients.values():
        mask = volumes.pop("mask")
        volumes["flair"] = volumes["flair"] * mask
        volumes["t1"] = volumes["t1"] * mask
    patients["A"]["flair"][3, 3, 3] = np.nan

    cohort = read_cohort(folder_of(patients, tmp_path), label="lesion")

    assert cohort.n_rows == 2 * 7 * 6 * 5
    assert cohort.features["flair"].isna().sum() == 1
    assert any("without a mask" in note for note in cohort.notes)


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_scaled_and_swapped_bytes_are_read_as_nibabel_reads_them(tmp_path, slope):
    volumes = brain(1)
    header = nibabel.Nifti1Header(endianness=">")
    folder = folder_of({"A": volumes, "B": brain(2)}, tmp_path)
    values = volumes["flair"].astype(">i2")
    image = nibabel.Nifti1Image(values, AFFINE, header)
    image.header.set_slope_inter(slope, 3.0)
    nibabel.save(image, folder / "A" / "flair.nii.gz")
    path = folder / "A" / "flair.nii.gz"
    values = nibabel.load(path).get_fdata()
    found = read_cohort(folder, label="lesion")
    first = tuple(found.coordinates[0].astype(int))
    assert found.features["flair"][0] == values[first]


def test_a_night_of_images_is_known_again_by_its_digests(run, night, tmp_path):
    files = run.document["input"]["files"]
    known = [file["sha256"] for file in files]
    changed = folder_of(NIGHT, tmp_path / "night")
    twice = 2 * NIGHT["P11"]["t1"]
    save(changed / "P11" / "t1.nii.gz", twice)
    changed_digests = digests(str(changed))
    same = [one == other for one, other in zip(changed_digests, known, strict=True)]
    assert digests(str(night)) == known
    assert same == [True, False, True]


def test_without_nibabel_images_are_refused_with_the_remedy(night, monkeypatch):
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(UsageError, match="imaging"):
        read_cohort(night)


def rewritten(change):
    """A fault in the bytes that a packed image holds."""

    def rewrite(path):
        content = gzip.decompress(path.read_bytes())
        path.write_bytes(gzip.compress(change(content)))

    return rewrite


def saved(change, affine=AFFINE):
    """A fault in the voxels of an image, or in their place."""

    def replace_image(path):
        save(path, change(brain(1)["t1"]), affine)

    return replace_image


FAULTS = {
    "missing column": lambda path: path.unlink(),
    "shape differs from flair": saved(lambda t1: t1[:-1]),
    "place in space differs from flair": saved(
        lambda t1: t1, AFFINE + np.eye(4) * 0.01
    ),
    "4 axes": saved(lambda t1: np.stack([t1] * 3, axis=-1)),
    "mask is empty": lambda path: save(
        path.with_name("mask.nii.gz"), 0 * brain(1)["mask"]
    ),
    "fewer voxels than": rewritten(
        lambda c: c[:108] + struct.pack("<f", 4e9) + c[112:]
    ),
    "fewer voxels": rewritten(lambda content: content[:-8]),
    "damaged or cut short": lambda path: path.write_bytes(
        path.read_bytes()[: path.stat().st_size // 2]
    ),
    "more than 134217728 voxels": rewritten(
        lambda c: c[:40] + struct.pack("<4h", 3, *[30_000] * 3) + c[48:]
    ),
    "not a NIfTI file": lambda path: path.write_bytes(b"PK\3\4 something else"),
    "write plain numbers": saved(
        lambda t1: np.zeros(t1.shape, dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    ),
}
"""What is done to an image, by the words that it is refused with."""


@pytest.mark.parametrize("words", FAULTS)
def test_images_refused(model, tmp_path, words):
    """Images that cannot be meant are refused in words without the patient's name."""
    patients = {"secret": brain(1), "other": brain(2)}
    folder = folder_of(patients, tmp_path / "night")
    FAULTS[words](folder / "secret" / "t1.nii.gz")
    with pytest.raises(CohortError, match=words) as error:
        score(model, folder, tmp_path / "run")
    assert "secret" not in str(error.value)
    assert "image 2" in str(error.value)
    assert not (tmp_path / "run").exists()


def test_exported_maps_lie_where_the_images_lie(run, tmp_path):
    out = tmp_path / "maps"
    screen("export", run.directory, "--to", "nifti", "--out", out)
    rows = scores_in(run.directory)

    for name, volumes in NIGHT.items():
        flags = nibabel.load(out / f"{name}_{'flags'}.nii.gz")
        scores = nibabel.load(out / f"{name}_{'scores'}.nii.gz")
        own = rows[rows["group"] == name]
        at = tuple(own[axis].to_numpy(dtype=int) for axis in "xyz")
        flag_voxels = np.asarray(flags.dataobj)
        score_voxels = np.asarray(scores.dataobj)
        is_scored = np.isfinite(score_voxels)
        assert np.array_equal(flags.affine, AFFINE)
        assert flags.shape == (9, 8, 7)
        assert np.array_equal(flag_voxels[at], own["flagged"])
        assert flag_voxels.sum() == own["flagged"].sum() > 0
        own_scores = own["score"].astype(np.float32)
        assert np.array_equal(score_voxels[at], own_scores)
        assert np.array_equal(is_scored, volumes["mask"] > 0)


def test_an_affine_is_never_invented(model, tmp_path):
    folder = folder_of(NIGHT, tmp_path / "night")
    for path in folder.glob("*/*.nii.gz"):
        voxels = np.asarray(nibabel.load(path).dataobj)
        nowhere = nibabel.Nifti1Image(voxels, None)
        nowhere.header["qform_code"] = nowhere.header["sform_code"] = 0
        nibabel.save(nowhere, path)
    run = score(model, folder, tmp_path / "run")
    assert not run.document["geometries"]
    assert any(
        "have no position in space" in note for note in run.document["input"]["notes"]
    )
    table = score(model, table_of(NIGHT), tmp_path / "table").directory
    maps = tmp_path / "maps"
    done = screen("export", table, "--to", "nifti", "--out", maps, code=2)
    assert "no reference geometry" in done.stderr
    assert not maps.exists()


def by_hand(values: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Mean, sd and gradient of every voxel by looking at every other one."""
    found = []
    where = {
        tuple(place): value
        for place, value in zip(places.tolist(), values, strict=True)
    }
    for place, own in zip(places, values, strict=True):
        is_near = (abs(places - place) <= size // 2).all(axis=1)
        near = values[is_near & np.isfinite(values)]
        slopes = []
        for axis in np.eye(3, dtype=int):
            back = where.get(tuple(place - axis), np.nan)
            forth = where.get(tuple(place + axis), np.nan)
            sides = np.array([own - back, forth - own])
            n_known = np.isfinite(sides).sum()
            slopes.append(np.nansum(sides) / max(n_known, 1))
        gradient = np.linalg.norm(slopes) if np.isfinite(own) else np.nan
        found.append(
            [near.mean(), near.std(), gradient]
            if len(near)
            else [np.nan, np.nan, gradient]
        )
    return np.array(found).T


@given(st.integers(0, 10**6), st.sampled_from([3, 5]), st.floats(-1e3, 1e3))
def test_a_voxels_surroundings_are_those_counted_by_hand(seed, size, level):
    rng = default_rng(seed)
    drawn = rng.integers(0, 5, (50, 3))
    places = np.unique(drawn, axis=0)
    values = rng.normal(level, 3, len(places))
    values[rng.random(len(places)) < 0.1] = np.nan
    grid = bounding_grid(places.astype(float))
    found = neighbourhood_features(values, *grid, size)
    expected = by_hand(values, places, size)
    assert_allclose(found, expected, atol=1e-6)


@given(st.integers(0, 10**6), st.floats(0.1, 7), st.floats(-500, 500))
def test_surroundings_do_not_depend_on_order_spacing_or_origin(seed, spacing, origin):
    rng = default_rng(seed)
    drawn = rng.integers(0, 5, (40, 3))
    places = np.unique(drawn, axis=0).astype(float)
    values = rng.normal(size=len(places))
    order = rng.permutation(len(places))
    one = neighbourhood_features(values, *bounding_grid(places), 3)
    grid = bounding_grid(places[order] * spacing + origin)
    other = neighbourhood_features(values[order], *grid, 3)
    in_order = np.array(one)[:, order]
    assert_allclose(in_order, other, atol=1e-9)


@pytest.mark.parametrize("missing", [np.nan, np.inf])
def test_voxel_without_place(missing):
    """A missing coordinate of a voxel with surroundings is an error of the table."""
    coordinates = np.array(
        [
            [0.0, 0, 0],
            [1, 0, missing],
            [0, 1, 0],
        ]
    )
    with pytest.raises(
        CohortError, match=r"ward\.csv: a coordinate of a voxel is missing"
    ):
        bounding_grid(coordinates, "ward.csv: ")


def test_images_equal_table(tmp_path):
    """Images and their table have the same surroundings and score alike."""
    images = read_cohort(
        folder_of(PAST, tmp_path / "past"), label="lesion", neighbourhood=3
    )
    table = read_cohort(table_of(PAST), **ROLES, neighbourhood=3)
    model = train(images, "logistic", search=1, jobs=1, beside=())
    night = folder_of(NIGHT, tmp_path / "night")
    one = score(model, night, tmp_path / "one", batch_rows=64)
    other = score(model, table_of(NIGHT), tmp_path / "other")

    around_them = [
        f"{each}_{what}"
        for each in ("flair", "t1")
        for what in ("mean", "sd", "gradient")
    ]
    assert images.names == ["flair", "t1", *around_them]
    assert_frame_equal(images.features, table.features)
    assert model.contract.neighbourhood == 3
    scores = [scores_in(each.directory) for each in (one, other)]
    assert_frame_equal(*scores)


def test_neighbourhood_of_channels():
    """A contract that lists channels only declares their surroundings alike."""
    roles = {
        "group": "patient_id",
        "coordinates": ["x", "y", "z"],
        "neighbourhood": 3,
    }
    features = {"flair": {"type": "number", "normalise": "within_group_robust"}}
    contract = Contract.from_dict({"cohort": roles, "features": features})
    table = table_of(PAST).drop(columns="t1")
    cohort = read_cohort(table, contract, label="lesion")
    assert cohort.names == ["flair", "flair_mean", "flair_sd", "flair_gradient"]
    features = cohort.contract.features.values()
    assert {each.normalise for each in features} == {"within_group_robust"}


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [("missing_values", ["-999"], -999.0), ("plausible", [-100, 100], 9999.0)],
)
def test_neighbourhood_without_missing_values(key, value, code):
    """A code for missing and an implausible value are in nobody's neighbourhood.

    The means of all voxels around were those of the code.
    """
    feature = {"type": "number", "missing": "impute", key: value}
    roles = {"group": "patient_id", "coordinates": ["x", "y", "z"], "neighbourhood": 3}
    names = ["t1", "t1_mean", "t1_sd", "t1_gradient"]
    features = {name: {"type": "number"} for name in names} | {"t1": feature}
    contract = Contract.from_dict({"cohort": roles, "features": features})
    empty = table_of(NIGHT)[["patient_id", "x", "y", "z", "t1"]].astype({"t1": float})
    empty.loc[::7, "t1"] = np.nan
    coded = empty.fillna({"t1": code})

    expected = concatenate([*open_cohort(empty, contract)])
    found = concatenate([*open_cohort(coded, contract)])

    assert_frame_equal(found.features[names], expected.features[names])


def test_neighbourhood_of_infinite_channel():
    """An infinite value that only a neighbourhood reads is refused by its row."""
    roles = {"group": "patient_id", "coordinates": ["x", "y", "z"], "neighbourhood": 3}
    features = {"t1_mean": {"type": "number"}}
    contract = Contract.from_dict({"cohort": roles, "features": features})
    table = table_of(NIGHT)[["patient_id", "x", "y", "z", "t1"]].astype({"t1": float})
    table.loc[len(table) - 2, "t1"] = np.inf
    row = len(table) - 1

    with pytest.raises(CohortError, match=f"'t1', rows {row}: an infinite number"):
        concatenate([*open_cohort(table, contract)])


@pytest.mark.parametrize(
    ("change", "size", "error", "words"),
    [
        (
            lambda table: table.sort_values("z", kind="stable"),
            3,
            CohortError,
            "not next to each other",
        ),
        (lambda table: table.assign(x=0), 3, CohortError, "not form a grid"),
        (lambda table: table.assign(t1="dark"), 3, CohortError, "is text"),
        (lambda table: table.drop(columns="x"), 3, UsageError, "voxels"),
        (lambda table: table, 4, CohortError, "odd"),
    ],
    ids=["not together", "two in one place", "text", "no voxels", "an even size"],
)
def test_voxels_without_surroundings_are_refused(change, size, error, words):
    with pytest.raises(error, match=words):
        read_cohort(change(table_of(PAST)), **ROLES, neighbourhood=size)


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_robust_scales_any_batches(seed, batch):
    """Robust scales are median and median distance whatever the batches."""
    rng = default_rng(seed)
    sizes = rng.integers(1, 12, 3)
    group = np.repeat(["a", "b", "c"], sizes).astype(object)
    features = pd.DataFrame(
        {
            "x": rng.normal(size=len(group)),
            "y": rng.integers(0, 3, len(group)).astype(float),
        }
    )
    scales = Medians(["x", "y"])
    for start in range(0, len(group), batch):
        rows = slice(start, start + batch)
        scales.add(group[rows], columns_of(features[rows]))

    found = scales.applied(group, columns_of(features))

    own = features["x"][group == "b"]
    gaps = own - own.median()
    spread = 1.4826 * np.median(abs(gaps)) or np.inf
    assert_allclose(found["x"][group == "b"], gaps / spread)
    for values in found.values():
        assert np.isfinite(values).all()


def test_groups_that_come_twice_cannot_be_scaled_by_their_median():
    scales = Medians(["x"])
    with pytest.raises(CohortError, match="next to each other"):
        groups = np.array(["a", "b", "a"], dtype=object)
        scales.add(groups, {"x": np.array([1.0, 2.0, 3.0])})
