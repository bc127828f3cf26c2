"""Arrays on disk: an npz without objects, the same bytes for the same arrays."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import numpy as np

from screening.errors import ModelError

MAX_UNPACKED_BYTES = 1 << 30
"""Largest size of a model's arrays in memory; no model comes near."""


def pack(arrays: Mapping[str, np.ndarray], compress: bool = True) -> bytes:
    """Pack arrays as an npz; the same arrays give the same bytes.

    Parameters
    ----------
    arrays : dict of str to ndarray
        ValueError for an object, or a value that is not finite.
    compress : bool
        Not worth its time for what is read again at once.
    """
    ordered = {}
    for name in sorted(arrays):
        ordered[name] = np.asarray(arrays[name], order="C")
        if not _is_finite(ordered[name]):
            raise ValueError(f"array {name} contains a value that is not finite")
    save = np.savez_compressed if compress else np.savez
    buffer = io.BytesIO()
    save(buffer, allow_pickle=False, **ordered)
    return buffer.getvalue()


def unpack(content: bytes) -> dict[str, np.ndarray]:
    """Unpack the arrays that `pack` wrote; ModelError for anything else."""
    try:
        _refuse_large(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = dict(archive)
            if not all(isinstance(value, np.ndarray) for value in arrays.values()):
                raise ValueError("it contains something else")
    except (MemoryError, ModelError):
        raise
    except Exception as error:
        # zip, zlib and numpy report damage by different errors.
        raise ModelError(
            f"arrays.npz cannot be read ({type(error).__name__}); restore it from a "
            "backup, or train the model again"
        ) from None
    broken = [name for name, value in arrays.items() if not _is_finite(value)]
    if broken:
        raise ModelError(
            f"arrays.npz has values that are not finite in {', '.join(sorted(broken))}"
        )
    return arrays


def _refuse_large(content: bytes) -> None:
    """Raise ModelError if arrays are larger once unpacked than any model's.

    A zip archive does not read more of a member than its stated size.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MAX_UNPACKED_BYTES:
        raise ModelError(
            f"arrays.npz unpacks to {size:,} bytes, more than the "
            f"{MAX_UNPACKED_BYTES:,} allowed; restore it from a backup"
        )


def _is_finite(value: np.ndarray) -> bool:
    if value.dtype.kind not in "fc":
        return True
    return bool(np.isfinite(value).all())
