"""Sequential minimal optimisation for every dual of the project, on one compiled loop.

The kernel matrix is never rescaled: c enters beside it. Points that sit at a bound and will stay there leave
the active set by compaction, and what was left out is checked in full before a solution is returned. Pairs
find out which alphas are free; now and then all of these go to their common optimum (``face_loops``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from screening.solvers.kernel_rows import Gram, KernelRows
from screening.solvers.problem import AT_BOUND, Problem, Solution, between

DEFAULT_MEMORY = 1 << 30
_SMALL = 400  # below this many active points shrinking costs more than it saves
_WORTH = 0.85  # compact only where the active set shrinks to this share
_STEPS = (200, 1000)  # between two looks, at least and at most
_VISITS = 1e5  # points visited between two looks, where the steps allow: about 0.1 ms
_CUBE = (
    0.1  # of the number of free alphas: points that could be visited in the time of a solve for all of them
)
_FREE = 4000  # alphas solved for at once, at most: their block takes 128 MB
_UPHILL = 1e-9  # of what a move adds and takes: above the rounding of their sum
_FULL_CHECKS = 6
_LAST_DIGITS = 16 * float(np.finfo(float).eps)  # of a level: what rounding leaves of it after many steps


@dataclass
class _Active:
    """The problem over the active points, compact, as the compiled loops want it."""

    gram: Gram
    memory: int
    points: np.ndarray = field(init=False)
    mode: int = field(init=False)

    def __post_init__(self) -> None:
        from screening.kernels.compiled import ABSOLUTE, SQUARED
        from screening.kernels.sweep import padded_transposed, rate_of

        self._all: Any = None
        self.kind, self.rate = SQUARED, np.float32(0)
        if isinstance(self.gram, KernelRows):
            self.dense = np.zeros((1, 1), np.float32)
            self._all = padded_transposed(self.gram.x)
            self.kind = SQUARED if self.gram.kernel.norm == 2 else ABSOLUTE
            self.rate = np.float32(rate_of(self.gram.kernel))
        else:
            exact = np.asarray(self.gram).dtype != np.float32
            self.dense = np.ascontiguousarray(self.gram, np.float64 if exact else np.float32)
            self._all = None if exact else np.zeros((4, 1), np.float32)  # float32 shares one specialisation
        self.computed = isinstance(self.gram, KernelRows)
        self.buffer = np.empty(0, self.dense.dtype)
        self.slot_of = self.owner = self.newer = self.older = self.lru = np.empty(0, np.int64)
        self.take(np.arange(len(self.gram)))

    def take(self, points: np.ndarray, keep: np.ndarray | None = None) -> None:
        """Make `points` the active set; `keep`, their places in the one before, saves the cached rows."""
        from screening.solvers import rows

        before = len(self.points) if keep is not None else 0
        m = len(points)
        direct = not self.computed and m == len(self.dense)
        was_cached = keep is not None and self.mode != rows.DIRECT
        self.points = points
        self.mode = rows.DIRECT if direct else rows.COMPUTED if self.computed else rows.GATHERED
        self.xt = np.ascontiguousarray(self._all[:, points]) if self.computed else self._all
        wanted = 0 if direct else min(max(self.memory // self.dense.itemsize, 2 * m), m * m)
        if len(self.buffer) < wanted and not was_cached:
            self.buffer = np.empty(wanted, self.dense.dtype)
        capacity = max(min(len(self.buffer) // m, m), 0)
        slot_of = np.full(m, -1, np.int64)
        if was_cached:
            rows.compact(
                keep, before, self.buffer, self.slot_of, self.owner, self.newer, self.older, self.lru, slot_of
            )
        else:
            self.lru = np.array([-1, -1, 0, 0, 0], np.int64)
        grown = [np.full(capacity, -1, np.int64) for _ in range(3)]
        if was_cached:
            used = self.lru[rows.USED]
            for new, old in zip(grown, (self.owner, self.newer, self.older), strict=True):
                new[:used] = old[:used]
        self.owner, self.newer, self.older = grown
        self.slot_of = slot_of
        self.lru[rows.CAPACITY] = capacity

    def rows(self) -> tuple:
        return (
            self.mode, self.points, self.dense, self.xt, self.kind, self.rate, self.buffer,
            self.slot_of, self.owner, self.newer, self.older, self.lru,
        )  # fmt: skip

    def times(self, weights: np.ndarray) -> np.ndarray:
        """K weights over all points, in float64."""
        from screening.kernels.sweep import symmetric_times

        return self.gram @ weights if self.computed else symmetric_times(self.dense, weights)


def solve(
    problem: Problem,
    tol: float = 1e-3,
    *,
    start: np.ndarray | None = None,
    memory: int = DEFAULT_MEMORY,
    max_iter: int = 10_000_000,
) -> Solution:
    """Solve a dual with or without its equality.

    Parameters
    ----------
    problem : Problem
        ``gram`` is an array, used as it is where it is float32 or float64, or a ``KernelRows``.
    tol : float, > 0
        Largest violation of the optimality conditions, in units of ``problem.unit`` at the solution.
    start : ndarray of shape (n,), optional
        Feasible alphas to start from.
    memory : int, > 0
        Bytes for cached kernel rows (two rows at least).
    max_iter : int

    Raises
    ------
    ValueError
        If ``start`` breaks a constraint, or ``total`` cannot be reached within the bounds.
    """
    from screening.kernels.compiled import prepare

    prepare()
    engine = _Engine(problem, tol, memory)
    return engine.run(_feasible(problem, start), max_iter)


def _feasible(problem: Problem, start: np.ndarray | None) -> np.ndarray:
    upper, signs = problem.upper, problem.signs
    if start is not None:
        alphas = np.array(start, float)
        inside = (alphas >= 0).all() and (alphas <= upper * (1 + AT_BOUND)).all()
        reach = max(float(upper.sum()), abs(problem.total or 0.0))
        met = problem.total is None or abs(signs @ alphas - problem.total) <= 1e-9 * reach
        if not (inside and met):
            raise ValueError("start breaks a constraint: give alphas within their bounds that meet the total")
        return np.minimum(alphas, upper)
    alphas = np.zeros(len(upper))
    if problem.total:
        side = np.flatnonzero(signs == np.sign(problem.total))
        # From the rows of the least c: the objective is then near its end's, however many decades c spans.
        side = side[np.argsort(problem.c[side] ** 2 * problem.gram.diagonal()[side], kind="stable")]
        filled = np.minimum(np.cumsum(upper[side]), abs(problem.total))
        if not len(side) or filled[-1] < abs(problem.total) * (1 - 1e-9):
            raise ValueError("total is out of reach: the bounds of the rows on its side sum to less")
        alphas[side] = np.minimum(np.diff(filled, prepend=0.0), upper[side])
    return alphas


class _Engine:
    """One solve: the state over all points, and the loop over chunks of compiled steps."""

    def __init__(self, problem: Problem, tol: float, memory: int) -> None:
        self.problem = problem
        self.active = _Active(problem.gram, memory)
        diagonal = np.asarray(problem.gram.diagonal(), float)
        c = np.asarray(problem.c, float)
        # In units where the largest K~_ii is 1 float32 curvatures cannot overflow, whatever the scale of c.
        unit = float(np.sqrt(np.max(c * c * diagonal))) or 1.0
        self.unit = unit * unit
        self.tol = tol
        self.stop = tol * problem.scale
        self.s = np.asarray(problem.signs, float)
        self.c = c / unit
        self.diagonal = diagonal
        self.upper = np.asarray(problem.upper, float) * self.unit
        self.p = np.asarray(problem.linear, float)
        self.state = np.zeros(2)
        self.equality = problem.total is not None
        self.patience = 1.0
        self.label = (self.s > 0).astype(np.int64)
        self.coupling = np.array([[1.0, -1.0], [-1.0, 1.0]])

    def run(self, alphas: np.ndarray, max_iter: int) -> Solution:
        n = len(alphas)
        self.alpha = alphas * self.unit
        self.v = self._levels()
        n_iter, checks, visits = 0, 0, 0
        active = self.active
        now = self._gathered(active.points)
        while True:
            m = len(active.points)
            chunk = min(int(np.clip(_VISITS / m, *_STEPS)), max_iter - n_iter)
            steps, gap = self._steps(chunk, now)
            n_iter += steps
            visits += steps * m
            tighter = self._tightened(now[0], now[4], now[5])
            if n_iter >= max_iter or gap <= self.stop or (steps < chunk and not tighter):
                self.alpha[active.points], self.v[active.points] = now[4], now[5]
                if m == n or n_iter >= max_iter:
                    break
                checks += 1
                self.v = self._levels()
                self._tightened(self.s, self.alpha, self.v)
                if self._gap() <= self.stop:
                    break
                keep = self._undecided(np.arange(n), self.alpha, self.v)
                active.take(keep if checks < _FULL_CHECKS else np.arange(n))
                now = self._gathered(active.points)
            elif m > _SMALL and checks < _FULL_CHECKS:
                keep = self._undecided(active.points, now[4], now[5])
                if len(keep) < _WORTH * m:
                    self.alpha[active.points], self.v[active.points] = now[4], now[5]
                    active.take(active.points[keep], keep)
                    now = self._gathered(active.points)
            if self._moved_at_once(now, visits):
                visits = 0
        alphas = np.minimum(self.alpha / self.unit, self.problem.upper)
        intercept, gap = self._certificate()
        return Solution(alphas, intercept, gap / self.problem.unit(self.alpha, self.s, self.v), n_iter)

    def _tightened(self, s: np.ndarray, alpha: np.ndarray, v: np.ndarray) -> bool:
        """Whether the solution so far asks for a smaller violation than the one that was to be left."""
        before, asked = self.stop, min(self.stop, self.tol * self.problem.unit(alpha, s, v))
        # Levels are known to their last digits alone: under a wide kernel few rows would be asked for more.
        self.stop = max(asked, _LAST_DIGITS * float(np.abs(v).max()))
        return self.stop < before

    def _levels(self) -> np.ndarray:
        """v = -s * gradient (with the equality), the gradient itself without."""
        f = self.active.times(self.s * self.c * self.alpha) if self.alpha.any() else np.zeros(len(self.alpha))
        gradient = self.s * self.c * f + self.p
        return -self.s * gradient if self.equality else gradient

    def _gathered(self, points: np.ndarray) -> list[np.ndarray]:
        first = self.s if self.equality else self.label
        if len(points) == len(first):
            return [first, self.c, self.diagonal, self.upper, self.alpha.copy(), self.v.copy()]
        return [each[points] for each in (first, self.c, self.diagonal, self.upper, self.alpha, self.v)]

    def _steps(self, limit: int, now: list[np.ndarray]) -> tuple[int, float]:
        from screening.solvers import loops

        steps = loops.pair_steps
        if self.equality:
            return steps(limit, self.stop, *now, self.state, *self.active.rows())
        steps = loops.single_steps
        return steps(limit, self.stop, now[0], self.coupling, *now[1:], self.state, *self.active.rows())

    def _moved_at_once(self, now: list[np.ndarray], visits: int) -> bool:
        """Whether free alphas were sent to their common optimum; it takes no longer than the steps before."""
        if not self.equality:
            return False
        from screening.solvers import face_loops

        s, c, _, upper, alpha, v = now
        n_free = np.count_nonzero((alpha > 0) & (alpha < upper))
        pays = visits > self.patience * (_CUBE * n_free**3 + 4 * n_free * len(alpha))
        if not (pays and 2 <= n_free <= _FREE):
            return False
        before = alpha.copy(), v.copy()
        solve = face_loops.solve_face
        solve(s, c, upper, alpha, v, *self.active.rows())
        climbed = -0.5 * s * (v + before[1]) * (alpha - before[0])  # their sum is what the objective rose by
        # Where c spans many decades the block's inverse can be lost to rounding. A move uphill is taken back,
        # and pairs go on alone for twice as long, or move and pairs undo each other for ever.
        if climbed.sum() > _UPHILL * np.abs(climbed).sum():
            alpha[:], v[:] = before
            self.patience *= 2.0
        return True

    def _movable(self, points: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masks: v may pull the point up; v may pull it down."""
        rise, fall = alpha < self.upper[points], alpha > 0
        if not self.equality:
            return rise, fall
        plus = self.s[points] > 0
        return np.where(plus, rise, fall), np.where(plus, fall, rise)

    def _undecided(self, points: np.ndarray, alpha: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Positions that are free or on the wrong side of the levels between which the rest move."""
        up, low = self._movable(points, alpha)
        if not self.equality:
            violation = max(np.max(-v[up], initial=0.0), np.max(v[low], initial=0.0))
            return np.flatnonzero((up & low) | (up & (v < violation)) | (low & (v > -violation)))
        top, bottom = np.max(v[up], initial=-np.inf), np.min(v[low], initial=np.inf)
        return np.flatnonzero((up & low) | (up & (v >= bottom)) | (low & (v <= top)))

    def _gap(self) -> float:
        return self._certificate()[1]

    def _certificate(self) -> tuple[float, float]:
        """Intercept and largest violation over all points."""
        v, margin = self.v, AT_BOUND * self.upper
        if not self.equality:
            up, low = self._movable(np.arange(len(v)), self.alpha)
            return 0.0, float(max(np.max(-v[up], initial=0.0), np.max(v[low], initial=0.0)))
        return between(self.s, self.alpha < self.upper - margin, self.alpha > margin, v)
