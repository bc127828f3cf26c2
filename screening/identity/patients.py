"""Patients by keyed hashes, by which a ledger knows them without their ids."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

# Patients of a night that the ledger knows again: those with the lowest hashes.
N_REMEMBERED = 500

_NO_HASHES = np.zeros(0, np.uint64)


@dataclass(frozen=True)
class Patients:
    """Some patients, by keyed hashes; a patient with two spellings occurs twice.

    Parameters
    ----------
    reduced, whole : ndarray of uint64, shape (n,)
        Hashes of the reduced form and of the id as it is, sorted by both.
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
