"""Density of the margin support vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import EqualBumps, FirstPass


@dataclass(frozen=True)
class MarginDensity(EqualBumps):
    """Conformal factor c(x) = sum_i alpha_i exp(-|x - x_i|^2 / (2 tau^2)).

    Cohen et al. (2004) eq. 15. The sum is over the margin support vectors
    (0 < alpha_i < bound), over all support vectors if there are none.

    Parameters
    ----------
    n : {"features", "rows"}
        The n of tau = sigma / sqrt(n), sigma the width of the Gaussian kernel: the
        number of features (Amari and Wu) or of training rows.
    width : float, > 0
        Multiple of that tau; 1 as printed. Rows of many features are far apart in units
        of that tau, so c is a spike on each support vector and all new rows score the
        same: then a larger width is needed.
    """

    name: ClassVar[str] = "margin_density"

    def heights(self, first_pass: FirstPass) -> np.ndarray:
        """Return the heights of the bumps, shape (n_sv,)."""
        if first_pass.margin.any():
            return first_pass.alphas * first_pass.margin
        return first_pass.alphas
