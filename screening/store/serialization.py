"""Documents and arrays on disk: canonical JSON with its own digest, and npz without objects or times."""

from __future__ import annotations

import hashlib
import io
import json
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from screening.errors import ModelError
from screening.files import read_bounded
from screening.schemas.base import FORMAT_VERSION, Document
from screening.schemas.comparison import ComparisonDocument, ExternalValidation
from screening.schemas.model import ModelDocument
from screening.schemas.run import RunDocument

# Files from before the first release have their number, which was higher, under this key.
KEY_BEFORE_RELEASE = "format"
REMEDY = {
    "model": "train again", "run": "score the night again", "comparison": "compare again",
    "validation": "validate again",
}  # fmt: skip
_END = b"\n}\n"
MAX_DOCUMENT_BYTES = 64 << 20
DOCUMENTS: Mapping[str, type[Document]] = {
    "model": ModelDocument, "run": RunDocument, "comparison": ComparisonDocument,
    "validation": ExternalValidation,
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


def written(document: Mapping[str, object]) -> tuple[dict[str, object], bytes]:
    """A document sealed with its format number and the digest of its canonical text; and that text."""
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
    document; a key that is missing or of a wrong type is named.
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
    DOCUMENTS[kind].from_dict(document, str(path))
    return document


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


def pack(arrays: Mapping[str, np.ndarray], as_they_are: bool = False) -> bytes:
    """Write arrays as an npz: the same arrays, the same bytes.

    What is read again at once is not worth shrinking: `as_they_are`. Raises ValueError: a value is an object,
    or not finite.
    """
    buffer, ordered = io.BytesIO(), {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    broken = [name for name, value in ordered.items() if not _is_finite(value)]
    if broken:
        raise ValueError(f"array {broken[0]} has a value that is not finite")
    save = np.savez if as_they_are else np.savez_compressed
    save(buffer, allow_pickle=False, **ordered)
    return buffer.getvalue()


def unpack(content: bytes) -> dict[str, np.ndarray]:
    """Read what `pack` wrote; anything else is a `ModelError`."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = dict(archive)
            if not all(isinstance(value, np.ndarray) for value in arrays.values()):
                raise ValueError("something else is in it")
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


def _is_finite(value: np.ndarray) -> bool:
    return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
