"""A run of images as DICOM SEG: the flags of each patient on the DICOM series that the images were made of.

A segmentation belongs to a series of the archive: patient, study, frame of reference and the grid of its
slices are that series' own. The flags are brought onto it by flips and turns alone, never by interpolation.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from screening.errors import UsageError
from screening.imaging.nifti import PatientMaps, file_name, maps_of, write_volumes
from screening.schemas.run import RunDocument
from screening.scoring.rows import FlaggedRows

if TYPE_CHECKING:
    from highdicom import Volume, VolumeGeometry
    from highdicom.seg import Segmentation
    from pydicom import Dataset

MOST_SLICES = 4096
# NIfTI counts millimetres to the right, the front and above; DICOM to the left, the back and above.
LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
# Millimetres by which the grids may differ: what rounding of DICOM's decimal texts leaves.
SAME_PLACE = 1e-2


def write(flagged: FlaggedRows, *, out: Path, reference: Path) -> None:
    """`PATIENT_flags.dcm` of every patient with a flagged voxel in a directory; as `maps_of`.

    `reference`: `REFERENCE/PATIENT/` holds the files of one DICOM series.
    Raises UsageError: highdicom is not installed; a patient's series is missing, is no series of slices, or
    lies elsewhere. A patient is told by number.
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
    for number, maps in enumerate(maps_of(flagged), start=1):
        # An empty segmentation is none: DICOM knows no segment without a voxel.
        if not maps.flags.any():
            continue
        name = file_name(maps.geometry.group)
        slices, geometry = _series(reference / name, f"image {number}")
        yield (
            f"{name}_flags.dcm",
            _content(
                _segmentation(_on(maps, geometry, number), slices, flagged.run, name)
            ),
        )


def _series(folder: Path, name: str) -> tuple[Sequence[Dataset], VolumeGeometry]:
    """The slices of a series, in their order in space, without pixels, and their grid."""
    import pydicom
    from highdicom import VolumeGeometry
    from highdicom.spatial import sort_datasets
    from pydicom.errors import InvalidDicomError

    paths = (
        sorted(path for path in folder.iterdir() if path.is_file())
        if folder.is_dir()
        else []
    )
    if not 0 < len(paths) <= MOST_SLICES:
        raise UsageError(
            f"{name}: --reference holds {len(paths)} files for this patient; a folder PATIENT with a series "
            "is needed: a segmentation lies on images of the archive, and its place is not invented"
        )
    try:
        slices: list[Dataset] = [
            pydicom.dcmread(path, stop_before_pixels=True) for path in paths
        ]
        if len({str(slice_.SeriesInstanceUID) for slice_ in slices}) > 1:
            raise UsageError(
                f"{name}: several series in --reference; keep the one that was segmented"
            )
        slices = sort_datasets(slices)
        first = slices[0]
        positions = np.array(
            [slice_.ImagePositionPatient for slice_ in slices], dtype=float
        )
        gaps = np.linalg.norm(np.diff(positions, axis=0), axis=1)
        if len(gaps) and np.ptp(gaps) > SAME_PLACE:
            raise UsageError(
                f"{name}: slices are missing from the series of --reference"
            )
        geometry = VolumeGeometry.from_attributes(
            image_position=first.ImagePositionPatient,
            image_orientation=first.ImageOrientationPatient,
            rows=first.Rows,
            columns=first.Columns,
            pixel_spacing=first.PixelSpacing,
            spacing_between_slices=float(gaps.mean())
            if len(gaps)
            else float(first.SliceThickness),
            number_of_frames=len(slices),
            coordinate_system="PATIENT",
            frame_of_reference_uid=first.FrameOfReferenceUID,
        )
    except (InvalidDicomError, AttributeError, ValueError, TypeError, OSError) as error:
        raise UsageError(
            f"{name}: the files of --reference are no series of parallel slices ({type(error).__name__})"
        ) from None
    return slices, geometry


def _on(maps: PatientMaps, geometry: VolumeGeometry, number: int) -> Volume:
    """The flags on the grid of the series, which may count the same voxels along other axes, or backwards."""
    from highdicom import Volume

    ours, theirs = LPS @ maps.affine, np.asarray(geometry.affine)
    turn = np.rint(np.linalg.inv(theirs) @ ours)
    corners = np.array([(*corner, 1) for corner in np.ndindex(2, 2, 2)]) * [
        *maps.flags.shape,
        1,
    ]
    away = np.abs((theirs @ turn - ours) @ corners.T).max()
    absolute = np.abs(turn[:3, :3])
    if (
        away > SAME_PLACE
        or (absolute.sum(axis=0) != 1).any()
        or (absolute.sum(axis=1) != 1).any()
    ):
        raise UsageError(
            f"image {number}: the grid of the run is not that of the series in --reference; score images "
            "that were made of this series without resampling"
        )
    flagged = np.argwhere(maps.flags)
    places = (flagged @ turn[:3, :3].T + turn[:3, 3]).astype(np.int64)
    if (places < 0).any() or (places >= geometry.spatial_shape).any():
        raise UsageError(
            f"image {number}: flagged voxels lie outside the series in --reference"
        )
    flags = np.zeros(geometry.spatial_shape, dtype=np.uint8)
    flags[tuple(places.T)] = maps.flags[tuple(flagged.T)]
    return Volume(
        flags, theirs, "PATIENT", frame_of_reference_uid=geometry.frame_of_reference_uid
    )


def _segmentation(
    flags: Volume, slices: Sequence[Dataset], run: RunDocument, patient: str
) -> Segmentation:
    from highdicom import AlgorithmIdentificationSequence
    from highdicom.seg import Segmentation, SegmentDescription
    from pydicom.sr.codedict import codes
    from pydicom.uid import generate_uid
    from pydicom.valuerep import DT

    version = run.versions.get("screening", "0")
    made = datetime.datetime.fromisoformat(run.times.started)
    series, instance, organisation = (
        # The same run gives the same file.
        generate_uid(
            entropy_srcs=[what, run.run_id, patient, str(slices[0].SeriesInstanceUID)]
        )
        for what in ("series", "instance", "organisation")
    )
    task = run.model.task
    names = (
        [f"{task.label} {name}" for name in task.watched]
        if len(task.watched) > 1
        else [task.label]
    )
    segments = [
        SegmentDescription(
            segment_number=number,
            segment_label=f"Flagged for {name}"[:64],
            segmented_property_category=codes.SCT.MorphologicallyAbnormalStructure,
            segmented_property_type=codes.SCT.Lesion,
            algorithm_type="AUTOMATIC",
            algorithm_identification=AlgorithmIdentificationSequence(
                name="screening",
                version=version,
                family=codes.DCM.ArtificialIntelligence,
            ),
        )
        for number, name in enumerate(names, start=1)
    ]
    segmentation = Segmentation(
        source_images=slices,
        pixel_array=flags,
        segmentation_type="BINARY",
        segment_descriptions=segments,
        series_instance_uid=series,
        series_number=900,
        sop_instance_uid=instance,
        instance_number=1,
        manufacturer="screening",
        manufacturer_model_name=f"model {run.model.id}",
        software_versions=version,
        device_serial_number=run.run_id,
        content_description=f"screening run {run.run_id} of {run.date}"[:64],
    )
    # The clock of the run, not that of the export, and no number by lot.
    for what in ("Content", "InstanceCreation", "Series"):
        setattr(segmentation, f"{what}Date", made.strftime("%Y%m%d"))
        setattr(segmentation, f"{what}Time", made.strftime("%H%M%S"))
    for equipment in segmentation.ContributingEquipmentSequence:
        equipment.ContributionDateTime = DT(made.strftime("%Y%m%d%H%M%S"))
    for part in (
        *segmentation.DimensionOrganizationSequence,
        *segmentation.DimensionIndexSequence,
    ):
        part.DimensionOrganizationUID = organisation
    return segmentation


def _content(segmentation: Segmentation) -> bytes:
    written = io.BytesIO()
    segmentation.save_as(written, enforce_file_format=True)
    # highdicom finds frames by a database in memory that it never closes; Python 3.13 warns of such.
    with suppress(AttributeError):
        segmentation._db_con.close()
    return written.getvalue()
