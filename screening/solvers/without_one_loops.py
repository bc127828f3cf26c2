"""Compiled: a row's alpha is handed to other rows, and the pair steps go on from there."""

from __future__ import annotations

import numpy as np
from numba import njit

from screening.solvers.loops import pair_steps
from screening.solvers.problem import AT_BOUND


@njit
def _hand_over(j, s, c, upper, alpha, v, gram):
    """Bring alpha_j to 0, the equality kept: the partner that gains most takes it, then the next."""
    while alpha[j] > 0.0:
        best, worth = -1, -np.inf
        for k in range(s.size):
            # s_k a_k has to change by what s_j a_j loses.
            rises = s[k] == s[j]
            if k != j and (alpha[k] < upper[k] if rises else alpha[k] > 0.0) and s[j] * v[k] > worth:
                best, worth = k, s[j] * v[k]
        if best < 0:
            break
        rises = s[best] == s[j]
        room = upper[best] - alpha[best] if rises else alpha[best]
        if room >= alpha[j]:
            step = alpha[j]
            alpha[best] += step if rises else -step
            alpha[j] = 0.0
        else:
            step = room
            alpha[best] = upper[best] if rises else 0.0
            alpha[j] -= step
        own, other = gram[j], gram[best]
        for t in range(s.size):
            v[t] -= c[t] * s[j] * step * (c[best] * other[t] - c[j] * own[t])


@njit(nogil=True, cache=True)
def solve_without(
    left_out, limit, tol, s, c, diagonal, upper, alpha, v, state, found, told,
    mode, active, gram, xt, kind, rate, buffer, slot_of, owner, newer, older, lru,
):  # fmt: skip
    """For each row left out: the alphas into `found`, and into `told` its intercept, gap and steps."""
    for which in range(left_out.size):
        j = left_out[which]
        bounds, now, levels = upper.copy(), alpha.copy(), v.copy()
        _hand_over(j, s, c, bounds, now, levels, gram)
        bounds[j] = 0.0
        steps, gap = pair_steps(
            limit, tol, s, c, diagonal, bounds, now, levels, state,
            mode, active, gram, xt, kind, rate, buffer, slot_of, owner, newer, older, lru,
        )  # fmt: skip
        total, count = 0.0, 0
        for t in range(s.size):
            if AT_BOUND * bounds[t] < now[t] < bounds[t] - AT_BOUND * bounds[t]:
                total += levels[t]
                count += 1
        if count > 0:
            told[which, 0] = total / count
        elif np.isfinite(state[0]) and np.isfinite(state[1]):
            told[which, 0] = (state[0] + state[1]) / 2.0
        else:
            told[which, 0] = state[0] if np.isfinite(state[0]) else state[1]
        told[which, 1], told[which, 2] = max(gap, 0.0), steps
        found[which] = now
