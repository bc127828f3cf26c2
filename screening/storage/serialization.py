"""Documents and arrays on disk: canonical JSON with its own digest, and npz without objects or times."""

from __future__ import annotations

import hashlib
import io
import json
import math
import platform
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from screening.documents.base import FORMAT_VERSION
from screening.errors import ModelError
from screening.files import read_bounded

# Files from before the first release have their number, which was higher, under this key.
KEY_BEFORE_RELEASE = "format"
REMEDY = {
    "model": "train again", "run": "score the night again", "comparison": "compare again",
    "validation": "validate again",
}  # fmt: skip
_END = b"\n}\n"
MAX_DOCUMENT_BYTES = 64 << 20
# What the pages and commands go by; where a value is of another type nothing below it can be trusted.
KEYS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "model": {"recipe": dict, "contract": dict, "task": dict, "operating_points": list},
    "run": {"run_id": str, "date": str, "model": dict, "input": dict, "counts": dict, "cases": list},
    "comparison": {"settings": dict, "cohorts": list, "first_figure": str},
    "validation": {"model": dict, "operating_points": list, "figures": dict, "classes": dict},
}  # fmt: skip
PACKAGES = ("screening", "numpy", "scikit-learn", "pandas", "pyarrow")

Read = TypeVar("Read")


def versions() -> dict[str, str]:
    """Versions of what the numbers of a document depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def canonical(document: Mapping[str, object]) -> bytes:
    """Write a document as JSON text that is the same for the same content.

    Keys keep their order, because the order of a contract's features is that of the encoded columns.

    Raises ValueError: a number that is not finite, or half a character.
    """
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1).encode() + b"\n"


def sealed(document: Mapping[str, object]) -> dict[str, object]:
    """The document with its format number, and the digest of its own canonical text."""
    return written(document)[0]


def written(document: Mapping[str, object]) -> tuple[dict[str, object], bytes]:
    """The sealed document and its canonical text: a large one takes long to write, so it is done once."""
    whole = {**document, "format_version": FORMAT_VERSION}
    whole.pop("sha256", None)
    text = canonical(whole)
    digest = digest_of(text)
    return whole | {"sha256": digest}, text.removesuffix(_END) + _seal(digest)


def digest_of(content: bytes) -> str:
    """SHA-256 as the documents write it."""
    return hashlib.sha256(content).hexdigest()


def _seal(digest: object) -> bytes:
    """How a document ends: its digest is its last key."""
    return f',\n "sha256": "{digest}"'.encode() + _END


def read_document(directory: str | Path, kind: str) -> dict[str, Any]:
    """Read `model.json`, `run.json`, `comparison.json` or `validation.json` and check its digest.

    Raises ModelError: it is missing, damaged, from before the first release, of a newer format, or no such
    document; a key of a wrong type is named.
    """
    path = Path(directory) / f"{kind}.json"
    content = read_bounded(path, MAX_DOCUMENT_BYTES, ModelError)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ModelError(f"{path} is damaged; restore it from a copy or make it again") from None
    number = document.get("format_version") if isinstance(document, dict) else None
    if number is None and isinstance(document, dict) and KEY_BEFORE_RELEASE in document:
        raise ModelError(f"{path} was made by a version before the first release; {REMEDY[kind]}")
    if type(number) is not int or number < 1:
        raise ModelError(f"{path} is damaged: it has no format number")
    if number > FORMAT_VERSION:
        raise ModelError(f"{path} has format {number}, newer than {FORMAT_VERSION}; update screening")
    digest = document.get("sha256")
    # Of the bytes: a flip in white space or a repeated key leaves the content as it was.
    seal = _seal(digest)
    text = content.removesuffix(seal) + _END
    if not content.endswith(seal) or digest_of(text) != digest:
        raise ModelError(
            f"{path} is damaged: its digest does not match; restore it from a copy or make it again"
        )
    for name, wanted in KEYS[kind].items():
        if not isinstance(document.get(name), wanted):
            raise ModelError(f"{path} is damaged: '{name}' is missing or of another type")
    return document


@contextmanager
def as_stored(path: str | Path) -> Iterator[None]:
    """Read on in a stored document: what is not there, or of another type, is its fault and not a bug.

    Raises ModelError: naming the key where it is known.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        # Only what is written like one of our keys is told: it might be a patient's id.
        named = str(error.args[0]) if isinstance(error, KeyError) else ""
        what = f"'{named}'" if re.fullmatch("[a-z_]{1,30}", named) else "something in it"
        raise ModelError(f"{path} is damaged: {what} is missing or of another type") from error


def steady(directory: str | Path, read: Callable[[], Read]) -> Read:
    """Read a directory that may be replaced meanwhile: half of one and half of the other is read again."""
    while True:
        before = _identity(directory)
        try:
            return read()
        except ModelError:
            if _identity(directory) == before:
                raise


def _identity(directory: str | Path) -> tuple[int, ...]:
    try:
        status = Path(directory).stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


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
    except MemoryError:
        raise
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
