"""Decay away from the boundary, faster where the other class is far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import (
    Factor,
    FactorState,
    FirstPass,
    check_empty,
    mean_neighbor_distance,
)


@dataclass(frozen=True)
class DistanceDecay(Factor):
    """Conformal factor c(x) = exp(-|f(x)| d_M(x)), Liu and He (2021).

    d_M(x) is the mean squared feature-space distance to the support vectors of the
    label opposite to the sign of f(x) that are closer than M(x), the mean of the
    nearest and the farthest of all support vectors.

    Parameters
    ----------
    empty : {"zero", "nearest"}
        d_M where none is that close: 0, or the squared distance of the nearest one.
    """

    empty: str = "zero"

    name: ClassVar[str] = "distance_decay"

    def __post_init__(self) -> None:
        check_empty(self.empty)

    def log_at(self, first_pass: FirstPass, state: FactorState) -> np.ndarray:
        """Return log c at the rows of first_pass.x, shape (n,)."""
        decision = first_pass.decision
        opposite_labels = np.where(decision > 0, -1, 1)
        all_rows = np.arange(len(decision))
        neighbors = first_pass.neighbors_within(all_rows, opposite_labels, None)
        return -np.abs(decision) * mean_neighbor_distance(neighbors, self.empty)[0]
