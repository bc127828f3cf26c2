"""Sequential minimal optimisation for every dual of the project, on one compiled loop.

The kernel matrix is never rescaled: c enters beside it. Points that sit at a bound and will stay there leave
the active set by compaction, and what was left out is checked in full before a solution is returned. Pairs
find out which alphas are free; now and then all of these go to their common optimum (``free_set``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from screening.solvers import smo_steps
from screening.solvers.kernel_rows import Active
from screening.solvers.problem import Problem, Solution, certificate, levels, within
from screening.solvers.smo_steps import LAST_DIGITS, STOP, WORTH

DEFAULT_MEMORY = 1 << 30
_SMALL = 512  # below this many active points shrinking costs more than it saves
_STEPS = (200, 1000)  # between two looks, at least and at most
_VISITS = 1e5  # points visited between two looks, where the steps allow: about 0.1 ms
_UNSEEN = 1e8  # points visited between two looks of Python, which has signals to obey
_FULL_CHECKS = 6


def solve(
    problem: Problem,
    tol: float = 1e-3,
    *,
    start: np.ndarray | None = None,
    memory: int = DEFAULT_MEMORY,
    max_iter: int = 10_000_000,
) -> Solution:
    """Solve a dual with or without its equality, from feasible alphas `start` where they are given.

    `tol` is the largest violation of the optimality conditions, in units of ``problem.unit`` at the solution;
    `memory` are bytes for cached kernel rows (two rows at least). ValueError where ``start`` breaks a
    constraint, or ``total`` cannot be reached within the bounds.
    """
    return solve_each([problem], tol, start=start, memory=memory, max_iter=max_iter)[0]


def solve_each(
    problems: Sequence[Problem],
    tol: float = 1e-3,
    *,
    start: np.ndarray | None = None,
    memory: int = DEFAULT_MEMORY,
    max_iter: int = 10_000_000,
) -> list[Solution]:
    """Solve duals that differ in c alone, from the second on from the solution before."""
    solutions, active = [], Active(problems[0].gram, memory)
    for problem in problems:
        solutions.append(
            _Engine(problem, tol, active).run(_feasible(problem, start), max_iter)
        )
        start = solutions[-1].alphas
    return solutions


def _looks(n_points: int) -> tuple[int, int]:
    """How many times in a row so many steps are taken before Python looks."""
    chunk = int(min(max(_VISITS / n_points, _STEPS[0]), _STEPS[1]))
    return max(1, int(_UNSEEN / (chunk * n_points))), chunk


def _feasible(problem: Problem, start: np.ndarray | None) -> np.ndarray:
    upper, signs = problem.upper, problem.signs
    if start is not None:
        alphas = np.ascontiguousarray(start, float)
        inside, reach, sum_now = within(
            alphas, np.ascontiguousarray(signs, float), upper
        )
        total = problem.total
        if not inside or (
            total is not None and abs(sum_now - total) > 1e-9 * max(reach, abs(total))
        ):
            raise ValueError(
                "start breaks a constraint: give alphas within their bounds that meet the total"
            )
        return np.minimum(alphas, upper)
    alphas = np.zeros(len(upper))
    if problem.total:
        side = np.flatnonzero(signs == np.sign(problem.total))
        # From the rows of the least c: the objective is then near its end's, however many decades c spans.
        side = side[
            np.argsort(problem.c[side] ** 2 * problem.diagonal[side], kind="stable")
        ]
        filled = np.minimum(np.cumsum(upper[side]), abs(problem.total))
        if not len(side) or filled[-1] < abs(problem.total) * (1 - 1e-9):
            raise ValueError(
                "total is out of reach: the bounds of the rows on its side sum to less"
            )
        alphas[side] = np.minimum(np.diff(filled, prepend=0.0), upper[side])
    return alphas


class _Engine:
    """One solve: the state over all points, and the loop over chunks of compiled steps."""

    def __init__(self, problem: Problem, tol: float, active: Active) -> None:
        self.problem = problem
        self.active = active
        if len(active.points) < len(problem.upper):
            active.take(np.arange(len(problem.upper)))
        c = np.asarray(problem.c, float)
        # In units where the largest K~_ii is 1 float32 curvatures cannot overflow, whatever the scale of c.
        unit = math.sqrt(problem.largest) or 1.0
        self.unit = unit * unit
        self.tol = tol
        self.stop = tol * problem.scale
        self.s = np.asarray(problem.signs, float)
        self.c = c / unit
        self.diagonal = problem.diagonal
        self.upper = np.asarray(problem.upper, float) * self.unit
        self.p = np.asarray(problem.linear, float)
        self.equality = problem.total is not None
        self.kept = np.array([self.stop, 1.0, 0.0])
        # Without an equality the loops take class numbers, and how these couple.
        self.first = self.s if self.equality else (self.s > 0).astype(np.int64)
        self.coupling = None if self.equality else np.array([[1.0, -1.0], [-1.0, 1.0]])

    def run(self, alphas: np.ndarray, max_iter: int) -> Solution:
        n = len(alphas)
        self.alpha = alphas * self.unit
        self.v = self._levels()
        n_iter, checks = 0, 0
        active = self.active
        now = self._gathered(active.points)
        while True:
            m = len(active.points)
            may_leave = m > _SMALL and checks < _FULL_CHECKS
            steps, gap, stuck = self._climb(max_iter - n_iter, may_leave, now)
            n_iter += steps
            tighter = self._tightened(now[0], now[4], now[5])
            if n_iter >= max_iter or gap <= self.stop or (stuck and not tighter):
                self.alpha[active.points], self.v[active.points] = now[4], now[5]
                whole = m == n or n_iter >= max_iter
                if not whole:
                    checks += 1
                    self.v = self._levels()
                    self._tightened(self.s, self.alpha, self.v)
                intercept, gap = self._certificate()
                if whole or gap <= self.stop:
                    break
                keep = self._undecided(self._gathered(np.arange(n)))
                active.take(keep if checks < _FULL_CHECKS else np.arange(n))
                now = self._gathered(active.points)
            elif may_leave:
                keep = self._undecided(now)
                if len(keep) < WORTH * m:
                    self.alpha[active.points], self.v[active.points] = now[4], now[5]
                    active.take(active.points[keep], keep)
                    now = self._gathered(active.points)
        alphas = np.minimum(self.alpha / self.unit, self.problem.upper)
        return Solution(
            alphas,
            intercept,
            gap / self.problem.unit(self.alpha, self.s, self.v),
            n_iter,
        )

    def _tightened(self, s: np.ndarray, alpha: np.ndarray, v: np.ndarray) -> bool:
        """Whether the solution so far asks for a smaller violation than the one that was to be left."""
        before, wanted = (
            self.stop,
            min(self.stop, self.tol * self.problem.unit(alpha, s, v)),
        )
        # Levels are known to their last digits alone: under a wide kernel few rows would be asked for more.
        self.stop = max(wanted, LAST_DIGITS * float(np.abs(v).max()))
        return self.stop < before

    def _levels(self) -> np.ndarray:
        """v = -s * gradient (with the equality), the gradient itself without."""
        if not self.active.computed:
            return np.asarray(
                levels(
                    self.equality, self.s, self.c, self.p, self.alpha, self.active.dense
                )
            )
        signed = self.s * self.c
        gradient = signed * (self.problem.gram @ (signed * self.alpha)) + self.p
        return -self.s * gradient if self.equality else gradient

    def _gathered(self, points: np.ndarray) -> list[np.ndarray]:
        if len(points) == len(self.s):
            return [
                self.first,
                self.c,
                self.diagonal,
                self.upper,
                self.alpha.copy(),
                self.v.copy(),
            ]
        return [
            values[points]
            for values in (
                self.first,
                self.c,
                self.diagonal,
                self.upper,
                self.alpha,
                self.v,
            )
        ]

    def _climb(
        self, limit: int, may_leave: bool, now: list[np.ndarray]
    ) -> tuple[int, float, bool]:
        """Steps until there is something to decide: their number, the gap, and whether none was left."""
        chunks, chunk = _looks(len(now[0]))
        if (
            not self.problem.has_margin
        ):  # then every look may ask for a smaller violation
            chunks = 1
        least_stop = self.tol * self.problem.scale
        self.kept[STOP] = self.stop
        steps, gap, stuck = smo_steps.climb(
            chunks,
            chunk,
            limit,
            least_stop,
            may_leave,
            self.kept,
            self.coupling,
            *now,
            self.active.rows(),
        )
        self.stop = float(self.kept[STOP])
        return steps, gap, stuck

    def _undecided(self, now: list[np.ndarray]) -> np.ndarray:
        """Positions of the active points that are not yet sure to stay where they are."""
        first, _, _, upper, alpha, v = now
        return np.asarray(smo_steps.undecided(self.equality, first, upper, alpha, v))

    def _certificate(self) -> tuple[float, float]:
        """Intercept and largest violation over all points."""
        v = self.v
        if not self.equality:
            up, low = self.alpha < self.upper, self.alpha > 0
            return 0.0, float(
                max(np.max(-v[up], initial=0.0), np.max(v[low], initial=0.0))
            )
        intercept, gap = certificate(self.s, self.upper, self.alpha, v)
        return float(intercept), float(gap)
