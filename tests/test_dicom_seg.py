"""DICOM SEG: the same voxels on the series of the archive, whichever way its slices lie, never elsewhere."""

import json
from pathlib import Path

import highdicom
import nibabel
import numpy as np
import pandas as pd
import pydicom
import pytest
from image_folders import AFFINE, brains, folder_of, table_of
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, MRImageStorage, generate_uid
from typer.testing import CliRunner

from screening import read_cohort, score, train
from screening.cli import app
from screening.imaging.dicom_seg import LPS

PAST, NIGHT = brains(6, classes=2), brains(2, seed=1, classes=2)
WATCHED = ["1", "2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    past = read_cohort(table_of(PAST), label="lesion", positive=WATCHED, group="patient_id")
    model = train(past, "logistic", search=1, jobs=1, beside=())
    folder = tmp_path_factory.mktemp("night")
    return score(model, folder_of(NIGHT, folder / "images"), folder / "run").directory


def series_of(values: np.ndarray, affine: np.ndarray, folder: Path, turned: bool = False) -> Path:
    """A volume as an MR series; `turned`: with its slices along another axis, and rows the other way."""
    folder.mkdir(parents=True)
    volume = highdicom.Volume(values, LPS @ affine, "PATIENT")
    # Slices first, then rows and columns, as DICOM has them.
    volume = volume.permute_spatial_axes((0, 2, 1) if turned else (2, 1, 0))
    volume = volume.flip_spatial(1) if turned else volume
    volume = volume.ensure_handedness("RIGHT_HANDED", flip_axis=0)
    uids = {name: generate_uid() for name in ("StudyInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID")}
    for number, plane in enumerate(volume.array):
        one = Dataset()
        one.file_meta = FileMetaDataset()
        one.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        one.SOPClassUID, one.SOPInstanceUID, one.Modality = MRImageStorage, generate_uid(), "MR"
        for name, uid in uids.items():
            setattr(one, name, uid)
        one.PatientID, one.PatientName, one.PatientBirthDate, one.PatientSex = folder.name, "A^B", "", ""
        one.StudyID, one.StudyDate, one.StudyTime, one.AccessionNumber = "1", "20260301", "000000", ""
        one.ReferringPhysicianName = ""
        one.SeriesNumber, one.InstanceNumber = 1, number + 1
        one.Rows, one.Columns = plane.shape
        one.SamplesPerPixel, one.PhotometricInterpretation = 1, "MONOCHROME2"
        one.BitsAllocated = one.BitsStored = 16
        one.HighBit, one.PixelRepresentation = 15, 0
        one.PixelSpacing, one.SliceThickness = list(volume.pixel_spacing), volume.spacing_between_slices
        one.ImageOrientationPatient = volume.get_plane_orientation()[0].ImageOrientationPatient
        one.ImagePositionPatient = volume.get_plane_position(number)[0].ImagePositionPatient
        one.PixelData = plane.astype(np.uint16).tobytes()
        one.save_as(folder / f"{number:04d}.dcm", enforce_file_format=True)
    return folder


def exported(run: Path, reference: Path, out: Path) -> tuple[int, str]:
    words = ["export", str(run), "--to", "dicom-seg", "--reference", str(reference), "--out", str(out)]
    done = CliRunner().invoke(app, words)
    return done.exit_code, done.output


@pytest.mark.parametrize("turned", [False, True], ids=["axial", "sagittal and flipped"])
def test_the_flags_come_back_from_dicom_seg_voxel_by_voxel(run, tmp_path, turned):
    for name, volumes in NIGHT.items():
        series_of(volumes["flair"], AFFINE, tmp_path / "dicom" / name, turned)

    code, words = exported(run, tmp_path / "dicom", tmp_path / "out")

    assert code == 0, words
    rows = pd.read_parquet(run / "scores.parquet")
    for name in NIGHT:
        seg = highdicom.seg.segread(tmp_path / "out" / f"{name}_flags.dcm")
        own = rows[(rows["group"] == name) & rows["flagged"]]
        volume = seg.get_volume(combine_segments=True)
        seg._db_con.close()  # the library does not
        back = highdicom.Volume(np.zeros((9, 8, 7), np.uint8), LPS @ AFFINE, "PATIENT")
        found = volume.match_geometry(back, tol=1e-2).array
        wanted = np.zeros((9, 8, 7), int)
        wanted[tuple(own[axis].to_numpy(int) for axis in "xyz")] = own["class"].astype(int)
        assert np.array_equal(found, wanted) and set(WATCHED) == set(own["class"])
        labels = [segment.SegmentLabel for segment in seg.SegmentSequence]
        assert labels == ["Flagged for lesion 1", "Flagged for lesion 2"]
        assert (
            seg.PatientID == name
            and seg.StudyInstanceUID
            == pydicom.dcmread(tmp_path / "dicom" / name / "0000.dcm").StudyInstanceUID
        )


def test_a_night_of_several_classes_names_them_and_their_clusters_in_millimetres(run, tmp_path):
    """A patient's classes, each cluster's class and size, a colour a class, and numbers a class in NIfTI."""
    document = json.loads((run / "run.json").read_text(encoding="utf-8"))
    rows = pd.read_parquet(run / "scores.parquet").query("flagged")

    for group in document["groups"]:
        own = rows[rows["group"] == group["group"]]
        assert group["by_class"] == own["class"].value_counts().to_dict()
    colours, sizes = document["voxels"]["colours"], np.abs(np.diag(AFFINE))[:3]
    assert list(colours) == WATCHED and len({*colours.values()}) == 2
    for patient in document["voxels"]["patients"]:
        for cluster in patient["clusters"]:
            reach = np.subtract(cluster["high"], cluster["low"]) + 1
            assert sorted(cluster["millimetres"]) == pytest.approx(sorted(reach * sizes))
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Largest clusters" in page and all(colour in page for colour in colours.values())

    done = CliRunner().invoke(app, ["export", str(run), "--to", "nifti", "--out", str(tmp_path / "maps")])

    assert done.exit_code == 0
    assert json.loads((tmp_path / "maps" / "volumes.json").read_text())["classes"] == {"1": "1", "2": "2"}
    for name in NIGHT:
        own = rows[rows["group"] == name]
        flags = np.asarray(nibabel.load(tmp_path / "maps" / f"{name}_flags.nii.gz").dataobj)
        assert np.array_equal(
            flags[tuple(own[axis].to_numpy(int) for axis in "xyz")], own["class"].astype(int)
        )


def test_without_a_series_there_is_no_segmentation(run, tmp_path):
    code, words = exported(run, tmp_path / "nothing", tmp_path / "out")
    assert code == 2 and "not invented" in words and "P10" not in words
    assert not (tmp_path / "out").exists()
    plain = CliRunner().invoke(app, ["export", str(run), "--to", "dicom-seg", "--out", str(tmp_path / "out")])
    assert plain.exit_code == 2 and "--reference" in plain.output


@pytest.mark.parametrize("shift", [0.5, 100.0])
def test_a_series_that_lies_elsewhere_is_refused(run, tmp_path, shift):
    moved = AFFINE.copy()
    moved[0, 3] += shift
    for name, volumes in NIGHT.items():
        series_of(volumes["flair"], moved, tmp_path / "dicom" / name)

    code, words = exported(run, tmp_path / "dicom", tmp_path / "out")

    assert code == 2 and "--reference" in words
    assert not (tmp_path / "out").exists()


def test_what_is_no_series_is_refused(run, tmp_path):
    for name, volumes in NIGHT.items():
        series_of(volumes["flair"], AFFINE, tmp_path / "dicom" / name)
    first = tmp_path / "dicom" / "P10"
    (first / "0003.dcm").unlink()
    missing = exported(run, tmp_path / "dicom", tmp_path / "out")
    (first / "0003.dcm").write_bytes(b"no DICOM at all")
    strange = exported(run, tmp_path / "dicom", tmp_path / "out")

    assert missing[0] == 2 and "slices are missing" in missing[1]
    assert strange[0] == 2 and "no series" in strange[1]
