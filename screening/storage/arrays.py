"""Arrays as bytes: an npz without objects, without times, without values that are not finite."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from screening.errors import ModelError

# What a file may unfold to: arrays shrink to a third, not to a hundredth, and memory holds it.
_LARGEST = 1 << 30
_LEAST, _FOLDS = 16 << 20, 16
_MOST_ARRAYS = 100_000
_MAGIC = np.lib.format.magic(1, 0)


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
    content = archive.read(item)  # no more than item.file_size
    if content[: len(_MAGIC)] != _MAGIC:
        raise ValueError("a newer kind of array")
    start = len(_MAGIC) + 2
    end = start + int.from_bytes(content[len(_MAGIC) : start], "little")
    shape, by_columns, kind = _header(content[len(_MAGIC) : end])
    values = memoryview(content)[end:]
    if kind.kind not in "biufU" or math.prod(shape) * kind.itemsize != len(values):
        raise ValueError("header and content differ")
    return np.ndarray(shape, kind, values, order="F" if by_columns else "C").copy()


@lru_cache
def _header(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    # Machines of one model have arrays of the same shapes, and numpy has Python parse each header.
    return np.lib.format.read_array_header_1_0(io.BytesIO(text))


def _is_finite(value: np.ndarray) -> bool:
    return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
