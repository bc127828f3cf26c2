"""Kernels that depend on one distance between rows: Gaussian and Laplacian."""

from __future__ import annotations

import math
import re
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
        elif isinstance(self.gamma, bool) or not (np.isfinite(self.gamma) and self.gamma > 0):
            raise ValueError(f"gamma must be a number > 0, 'scale' or 'scale*F', got {self.gamma!r}")

    def _times(self) -> float:
        scaled = _SCALE.fullmatch(str(self.gamma).strip())
        try:
            times = float(scaled["times"] or 1.0) if scaled else 0.0
        except ValueError:
            times = 0.0
        if not (np.isfinite(times) and times > 0):
            raise ValueError(f"gamma must be a number > 0, 'scale' or 'scale*F', got {self.gamma!r}")
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
            raise ValueError(f"gamma={self.gamma!r} is not a number yet: call resolved(x) first")
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


KERNELS: dict[str, type[Kernel]] = {kernel.name: kernel for kernel in (Gaussian, Laplacian)}
