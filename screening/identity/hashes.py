"""Keyed hashes of ids, by which patients are known again without their names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

# Key of hashes that do not outlive the command.
HASH_KEY = "0123456789abcdef"
# Patients of a night that the ledger knows again: those with the lowest hashes.
N_REMEMBERED = 500
_NO_HASHES = np.zeros(0, np.uint64)


def keyed_hashes(names: np.ndarray, key: str) -> np.ndarray:
    """Return 64-bit hashes, shape (n,), that cannot be computed without the key."""
    # Commands that read a ledger and hash no id need not wait for pandas.
    import pandas as pd

    texts = np.asarray(names, dtype=object)
    return pd.util.hash_array(texts, hash_key=key[:16], categorize=False)


def hash_ids(ids: np.ndarray, key: str) -> np.ndarray:
    """Return the keyed hash of each id, shape (n,); 0 where an id is missing."""
    import pandas as pd

    hashes = keyed_hashes(ids, key)
    hashes[pd.isna(ids)] = 0
    return hashes


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


@dataclass(frozen=True)
class Patients:
    """Some patients, by keyed hashes; a patient with two spellings occurs twice.

    Parameters
    ----------
    reduced, whole : ndarray of uint64, shape (n,)
        Hashes of the reduced form and of the id itself, sorted by both.
    """

    reduced: np.ndarray = field(default_factory=_NO_HASHES.copy)
    whole: np.ndarray = field(default_factory=_NO_HASHES.copy)

    @classmethod
    def of(cls, reduced: ArrayLike, whole: ArrayLike) -> Patients:
        """Return patients by hashes in any order, each pair once."""
        pairs = np.stack([np.asarray(reduced, np.uint64), np.asarray(whole, np.uint64)])
        pairs = np.unique(pairs, axis=1)
        return cls(pairs[0], pairs[1])

    def __len__(self) -> int:
        return len(self.reduced)

    def __add__(self, other: Patients) -> Patients:
        return Patients.of(
            np.concatenate([self.reduced, other.reduced]),
            np.concatenate([self.whole, other.whole]),
        )

    def lowest(self) -> Patients:
        """Return those with the lowest hashes, the same ones on every night."""
        return Patients(self.reduced[:N_REMEMBERED], self.whole[:N_REMEMBERED])
