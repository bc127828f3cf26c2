"""DICOM SEG: the same voxels on the series of the archive, whichever way its slices
lie, never elsewhere.
"""

import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from commands import screen
from image_folders import AFFINE, brains, folder_of, nibabel, table_of
from written_files import page_in, read_json, scores_in

from screening import read_cohort, score, train
from screening.imaging.dicom_seg import LPS
from screening.store.serialization import read_document

highdicom = pytest.importorskip("highdicom")
pydicom = pytest.importorskip("pydicom")

PAST = brains(6, classes=2)
NIGHT = brains(2, seed=1, classes=2)
WATCHED = ["1", "2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    past = read_cohort(
        table_of(PAST),
        label="lesion",
        positive=WATCHED,
        group="patient_id",
    )
    model = train(past, "logistic", search=1, jobs=1, beside=())
    folder = tmp_path_factory.mktemp("night")
    images = folder_of(NIGHT, folder / "images")
    return score(model, images, folder / "run").directory


def series_of(
    values: np.ndarray, affine: np.ndarray, folder: Path, turned: bool = False
) -> Path:
    """A volume as an MR series; `turned`: with its slices along another axis, and rows
    the other way.
    """
    folder.mkdir(parents=True)
    volume = highdicom.Volume(values, LPS @ affine, "PATIENT")
    # Slices first, then rows and columns, as DICOM has them.
    axes = (0, 2, 1) if turned else (2, 1, 0)
    volume = volume.permute_spatial_axes(axes)
    volume = volume.flip_spatial(1) if turned else volume
    volume = volume.ensure_handedness("RIGHT_HANDED", flip_axis=0)
    uids = {
        name: pydicom.uid.generate_uid()
        for name in ("StudyInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID")
    }
    for number, plane in enumerate(volume.array):
        one = pydicom.dataset.Dataset()
        one.file_meta = pydicom.dataset.FileMetaDataset()
        one.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
        one.SOPClassUID = pydicom.uid.MRImageStorage
        one.SOPInstanceUID = pydicom.uid.generate_uid()
        one.Modality = "MR"
        for name, uid in uids.items():
            setattr(one, name, uid)
        one.PatientID = folder.name
        one.PatientName = "A^B"
        one.PatientBirthDate = ""
        one.PatientSex = ""
        one.StudyID = "1"
        one.StudyDate = "20260301"
        one.StudyTime = "000000"
        one.AccessionNumber = ""
        one.ReferringPhysicianName = ""
        one.SeriesNumber = 1
        one.InstanceNumber = number + 1
        one.Rows, one.Columns = plane.shape
        one.SamplesPerPixel = 1
        one.PhotometricInterpretation = "MONOCHROME2"
        one.BitsAllocated = one.BitsStored = 16
        one.HighBit = 15
        one.PixelRepresentation = 0
        one.PixelSpacing = list(volume.pixel_spacing)
        one.SliceThickness = volume.spacing_between_slices
        one.ImageOrientationPatient = volume.get_plane_orientation()[
            0
        ].ImageOrientationPatient
        one.ImagePositionPatient = volume.get_plane_position(number)[
            0
        ].ImagePositionPatient
        one.PixelData = plane.astype(np.uint16).tobytes()
        one.save_as(folder / f"{number:04d}.dcm", enforce_file_format=True)
    return folder


def series_of_all(
    folder: Path, affine: np.ndarray = AFFINE, turned: bool = False
) -> Path:
    for name, volumes in NIGHT.items():
        series_of(volumes["flair"], affine, folder / name, turned)
    return folder


def exported(
    run: Path,
    reference: Path,
    out: Path,
    code: int = 0,
) -> str:
    words = ("export", run, "--to", "dicom-seg", "--reference", reference, "--out", out)
    return screen(*words, code=code).stderr


def refused(run: Path, reference: Path, out: Path, words: str) -> str:
    said = exported(run, reference, out, code=2)
    assert words in said
    assert not out.exists()
    return said


@pytest.mark.parametrize("offset", ["+0530", None], ids=["stated", "not stated"])
def test_dicom_seg_time_offset(run, tmp_path, offset):
    """Times are by the clock of the series; a time with date has its own offset.

    Where the series states no offset they are by the clock of the site.
    """
    series = series_of_all(tmp_path / "dicom")
    for path in (series / min(NIGHT)).iterdir():
        plane = pydicom.dcmread(path)
        plane.TimezoneOffsetFromUTC = offset or ""
        plane.save_as(path)

    exported(run, series, tmp_path / "out")

    found = pydicom.dcmread(tmp_path / "out" / f"{min(NIGHT)}_flags.dcm")
    times = read_document(run, "run")["times"]
    zones = {
        "+0530": datetime.timezone(datetime.timedelta(hours=5, minutes=30)),
        None: ZoneInfo(times["time_zone"]),
    }
    local = datetime.datetime.fromisoformat(times["started"]).astimezone(zones[offset])
    assert found.get("TimezoneOffsetFromUTC") == offset
    assert found.ContentDate + found.ContentTime == local.strftime("%Y%m%d%H%M%S")
    equipment = found.ContributingEquipmentSequence[0]
    stated = equipment.ContributionDateTime
    assert stated == local.strftime("%Y%m%d%H%M%S%z")


@pytest.mark.parametrize("turned", [False, True], ids=["axial", "sagittal and flipped"])
def test_the_flags_come_back_from_dicom_seg_voxel_by_voxel(run, tmp_path, turned):
    series = series_of_all(tmp_path / "dicom", turned=turned)
    exported(run, series, tmp_path / "out")
    rows = scores_in(run)
    for name in NIGHT:
        seg = highdicom.seg.segread(tmp_path / "out" / f"{name}_flags.dcm")
        own = rows[(rows["group"] == name) & rows["flagged"]]
        volume = seg.get_volume(combine_segments=True)
        seg._db_con.close()  # the library does not
        nothing = np.zeros((9, 8, 7), np.uint8)
        back = highdicom.Volume(nothing, LPS @ AFFINE, "PATIENT")
        found = volume.match_geometry(back, tol=1e-2).array
        wanted = np.zeros((9, 8, 7), int)
        places = tuple(own[axis].to_numpy(int) for axis in "xyz")
        wanted[places] = own["class"].astype(int)
        assert np.array_equal(found, wanted)
        assert set(WATCHED) == set(own["class"])
        labels = [segment.SegmentLabel for segment in seg.SegmentSequence]
        assert labels == ["Flagged for lesion 1", "Flagged for lesion 2"]
        first = pydicom.dcmread(tmp_path / "dicom" / name / "0000.dcm")
        assert seg.PatientID == name
        assert seg.StudyInstanceUID == first.StudyInstanceUID


def test_dicom_seg_several_classes(run, tmp_path):
    """A night of several classes names them and their clusters in millimetres.

    A patient's classes, each cluster's class and size, a colour a class, and numbers a
    class in NIfTI.
    """
    document = read_json(run / "run.json")
    rows = scores_in(run).query("flagged")

    for group in document["groups"]:
        own = rows[rows["group"] == group["group"]]
        assert group["by_class"] == own["class"].value_counts().to_dict()
    colours = document["voxels"]["colours"]
    sizes = np.abs(np.diag(AFFINE))[:3]
    assert list(colours) == WATCHED
    assert len({*colours.values()}) == 2
    for patient in document["voxels"]["patients"]:
        for cluster in patient["clusters"]:
            reach = np.subtract(cluster["high"], cluster["low"]) + 1
            assert sorted(cluster["millimetres"]) == pytest.approx(
                sorted(reach * sizes)
            )
    page = page_in(run)
    assert "Largest clusters" in page
    assert all(colour in page for colour in colours.values())

    screen("export", run, "--to", "nifti", "--out", tmp_path / "maps")
    assert read_json(tmp_path / "maps" / "volumes.json")["classes"] == {
        "1": "1",
        "2": "2",
    }
    for name in NIGHT:
        own = rows[rows["group"] == name]
        flags = np.asarray(
            nibabel.load(tmp_path / "maps" / f"{name}_flags.nii.gz").dataobj
        )
        places = tuple(own[axis].to_numpy(int) for axis in "xyz")
        classes = own["class"].astype(int)
        assert np.array_equal(flags[places], classes)


@pytest.mark.parametrize("shift", [0.5, 100.0])
def test_a_series_that_lies_elsewhere_is_refused(run, tmp_path, shift):
    moved = AFFINE.copy()
    moved[0, 3] += shift
    refused(
        run, series_of_all(tmp_path / "dicom", moved), tmp_path / "out", "--reference"
    )


def test_what_is_no_series_is_refused(run, tmp_path):
    """Without a series there is no segmentation."""
    dicom = series_of_all(tmp_path / "dicom")
    out = tmp_path / "out"
    (dicom / "P10" / "0003.dcm").unlink()
    refused(run, dicom, out, "slices are missing")
    (dicom / "P10" / "0003.dcm").write_bytes(b"no DICOM at all")
    refused(run, dicom, out, "not a series")
    assert "P10" not in refused(
        run, tmp_path / "nothing", out, "must refer to archived images"
    )
    answer = screen("export", run, "--to", "dicom-seg", "--out", out, code=2)
    assert "--reference" in answer.stderr
