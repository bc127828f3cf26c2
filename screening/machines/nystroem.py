"""A linear machine on Nystroem features: what a kernel machine costs grows with the rows and no faster."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from sklearn.svm import LinearSVC

from screening.machines.training import Dual, Training

# Directions of the landmarks' kernel with less than this share of the largest are rounding.
LEAST_EIGENVALUE = 1e-10


def solve_on_landmarks(training: Training, rows: np.ndarray) -> Dual:
    """C-SVC with squared hinge loss in the span of some rows (Williams and Seeger 2001), as their weights.

    With K_LL = U D U' over the landmarks, rows have the features K_xL U D^(-1/2), whose products are the
    kernel where it counts; the linear machine w on them decides by K_xL (U D^(-1/2) w).

    Parameters
    ----------
    training : Training
        Rows of the kernel matrix are computed when asked for; c scales them.
    rows : ndarray of int
        The landmarks.
    """
    c, everything = training.c, np.arange(len(training.labels))
    across = training.gram[np.ix_(everything, rows)] * np.outer(c, c[rows])
    values, directions = eigh(across[rows])
    kept = values > LEAST_EIGENVALUE * values[-1]
    features = directions[:, kept] / np.sqrt(values[kept])
    machine = LinearSVC(dual=False, tol=training.tol)
    machine.fit(across @ features, training.labels, sample_weight=training.costs)
    weights = np.zeros((len(training.labels), 1))
    weights[rows, 0] = features @ machine.coef_[0]
    return Dual(
        weights, machine.intercept_, np.zeros(weights.shape, bool), training.tol, int(machine.n_iter_)
    )
