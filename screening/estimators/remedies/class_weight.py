"""Unequal costs of the two classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from screening.estimators.remedies.base import Remedy
from screening.estimators.training import Solve, Training
from screening.factors.first_pass import DualSolution


@dataclass(frozen=True)
class UnequalCosts(Remedy):
    """C_positive = cost_ratio * C, C_negative = C (Veropoulos et al. 1999; Chen et al. 2005, eq. 5, 6).

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
        if ratio != "balanced" and (
            isinstance(ratio, (str, bool)) or not (np.isfinite(ratio) and ratio > 0)
        ):
            raise ValueError(
                f"cost_ratio must be a number > 0 or 'balanced', got {ratio!r}"
            )

    def solve(self, training: Training, solve: Solve) -> DualSolution:
        positive = training.labels > 0
        count = np.ones(len(positive)) if training.counts is None else training.counts
        ratio = count[~positive].sum() / count[positive].sum()
        ratio = ratio if self.cost_ratio == "balanced" else self.cost_ratio
        return solve(
            replace(
                training, costs=training.costs * np.where(positive, float(ratio), 1.0)
            )
        )
