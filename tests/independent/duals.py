"""Duals solved by somebody else's solver, tighter than the tool needs, and their
optimality conditions.
"""

import numpy as np
from cvxopt import matrix, solvers
from sklearn.svm import SVC
from sklearn.svm import OneClassSVM as LibsvmOneClass

from screening.solvers.problem import AT_BOUND, Problem

TIGHT = {
    "show_progress": False,
    "abstol": 1e-11,
    "reltol": 1e-11,
    "feastol": 1e-11,
    "maxiters": 200,
}


def gaussian(x, z, gamma):
    return np.exp(-gamma * squared(x, z))


def laplacian(x, z, gamma):
    gaps = x[:, None, :] - z[None, :, :]
    return np.exp(-gamma * np.abs(gaps).sum(axis=2))


def squared(x, z):
    gaps = x[:, None, :] - z[None, :, :]
    return np.square(gaps).sum(axis=2)


def quadratic_program(
    quadratic,
    linear,
    upper,
    rows=None,
    total=0.0,
    lower=0.0,
):
    """min 1/2 a'Qa + p'a, lower <= a <= upper, each of rows @ a = total, by an interior
    point method.
    """
    n = len(linear)
    sides = np.vstack([np.eye(n), -np.eye(n)])
    limits = np.concatenate([upper * np.ones(n), -lower * np.ones(n)])
    finite = np.isfinite(limits)
    equalities = []
    if rows is not None:
        totals = np.full(len(rows), total)
        equalities = [matrix(rows), matrix(totals)]
    found = solvers.qp(
        matrix(quadratic + 1e-12 * np.eye(n)),
        matrix(linear),
        matrix(sides[finite]),
        matrix(limits[finite]),
        *equalities,
        options=TIGHT,
    )
    return np.array(found["x"]).ravel()


def two_class(gram, signs, upper):
    """Alphas (n,) and intercept of a C-SVC with an upper bound a row."""
    machine = SVC(kernel="precomputed", C=1.0, tol=1e-9, max_iter=2_000_000)
    weights = upper * np.ones(len(signs))
    machine.fit(gram, signs, sample_weight=weights)
    alphas = np.zeros(len(signs))
    alphas[machine.support_] = np.abs(machine.dual_coef_[0])
    return alphas, float(machine.intercept_[0])


def two_class_by_interior_point(gram, signs, upper):
    """As two_class, for a Gram so singular that libsvm does not settle; alphas are then
    one of many.
    """
    quadratic = signs[:, None] * gram * signs
    linear = -np.ones(len(signs))
    alphas = quadratic_program(quadratic, linear, upper, signs[None])
    is_positive = alphas > 1e-6 * upper
    is_below_limit = alphas < (1 - 1e-6) * upper
    intercepts = signs - gram @ (alphas * signs)
    return alphas, float(np.median(intercepts[is_positive & is_below_limit]))


def one_class(gram, nu):
    """Alphas (n,) that sum to 1, and rho."""
    machine = LibsvmOneClass(kernel="precomputed", nu=nu, tol=1e-12)
    machine.fit(gram)
    alphas = np.zeros(len(gram))
    alphas[machine.support_] = machine.dual_coef_[0]
    scale = alphas.sum()
    return alphas / scale, -float(machine.intercept_[0]) / scale


def crammer_singer(gram, codes, n_classes, upper):
    """A (n, k): min 1/2 sum_m a_m'Ka_m + sum A_im (1 - [y_i = m]), A_im <= C [y_i = m],
    rows sum to 0.
    """
    n = len(gram)
    own = np.eye(n_classes)[codes].T
    rows = np.kron(np.ones((1, n_classes)), np.eye(n))
    quadratic = np.kron(np.eye(n_classes), gram)
    linear = (1 - own).ravel()
    limits = upper * own.ravel()
    alphas = quadratic_program(quadratic, linear, limits, rows, lower=-np.inf)
    return alphas.reshape(n_classes, n).T


def certificate(problem: Problem, alphas: np.ndarray) -> tuple[float, float]:
    """Intercept, and the largest violation in units of ``Problem.unit``; 0 at the
    optimum.
    """
    gradient = problem.gradient(alphas)
    down = alphas > AT_BOUND * problem.upper  # may decrease
    up = alphas < (1.0 - AT_BOUND) * problem.upper  # may increase
    if problem.total is None:
        too_low = np.where(up, -gradient, 0.0).max()
        too_high = np.where(down, gradient, 0.0).max()
        return 0.0, float(max(too_low, too_high, 0.0) / problem.scale)
    levels = -problem.signs * gradient
    plus = problem.signs > 0
    may_rise = np.where(plus, up, down)
    may_fall = np.where(plus, down, up)
    highest = levels[may_rise].max(initial=-np.inf)
    lowest = levels[may_fall].min(initial=np.inf)
    # The mean level of the free alphas; where there is none the middle of the interval
    # that is allowed.
    known = levels[up & down]
    if not len(known):
        known = np.array([highest, lowest])
    known = known[np.isfinite(known)]
    intercept = float(known.mean()) if len(known) else 0.0
    gap = float(max(0.0, highest - lowest))
    return intercept, gap / problem.unit(alphas, problem.signs, levels)
