"""Bumps on the support vectors, of one width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import (
    KERNEL_MACHINES,
    BumpTerms,
    Factor,
    FirstPass,
    Remembered,
    check_tau,
    gaussian_tau,
)


@dataclass(frozen=True)
class Bumps(Factor):
    """Conformal factor c(x) = sum_i h_i exp(-|x - x_i|^2 / (2 tau^2)), Amari and Wu (1999).

    The sum is over all support vectors; tau = width sigma / sqrt(n).

    Parameters
    ----------
    h : {"one", "alpha"}
        Height of a bump: 1, or the support vector's alpha.
    n : {"features", "rows"}
        What n counts.
    width : float, > 0
        1 as printed; as it grows c becomes constant and K~ a multiple of K.
    """

    h: str = "one"
    n: str = "features"
    width: float = 1.0

    name: ClassVar[str] = "bumps"
    machines: ClassVar[frozenset[str]] = KERNEL_MACHINES
    kernels: ClassVar[frozenset[str]] = frozenset({"gaussian"})

    def __post_init__(self) -> None:
        if self.h not in ("one", "alpha"):
            raise ValueError(f"h must be 'one' or 'alpha', got {self.h!r}")
        check_tau(self.n, self.width)

    def parameters(self, first_pass: FirstPass) -> Remembered:
        return {"tau": np.asarray(gaussian_tau(first_pass, self.n, self.width))}

    def bumps(self, first_pass: FirstPass, remembered: Remembered) -> BumpTerms:
        tau = float(remembered["tau"])
        heights = first_pass.alphas if self.h == "alpha" else np.ones(len(first_pass.alphas))
        return np.asarray(1.0 / (2.0 * tau**2)), heights, 2
