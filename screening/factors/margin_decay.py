"""Decay away from the boundary, alike on both sides or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import (
    KERNEL_MACHINES,
    Factor,
    FirstPass,
    Remembered,
    check_number,
)


def _check_rate(name: str, value: float | str) -> None:
    if value != "auto":
        check_number(name, value, zero=True)  # type: ignore[arg-type]


def _rate(kappa: float | str, k: float, first_pass: FirstPass) -> float:
    """kappa as given, or k / max f^2 over the training rows."""
    if kappa != "auto":
        return float(kappa)
    # A one-class machine's decision may be 1e-24 where c is small: only 0 says nothing.
    largest = first_pass.max_decision
    return k / largest**2 if largest > 0 else 0.0


@dataclass(frozen=True)
class MarginDecay(Factor):
    """Conformal factor c(x) = exp(-kappa f(x)^2), Williams et al. (2005).

    Largest on the boundary f(x) = 0 of the first pass.

    Parameters
    ----------
    kappa : float >= 0 or "auto"
        Rate of decay, in units of 1 / f^2; as kappa -> 0, K~ -> K. "auto" is k / max f^2 over the training
        rows.
    k : float, >= 0
        Of "auto".
    """

    kappa: float | str = "auto"
    k: float = 1.0

    name: ClassVar[str] = "margin_decay"
    machines: ClassVar[frozenset[str]] = KERNEL_MACHINES

    def __post_init__(self) -> None:
        _check_rate("kappa", self.kappa)
        check_number("k", self.k, zero=True)

    def parameters(self, first_pass: FirstPass) -> Remembered:
        return {"kappa": np.asarray(_rate(self.kappa, self.k, first_pass))}

    def log_at(self, first_pass: FirstPass, remembered: Remembered) -> np.ndarray:
        """log c at the rows of first_pass.x, shape (n_rows,)."""
        return -float(remembered["kappa"]) * np.square(first_pass.decision)


@dataclass(frozen=True)
class OneSidedMarginDecay(Factor):
    """Conformal factor exp(-kappa_pos f^2) where f >= 0, exp(-kappa_neg f^2) where f < 0, Maratea (2014).

    Parameters
    ----------
    kappa : float >= 0 or "auto"
        Mean rate, in units of 1 / f^2: kappa_pos = kappa 2 n_pos / n, kappa_neg = kappa 2 n_neg / n, so that
        space shrinks more slowly on the rarer class's side. "auto" is k / max f^2 over the training rows.
    k : float, >= 0
        Of "auto".
    kappa_pos, kappa_neg : float >= 0 or "auto"
        Given outright in place of what follows from ``kappa``.
    """

    kappa: float | str = "auto"
    k: float = 1.0
    kappa_pos: float | str = "auto"
    kappa_neg: float | str = "auto"

    name: ClassVar[str] = "one_sided_margin_decay"

    def __post_init__(self) -> None:
        for name in ("kappa", "kappa_pos", "kappa_neg"):
            _check_rate(name, getattr(self, name))
        check_number("k", self.k, zero=True)

    def parameters(self, first_pass: FirstPass) -> Remembered:
        rate = _rate(self.kappa, self.k, first_pass)
        counts = np.asarray(first_pass.class_counts, float)
        n_neg, n_pos = 2.0 * counts / counts.sum()
        return {
            "kappa_pos": np.asarray(
                rate * n_pos if self.kappa_pos == "auto" else float(self.kappa_pos)
            ),
            "kappa_neg": np.asarray(
                rate * n_neg if self.kappa_neg == "auto" else float(self.kappa_neg)
            ),
        }

    def log_at(self, first_pass: FirstPass, remembered: Remembered) -> np.ndarray:
        """log c at the rows of first_pass.x, shape (n_rows,)."""
        decision = first_pass.decision
        rate = np.where(decision >= 0, remembered["kappa_pos"], remembered["kappa_neg"])
        return -rate * np.square(decision)
