"""Duals of several classes at once, without equality over the rows: a coupling of labels, and Crammer-Singer.

Both are solved exactly, the row that violates its conditions most first. c enters beside K, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from screening.kernels.jit import njit
from screening.solvers.kernel_rows import Active
from screening.solvers.problem import AT_BOUND
from screening.solvers.smo_steps import SMALLEST, single_steps

MAX_STEPS = 10_000_000
TINY = 1e-200
# Steps before a jump, in units of the number of variables, and bounds a jump may run into on its way.
SWEEPS, MOVES = 4, 60
# Free variables beyond which a jump's linear system would cost more than it saves.
LARGEST_JUMP = 3000


@dataclass(frozen=True)
class CoupledProblem:
    """min 1/2 a'Ga - 1'a with G_ij = coupling[y_i, y_j] c_i c_j K_ij, 0 <= a <= upper."""

    gram: np.ndarray
    codes: np.ndarray
    coupling: np.ndarray
    c: np.ndarray
    upper: np.ndarray

    @property
    def scale(self) -> float:
        """Unit of violations: the change one row at its bound makes at itself, at most the margin 1."""
        return _scale(self.gram, self.c, self.upper)

    def gradient(self, alphas: np.ndarray) -> np.ndarray:
        """Ga - 1, shape (n,)."""
        own = self.codes[:, None] == np.arange(len(self.coupling))
        sums = self.gram @ (own * (self.c * alphas)[:, None])
        return self.c * np.einsum("im,im->i", sums, self.coupling[self.codes]) - 1.0

    def objective(self, alphas: np.ndarray) -> float:
        return float(0.5 * alphas @ (self.gradient(alphas) - 1.0))

    def gap(self, alphas: np.ndarray) -> float:
        """Largest violation of the optimality conditions, in units of ``scale``."""
        gradient = self.gradient(alphas)
        down = np.where(alphas > AT_BOUND * self.upper, gradient, 0.0)
        up = np.where(alphas < (1.0 - AT_BOUND) * self.upper, -gradient, 0.0)
        return float(max(down.max(), up.max(), 0.0) / self.scale)


@dataclass(frozen=True)
class CrammerSingerProblem:
    """min 1/2 sum_m A_m' K~ A_m + sum_im A_im (1 - [y_i = m]), A_im <= [y_i = m] upper_i, rows sum to 0."""

    gram: np.ndarray
    codes: np.ndarray
    n_classes: int
    c: np.ndarray
    upper: np.ndarray

    @property
    def scale(self) -> float:
        """As ``CoupledProblem.scale``."""
        return _scale(self.gram, self.c, self.upper)

    @property
    def own(self) -> np.ndarray:
        """[y_i = m], shape (n, n_classes)."""
        return self.codes[:, None] == np.arange(self.n_classes)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """K~ A + 1 - [y_i = m], shape (n, n_classes)."""
        c = self.c[:, None]
        return c * (self.gram @ (c * weights)) + ~self.own

    def objective(self, weights: np.ndarray) -> float:
        return float(0.5 * np.sum(weights * (self.gradient(weights) + ~self.own)))

    def gap(self, weights: np.ndarray) -> float:
        """Largest violation of the optimality conditions, in units of ``scale``."""
        gradient = self.gradient(weights)
        bound = np.where(self.own, self.upper[:, None], 0.0)
        free = weights < bound - AT_BOUND * self.upper[:, None]
        lowest = np.where(free, gradient, np.inf).min(axis=1)
        return float(np.max(gradient.max(axis=1) - lowest, initial=0.0) / self.scale)


def _scale(gram: np.ndarray, c: np.ndarray, upper: np.ndarray) -> float:
    reach = float(np.max(upper * np.square(c) * gram.diagonal()))
    return max(min(reach, 1.0), np.finfo(float).tiny)


def solve_coupled(
    problem: CoupledProblem, tol: float = 1e-3
) -> tuple[np.ndarray, float, int]:
    """Alphas (n,), gap and number of steps; ``tol`` is in units of ``problem.scale``."""
    codes, c, upper = (
        problem.codes.astype(np.int64),
        problem.c.astype(float),
        problem.upper.astype(float),
    )
    coupling, diagonal = (
        np.asarray(problem.coupling, float),
        problem.gram.diagonal().astype(float),
    )
    rows = Active(problem.gram).rows()

    def steps(alphas: np.ndarray, gradient: np.ndarray, limit: int) -> int:
        given = (codes, coupling, c, diagonal, upper, alphas, gradient, rows)
        return int(single_steps(limit, tol * problem.scale, *given)[0])

    def jump(alphas: np.ndarray, gradient: np.ndarray) -> None:
        free = np.flatnonzero((alphas > 0) & (alphas < upper))
        if not 0 < len(free) <= LARGEST_JUMP:
            return
        curve = coupling[np.ix_(codes[free], codes[free])] * rescaled_part(
            problem, free
        )
        point, bound = alphas[free], upper[free]

        def room(move: np.ndarray) -> np.ndarray:
            return np.where(move > 0, bound - point, point) / np.maximum(
                np.abs(move), TINY
            )

        for move in _newton(curve, gradient[free], room):
            point = np.clip(point + move, 0, bound)
        alphas[free] = point
        gradient[:] = problem.gradient(alphas)

    alphas = np.zeros(len(c))
    n_iter = _alternate(steps, jump, alphas, problem.gradient(alphas))
    return alphas, problem.gap(alphas), n_iter


def solve_crammer_singer(
    problem: CrammerSingerProblem, tol: float = 1e-3
) -> tuple[np.ndarray, float, int]:
    """Weights A (n, n_classes), gap and number of steps; ``tol`` is in units of ``problem.scale``."""
    codes, c, upper = (
        problem.codes.astype(np.int64),
        problem.c.astype(float),
        problem.upper.astype(float),
    )
    gram = np.ascontiguousarray(problem.gram)
    bound = np.where(problem.own, upper[:, None], 0.0).T

    def steps(weights: np.ndarray, gradient: np.ndarray, limit: int) -> int:
        return int(
            crammer_singer_steps(
                gram, codes, c, upper, weights, gradient, tol * problem.scale, limit
            )
        )

    def jump(weights: np.ndarray, gradient: np.ndarray) -> None:
        # Of a row's classes off their bounds the first gives what the others take, so that it sums to 0.
        free = weights < bound
        giver = free.argmax(axis=0)
        taker, row = np.nonzero(free & (np.arange(len(free))[:, None] != giver))
        if not 0 < len(row) <= LARGEST_JUMP:
            return
        gives = giver[row]
        alike = (taker[:, None] == taker).astype(float) + (gives[:, None] == gives)
        alike -= (taker[:, None] == gives) + (gives[:, None] == taker).astype(float)
        curve = alike * rescaled_part(problem, row)

        def spread(move: np.ndarray) -> np.ndarray:
            whole = np.zeros_like(weights)
            whole[taker, row] = move
            np.subtract.at(whole, (gives, row), move)
            return whole

        def room(move: np.ndarray) -> np.ndarray:
            whole = spread(move)
            rooms = np.where(whole > 0, bound - weights, np.inf) / np.maximum(
                np.abs(whole), TINY
            )
            return np.minimum(rooms[taker, row], rooms[gives, row])

        for move in _newton(curve, gradient[taker, row] - gradient[gives, row], room):
            weights += np.minimum(spread(move), bound - weights)
        gradient[:] = problem.gradient(np.ascontiguousarray(weights.T)).T

    weights = np.zeros((problem.n_classes, len(c)))
    n_iter = _alternate(
        steps, jump, weights, np.ascontiguousarray((~problem.own).T.astype(float))
    )
    weights = np.ascontiguousarray(weights.T)
    return weights, problem.gap(weights), n_iter


def rescaled_part(
    problem: CoupledProblem | CrammerSingerProblem, rows: np.ndarray
) -> np.ndarray:
    """K~ among some rows."""
    c = problem.c[rows]
    return c[:, None] * problem.gram[np.ix_(rows, rows)] * c


def _alternate(
    steps: Callable[[np.ndarray, np.ndarray, int], int],
    jump: Callable[[np.ndarray, np.ndarray], None],
    point: np.ndarray,
    gradient: np.ndarray,
) -> int:
    """Single steps, which find the face of the optimum, and Newton jumps along it where they are slow."""
    n_iter, chunk = 0, SWEEPS * point.size
    while n_iter < MAX_STEPS:
        done = steps(point, gradient, chunk)
        n_iter += done
        if done < chunk:
            break
        jump(point, gradient)
    return n_iter


def _newton(
    curve: np.ndarray, slope: np.ndarray, room: Callable[[np.ndarray], np.ndarray]
) -> Iterator[np.ndarray]:
    """Moves towards the minimum of a quadratic, each to the first bound on its way, which is then kept.

    ``room`` tells how far each variable can go along a move, in units of the move.
    """
    ridge = 1e-10 * max(float(curve.diagonal().max()), TINY)
    left = np.arange(len(slope))
    for _ in range(MOVES):
        part = curve[np.ix_(left, left)]
        move = np.zeros(len(slope))
        move[left] = -np.linalg.solve(part + ridge * np.eye(len(left)), slope[left])
        if slope @ move >= 0:
            return
        along = room(move)
        length = min(1.0, float(along[left].min()))
        yield length * move
        slope = slope + length * (curve @ move)
        left = left[along[left] > length * (1.0 + 1e-9)]
        if length == 1.0 or not len(left):
            return


@njit(nogil=True, cache=True)
def _row_solution(linear, own, bound, bend, out):
    """min 1/2 bend |a|^2 + linear'a, a_m <= bound [m = own], sum a = 0.

    a_m = min(bound_m, (level - linear_m) / bend); the level comes of adding classes in the order in
    which they leave their bound.
    """
    k = linear.size
    leaves = linear.copy()
    leaves[own] += bend * bound
    order = np.argsort(-leaves)
    level = leaves[order[0]] - bend * bound
    r = 1
    while r < k and level < r * leaves[order[r]]:
        level += leaves[order[r]]
        r += 1
    level /= r
    for m in range(k):
        out[m] = min(bound if m == own else 0.0, (level - linear[m]) / bend)


@njit(nogil=True, cache=True)
def crammer_singer_steps(gram, codes, c, upper, weights, gradient, tol, limit):
    """Up to `limit` row steps, in place, (n_classes, n), until no row violates its conditions by `tol`."""
    k, n = weights.shape
    linear, out = np.empty(k), np.empty(k)
    steps = 0
    while steps < limit:
        worst, i = tol, -1
        for t in range(n):
            highest, lowest = -np.inf, np.inf
            for m in range(k):
                now = gradient[m, t]
                highest = max(highest, now)
                if weights[m, t] < (upper[t] if m == codes[t] else 0.0):
                    lowest = min(lowest, now)
            if highest - lowest > worst:
                worst, i = highest - lowest, t
        if i < 0:
            break
        bend = max(c[i] * c[i] * gram[i, i], SMALLEST)
        for m in range(k):
            linear[m] = gradient[m, i] - bend * weights[m, i]
        _row_solution(linear, codes[i], upper[i], bend, out)
        row = gram[i]
        for m in range(k):
            change = (out[m] - weights[m, i]) * c[i]
            weights[m, i] = out[m]
            if change != 0.0:
                own = gradient[m]
                for t in range(n):
                    own[t] += change * c[t] * row[t]
        steps += 1
    return steps
