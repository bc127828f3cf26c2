"""Bumps of one width on the support vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import EqualBumps, FirstPass


@dataclass(frozen=True)
class Bumps(EqualBumps):
    """Conformal factor c(x) = sum_i h_i exp(-|x - x_i|^2 / (2 tau^2)).

    Amari and Wu (1999). The sum is over all support vectors;
    tau = width sigma / sqrt(n).

    Parameters
    ----------
    n : {"features", "rows"}
        Whether n is the number of features or of training rows.
    width : float, > 0
        1 as printed; as it grows c becomes constant and K~ a multiple of K.
    h : {"one", "alpha"}
        Height of a bump: 1, or the support vector's alpha.
    """

    h: str = "one"

    name: ClassVar[str] = "bumps"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.h not in ("one", "alpha"):
            raise ValueError(f"h must be 'one' or 'alpha', got {self.h!r}")

    def heights(self, first_pass: FirstPass) -> np.ndarray:
        """Return the heights of the bumps, shape (n_sv,)."""
        alphas = first_pass.alphas
        return alphas if self.h == "alpha" else np.ones(len(alphas))
