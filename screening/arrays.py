"""Arrays as bytes: an npz without objects, without times, without values that are not finite."""

from __future__ import annotations

import io
import zipfile

import numpy as np

from .errors import ModelError


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """Write arrays as an npz whose bytes depend on nothing but the arrays; `numpy.savez` stamps the time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            value = np.asarray(arrays[name])
            if value.dtype.hasobject:
                raise TypeError(f"array {name} holds Python objects, which are never stored")
            if not _is_finite(value):
                raise ValueError(f"array {name} has a value that is not finite")
            with archive.open(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), "w") as member:
                np.lib.format.write_array(member, np.asarray(value, order="C"), allow_pickle=False)
    return buffer.getvalue()


def unpack(content: bytes) -> dict[str, np.ndarray]:
    """Read what `pack` wrote; anything else is a `ModelError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            # Stored members only: a compressed one could unfold to any size.
            if any(item.file_size > len(content) or item.compress_type for item in archive.infolist()):
                raise ValueError("compressed member")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ModelError(
            f"arrays.npz cannot be read ({type(error).__name__}); train the model again"
        ) from None
    broken = sorted(name for name, value in arrays.items() if not _is_finite(value))
    if broken:
        raise ModelError(f"arrays.npz has values that are not finite in {', '.join(broken)}")
    return arrays


def _is_finite(value: np.ndarray) -> bool:
    return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
