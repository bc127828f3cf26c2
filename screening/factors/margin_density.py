"""Density of the margin support vectors."""

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
class MarginDensity(Factor):
    """Conformal factor c(x) = sum_i alpha_i exp(-|x - x_i|^2 / (2 tau^2)), Cohen et al. (2004) eq. 15.

    The sum is over the margin support vectors (0 < alpha_i < bound), over all of them if there are none.

    Parameters
    ----------
    n : {"features", "rows"}
        The n of tau = sigma / sqrt(n), sigma the width of the Gaussian kernel: the number of features
        (Amari and Wu) or of training rows.
    width : float, > 0
        Multiple of that tau; 1 as printed. Rows of many features are far apart in units of that tau, so
        that c is a spike on each support vector and every new row scores alike: then more is needed.
    """

    n: str = "features"
    width: float = 1.0

    name: ClassVar[str] = "margin_density"
    machines: ClassVar[frozenset[str]] = KERNEL_MACHINES
    kernels: ClassVar[frozenset[str]] = frozenset({"gaussian"})

    def __post_init__(self) -> None:
        check_tau(self.n, self.width)

    def parameters(self, first_pass: FirstPass) -> Remembered:
        return {"tau": np.asarray(gaussian_tau(first_pass, self.n, self.width))}

    def bumps(self, first_pass: FirstPass, remembered: Remembered) -> BumpTerms:
        tau = float(remembered["tau"])
        heights = first_pass.alphas * (first_pass.margin if first_pass.margin.any() else 1.0)
        return np.asarray(1.0 / (2.0 * tau**2)), heights, 2
