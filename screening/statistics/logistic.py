"""Logistic regression: the coefficients of the least penalised loss, by Newton's method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

CLOSE = 1e-9  # to the minimum: the largest slope of the mean loss
DIRECT = 256
MOST_STEPS, MOST_HALVINGS, MOST_DIRECTIONS = 100, 40, 1000
_ROUNDING = 16 * np.finfo(float).eps

Times = Callable[[np.ndarray], np.ndarray]


def coefficients(
    x: np.ndarray, codes: np.ndarray, weight: np.ndarray, penalty: float, most: int = MOST_STEPS
) -> tuple[np.ndarray, int, bool]:
    """Minimise sum of weight * -log(chance of a row's class) + penalty / 2 * |slopes|^2.

    Newton's steps are found by conjugate gradients, so no matrix of features by features is made.

    Parameters
    ----------
    x : ndarray, shape (n_rows, n_features)
    codes : ndarray of int, shape (n_rows,)
        Class numbers, each of 0 to the largest present.
    weight : ndarray, shape (n_rows,)
    penalty : float, > 0
        The intercept has none.
    most : int
        Steps to take at most.

    Returns
    -------
    coef : ndarray, shape (n_outputs, n_features + 1)
        An intercept behind each output's slopes; of two classes the second alone has an output, else each.
    steps : int
    arrived : bool
        Whether the minimum was reached.
    """
    n_classes = max(2, int(codes.max()) + 1)
    n_outputs = 1 if n_classes == 2 else n_classes
    design = np.column_stack([x, np.ones(len(x))])
    share, held = weight / weight.sum(), np.full(design.shape[1], penalty / weight.sum())
    held[-1] = 0.0
    true = (codes == np.arange(n_classes)[-n_outputs:, None]).astype(float)

    def loss(coef: np.ndarray) -> tuple[float, np.ndarray]:
        scores = coef @ design.T
        # Of two classes the first has the score 0.
        top = np.maximum(scores.max(axis=0), 0.0) if n_outputs == 1 else scores.max(axis=0)
        chances = np.exp(scores - top)
        total = chances.sum(axis=0) + (np.exp(-top) if n_outputs == 1 else 0.0)
        chances /= total
        value = share @ (np.log(total) + top - (true * scores).sum(axis=0))
        return float(value + (held * coef**2).sum() / 2), chances

    coef = np.zeros((n_outputs, design.shape[1]))
    value, chances = loss(coef)
    for step in range(most + 1):
        slope = (share * (chances - true)) @ design + held * coef
        if np.abs(slope).max() <= CLOSE:
            return coef, max(step, 1), True
        if step == most:
            break

        def bent(way: np.ndarray, chances: np.ndarray = chances) -> np.ndarray:
            pull = chances * (way @ design.T)
            return (share * (pull - chances * pull.sum(axis=0))) @ design + held * way

        if n_outputs == 1 and design.shape[1] <= DIRECT:
            rows = design * np.sqrt(share * chances * (1 - chances)).T
            way = -np.linalg.solve(rows.T @ rows + np.diag(held + _ROUNDING), slope.T).T
        else:
            way = _direction(bent, slope)
        fall = float((slope * way).sum())
        for halving in range(MOST_HALVINGS):
            length = 0.5**halving
            there, chances_there = loss(coef + length * way)
            if there <= value + 1e-4 * length * fall + _ROUNDING * abs(value):
                break
        coef, value, chances = coef + length * way, there, chances_there
    return coef, most, False


def _direction(bent: Times, slope: np.ndarray) -> np.ndarray:
    """Where Newton's step leads, as closely as pays so far from the minimum, by conjugate gradients."""
    way, rest = np.zeros_like(slope), -slope
    search, size = rest, float((rest**2).sum())
    enough = size * min(0.25, np.sqrt(size))
    for _ in range(MOST_DIRECTIONS):
        if size <= enough:
            break
        curved = bent(search)
        curvature = float((search * curved).sum())
        if curvature <= 0:
            break
        way = way + size / curvature * search
        rest = rest - size / curvature * curved
        before, size = size, float((rest**2).sum())
        search = rest + size / before * search
    return way if way.any() else -slope
