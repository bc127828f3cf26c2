"""A kernel matrix that is never held: its rows are computed when asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from screening.kernels.base import Kernel


@dataclass(frozen=True)
class KernelRows:
    """A kernel matrix that is computed by rows when asked for, in place of ``Problem.gram``.

    Parameters
    ----------
    x : ndarray of shape (n, n_features)
    kernel : Gaussian or Laplacian, gamma a number
    """

    x: np.ndarray
    kernel: Kernel

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.x), len(self.x))

    def __len__(self) -> int:
        return len(self.x)

    def diagonal(self) -> np.ndarray:
        """K(x_i, x_i), shape (n,)."""
        return self.kernel.diagonal(self.x)

    def part(self, rows: np.ndarray) -> KernelRows:
        """The matrix over some of the rows."""
        return KernelRows(self.x[rows], self.kernel)

    def __getitem__(self, key: tuple[np.ndarray | slice, ...]) -> np.ndarray:
        """Blocks ``[np.ix_(rows, columns)]`` and ``[:, columns]``, computed."""
        rows, columns = (np.arange(len(self.x))[each].ravel() for each in key)
        return self.kernel(self.x[rows], self.x[columns])

    def __matmul__(self, weights: np.ndarray) -> np.ndarray:
        """K weights, shape (n,)."""
        from screening.kernels.sweep import weighted_sum

        used = np.flatnonzero(weights)
        return weighted_sum(self.kernel, self.x, self.x[used], weights[used])


Gram = np.ndarray | KernelRows
"""A kernel matrix, held or made by rows."""
