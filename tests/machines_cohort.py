"""Small made-up rows the machines' tests share, and an independent solver of their duals."""

from __future__ import annotations

import numpy as np


def two_clouds(n_rows: int = 60, n_features: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping clouds, about one row in four positive."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n_rows) % 4 == 0).astype(int)
    return rng.normal(size=(n_rows, n_features)) + 1.2 * y[:, None], y


def three_clouds(n_rows: int = 60, n_features: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping clouds of unequal numbers: labels 'a', 'b', 'c'."""
    rng = np.random.default_rng(seed)
    codes = np.array([0, 1, 1, 2, 2, 2])[np.arange(n_rows) % 6]
    centres = np.array([[0.0, 0.0], [2.0, 1.0], [1.0, 3.0]])
    x = rng.normal(size=(n_rows, n_features))
    x[:, :2] += centres[codes]
    return x, np.array(["a", "b", "c"])[codes]


def quadratic_program(
    quadratic: np.ndarray, linear: np.ndarray, upper: np.ndarray, signs: np.ndarray, total: float
) -> np.ndarray:
    """min 1/2 a'Qa + p'a, 0 <= a <= upper, signs'a = total, by an interior point method."""
    from cvxopt import matrix, solvers

    n = len(linear)
    options = {"show_progress": False, "abstol": 1e-11, "reltol": 1e-11, "feastol": 1e-11}
    bounds = np.vstack([-np.eye(n), np.eye(n)])
    limits = np.concatenate([np.zeros(n), upper])
    found = solvers.qp(
        matrix(quadratic + 1e-12 * np.eye(n)),
        matrix(linear),
        matrix(bounds),
        matrix(limits),
        matrix(signs.reshape(1, -1).astype(float)),
        matrix([float(total)]),
        options=options,
    )
    return np.array(found["x"]).ravel()
