"""Keyed hashes of ids, by which units are known again without their names."""

from __future__ import annotations

import hashlib

import numpy as np

# Key of hashes that do not outlive the command.
HASH_KEY = "0123456789abcdef"


def keyed_hashes(names: np.ndarray, key: str) -> np.ndarray:
    """Return 64-bit hashes, shape (n,), that cannot be computed without the key."""
    # Commands that read a ledger and hash no id need not wait for pandas.
    import pandas as pd

    texts = np.asarray(names, dtype=object)
    return pd.util.hash_array(texts, hash_key=key[:16], categorize=False)


def short_hashes(hashes: np.ndarray) -> np.ndarray:
    """Return the lower 32 bits, by which a ledger knows a unit on several nights."""
    return hashes & np.uint64(0xFFFFFFFF)


def short_hash(name: str, key: str) -> int:
    """Return the hash by which the ledger knows one unit.

    The key is the model's, so that no two models' hashes can be compared.
    """
    hashes = keyed_hashes(np.array([name], dtype=object), key)
    return int(short_hashes(hashes)[0])


def series_key(series: str) -> str:
    """Return the key of the hashes that a series keeps, whatever its model is."""
    return hashlib.sha256(f"patients of {series}".encode()).hexdigest()
