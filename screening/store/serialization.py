"""Documents and arrays on disk: canonical JSON with its own digest, a signature over it, npz without objects.

`model.sig` holds the Ed25519 signature (RFC 8032) of the digest that `model.json` seals everything with;
`cryptography` (extra `signing`) makes and checks it.
"""

from __future__ import annotations

import glob
import hashlib
import io
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np

from screening.errors import (
    ClusterError,
    ModelError,
    ScreenError,
    UsageError,
    of_system,
)
from screening.files import read_bounded, read_secret
from screening.schemas.base import FORMAT_VERSION, Document
from screening.schemas.comparison import ComparisonDocument, ExternalValidation
from screening.schemas.model import ModelDocument
from screening.schemas.run import RunDocument

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


# Files from before the first release have their number, which was higher, under this key.
KEY_BEFORE_RELEASE = "format"
REMEDY = {
    "model": "train again",
    "run": "score the night again",
    "comparison": "compare again",
    "validation": "validate again",
}
_END = b"\n}\n"
MAX_DOCUMENT_BYTES = 64 << 20
DOCUMENTS: Mapping[str, type[Document]] = {
    "model": ModelDocument,
    "run": RunDocument,
    "comparison": ComparisonDocument,
    "validation": ExternalValidation,
}
PACKAGES = ("screening", "numpy", "scikit-learn", "pandas", "pyarrow")

Read = TypeVar("Read")


def versions() -> dict[str, str]:
    """Versions of what the numbers of a document depend on."""
    return {"python": platform.python_version()} | {
        name: version(name) for name in PACKAGES
    }


def canonical(document: Mapping[str, object]) -> bytes:
    """Write a document as JSON text that is the same for the same content.

    Keys keep their order, because the order of a contract's features is that of the encoded columns.

    Raises ValueError: a number that is not finite, or half a character.
    """
    return (
        json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1).encode()
        + b"\n"
    )


def written(document: Mapping[str, object]) -> tuple[dict[str, object], bytes]:
    """A document sealed with its format number and the digest of its canonical text; and that text."""
    whole = {**document, "format_version": FORMAT_VERSION}
    whole.pop("sha256", None)
    text = canonical(whole)
    digest = hashlib.sha256(text).hexdigest()
    return whole | {"sha256": digest}, text.removesuffix(_END) + _seal(digest)


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
        raise ModelError(
            f"{path} is damaged; restore it from a copy or make it again"
        ) from None
    number = document.get("format_version") if isinstance(document, dict) else None
    if number is None and isinstance(document, dict) and KEY_BEFORE_RELEASE in document:
        raise ModelError(
            f"{path} was made by a version before the first release; {REMEDY[kind]}"
        )
    if type(number) is not int or number < 1:
        raise ModelError(f"{path} is damaged: it has no format number")
    if number > FORMAT_VERSION:
        raise ModelError(
            f"{path} has format {number}, newer than {FORMAT_VERSION}; update screening"
        )
    digest = document.get("sha256")
    # Of the bytes: a flip in white space or a repeated key leaves the content as it was.
    seal = _seal(digest)
    text = content.removesuffix(seal) + _END
    if not content.endswith(seal) or hashlib.sha256(text).hexdigest() != digest:
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
    buffer, ordered = (
        io.BytesIO(),
        {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)},
    )
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
    except (
        Exception
    ) as error:  # zip, zlib and numpy each complain of damage in ways of their own
        raise ModelError(
            f"arrays.npz cannot be read ({type(error).__name__}); train the model again"
        ) from None
    broken = sorted(name for name, value in arrays.items() if not _is_finite(value))
    if broken:
        raise ModelError(
            f"arrays.npz has values that are not finite in {', '.join(broken)}"
        )
    return arrays


def _is_finite(value: np.ndarray) -> bool:
    return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())


SIGNATURE = "model.sig"
# What a signature is for stands in front of what is signed, so that it is good for nothing else.
PURPOSE = b"screening model\n"
LARGEST_KEY = 16 << 10
LARGEST_SIGNATURE = 1 << 10
NOT_INSTALLED = (
    "signatures need cryptography; install it: pip install 'screening[signing]'"
)


def private_key(path: Path) -> Ed25519PrivateKey:
    """Read the key that signs: PEM, without a password, open to its owner alone.

    Raises UsageError: it cannot be read, is of another kind, others can read it, or `cryptography` is not
    installed.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise UsageError(NOT_INSTALLED) from None
    content = read_secret(path, LARGEST_KEY)
    with suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = load_pem_private_key(content, password=None)
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise UsageError(
        f"{path} is no Ed25519 key without a password; make one: openssl genpkey -algorithm ed25519 -out KEY"
    )


def public_key(path: Path) -> Ed25519PublicKey:
    """Read the key that signatures are checked with: PEM.

    Raises UsageError: it cannot be read, is of another kind, or `cryptography` is not installed.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError:
        raise UsageError(NOT_INSTALLED) from None
    content = read_bounded(path, LARGEST_KEY, UsageError)
    with suppress(ValueError, UnsupportedAlgorithm):
        key = load_pem_public_key(content)
        if isinstance(key, Ed25519PublicKey):
            return key
    raise UsageError(
        f"{path} is no public Ed25519 key; take it from the one that signs: "
        "openssl pkey -in KEY -pubout -out PUB"
    )


def sign(folder: Path, digest: str, key: Ed25519PrivateKey) -> None:
    """Write the signature of a model beside it."""
    signature = key.sign(PURPOSE + digest.encode())
    (folder / SIGNATURE).write_bytes(signature.hex().encode() + b"\n")


def verify(folder: Path, digest: str, key: Ed25519PublicKey) -> None:
    """Check the signature of a model.

    Raises ModelError: there is none, or it is of another model or by another key.
    """
    from cryptography.exceptions import InvalidSignature

    if not is_signed(folder):
        raise ModelError(
            f"{folder} is not signed; have it signed where it was made (--sign)"
        )
    content = read_bounded(folder / SIGNATURE, LARGEST_SIGNATURE, ModelError)
    try:
        key.verify(bytes.fromhex(content.decode("ascii")), PURPOSE + digest.encode())
    except (ValueError, InvalidSignature):
        raise ModelError(
            f"the signature of {folder} is of another model or by another key"
        ) from None


def is_signed(folder: Path) -> bool:
    """Whether a model has a signature, whatever it may be worth."""
    return (folder / SIGNATURE).exists()


# What pieces there are: of a training or comparison, of a night.
KINDS = ("fits", "fragments")


def waiting_in(folder: Path, of: str | None = None) -> list[tuple[Path, Path]]:
    """Every place of pieces in a folder, with the output they wait for: of any, or of this name."""
    name = "*" if of is None else glob.escape(of)
    return [
        (waiting, folder / waiting.name[1 : -len(kind) - 1])
        for kind in KINDS
        for waiting in sorted(folder.glob(f".{name}.{kind}"))
        if waiting.is_dir() and not waiting.is_symlink()
    ]


@contextmanager
def waiting_beside(out: str | Path, what: str) -> Iterator[Path]:
    """A folder where finished pieces wait while `out` is not whole.

    It is gone once the block has ended well, or the work was refused: then its pieces are of no use. Where
    the command is killed, or loses its workers, it stays.
    """
    target = Path(out).resolve()
    waiting = target.with_name(f".{target.name}.{what}")
    try:
        waiting.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise of_system(error, waiting) from error
    try:
        yield waiting
    except ClusterError:
        with suppress(OSError):
            waiting.rmdir()  # nothing was finished
        raise
    except ScreenError:
        shutil.rmtree(waiting, ignore_errors=True)
        raise
    shutil.rmtree(waiting, ignore_errors=True)


def keep_piece(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a piece; it appears whole or not at all.

    Two processes may write it at once, where one was taken for dead: both write the same.
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with open(
            os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
        ) as file:
            file.write(pack(arrays, as_they_are=True))
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise of_system(error, path) from error


def read_piece(path: Path) -> dict[str, np.ndarray] | None:
    """A piece that is whole; None where there is none that can be read."""
    try:
        return unpack(path.read_bytes())
    except (FileNotFoundError, ModelError):
        return None
