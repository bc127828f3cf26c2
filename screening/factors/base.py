"""What factors share: whether they fit a machine, checks of their fields, and means over near neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.first_pass import (
    KERNEL_MACHINES,
    BumpTerms,
    Factor,
    FirstPass,
    KernelMachineState,
    Remembered,
)
from screening.kernels import Gaussian
from screening.kernels.neighbors import Neighbors

__all__ = [
    "KERNEL_MACHINES",
    "BumpTerms",
    "Factor",
    "FirstPass",
    "KernelMachineState",
    "Remembered",
]


def why_not(
    factor: Factor, machine: str, scheme: str | None, kernel: str
) -> str | None:
    """Why this factor cannot be used with that machine and kernel, naming both sides; None where it can."""
    if machine not in factor.machines:
        return f"factor {factor.name} needs a machine of {_listed(factor.machines)}, not {machine}"
    if kernel not in factor.kernels:
        return f"factor {factor.name} needs a kernel of {_listed(factor.kernels)}, not {kernel}"
    separate = factor.scope == "output" or getattr(factor, "per_class", False)
    if scheme in ("crammer_singer", "simplified") and separate:
        return (
            f"scheme {scheme} has one kernel for all classes, and factor {factor.name} makes one c for each "
            "decision function"
        )
    if scheme == "one_vs_one" and factor.scope == "joint":
        return f"factor {factor.name} needs one decision a class, and scheme one_vs_one has one a pair"
    return None


def _listed(names: frozenset[str]) -> str:
    return " or ".join(sorted(names))


def check_number(name: str, value: float, *, zero: bool = False) -> None:
    """Refuse what is no finite number > 0, or >= 0 where ``zero`` (ValueError)."""
    fits = (
        not isinstance(value, (bool, str))
        and np.isfinite(value)
        and (value > 0 or (zero and value == 0))
    )
    if not fits:
        raise ValueError(
            f"{name} must be a number {'>=' if zero else '>'} 0, got {value!r}"
        )


def check_count(
    name: str, value: int | str, *, least: int = 1, or_else: str = ""
) -> None:
    """Refuse what is no whole number of at least ``least`` (ValueError)."""
    if isinstance(value, (bool, str)) or value != int(value) or value < least:
        raise ValueError(
            f"{name} must be a whole number >= {least}{or_else}, got {value!r}"
        )


SMALLEST = 1e-12
# Squared width of a bump that has no neighbour to measure by: flat, and still a finite number to store.
FLAT = 1e300


@dataclass(frozen=True)
class EqualBumps(Factor):
    """Sums h_i exp(-|x - x_i|^2 / (2 tau^2)) over support vectors, tau = width sigma / sqrt(n)."""

    n: str = "features"
    width: float = 1.0

    machines: ClassVar[frozenset[str]] = KERNEL_MACHINES
    kernels: ClassVar[frozenset[str]] = frozenset({"gaussian"})

    def __post_init__(self) -> None:
        if self.n not in ("features", "rows"):
            raise ValueError(f"n must be 'features' or 'rows', got {self.n!r}")
        check_number("width", self.width)

    def parameters(self, first_pass: FirstPass) -> Remembered:
        kernel = first_pass.kernel
        assert isinstance(kernel, Gaussian)  # as `kernels` says
        n_rows, n_features = first_pass.x.shape
        count = n_features if self.n == "features" else n_rows
        return {"tau": np.asarray(float(self.width * kernel.sigma / np.sqrt(count)))}

    def heights(self, first_pass: FirstPass) -> np.ndarray:
        """h_i, (n_sv,)."""
        raise NotImplementedError

    def bumps(self, first_pass: FirstPass, remembered: Remembered) -> BumpTerms:
        tau = float(remembered["tau"])
        return np.asarray(1.0 / (2.0 * tau**2)), self.heights(first_pass), 2


def check_empty(empty: str) -> None:
    """Refuse an ``empty`` that ``mean_of_near`` does not know (ValueError)."""
    if empty not in ("zero", "nearest"):
        raise ValueError(f"empty must be 'zero' or 'nearest', got {empty!r}")


def mean_of_near(near: Neighbors, empty: str) -> np.ndarray:
    """Mean squared distance of what is within each reach, (n_reaches, n); 0 for a row whose side is empty.

    `empty`, "zero" or "nearest", is what a row gets that has none within reach.
    """
    mean = near.total / np.maximum(near.count, 1)
    if empty == "zero":
        return mean
    nearest = np.where(np.isfinite(near.nearest), near.nearest, 0.0)
    return np.where(near.count > 0, mean, nearest)


def near_mean(distances: np.ndarray, reach: np.ndarray, empty: str) -> np.ndarray:
    """The same of a matrix of distances, (n, m), with infinities for what does not count, shape (n,)."""
    inside = distances < reach[:, None]
    total, count = np.where(inside, distances, 0.0).sum(axis=1), inside.sum(axis=1)
    nearest = distances.min(axis=1, initial=np.inf)
    return mean_of_near(Neighbors(total[None], count[None], nearest), empty)[0]


def right_side(first_pass: FirstPass) -> np.ndarray:
    """Mask of the support vectors with y f >= 0; of a label that would lose all of its own, all of them."""
    labels = first_pass.support_labels
    right = labels * first_pass.support_decision >= 0
    for sign in (-1, 1):
        own = labels == sign
        if not right[own].any():
            right = right | own
    return right
