"""Patients' images as a cohort: one row per voxel, one column per channel.

Images are a folder per patient, a BIDS or nnU-Net dataset of NIfTI files, read by
nibabel (extra `imaging`). Sizes are checked before voxels are read.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa

from screening.contract.contract import AXES
from screening.errors import CohortError, UsageError
from screening.files import digest_of
from screening.io.readers import (
    RecordBatches,
    Source,
    SourceFile,
    open_each,
    refuse_header,
    stamp_of,
)
from screening.schemas.run import Geometry

_SUFFIXES = (".nii", ".nii.gz")
# 512 x 512 x 512: four bytes each are half a gigabyte.
_MAX_VOXELS = 1 << 27
# Millimetres by which the grids of one patient's images may differ: the rounding to
# float32.
_TOLERANCE = 1e-3
# Columns of the patient and of the mask.
_PATIENT = "patient_id"
_MASK = "mask"
_DATASET_FILE = "dataset_description.json"
# Folders of an nnU-Net dataset, and the column of its label maps.
_NNUNET_IMAGES = "imagesTr"
_NNUNET_LABELS = "labelsTr"
_NNUNET_LABEL = "label"
# BIDS entities that are not part of a channel's name.
_PATIENT_ENTITIES = ("sub", "ses", "space")
_Files = list[tuple[str, Path]]
"""Columns and their files."""


@dataclass(frozen=True)
class Nifti:
    """A volume as its header describes it.

    Parameters
    ----------
    path : Path
    name : str
        What errors call it, since a path names the patient.
    shape : tuple of 3 int
    affine : ndarray of shape (4, 4), optional
        From voxel numbers to millimetres, RAS+; None if the header states none.
    """

    path: Path
    name: str
    shape: tuple[int, ...]
    affine: np.ndarray | None

    def values(self) -> np.ndarray:
        """Return the voxels, in the file's type, or float64 if they are scaled.

        CohortError if the file is cut short or damaged.
        """
        reason = "fewer voxels than the header states; export it again"
        with _damage_named(self.name, reason):
            data = nibabel_module().load(self.path).dataobj
            return np.asanyarray(data).reshape(self.shape)


def _read_header(path: Path, name: str) -> Nifti:
    """Read the header of a NIfTI file.

    Raises
    ------
    UsageError
        If nibabel is not installed.
    CohortError
        If it is not a NIfTI-1 or NIfTI-2 file of one volume of plain numbers, or has
        too many voxels.
    """
    if not path.is_file():
        raise CohortError(f"{name}: the file does not exist; is a share not mounted?")
    # nibabel prints what it finds unusual in a header.
    quiet = nibabel_module().imageglobals.LoggingOutputSuppressor()
    with _damage_named(name, "not a NIfTI file; convert the images (dcm2niix)"), quiet:
        image = nibabel_module().load(path)
        shape = image.shape
        dtype = np.dtype(image.get_data_dtype())
    shape = _volume_shape(shape, name)
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise CohortError(f"{name}: voxels of type {dtype}; write plain numbers")
    # nibabel makes an affine from the voxels' sizes if the header states none.
    has_affine = int(image.header["sform_code"]) > 0
    has_affine = has_affine or int(image.header["qform_code"]) > 0
    if not has_affine:
        return Nifti(path, name, shape, None)
    affine = np.asarray(image.affine, dtype=float)
    determinant = np.linalg.det(affine[:3, :3])
    if not np.isfinite(affine).all() or abs(determinant) < 1e-9:
        raise CohortError(
            f"{name}: the orientation does not define a grid in space; is the header "
            "damaged?"
        )
    return Nifti(path, name, shape, affine)


def _volume_shape(shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Return the shape without axes of length 1 at its end.

    CohortError unless it is of one volume that is not too large.
    """
    while len(shape) > 3 and shape[-1] == 1:
        shape = shape[:-1]
    if len(shape) != 3 or min(shape) < 1:
        raise CohortError(
            f"{name}: the image has {len(shape)} axes; write each volume of a series "
            "to its own file"
        )
    if math.prod(map(int, shape)) > _MAX_VOXELS:
        raise CohortError(
            f"{name}: the image has more than {_MAX_VOXELS} voxels; is the header "
            "damaged?"
        )
    return shape


def _same_space(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    """Return True if two affines are equal, or both are missing."""
    if first is None or second is None:
        return first is second
    return bool(np.allclose(first, second, rtol=0, atol=_TOLERANCE))


def nibabel_module() -> ModuleType:
    """Import nibabel, when images are read; UsageError if it is not installed."""
    try:
        import nibabel
    except ModuleNotFoundError:
        raise UsageError(
            'images need nibabel: pip install "screening[imaging]"'
        ) from None
    module: ModuleType = nibabel
    return module


@contextmanager
def _damage_named(name: str, otherwise: str) -> Iterator[None]:
    """Turn errors of reading an image into a CohortError without its path.

    `otherwise` is the reason given for errors that only nibabel understands.
    """
    try:
        yield
    except MemoryError:
        raise
    except (EOFError, zlib.error):
        raise CohortError(
            f"{name}: the file is damaged or cut short; export it again"
        ) from None
    except OSError as error:
        reason = f"it cannot be read ({error.strerror})" if error.errno else otherwise
        raise CohortError(f"{name}: {reason}") from None
    except Exception:
        raise CohortError(f"{name}: {otherwise}") from None


class PatientImages(SourceFile):
    """The images of one patient, read as a table of the mask's voxels.

    Rows are in the order of the files. Without a mask, voxels that are not 0 in every
    channel are rows.

    Parameters
    ----------
    patient : str
    name : str
        The patient in errors: names of patients are never logged.
    files : list of (str, Path)
        Columns and their NIfTI files.

    Raises
    ------
    CohortError
        If a file cannot be read, or has another grid; all faults are named.
    """

    def __init__(self, patient: str, name: str, files: _Files):
        self.patient = patient
        self.name = name
        self.rows: int | None = None
        channels = [column for column, _ in files if column != _MASK]
        self.header = [_PATIENT, *AXES, *channels]
        self.stamps = {path: stamp_of(path) for _, path in files}
        refuse_header(self)
        volumes = open_each(
            lambda file: _read_header(file[1], f"{name}, {file[0]}"), files
        )
        columns = [column for column, _ in files]
        self.volumes = dict(zip(columns, volumes, strict=True))
        self._grid = volumes[0]
        faults: list[str] = []
        for volume in volumes:
            faults += self._grid_faults(volume, columns[0])
        if faults:
            raise CohortError(faults)
        self.bytes = sum(size for size, _ in self.stamps.values())
        digests = [f"{column} {digest_of(path)}\n" for column, path in files]
        content = "".join(digests).encode()
        self.sha256 = hashlib.sha256(content).hexdigest()

    def _grid_faults(self, volume: Nifti, first_column: str) -> list[str]:
        """Return how a volume's grid differs from that of the first column."""
        differences = []
        if volume.shape != self._grid.shape:
            differences.append("shape")
        if not _same_space(volume.affine, self._grid.affine):
            differences.append("place in space")
        return [
            f"{volume.name}: {difference} differs from {first_column}; resample the "
            "images of a patient to one grid"
            for difference in differences
        ]

    @property
    def has_mask(self) -> bool:
        """True if a mask says which voxels are rows."""
        return _MASK in self.volumes

    @property
    def geometry(self) -> Geometry | None:
        """The grid in space; None if the images do not state one."""
        affine = self._grid.affine
        if affine is None:
            return None
        return Geometry(
            group=self.patient, shape=list(self._grid.shape), affine=affine.tolist()
        )

    def record_batches(self, wanted: list[str], batch_rows: int) -> RecordBatches:
        """Yield the voxels of the mask, x running fastest.

        CohortError if a file is damaged or the mask is empty.
        """
        inside = self._inside()
        # Fortran order, as in the file: the last axis is the slowest.
        voxels = np.flatnonzero(inside.ravel(order="F"))
        columns: dict[str, pa.Array] = {}
        for name, volume in self.volumes.items():
            if name in wanted:
                values = volume.values().ravel(order="F")[voxels]
                native = values.astype(values.dtype.newbyteorder("="))
                columns[name] = pa.array(native, from_pandas=True)
        positions = np.unravel_index(voxels, inside.shape, order="F")
        for name, position in zip(AXES, positions, strict=True):
            columns[name] = pa.array(position.astype(np.int32))
        self.refuse_changed()
        for start in range(0, len(voxels), batch_rows):
            n_rows = min(batch_rows, len(voxels) - start)
            part = {_PATIENT: pa.array([self.patient] * n_rows)}
            for name, column in columns.items():
                part[name] = column.slice(start, n_rows)
            yield pa.record_batch([part[name] for name in wanted], wanted)

    def _inside(self) -> np.ndarray:
        """Return the mask of voxels that are rows, shape (x, y, z)."""
        if self.has_mask:
            mask = self.volumes[_MASK].values()
            inside = np.isfinite(mask) & (mask != 0)
        else:
            inside = np.zeros(self._grid.shape, dtype=bool)
            for volume in self.volumes.values():
                values = volume.values()
                inside |= np.isfinite(values) & (values != 0)
        if not inside.any():
            raise CohortError(f"{self.name}: the mask is empty, or every voxel is 0")
        return inside


def open_images(folder: Path) -> Source:
    """Open a folder of NIfTI files or a BIDS dataset as a source of voxels.

    Raises
    ------
    UsageError
        If there are no images, or nibabel is not installed.
    CohortError
        If images cannot be read or do not fit each other; all of them are named.
    """
    if (folder / _DATASET_FILE).is_file():
        patients = _bids_patients(folder)
    elif _is_nnunet(folder):
        patients = _nnunet_patients(folder)
    else:
        patients = _folder_patients(folder)
    if not patients:
        raise UsageError(f"{folder} contains no patients' NIfTI files")
    numbered = [
        (name, f"image {i}", files)
        for i, (name, files) in enumerate(patients.items(), start=1)
    ]
    opened = open_each(lambda patient: PatientImages(*patient), numbered)
    geometries = []
    for patient in opened:
        geometry = patient.geometry
        if geometry is not None:
            geometries.append(geometry)
    notes = [f"images of {len(opened)} patients, numbered in the order of their names"]
    n_without_mask = sum(not patient.has_mask for patient in opened)
    if n_without_mask:
        notes.append(
            f"{n_without_mask} without a mask: voxels that are 0 in every channel, or "
            "not a number, are left out"
        )
    n_without_space = len(opened) - len(geometries)
    if n_without_space:
        notes.append(
            f"{n_without_space} have no position in space, so they cannot be "
            "exported as images"
        )
    return Source(opened, notes, group=_PATIENT, geometries=geometries)


def is_image_folder(folder: Path) -> bool:
    """Return True for a BIDS or nnU-Net dataset, and for folders of NIfTI files."""
    if not folder.is_dir():
        return False
    if (folder / _DATASET_FILE).is_file() or _is_nnunet(folder):
        return True
    return next(folder.glob("*/*.nii*"), None) is not None


def _folder_patients(folder: Path) -> dict[str, _Files]:
    """Return the files of each patient from `PATIENT/CHANNEL.nii.gz`."""
    patients: dict[str, _Files] = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith("."):
            files = [(_stem(image), image) for image in _image_files(path)]
            if files:
                patients[path.name] = files
    return patients


def _is_nnunet(folder: Path) -> bool:
    """Return True for a dataset of nnU-Net and for its folder of images alone."""
    return (folder / _NNUNET_IMAGES).is_dir() or any(_nnunet_images(folder))


def _nnunet_images(folder: Path) -> Iterator[tuple[str, int, Path]]:
    """Yield case, number of the channel and file of `CASE_0000.nii.gz` in a folder."""
    for path in _image_files(folder):
        match = re.fullmatch(r"(?P<case>.+)_(?P<channel>\d{4})", _stem(path))
        if match:
            yield match["case"], int(match["channel"]), path


def _nnunet_patients(folder: Path) -> dict[str, _Files]:
    """Return the files of each case of an nnU-Net dataset.

    Channels are `imagesTr/CASE_0000.nii.gz`, named by `dataset.json`, and the label map
    `labelsTr/CASE.nii.gz` is column `label`. A folder such as `imagesTs` is read alone.
    """
    images = folder / _NNUNET_IMAGES
    root = folder
    if not images.is_dir():
        images = folder
        root = folder.parent
    names = _nnunet_channels(root / "dataset.json")
    cases: dict[str, _Files] = {}
    for case, channel, path in _nnunet_images(images):
        column = names.get(str(channel), f"channel_{channel:04d}")
        cases.setdefault(case, []).append((column, path))
    if images != folder:
        for path in _image_files(folder / _NNUNET_LABELS):
            if _stem(path) in cases:
                cases[_stem(path)].append((_NNUNET_LABEL, path))
    return cases


def _nnunet_channels(file: Path) -> dict[str, str]:
    """Return the names of the channels by their numbers; none without a file of them.

    They are `channel_names` of nnU-Net 2, and `modality` of nnU-Net 1.
    """
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        names = content.get("channel_names") or content.get("modality") or {}
        return {str(number): str(name) for number, name in names.items()}
    except (ValueError, AttributeError):
        raise CohortError(
            f"{file.name}: this is not an nnU-Net file; write it again"
        ) from None


def _bids_patients(folder: Path) -> dict[str, _Files]:
    """Return the files of each subject of a BIDS dataset.

    Channels are in `sub-01/anat/`, masks and label maps in
    `derivatives/*/sub-01/anat/`. UsageError if a subject has several sessions, since
    their voxels have the same positions.
    """
    subjects: dict[str, _Files] = {}
    for subject in sorted(folder.glob("sub-*")):
        files = _bids_channels(subject)
        for derived in sorted(folder.glob(f"derivatives/*/{subject.name}")):
            files += _bids_labels(derived)
        if files:
            subjects[subject.name] = files
    n_with_sessions = 0
    for files in subjects.values():
        sessions = {_entities(path)[0].get("ses") for _, path in files}
        if len(sessions - {None}) > 1:
            n_with_sessions += 1
    if n_with_sessions:
        raise UsageError(
            f"{n_with_sessions} subjects have several sessions; give a dataset with "
            "one session each"
        )
    return subjects


def _bids_channels(subject: Path) -> _Files:
    """Return the channels: `sub-01_ses-1_ce-gad_T1w` is `ce-gad_T1w`."""
    files: _Files = []
    for path in _anatomical_files(subject):
        entities, suffix = _entities(path)
        parts = [
            f"{key}-{value}"
            for key, value in entities.items()
            if key not in _PATIENT_ENTITIES
        ]
        files.append(("_".join([*parts, suffix]), path))
    return files


def _bids_labels(subject: Path) -> _Files:
    """Return masks and label maps.

    `..._label-lesion_mask` is column `lesion`, `..._desc-brain_mask` the mask.
    """
    files: _Files = []
    for path in _anatomical_files(subject):
        entities, suffix = _entities(path)
        if suffix == "mask":
            label = entities.get("label", "brain")
            files.append((_MASK if label == "brain" else label, path))
        elif suffix == "dseg":
            files.append((suffix, path))
    return files


def _anatomical_files(subject: Path) -> Iterator[Path]:
    for pattern in ("anat", "ses-*/anat"):
        for folder in sorted(subject.glob(pattern)):
            yield from _image_files(folder)


def _image_files(folder: Path) -> list[Path]:
    """Return the images of a folder, sorted by path."""
    paths = []
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.lower().endswith(_SUFFIXES) and not path.name.startswith("."):
            paths.append(path)
    return sorted(paths)


def _stem(path: Path) -> str:
    return re.sub(r"\.nii(\.gz)?$", "", path.name, flags=re.IGNORECASE)


def _entities(path: Path) -> tuple[dict[str, str], str]:
    """Return `sub-01_ce-gad_T1w` as {"sub": "01", "ce": "gad"} and T1w."""
    *parts, suffix = _stem(path).split("_")
    entities = {}
    for part in parts:
        key, _, value = part.partition("-")
        entities[key] = value
    return entities, suffix
