"""A detached signature over a model's digest, so that one that travels shows who made it.

`model.sig` holds the Ed25519 signature (RFC 8032) of the digest that `model.json` seals everything with.
`cryptography` (extra `signing`) makes and checks it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from screening.errors import ModelError, UsageError
from screening.files import read_bounded, read_secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE = "model.sig"
# What a signature is for stands in front of what is signed, so that it is good for nothing else.
PURPOSE = b"screening model\n"
LARGEST_KEY = 16 << 10
LARGEST_SIGNATURE = 1 << 10
NOT_INSTALLED = "signatures need cryptography; install it: pip install 'screening[signing]'"


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
        raise ModelError(f"{folder} is not signed; have it signed where it was made (--sign)")
    content = read_bounded(folder / SIGNATURE, LARGEST_SIGNATURE, ModelError)
    try:
        key.verify(bytes.fromhex(content.decode("ascii")), PURPOSE + digest.encode())
    except (ValueError, InvalidSignature):
        raise ModelError(f"the signature of {folder} is of another model or by another key") from None


def is_signed(folder: Path) -> bool:
    """Whether a model has a signature, whatever it may be worth."""
    return (folder / SIGNATURE).exists()
