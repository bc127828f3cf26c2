"""Compiled steps of the SMO: pair steps under an equality, single steps without one.

Arrays here are over the active set, compact and in float64, kernel rows aside. The
factor c and the signs enter as weights, so the rescaled kernel is never formed:

    f = K (s c a),  v = -s * gradient = -c f - s p,  Q_ij = s_i s_j c_i c_j K_ij.

Bounds are masks that are added (0, or an infinity that takes a point out), which keeps
each pass over the points one straight loop. An argmax is a maximum over blocks and then
a scan of the winning block, so the lowest index wins every tie. Blocks are slices,
indexed from 0: numba wraps an index that might be negative, and then loads become
gathers.

Between two checks of the active set `take_steps` goes on, and moves the free alphas to
their optimum now and then: for a fit on some hundred rows a return to Python between
chunks would take longer than the steps.
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
from screening.solvers.kernel_rows import DIRECT, fetch_row

# Indices of the state that is kept from one call of `take_steps` to the next: the
# violation to stop at, the cost factor of a Newton move, and points visited since one.
STOP = 0
PATIENCE = 1
VISITS = 2
# The active set is compacted only if it shrinks to this share.
SHRINK_BELOW = 0.85
# Rounding error of a level after many steps, as a share of it.
LEVEL_ROUNDING = 16 * float(np.finfo(float).eps)
# Points in a block: their arrays stay in the first-level cache.
_BLOCK = 256
_INFINITY = np.inf
# Least curvature of a pair, as a share of the sum of the curvatures of its points.
_MIN_PAIR_CURVATURE = 1e-12
# Least curvature of a point.
MIN_CURVATURE = 1e-300
# Cost of a Newton move, in visited points per cube of the number of free alphas.
_COST_PER_CUBE = 0.1
# Free alphas in a Newton move at most: their block takes 128 MB.
_MAX_FREE = 4000
# Share of its terms by which a Newton move may raise the objective: their rounding.
_MAX_RISE = 1e-9


@njit(inline="always")
def _set_pair_masks(i, s, alpha, upper, up, low):
    """Set the masks of a point: 0 if v may pull it up or down, an infinity if not."""
    if s[i] > 0:
        up[i] = 0.0 if alpha[i] < upper[i] else -_INFINITY
        low[i] = 0.0 if alpha[i] > 0.0 else _INFINITY
    else:
        up[i] = 0.0 if alpha[i] > 0.0 else -_INFINITY
        low[i] = 0.0 if alpha[i] < upper[i] else _INFINITY


@njit(inline="always")
def _update_levels(v, c, step_i, row_i, step_j, row_j, up, low):
    """Update levels after a pair step; return the largest and smallest movable one."""
    largest = -_INFINITY
    smallest = -_INFINITY
    for t in range(v.size):
        level = v[t] - c[t] * (step_i * row_i[t] - step_j * row_j[t])
        v[t] = level
        largest = maximum(largest, level + up[t])
        smallest = maximum(smallest, -(level + low[t]))
    return largest, -smallest


@njit(inline="always")
def _pair_gains(v, top, low, curve, curve_i, twice_c, c, row, unit, gain_of):
    """Store the gain of each point as partner of the point with level `top`.

    Returns the largest gain.
    """
    largest = np.float32(0.0)
    for t in range(v.size):
        b = np.float32(maximum((top - (v[t] + low[t])) * unit, 0.0))
        both = curve_i + curve[t]
        pair_curvature = both - twice_c * c[t] * np.float32(row[t])
        a = maximum(pair_curvature, np.float32(_MIN_PAIR_CURVATURE) * both)
        gain = b * b / a
        gain_of[t] = gain
        largest = maximum(largest, gain)
    return largest


@njit(inline="always")
def _single_gains(gradient, label, weights, c, row, rise, fall, curvature, gain_of):
    """Update gradients after a single step and store the gain of each point.

    Returns the largest projected gradient and the largest gain.
    """
    largest = 0.0
    best = 0.0
    for t in range(gradient.size):
        slope_at = gradient[t] + weights[label[t]] * c[t] * row[t]
        gradient[t] = slope_at
        slope = maximum(maximum(rise[t] - slope_at, fall[t] + slope_at), 0.0)
        gain = slope * slope / curvature[t]
        gain_of[t] = gain
        largest = maximum(largest, slope)
        best = maximum(best, gain)
    return largest, best


@njit(inline="always")
def _index_of_level(top, v, up):
    """Return the first index with this level; a full scan is faster than an exit."""
    first = v.size
    for t in range(v.size):
        first = min(first, t if v[t] + up[t] == top else v.size)
    return first


@njit(inline="always")
def _index_of_gain(best, gain_of):
    """Return the first index with this gain."""
    first = gain_of.size
    for t in range(gain_of.size):
        first = min(first, t if gain_of[t] == best else gain_of.size)
    return first


@njit(inline="always")
def _move_pair(i, j, step, room_i, room_j, s, alpha, upper):
    """Move two alphas; a clipped one lands on its bound exactly.

    Otherwise rounding would leave it free for ever.
    """
    if step == room_i:
        alpha[i] = upper[i] if s[i] > 0 else 0.0
    else:
        alpha[i] += s[i] * step
    if step == room_j:
        alpha[j] = 0.0 if s[j] > 0 else upper[j]
    else:
        alpha[j] -= s[j] * step


@njit(nogil=True, cache=True)
def pair_steps(limit, tol, s, c, diagonal, upper, alpha, v, rows):
    """Take up to `limit` pair steps, in place; return (steps, gap)."""
    use_widest_vectors()
    control_word = flush_subnormals()
    m = s.size
    up = np.empty(m)
    low = np.empty(m)
    gain_of = np.empty(m, np.float32)
    c32 = c.astype(np.float32)
    curve = (c * c * diagonal).astype(np.float32)
    for t in range(m):
        _set_pair_masks(t, s, alpha, upper, up, low)
    # The first pass changes nothing: both steps are 0.
    row_i = np.zeros(m, rows.buffer.dtype)
    row_j = row_i
    step_i = 0.0
    step_j = 0.0
    steps = 0
    gap = _INFINITY
    while True:
        top = -_INFINITY
        bottom = _INFINITY
        block = -1
        for first in range(0, m, _BLOCK):
            last = min(first + _BLOCK, m)
            largest, smallest = _update_levels(
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
                top = largest
                block = first
            bottom = min(bottom, smallest)
        gap = top - bottom
        if block < 0 or not gap > tol or steps == limit:
            break
        end = block + _BLOCK
        i = block + _index_of_level(top, v[block:end], up[block:end])
        # `fetch_row` returns a stored row too, at the cost of visiting 50 points.
        row_i = rows.gram[i] if rows.mode == DIRECT else fetch_row(i, rows)
        curve_i = curve[i]
        twice_c = np.float32(2.0) * c32[i]
        # Levels may differ by 1e-24, whose square float32 cannot represent; scaling by
        # a power of two changes no digit.
        unit = math.ldexp(1.0, -math.frexp(gap)[1])
        best = np.float32(0.0)
        block = -1
        for first in range(0, m, _BLOCK):
            last = min(first + _BLOCK, m)
            largest = _pair_gains(
                v[first:last],
                top,
                low[first:last],
                curve[first:last],
                curve_i,
                twice_c,
                c32[first:last],
                row_i[first:last],
                unit,
                gain_of[first:last],
            )
            if largest > best:
                best = largest
                block = first
        if block < 0:
            break
        j = block + _index_of_gain(best, gain_of[block : block + _BLOCK])
        row_j = rows.gram[j] if rows.mode == DIRECT else fetch_row(j, rows)
        both = c[i] * c[i] * diagonal[i] + c[j] * c[j] * diagonal[j]
        pair_curvature = both - 2.0 * c[i] * c[j] * row_i[j]
        step = (top - v[j]) / max(pair_curvature, _MIN_PAIR_CURVATURE * both)
        room_i = upper[i] - alpha[i] if s[i] > 0 else alpha[i]
        room_j = alpha[j] if s[j] > 0 else upper[j] - alpha[j]
        step = min(step, room_i, room_j)
        _move_pair(i, j, step, room_i, room_j, s, alpha, upper)
        _set_pair_masks(i, s, alpha, upper, up, low)
        _set_pair_masks(j, s, alpha, upper, up, low)
        step_i = c[i] * step
        step_j = c[j] * step
        steps += 1
    restore_control_word(control_word)
    return steps, gap


@njit(nogil=True, cache=True)
def single_steps(
    limit, tol, label, coupling, c, diagonal, upper, alpha, gradient, rows
):
    """Take up to `limit` coordinate steps without an equality, in place.

    Q_ij = coupling[label_i, label_j] c_i c_j K_ij. Each step takes the coordinate that
    decreases the objective most, its bound included. Returns (steps, gap), gap the
    largest projected gradient.
    """
    use_widest_vectors()
    control_word = flush_subnormals()
    m = c.size
    rise = np.empty(m)
    fall = np.empty(m)
    gain_of = np.empty(m)
    curvature = np.empty(m)
    for t in range(m):
        rise[t] = 0.0 if alpha[t] < upper[t] else -_INFINITY
        fall[t] = 0.0 if alpha[t] > 0.0 else -_INFINITY
        at_point = coupling[label[t], label[t]] * c[t] * c[t] * diagonal[t]
        curvature[t] = max(at_point, MIN_CURVATURE)
    row = np.zeros(m, rows.buffer.dtype)
    weights = np.zeros(coupling.shape[0])
    steps = 0
    gap = _INFINITY
    while True:
        gap = 0.0
        best = 0.0
        block = -1
        for first in range(0, m, _BLOCK):
            last = min(first + _BLOCK, m)
            largest, gain = _single_gains(
                gradient[first:last],
                label[first:last],
                weights,
                c[first:last],
                row[first:last],
                rise[first:last],
                fall[first:last],
                curvature[first:last],
                gain_of[first:last],
            )
            gap = max(gap, largest)
            if gain > best:
                best = gain
                block = first
        if block < 0 or not gap > tol or steps == limit:
            break
        i = block
        while gain_of[i] != best:
            i += 1
        row = fetch_row(i, rows)
        target = min(max(alpha[i] - gradient[i] / curvature[i], 0.0), upper[i])
        for k in range(weights.size):
            weights[k] = coupling[label[i], k] * c[i] * (target - alpha[i])
        alpha[i] = target
        rise[i] = 0.0 if target < upper[i] else -_INFINITY
        fall[i] = 0.0 if target > 0.0 else -_INFINITY
        steps += 1
    restore_control_word(control_word)
    return steps, gap


@njit
def _movable(plus, upper, alpha):
    """Return whether v may pull a point up, and whether it may pull it down."""
    rises = alpha < upper
    falls = alpha > 0.0
    return (rises, falls) if plus else (falls, rises)


@njit
def _stays_active(equality, up, low, level, top, bottom):
    """Return whether a point is free or violates the levels of the others."""
    if up and low:
        return True
    if equality:
        return (up and level >= bottom) or (low and level <= top)
    violation = max(top, -bottom, 0.0)
    return (up and level < violation) or (low and level > -violation)


@njit(nogil=True, cache=True)
def undecided(equality, s, upper, alpha, v):
    """Return positions of points that are free or not sure to stay at a bound."""
    top = -_INFINITY
    bottom = _INFINITY
    for t in range(v.size):
        up, low = _movable(not equality or s[t] > 0, upper[t], alpha[t])
        level = v[t] if equality else -v[t]
        if up:
            top = max(top, level)
        if low:
            bottom = min(bottom, level)
    keep = np.empty(v.size, np.bool_)
    for t in range(v.size):
        up, low = _movable(not equality or s[t] > 0, upper[t], alpha[t])
        keep[t] = _stays_active(equality, up, low, v[t], top, bottom)
    return np.flatnonzero(keep)


@njit
def _move_free_set(loop_state, s, c, upper, alpha, v, rows):
    """Move the free alphas to their optimum if that costs no more than steps since."""
    n_free = 0
    for t in range(alpha.size):
        n_free += alpha[t] > 0.0 and alpha[t] < upper[t]
    cost = _COST_PER_CUBE * float(n_free) ** 3 + 4.0 * n_free * alpha.size
    pays = loop_state[VISITS] > loop_state[PATIENCE] * cost
    if not (pays and 2 <= n_free <= _MAX_FREE):
        return
    old_alpha = alpha.copy()
    old_levels = v.copy()
    newton_on_free_set(s, c, upper, alpha, v, rows)
    # Their sum is the increase of the objective.
    increases = -0.5 * s * (v + old_levels) * (alpha - old_alpha)
    # If c spans many decades the block's inverse can be lost to rounding. A move uphill
    # is undone and pairs go on alone for twice as long; otherwise move and pairs would
    # undo each other for ever.
    if increases.sum() > _MAX_RISE * np.abs(increases).sum():
        alpha[:] = old_alpha
        v[:] = old_levels
        loop_state[PATIENCE] *= 2.0
    loop_state[VISITS] = 0.0


@njit(nogil=True, cache=True)
def take_steps(
    n_chunks,
    chunk,
    limit,
    least_stop,
    may_shrink,
    loop_state,
    coupling,
    first,
    c,
    diagonal,
    upper,
    alpha,
    v,
    rows,
):
    """Take up to `n_chunks` times `chunk` steps, `limit` in all, in place.

    It ends earlier if the gap is below `least_stop` or the rounding of levels, or if
    the active set can shrink. `coupling` is None under an equality, and `first` then
    contains signs; otherwise it contains class numbers. Returns (steps, gap, whether no
    further step was found).
    """
    done = 0
    gap = _INFINITY
    stuck = False
    for _ in range(n_chunks):
        n_steps = min(chunk, limit - done)
        tol = loop_state[STOP]
        if coupling is None:
            _move_free_set(loop_state, first, c, upper, alpha, v, rows)
            steps, gap = pair_steps(
                n_steps, tol, first, c, diagonal, upper, alpha, v, rows
            )
        else:
            steps, gap = single_steps(
                n_steps, tol, first, coupling, c, diagonal, upper, alpha, v, rows
            )
        done += steps
        loop_state[VISITS] += steps * alpha.size
        stuck = steps < n_steps
        stop = max(least_stop, LEVEL_ROUNDING * np.abs(v).max())
        if stuck or done == limit or gap <= stop:
            break
        if may_shrink:
            n_undecided = undecided(coupling is None, first, upper, alpha, v).size
            if n_undecided < SHRINK_BELOW * alpha.size:
                break
        loop_state[STOP] = stop
    return done, gap, stuck
