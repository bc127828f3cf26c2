"""libsvm on a Gram handed over, through scikit-learn: slow, well tested, hence the oracle."""

from __future__ import annotations

import numpy as np

from independent.optimality import certificate
from screening.solvers.problem import Problem, Solution

_CACHE_MB = 400


def can_solve(problem: Problem) -> bool:
    """Whether the problem is one of libsvm's two: C-SVC with costs a row, or one-class."""
    if problem.total is None:
        return False
    if np.all(problem.linear == -1.0):
        return problem.total == 0.0 and bool(np.any(problem.signs > 0) and np.any(problem.signs < 0))
    return bool(np.all(problem.linear == 0.0) and np.all(problem.signs == 1) and np.ptp(problem.upper) == 0.0)


def solve(problem: Problem, tol: float = 1e-3) -> Solution:
    """Solve by libsvm; ``tol`` is in units of ``problem.scale``.

    Raises
    ------
    ValueError
        If libsvm has no such problem.
    """
    if not can_solve(problem):
        raise ValueError("libsvm solves C-SVC and one-class problems with an equality constraint only")
    gram = problem.c[:, None] * problem.gram * problem.c
    two_class = bool(np.any(problem.linear))
    alphas, n_iter = _c_svc(problem, gram, tol) if two_class else _novelty(problem, gram, tol)
    intercept, gap = certificate(problem, alphas)
    return Solution(alphas, intercept, gap, n_iter)


def _c_svc(problem: Problem, gram: np.ndarray, tol: float) -> tuple[np.ndarray, int]:
    from sklearn.svm import SVC

    machine = SVC(C=1.0, kernel="precomputed", tol=max(tol * problem.scale, 1e-12), cache_size=_CACHE_MB)
    machine.fit(gram, problem.signs.astype(int), sample_weight=problem.upper)
    alphas = np.zeros(len(gram))
    alphas[machine.support_] = np.abs(machine.dual_coef_[0])
    return np.minimum(alphas, problem.upper), int(np.sum(machine.n_iter_))


def _novelty(problem: Problem, gram: np.ndarray, tol: float) -> tuple[np.ndarray, int]:
    from sklearn.svm import OneClassSVM

    upper = float(problem.upper[0])
    assert problem.total is not None
    nu = problem.total / (upper * len(gram))
    if nu > 1.0 - 1e-9:
        return problem.upper.copy(), 0  # one feasible point, which scikit-learn does not return
    # libsvm bounds alphas by 1; dividing K~ by its largest diagonal makes its tolerance relative.
    reach = float(np.diagonal(gram).max())
    machine = OneClassSVM(kernel="precomputed", nu=nu, tol=tol, cache_size=_CACHE_MB).fit(gram / reach)
    alphas = np.zeros(len(gram))
    alphas[machine.support_] = np.abs(machine.dual_coef_[0]) * upper
    return np.minimum(alphas, upper), int(np.sum(machine.n_iter_))
