"""One NIfTI file, read no further than its header promises, and no further than a head is large.

Headers come from anywhere: sizes are checked before anything is allocated, and a compressed file is
decompressed only as far as its header says there are voxels.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, cast

import numpy as np

from screening.errors import CohortError, UsageError

if TYPE_CHECKING:
    from nibabel.nifti1 import Nifti1Header

SUFFIXES = (".nii", ".nii.gz")
# 512 x 512 x 512: four bytes each are half a gigabyte.
MOST_VOXELS = 1 << 27
# What may stand between header and voxels.
MOST_EXTENSIONS = 1 << 20
HEADERS = {348: "Nifti1Header", 540: "Nifti2Header"}
SINGLE_FILE = (b"n+1\0", b"n+2\0")
# Millimetres by which the grids of one patient's images may differ: what rounding to float32 leaves.
SAME_PLACE = 1e-3


@dataclass(frozen=True)
class Nifti:
    """A volume as its header describes it."""

    path: Path
    name: str  # what errors call it
    shape: tuple[int, int, int]
    affine: (
        np.ndarray | None
    )  # from voxel numbers to millimetres, RAS+, shape (4, 4); None where none is stated
    dtype: np.dtype
    offset: int  # bytes before the first voxel
    scaling: tuple[float, float] | None  # slope and intercept

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers by their type, as those of masks and label maps are."""
        return self.scaling is None and self.dtype.kind in "iu"

    def values(self) -> np.ndarray:
        """The voxels, of the file's own type, or float64 where they are scaled.

        Raises CohortError: the file is cut short, damaged, or longer than its header says.
        """
        n_bytes = int(np.prod(self.shape)) * self.dtype.itemsize
        with _opened(self.path, self.name) as stream:
            stream.read(self.offset)
            content = stream.read(n_bytes)
            if len(content) < n_bytes:
                raise CohortError(f"{self.name}: fewer voxels than the header says; export it again")
            if stream.read(1):
                raise CohortError(f"{self.name}: more content than the header says; export it again")
        found = np.frombuffer(content, self.dtype).reshape(self.shape, order="F")
        if self.scaling is None:
            return found
        slope, intercept = self.scaling
        return found * slope + intercept

    def same_place(self, other: Nifti) -> bool:
        """Whether both grids lie alike in space, which grids without a place do."""
        if self.affine is None or other.affine is None:
            return self.affine is other.affine
        return bool(np.allclose(self.affine, other.affine, rtol=0, atol=SAME_PLACE))


def read_header(path: Path, name: str) -> Nifti:
    """Read what a NIfTI file says of itself.

    Raises UsageError: nibabel is not installed; CohortError: it is no single NIfTI-1 or NIfTI-2 file of one
    volume of plain numbers, or of too many voxels.
    """
    with _opened(path, name) as stream:
        block = stream.read(max(HEADERS))
    sizes = {int.from_bytes(block[:4], order): order for order in ("little", "big")}
    size = next((size for size in sizes if size in HEADERS), None)
    if size is None or len(block) < size:
        raise CohortError(f"{name}: not a NIfTI file; convert the images (dcm2niix)")
    header = _header(block[:size], size)
    if bytes(header["magic"].tobytes())[:4] not in SINGLE_FILE:
        raise CohortError(f"{name}: header and voxels must be one file (.nii or .nii.gz)")
    dims = [int(each) for each in header["dim"]]
    shape = tuple(dims[1 : 1 + dims[0]]) if 1 <= dims[0] <= 7 else ()
    while len(shape) > 3 and shape[-1] == 1:
        shape = shape[:-1]
    if len(shape) != 3 or min(shape) < 1:
        raise CohortError(f"{name}: {len(shape)} axes; give each volume of a series a file of its own")
    if np.prod([float(each) for each in shape]) > MOST_VOXELS:
        raise CohortError(f"{name}: more than {MOST_VOXELS} voxels; is the header damaged?")
    offset = float(header["vox_offset"])
    if not size <= offset <= MOST_EXTENSIONS:
        raise CohortError(f"{name}: the voxels begin where none can be; is the header damaged?")
    return Nifti(
        path=path,
        name=name,
        shape=(shape[0], shape[1], shape[2]),
        affine=_affine(header, name),
        dtype=_dtype(header, name),
        offset=int(offset),
        scaling=_scaling(header, name),
    )


def library() -> ModuleType:
    """nibabel, read when images are (UsageError with the remedy where it is not installed)."""
    try:
        import nibabel
    except ModuleNotFoundError:
        raise UsageError('images need nibabel: pip install "screening[imaging]"') from None
    module: ModuleType = nibabel
    return module


def _header(block: bytes, size: int) -> Nifti1Header:
    kind = getattr(library(), HEADERS[size])
    # Its own check prints what it finds; what matters here is checked by the caller.
    header: Nifti1Header = kind(block, check=False)
    return header


def _affine(header: Nifti1Header, name: str) -> np.ndarray | None:
    """The affine that is stated; one made of the voxels' sizes alone would be invented."""
    if int(header["sform_code"]) <= 0 and int(header["qform_code"]) <= 0:
        return None
    try:
        affine = np.asarray(header.get_best_affine(), dtype=float)
    except Exception as error:
        raise CohortError(f"{name}: the orientation cannot be read ({type(error).__name__})") from None
    if affine.shape != (4, 4) or not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-9:
        raise CohortError(f"{name}: the orientation is no grid in space; is the header damaged?")
    return affine


def _dtype(header: Nifti1Header, name: str) -> np.dtype:
    try:
        dtype = np.dtype(header.get_data_dtype())
    except Exception:
        raise CohortError(f"{name}: voxels of an unknown type") from None
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise CohortError(f"{name}: voxels of type {dtype}; write plain numbers")
    return dtype


def _scaling(header: Nifti1Header, name: str) -> tuple[float, float] | None:
    slope, intercept = float(header["scl_slope"]), float(header["scl_inter"])
    if not np.isfinite(slope) or slope == 0 or (slope, intercept) == (1.0, 0.0):
        return None
    if not np.isfinite(intercept):
        raise CohortError(f"{name}: the scaling is no number; is the header damaged?")
    return slope, intercept


@contextmanager
def _opened(path: Path, name: str) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed as they are asked for."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as file:
            packed = file.peek(2)[:2] == b"\x1f\x8b"
            yield cast(IO[bytes], gzip.GzipFile(fileobj=file)) if packed else file
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CohortError(f"{name}: the file is damaged or cut short; export it again") from None
    except OSError as error:
        # A path names the patient.
        raise CohortError(f"{name}: it cannot be read ({error.strerror or type(error).__name__})") from None
