"""Documents on disk: canonical JSON with its digest."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from screening.errors import ModelError
from screening.files import read_bounded
from screening.schemas.base import FORMAT_VERSION, Document
from screening.schemas.comparison import ComparisonDocument, ExternalValidation
from screening.schemas.model import ModelDocument
from screening.schemas.run import RunDocument

# Key of the format number before the first release, when the number was higher.
_OLD_FORMAT_KEY = "format"
# What to do about a document that cannot be read, by kind.
_RESTORE = "restore it from a backup, or make it again"
_REMEDY = {
    "model": "train again",
    "run": "score the night again",
    "comparison": "compare again",
    "validation": "validate again",
}
_END = b"\n}\n"
_MAX_DOCUMENT_BYTES = 64 << 20
_DOCUMENTS: Mapping[str, type[Document]] = {
    "model": ModelDocument,
    "run": RunDocument,
    "comparison": ComparisonDocument,
    "validation": ExternalValidation,
}
# Packages on which the numbers of a document depend.
_PACKAGES = ("screening", "numpy", "scikit-learn", "pandas", "pyarrow")

Read = TypeVar("Read")


def versions() -> dict[str, str]:
    """Return the versions of Python and the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        found[name] = version(name)
    return found


def canonical(document: Mapping[str, object]) -> bytes:
    """Return a document as JSON text that is the same for the same content.

    Keys keep their order, because the order of a contract's features is that of the
    encoded columns. ValueError for a number that is not finite, or half a character.
    """
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1)
    return text.encode() + b"\n"


def written(document: Mapping[str, object]) -> tuple[dict[str, object], bytes]:
    """Return a document with its format number and digest, and its canonical text.

    The digest is that of the text without the digest itself.
    """
    whole = {**document, "format_version": FORMAT_VERSION}
    whole.pop("sha256", None)
    text = canonical(whole)
    digest = hashlib.sha256(text).hexdigest()
    content = text.removesuffix(_END) + _seal(digest)
    return whole | {"sha256": digest}, content


def _seal(digest: object) -> bytes:
    """Return the end of a document, with its digest as the last key."""
    return f',\n "sha256": "{digest}"'.encode() + _END


def read_document(directory: str | Path, kind: str) -> dict[str, Any]:
    """Read `KIND.json` in a directory and check its digest.

    Parameters
    ----------
    directory : str or Path
    kind : {"model", "run", "comparison", "validation"}

    Raises
    ------
    ModelError
        If it is missing, damaged, from before the first release, of a newer format, or
        no such document; a key that is missing or of a wrong type is named.
    """
    return _read(directory, kind)[0]


def read_run(directory: str | Path) -> RunDocument:
    """Read the document of a run directory; errors as for ``read_document``."""
    document = _read(directory, "run")[1]
    assert isinstance(document, RunDocument), "its kind is a run"
    return document


def read_model(directory: str | Path) -> ModelDocument:
    """Read the document of a model directory; errors as for ``read_document``."""
    document = _read(directory, "model")[1]
    assert isinstance(document, ModelDocument), "its kind is a model"
    return document


def _read(directory: str | Path, kind: str) -> tuple[dict[str, Any], Document]:
    """Read a document: as stored, and as its type."""
    path = Path(directory) / f"{kind}.json"
    content = read_bounded(path, _MAX_DOCUMENT_BYTES, ModelError)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ModelError(f"{path} is damaged; {_RESTORE}") from None
    _check_format(document, path, kind)
    digest = document.get("sha256")
    # The digest is of the bytes: a change in white space, or a repeated key, would not
    # change the content.
    seal = _seal(digest)
    text = content.removesuffix(seal) + _END
    is_sealed = content.endswith(seal)
    if not is_sealed or hashlib.sha256(text).hexdigest() != digest:
        raise ModelError(f"{path} is damaged: its digest does not match; {_RESTORE}")
    return document, _DOCUMENTS[kind].from_dict(document, str(path))


def _check_format(document: object, path: Path, kind: str) -> None:
    """Raise ModelError unless a document has a format number that is known."""
    if not isinstance(document, dict):
        raise ModelError(f"{path} is damaged: it has no format number; {_RESTORE}")
    number = document.get("format_version")
    if number is None and _OLD_FORMAT_KEY in document:
        raise ModelError(
            f"{path} was made by a version before the first release; {_REMEDY[kind]}"
        )
    if type(number) is not int or number < 1:
        raise ModelError(f"{path} is damaged: it has no format number; {_RESTORE}")
    if number > FORMAT_VERSION:
        raise ModelError(
            f"{path} has format {number}, newer than {FORMAT_VERSION}; update screening"
        )


def steady(directory: str | Path, read: Callable[[], Read]) -> Read:
    """Call read() again if the directory was replaced while it failed.

    Half of the old and half of the new directory would be damaged.
    """
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
