"""Arrays as bytes: an npz without objects, without times, without values that are not finite."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping

import numpy as np

from screening.errors import ModelError

# What a file may unfold to: arrays shrink to a third, not to a hundredth, and memory holds it.
_LARGEST = 1 << 30
_LEAST, _FOLDS = 16 << 20, 16
_MOST_ARRAYS = 100_000


def pack(arrays: Mapping[str, np.ndarray], as_they_are: bool = False) -> bytes:
    """Write arrays as an npz whose bytes depend on nothing but the arrays; `numpy.savez` stamps the time.

    What is read again at once is not worth shrinking: `as_they_are`.
    """
    buffer = io.BytesIO()
    # Trees shrink to a third; what is large as it is stays so, or it would look like a bomb.
    small = not as_they_are and sum(np.asarray(value).nbytes for value in arrays.values()) < _LARGEST // 2
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(arrays):
            value = np.asarray(arrays[name])
            if value.dtype.hasobject:
                raise TypeError(f"array {name} holds Python objects, which are never stored")
            if not _is_finite(value):
                raise ValueError(f"array {name} has a value that is not finite")
            item = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            item.compress_type = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED
            with archive.open(item, "w") as member:
                np.lib.format.write_array(member, np.asarray(value, order="C"), allow_pickle=False)
    return buffer.getvalue()


def unpack(content: bytes) -> dict[str, np.ndarray]:
    """Read what `pack` wrote; anything else is a `ModelError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            items = archive.infolist()
            allowed = max(min(_LEAST + _FOLDS * len(content), _LARGEST), len(content))
            if len(items) > _MOST_ARRAYS or sum(item.file_size for item in items) > allowed:
                raise ValueError("unfolds to more than any model holds")
            if len({item.filename for item in items}) < len(items):
                raise ValueError("two arrays have one name")
            arrays = {item.filename.removesuffix(".npy"): _read(archive, item) for item in items}
    except Exception as error:  # zip, zlib and numpy each complain of damage in ways of their own
        raise ModelError(
            f"arrays.npz cannot be read ({type(error).__name__}); train the model again"
        ) from None
    broken = sorted(name for name, value in arrays.items() if not _is_finite(value))
    if broken:
        raise ModelError(f"arrays.npz has values that are not finite in {', '.join(broken)}")
    return arrays


def _read(archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> np.ndarray:
    """One array; nothing is allocated by what its header says, but by the bytes that are there."""
    if item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("compressed otherwise than it was written")
    content = io.BytesIO(archive.read(item))  # no more than item.file_size
    if np.lib.format.read_magic(content) != (1, 0):
        raise ValueError("a newer kind of array")
    shape, by_columns, kind = np.lib.format.read_array_header_1_0(content)
    values = content.getbuffer()[content.tell() :]
    if kind.kind not in "biufU" or math.prod(shape) * kind.itemsize != len(values):
        raise ValueError("header and content differ")
    return np.ndarray(shape, kind, values, order="F" if by_columns else "C").copy()


def _is_finite(value: np.ndarray) -> bool:
    return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
