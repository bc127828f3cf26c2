"""Decay away from the boundary, faster where the other class is far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import (
    Factor,
    FirstPass,
    Remembered,
    check_empty,
    mean_of_near,
)


@dataclass(frozen=True)
class DistanceDecay(Factor):
    """Conformal factor c(x) = exp(-|f(x)| d_M(x)), Liu and He (2021).

    d_M(x) is the mean squared feature-space distance to the support vectors of the label opposite to the sign
    of f(x) that are closer than M(x), the mean of the nearest and the farthest of all support vectors.

    Parameters
    ----------
    empty : {"zero", "nearest"}
        d_M where none is that close: 0, or the distance of the nearest of them.
    """

    empty: str = "zero"

    name: ClassVar[str] = "distance_decay"

    def __post_init__(self) -> None:
        check_empty(self.empty)

    def log_at(self, first_pass: FirstPass, remembered: Remembered) -> np.ndarray:
        """log c at the rows of first_pass.x, shape (n_rows,)."""
        decision = first_pass.decision
        sides = np.where(decision > 0, -1, 1)
        near = first_pass.near(np.arange(len(decision)), sides, None)
        return -np.abs(decision) * mean_of_near(near, self.empty)[0]
