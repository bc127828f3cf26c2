"""Base kernels K, and the rescaled kernel c(x) c(y) K(x, y)."""

from screening.kernels.base import (
    FLOOR,
    KERNELS,
    Gaussian,
    Kernel,
    Laplacian,
    LogScale,
    log_sum_exp,
    rescaled,
    rescaled_distances,
)
from screening.kernels.pairwise import Precision, input_distances

__all__ = [
    "FLOOR",
    "KERNELS",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "LogScale",
    "Precision",
    "input_distances",
    "log_sum_exp",
    "rescaled",
    "rescaled_distances",
]
