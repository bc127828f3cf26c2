"""The sweep written against an array namespace, for CuPy or torch arrays on an accelerator.

Only concatenate, matmul, sum, abs, exp and clip are asked of the namespace and nothing is written in place.
Rows go through in blocks of one size, the last one padded with copies, so that every row meets a matrix
product of the same shape whatever its batch.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from screening.kernels.base import Kernel

BLOCK = 4096


def namespace_of(array: object) -> ModuleType:
    """The module an array belongs to: numpy, torch or cupy."""
    return import_module(type(array).__module__.split(".")[0])


def weighted_sum(kernel: Kernel, x: Any, centres: Any, weights: Any, *, block: int = BLOCK) -> Any:
    """sum_i weights_i K(centre_i, x) at every row of x, on the device its arrays are on.

    Parameters
    ----------
    kernel : Gaussian or Laplacian, gamma a number
    x : array of shape (n, n_features)
    centres : array of shape (m, n_features), m > 0
    weights : array of shape (m, n_outputs)
        All three of one floating type, namespace and device.
    block : int
        Rows at a time; a block of kernels takes block * m numbers.

    Returns
    -------
    array of shape (n, n_outputs)
    """
    xp = namespace_of(x)
    # |x|^2 + |z|^2 - 2 x.z cancels far from the origin, so the origin moves into the cloud.
    middle = xp.sum(centres, 0) / len(centres)
    there = centres - middle
    parts = []
    for first in range(0, len(x), block):
        rows = x[first : first + block] - middle
        n_rows = len(rows)
        while len(rows) < block:
            rows = xp.concatenate((rows, rows[: block - len(rows)]))
        parts.append(xp.matmul(_kernels(xp, kernel, rows, there), weights)[:n_rows])
    return xp.concatenate(parts) if parts else xp.matmul(xp.matmul(x, there.T), weights)


def moved_sum(
    library: str, kernel: Kernel, x: np.ndarray, centres: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """``weighted_sum`` of numpy arrays by the named library, on its accelerator where it has one."""
    module = import_module(library)
    if library == "torch":
        place = "cuda" if module.cuda.is_available() else "cpu"
        given = [module.from_numpy(each).to(place) for each in (x, centres, weights)]
        return weighted_sum(kernel, *given).cpu().numpy()
    given = [module.asarray(each) for each in (x, centres, weights)]
    found = weighted_sum(kernel, *given)
    return module.asnumpy(found) if library == "cupy" else found


def _kernels(xp: ModuleType, kernel: Kernel, rows: Any, there: Any) -> Any:
    if kernel.norm == 1:
        apart = xp.abs(rows[:, :1] - there[:, :1].T)
        for k in range(1, rows.shape[1]):
            apart = apart + xp.abs(rows[:, k : k + 1] - there[:, k : k + 1].T)
    else:
        squared = xp.sum(rows * rows, 1)[:, None] + xp.sum(there * there, 1)[None, :]
        apart = xp.clip(squared - 2.0 * xp.matmul(rows, there.T), 0.0, None)
    return xp.exp(-kernel.number * apart)
