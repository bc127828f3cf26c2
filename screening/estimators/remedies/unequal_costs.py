"""Unequal costs of the two classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from screening.estimators.remedies.base import Remedy
from screening.estimators.training import SolveTraining, Training
from screening.factors.first_pass import DualSolution


@dataclass(frozen=True)
class UnequalCosts(Remedy):
    """C_positive = cost_ratio * C and C_negative = C.

    Veropoulos et al. (1999); Chen et al. (2005), eq. 5, 6.

    Parameters
    ----------
    cost_ratio : float > 0 or "balanced"
        "balanced" is n_negative / n_positive.
    """

    cost_ratio: float | str = "balanced"

    name: ClassVar[str] = "unequal_costs"
    whole_matrix: ClassVar[bool] = False

    def __post_init__(self) -> None:
        ratio = self.cost_ratio
        if ratio == "balanced":
            return
        if isinstance(ratio, (str, bool)) or not 0 < ratio < np.inf:
            raise ValueError(
                f"cost_ratio must be a number > 0 or 'balanced', got {ratio!r}"
            )

    def solve(self, training: Training, solve: SolveTraining) -> DualSolution:
        """Solve the pass with the costs of positive rows multiplied by the ratio."""
        positive = training.labels > 0
        if self.cost_ratio == "balanced":
            counts = training.counts
            if counts is None:
                counts = np.ones(len(positive))
            ratio = counts[~positive].sum() / counts[positive].sum()
        else:
            ratio = self.cost_ratio
        costs = training.costs * np.where(positive, float(ratio), 1.0)
        return solve(replace(training, costs=costs))
