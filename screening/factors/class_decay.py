"""Decay away from the predicted class's boundary, multi-class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import (
    Factor,
    FirstPass,
    KernelMachineState,
    Remembered,
    check_empty,
    check_number,
    mean_of_near,
)


@dataclass(frozen=True)
class ClassDecay(Factor):
    """Conformal factor c(x) = exp(-p_m(x) |D_m(x)|), m the class the first pass predicts, Shao et al. (2021).

    Parameters
    ----------
    form : {"weighted", "local"}
        "weighted": p_m = w_m mean over the support vectors of machine m of |Phi(x_j) - Phi(x)|^2 with
        w_m = n_m^-2 / sum_i n_i^-2 (eq. 16, 17, 19). "local": the mean over those of other classes closer
        (squared) than Q w_m (eq. 21), without the weight.
    Q : float, > 0
        Reach of the local form, in units of the largest input distance between training rows; 0.1 to 1.
    empty : {"zero", "nearest"}
        p_m where no support vector is that close: 0, or the distance of the nearest one.
    per_class : bool
        One c for each machine, from its own D_m, in place of one for all.
    """

    form: str = "weighted"
    Q: float = 1.0
    empty: str = "zero"
    per_class: bool = False

    name: ClassVar[str] = "class_decay"
    scope: ClassVar[str] = "joint"
    machines: ClassVar[frozenset[str]] = frozenset({"multi_class"})
    varies: ClassVar[frozenset[str]] = frozenset({"Q"})

    def __post_init__(self) -> None:
        if self.form not in ("weighted", "local"):
            raise ValueError(f"form must be 'weighted' or 'local', got {self.form!r}")
        check_empty(self.empty)
        check_number("Q", self.Q)

    def parameters(self, first_pass: KernelMachineState) -> Remembered:
        counts = np.asarray(first_pass.class_counts, float)
        shares = (counts.min() / counts) ** 2
        weights = shares / shares.sum()
        if self.form == "weighted":
            return {"weights": weights}
        return {"reach": self.Q * first_pass.largest_distance * weights}

    def log_at(
        self, first_pass: KernelMachineState, remembered: Remembered
    ) -> np.ndarray:
        """log c at the rows of first_pass.x, shape (n_rows,), or (n_rows, n_classes) where ``per_class``."""
        return self.log_each(first_pass, [remembered])[0]

    def log_each(
        self, first_pass: KernelMachineState, remembered: Sequence[Remembered]
    ) -> list[np.ndarray]:
        """The same of factors that differ in Q alone, by what each remembers: neighbours are met once."""
        decisions = np.abs(first_pass.decisions)
        every = np.arange(len(decisions))
        if self.per_class:
            of_class = [
                self._rates(every, m, output, remembered)
                for m, output in enumerate(first_pass.outputs)
            ]
            return list(-np.stack(of_class, axis=-1) * decisions)
        predicted = first_pass.predicted
        rates = np.empty((len(remembered), len(decisions)))
        for m, output in enumerate(first_pass.outputs):
            rows = np.flatnonzero(predicted == m)
            rates[:, rows] = self._rates(rows, m, output, remembered)
        return list(-rates * decisions[every, predicted])

    def _rates(
        self,
        rows: np.ndarray,
        m: int,
        output: FirstPass,
        remembered: Sequence[Remembered],
    ) -> np.ndarray:
        """p_m at those rows, (n_remembered, n)."""
        if not len(output.support_labels):
            return np.zeros((len(remembered), len(rows)))
        if self.form == "weighted":
            weights = np.array([parameters["weights"][m] for parameters in remembered])
            return weights[:, None] * output.mean_distance(rows)
        reaches = [float(parameters["reach"][m]) for parameters in remembered]
        return mean_of_near(
            output.near(rows, np.full(len(rows), -1), reaches), self.empty
        )
