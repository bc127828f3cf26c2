"""Small made-up rows the machines' tests share, and problems of them."""

import numpy as np
from numpy.random import default_rng

from screening.solvers import Problem


def two_clouds(
    n_rows: int = 60, n_features: int = 3, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping clouds, about one row in four positive."""
    rng = default_rng(seed)
    y = (np.arange(n_rows) % 4 == 0).astype(int)
    noise = rng.normal(size=(n_rows, n_features))
    return noise + 1.2 * y[:, None], y


def three_clouds(
    n_rows: int = 60, n_features: int = 2, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping clouds of unequal numbers: labels 'a', 'b', 'c'."""
    rng = default_rng(seed)
    six_rows = np.array([0, 1, 1, 2, 2, 2])
    codes = six_rows[np.arange(n_rows) % 6]
    centres = np.array(
        [
            [0.0, 0.0],
            [2.0, 1.0],
            [1.0, 3.0],
        ]
    )
    x = rng.normal(size=(n_rows, n_features))
    x[:, :2] += centres[codes]
    return x, np.array(["a", "b", "c"])[codes]


def rows_and_labels(n: int = 300, n_features: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = default_rng(5)
    x = rng.normal(size=(n, n_features))
    score = x[:, 0] + 0.7 * rng.normal(size=n)
    return x, np.where(score > 1.0, 1.0, -1.0)


def problem_of(
    kind: str,
    kernel_matrix: object,
    x: np.ndarray,
    y: np.ndarray,
    scale: float = 1.0,
) -> Problem:
    n = len(x)
    c = scale * np.exp(-0.3 * x[:, 0] ** 2)
    if kind == "one_class":
        ones = np.ones(n)
        upper = ones / (0.15 * n)
        return Problem(kernel_matrix, ones, c, 0.0 * ones, upper, 1.0)
    upper = np.where(y > 0, 8.0, 2.0) / scale**2
    return Problem(
        kernel_matrix,
        y,
        c,
        -np.ones(n),
        upper,
        {"two_class": 0.0, "no_equality": None}[kind],
    )
