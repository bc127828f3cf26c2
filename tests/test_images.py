"""Folders of images: the voxels of a table, patient by patient, and nothing of a hostile file believed."""

import gzip
import struct
import sys

import nibabel
import numpy as np
import pandas as pd
import pytest
from commands import screen
from image_folders import AFFINE, bids_of, brain, brains, folder_of, save, table_of

from screening import read_cohort, score, train
from screening.errors import CohortError, UsageError
from screening.imaging import images
from screening.io.opening import digests
from screening.scoring.erasing import document_without

PAST, NIGHT = brains(6), brains(3, seed=1)


@pytest.fixture(scope="module")
def model():
    past = read_cohort(table_of(PAST), label="lesion", group="patient_id")
    return train(past, "logistic", search=1, jobs=1, beside=())


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    return folder_of(NIGHT, tmp_path_factory.mktemp("night"))


@pytest.fixture(scope="module")
def run(model, night, tmp_path_factory):
    return score(model, night, tmp_path_factory.mktemp("run") / "run", batch_rows=100)


def test_a_folder_of_images_is_the_table_of_its_voxels(tmp_path):
    """A BIDS dataset too, with the masks and labels of its derivatives."""
    images = read_cohort(folder_of(PAST, tmp_path / "plain"), label="lesion")
    bids = read_cohort(bids_of(PAST, tmp_path / "bids"), label="lesion")
    table = read_cohort(table_of(PAST), label="lesion", group="patient_id")

    assert images.contract == table.contract
    assert images.contract.coordinates == ["x", "y", "z"] and images.contract.group == "patient_id"
    pd.testing.assert_frame_equal(images.features, table.features)
    assert np.array_equal(images.coordinates, table.coordinates)
    assert np.array_equal(images.group, table.group) and np.array_equal(images.label, table.label)
    assert bids.names == ["FLAIR", "T1w"] and np.array_equal(bids.features, images.features)
    assert np.array_equal(bids.label, images.label)
    assert [name.removeprefix("sub-") for name in bids.group] == list(images.group)


def test_a_subject_of_two_sessions_is_refused(tmp_path):
    folder = bids_of(brains(1), tmp_path / "bids")
    for session in ("ses-1", "ses-2"):
        save(folder / "sub-P00" / session / "anat" / f"sub-P00_{session}_T2w.nii.gz", PAST["P00"]["t1"])
    with pytest.raises(UsageError, match="several sessions"):
        images.opened(folder)


def test_the_run_keeps_the_grid_of_every_patient_and_forgets_it_with_the_patient(run):
    grids = run.document["geometries"]
    assert [each["group"] for each in grids] == list(NIGHT)
    assert grids[0]["affine"] == AFFINE.tolist() and list(grids[0]["shape"]) == [9, 8, 7]
    assert "P11" not in str(document_without(run.document, "P11"))


def test_without_a_mask_what_is_zero_is_left_out_and_what_is_no_number_is_missing(tmp_path):
    patients = {"A": brain(1), "B": brain(2)}
    for volumes in patients.values():
        mask = volumes.pop("mask")
        volumes["flair"], volumes["t1"] = volumes["flair"] * mask, volumes["t1"] * mask
    patients["A"]["flair"][3, 3, 3] = np.nan

    cohort = read_cohort(folder_of(patients, tmp_path), label="lesion")

    assert cohort.n_rows == 2 * 7 * 6 * 5
    assert cohort.features["flair"].isna().sum() == 1
    assert any("without a mask" in note for note in cohort.notes)


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_scaled_and_swapped_bytes_are_read_as_nibabel_reads_them(tmp_path, slope):
    volumes, header = brain(1), nibabel.Nifti1Header(endianness=">")
    folder = folder_of({"A": volumes, "B": brain(2)}, tmp_path)
    image = nibabel.Nifti1Image(volumes["flair"].astype(">i2"), AFFINE, header)
    image.header.set_slope_inter(slope, 3.0)
    nibabel.save(image, folder / "A" / "flair.nii.gz")
    values, found = (
        nibabel.load(folder / "A" / "flair.nii.gz").get_fdata(),
        read_cohort(folder, label="lesion"),
    )
    assert found.features["flair"][0] == values[tuple(found.coordinates[0].astype(int))]


def test_a_night_of_images_is_known_again_by_its_digests(run, night, tmp_path):
    known = [file["sha256"] for file in run.document["input"]["files"]]
    changed = folder_of(NIGHT, tmp_path / "night")
    save(changed / "P11" / "t1.nii.gz", 2 * NIGHT["P11"]["t1"])
    same = [one == other for one, other in zip(digests(str(changed)), known, strict=True)]
    assert digests(str(night)) == known and same == [True, False, True]


def test_without_nibabel_images_are_refused_with_the_remedy(night, monkeypatch):
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(UsageError, match="imaging"):
        read_cohort(night)


def rewritten(change):
    """A fault in the bytes that a packed image holds."""
    return lambda path: path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))


def saved(change, affine=AFFINE):
    """A fault in the voxels of an image, or in their place."""
    return lambda path: save(path, change(brain(1)["t1"]), affine)


FAULTS = {
    "missing column": lambda path: path.unlink(),
    "another shape than flair": saved(lambda t1: t1[:-1]),
    "another place in space than flair": saved(lambda t1: t1, AFFINE + np.eye(4) * 0.01),
    "4 axes": saved(lambda t1: np.stack([t1] * 3, axis=-1)),
    "mask is empty": lambda path: save(path.with_name("mask.nii.gz"), 0 * brain(1)["mask"]),
    "fewer voxels than": rewritten(lambda c: c[:108] + struct.pack("<f", 4e9) + c[112:]),
    "fewer voxels": rewritten(lambda content: content[:-8]),
    "damaged or cut short": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "more than 134217728 voxels": rewritten(lambda c: c[:40] + struct.pack("<4h", 3, *[30_000] * 3) + c[48:]),
    "not a NIfTI file": lambda path: path.write_bytes(b"PK\3\4 something else"),
    "write plain numbers": saved(
        lambda t1: np.zeros(t1.shape, dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    ),
}
"""What is done to an image, by the words that it is refused with."""


@pytest.mark.parametrize("words", FAULTS)
def test_images_that_cannot_be_meant_are_refused_in_words_without_the_patients_name(model, tmp_path, words):
    folder = folder_of({"secret": brain(1), "other": brain(2)}, tmp_path / "night")
    FAULTS[words](folder / "secret" / "t1.nii.gz")
    with pytest.raises(CohortError, match=words) as error:
        score(model, folder, tmp_path / "run")
    assert "secret" not in str(error.value) and "image 2" in str(error.value)
    assert not (tmp_path / "run").exists()


def test_exported_maps_lie_where_the_images_lie(run, tmp_path):
    out = tmp_path / "maps"
    screen("export", run.directory, "--to", "nifti", "--out", out)
    rows = pd.read_parquet(run.directory / "scores.parquet")

    for name, volumes in NIGHT.items():
        flags, scores = (nibabel.load(out / f"{name}_{what}.nii.gz") for what in ("flags", "scores"))
        own = rows[rows["group"] == name]
        at = tuple(own[axis].to_numpy(dtype=int) for axis in "xyz")
        assert np.array_equal(flags.affine, AFFINE) and flags.shape == (9, 8, 7)
        assert np.array_equal(np.asarray(flags.dataobj)[at], own["flagged"])
        assert np.asarray(flags.dataobj).sum() == own["flagged"].sum() > 0
        assert np.array_equal(np.asarray(scores.dataobj)[at], own["score"].astype(np.float32))
        assert np.array_equal(np.isfinite(np.asarray(scores.dataobj)), volumes["mask"] > 0)


def test_an_affine_is_never_invented(model, tmp_path):
    folder = folder_of(NIGHT, tmp_path / "night")
    for path in folder.glob("*/*.nii.gz"):
        nowhere = nibabel.Nifti1Image(np.asarray(nibabel.load(path).dataobj), None)
        nowhere.header["qform_code"] = nowhere.header["sform_code"] = 0
        nibabel.save(nowhere, path)
    run = score(model, folder, tmp_path / "run")
    assert not run.document["geometries"]
    assert any("state no place in space" in note for note in run.document["input"]["notes"])
    table = score(model, table_of(NIGHT), tmp_path / "table").directory
    done = screen("export", table, "--to", "nifti", "--out", tmp_path / "maps", code=2)
    assert "no reference geometry" in done.stderr and not (tmp_path / "maps").exists()
