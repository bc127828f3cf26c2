"""Base kernels K, and the rescaled kernel c(x) c(y) K(x, y)."""

from screening.kernels.base import KERNELS, Gaussian, Kernel, Laplacian
from screening.kernels.pairwise import Precision, input_distances
from screening.kernels.rescaled import FLOOR, Scale, log_sum_exp, rescaled, rescaled_distances

__all__ = [
    "FLOOR",
    "KERNELS",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Precision",
    "Scale",
    "input_distances",
    "log_sum_exp",
    "rescaled",
    "rescaled_distances",
]
