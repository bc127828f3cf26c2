"""Methods from their equations: decisions at rows z after training on x, y in {0, 1} or
codes 0 ... k - 1.
"""

import numpy as np
from sklearn.svm import SVC

from independent import duals
from independent.duals import gaussian, laplacian, squared

FLOOR = 1e-12


def support(alphas):
    return np.flatnonzero(alphas > 1e-8 * alphas.max())


def margin_density(z, x, alphas, nu, gamma, n=None):
    """Cohen eq. 15 with tau = sigma / sqrt(n)."""
    limit = 1 / (nu * len(x))
    is_positive = alphas > 1e-8 * limit
    is_below_limit = alphas < (1 - 1e-8) * limit
    margin = np.flatnonzero(is_positive & is_below_limit)
    rows = margin if len(margin) else support(alphas)
    n_dimensions = x.shape[1] if n is None else n
    tau_squared = 1 / (2 * gamma) / n_dimensions
    bumps = np.exp(-squared(z, x[rows]) / (2 * tau_squared))
    return bumps @ alphas[rows]


def one_width(z, vectors, gamma):
    """Amari and Wu 1999, h = 1, tau = sigma / sqrt(n_features)."""
    tau_squared = 1 / (2 * gamma) / vectors.shape[1]
    bumps = np.exp(-squared(z, vectors) / (2 * tau_squared))
    return bumps.sum(axis=1)


def local_width(z, vectors, n_nearest=3):
    """Wu and Amari 2002: tau_k^2 from the nearest other support vectors."""
    distances = squared(vectors, vectors)
    np.fill_diagonal(distances, np.inf)
    n_others = min(n_nearest, len(vectors) - 1)
    nearest = np.sort(distances, axis=1)[:, :n_others]
    widths = np.maximum(nearest.mean(axis=1), FLOOR)
    bumps = np.exp(-squared(z, vectors) / widths)
    return bumps.sum(axis=1)


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
    by_class = np.where(signs > 0, ratio, 1 / ratio)
    return np.maximum(widths * by_class, FLOOR)


def two_sided(f, f_training, k=1.0):
    """Williams 2005: kappa = k / max f^2 over training rows."""
    kappa = k / np.square(f_training).max()
    return np.exp(-kappa * f**2)


def one_sided(f, f_training, signs, k=1.0):
    """Maratea 2014."""
    kappa = k / np.square(f_training).max()
    positive = 2 * kappa * (signs == 1).mean()
    negative = 2 * kappa * (signs == -1).mean()
    rates = np.where(f >= 0, positive, negative)
    return np.exp(-rates * f**2)


def opposite_distance(f, distances, signs):
    """Liu and He 2021: exp(-|f| d_M), distances (n_z, n_sv) squared in the feature
    space.
    """
    mean = np.zeros(len(f))
    predicted = np.where(f >= 0, 1, -1)
    for i, row in enumerate(distances):
        reach = (row.min() + row.max()) / 2
        is_opposite = signs != predicted[i]
        near = row[(row < reach) & is_opposite]
        mean[i] = near.mean() if len(near) else 0.0
    return np.exp(-np.abs(f) * mean)


def class_weights(codes, n_classes):
    """Shao eq. 17."""
    inverse = 1.0 / np.bincount(codes, minlength=n_classes) ** 2
    return inverse / inverse.sum()


def class_decay(decisions, rates):
    """Shao eq. 16 from D (n_z, k) and p (n_z, k): each row by the class the first pass
    predicts.
    """
    rows = np.arange(len(decisions))
    predicted = decisions.argmax(axis=1)
    own_rates = rates[rows, predicted]
    own_decisions = np.abs(decisions[rows, predicted])
    return np.exp(-own_rates * own_decisions)


class Pass:
    """One C-SVC under the kernel c(x) c(z) K(x, z), c a function of rows."""

    def __init__(
        self,
        kernel,
        gamma,
        x,
        signs,
        upper,
        factor=None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.x = x
        self.signs = signs
        self.factor = factor or (lambda z: np.ones(len(z)))
        self.c = self.factor(x)
        gram = self.c[:, None] * kernel(x, x, gamma) * self.c
        self.alphas, self.intercept = duals.two_class(gram, signs, upper)
        self.rows = support(self.alphas)

    def decision(self, z):
        c_z = self.factor(z)[:, None]
        gram = c_z * self.kernel(z, self.x, self.gamma) * self.c
        return gram @ (self.alphas * self.signs) + self.intercept

    def distances(self, z, rows):
        """Squared feature-space distances from z to training rows, under this pass's
        kernel.
        """
        at_z = self.factor(z)[:, None]
        at_rows = self.c[rows]
        cross = at_z * self.kernel(z, self.x[rows], self.gamma) * at_rows
        return at_z**2 + at_rows**2 - 2 * cross

    def right_side(self):
        """Support vectors that are not on the wrong side."""
        rows = self.rows
        signs = self.signs[rows]
        margins = signs * self.decision(self.x[rows])
        return rows[margins >= 0]


def signs_of(y):
    return np.where(np.asarray(y) == 1, 1.0, -1.0)


def _passes(
    kernel,
    next_factor,
    x,
    y,
    z,
    C,
    gamma,
    passes=1,
):
    signs = signs_of(y)
    current = Pass(kernel, gamma, x, signs, C)
    for _ in range(passes):
        factor = _product(current.factor, next_factor(current))
        current = Pass(kernel, gamma, x, signs, C, factor)
    return current.decision(z)


def _product(before, now):
    return lambda z: before(z) * now(z)


def svm(x, y, z, C, gamma):
    return Pass(gaussian, gamma, x, signs_of(y), C).decision(z)


def svm_weighted(x, y, z, C, gamma, cost_ratio="balanced"):
    signs = signs_of(y)
    ratio = cost_ratio
    if cost_ratio == "balanced":
        ratio = (signs < 0).sum() / (signs > 0).sum()
    upper = np.where(signs > 0, ratio * C, C)
    return Pass(gaussian, gamma, x, signs, upper).decision(z)


def amari_wu(x, y, z, **given):
    def factor(first):
        vectors = x[first.rows]
        return lambda at: one_width(at, vectors, first.gamma)

    return _passes(gaussian, factor, x, y, z, **given)


def wu_amari(x, y, z, M=3, **given):
    def factor(first):
        vectors = x[first.right_side()]
        return lambda at: local_width(at, vectors, M)

    return _passes(laplacian, factor, x, y, z, **given)


def act(
    x,
    y,
    z,
    distance="feature",
    norm=2,
    **given,
):
    """Wu and Chang eq. 13-17; norm is of all input-space distances."""

    def input_space(a, b):
        if norm == 1:
            return np.abs(a[:, None] - b).sum(axis=2)
        return squared(a, b)

    def factor(first):
        rows = first.right_side()
        vectors = x[rows]
        signs = first.signs[rows]
        if distance == "input":
            among = input_space(vectors, vectors)
        else:
            among = first.distances(vectors, rows)
        widths = adaptive_widths(among, signs)

        def at(points):
            if distance == "feature_both":
                apart = first.distances(points, rows)
            else:
                apart = input_space(points, vectors)
            return np.exp(-apart / widths).sum(axis=1)

        return at

    return _passes(laplacian, factor, x, y, z, **given)


def williams(x, y, z, k=1.0, **given):
    def factor(first):
        reference = first.decision(x)
        return lambda at: two_sided(first.decision(at), reference, k)

    return _passes(gaussian, factor, x, y, z, **given)


def maratea(x, y, z, k=1.0, **given):
    def factor(first):
        reference = first.decision(x)
        return lambda at: one_sided(first.decision(at), reference, first.signs, k)

    return _passes(gaussian, factor, x, y, z, **given)


def liu_he(x, y, z, **given):
    def factor(first):
        signs = first.signs[first.rows]

        def at(points):
            distances = first.distances(points, first.rows)
            return opposite_distance(first.decision(points), distances, signs)

        return at

    return _passes(gaussian, factor, x, y, z, **given)


def one_class_conformal(
    x,
    z,
    nu,
    gamma,
    passes=1,
    n=None,
):
    """Cohen 2004; c has root mean square 1 over the training rows, which changes
    numerics only.
    """
    c = np.ones(len(x))
    c_z = np.ones(len(z))
    gram = gaussian(x, x, gamma)
    gram_z = gaussian(z, x, gamma)
    alphas, rho = duals.one_class(gram, nu)
    for _ in range(passes):
        now = c * margin_density(x, x, alphas, nu, gamma, n)
        now_z = c_z * margin_density(z, x, alphas, nu, gamma, n)
        size = np.sqrt(np.mean(now**2))
        c = now / size
        c_z = now_z / size
        rescaled = c[:, None] * gram * c
        alphas, rho = duals.one_class(rescaled, nu)
    rescaled_z = c_z[:, None] * gram_z * c
    return rescaled_z @ alphas - rho


def _machines(kernel, gamma, x, codes, C, factor=None):
    return [
        Pass(kernel, gamma, x, signs_of(codes == m), C, factor)
        for m in range(codes.max() + 1)
    ]


def _decisions(machines, z):
    return np.column_stack([machine.decision(z) for machine in machines])


def one_vs_rest(x, codes, z, C, gamma):
    return _decisions(_machines(gaussian, gamma, x, codes, C), z)


def each_alone(method, x, codes, z, **given):
    """A two-class method against the rest, one c a machine."""
    return np.column_stack(
        [method(x, codes == m, z, **given) for m in range(codes.max() + 1)]
    )


def wu_amari_all_vectors(
    x,
    codes,
    z,
    C,
    gamma,
    M=3,
    kernel=laplacian,
):
    """As each_alone(wu_amari), no support vector dropped."""
    columns = []
    for first in _machines(kernel, gamma, x, codes, C):
        vectors = x[first.rows]

        def factor(at, vectors=vectors):
            return local_width(at, vectors, M)

        second = Pass(kernel, gamma, x, first.signs, C, factor)
        columns.append(second.decision(z))
    return np.column_stack(columns)


def shao(
    x,
    codes,
    z,
    C,
    gamma,
    Q=None,
    empty="zero",
):
    """Eq. 16-19 (Q None) or eq. 21; one c for all second-stage machines."""
    machines = _machines(gaussian, gamma, x, codes, C)
    weights = class_weights(codes, len(machines))
    largest = np.sqrt(squared(x, x).max())

    def rates(at):
        columns = []
        for m, machine in enumerate(machines):
            distances = 2 - 2 * gaussian(at, x[machine.rows], gamma)
            if Q is None:
                columns.append(weights[m] * distances.mean(axis=1))
                continue
            foreign = distances[:, codes[machine.rows] != m]
            near = foreign < Q * largest * weights[m]
            if empty == "zero":
                fallback = np.zeros(len(at))
            else:
                fallback = foreign.min(axis=1)
            n_near = np.maximum(near.sum(axis=1), 1)
            means = (foreign * near).sum(axis=1) / n_near
            has_near = near.any(axis=1)
            columns.append(np.where(has_near, means, fallback))
        return np.column_stack(columns)

    def factor(at):
        return class_decay(_decisions(machines, at), rates(at))

    second_stage = _machines(gaussian, gamma, x, codes, C, factor)
    return _decisions(second_stage, z)


def one_vs_one(x, codes, z, C, gamma):
    """Votes plus the sum of margins squashed below a third, which is scikit-learn's."""
    machine = SVC(C=C, gamma=gamma, tol=1e-9, decision_function_shape="ovr")
    return machine.fit(x, codes).decision_function(z)


def crammer_singer_machine(x, codes, z, C, gamma):
    gram = gaussian(x, x, gamma)
    alphas = duals.crammer_singer(gram, codes, codes.max() + 1, C)
    return gaussian(z, x, gamma) @ alphas


def simplified(x, codes, z, C, gamma):
    """He et al. 2012."""
    k = codes.max() + 1
    gram = gaussian(x, x, gamma)
    same = codes[:, None] == codes
    within = gram * k / (k - 1)
    across = -gram * k / (k - 1) ** 2
    quadratic = np.where(same, within, across)
    alphas = duals.quadratic_program(quadratic, -np.ones(len(x)), C)
    own = np.eye(k)[codes]
    targets = own - (1 - own) / (k - 1)
    return gaussian(z, x, gamma) @ (alphas[:, None] * targets)


def e_smote_interpolated(
    x,
    y,
    z,
    C,
    gamma,
    parents,
    neighbours,
    gaps,
):
    """Perez-Ortiz: K* = [I;A] K [I;A]', synthetic image (1 - g) Phi(x_i) + g
    Phi(x_j).
    """
    n_synthetic = len(gaps)
    synthetic = np.arange(n_synthetic)
    blend = np.zeros((n_synthetic, len(x)))
    np.add.at(blend, (synthetic, parents), 1 - gaps)
    np.add.at(blend, (synthetic, neighbours), gaps)
    stacked = np.vstack([np.eye(len(x)), blend])
    signs = np.concatenate([signs_of(y), np.ones(n_synthetic)])
    gram = stacked @ gaussian(x, x, gamma) @ stacked.T
    alphas, intercept = duals.two_class_by_interior_point(gram, signs, C)
    gram_z = gaussian(z, x, gamma) @ stacked.T
    return gram_z @ (alphas * signs) + intercept


def nearest_in_feature_space(x, y, gamma, k=5):
    """Row numbers (n_positive, k) of each positive row's nearest other positive
    rows.
    """
    positive = np.flatnonzero(np.asarray(y) == 1)
    x = x[positive]
    distances = 2 - 2 * gaussian(x, x, gamma)
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")
    return positive[order[:, :k]]


def sv_pruning(
    x,
    y,
    z,
    C,
    gamma,
    n_remove,
    rule="max",
):
    """Chen 2005: the decision at z, and the rows removed in their order.

    Of candidates that tie, the one with the largest alpha goes.
    """
    signs = signs_of(y)
    gram = gaussian(x, x, gamma)

    def fitted(rows):
        among = gram[np.ix_(rows, rows)]
        alphas, intercept = duals.two_class(among, signs[rows], C)
        return rows, alphas * signs[rows], intercept

    def criterion(rows):
        kept, coef, intercept = fitted(rows)
        f = gram[:, kept] @ coef + intercept
        n_negative = (signs < 0).sum()
        accuracy = (f[signs > 0] > 0).mean()
        error = (f[signs < 0] > 0).sum() / n_negative
        return accuracy / (error if error > 0 else 0.5 / n_negative)

    alphas, _ = duals.two_class(gram, signs, C)
    vectors = support(alphas)
    negative_vectors = vectors[signs[vectors] < 0]
    kept = np.union1d(np.flatnonzero(signs > 0), negative_vectors)
    removed = []
    for _ in range(n_remove):
        candidates = kept[signs[kept] < 0]
        worth = np.array([criterion(kept[kept != row]) for row in candidates])
        best_worth = worth.max() if rule == "max" else worth.min()
        is_best = worth == best_worth
        rows, coef, _ = fitted(kept)
        alphas = np.zeros(len(x))
        alphas[rows] = np.round(np.abs(coef), 6)
        alphas_of_best = np.where(is_best, alphas[candidates], -1)
        best = candidates[np.argmax(alphas_of_best)]
        removed.append(int(best))
        kept = kept[kept != best]
    rows, coef, intercept = fitted(kept)
    return gaussian(z, x[rows], gamma) @ coef + intercept, removed
