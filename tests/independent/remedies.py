"""Remedies for imbalance, beside the two-class machines they act on."""

import numpy as np

from independent.duals import gaussian, two_class, two_class_by_interior_point
from independent.factors import support
from independent.two_class import signs_of


def e_smote_interpolated(x, y, z, C, gamma, parents, neighbours, gaps):
    """Perez-Ortiz: K* = [I;A] K [I;A]', synthetic image (1 - g) Phi(x_i) + g Phi(x_j)."""
    blend = np.zeros((len(gaps), len(x)))
    np.add.at(blend, (np.arange(len(gaps)), parents), 1 - gaps)
    np.add.at(blend, (np.arange(len(gaps)), neighbours), gaps)
    stacked = np.vstack([np.eye(len(x)), blend])
    signs = np.concatenate([signs_of(y), np.ones(len(gaps))])
    alphas, intercept = two_class_by_interior_point(stacked @ gaussian(x, x, gamma) @ stacked.T, signs, C)
    return gaussian(z, x, gamma) @ stacked.T @ (alphas * signs) + intercept


def e_smote_eigenvectors(x, y, z, C, gamma, parents, neighbours, gaps):
    """The same through the empirical feature space, eq. 1-3."""
    values, vectors = np.linalg.eigh(gaussian(x, x, gamma))
    kept = values > values.max() * 1e-14
    whiten = vectors[:, kept] / np.sqrt(values[kept])
    images = gaussian(x, x, gamma) @ whiten
    synthetic = (1 - gaps)[:, None] * images[parents] + gaps[:, None] * images[neighbours]
    training = np.vstack([images, synthetic])
    signs = np.concatenate([signs_of(y), np.ones(len(gaps))])
    alphas, intercept = two_class_by_interior_point(training @ training.T, signs, C)
    return gaussian(z, x, gamma) @ whiten @ training.T @ (alphas * signs) + intercept


def nearest_in_feature_space(x, y, gamma, k=5):
    """Row numbers (n_positive, k) of each positive row's nearest other positive rows."""
    positive = np.flatnonzero(np.asarray(y) == 1)
    distances = 2 - 2 * gaussian(x[positive], x[positive], gamma)
    np.fill_diagonal(distances, np.inf)
    return positive[np.argsort(distances, axis=1, kind="stable")[:, :k]]


def sv_pruning(x, y, z, C, gamma, n_remove, rule="max"):
    """Chen 2005: the decision at z, and the rows removed in their order."""
    signs = signs_of(y)
    gram = gaussian(x, x, gamma)

    def fitted(rows):
        alphas, intercept = two_class(gram[np.ix_(rows, rows)], signs[rows], C)
        return rows, alphas * signs[rows], intercept

    def criterion(rows):
        kept, coef, intercept = fitted(rows)
        f = gram[:, kept] @ coef + intercept
        n_negative = (signs < 0).sum()
        accuracy = (f[signs > 0] > 0).mean()
        error = (f[signs < 0] > 0).sum() / n_negative
        return accuracy / (error if error > 0 else 0.5 / n_negative)

    everything = np.arange(len(x))
    alphas, _ = two_class(gram, signs, C)
    vectors = support(alphas)
    kept = np.union1d(everything[signs > 0], vectors[signs[vectors] < 0])
    removed = []
    for _ in range(n_remove):
        candidates = kept[signs[kept] < 0]
        worth = np.array([criterion(kept[kept != row]) for row in candidates])
        best = candidates[np.argmax(worth) if rule == "max" else np.argmin(worth)]
        removed.append(int(best))
        kept = kept[kept != best]
    rows, coef, intercept = fitted(kept)
    return gaussian(z, x[rows], gamma) @ coef + intercept, removed
