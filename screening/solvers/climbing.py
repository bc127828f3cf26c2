"""Compiled: steps between two looks at the active set, with free alphas sent to their optimum now and then.

Between chunks of a fit on some hundred rows Python would take longer than their steps do.
"""

from __future__ import annotations

import numpy as np

from screening.kernels.kept import njit
from screening.solvers.active import LAST_DIGITS, PATIENCE, STOP, VISITS, WORTH
from screening.solvers.face_loops import solve_face
from screening.solvers.loops import INFINITY, pair_steps, single_steps

# Of the number of free alphas: points that could be visited in the time of a solve for all of them.
_CUBE = 0.1
_FREE = 4000  # alphas solved for at once, at most: their block takes 128 MB
_UPHILL = 1e-9  # of what a move adds and takes: above the rounding of their sum


@njit
def _movable(plus, upper, alpha):
    """Whether v may pull a point up, and whether it may pull it down."""
    rise, fall = alpha < upper, alpha > 0.0
    return (rise, fall) if plus else (fall, rise)


@njit(nogil=True, cache=True)
def undecided(equality, s, upper, alpha, v):
    """Positions that are free or on the wrong side of the levels between which the rest move."""
    top, bottom = -INFINITY, INFINITY
    for t in range(v.size):
        up, low = _movable(not equality or s[t] > 0, upper[t], alpha[t])
        if up:
            top = max(top, v[t] if equality else -v[t])
        if low:
            bottom = min(bottom, v[t] if equality else -v[t])
    violation = max(top, -bottom, 0.0)
    keep = np.empty(v.size, np.bool_)
    for t in range(v.size):
        up, low = _movable(not equality or s[t] > 0, upper[t], alpha[t])
        if equality:
            keep[t] = (up and low) or (up and v[t] >= bottom) or (low and v[t] <= top)
        else:
            keep[t] = (up and low) or (up and v[t] < violation) or (low and v[t] > -violation)
    return np.flatnonzero(keep)


@njit
def _moved_at_once(
    kept, s, c, upper, alpha, v,
    mode, active, gram, xt, kind, rate, buffer, slot_of, owner, newer, older, lru,
):  # fmt: skip
    """Send the free alphas to their common optimum, where it takes no longer than the steps before."""
    n_free = 0
    for t in range(alpha.size):
        n_free += alpha[t] > 0.0 and alpha[t] < upper[t]
    pays = kept[VISITS] > kept[PATIENCE] * (_CUBE * float(n_free) ** 3 + 4.0 * n_free * alpha.size)
    if not (pays and 2 <= n_free <= _FREE):
        return
    before, levels = alpha.copy(), v.copy()
    solve_face(
        s, c, upper, alpha, v,
        mode, active, gram, xt, kind, rate, buffer, slot_of, owner, newer, older, lru,
    )  # fmt: skip
    climbed = -0.5 * s * (v + levels) * (alpha - before)  # their sum is what the objective rose by
    # Where c spans many decades the block's inverse can be lost to rounding. A move uphill is taken back,
    # and pairs go on alone for twice as long, or move and pairs undo each other for ever.
    if climbed.sum() > _UPHILL * np.abs(climbed).sum():
        alpha[:] = before
        v[:] = levels
        kept[PATIENCE] *= 2.0
    kept[VISITS] = 0.0


@njit(nogil=True, cache=True)
def climb(
    chunks, chunk, limit, asked, may_leave, kept, coupling, signs, c, diagonal, upper, alpha, v, state,
    mode, active, gram, xt, kind, rate, buffer, slot_of, owner, newer, older, lru,
):  # fmt: skip
    """Up to `chunks` times `chunk` steps, `limit` in all; returns (steps, gap, whether no step was left).

    It ends before where the gap is below `asked` or what rounding leaves of it, or where points may be left
    out. `coupling` is None where there is an equality; without one `signs` are class numbers.
    """
    done, gap, stuck = 0, INFINITY, False
    for _ in range(chunks):
        wanted = min(chunk, limit - done)
        if coupling is None:
            _moved_at_once(
                kept, signs, c, upper, alpha, v,
                mode, active, gram, xt, kind, rate, buffer, slot_of, owner, newer, older, lru,
            )  # fmt: skip
            steps, gap = pair_steps(
                wanted, kept[STOP], signs, c, diagonal, upper, alpha, v, state,
                mode, active, gram, xt, kind, rate, buffer, slot_of, owner, newer, older, lru,
            )  # fmt: skip
        else:
            steps, gap = single_steps(
                wanted, kept[STOP], signs, coupling, c, diagonal, upper, alpha, v, state,
                mode, active, gram, xt, kind, rate, buffer, slot_of, owner, newer, older, lru,
            )  # fmt: skip
        done += steps
        kept[VISITS] += steps * alpha.size
        stuck = steps < wanted
        stop = max(asked, LAST_DIGITS * np.abs(v).max())
        if stuck or done == limit or gap <= stop:
            break
        if may_leave and undecided(coupling is None, signs, upper, alpha, v).size < WORTH * alpha.size:
            break
        kept[STOP] = stop
    return done, gap, stuck
