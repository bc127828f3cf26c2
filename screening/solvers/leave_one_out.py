"""Solutions of a problem without one row, for many rows in turn.

Each starts from the solution with all rows: the row's alpha is set to 0, the free
alphas make up for it, and pair steps go on from there.
"""

from __future__ import annotations

import numpy as np

from screening.kernels.jit import njit
from screening.solvers.free_set import (
    invert,
    move_to_optimum,
    remove_point,
    update_levels,
)
from screening.solvers.kernel_rows import ActiveSet
from screening.solvers.problem import Problem, Solutions, certificate
from screening.solvers.smo import DEFAULT_MEMORY, SmoSolver
from screening.solvers.smo_steps import pair_steps
from screening.threads import n_threads, run_in_threads

# Pair steps for one row at most.
_MAX_STEPS = 10_000_000


def leave_one_out(
    problem: Problem, tol: float, alphas: np.ndarray, left_out: np.ndarray
) -> Solutions:
    """Solve a problem without each of some rows in turn.

    Parameters
    ----------
    problem : Problem
        With an equality; its matrix is an array.
    tol : float
        Largest violation, in units of ``Problem.unit``.
    alphas : ndarray of shape (n,)
        The solution with all rows.
    left_out : int ndarray of shape (m,)
        Rows to leave out; their alpha is 0 in their solution.
    """
    solver = SmoSolver(problem, tol, ActiveSet(problem.gram, DEFAULT_MEMORY))
    solver.alpha = np.minimum(alphas, problem.upper) * solver.unit
    solver.v = solver.levels()
    solutions = np.empty((len(left_out), len(alphas)))
    certificates = np.empty((len(left_out), 3))
    rows = np.asarray(left_out, np.int64)
    unit = problem.unit(solver.alpha, solver.s, solver.v)
    start = solver.gather(solver.active.points)
    matrix = solver.active.rows()
    threads = n_threads()

    def task(first: int) -> None:
        share = slice(first, None, threads)
        _solve_without(
            rows[share],
            _MAX_STEPS,
            tol * unit,
            *start,
            solutions[share],
            certificates[share],
            matrix,
        )

    run_in_threads(task, range(min(threads, len(rows))))
    intercepts, gaps, steps = certificates.T
    alphas = np.minimum(solutions / solver.unit, problem.upper)
    return Solutions(alphas, intercepts, gaps / unit, steps.astype(int))


@njit
def _best_to_move(sign, s, upper, alpha, v):
    """Return the point that gains most if s alpha moves by a sign; -1 if none can."""
    best = -1
    best_gain = -np.inf
    for k in range(s.size):
        rises = s[k] == sign
        can_move = alpha[k] < upper[k] if rises else alpha[k] > 0.0
        if can_move and sign * v[k] > best_gain:
            best = k
            best_gain = sign * v[k]
    return best


@njit
def _pay(owed, s, c, upper, alpha, v, gram):
    """Increase the signed sum of alphas by `owed`, best points first, in place."""
    while owed != 0.0:
        sign = 1.0 if owed > 0.0 else -1.0
        best = _best_to_move(sign, s, upper, alpha, v)
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
def _solve_without(
    left_out, limit, tol, s, c, diagonal, upper, alpha, v, solutions, certificates, rows
):
    """Solve without each row of `left_out`, at most `limit` pair steps each.

    Alphas are stored in `solutions` (m, n); intercept, gap and number of steps in
    `certificates` (m, 3).
    """
    free = np.flatnonzero((alpha > 0.0) & (alpha < upper))
    taken = np.empty(free.size, np.bool_)
    inverse = invert(free, c, taken, rows)
    for which in range(left_out.size):
        j = left_out[which]
        bounds = upper.copy()
        alphas = alpha.copy()
        levels = v.copy()
        row = rows.gram[j]
        weight = c[j] * s[j] * alpha[j]
        for t in range(s.size):
            levels[t] += c[t] * weight * row[t]
        bounds[j] = 0.0
        alphas[j] = 0.0
        inverse_without = inverse.copy()
        inside = taken.copy()
        for a in range(free.size):
            if free[a] == j and inside[a]:
                remove_point(inverse_without, a, inside)
        moved = np.zeros(free.size)
        owed = move_to_optimum(
            free,
            inverse_without,
            inside,
            s[j] * alpha[j],
            s,
            bounds,
            alphas,
            levels,
            moved,
        )
        update_levels(free, moved, c, levels, rows)
        _pay(owed, s, c, bounds, alphas, levels, rows.gram)
        steps, gap = pair_steps(
            limit, tol, s, c, diagonal, bounds, alphas, levels, rows
        )
        certificates[which, 0], _ = certificate(s, bounds, alphas, levels)
        certificates[which, 1] = max(gap, 0.0)
        certificates[which, 2] = steps
        solutions[which] = alphas
