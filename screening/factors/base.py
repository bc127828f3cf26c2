"""What a factor offers, what the first pass offers to it, and what several factors measure there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from screening.kernels import Gaussian
from screening.kernels.base import Kernel
from screening.kernels.neighbors import Neighbors

Remembered = dict[str, np.ndarray]


class FirstPass(Protocol):
    """One output (one decision function) of the pass a factor is built from.

    Everything is under the *current* rescaled kernel. ``x`` is (n, n_features); during training the machine
    hands over its own training rows and the answers come from the Gram.
    """

    @property
    def rows(self) -> np.ndarray:
        """The training rows, (n_rows, n_features); only inside ``Factor.parameters``."""

    @property
    def labels(self) -> np.ndarray:
        """+1 or -1 a row of ``rows`` (0: not in this machine's problem); only inside ``parameters``."""

    @property
    def class_counts(self) -> np.ndarray:
        """Training rows of each class, negatives first; only inside ``parameters``."""

    @property
    def support_vectors(self) -> np.ndarray:
        """(n_sv, n_features), in row order."""

    @property
    def support_labels(self) -> np.ndarray:
        """+1 or -1, (n_sv,)."""

    @property
    def support_decision(self) -> np.ndarray:
        """f at the support vectors, (n_sv,); only inside ``parameters``."""

    @property
    def alphas(self) -> np.ndarray:
        """(n_sv,), > 0."""

    @property
    def margin(self) -> np.ndarray:
        """Mask of the support vectors with alpha strictly below its bound, (n_sv,)."""

    @property
    def max_decision(self) -> float:
        """Largest |f| over the training rows; only inside ``parameters``."""

    @property
    def largest_distance(self) -> float:
        """Largest Euclidean distance between training rows; only inside ``parameters``."""

    @property
    def n_features(self) -> int: ...

    @property
    def kernel(self) -> Kernel:
        """The base kernel, gamma a number."""

    def decision(self, x: np.ndarray) -> np.ndarray:
        """f(x), (n,)."""

    def feature_distances(self, x: np.ndarray) -> np.ndarray:
        """Squared feature-space distances to the support vectors, (n, n_sv)."""

    def mean_distance(self, x: np.ndarray, mine: np.ndarray) -> np.ndarray:
        """Of rows x[mine]: mean squared feature-space distance to the support vectors, one at least."""

    def near(
        self, x: np.ndarray, mine: np.ndarray, sides: np.ndarray, reaches: Sequence[float] | None
    ) -> Neighbors:
        """Of rows x[mine]: squared feature-space distances to support vectors of a label within each reach.

        ``sides`` holds each row's label, +1 or -1, ``reaches`` how far (squared): None for one, the mean of
        the row's nearest and farthest support vector.
        """

    def support_distances(self) -> np.ndarray:
        """Squared feature-space distances among the support vectors; only inside ``parameters``."""

    def input_distances(self, x: np.ndarray, norm: int = 2) -> np.ndarray:
        """Input-space distances to the support vectors (squared for norm 2), (n, n_sv)."""

    def log_bump_sum(
        self, x: np.ndarray, rates: np.ndarray, heights: np.ndarray, norm: int = 2
    ) -> np.ndarray:
        """log sum_k heights_k exp(-rates_k d(x, x_k)) over the support vectors, d of that norm, (n,).

        Right also where every bump is far below the smallest number there is.
        """

    def remembered(self, factor: Factor) -> Remembered:
        """``factor.parameters(self)`` as it was on the training rows."""


class JointFirstPass(Protocol):
    """All outputs of the pass at once, for factors of scope "joint"."""

    @property
    def outputs(self) -> Sequence[FirstPass]:
        """One ``FirstPass`` a decision function."""

    @property
    def rows(self) -> np.ndarray: ...

    @property
    def class_counts(self) -> np.ndarray:
        """Training rows of each class, in class order."""

    @property
    def largest_distance(self) -> float: ...

    @property
    def n_features(self) -> int: ...

    @property
    def kernel(self) -> Kernel: ...

    def decisions(self, x: np.ndarray) -> np.ndarray:
        """(n, n_outputs)."""

    def predicted(self, x: np.ndarray) -> np.ndarray:
        """Predicted class number of each row, (n,)."""

    def remembered(self, factor: Factor) -> Remembered: ...


class Factor(Protocol):
    """A positive function c(x) built from the pass before.

    ``scope`` "output" makes one c for each decision function from its own f and support vectors; "joint"
    makes them from all outputs at once. ``machines`` are the machines it makes sense for.
    ``parameters`` is called once a pass, on the training rows; what it returns (numbers and arrays with one
    entry a support vector) is stored with the model and handed back by ``first_pass.remembered(self)``.

    A kind may name fields, in a class variable ``varies``, of which several values are tried on one first
    pass: their second passes are then trained together. Where it also has
    ``log_each(x, first_pass, remembered)``, that gives log c of all of them, from what each remembers.
    """

    name: ClassVar[str]
    scope: ClassVar[str]
    machines: ClassVar[frozenset[str]]
    kernels: ClassVar[frozenset[str]]

    def parameters(self, first_pass: Any) -> Remembered: ...

    def log_at(self, x: np.ndarray, first_pass: Any) -> np.ndarray:
        """log c at the rows of x, (n,); a joint factor may return (n, n_outputs).

        c has no unit of its own: the machine subtracts the maximum over the training rows, and exponentiates.
        """


def why_not(factor: Factor, machine: str, scheme: str | None, kernel: str) -> str | None:
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
    fits = not isinstance(value, (bool, str)) and np.isfinite(value) and (value > 0 or (zero and value == 0))
    if not fits:
        raise ValueError(f"{name} must be a number {'>=' if zero else '>'} 0, got {value!r}")


def check_count(name: str, value: int | str, *, least: int = 1, or_else: str = "") -> None:
    """Refuse what is no whole number of at least ``least`` (ValueError)."""
    if isinstance(value, (bool, str)) or value != int(value) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}{or_else}, got {value!r}")


SMALLEST = 1e-12
# Squared width of a bump that has no neighbour to measure by: flat, and still a finite number to store.
FLAT = 1e300


def gaussian_tau(first_pass: FirstPass, n: str, width: float) -> float:
    """tau = width sigma / sqrt(n), n the number of features or of training rows."""
    kernel = first_pass.kernel
    assert isinstance(kernel, Gaussian)  # as the factors that ask say by their `kernels`
    count = first_pass.n_features if n == "features" else len(first_pass.rows)
    return float(width * kernel.sigma / np.sqrt(count))


def check_tau(n: str, width: float) -> None:
    """Refuse what ``gaussian_tau`` cannot take (ValueError)."""
    if n not in ("features", "rows"):
        raise ValueError(f"n must be 'features' or 'rows', got {n!r}")
    check_number("width", width)


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
