"""Bumps on the support vectors, each as wide as its neighbours are near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import FLAT, SMALLEST, FirstPass, Remembered, check_count, right_side
from screening.kernels import input_distances


@dataclass(frozen=True)
class LocalBumps:
    """Conformal factor c(x) = sum_k exp(-|x - x_k|^2 / tau_k^2), Wu and Amari (2002).

    tau_k^2 is the mean squared input distance from x_k to its M nearest other support vectors; a bump that
    has no other to measure by is flat.

    Parameters
    ----------
    M : int, >= 1
    drop_wrong_side : bool
        Leave out support vectors with y f < 0, as Wu and Chang (2003) do in CT_I.
    """

    M: int = 3
    drop_wrong_side: bool = False

    name: ClassVar[str] = "local_bumps"
    scope: ClassVar[str] = "output"
    machines: ClassVar[frozenset[str]] = frozenset({"one_class", "two_class", "multi_class"})
    kernels: ClassVar[frozenset[str]] = frozenset({"gaussian", "laplacian"})

    def __post_init__(self) -> None:
        check_count("M", self.M)

    def parameters(self, first_pass: FirstPass) -> Remembered:
        vectors = first_pass.support_vectors
        kept = right_side(first_pass) if self.drop_wrong_side else np.ones(len(vectors), bool)
        among = input_distances(vectors[kept], vectors[kept])
        np.fill_diagonal(among, np.inf)
        n_near = min(int(self.M), len(among) - 1)
        tau2 = np.full(len(vectors), FLAT)
        if n_near > 0:
            tau2[kept] = np.maximum(np.sort(among, axis=1)[:, :n_near].mean(axis=1), SMALLEST)
        return {"kept": kept, "tau2": tau2}

    def bumps(self, first_pass: FirstPass, remembered: Remembered) -> tuple[np.ndarray, np.ndarray, int]:
        """Rates, heights and norm of the bumps on the support vectors."""
        return 1.0 / remembered["tau2"], remembered["kept"].astype(float), 2

    def log_at(self, first_pass: FirstPass, remembered: Remembered) -> np.ndarray:
        """log c at the rows of first_pass.x, shape (n_rows,)."""
        return first_pass.log_bump_sum(*self.bumps(first_pass, remembered))
