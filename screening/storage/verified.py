"""The files of a model, held against their digests, and against a signature where one is asked for."""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from screening.errors import ModelError
from screening.files import read_bounded
from screening.storage.sealing import read_document
from screening.storage.signing import verify

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

# Bytes of a file on disk; no model comes near.
LARGEST = {"arrays.npz": 1 << 30, "validation.parquet": 256 << 20}


@dataclass(frozen=True)
class ModelFiles:
    """What a model directory holds: `model.json`, `arrays.npz`, `validation.parquet`, and since when."""

    document: dict[str, object]
    arrays: bytes
    table: bytes
    trained: datetime.datetime


def read_files(folder: Path, signed_by: Ed25519PublicKey | None) -> ModelFiles:
    """Read the files of a model.

    Raises
    ------
    ModelError
        One is missing or damaged, or the signature that was asked for is not there.
    """
    document = read_document(folder, "model")
    if signed_by is not None:
        verify(folder, str(document["sha256"]), signed_by)
    try:
        trained = datetime.datetime.fromtimestamp((folder / "arrays.npz").stat().st_mtime)
    except OSError as error:
        raise ModelError(f"cannot read {folder / 'arrays.npz'}: {error.strerror}") from None
    arrays = _verified(folder, "arrays.npz", document.get("arrays_sha256"))
    table = _verified(folder, "validation.parquet", document.get("validation_sha256"))
    return ModelFiles(document, arrays, table, trained)


def digest_of(content: bytes) -> str:
    """SHA-256 as the documents write it."""
    return hashlib.sha256(content).hexdigest()


def _verified(folder: Path, name: str, digest: object) -> bytes:
    content = read_bounded(folder / name, LARGEST[name], ModelError)
    if digest_of(content) != digest:
        raise ModelError(f"{folder / name} is damaged: its digest does not match model.json")
    return content
