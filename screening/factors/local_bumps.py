"""Bumps on the support vectors, each as wide as its neighbors are near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import (
    FLAT_SQUARED_WIDTH,
    KERNEL_MACHINES,
    MIN_SQUARED_WIDTH,
    BumpTerms,
    Factor,
    FactorState,
    FirstPass,
    check_count,
    on_correct_side,
)
from screening.kernels import input_distances


@dataclass(frozen=True)
class LocalBumps(Factor):
    """Conformal factor c(x) = sum_k exp(-|x - x_k|^2 / tau_k^2), Wu and Amari (2002).

    tau_k^2 is the mean squared input distance from x_k to its M nearest other support
    vectors; a bump that has no other to measure by is flat.

    Parameters
    ----------
    M : int, >= 1
        Number of neighbors that set the width of a bump.
    drop_wrong_side : bool
        Leave out support vectors with y f < 0, as Wu and Chang (2003) do in CT_I.
    """

    M: int = 3
    drop_wrong_side: bool = False

    name: ClassVar[str] = "local_bumps"
    machines: ClassVar[frozenset[str]] = KERNEL_MACHINES

    def __post_init__(self) -> None:
        check_count("M", self.M)

    def parameters(self, first_pass: FirstPass) -> FactorState:
        """Return the squared widths tau2 and the mask ``kept``, both (n_sv,)."""
        vectors = first_pass.support_vectors
        if self.drop_wrong_side:
            kept = on_correct_side(first_pass)
        else:
            kept = np.ones(len(vectors), bool)
        distances = input_distances(vectors[kept], vectors[kept])
        np.fill_diagonal(distances, np.inf)
        n_neighbors = min(int(self.M), len(distances) - 1)
        tau2 = np.full(len(vectors), FLAT_SQUARED_WIDTH)
        if n_neighbors > 0:
            nearest = np.sort(distances, axis=1)[:, :n_neighbors]
            mean = nearest.mean(axis=1)
            tau2[kept] = np.maximum(mean, MIN_SQUARED_WIDTH)
        return {"kept": kept, "tau2": tau2}

    def bumps(self, first_pass: FirstPass, state: FactorState) -> BumpTerms:
        """Return the bumps: (n_sv,) rates and heights, squared Euclidean distances."""
        return 1.0 / state["tau2"], state["kept"].astype(float), 2
