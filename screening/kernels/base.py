"""Kernels that depend on one distance between rows: Gaussian and Laplacian."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from screening.kernels import pairwise
from screening.kernels.pairwise import Precision

# A Gram of more rows than this is float32: half the memory, its rounding (1e-7) far below any tolerance.
EXACT_ROWS = 2000
_SCALE = re.compile(r"scale(?:\s*\*\s*(?P<times>[0-9.eE+-]+))?")


@dataclass(frozen=True)
class Kernel:
    """What the kernels share: K is a function of one distance, and gamma is its rate."""

    gamma: float | str = "scale"

    name: ClassVar[str]
    norm: ClassVar[int]

    def __post_init__(self) -> None:
        if isinstance(self.gamma, str):
            self._times()
        elif isinstance(self.gamma, bool) or not (
            np.isfinite(self.gamma) and self.gamma > 0
        ):
            raise ValueError(
                f"gamma must be a number > 0, 'scale' or 'scale*F', got {self.gamma!r}"
            )

    def _times(self) -> float:
        scaled = _SCALE.fullmatch(str(self.gamma).strip())
        try:
            times = float(scaled["times"] or 1.0) if scaled else 0.0
        except ValueError:
            times = 0.0
        if not (np.isfinite(times) and times > 0):
            raise ValueError(
                f"gamma must be a number > 0, 'scale' or 'scale*F', got {self.gamma!r}"
            )
        return times

    def _spread(self, variance: float) -> float:
        raise NotImplementedError

    def resolve(self, x: np.ndarray, weights: np.ndarray | None = None) -> float:
        """The numeric gamma for training rows x of shape (n, n_features), each counted ``weights`` times.

        ``"scale"`` is 1 / (n_features * spread), with the variance of x as spread for the Gaussian and its
        standard deviation for the Laplacian (so that a change of unit changes nothing); ``"scale*F"`` is
        F times that. A constant x has spread 1.
        """
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        spread = self._spread(_variance(x, weights))
        return self._times() / (x.shape[1] * (spread if spread > 0 else 1.0))

    def resolved(self, x: np.ndarray, weights: np.ndarray | None = None) -> Kernel:
        """The same kernel with its gamma as a number."""
        return replace(self, gamma=self.resolve(x, weights))

    @property
    def number(self) -> float:
        """gamma, which must be a number by now."""
        if isinstance(self.gamma, str):
            raise ValueError(
                f"gamma={self.gamma!r} is not a number yet: call resolved(x) first"
            )
        return float(self.gamma)

    def __call__(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """K(x, z), shape (n, m); float32 for the Gram of more than EXACT_ROWS rows with themselves."""
        if x is not z:
            return pairwise.gram(self, x, z, dtype=np.float64)
        return pairwise.gram(self, x, dtype=gram_precision(len(x)))

    def diagonal(self, x: np.ndarray) -> np.ndarray:
        """K(x_i, x_i), shape (n,): one for every radial kernel."""
        return np.ones(len(x))


@dataclass(frozen=True)
class Gaussian(Kernel):
    """K(x, y) = exp(-gamma |x - y|^2).

    Parameters
    ----------
    gamma : float > 0, "scale" or "scale*F"
        1 / (2 sigma^2), in units of 1 / (squared feature unit). ``"scale"`` comes from the training rows.
    """

    name: ClassVar[str] = "gaussian"
    norm: ClassVar[int] = 2

    @classmethod
    def from_sigma(cls, sigma: float) -> Gaussian:
        """The kernel exp(-|x - y|^2 / (2 sigma^2))."""
        if isinstance(sigma, (bool, str)) or not (np.isfinite(sigma) and sigma > 0):
            raise ValueError(f"sigma must be a number > 0, got {sigma!r}")
        return cls(gamma=1.0 / (2.0 * sigma**2))

    @property
    def sigma(self) -> float:
        """Width, in feature units; gamma must be a number."""
        return float(1.0 / np.sqrt(2.0 * self.number))

    def _spread(self, variance: float) -> float:
        return variance


@dataclass(frozen=True)
class Laplacian(Kernel):
    """K(x, y) = exp(-gamma |x - y|_1).

    Parameters
    ----------
    gamma : float > 0, "scale" or "scale*F"
        In units of 1 / feature unit.
    """

    name: ClassVar[str] = "laplacian"
    norm: ClassVar[int] = 1

    def _spread(self, variance: float) -> float:
        return math.sqrt(variance)


def gram_precision(n_rows: int) -> Precision:
    """What the Gram of so many rows is made in."""
    return np.float32 if n_rows > EXACT_ROWS else np.float64


def _variance(x: np.ndarray, weights: np.ndarray | None) -> float:
    """The variance of all values of x, rows counted as often as their weights say."""
    if weights is None:
        return float(x.var())
    shares = weights / weights.sum()
    mean = float((shares @ x).mean())
    return float((shares @ np.square(x - mean)).mean())


KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel for kernel in (Gaussian, Laplacian)
}


# Far from every bump c is 0, and K~ would lose its rank there: c stays above this share of its largest.
FLOOR = 1e-12
# The largest log c over the training rows lies within the one, log c of a row to score below the other.
REACH, MOST = 100.0, 300.0


@dataclass(frozen=True)
class Scale:
    """How log c is scaled and bounded before it becomes c, one number an output."""

    shift: np.ndarray  # (1,) or (n_outputs,): subtracted from log c
    floor: np.ndarray  # least log c, ``shift`` subtracted

    @classmethod
    def over(cls, before: np.ndarray, now: np.ndarray, normalise: bool) -> Scale:
        """The scale from log c of the passes before and log of a factor, (n_rows, 1 or n_outputs).

        To `normalise` subtracts the log of this factor's root mean square, and not only what keeps c finite.
        """
        every = before + _checked(now)
        top = every.max(axis=0)
        if not np.isfinite(top).all():
            raise ValueError(_NOT_FINITE)
        size = (
            log_sum_exp(2.0 * now.T, np.full(len(now), 1.0 / len(now))) / 2.0
            if normalise
            else np.zeros(1)
        )
        largest = np.clip(top - size, -REACH, REACH)
        return cls(top - largest, largest + np.log(FLOOR))

    def state(self) -> dict[str, np.ndarray]:
        """Arrays from which ``from_state`` makes the same scale."""
        return {"shift": self.shift, "floor": self.floor}

    @classmethod
    def from_state(cls, state: Mapping[str, np.ndarray]) -> Scale:
        """Inverse of ``state``."""
        return cls(state["shift"], state["floor"])

    def added(self, before: np.ndarray, now: np.ndarray) -> np.ndarray:
        """log c from the passes before and this factor at any rows, shifted and bounded.

        ValueError where a value is not a number: the factor was given a decision or a distance that is not.
        """
        every = before + _checked(now) - self.shift
        return np.minimum(np.maximum(every, self.floor), MOST)


_NOT_FINITE = (
    "the factor c(x) is not finite everywhere; check its parameters and the rows' scale"
)


def _checked(log_c: np.ndarray) -> np.ndarray:
    if not (log_c < np.inf).all():
        raise ValueError(_NOT_FINITE)
    return log_c


def log_sum_exp(exponents: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """log sum_k heights_k exp(exponents_nk), (n,), without underflow; -inf where no height is > 0."""
    used = heights > 0
    terms = exponents[:, used] + np.log(heights[used])
    largest = terms.max(axis=1, initial=-np.inf, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(terms - largest).sum(axis=1)) + largest[:, 0]


def rescaled(gram: np.ndarray, c_rows: np.ndarray, c_columns: np.ndarray) -> np.ndarray:
    """K~ as an array of the shape of ``gram``; solvers that can leave K as it is should not call this."""
    return c_rows[:, None] * gram * c_columns


def rescaled_distances(
    gram: np.ndarray,
    c_rows: np.ndarray,
    c_columns: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
) -> np.ndarray:
    """Squared feature-space distances under K~: K~(x, x) + K~(z, z) - 2 K~(x, z).

    `rows` and `columns` are the diagonals K(x, x) and K(z, z).
    """
    squared = rescaled(gram, -2.0 * c_rows, c_columns)
    squared += (np.square(c_rows) * rows)[:, None]
    squared += np.square(c_columns) * columns
    return np.maximum(squared, 0.0, out=squared)
