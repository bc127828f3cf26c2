"""One NIfTI file as nibabel reads it; sizes are checked before voxels are read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from screening.errors import CohortError, UsageError

if TYPE_CHECKING:
    from nibabel.nifti1 import Nifti1Image

SUFFIXES = (".nii", ".nii.gz")
# 512 x 512 x 512: four bytes each are half a gigabyte.
MOST_VOXELS = 1 << 27
# Millimetres by which the grids of one patient's images may differ: what rounding to float32 leaves.
SAME_PLACE = 1e-3


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
        with _damage_named(self.name, "fewer voxels than the header says; export it again"):
            return np.asanyarray(library().load(self.path).dataobj).reshape(self.shape)

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
        raise CohortError(f"{name}: {len(shape)} axes; give each volume of a series a file of its own")
    if np.prod([float(side) for side in shape]) > MOST_VOXELS:
        raise CohortError(f"{name}: more than {MOST_VOXELS} voxels; is the header damaged?")
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise CohortError(f"{name}: voxels of type {dtype}; write plain numbers")
    return Nifti(path, name, shape, _affine(image, name))


def library() -> ModuleType:
    """nibabel, read when images are (UsageError with the remedy where it is not installed)."""
    try:
        import nibabel
    except ModuleNotFoundError:
        raise UsageError('images need nibabel: pip install "screening[imaging]"') from None
    module: ModuleType = nibabel
    return module


def _affine(image: Nifti1Image, name: str) -> np.ndarray | None:
    """The affine that is stated; one made of the voxels' sizes alone would be invented."""
    if int(image.header["sform_code"]) <= 0 and int(image.header["qform_code"]) <= 0:
        return None
    affine = np.asarray(image.affine, dtype=float)
    if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-9:
        raise CohortError(f"{name}: the orientation is no grid in space; is the header damaged?")
    return affine


@contextmanager
def _damage_named(name: str, otherwise: str) -> Iterator[None]:
    """Say why an image cannot be read, without its path; `otherwise` where nibabel alone knows."""
    try:
        yield
    except MemoryError:
        raise
    except (EOFError, zlib.error):
        raise CohortError(f"{name}: the file is damaged or cut short; export it again") from None
    except OSError as error:
        reason = f"it cannot be read ({error.strerror})" if error.errno else otherwise
        raise CohortError(f"{name}: {reason}") from None
    except Exception:
        raise CohortError(f"{name}: {otherwise}") from None
