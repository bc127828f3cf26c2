"""What a user would pick instead of a kernel machine, with the same surface for training and persistence."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from screening.machines.classifier import ByClass, Classifier, check_class_weight, weight_by_class
from screening.machines.fitted import FittedLinear


class Logistic(Classifier, FittedLinear):
    """Logistic regression with an L2 penalty, two classes or more.

    Parameters
    ----------
    C : float, > 0
        Inverse of the penalty.
    class_weight : {"none", "balanced"} or dict from class to weight
        "balanced" weighs classes by the inverse of their numbers.
    max_iter : int
    """

    def __init__(self, C: float = 1.0, class_weight: ByClass = "none", max_iter: int = 2000) -> None:
        self.C = C
        self.class_weight = class_weight
        self.max_iter = max_iter

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        if not (np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be > 0, got {self.C!r}")
        check_class_weight(self.class_weight)

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        weight = weight_by_class(self.class_weight, self.classes_, codes)[codes]
        coef, self.n_iter_ = _most_likely(x, codes, weight, self.C, self.max_iter)
        self.coef_, self.intercept_ = coef[:, :-1], coef[:, -1]


def _most_likely(
    x: np.ndarray, codes: np.ndarray, weight: np.ndarray, cost: float, max_iter: int
) -> tuple[np.ndarray, int]:
    """Coefficients of the least penalised loss, an intercept behind each output's, and the steps to it.

    The loss and the way to its minimum are scikit-learn's, whose linear models take longer to import than all
    folds of a ward to fit.
    """
    from scipy.optimize import minimize

    n_classes = int(codes.max()) + 1
    shape = (1 if n_classes == 2 else n_classes, x.shape[1] + 1)
    share, penalty = weight / weight.sum(), 1 / (cost * weight.sum())
    true = codes == np.arange(n_classes)[:, None]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        coef = flat.reshape(shape)
        slopes = coef[:, :-1]
        # Of two classes the first has the score 0.
        scores = np.zeros(true.shape)
        scores[-len(coef) :] = slopes @ x.T + coef[:, -1:]
        scores -= scores.max(axis=0)
        chances = np.exp(scores)
        total = chances.sum(axis=0)
        error = (share * (chances / total - true))[-len(coef) :]
        gradient = np.column_stack([error @ x + penalty * slopes, error.sum(axis=1)])
        value = share @ (np.log(total) - scores[codes, np.arange(len(x))])
        return float(value + penalty / 2 * np.square(slopes).sum()), gradient.ravel()

    options = {"maxiter": max_iter, "maxls": 50, "gtol": 1e-4, "ftol": 64 * np.finfo(float).eps}
    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options)
    if not found.success:
        warnings.warn(f"logistic regression stopped early: {found.message}", ConvergenceWarning, stacklevel=3)
    return found.x.reshape(shape), int(found.nit)
