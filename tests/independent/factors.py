"""c(x) at rows z, from a first pass given as its support vectors; one function a formula."""

import numpy as np

from independent.duals import squared

FLOOR = 1e-12


def support(alphas):
    return np.flatnonzero(alphas > 1e-8 * alphas.max())


def margin_density(z, x, alphas, nu, gamma, n=None):
    """Cohen eq. 15 with tau = sigma / sqrt(n)."""
    limit = 1 / (nu * len(x))
    margin = np.flatnonzero((alphas > 1e-8 * limit) & (alphas < (1 - 1e-8) * limit))
    rows = margin if len(margin) else support(alphas)
    tau_squared = 1 / (2 * gamma) / (x.shape[1] if n is None else n)
    return np.exp(-squared(z, x[rows]) / (2 * tau_squared)) @ alphas[rows]


def one_width(z, vectors, gamma):
    """Amari and Wu 1999, h = 1, tau = sigma / sqrt(n_features)."""
    tau_squared = 1 / (2 * gamma) / vectors.shape[1]
    return np.exp(-squared(z, vectors) / (2 * tau_squared)).sum(axis=1)


def local_width(z, vectors, n_nearest=3):
    """Wu and Amari 2002: tau_k^2 from the nearest other support vectors."""
    distances = squared(vectors, vectors)
    np.fill_diagonal(distances, np.inf)
    widths = np.sort(distances, axis=1)[:, : min(n_nearest, len(vectors) - 1)].mean(axis=1)
    return np.exp(-squared(z, vectors) / np.maximum(widths, FLOOR)).sum(axis=1)


def adaptive_widths(distances, signs):
    """ACT eq. 14, 16, 17 from the (n_sv, n_sv) squared distances."""
    n = len(signs)
    widths = np.empty(n)
    for k in range(n):
        others = np.delete(distances[k], k)
        reach = (others.min() + others.max()) / 2
        across = distances[k][signs != signs[k]]
        near = across[across < reach]
        widths[k] = near.mean() if len(near) else across.min()
    ratio = (signs < 0).sum() / (signs > 0).sum()
    return np.maximum(widths * np.where(signs > 0, ratio, 1 / ratio), FLOOR)


def two_sided(f, f_training, k=1.0):
    """Williams 2005: kappa = k / max f^2 over training rows."""
    return np.exp(-k / np.square(f_training).max() * f**2)


def one_sided(f, f_training, signs, k=1.0):
    """Maratea 2014."""
    kappa = k / np.square(f_training).max()
    positive, negative = (2 * kappa * (signs == side).mean() for side in (1, -1))
    return np.exp(-np.where(f >= 0, positive, negative) * f**2)


def opposite_distance(f, distances, signs):
    """Liu and He 2021: exp(-|f| d_M), distances (n_z, n_sv) squared in the feature space."""
    mean = np.zeros(len(f))
    for i, row in enumerate(distances):
        reach = (row.min() + row.max()) / 2
        near = row[(row < reach) & (signs != (1 if f[i] >= 0 else -1))]
        mean[i] = near.mean() if len(near) else 0.0
    return np.exp(-np.abs(f) * mean)


def class_weights(codes, n_classes):
    """Shao eq. 17."""
    inverse = 1.0 / np.bincount(codes, minlength=n_classes) ** 2
    return inverse / inverse.sum()


def class_decay(decisions, rates):
    """Shao eq. 16 from D (n_z, k) and p (n_z, k): each row by the class the first pass predicts."""
    rows, predicted = np.arange(len(decisions)), decisions.argmax(axis=1)
    return np.exp(-rates[rows, predicted] * np.abs(decisions[rows, predicted]))
