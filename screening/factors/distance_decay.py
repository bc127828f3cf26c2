"""Decay away from the boundary, faster where the other class is far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import FirstPass, Remembered
from screening.factors.near import check_empty, near_mean


@dataclass(frozen=True)
class DistanceDecay:
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
    scope: ClassVar[str] = "output"
    machines: ClassVar[frozenset[str]] = frozenset({"two_class", "multi_class"})
    kernels: ClassVar[frozenset[str]] = frozenset({"gaussian", "laplacian"})

    def __post_init__(self) -> None:
        check_empty(self.empty)

    def parameters(self, first_pass: FirstPass) -> Remembered:
        return {}

    def at(self, x: np.ndarray, first_pass: FirstPass) -> np.ndarray:
        """c at the rows of x, shape (n_rows,)."""
        decision = first_pass.decision(x)
        distances = first_pass.feature_distances(x)
        if not distances.shape[1]:
            return np.ones(len(x))
        reach = (distances.min(axis=1) + distances.max(axis=1)) / 2.0
        opposite = (first_pass.support_labels > 0) != (decision[:, None] > 0)
        mean = near_mean(np.where(opposite, distances, np.inf), reach, self.empty)
        return np.exp(-np.abs(decision) * mean)
