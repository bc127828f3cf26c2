"""Duals of several classes at once, without an equality over the rows.

A coupling of labels (``CoupledProblem``) and Crammer-Singer. Both are solved exactly,
the row with the largest violation first. c enters beside K, as everywhere:
K~_ij = c_i c_j K_ij.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from screening.kernels.jit import njit
from screening.solvers.kernel_rows import ActiveSet
from screening.solvers.problem import AT_BOUND
from screening.solvers.smo_steps import MIN_CURVATURE, single_steps

# Steps after which a solver stops, whatever the gap.
_MAX_STEPS = 10_000_000
# Smallest divisor.
_TINY = 1e-200
# Steps before a Newton jump, in units of the number of variables.
_SWEEPS = 4
# Bounds that a jump may meet on its way.
_MAX_BOUNDS = 60
# Free variables beyond which the linear system of a jump would cost more than it saves.
_MAX_FREE = 3000


@dataclass(frozen=True)
class CoupledProblem:
    """The dual min 1/2 a'Ga - 1'a with 0 <= a <= upper.

    G_ij = coupling[y_i, y_j] c_i c_j K_ij.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The base kernel K.
    codes : int ndarray of shape (n,)
        Class numbers y.
    coupling : ndarray of shape (n_classes, n_classes)
    c : ndarray of shape (n,)
    upper : ndarray of shape (n,)
        Bound of each alpha.
    """

    gram: np.ndarray
    codes: np.ndarray
    coupling: np.ndarray
    c: np.ndarray
    upper: np.ndarray

    @property
    def scale(self) -> float:
        """Unit of violations: how far one row at its bound can move its own gradient.

        Coupling 1 is assumed; at most the margin 1.
        """
        return _scale(self.gram, self.c, self.upper)

    def gradient(self, alphas: np.ndarray) -> np.ndarray:
        """Return Ga - 1, shape (n,)."""
        of_class = self.codes[:, None] == np.arange(len(self.coupling))
        sums = self.gram @ (of_class * (self.c * alphas)[:, None])
        return self.c * np.einsum("im,im->i", sums, self.coupling[self.codes]) - 1.0

    def gap(self, alphas: np.ndarray) -> float:
        """Return the largest violation, in units of ``scale``."""
        gradient = self.gradient(alphas)
        down = np.where(alphas > AT_BOUND * self.upper, gradient, 0.0)
        up = np.where(alphas < (1.0 - AT_BOUND) * self.upper, -gradient, 0.0)
        largest = max(down.max(), up.max(), 0.0)
        return float(largest / self.scale)


@dataclass(frozen=True)
class CrammerSingerProblem:
    """The dual min 1/2 sum_m A_m' K~ A_m + sum_im A_im (1 - [y_i = m]).

    A_im <= [y_i = m] upper_i, and each row of A sums to 0.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The base kernel K.
    codes : int ndarray of shape (n,)
        Class numbers y.
    n_classes : int
    c : ndarray of shape (n,)
    upper : ndarray of shape (n,)
    """

    gram: np.ndarray
    codes: np.ndarray
    n_classes: int
    c: np.ndarray
    upper: np.ndarray

    @property
    def scale(self) -> float:
        """Unit of violations, as ``CoupledProblem.scale``."""
        return _scale(self.gram, self.c, self.upper)

    @property
    def is_own_class(self) -> np.ndarray:
        """[y_i = m], shape (n, n_classes)."""
        return self.codes[:, None] == np.arange(self.n_classes)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Return K~ A + 1 - [y_i = m], shape (n, n_classes)."""
        c = self.c[:, None]
        return c * (self.gram @ (c * weights)) + ~self.is_own_class

    def gap(self, weights: np.ndarray) -> float:
        """Return the largest violation, in units of ``scale``."""
        gradient = self.gradient(weights)
        bound = np.where(self.is_own_class, self.upper[:, None], 0.0)
        free = weights < bound - AT_BOUND * self.upper[:, None]
        lowest = np.where(free, gradient, np.inf).min(axis=1)
        gaps = gradient.max(axis=1) - lowest
        return float(gaps.max(initial=0.0) / self.scale)


def _scale(gram: np.ndarray, c: np.ndarray, upper: np.ndarray) -> float:
    slope_at_bound = upper * np.square(c) * gram.diagonal()
    reach = float(slope_at_bound.max())
    return max(min(reach, 1.0), np.finfo(float).tiny)


def solve_coupled(problem: CoupledProblem, tol: float) -> tuple[np.ndarray, float, int]:
    """Solve a coupled problem; return alphas (n,), gap and number of steps.

    `tol` is in units of ``problem.scale``. After `_MAX_STEPS` it stops without an
    error; the gap then exceeds it.
    """
    solver = _CoupledSolver(problem, tol)
    alphas = np.zeros(len(problem.c))
    n_iter = _alternate(solver, alphas, problem.gradient(alphas))
    return alphas, problem.gap(alphas), n_iter


def solve_crammer_singer(
    problem: CrammerSingerProblem, tol: float
) -> tuple[np.ndarray, float, int]:
    """Solve a Crammer-Singer problem; return A (n, n_classes), gap and number of steps.

    `tol` is in units of ``problem.scale``. After `_MAX_STEPS` it stops without an
    error; the gap then exceeds it.
    """
    solver = _CrammerSingerSolver(problem, tol)
    weights = np.zeros((problem.n_classes, len(problem.c)))
    gradient = np.ascontiguousarray((~problem.is_own_class).T.astype(float))
    n_iter = _alternate(solver, weights, gradient)
    weights = np.ascontiguousarray(weights.T)
    return weights, problem.gap(weights), n_iter


class _AlternatingSolver(Protocol):
    """Single steps and Newton jumps; both change point and gradient in place."""

    def steps(self, point: np.ndarray, gradient: np.ndarray, limit: int) -> int:
        """Take up to `limit` steps; return their number, fewer if it converged."""

    def jump(self, point: np.ndarray, gradient: np.ndarray) -> None:
        """Move the free variables to their common optimum."""


def _alternate(
    solver: _AlternatingSolver, point: np.ndarray, gradient: np.ndarray
) -> int:
    """Solve from a point, in place; return the number of steps.

    Single steps find the face of the optimum; along it they are slow, so Newton jumps
    follow.
    """
    n_iter = 0
    chunk = _SWEEPS * point.size
    while n_iter < _MAX_STEPS:
        done = solver.steps(point, gradient, chunk)
        n_iter += done
        if done < chunk:
            break
        solver.jump(point, gradient)
    return n_iter


class _CoupledSolver:
    """Steps and jumps over alphas (n,)."""

    def __init__(self, problem: CoupledProblem, tol: float) -> None:
        self.problem = problem
        self.tol = tol * problem.scale
        self.codes = problem.codes.astype(np.int64)
        self.c = problem.c.astype(float)
        self.upper = problem.upper.astype(float)
        self.coupling = np.asarray(problem.coupling, float)
        self.diagonal = problem.gram.diagonal().astype(float)
        self.rows = ActiveSet(problem.gram).rows()

    def steps(self, point: np.ndarray, gradient: np.ndarray, limit: int) -> int:
        steps, _ = single_steps(
            limit,
            self.tol,
            self.codes,
            self.coupling,
            self.c,
            self.diagonal,
            self.upper,
            point,
            gradient,
            self.rows,
        )
        return int(steps)

    def jump(self, point: np.ndarray, gradient: np.ndarray) -> None:
        free = np.flatnonzero((point > 0) & (point < self.upper))
        if not 0 < len(free) <= _MAX_FREE:
            return
        free_codes = self.codes[free]
        coupling = self.coupling[np.ix_(free_codes, free_codes)]
        curvature = coupling * _rescaled_part(self.problem, free)
        alphas = point[free]
        bound = self.upper[free]

        def room(move: np.ndarray) -> np.ndarray:
            distance = np.where(move > 0, bound - alphas, alphas)
            return distance / np.maximum(np.abs(move), _TINY)

        for move in _newton_moves(curvature, gradient[free], room):
            alphas = np.clip(alphas + move, 0, bound)
        point[free] = alphas
        gradient[:] = self.problem.gradient(point)


class _CrammerSingerSolver:
    """Steps and jumps over weights A, transposed to (n_classes, n)."""

    def __init__(self, problem: CrammerSingerProblem, tol: float) -> None:
        self.problem = problem
        self.tol = tol * problem.scale
        self.codes = problem.codes.astype(np.int64)
        self.c = problem.c.astype(float)
        self.upper = problem.upper.astype(float)
        self.gram = np.ascontiguousarray(problem.gram)
        self.bound = np.where(problem.is_own_class, self.upper[:, None], 0.0).T

    def steps(self, point: np.ndarray, gradient: np.ndarray, limit: int) -> int:
        return int(
            _crammer_singer_steps(
                self.gram,
                self.codes,
                self.c,
                self.upper,
                point,
                gradient,
                self.tol,
                limit,
            )
        )

    def jump(self, point: np.ndarray, gradient: np.ndarray) -> None:
        # Variables are differences within a row, which keep its sum 0: the first class
        # of a row that is off its bound gives what another such class takes.
        bound = self.bound
        free = point < bound
        first_free = free.argmax(axis=0)
        is_taker = free & (np.arange(len(free))[:, None] != first_free)
        taker, row = np.nonzero(is_taker)
        if not 0 < len(row) <= _MAX_FREE:
            return
        giver = first_free[row]
        overlap = np.zeros((len(taker), len(taker)))
        overlap += taker[:, None] == taker
        overlap += giver[:, None] == giver
        overlap -= taker[:, None] == giver
        overlap -= giver[:, None] == taker
        curvature = overlap * _rescaled_part(self.problem, row)
        slope = gradient[taker, row] - gradient[giver, row]

        def to_weights(move: np.ndarray) -> np.ndarray:
            change = np.zeros_like(point)
            change[taker, row] = move
            np.subtract.at(change, (giver, row), move)
            return change

        def room(move: np.ndarray) -> np.ndarray:
            change = to_weights(move)
            distance = np.where(change > 0, bound - point, np.inf)
            rooms = distance / np.maximum(np.abs(change), _TINY)
            return np.minimum(rooms[taker, row], rooms[giver, row])

        for move in _newton_moves(curvature, slope, room):
            point += np.minimum(to_weights(move), bound - point)
        gradient[:] = self.problem.gradient(np.ascontiguousarray(point.T)).T


def _rescaled_part(
    problem: CoupledProblem | CrammerSingerProblem, rows: np.ndarray
) -> np.ndarray:
    """Return K~ among some rows."""
    c = problem.c[rows]
    return c[:, None] * problem.gram[np.ix_(rows, rows)] * c


def _newton_moves(
    curvature: np.ndarray, slope: np.ndarray, room: Callable[[np.ndarray], np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield moves towards the minimum of a quadratic, each to the first bound it meets.

    That variable then stays at its bound.

    Parameters
    ----------
    curvature : ndarray of shape (m, m)
    slope : ndarray of shape (m,)
        Gradient at the start.
    room : callable
        Returns how far each variable can go along a move, in units of the move.
    """
    largest = float(curvature.diagonal().max())
    ridge = 1e-10 * max(largest, _TINY)
    left = np.arange(len(slope))
    for _ in range(_MAX_BOUNDS):
        part = curvature[np.ix_(left, left)]
        move = np.zeros(len(slope))
        ridged = part + ridge * np.eye(len(left))
        move[left] = -np.linalg.solve(ridged, slope[left])
        if slope @ move >= 0:
            return
        along = room(move)
        length = min(1.0, float(along[left].min()))
        yield length * move
        slope = slope + length * (curvature @ move)
        left = left[along[left] > length * (1.0 + 1e-9)]
        if length == 1.0 or not len(left):
            return


@njit(nogil=True, cache=True)
def _solve_row(linear, own_class, bound, curvature, out):
    """Store the row a that minimizes 1/2 curvature |a|^2 + linear'a.

    a_m <= bound [m = own_class] and sum a = 0. The solution is
    a_m = min(bound_m, (level - linear_m) / curvature); the level is found by adding
    classes in the order in which they leave their bound.
    """
    k = linear.size
    leaves_at = linear.copy()
    leaves_at[own_class] += curvature * bound
    order = np.argsort(-leaves_at)
    level = leaves_at[order[0]] - curvature * bound
    r = 1
    while r < k and level < r * leaves_at[order[r]]:
        level += leaves_at[order[r]]
        r += 1
    level /= r
    for m in range(k):
        upper = bound if m == own_class else 0.0
        out[m] = min(upper, (level - linear[m]) / curvature)


@njit(nogil=True)
def _largest_violation(codes, upper, weights, gradient, tol):
    """Return the row that violates its conditions most, -1 if none does by `tol`."""
    k, n = weights.shape
    worst = tol
    i = -1
    for t in range(n):
        highest = -np.inf
        lowest = np.inf
        for m in range(k):
            slope = gradient[m, t]
            highest = max(highest, slope)
            if weights[m, t] < (upper[t] if m == codes[t] else 0.0):
                lowest = min(lowest, slope)
        if highest - lowest > worst:
            worst = highest - lowest
            i = t
    return i


@njit(nogil=True, cache=True)
def _crammer_singer_steps(gram, codes, c, upper, weights, gradient, tol, limit):
    """Take up to `limit` row steps on weights (n_classes, n), in place.

    Returns their number, fewer if no row violates its conditions by `tol`.
    """
    k, n = weights.shape
    linear = np.empty(k)
    out = np.empty(k)
    steps = 0
    while steps < limit:
        i = _largest_violation(codes, upper, weights, gradient, tol)
        if i < 0:
            break
        curvature = max(c[i] * c[i] * gram[i, i], MIN_CURVATURE)
        for m in range(k):
            linear[m] = gradient[m, i] - curvature * weights[m, i]
        _solve_row(linear, codes[i], upper[i], curvature, out)
        row = gram[i]
        for m in range(k):
            change = (out[m] - weights[m, i]) * c[i]
            weights[m, i] = out[m]
            if change != 0.0:
                class_gradient = gradient[m]
                for t in range(n):
                    class_gradient[t] += change * c[t] * row[t]
        steps += 1
    return steps
