"""Kernels that depend on one distance between rows, and their conformal rescaling."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from screening.kernels import pairwise
from screening.kernels.pairwise import Precision

# A Gram matrix of more rows than this is float32: half the memory, and its rounding
# (1e-7) is far below any tolerance.
MAX_FLOAT64_ROWS = 2000
_SCALE_PATTERN = re.compile(r"scale(?:\s*\*\s*(?P<times>[0-9.eE+-]+))?")


@dataclass(frozen=True)
class Kernel:
    """Base of kernels K = exp(-gamma d) of one distance d between rows."""

    gamma: float | str = "scale"

    name: ClassVar[str]
    norm: ClassVar[int]

    def __post_init__(self) -> None:
        if isinstance(self.gamma, str):
            valid = self._scale_multiple() > 0
        else:
            is_number = not isinstance(self.gamma, bool) and np.isfinite(self.gamma)
            valid = bool(is_number and self.gamma > 0)
        if not valid:
            raise ValueError(
                f"gamma must be a number > 0, 'scale' or 'scale*F', got {self.gamma!r}"
            )

    def _scale_multiple(self) -> float:
        """Return the F of "scale*F", 1 for "scale"; 0 for any other text."""
        match = _SCALE_PATTERN.fullmatch(str(self.gamma).strip())
        if match is None:
            return 0.0
        try:
            multiple = float(match["times"] or 1.0)
        except ValueError:
            return 0.0
        return multiple if np.isfinite(multiple) else 0.0

    def _spread(self, variance: float) -> float:
        raise NotImplementedError

    def resolve(self, x: np.ndarray, weights: np.ndarray | None = None) -> float:
        """Return gamma as a number for training rows.

        ``"scale"`` is 1 / (n_features * spread), with the variance of x as spread for
        the Gaussian and its standard deviation for the Laplacian, so that a change of
        unit changes nothing; ``"scale*F"`` is F times that. A constant x has spread 1.

        Parameters
        ----------
        x : ndarray of shape (n, n_features)
        weights : ndarray of shape (n,), optional
            How often each row counts.
        """
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        spread = self._spread(_variance(x, weights))
        if not spread > 0:
            spread = 1.0
        return self._scale_multiple() / (x.shape[1] * spread)

    def resolved(self, x: np.ndarray, weights: np.ndarray | None = None) -> Kernel:
        """Return the same kernel with gamma as a number; see ``resolve``."""
        return replace(self, gamma=self.resolve(x, weights))

    @property
    def number(self) -> float:
        """Gamma as a number; ValueError if it is still "scale"."""
        if isinstance(self.gamma, str):
            raise ValueError(
                f"gamma={self.gamma!r} is not a number yet: call resolved(x) first"
            )
        return float(self.gamma)

    def __call__(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return K(x, z), shape (n, m).

        float64, but float32 if z is x and has more than ``MAX_FLOAT64_ROWS`` rows.
        """
        if x is not z:
            return pairwise.gram(self, x, z, dtype=np.float64)
        return pairwise.gram(self, x, dtype=gram_precision(len(x)))

    def diagonal(self, x: np.ndarray) -> np.ndarray:
        """Return K(x_i, x_i), shape (n,): 1 for every kernel of a distance."""
        return np.ones(len(x))


@dataclass(frozen=True)
class Gaussian(Kernel):
    """K(x, y) = exp(-gamma |x - y|^2).

    Parameters
    ----------
    gamma : float > 0, "scale" or "scale*F"
        1 / (2 sigma^2), in units of 1 / (squared feature unit). ``"scale"`` is computed
        from the training rows.
    """

    name: ClassVar[str] = "gaussian"
    norm: ClassVar[int] = 2

    @classmethod
    def from_sigma(cls, sigma: float) -> Gaussian:
        """Return the kernel exp(-|x - y|^2 / (2 sigma^2)), sigma in feature units."""
        is_number = not isinstance(sigma, (bool, str))
        if not is_number or not 0 < sigma < np.inf:
            raise ValueError(f"sigma must be a number > 0, got {sigma!r}")
        return cls(gamma=1.0 / (2.0 * sigma**2))

    @property
    def sigma(self) -> float:
        """Width in feature units; gamma must be a number."""
        return float(1.0 / np.sqrt(2.0 * self.number))

    def _spread(self, variance: float) -> float:
        return variance


@dataclass(frozen=True)
class Laplacian(Kernel):
    """K(x, y) = exp(-gamma |x - y|_1).

    Parameters
    ----------
    gamma : float > 0, "scale" or "scale*F"
        In units of 1 / feature unit. ``"scale"`` is computed from the training rows.
    """

    name: ClassVar[str] = "laplacian"
    norm: ClassVar[int] = 1

    def _spread(self, variance: float) -> float:
        return math.sqrt(variance)


def gram_precision(n_rows: int) -> Precision:
    """Return the type of the Gram matrix of so many rows."""
    return np.float32 if n_rows > MAX_FLOAT64_ROWS else np.float64


def _variance(x: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the variance of all values of x, each row counted by its weight."""
    if weights is None:
        return float(x.var())
    shares = weights / weights.sum()
    mean = float((shares @ x).mean())
    return float((shares @ np.square(x - mean)).mean())


KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel for kernel in (Gaussian, Laplacian)
}


# Least c, as a share of its largest value over the training rows: far from every bump
# c would be 0, and K~ would lose its rank there.
FLOOR = 1e-12
# Bound of |log c| at the training row where c is largest.
_MAX_LOG_C_IN_TRAINING = 100.0
# Bound of log c at any row.
_MAX_LOG_C = 300.0


@dataclass(frozen=True)
class LogScale:
    """Scale and bounds of log c before it is exponentiated.

    Parameters
    ----------
    shift : ndarray of shape (1,) or (n_outputs,)
        Subtracted from log c.
    floor : ndarray of shape (1,) or (n_outputs,)
        Least log c, after ``shift`` is subtracted.
    """

    shift: np.ndarray
    floor: np.ndarray

    @classmethod
    def fit(
        cls, previous: np.ndarray, log_factor: np.ndarray, normalise: bool
    ) -> LogScale:
        """Fit the scale to the training rows.

        Parameters
        ----------
        previous : ndarray of shape (n_rows, 1) or (n_rows, n_outputs)
            log c of the passes before.
        log_factor : ndarray of shape (n_rows, 1) or (n_rows, n_outputs)
            log of the next factor.
        normalise : bool
            Divide the factor by its root mean square over the training rows; otherwise
            c is only kept finite.

        Raises
        ------
        ValueError
            If log c is not finite at some row.
        """
        log_c = previous + _check_finite(log_factor)
        top = log_c.max(axis=0)
        if not np.isfinite(top).all():
            raise ValueError(_NOT_FINITE)
        log_rms = np.zeros(1)
        if normalise:
            shares = np.full(len(log_factor), 1.0 / len(log_factor))
            log_rms = log_sum_exp(2.0 * log_factor.T, shares) / 2.0
        largest = np.clip(
            top - log_rms, -_MAX_LOG_C_IN_TRAINING, _MAX_LOG_C_IN_TRAINING
        )
        return cls(top - largest, largest + np.log(FLOOR))

    def state(self) -> dict[str, np.ndarray]:
        """Return arrays from which ``from_state`` makes the same scale."""
        return {"shift": self.shift, "floor": self.floor}

    @classmethod
    def from_state(cls, state: Mapping[str, np.ndarray]) -> LogScale:
        """Return the scale that ``state`` described."""
        return cls(state["shift"], state["floor"])

    def add(self, previous: np.ndarray, log_factor: np.ndarray) -> np.ndarray:
        """Return log c of the next pass at any rows, shifted and bounded.

        Parameters and shapes as for ``fit``. Raises ValueError if a value is not a
        number, because the factor was given such a decision or distance.
        """
        log_c = previous + _check_finite(log_factor) - self.shift
        return np.minimum(np.maximum(log_c, self.floor), _MAX_LOG_C)


_NOT_FINITE = (
    "the factor c(x) is not finite everywhere; check its parameters and the rows' scale"
)


def _check_finite(log_c: np.ndarray) -> np.ndarray:
    if not (log_c < np.inf).all():
        raise ValueError(_NOT_FINITE)
    return log_c


def log_sum_exp(exponents: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Return log sum_k heights_k exp(exponents_nk) without underflow, shape (n,).

    Parameters
    ----------
    exponents : ndarray of shape (n, m)
    heights : ndarray of shape (m,)
        Terms of height 0 are left out; -inf is returned if none is > 0.
    """
    used = heights > 0
    terms = exponents[:, used] + np.log(heights[used])
    largest = terms.max(axis=1, initial=-np.inf, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        log_of_rest = np.log(np.exp(terms - largest).sum(axis=1))
    return log_of_rest + largest[:, 0]


def rescaled(gram: np.ndarray, c_rows: np.ndarray, c_columns: np.ndarray) -> np.ndarray:
    """Return K~ = c(x) c(z) K(x, z) as an array of the shape of ``gram``.

    Solvers that can leave K as it is should not call this.
    """
    return c_rows[:, None] * gram * c_columns


def rescaled_distances(
    gram: np.ndarray,
    c_rows: np.ndarray,
    c_columns: np.ndarray,
    row_diagonal: np.ndarray,
    column_diagonal: np.ndarray,
) -> np.ndarray:
    """Return squared feature-space distances under K~, shape (n, m).

    They are K~(x, x) + K~(z, z) - 2 K~(x, z).

    Parameters
    ----------
    gram : ndarray of shape (n, m)
        K(x, z).
    c_rows, c_columns : ndarray of shape (n,), (m,)
        c at x and z.
    row_diagonal, column_diagonal : ndarray of shape (n,), (m,)
        K(x, x) and K(z, z).
    """
    squared = rescaled(gram, -2.0 * c_rows, c_columns)
    squared += (np.square(c_rows) * row_diagonal)[:, None]
    squared += np.square(c_columns) * column_diagonal
    return np.maximum(squared, 0.0, out=squared)
