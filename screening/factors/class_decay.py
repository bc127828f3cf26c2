"""Decay away from the predicted class's boundary, multi-class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import (
    Factor,
    FactorState,
    FirstPass,
    KernelMachineState,
    check_empty,
    check_parameter_number,
    mean_neighbor_distance,
)


@dataclass(frozen=True)
class ClassDecay(Factor):
    """Conformal factor c(x) = exp(-p_m(x) |D_m(x)|), Shao et al. (2021).

    m is the class that the first pass predicts, D_m its decision function.

    Parameters
    ----------
    form : {"weighted", "local"}
        "weighted": p_m = w_m mean over the support vectors of machine m of
        |Phi(x_j) - Phi(x)|^2 with w_m = n_m^-2 / sum_i n_i^-2 (eq. 16, 17, 19).
        "local": the mean over those of other classes closer (squared) than Q w_m
        (eq. 21), without the weight.
    Q : float, > 0
        Radius of the local form, in units of the largest input distance between
        training rows; 0.1 to 1.
    empty : {"zero", "nearest"}
        p_m where no support vector is that close: 0, or the squared distance of the
        nearest one.
    per_class : bool
        Make one c for each machine, from its own D_m, instead of one for all.
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
        check_parameter_number("Q", self.Q)

    def parameters(self, first_pass: KernelMachineState) -> FactorState:
        """Return class weights w_m, or the squared radii ``reach``, (n_classes,)."""
        counts = np.asarray(first_pass.class_counts, float)
        inverse_squares = (counts.min() / counts) ** 2
        weights = inverse_squares / inverse_squares.sum()
        if self.form == "weighted":
            return {"weights": weights}
        return {"reach": self.Q * first_pass.largest_distance * weights}

    def log_at(self, first_pass: KernelMachineState, state: FactorState) -> np.ndarray:
        """Return log c at the rows of x, (n,), or (n, n_classes) if ``per_class``."""
        return self.log_each(first_pass, [state])[0]

    def log_each(
        self, first_pass: KernelMachineState, states: Sequence[FactorState]
    ) -> list[np.ndarray]:
        """Return log c of several factors that differ in Q alone, as ``log_at`` does.

        The neighbors are searched once for all of them.
        """
        decisions = np.abs(first_pass.decisions)
        all_rows = np.arange(len(decisions))
        if self.per_class:
            rates_by_class = [
                self._rates(all_rows, m, output, states)
                for m, output in enumerate(first_pass.outputs)
            ]
            return list(-np.stack(rates_by_class, axis=-1) * decisions)
        predicted = first_pass.predicted
        rates = np.empty((len(states), len(decisions)))
        for m, output in enumerate(first_pass.outputs):
            rows = np.flatnonzero(predicted == m)
            rates[:, rows] = self._rates(rows, m, output, states)
        return list(-rates * decisions[all_rows, predicted])

    def _rates(
        self,
        rows: np.ndarray,
        m: int,
        output: FirstPass,
        states: Sequence[FactorState],
    ) -> np.ndarray:
        """Return p_m at some rows, for each state, shape (n_states, n_rows)."""
        if not len(output.support_labels):
            return np.zeros((len(states), len(rows)))
        if self.form == "weighted":
            weights = np.array([state["weights"][m] for state in states])
            return weights[:, None] * output.mean_distance(rows)
        radii = [float(state["reach"][m]) for state in states]
        other_classes = np.full(len(rows), -1)
        neighbors = output.neighbors_within(rows, other_classes, radii)
        return mean_neighbor_distance(neighbors, self.empty)
