"""Where a remedy can take part in the training of a two-class machine; by default nowhere."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from screening.estimators.kernel_machine import KernelClassifier, Rows
from screening.estimators.training import Solve, Training
from screening.factors.first_pass import DualSolution


class Remedy:
    """Base of the remedies; each overrides the one place where it acts."""

    name: ClassVar[str]
    # Whether ``solve`` reads the kernel matrix; where none does, many rows are solved without making it.
    whole_matrix: ClassVar[bool] = True

    def resample(
        self, x: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Training rows and their class numbers (1 = positive), new rows after the given ones."""
        return x, codes

    def solve(self, training: Training, solve: Solve) -> DualSolution:
        """Solve one pass, by calling ``solve`` on this or another problem; the dual is over these rows."""
        return solve(training)

    def threshold(
        self, machine: KernelClassifier, rows: Rows, memory: int | None
    ) -> float:
        """What is subtracted from the last decision; `machine` is unfitted, without this remedy."""
        return 0.0
