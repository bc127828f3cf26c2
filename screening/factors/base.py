"""What a factor offers, and what the first pass offers to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

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
