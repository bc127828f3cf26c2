"""Base kernels K, and the rescaled kernel c(x) c(y) K(x, y)."""

from screening.kernels.base import KERNELS, Gaussian, Laplacian, input_distances
from screening.kernels.rescaled import FLOOR, positive, rescaled, rescaled_distances

__all__ = [
    "FLOOR",
    "KERNELS",
    "Gaussian",
    "Laplacian",
    "input_distances",
    "positive",
    "rescaled",
    "rescaled_distances",
]
