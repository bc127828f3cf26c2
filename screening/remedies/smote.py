"""Synthetic minority rows in the input space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from imblearn.over_sampling import SMOTE

from screening.factors.numbers import check_count
from screening.remedies.base import Remedy


@dataclass(frozen=True)
class Smote(Remedy):
    """SMOTE, Chawla et al. (2002), as imbalanced-learn has it, until the classes are even.

    A synthetic row that becomes a support vector is stored with the model, its number in ``support_`` being
    that of no training row (n_rows or above). A single minority row has no neighbour: nothing is added.

    Parameters
    ----------
    k : int, >= 1
        Neighbours to interpolate with; fewer where the minority has fewer.
    seed : int
    """

    k: int = 5
    seed: int = 0

    name: ClassVar[str] = "smote"
    whole_matrix: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def resample(self, x: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n_fewer = int(np.bincount(codes, minlength=2).min())
        if n_fewer < 2:
            return x, codes
        more, labels = SMOTE(k_neighbors=min(self.k, n_fewer - 1), random_state=self.seed).fit_resample(
            x, codes
        )
        return np.ascontiguousarray(more), labels
