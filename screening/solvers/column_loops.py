"""Compiled: problems that differ in c alone, one after the other, each from start to end."""

from __future__ import annotations

import math

import numpy as np

from screening.kernels.kept import njit
from screening.solvers.active import LAST_DIGITS, STOP
from screening.solvers.climbing import climb
from screening.solvers.problem_loops import certificate, levels, sizes

_TINY = np.finfo(np.float64).tiny


@njit(nogil=True, cache=True)
def solve_columns(
    chunks, chunk, limit, tol, signs, linear, diagonal, upper, factors, start, found, told,
    mode, active, gram, xt, kind, rate, buffer, slot_of, owner, newer, older, lru,
):  # fmt: skip
    """Solutions of an equality problem with a margin at each of `factors`, a row of them one c.

    Every point is looked at all the way. The first goes from `start`, each other one from the last solution.
    `found` gets the alphas, and `told` the intercept, the gap and the steps.
    """
    state = np.zeros(2)
    before = start
    for k in range(len(factors)):
        largest, reach, margin = sizes(factors[k], diagonal, upper, linear)
        scale = max(min(reach, margin), _TINY)
        # In units where the largest K~_ii is 1 float32 curvatures cannot overflow, whatever the scale of c.
        unit = math.sqrt(largest)
        if unit == 0.0:
            unit = 1.0
        square = unit * unit
        c, bounds = factors[k] / unit, upper * square
        alpha = np.minimum(before, upper) * square
        v = levels(True, signs, c, linear, alpha, gram)
        asked = tol * scale
        kept = np.array([asked, 1.0, 0.0])
        done = 0
        while True:
            steps, gap, stuck = climb(
                chunks, chunk, limit - done, asked, False, kept, None,
                signs, c, diagonal, bounds, alpha, v, state,
                mode, active, gram, xt, kind, rate, buffer, slot_of, owner, newer, older, lru,
            )  # fmt: skip
            done += steps
            last = kept[STOP]
            # Levels are known to their last digits alone.
            kept[STOP] = max(min(last, asked), LAST_DIGITS * np.abs(v).max())
            if done >= limit or gap <= kept[STOP] or (stuck and not kept[STOP] < last):
                break
        intercept, gap = certificate(signs, bounds, alpha, v)
        told[k, 0], told[k, 1], told[k, 2] = intercept, gap / scale, done
        before = found[k]
        before[:] = np.minimum(alpha / square, upper)
