"""Decay away from the boundary, at one rate or at one per side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import (
    KERNEL_MACHINES,
    Factor,
    FactorState,
    FirstPass,
    check_parameter_number,
)


def _check_rate(name: str, value: float | str) -> None:
    """Raise ValueError unless a decay rate is "auto" or a number >= 0."""
    if value != "auto":
        check_parameter_number(name, value, zero=True)  # type: ignore[arg-type]


def _rate(kappa: float | str, k: float, first_pass: FirstPass) -> float:
    """Return kappa if it is a number, or k / max f^2 over the training rows."""
    if kappa != "auto":
        return float(kappa)
    # A one-class machine's decision may be 1e-24 where c is small: test for 0 only.
    max_decision = first_pass.max_decision
    return k / max_decision**2 if max_decision > 0 else 0.0


@dataclass(frozen=True)
class MarginDecay(Factor):
    """Conformal factor c(x) = exp(-kappa f(x)^2), Williams et al. (2005).

    Largest on the boundary f(x) = 0 of the first pass.

    Parameters
    ----------
    kappa : float >= 0 or "auto"
        Rate of decay, in units of 1 / f^2; as kappa -> 0, K~ -> K. "auto" is
        k / max f^2 over the training rows.
    k : float, >= 0
        The k of "auto".
    """

    kappa: float | str = "auto"
    k: float = 1.0

    name: ClassVar[str] = "margin_decay"
    machines: ClassVar[frozenset[str]] = KERNEL_MACHINES

    def __post_init__(self) -> None:
        _check_rate("kappa", self.kappa)
        check_parameter_number("k", self.k, zero=True)

    def parameters(self, first_pass: FirstPass) -> FactorState:
        """Return the rate kappa as a number."""
        kappa = _rate(self.kappa, self.k, first_pass)
        return {"kappa": np.asarray(kappa)}

    def log_at(self, first_pass: FirstPass, state: FactorState) -> np.ndarray:
        """Return log c at the rows of first_pass.x, shape (n,)."""
        return -float(state["kappa"]) * np.square(first_pass.decision)


@dataclass(frozen=True)
class OneSidedMarginDecay(Factor):
    """Conformal factor c(x) = exp(-kappa f(x)^2), one kappa per side, Maratea (2014).

    The rate is kappa_pos where f >= 0 and kappa_neg where f < 0.

    Parameters
    ----------
    kappa : float >= 0 or "auto"
        Mean rate, in units of 1 / f^2: kappa_pos = kappa 2 n_pos / n and
        kappa_neg = kappa 2 n_neg / n, so that space shrinks more slowly on the side of
        the rarer class. "auto" is k / max f^2 over the training rows.
    k : float, >= 0
        The k of "auto".
    kappa_pos, kappa_neg : float >= 0 or "auto"
        Rates that replace those derived from ``kappa``.
    """

    kappa: float | str = "auto"
    k: float = 1.0
    kappa_pos: float | str = "auto"
    kappa_neg: float | str = "auto"

    name: ClassVar[str] = "one_sided_margin_decay"

    def __post_init__(self) -> None:
        for name in ("kappa", "kappa_pos", "kappa_neg"):
            _check_rate(name, getattr(self, name))
        check_parameter_number("k", self.k, zero=True)

    def parameters(self, first_pass: FirstPass) -> FactorState:
        """Return the rates kappa_pos and kappa_neg as numbers."""
        mean_rate = _rate(self.kappa, self.k, first_pass)
        counts = np.asarray(first_pass.class_counts, float)
        n_neg, n_pos = 2.0 * counts / counts.sum()
        kappa_pos = mean_rate * n_pos
        kappa_neg = mean_rate * n_neg
        if self.kappa_pos != "auto":
            kappa_pos = float(self.kappa_pos)
        if self.kappa_neg != "auto":
            kappa_neg = float(self.kappa_neg)
        return {"kappa_pos": np.asarray(kappa_pos), "kappa_neg": np.asarray(kappa_neg)}

    def log_at(self, first_pass: FirstPass, state: FactorState) -> np.ndarray:
        """Return log c at the rows of first_pass.x, shape (n,)."""
        decision = first_pass.decision
        rate = np.where(decision >= 0, state["kappa_pos"], state["kappa_neg"])
        return -rate * np.square(decision)
