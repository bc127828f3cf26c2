"""How a multi-class machine is made of decision functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from screening.machines.passes import Dual
from screening.machines.training import Training, embedded, joined, solve_two_class


@dataclass(frozen=True)
class Classes:
    """Class numbers of the training rows, 0 to n_classes - 1."""

    codes: np.ndarray
    n_classes: int


class OneVsRest:
    """One decision function a class: that class against all others.

    Parameters
    ----------
    classes : Classes
    C, cost_ratio, tol
        As the machine's.
    """

    def __init__(self, classes: Classes, C: float, cost_ratio: float | str, tol: float) -> None:
        self.classes = classes
        self.C = C
        self.cost_ratio = cost_ratio
        self.tol = tol
        self.labels = self._labels()

    def _labels(self) -> np.ndarray:
        own = self.classes.codes[:, None] == np.arange(self.classes.n_classes)
        return np.where(own, 1, -1).astype(np.int8)

    def solve(self, gram: np.ndarray, c: np.ndarray) -> Dual:
        """One C-SVC for each column of ``labels``, rows labelled 0 left out.

        Parameters
        ----------
        gram : ndarray of shape (n_rows, n_rows)
        c : ndarray of shape (n_rows, 1) or (n_rows, n_outputs)
        """
        n_outputs = self.labels.shape[1]
        return joined([self._one(gram, self.labels[:, m], c[:, m % c.shape[1]]) for m in range(n_outputs)])

    def _one(self, gram: np.ndarray, labels: np.ndarray, c: np.ndarray) -> Dual:
        whole = Training(gram, labels, c, self._costs(labels), self.tol)
        inside = np.flatnonzero(labels)
        if len(inside) == len(labels):
            return solve_two_class(whole)
        return embedded(solve_two_class(whole.take(inside)), inside, len(labels))

    def _costs(self, labels: np.ndarray) -> np.ndarray:
        ratio = self.cost_ratio
        if ratio == "balanced":
            ratio = (labels < 0).sum() / (labels > 0).sum()
        return self.C * np.where(labels > 0, float(ratio), 1.0)

    @staticmethod
    def scores(decisions: np.ndarray) -> np.ndarray:
        """One score a class from the decisions, (n_rows, n_classes)."""
        return decisions


SCHEMES: dict[str, Any] = {"one_vs_rest": OneVsRest}
