"""Signatures of models.

`model.sig` contains the Ed25519 signature (RFC 8032) of the digest in `model.json`,
which covers the whole directory; `cryptography` (extra `signing`) makes and checks it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from screening.errors import ModelError, UsageError
from screening.files import read_bounded, read_secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

SIGNATURE = "model.sig"
"""Name of the file of the signature."""
# Precedes what is signed, so that a signature is good for nothing else.
_PURPOSE = b"screening model\n"
_MAX_KEY_BYTES = 16 << 10
_MAX_SIGNATURE_BYTES = 1 << 10
_NOT_INSTALLED = (
    "signatures need cryptography; install it: pip install 'screening[signing]'"
)


def private_key(path: Path) -> Ed25519PrivateKey:
    """Read the key that signs: PEM, without a password, readable by its owner alone.

    UsageError if it cannot be read, is of another kind, others can read it, or
    `cryptography` is not installed.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise UsageError(_NOT_INSTALLED) from None
    content = read_secret(path, _MAX_KEY_BYTES)
    with suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = load_pem_private_key(content, password=None)
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise UsageError(
        f"{path} is not an Ed25519 key without a password; make one: openssl genpkey "
        "-algorithm ed25519 -out KEY"
    )


def public_key(path: Path) -> Ed25519PublicKey:
    """Read the key that signatures are checked with: PEM.

    UsageError if it cannot be read, is of another kind, or `cryptography` is not
    installed.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError:
        raise UsageError(_NOT_INSTALLED) from None
    content = read_bounded(path, _MAX_KEY_BYTES, UsageError)
    with suppress(ValueError, UnsupportedAlgorithm):
        key = load_pem_public_key(content)
        if isinstance(key, Ed25519PublicKey):
            return key
    raise UsageError(
        f"{path} is not a public Ed25519 key; make it from the private key: openssl "
        "pkey -in KEY -pubout -out PUB"
    )


def sign(folder: Path, digest: str, key: Ed25519PrivateKey) -> None:
    """Write the signature of a model with this digest into its directory."""
    signature = key.sign(_PURPOSE + digest.encode())
    (folder / SIGNATURE).write_bytes(signature.hex().encode() + b"\n")


def verify_signature(folder: Path, digest: str, key: Ed25519PublicKey) -> None:
    """Raise ModelError unless a model has this key's signature of its digest."""
    from cryptography.exceptions import InvalidSignature

    if not is_signed(folder):
        raise ModelError(
            f"{folder} is not signed; sign it where it was trained (`sign`)",
            parameters=["sign"],
        )
    content = read_bounded(folder / SIGNATURE, _MAX_SIGNATURE_BYTES, ModelError)
    try:
        signature = bytes.fromhex(content.decode("ascii"))
        key.verify(signature, _PURPOSE + digest.encode())
    except (ValueError, InvalidSignature):
        raise ModelError(
            f"the signature of {folder} belongs to another model or key"
        ) from None


def is_signed(folder: Path) -> bool:
    """Return True if a model has a signature, valid or not."""
    return (folder / SIGNATURE).exists()
