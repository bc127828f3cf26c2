"""Sequential minimal optimization for every dual, on one compiled loop.

The kernel matrix is never rescaled: c enters beside it. Points that sit at a bound and
will stay there leave the active set by compaction, and what was left out is checked in
full before a solution is returned. Pair steps find out which alphas are free; now and
then all of these move to their common optimum (``free_set``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from screening.solvers import smo_steps
from screening.solvers.kernel_rows import ActiveSet
from screening.solvers.problem import (
    Problem,
    Solution,
    certificate,
    check_alphas,
    levels,
)
from screening.solvers.smo_steps import LEVEL_ROUNDING, SHRINK_BELOW, STOP

# Bytes for cached kernel rows: 1 GiB.
DEFAULT_MEMORY = 1 << 30
# Below this many active points shrinking costs more than it saves.
_MIN_POINTS_TO_SHRINK = 512
# Steps between two checks of the active set.
_MIN_CHUNK = 200
_MAX_CHUNK = 1000
# Points visited between two checks, if the steps allow: about 0.1 ms.
_VISITS_PER_CHUNK = 1e5
# Points visited between two returns to Python, which has to react to signals.
_VISITS_PER_CALL = 1e8
# Checks of all points after which the active set no longer shrinks.
_MAX_FULL_CHECKS = 6


def solve(
    problem: Problem,
    tol: float = 1e-3,
    *,
    start: np.ndarray | None = None,
    memory: int = DEFAULT_MEMORY,
    max_iter: int = 10_000_000,
) -> Solution:
    """Solve the dual problem of a kernel machine.

    It has the constraint sum(signs * alphas) = total, or none but the bounds.

    Parameters
    ----------
    problem : Problem
    tol : float
        Largest violation of the optimality conditions, in units of ``problem.unit`` at
        the solution.
    start : ndarray of shape (n,), optional
        Feasible alphas to start from.
    memory : int
        Bytes for cached kernel rows; two rows are always cached.
    max_iter : int
        Steps after which the solution so far is returned, without a warning: its
        ``gap`` is then larger than ``tol``.

    Returns
    -------
    Solution
        Alphas, intercept, the violation that is left, and the number of steps.

    Raises
    ------
    ValueError
        If ``start`` breaks a constraint, or ``total`` cannot be reached within the
        bounds.
    """
    (solution,) = solve_each(
        [problem], tol, start=start, memory=memory, max_iter=max_iter
    )
    return solution


def solve_each(
    problems: Sequence[Problem],
    tol: float = 1e-3,
    *,
    start: np.ndarray | None = None,
    memory: int = DEFAULT_MEMORY,
    max_iter: int = 10_000_000,
) -> list[Solution]:
    """Solve duals that differ in c alone, each from the solution before it.

    Parameters and errors as for ``solve``; ``start`` is for the first one.
    """
    solutions = []
    active = ActiveSet(problems[0].gram, memory)
    for problem in problems:
        solver = SmoSolver(problem, tol, active)
        solutions.append(solver.run(_feasible_alphas(problem, start), max_iter))
        start = solutions[-1].alphas
    return solutions


def _feasible_alphas(problem: Problem, start: np.ndarray | None) -> np.ndarray:
    """Return alphas that meet all constraints; ValueError if there are none."""
    upper = problem.upper
    if start is not None:
        _check_start(problem, start)
        return np.minimum(np.ascontiguousarray(start, float), upper)
    alphas = np.zeros(len(upper))
    if problem.total:
        side = np.flatnonzero(problem.signs == np.sign(problem.total))
        # From the rows of the least c: the objective is then near its optimum, however
        # many decades c spans.
        curvature = problem.c[side] ** 2 * problem.diagonal[side]
        side = side[np.argsort(curvature, kind="stable")]
        total = abs(problem.total)
        filled = np.minimum(np.cumsum(upper[side]), total)
        if not len(side) or filled[-1] < total * (1 - 1e-9):
            raise ValueError(
                "total cannot be reached: the bounds of the rows on its side sum to "
                "less"
            )
        added = np.diff(filled, prepend=0.0)
        alphas[side] = np.minimum(added, upper[side])
    return alphas


def _check_start(problem: Problem, start: np.ndarray) -> None:
    """Raise ValueError unless alphas are within their bounds and meet the total."""
    signs = np.ascontiguousarray(problem.signs, float)
    alphas = np.ascontiguousarray(start, float)
    feasible, reach, signed_sum = check_alphas(alphas, signs, problem.upper)
    if problem.total is not None:
        tolerance = 1e-9 * max(reach, abs(problem.total))
        feasible = feasible and abs(signed_sum - problem.total) <= tolerance
    if not feasible:
        raise ValueError(
            "start violates a constraint; give alphas that are within their "
            "bounds and sum to total"
        )


class ActivePoints(NamedTuple):
    """Arrays over the active points, as the compiled steps take them.

    ``first`` contains signs if there is an equality, class numbers otherwise.
    """

    first: np.ndarray
    c: np.ndarray
    diagonal: np.ndarray
    upper: np.ndarray
    alpha: np.ndarray
    v: np.ndarray


class SmoSolver:
    """One solve: the state over all points, and the loop over chunks of steps.

    Parameters
    ----------
    problem : Problem
    tol : float
        As for ``solve``.
    active : ActiveSet
        The kernel matrix; its active set becomes all points.

    Attributes
    ----------
    unit : float
        Factor from the problem's alphas to ``alpha``.
    alpha, v : ndarray of shape (n,)
        Alphas and levels of all points, once they are set.
    """

    def __init__(self, problem: Problem, tol: float, active: ActiveSet) -> None:
        self.problem = problem
        self.active = active
        n = len(problem.upper)
        if len(active.points) < n:
            active.take(np.arange(n))
        c = np.asarray(problem.c, float)
        # In units in which the largest K~_ii is 1, float32 curvatures cannot overflow,
        # whatever the scale of c.
        root = math.sqrt(problem.largest) or 1.0
        self.unit = root * root
        self.tol = tol
        self.stop = tol * problem.scale
        self.s = np.asarray(problem.signs, float)
        self.c = c / root
        self.diagonal = problem.diagonal
        self.upper = np.asarray(problem.upper, float) * self.unit
        self.p = np.asarray(problem.linear, float)
        self.equality = problem.total is not None
        # State of the compiled loop: the indices STOP, PATIENCE and VISITS.
        self._loop_state = np.array([self.stop, 1.0, 0.0])
        # Without an equality the steps take class numbers and their coupling.
        self._first = self.s
        self._coupling = None
        if not self.equality:
            self._first = (self.s > 0).astype(np.int64)
            self._coupling = np.array([[1.0, -1.0], [-1.0, 1.0]])

    def run(self, alphas: np.ndarray, max_iter: int) -> Solution:
        """Solve from feasible alphas, in at most `max_iter` steps.

        Steps move the active points until these meet the conditions. Then all points
        are checked, and those that do not meet them become active.
        """
        self.alpha = alphas * self.unit
        self.v = self.levels()
        n_iter = 0
        n_checks = 0
        active = self.active
        state = self.gather(active.points)
        while True:
            m = len(active.points)
            may_shrink = m > _MIN_POINTS_TO_SHRINK and n_checks < _MAX_FULL_CHECKS
            steps, gap, stuck = self._take_steps(max_iter - n_iter, may_shrink, state)
            n_iter += steps
            tightened = self._tighten(state.first, state.alpha, state.v)
            at_limit = n_iter >= max_iter
            converged = gap <= self.stop or (stuck and not tightened)
            if at_limit or converged:
                intercept, gap = self._check_all_points(state)
                n_checks += 1
                if m == len(alphas) or at_limit or gap <= self.stop:
                    break
                active.take(self._points_after_check(n_checks))
                state = self.gather(active.points)
            elif may_shrink:
                state = self._shrink(state)
        unit = self.problem.unit(self.alpha, self.s, self.v)
        solution = np.minimum(self.alpha / self.unit, self.problem.upper)
        return Solution(solution, intercept, gap / unit, n_iter)

    def _check_all_points(self, state: ActivePoints) -> tuple[float, float]:
        """Take over the active points; return intercept and violation of all points."""
        self._scatter(state)
        if len(state.alpha) < len(self.alpha):
            # Levels of points that were not active are out of date.
            self.v = self.levels()
            self._tighten(self.s, self.alpha, self.v)
        return self._certificate()

    def _shrink(self, state: ActivePoints) -> ActivePoints:
        """Return the active points, fewer if many are sure to stay at a bound."""
        keep = self._undecided(state)
        if len(keep) >= SHRINK_BELOW * len(state.alpha):
            return state
        self._scatter(state)
        self.active.take(self.active.points[keep], keep)
        return self.gather(self.active.points)

    def _points_after_check(self, n_checks: int) -> np.ndarray:
        """Return the points to go on with when a check of all found violations."""
        all_points = np.arange(len(self.s))
        if n_checks >= _MAX_FULL_CHECKS:
            return all_points
        return self._undecided(self.gather(all_points))

    def _tighten(self, s: np.ndarray, alpha: np.ndarray, v: np.ndarray) -> bool:
        """Lower the violation to stop at where these alphas require it; True if so."""
        before = self.stop
        wanted = min(before, self.tol * self.problem.unit(alpha, s, v))
        # With a wide kernel and few rows the violation wanted would otherwise be below
        # the rounding errors of the levels.
        rounding = LEVEL_ROUNDING * float(np.abs(v).max())
        self.stop = max(wanted, rounding)
        return self.stop < before

    def levels(self) -> np.ndarray:
        """Return v = -s * gradient with an equality, the gradient without, (n,)."""
        if not self.active.computed:
            gram = self.active.dense
            return np.asarray(
                levels(self.equality, self.s, self.c, self.p, self.alpha, gram)
            )
        signed = self.s * self.c
        sums = self.problem.gram @ (signed * self.alpha)
        gradient = signed * sums + self.p
        return -self.s * gradient if self.equality else gradient

    def gather(self, points: np.ndarray) -> ActivePoints:
        """Return the arrays over some points; alpha and v are copies."""
        state = ActivePoints(
            self._first, self.c, self.diagonal, self.upper, self.alpha, self.v
        )
        if len(points) == len(self.s):
            return state._replace(alpha=self.alpha.copy(), v=self.v.copy())
        return ActivePoints(*[values[points] for values in state])

    def _scatter(self, state: ActivePoints) -> None:
        """Take over alphas and levels of the active points."""
        self.alpha[self.active.points] = state.alpha
        self.v[self.active.points] = state.v

    def _take_steps(
        self, limit: int, may_shrink: bool, state: ActivePoints
    ) -> tuple[int, float, bool]:
        """Take steps, in place, until convergence, the limit or a smaller active set.

        Returns the number of steps, the gap, and True if no further step was found.
        """
        n_points = len(state.first)
        chunk = int(min(max(_VISITS_PER_CHUNK / n_points, _MIN_CHUNK), _MAX_CHUNK))
        n_chunks = max(1, int(_VISITS_PER_CALL / (chunk * n_points)))
        if not self.problem.has_margin:
            # Every check may then require a smaller violation.
            n_chunks = 1
        least_stop = self.tol * self.problem.scale
        self._loop_state[STOP] = self.stop
        steps, gap, stuck = smo_steps.take_steps(
            n_chunks,
            chunk,
            limit,
            least_stop,
            may_shrink,
            self._loop_state,
            self._coupling,
            *state,
            self.active.rows(),
        )
        self.stop = float(self._loop_state[STOP])
        return steps, gap, stuck

    def _undecided(self, state: ActivePoints) -> np.ndarray:
        """Return positions of active points that are not sure to stay at a bound."""
        return np.asarray(
            smo_steps.undecided(
                self.equality, state.first, state.upper, state.alpha, state.v
            )
        )

    def _certificate(self) -> tuple[float, float]:
        """Return intercept and largest violation over all points."""
        v = self.v
        if not self.equality:
            can_rise = self.alpha < self.upper
            can_fall = self.alpha > 0
            largest_rise = np.max(-v[can_rise], initial=0.0)
            largest_fall = np.max(v[can_fall], initial=0.0)
            return 0.0, float(max(largest_rise, largest_fall))
        intercept, gap = certificate(self.s, self.upper, self.alpha, v)
        return float(intercept), float(gap)
