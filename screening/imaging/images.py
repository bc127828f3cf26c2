"""Patients' images as a cohort: a folder a patient or a BIDS dataset; a voxel a row, a channel a column.

NIfTI files are read by nibabel (extra `imaging`); sizes are checked before voxels are read.
"""

from __future__ import annotations

import hashlib
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
    Batches,
    Part,
    Source,
    open_each,
    refuse_header,
    stamp_of,
)
from screening.schemas.run import Geometry

SUFFIXES = (".nii", ".nii.gz")
# 512 x 512 x 512: four bytes each are half a gigabyte.
MOST_VOXELS = 1 << 27
# Millimetres by which the grids of one patient's images may differ: what rounding to float32 leaves.
SAME_PLACE = 1e-3
PATIENT = "patient_id"
MASK = "mask"
DATASET = "dataset_description.json"
# What names patient, session and space is no part of a channel's name.
WHOSE = ("sub", "ses", "space")
Files = list[tuple[str, Path]]
"""Columns and the files that hold them."""


@dataclass(frozen=True)
class Nifti:
    """A volume as its header describes it; `name` is what errors call it, a path names the patient."""

    path: Path
    name: str
    shape: tuple[int, ...]
    # From voxel numbers to millimetres, RAS+, shape (4, 4); None where none is stated.
    affine: np.ndarray | None

    def values(self) -> np.ndarray:
        """The voxels, of the file's own type, or float64 where they are scaled.

        Raises CohortError: the file is cut short or damaged.
        """
        with _damage_named(
            self.name, "fewer voxels than the header says; export it again"
        ):
            return np.asanyarray(library().load(self.path).dataobj).reshape(self.shape)


def read_header(path: Path, name: str) -> Nifti:
    """Read what a NIfTI file says of itself.

    Raises UsageError: nibabel is not installed; CohortError: it is no single NIfTI-1 or NIfTI-2 file of one
    volume of plain numbers, or of too many voxels.
    """
    if not path.is_file():
        raise CohortError(f"{name}: no file; is a share not mounted?")
    # nibabel writes on stderr what it finds odd in a header.
    quiet = library().imageglobals.LoggingOutputSuppressor()
    with _damage_named(name, "not a NIfTI file; convert the images (dcm2niix)"), quiet:
        image = library().load(path)
        shape, dtype = image.shape, np.dtype(image.get_data_dtype())
    while len(shape) > 3 and shape[-1] == 1:
        shape = shape[:-1]
    if len(shape) != 3 or min(shape) < 1:
        raise CohortError(
            f"{name}: {len(shape)} axes; give each volume of a series a file of its own"
        )
    if np.prod([float(side) for side in shape]) > MOST_VOXELS:
        raise CohortError(
            f"{name}: more than {MOST_VOXELS} voxels; is the header damaged?"
        )
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise CohortError(f"{name}: voxels of type {dtype}; write plain numbers")
    # An affine made of the voxels' sizes alone would be invented.
    if int(image.header["sform_code"]) <= 0 and int(image.header["qform_code"]) <= 0:
        return Nifti(path, name, shape, None)
    affine = np.asarray(image.affine, dtype=float)
    if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-9:
        raise CohortError(
            f"{name}: the orientation is no grid in space; is the header damaged?"
        )
    return Nifti(path, name, shape, affine)


def _alike(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    """Whether two grids lie alike in space, which grids without a place do."""
    if first is None or second is None:
        return first is second
    return bool(np.allclose(first, second, rtol=0, atol=SAME_PLACE))


def library() -> ModuleType:
    """nibabel, read when images are (UsageError with the remedy where it is not installed)."""
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
    """Say why an image cannot be read, without its path; `otherwise` where nibabel alone knows."""
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


class PatientImages(Part):
    """The images of one patient, read like a table: the voxels of the mask in the order of the files.

    `name`: what errors call it: a patient's name goes into no log; `files`: columns and their NIfTI files;
    `mask` says which voxels are rows. Without one those are that are not 0 in every channel. Raises
    CohortError: a file cannot be read, or lies on another grid; every fault is named.
    """

    def __init__(self, patient: str, name: str, files: Files):
        self.patient, self.name = patient, name
        self.rows: int | None = None
        self.header = [
            PATIENT,
            *AXES,
            *(column for column, _ in files if column != MASK),
        ]
        self.stamps = {path: stamp_of(path) for _, path in files}
        refuse_header(self)
        volumes = open_each(
            lambda file: read_header(file[1], f"{name}, {file[0]}"), files
        )
        self.volumes = {
            column: volume for (column, _), volume in zip(files, volumes, strict=True)
        }
        self._grid = volumes[0]
        faults = [
            f"{volume.name}: another {what} than {files[0][0]}; bring the images of a patient onto one grid"
            for volume in volumes
            for what, differs in (
                ("shape", volume.shape != self._grid.shape),
                ("place in space", not _alike(volume.affine, self._grid.affine)),
            )
            if differs
        ]
        if faults:
            raise CohortError(faults)
        self.bytes = sum(size for size, _ in self.stamps.values())
        digests = [f"{column} {digest_of(path)}\n" for column, path in files]
        self.sha256 = hashlib.sha256("".join(digests).encode()).hexdigest()

    @property
    def geometry(self) -> Geometry | None:
        """The grid in space; None where the images do not state one."""
        affine = self._grid.affine
        if affine is None:
            return None
        return Geometry(
            group=self.patient, shape=list(self._grid.shape), affine=affine.tolist()
        )

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the voxels of the mask, x running fastest.

        Raises CohortError: a file is damaged; the mask is empty.
        """
        inside = self._inside()
        # As the file has them: the last axis is the slowest.
        places = np.flatnonzero(inside.ravel(order="F"))
        cells: dict[str, pa.Array] = {}
        for name, volume in self.volumes.items():
            if name in wanted:
                values = volume.values().ravel(order="F")[places]
                cells[name] = pa.array(
                    values.astype(values.dtype.newbyteorder("=")), from_pandas=True
                )
        for name, axis in zip(
            AXES, np.unravel_index(places, inside.shape, order="F"), strict=True
        ):
            cells[name] = pa.array(axis.astype(np.int32))
        self.refuse_changed()
        for start in range(0, len(places), batch_rows):
            n_rows = min(batch_rows, len(places) - start)
            part = {PATIENT: pa.array([self.patient] * n_rows)}
            part |= {
                name: column.slice(start, n_rows) for name, column in cells.items()
            }
            yield pa.record_batch([part[name] for name in wanted], wanted)

    def _inside(self) -> np.ndarray:
        """Which voxels are rows, shape (x, y, z)."""
        if MASK in self.volumes:
            mask = self.volumes[MASK].values()
            inside = np.isfinite(mask) & (mask != 0)
        else:
            inside = np.zeros(self._grid.shape, dtype=bool)
            for volume in self.volumes.values():
                values = volume.values()
                inside |= np.isfinite(values) & (values != 0)
        if not inside.any():
            raise CohortError(f"{self.name}: the mask is empty, or every voxel is 0")
        return inside


def opened(folder: Path) -> Source:
    """The source that a folder of NIfTI files or a BIDS dataset is.

    Raises UsageError: there are no images, or nibabel is not installed; CohortError: images that cannot be
    read or do not fit each other; all of them are named.
    """
    if (folder / DATASET).is_file():
        patients = _of_bids(folder)
    else:
        # `PATIENT/CHANNEL.nii.gz`: every file is a column by its name.
        inside = sorted(
            path
            for path in folder.iterdir()
            if path.is_dir() and not path.name.startswith(".")
        )
        columns = {
            path.name: [(_stem(image), image) for image in _images(path)]
            for path in inside
        }
        patients = {name: files for name, files in columns.items() if files}
    if not patients:
        raise UsageError(f"no NIfTI files of patients in {folder}")
    numbered = [
        (name, f"image {i}", files)
        for i, (name, files) in enumerate(patients.items(), start=1)
    ]
    parts = open_each(lambda patient: PatientImages(*patient), numbered)
    geometries = [geometry for part in parts if (geometry := part.geometry)]
    notes = [f"images of {len(parts)} patients, numbered in the order of their names"]
    masked = sum(MASK in part.volumes for part in parts)
    if masked < len(parts):
        notes.append(
            f"{len(parts) - masked} without a mask: voxels that are 0 in every channel are left out"
        )
    if nowhere := len(parts) - len(geometries):
        notes.append(
            f"{nowhere} state no place in space: they cannot be exported as images"
        )
    return Source(parts, notes, group=PATIENT, geometries=geometries)


def holds(folder: Path) -> bool:
    """Whether a folder is one of images: a BIDS dataset, or folders with NIfTI files in them."""
    if not folder.is_dir():
        return False
    return (folder / DATASET).is_file() or next(
        folder.glob("*/*.nii*"), None
    ) is not None


def _of_bids(folder: Path) -> dict[str, Files]:
    """`sub-01/anat/` for channels; `derivatives/*/sub-01/anat/` for masks and label maps.

    Raises UsageError: a subject has several sessions: their voxels lie in the same places.
    """
    subjects: dict[str, Files] = {}
    for subject in sorted(folder.glob("sub-*")):
        files: Files = []
        for path in _anatomical(subject):
            entities, suffix = _entities(path)
            # `sub-01_ses-1_ce-gad_T1w` is the channel `ce-gad_T1w`.
            own = [
                f"{key}-{value}" for key, value in entities.items() if key not in WHOSE
            ]
            files.append(("_".join([*own, suffix]), path))
        for derived in sorted(folder.glob(f"derivatives/*/{subject.name}")):
            for path in _anatomical(derived):
                entities, suffix = _entities(path)
                # `..._label-lesion_mask` is column `lesion`, `..._desc-brain_mask` the mask.
                label = entities.get("label", "brain")
                names = {"mask": MASK if label == "brain" else label, "dseg": suffix}
                files += [(names[suffix], path)] if suffix in names else []
        if files:
            subjects[subject.name] = files
    sessions = [
        {_entities(path)[0].get("ses") for _, path in files} - {None}
        for files in subjects.values()
    ]
    several = sum(len(labels) > 1 for labels in sessions)
    if several:
        raise UsageError(
            f"{several} subjects have several sessions; give a dataset with the one that is to be read"
        )
    return subjects


def _anatomical(subject: Path) -> Iterator[Path]:
    for pattern in ("anat", "ses-*/anat"):
        for folder in sorted(subject.glob(pattern)):
            yield from _images(folder)


def _images(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.lower().endswith(SUFFIXES) and not path.name.startswith(".")
    )


def _stem(path: Path) -> str:
    return re.sub(r"\.nii(\.gz)?$", "", path.name, flags=re.IGNORECASE)


def _entities(path: Path) -> tuple[dict[str, str], str]:
    """`sub-01_ce-gad_T1w` as {"sub": "01", "ce": "gad"} and T1w."""
    *parts, suffix = _stem(path).split("_")
    return {
        key: value for key, _, value in (part.partition("-") for part in parts)
    }, suffix
