"""Shared parts of factors: checks of fields, and mean neighbor distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.first_pass import (
    KERNEL_MACHINES,
    BumpTerms,
    Factor,
    FactorState,
    FirstPass,
    KernelMachineState,
)
from screening.kernels import Gaussian
from screening.kernels.neighbors import Neighbors

__all__ = [
    "KERNEL_MACHINES",
    "BumpTerms",
    "Factor",
    "FactorState",
    "FirstPass",
    "KernelMachineState",
]

# Multi-class schemes that solve one problem for all classes, hence with one kernel.
_SINGLE_KERNEL_SCHEMES = ("crammer_singer", "simplified")


def incompatibility(
    factor: Factor, machine: str, scheme: str | None, kernel: str
) -> str | None:
    """Return why a factor cannot be used with a machine and kernel, or None if it can.

    Parameters
    ----------
    factor : Factor
    machine : str
        Name of the kernel machine, such as "two_class".
    scheme : str or None
        Multi-class scheme, such as "one_vs_one"; None for other machines.
    kernel : str
        Name of the kernel, such as "gaussian".
    """
    if machine not in factor.machines:
        machines = _join_names(factor.machines)
        return f"factor {factor.name} needs a machine of {machines}, not {machine}"
    if kernel not in factor.kernels:
        kernels = _join_names(factor.kernels)
        return f"factor {factor.name} needs a kernel of {kernels}, not {kernel}"
    c_per_output = factor.scope == "output" or getattr(factor, "per_class", False)
    if scheme in _SINGLE_KERNEL_SCHEMES and c_per_output:
        return (
            f"factor {factor.name} makes one c for each decision function, but scheme "
            f"{scheme} has one kernel for all classes"
        )
    if scheme == "one_vs_one" and factor.scope == "joint":
        return (
            f"factor {factor.name} needs one decision per class, but scheme one_vs_one "
            "has one per pair"
        )
    return None


def _join_names(names: frozenset[str]) -> str:
    return " or ".join(sorted(names))


def check_parameter_number(name: str, value: float, *, zero: bool = False) -> None:
    """Raise ValueError unless a value is a finite number > 0 (>= 0 if ``zero``)."""
    is_number = not isinstance(value, (bool, str)) and np.isfinite(value)
    in_range = is_number and (value > 0 or (zero and value == 0))
    if not in_range:
        bound = ">= 0" if zero else "> 0"
        raise ValueError(f"{name} must be a number {bound}, got {value!r}")


def check_count(
    name: str, value: int | str, *, least: int = 1, or_else: str = ""
) -> None:
    """Raise ValueError unless a value is an integer of at least ``least``.

    `or_else` ends the message's description of valid values, such as " or 'auto'".
    """
    is_number = not isinstance(value, (bool, str))
    if not is_number or value != int(value) or value < least:
        raise ValueError(
            f"{name} must be a whole number >= {least}{or_else}, got {value!r}"
        )


# Smallest squared width of a bump, so that its rate 1 / width stays finite.
MIN_SQUARED_WIDTH = 1e-12
# Squared width of a bump that has no neighbor to measure by: flat, yet finite.
FLAT_SQUARED_WIDTH = 1e300


@dataclass(frozen=True)
class EqualBumps(Factor):
    """Base of factors sum_i h_i exp(-|x - x_i|^2 / (2 tau^2)) over support vectors.

    All bumps are equally wide: tau = width sigma / sqrt(n), in feature units.
    """

    n: str = "features"
    width: float = 1.0

    machines: ClassVar[frozenset[str]] = KERNEL_MACHINES
    kernels: ClassVar[frozenset[str]] = frozenset({"gaussian"})

    def __post_init__(self) -> None:
        if self.n not in ("features", "rows"):
            raise ValueError(f"n must be 'features' or 'rows', got {self.n!r}")
        check_parameter_number("width", self.width)

    def parameters(self, first_pass: FirstPass) -> FactorState:
        """Return tau, in feature units."""
        kernel = first_pass.kernel
        assert isinstance(kernel, Gaussian)  # checked by `kernels`
        n_rows, n_features = first_pass.x.shape
        n = n_features if self.n == "features" else n_rows
        tau = float(self.width * kernel.sigma / np.sqrt(n))
        return {"tau": np.asarray(tau)}

    def heights(self, first_pass: FirstPass) -> np.ndarray:
        """Return the heights h_i of the bumps, shape (n_sv,)."""
        raise NotImplementedError

    def bumps(self, first_pass: FirstPass, state: FactorState) -> BumpTerms:
        """Return the bumps: one rate, (n_sv,) heights, squared Euclidean distances."""
        tau = float(state["tau"])
        rate = np.asarray(1.0 / (2.0 * tau**2))
        return rate, self.heights(first_pass), 2


def check_empty(empty: str) -> None:
    """Raise ValueError unless ``mean_neighbor_distance`` knows an ``empty`` rule."""
    if empty not in ("zero", "nearest"):
        raise ValueError(f"empty must be 'zero' or 'nearest', got {empty!r}")


def mean_neighbor_distance(neighbors: Neighbors, empty: str) -> np.ndarray:
    """Return the mean squared distance to the neighbors within each radius.

    Parameters
    ----------
    neighbors : Neighbors
        Of n rows, for each of n_radii radii.
    empty : {"zero", "nearest"}
        Value for a row with no neighbor within the radius: 0, or the squared distance
        of the nearest support vector of that label. 0 if that label has none.

    Returns
    -------
    ndarray of shape (n_radii, n)
    """
    mean = neighbors.total / np.maximum(neighbors.count, 1)
    if empty == "zero":
        return mean
    has_nearest = np.isfinite(neighbors.nearest)
    nearest = np.where(has_nearest, neighbors.nearest, 0.0)
    return np.where(neighbors.count > 0, mean, nearest)


def mean_neighbor_distance_from_matrix(
    distances: np.ndarray, radii: np.ndarray
) -> np.ndarray:
    """Return the mean distance below each row's radius, or else the least, shape (n,).

    Parameters
    ----------
    distances : ndarray of shape (n, m)
        Infinite where a column does not count for a row.
    radii : ndarray of shape (n,)
    """
    inside = distances < radii[:, None]
    total = np.where(inside, distances, 0.0).sum(axis=1)
    count = inside.sum(axis=1)
    nearest = distances.min(axis=1, initial=np.inf)
    neighbors = Neighbors(total[None], count[None], nearest)
    return mean_neighbor_distance(neighbors, "nearest")[0]


def on_correct_side(first_pass: FirstPass) -> np.ndarray:
    """Return the mask of support vectors with y f(x) >= 0, shape (n_sv,).

    A label that would lose all of its support vectors keeps all of them.
    """
    labels = first_pass.support_labels
    correct = labels * first_pass.support_decision >= 0
    for sign in (-1, 1):
        of_label = labels == sign
        if not correct[of_label].any():
            correct = correct | of_label
    return correct
