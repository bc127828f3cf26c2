"""Base of the remedies: the steps of a two-class training that they can change."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from screening.estimators.kernel_machine import KernelClassifier, TrainingRows
from screening.estimators.training import SolveTraining, Training
from screening.factors.first_pass import DualSolution


class Remedy:
    """Base of the remedies; each overrides one of these methods.

    Attributes
    ----------
    name : str
        Name in recipes.
    whole_matrix : bool
        Whether ``solve`` needs the whole kernel matrix. If no remedy does, problems
        with many rows are solved without computing all of it.
    """

    name: ClassVar[str]
    whole_matrix: ClassVar[bool] = True

    def resample(
        self, x: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and class numbers (1 = positive), synthetic rows last."""
        return x, codes

    def solve(self, training: Training, solve: SolveTraining) -> DualSolution:
        """Solve one pass by calling ``solve`` on this problem or on another one.

        The solution is over the rows of `training`.
        """
        return solve(training)

    def threshold(
        self, machine: KernelClassifier, rows: TrainingRows, memory: int | None
    ) -> float:
        """Return a threshold that is subtracted from the last decision.

        Parameters
        ----------
        machine : KernelClassifier
            Unfitted, without this remedy.
        rows : TrainingRows
        memory : int or None
            Bytes for kernel matrices.
        """
        return 0.0
