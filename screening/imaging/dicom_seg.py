"""Export of a run of images as DICOM SEG: the flags of each patient on a DICOM series.

A segmentation belongs to a series of the archive: patient, study, frame of reference
and the grid of its slices are those of the series. Flags are moved to that grid by
flips and turns alone, never by interpolation.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from screening.clock.zone import Clock
from screening.errors import UsageError
from screening.imaging.nifti import PatientMaps, file_name, maps_of, write_volumes
from screening.schemas.run import RunDocument
from screening.scoring.exporting import FlaggedRows

if TYPE_CHECKING:
    from highdicom import Volume, VolumeGeometry
    from highdicom.seg import Segmentation, SegmentDescription
    from pydicom import Dataset

_MAX_SLICES = 4096
LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
"""From NIfTI's axes (right, front, above) to DICOM's (left, back, above)."""
# Millimetres by which grids may differ: the rounding of DICOM's decimal texts.
_TOLERANCE = 1e-2
# Characters of a DICOM text of type LO.
_MAX_TEXT = 64


def write(flagged: FlaggedRows, *, out: Path, reference: Path) -> None:
    """Write `PATIENT_flags.dcm` of every patient with a flagged voxel.

    Parameters
    ----------
    flagged : FlaggedRows
    out : Path
        Directory.
    reference : Path
        Folder in which `PATIENT/` contains the files of one DICOM series.

    Raises
    ------
    UsageError
        If highdicom is not installed, or if a patient's series is missing, is not a
        series of slices, or has another grid; patients are named by number. Also as for
        ``nifti.maps_of``.
    """
    try:
        import highdicom  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError(
            'DICOM SEG needs highdicom: pip install "screening[dicom]"'
        ) from None
    write_volumes(out, flagged, _segmentations(flagged, reference))


def _segmentations(
    flagged: FlaggedRows, reference: Path
) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file."""
    for number, maps in enumerate(maps_of(flagged), start=1):
        # DICOM has no empty segments: a patient without flags gets no file.
        if not maps.flags.any():
            continue
        name = file_name(maps.geometry.group)
        slices, geometry = _read_series(reference / name, f"image {number}")
        flags = _on_series(maps, geometry, number)
        segmentation = _segmentation(flags, slices, flagged.run, name)
        yield f"{name}_flags.dcm", _to_bytes(segmentation)


def _reference_error(message: str) -> UsageError:
    return UsageError(message, parameters=["reference"])


def _read_series(folder: Path, name: str) -> tuple[Sequence[Dataset], VolumeGeometry]:
    """Read the slices of a series without pixels, in spatial order, and their grid.

    `name` is what errors call the patient.
    """
    from pydicom.errors import InvalidDicomError

    paths: list[Path] = []
    if folder.is_dir():
        paths = sorted([path for path in folder.iterdir() if path.is_file()])
    if not 0 < len(paths) <= _MAX_SLICES:
        raise _reference_error(
            f"{name}: `reference` contains {len(paths)} files for this patient; give "
            "a folder PATIENT with its DICOM series, because a segmentation must "
            "refer to archived images"
        )
    try:
        return _slices_and_geometry(paths, name)
    except (InvalidDicomError, AttributeError, ValueError, TypeError, OSError) as error:
        raise _reference_error(
            f"{name}: the files in `reference` are not a series of parallel slices "
            f"({type(error).__name__})"
        ) from None


def _slices_and_geometry(
    paths: Sequence[Path], name: str
) -> tuple[Sequence[Dataset], VolumeGeometry]:
    """Read the slices of a reference series in order, and their grid."""
    import pydicom
    from highdicom import VolumeGeometry
    from highdicom.spatial import sort_datasets

    slices: Sequence[Dataset] = [
        pydicom.dcmread(path, stop_before_pixels=True) for path in paths
    ]
    if len({str(slice_.SeriesInstanceUID) for slice_ in slices}) > 1:
        raise _reference_error(
            f"{name}: `reference` contains several series; keep the one that was "
            "segmented"
        )
    slices = sort_datasets(slices)
    first = slices[0]
    positions = np.array(
        [slice_.ImagePositionPatient for slice_ in slices], dtype=float
    )
    gaps = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    if len(gaps) and np.ptp(gaps) > _TOLERANCE:
        raise _reference_error(
            f"{name}: slices are missing in the series of `reference`"
        )
    spacing = gaps.mean() if len(gaps) else first.SliceThickness
    geometry = VolumeGeometry.from_attributes(
        image_position=first.ImagePositionPatient,
        image_orientation=first.ImageOrientationPatient,
        rows=first.Rows,
        columns=first.Columns,
        pixel_spacing=first.PixelSpacing,
        spacing_between_slices=float(spacing),
        number_of_frames=len(slices),
        coordinate_system="PATIENT",
        frame_of_reference_uid=first.FrameOfReferenceUID,
    )
    return slices, geometry


def _on_series(maps: PatientMaps, geometry: VolumeGeometry, number: int) -> Volume:
    """Return the flags on the grid of a series.

    The series may count the same voxels along other axes, or backwards. `number` is
    that of the patient, for errors.
    """
    from highdicom import Volume

    from_voxels = LPS @ maps.affine
    from_series = np.asarray(geometry.affine)
    turn = np.rint(np.linalg.inv(from_series) @ from_voxels)
    unit_corners = np.array([(*corner, 1) for corner in np.ndindex(2, 2, 2)])
    corners = unit_corners * [*maps.flags.shape, 1]
    error = from_series @ turn - from_voxels
    distance = np.abs(error @ corners.T).max()
    absolute = np.abs(turn[:3, :3])
    sums = [*absolute.sum(axis=0), *absolute.sum(axis=1)]
    is_permutation = all(axis == 1 for axis in sums)
    if distance > _TOLERANCE or not is_permutation:
        raise _reference_error(
            f"image {number}: the run and the series in `reference` have different "
            "grids; score images made from this series without resampling"
        )
    flagged = np.argwhere(maps.flags)
    turned = flagged @ turn[:3, :3].T + turn[:3, 3]
    positions = turned.astype(np.int64)
    is_outside = (positions < 0) | (positions >= geometry.spatial_shape)
    if is_outside.any():
        raise _reference_error(
            f"image {number}: flagged voxels lie outside the series in `reference`"
        )
    flags = np.zeros(geometry.spatial_shape, dtype=np.uint8)
    flags[tuple(positions.T)] = maps.flags[tuple(flagged.T)]
    return Volume(
        flags,
        from_series,
        "PATIENT",
        frame_of_reference_uid=geometry.frame_of_reference_uid,
    )


def _segmentation(
    flags: Volume, slices: Sequence[Dataset], run: RunDocument, patient: str
) -> Segmentation:
    """Return the segmentation of one patient; the same run gives the same bytes."""
    from highdicom.seg import Segmentation
    from pydicom.uid import generate_uid

    uids = {}
    series_uid = str(slices[0].SeriesInstanceUID)
    for kind in ("series", "instance", "organisation"):
        sources = [kind, run.run_id, patient, series_uid]
        uids[kind] = generate_uid(entropy_srcs=sources)
    version = run.versions.get("screening", "0")
    segmentation = Segmentation(
        source_images=slices,
        pixel_array=flags,
        segmentation_type="BINARY",
        segment_descriptions=_segments(run, version),
        series_instance_uid=uids["series"],
        series_number=900,
        sop_instance_uid=uids["instance"],
        instance_number=1,
        manufacturer="screening",
        manufacturer_model_name=f"model {run.model.id}",
        software_versions=version,
        device_serial_number=run.run_id,
        content_description=f"screening run {run.run_id} of {run.date}"[:_MAX_TEXT],
    )
    offset = slices[0].get("TimezoneOffsetFromUTC")
    if offset:
        segmentation.TimezoneOffsetFromUTC = offset
    started = _local_start(run, offset)
    _make_reproducible(segmentation, started, uids["organisation"])
    return segmentation


def _local_start(run: RunDocument, offset: str | None) -> datetime.datetime:
    """Return when the run started, by the clock of the series.

    An object has one offset for all its times, those of the study included. Where the
    series states none, its times are taken to be local, and so is this one.
    """
    started = datetime.datetime.fromisoformat(run.times.started)
    if offset:
        return started.astimezone(datetime.datetime.strptime(offset, "%z").tzinfo)
    return started.astimezone(Clock(run.times.time_zone or "UTC").zone)


def _segments(run: RunDocument, version: str) -> list[SegmentDescription]:
    """Return one segment per watched class."""
    from highdicom import AlgorithmIdentificationSequence
    from highdicom.seg import SegmentDescription
    from pydicom.sr.codedict import codes

    task = run.model.task
    names = [task.label]
    if len(task.watched) > 1:
        names = [f"{task.label} {name}" for name in task.watched]
    segments = []
    for number, name in enumerate(names, start=1):
        algorithm = AlgorithmIdentificationSequence(
            name="screening", version=version, family=codes.DCM.ArtificialIntelligence
        )
        segments.append(
            SegmentDescription(
                segment_number=number,
                segment_label=f"Flagged for {name}"[:_MAX_TEXT],
                segmented_property_category=codes.SCT.MorphologicallyAbnormalStructure,
                segmented_property_type=codes.SCT.Lesion,
                algorithm_type="AUTOMATIC",
                algorithm_identification=algorithm,
            )
        )
    return segments


def _make_reproducible(
    segmentation: Segmentation, started: datetime.datetime, organisation_uid: str
) -> None:
    """Replace the time of the export by that of the run, and a random number."""
    from pydicom.valuerep import DT

    for prefix in ("Content", "InstanceCreation", "Series"):
        setattr(segmentation, f"{prefix}Date", started.strftime("%Y%m%d"))
        setattr(segmentation, f"{prefix}Time", started.strftime("%H%M%S"))
    for equipment in segmentation.ContributingEquipmentSequence:
        equipment.ContributionDateTime = DT(started.strftime("%Y%m%d%H%M%S%z"))
    for dimension in (
        *segmentation.DimensionOrganizationSequence,
        *segmentation.DimensionIndexSequence,
    ):
        dimension.DimensionOrganizationUID = organisation_uid


def _to_bytes(segmentation: Segmentation) -> bytes:
    """Return a segmentation as the bytes of a DICOM file."""
    buffer = io.BytesIO()
    segmentation.save_as(buffer, enforce_file_format=True)
    # highdicom looks up frames in a database in memory that it never closes; Python
    # 3.13 warns about that.
    with suppress(AttributeError):
        segmentation._db_con.close()
    return buffer.getvalue()
