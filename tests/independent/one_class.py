"""One-class methods: the decision at rows z, up to a positive factor, after training on x."""

import numpy as np

from independent import factors
from independent.duals import gaussian, one_class


def one_class_conformal(x, z, nu, gamma, passes=1, n=None):
    """Cohen 2004; c has root mean square 1 over the training rows, which changes numerics only."""
    c, c_z = np.ones(len(x)), np.ones(len(z))
    gram, gram_z = gaussian(x, x, gamma), gaussian(z, x, gamma)
    alphas, rho = one_class(gram, nu)
    for _ in range(passes):
        now = factors.margin_density(x, x, alphas, nu, gamma, n) * c
        now_z = factors.margin_density(z, x, alphas, nu, gamma, n) * c_z
        size = np.sqrt(np.mean(now**2))
        c, c_z = now / size, now_z / size
        alphas, rho = one_class(c[:, None] * gram * c, nu)
    return (c_z[:, None] * gram_z * c) @ alphas - rho
