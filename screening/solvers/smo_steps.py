"""Compiled iterations of the SMO: the pair step under an equality, the single step without one.

Everything here is over the active set (compact arrays) and in float64, kernel rows aside. The factor c and
the signs enter as weights, so the rescaled kernel is never formed:

    f = K (s c a),  v = -s * gradient = -c f - s p,  Q_ij = s_i s_j c_i c_j K_ij.

Bounds are masks that are added (0, or an infinity that takes a point out), which keeps each pass over the
points one straight loop. An argmax is a maximum over blocks and then a scan of the winning block, so the
lowest index wins every tie. Blocks are slices, indexed from 0: where an index might be negative numba wraps
it, and loads become gathers.

Between two looks at the active set steps go on in `climb`, the free alphas sent to their optimum now and
then: between chunks of a fit on some hundred rows Python would take longer than their steps do.
"""

from __future__ import annotations

import math

import numpy as np

from screening.kernels.jit import njit
from screening.kernels.simd import (
    flush_subnormals,
    maximum,
    restore_control_word,
    use_widest_vectors,
)
from screening.solvers.free_set import newton_on_free_set
from screening.solvers.kernel_rows import DIRECT, fetch

STOP, PATIENCE, VISITS = 0, 1, 2
"""What is kept from one climb to the next: the violation to leave, and what decides on a move at once."""
WORTH = 0.85  # compact only where the active set shrinks to this share
LAST_DIGITS = 16 * float(
    np.finfo(float).eps
)  # of a level: what rounding leaves of it after many steps
BLOCK = 256
INFINITY = np.inf
# Least curvature between two points, of what they have each by themselves; least curvature at all.
CURVATURE = 1e-12
SMALLEST = 1e-300
# Of the number of free alphas: points that could be visited in the time of a solve for all of them.
_CUBE = 0.1
_FREE = 4000  # alphas solved for at once, at most: their block takes 128 MB
_UPHILL = 1e-9  # of what a move adds and takes: above the rounding of their sum


@njit(inline="always")
def _place_pair(i, s, alpha, upper, up, low):
    if s[i] > 0:
        up[i] = 0.0 if alpha[i] < upper[i] else -INFINITY
        low[i] = 0.0 if alpha[i] > 0.0 else INFINITY
    else:
        up[i] = 0.0 if alpha[i] > 0.0 else -INFINITY
        low[i] = 0.0 if alpha[i] < upper[i] else INFINITY


@njit(inline="always")
def _move(v, c, step_i, row_i, step_j, row_j, up, low):
    largest, smallest = -INFINITY, -INFINITY
    for t in range(v.size):
        now = v[t] - c[t] * (step_i * row_i[t] - step_j * row_j[t])
        v[t] = now
        largest = maximum(largest, now + up[t])
        smallest = maximum(smallest, -(now + low[t]))
    return largest, -smallest


@njit(inline="always")
def _gains(v, top, low, curve, own, twice, c, row, unit, score):
    largest = np.float32(0.0)
    for t in range(v.size):
        b = np.float32(maximum((top - (v[t] + low[t])) * unit, 0.0))
        both = own + curve[t]
        a = maximum(
            both - twice * c[t] * np.float32(row[t]), np.float32(CURVATURE) * both
        )
        gain = b * b / a
        score[t] = gain
        largest = maximum(largest, gain)
    return largest


@njit(inline="always")
def _slide(gradient, label, weights, c, row, rise, fall, bend, score):
    largest, best = 0.0, 0.0
    for t in range(gradient.size):
        now = gradient[t] + weights[label[t]] * c[t] * row[t]
        gradient[t] = now
        slope = maximum(maximum(rise[t] - now, fall[t] + now), 0.0)
        gain = slope * slope / bend[t]
        score[t] = gain
        largest = maximum(largest, slope)
        best = maximum(best, gain)
    return largest, best


@njit(inline="always")
def _place_of(top, v, up):
    """The first that is pulled up by so much; all are looked at, which is faster than to stop at it."""
    first = v.size
    for t in range(v.size):
        first = min(first, t if v[t] + up[t] == top else v.size)
    return first


@njit(inline="always")
def _place_of_score(best, score):
    first = score.size
    for t in range(score.size):
        first = min(first, t if score[t] == best else score.size)
    return first


@njit(nogil=True, cache=True)
def pair_steps(limit, tol, s, c, diagonal, upper, alpha, v, rows):
    """Up to `limit` pair steps; returns (steps, gap)."""
    use_widest_vectors()
    before = flush_subnormals()
    m = s.size
    up, low = np.empty(m), np.empty(m)
    score = np.empty(m, np.float32)
    c32 = c.astype(np.float32)
    curve = (c * c * diagonal).astype(np.float32)
    for t in range(m):
        _place_pair(t, s, alpha, upper, up, low)
    # The first pass only looks: with both weights zero the update changes nothing.
    row_i, step_i, step_j = np.zeros(m, rows.buffer.dtype), 0.0, 0.0
    row_j = row_i
    steps = 0
    gap = INFINITY
    while True:
        top, bottom, block = -INFINITY, INFINITY, -1
        for first in range(0, m, BLOCK):
            last = min(first + BLOCK, m)
            largest, smallest = _move(
                v[first:last],
                c[first:last],
                step_i,
                row_i[first:last],
                step_j,
                row_j[first:last],
                up[first:last],
                low[first:last],
            )
            if largest > top:
                top, block = largest, first
            bottom = min(bottom, smallest)
        gap = top - bottom
        if block < 0 or not gap > tol or steps == limit:
            break
        i = block + _place_of(top, v[block : block + BLOCK], up[block : block + BLOCK])
        # fetch would get a row that is held too, for the price of a visit to 50 points
        row_i = rows.gram[i] if rows.mode == DIRECT else fetch(i, rows)
        own = curve[i]
        twice = np.float32(2.0) * c32[i]
        # Levels may differ by 1e-24, of which float32 knows no square; a power of two changes no digit.
        unit = math.ldexp(1.0, -math.frexp(gap)[1])
        best, block = np.float32(0.0), -1
        for first in range(0, m, BLOCK):
            last = min(first + BLOCK, m)
            largest = _gains(
                v[first:last],
                top,
                low[first:last],
                curve[first:last],
                own,
                twice,
                c32[first:last],
                row_i[first:last],
                unit,
                score[first:last],
            )
            if largest > best:
                best, block = largest, first
        if block < 0:
            break
        j = block + _place_of_score(best, score[block : block + BLOCK])
        row_j = rows.gram[j] if rows.mode == DIRECT else fetch(j, rows)
        both = c[i] * c[i] * diagonal[i] + c[j] * c[j] * diagonal[j]
        step = (top - v[j]) / max(both - 2.0 * c[i] * c[j] * row_i[j], CURVATURE * both)
        room_i = upper[i] - alpha[i] if s[i] > 0 else alpha[i]
        room_j = alpha[j] if s[j] > 0 else upper[j] - alpha[j]
        step = min(step, room_i, room_j)
        # A clipped point lands on its bound exactly, otherwise rounding would leave it free for ever.
        if step == room_i:
            alpha[i] = upper[i] if s[i] > 0 else 0.0
        else:
            alpha[i] += s[i] * step
        if step == room_j:
            alpha[j] = 0.0 if s[j] > 0 else upper[j]
        else:
            alpha[j] -= s[j] * step
        _place_pair(i, s, alpha, upper, up, low)
        _place_pair(j, s, alpha, upper, up, low)
        step_i, step_j = c[i] * step, c[j] * step
        steps += 1
    restore_control_word(before)
    return steps, gap


@njit(nogil=True, cache=True)
def single_steps(
    limit, tol, label, coupling, c, diagonal, upper, alpha, gradient, rows
):
    """Up to `limit` coordinate steps without an equality, Q_ij = coupling[label_i, label_j] c_i c_j K_ij.

    The coordinate with the largest decrease of the objective, counting its bound, is taken each time.
    Returns (steps, gap), gap the largest projected gradient.
    """
    use_widest_vectors()
    before = flush_subnormals()
    m = c.size
    rise, fall = np.empty(m), np.empty(m)
    score = np.empty(m)
    bend = np.empty(m)
    for t in range(m):
        rise[t] = 0.0 if alpha[t] < upper[t] else -INFINITY
        fall[t] = 0.0 if alpha[t] > 0.0 else -INFINITY
        bend[t] = max(
            coupling[label[t], label[t]] * c[t] * c[t] * diagonal[t], SMALLEST
        )
    row = np.zeros(m, rows.buffer.dtype)
    weights = np.zeros(coupling.shape[0])
    steps = 0
    gap = INFINITY
    while True:
        gap, best, block = 0.0, 0.0, -1
        for first in range(0, m, BLOCK):
            last = min(first + BLOCK, m)
            largest, gain = _slide(
                gradient[first:last],
                label[first:last],
                weights,
                c[first:last],
                row[first:last],
                rise[first:last],
                fall[first:last],
                bend[first:last],
                score[first:last],
            )
            gap = max(gap, largest)
            if gain > best:
                best, block = gain, first
        if block < 0 or not gap > tol or steps == limit:
            break
        i = block
        while score[i] != best:
            i += 1
        row = fetch(i, rows)
        wanted = min(max(alpha[i] - gradient[i] / bend[i], 0.0), upper[i])
        for k in range(weights.size):
            weights[k] = coupling[label[i], k] * c[i] * (wanted - alpha[i])
        alpha[i] = wanted
        rise[i] = 0.0 if wanted < upper[i] else -INFINITY
        fall[i] = 0.0 if wanted > 0.0 else -INFINITY
        steps += 1
    restore_control_word(before)
    return steps, gap


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
            keep[t] = (
                (up and low) or (up and v[t] < violation) or (low and v[t] > -violation)
            )
    return np.flatnonzero(keep)


@njit
def _moved_at_once(kept, s, c, upper, alpha, v, rows):
    """Send the free alphas to their common optimum, where it takes no longer than the steps before."""
    n_free = 0
    for t in range(alpha.size):
        n_free += alpha[t] > 0.0 and alpha[t] < upper[t]
    pays = kept[VISITS] > kept[PATIENCE] * (
        _CUBE * float(n_free) ** 3 + 4.0 * n_free * alpha.size
    )
    if not (pays and 2 <= n_free <= _FREE):
        return
    before, levels = alpha.copy(), v.copy()
    newton_on_free_set(s, c, upper, alpha, v, rows)
    climbed = (
        -0.5 * s * (v + levels) * (alpha - before)
    )  # their sum is what the objective rose by
    # Where c spans many decades the block's inverse can be lost to rounding. A move uphill is taken back,
    # and pairs go on alone for twice as long, or move and pairs undo each other for ever.
    if climbed.sum() > _UPHILL * np.abs(climbed).sum():
        alpha[:] = before
        v[:] = levels
        kept[PATIENCE] *= 2.0
    kept[VISITS] = 0.0


@njit(nogil=True, cache=True)
def climb(
    chunks,
    chunk,
    limit,
    least_stop,
    may_leave,
    kept,
    coupling,
    signs,
    c,
    diagonal,
    upper,
    alpha,
    v,
    rows,
):
    """Up to `chunks` times `chunk` steps, `limit` in all; returns (steps, gap, whether no step was left).

    It ends before where the gap is below `asked` or what rounding leaves of it, or where points may be left
    out. `coupling` is None where there is an equality; without one `signs` are class numbers.
    """
    done, gap, stuck = 0, INFINITY, False
    for _ in range(chunks):
        wanted = min(chunk, limit - done)
        if coupling is None:
            _moved_at_once(kept, signs, c, upper, alpha, v, rows)
            steps, gap = pair_steps(
                wanted, kept[STOP], signs, c, diagonal, upper, alpha, v, rows
            )
        else:
            steps, gap = single_steps(
                wanted, kept[STOP], signs, coupling, c, diagonal, upper, alpha, v, rows
            )
        done += steps
        kept[VISITS] += steps * alpha.size
        stuck = steps < wanted
        stop = max(least_stop, LAST_DIGITS * np.abs(v).max())
        if stuck or done == limit or gap <= stop:
            break
        if (
            may_leave
            and undecided(coupling is None, signs, upper, alpha, v).size
            < WORTH * alpha.size
        ):
            break
        kept[STOP] = stop
    return done, gap, stuck
