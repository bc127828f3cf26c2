"""Two-class methods: f at rows z after training on x, y in {0, 1}."""

import numpy as np

from independent import factors
from independent.duals import gaussian, laplacian, squared, two_class


class Pass:
    """One C-SVC under the kernel c(x) c(z) K(x, z), c a function of rows."""

    def __init__(self, kernel, gamma, x, signs, upper, factor=None):
        self.kernel, self.gamma, self.x, self.signs = kernel, gamma, x, signs
        self.factor = factor or (lambda z: np.ones(len(z)))
        self.c = self.factor(x)
        gram = self.c[:, None] * kernel(x, x, gamma) * self.c
        self.alphas, self.intercept = two_class(gram, signs, upper)
        self.rows = factors.support(self.alphas)

    def decision(self, z):
        gram = self.factor(z)[:, None] * self.kernel(z, self.x, self.gamma) * self.c
        return gram @ (self.alphas * self.signs) + self.intercept

    def distances(self, z, rows):
        """Squared feature-space distances from z to training rows, under this pass's kernel."""
        at_z, at_rows = self.factor(z), self.c[rows]
        cross = at_z[:, None] * self.kernel(z, self.x[rows], self.gamma) * at_rows
        return at_z[:, None] ** 2 + at_rows**2 - 2 * cross

    def right_side(self):
        """Support vectors that are not on the wrong side."""
        return self.rows[self.signs[self.rows] * self.decision(self.x[self.rows]) >= 0]


def signs_of(y):
    return np.where(np.asarray(y) == 1, 1.0, -1.0)


def _passes(kernel, next_factor, x, y, z, C, gamma, passes=1):
    signs = signs_of(y)
    current = Pass(kernel, gamma, x, signs, C)
    for _ in range(passes):
        current = Pass(kernel, gamma, x, signs, C, _product(current.factor, next_factor(current)))
    return current.decision(z)


def _product(before, now):
    return lambda z: before(z) * now(z)


def svm(x, y, z, C, gamma):
    return Pass(gaussian, gamma, x, signs_of(y), C).decision(z)


def svm_weighted(x, y, z, C, gamma, cost_ratio="balanced"):
    signs = signs_of(y)
    ratio = (signs < 0).sum() / (signs > 0).sum() if cost_ratio == "balanced" else cost_ratio
    return Pass(gaussian, gamma, x, signs, np.where(signs > 0, ratio * C, C)).decision(z)


def amari_wu(x, y, z, **given):
    def factor(first):
        vectors = x[first.rows]
        return lambda at: factors.one_width(at, vectors, first.gamma)

    return _passes(gaussian, factor, x, y, z, **given)


def wu_amari(x, y, z, M=3, **given):
    def factor(first):
        vectors = x[first.right_side()]
        return lambda at: factors.local_width(at, vectors, M)

    return _passes(laplacian, factor, x, y, z, **given)


def act(x, y, z, distance="feature", norm=2, **given):
    """Wu and Chang eq. 13-17; norm is of all input-space distances."""

    def input_space(a, b):
        return np.abs(a[:, None] - b).sum(axis=2) if norm == 1 else squared(a, b)

    def factor(first):
        rows = first.right_side()
        vectors, signs = x[rows], first.signs[rows]
        among = input_space(vectors, vectors) if distance == "input" else first.distances(vectors, rows)
        widths = factors.adaptive_widths(among, signs)

        def at(points):
            apart = (
                first.distances(points, rows) if distance == "feature_both" else input_space(points, vectors)
            )
            return np.exp(-apart / widths).sum(axis=1)

        return at

    return _passes(laplacian, factor, x, y, z, **given)


def williams(x, y, z, k=1.0, **given):
    def factor(first):
        reference = first.decision(x)
        return lambda at: factors.two_sided(first.decision(at), reference, k)

    return _passes(gaussian, factor, x, y, z, **given)


def maratea(x, y, z, k=1.0, **given):
    def factor(first):
        reference = first.decision(x)
        return lambda at: factors.one_sided(first.decision(at), reference, first.signs, k)

    return _passes(gaussian, factor, x, y, z, **given)


def liu_he(x, y, z, **given):
    def factor(first):
        return lambda at: factors.opposite_distance(
            first.decision(at), first.distances(at, first.rows), first.signs[first.rows]
        )

    return _passes(gaussian, factor, x, y, z, **given)
