"""The same problem again without one row, for many rows in turn, each from the solution with all of them.

A row's alpha is given up, the free ones make up for it, and the pair steps go on from there.
"""

from __future__ import annotations

import numpy as np

from screening.kernels.jit import njit
from screening.kernels.threads import n_threads, run_in_threads
from screening.solvers.free_set import go, invert, leave, spread
from screening.solvers.kernel_rows import Active
from screening.solvers.problem import Problem, Solutions, certificate
from screening.solvers.smo import DEFAULT_MEMORY, _Engine
from screening.solvers.smo_steps import pair_steps

_MOST_STEPS = 10_000_000


def leave_one_out(
    problem: Problem, tol: float, alphas: np.ndarray, left_out: np.ndarray
) -> Solutions:
    """Solve a problem with an equality, its matrix an array, without each of the rows `left_out` in turn.

    From the solution with all rows: the free alphas make up for the row, whose own is then 0, and the steps
    of the SMO go on.
    """
    engine = _Engine(problem, tol, Active(problem.gram, DEFAULT_MEMORY))
    engine.alpha = np.minimum(alphas, problem.upper) * engine.unit
    engine.v = engine._levels()
    solutions = np.empty((len(left_out), len(alphas)))
    certificates = np.empty((len(left_out), 3))
    rows = np.asarray(left_out, np.int64)
    unit = problem.unit(engine.alpha, engine.s, engine.v)
    start, matrix = engine._gathered(engine.active.points), engine.active.rows()
    threads = n_threads()

    def task(first: int) -> None:
        own = slice(first, None, threads)
        solve_without(
            rows[own],
            _MOST_STEPS,
            tol * unit,
            *start,
            solutions[own],
            certificates[own],
            matrix,
        )

    run_in_threads(task, range(min(threads, len(rows))))
    intercepts, gaps, steps = certificates.T
    alphas = np.minimum(solutions / engine.unit, problem.upper)
    return Solutions(alphas, intercepts, gaps / unit, steps.astype(int))


@njit
def _make_up(owed, s, c, upper, alpha, v, gram):
    """Bring the signed sum up by `owed`: the point that gains most takes it, then the next."""
    while owed != 0.0:
        sign = 1.0 if owed > 0.0 else -1.0
        best, worth = -1, -np.inf
        for k in range(s.size):
            rises = s[k] == sign
            if (alpha[k] < upper[k] if rises else alpha[k] > 0.0) and sign * v[
                k
            ] > worth:
                best, worth = k, sign * v[k]
        if best < 0:
            break
        rises = s[best] == sign
        room = upper[best] - alpha[best] if rises else alpha[best]
        step = min(room, abs(owed))
        alpha[best] += step if rises else -step
        if step == room:
            alpha[best] = upper[best] if rises else 0.0
        owed = 0.0 if step == abs(owed) else owed - sign * step
        row = gram[best]
        for t in range(s.size):
            v[t] -= c[t] * sign * step * c[best] * row[t]


@njit(nogil=True, cache=True)
def solve_without(
    left_out, limit, tol, s, c, diagonal, upper, alpha, v, solutions, certificates, rows
):
    """For each row left out: its alphas into `solutions`; intercept, gap and steps into `certificates`."""
    free = np.flatnonzero((alpha > 0.0) & (alpha < upper))
    taken = np.empty(free.size, np.bool_)
    inverse = invert(free, c, taken, rows)
    for which in range(left_out.size):
        j = left_out[which]
        bounds, now, levels = upper.copy(), alpha.copy(), v.copy()
        own, weight = rows.gram[j], c[j] * s[j] * alpha[j]
        for t in range(s.size):
            levels[t] += c[t] * weight * own[t]
        bounds[j] = now[j] = 0.0
        own_inverse, inside = inverse.copy(), taken.copy()
        for a in range(free.size):
            if free[a] == j and inside[a]:
                leave(own_inverse, a, inside)
        moved = np.zeros(free.size)
        owed = go(
            free, own_inverse, inside, s[j] * alpha[j], s, bounds, now, levels, moved
        )
        spread(free, moved, c, levels, rows)
        _make_up(owed, s, c, bounds, now, levels, rows.gram)
        steps, gap = pair_steps(limit, tol, s, c, diagonal, bounds, now, levels, rows)
        certificates[which, 0], _ = certificate(s, bounds, now, levels)
        certificates[which, 1], certificates[which, 2] = max(gap, 0.0), steps
        solutions[which] = now
