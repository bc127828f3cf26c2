"""Bumps on the support vectors, each as wide as its neighbours are near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import (
    FLAT,
    KERNEL_MACHINES,
    SMALLEST,
    BumpTerms,
    Factor,
    FirstPass,
    Remembered,
    check_count,
    right_side,
)
from screening.kernels import input_distances


@dataclass(frozen=True)
class LocalBumps(Factor):
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
    machines: ClassVar[frozenset[str]] = KERNEL_MACHINES

    def __post_init__(self) -> None:
        check_count("M", self.M)

    def parameters(self, first_pass: FirstPass) -> Remembered:
        vectors = first_pass.support_vectors
        kept = (
            right_side(first_pass)
            if self.drop_wrong_side
            else np.ones(len(vectors), bool)
        )
        among = input_distances(vectors[kept], vectors[kept])
        np.fill_diagonal(among, np.inf)
        n_near = min(int(self.M), len(among) - 1)
        tau2 = np.full(len(vectors), FLAT)
        if n_near > 0:
            tau2[kept] = np.maximum(
                np.sort(among, axis=1)[:, :n_near].mean(axis=1), SMALLEST
            )
        return {"kept": kept, "tau2": tau2}

    def bumps(self, first_pass: FirstPass, remembered: Remembered) -> BumpTerms:
        return 1.0 / remembered["tau2"], remembered["kept"].astype(float), 2
