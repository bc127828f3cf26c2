"""The files of a model directory, checked by digests; its machines are not built."""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from screening.contract.contract import Contract
from screening.errors import ModelError
from screening.files import read_bounded
from screening.schemas.model import ModelDocument
from screening.store.serialization import canonical, read_document, steady, written
from screening.store.signing import sign, verify_signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

RESTORE = "restore the model's directory from a backup, or train it again"
# Largest size of each file on disk; no model comes near.
_MAX_BYTES = {"arrays.npz": 1 << 30, "validation.parquet": 256 << 20}


@dataclass(frozen=True)
class ModelFiles:
    """Content of the files of a model directory.

    Parameters
    ----------
    document : dict
        `model.json`, with the digests of the two files beside it and its own.
    arrays, table : bytes
        `arrays.npz` and `validation.parquet`.
    trained : datetime, optional
        Modification time of `arrays.npz`: the same training gives the same bytes.
    """

    document: dict[str, Any]
    arrays: bytes
    table: bytes
    trained: datetime.datetime | None

    @cached_property
    def facts(self) -> ModelDocument:
        """The document, typed."""
        return ModelDocument.from_dict(self.document)

    @cached_property
    def contract(self) -> Contract:
        """The contract of its cohort."""
        return Contract.from_dict(self.document["contract"])

    @property
    def digest(self) -> str:
        """SHA-256 of the whole directory, through the digests in `model.json`."""
        return str(self.document["sha256"])

    @property
    def id(self) -> str:
        """The first 12 digits of the digest."""
        return self.digest[:12]

    def revised(self, document: ModelDocument) -> ModelFiles:
        """Return the files with another document, and its digest."""
        return replace(self, document=written(document.to_dict())[0])


def read_model_files(
    folder: Path, signed_by: Ed25519PublicKey | None = None
) -> ModelFiles:
    """Read the files of a model and check their digests.

    A directory that is replaced meanwhile is read as it was before, or as it is after.

    Parameters
    ----------
    folder : Path
    signed_by : Ed25519PublicKey, optional
        Public key that must have signed the model.

    Raises
    ------
    ModelError
        If a file is missing, damaged or of a newer format, or the required signature is
        missing.
    """
    return steady(folder, lambda: _read(folder, signed_by))


def _read(folder: Path, signed_by: Ed25519PublicKey | None) -> ModelFiles:
    document = read_document(folder, "model")
    if signed_by is not None:
        verify_signature(folder, str(document["sha256"]), signed_by)
    arrays_path = folder / "arrays.npz"
    try:
        modified = arrays_path.stat().st_mtime
    except OSError as error:
        raise ModelError(f"cannot read {arrays_path}: {error.strerror}") from None
    table_path = folder / "validation.parquet"
    return ModelFiles(
        document=document,
        arrays=_read_checked(arrays_path, document.get("arrays_sha256")),
        table=_read_checked(table_path, document.get("validation_sha256")),
        trained=datetime.datetime.fromtimestamp(modified),
    )


def _read_checked(path: Path, digest: object) -> bytes:
    """Read a file; ModelError unless it has this digest."""
    content = read_bounded(path, _MAX_BYTES[path.name], ModelError)
    if hashlib.sha256(content).hexdigest() != digest:
        raise ModelError(
            f"{path} is damaged: its digest does not match model.json; {RESTORE}"
        )
    return content


def write_model_files(
    files: ModelFiles,
    folder: Path,
    draw: Callable[[dict[str, object]], str] | None,
    signer: Ed25519PrivateKey | None = None,
) -> None:
    """Write the files of a model into a directory that is being published.

    Parameters
    ----------
    files : ModelFiles
    folder : Path
    draw : callable, optional
        Makes `report.html` from the document.
    signer : Ed25519PrivateKey, optional
        Key to sign with.
    """
    (folder / "arrays.npz").write_bytes(files.arrays)
    (folder / "validation.parquet").write_bytes(files.table)
    (folder / "model.json").write_bytes(canonical(files.document))
    if files.trained is not None:
        # A model with another threshold keeps the time of its training.
        trained = files.trained.timestamp()
        os.utime(folder / "arrays.npz", (trained, trained))
    if draw is not None:
        page = draw(files.document)
        (folder / "report.html").write_text(page, encoding="utf-8", newline="\n")
    if signer is not None:
        sign(folder, files.digest, signer)
