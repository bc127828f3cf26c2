"""Compiled loops over rows: distances, kernels and weighted sums of kernels.

One lane is one row and every row goes through the same operations in the same order, so the result for a row
does not depend on the batch, the block or the thread it is computed in.
Distances are sums of differences, never |x|^2 + |z|^2 - 2 x'z: no cancellation, hence no centring, and one
loop serves both kernels.
"""

from __future__ import annotations

import numpy as np
from numba import carray, types
from numba.extending import overload

from screening.kernels.compiled import BLOCK, CENTRES, PANEL, SQUARED
from screening.kernels.kept import njit
from screening.kernels.telling import tell_of_compiling
from screening.kernels.tile import absolute_tile, squared_tile
from screening.kernels.vector import flush_tiny, fused, maximum, restore, scaled, widest

tell_of_compiling()

_MAGIC = np.float32(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer held in the low bits
_FLOOR = np.float32(-125.0)
_C1 = np.float32(0.6931469775988578)  # 2^f - 1 on [-1/2, 1/2], relative error 9.2e-8
_C2 = np.float32(0.24022242085173234)
_C3 = np.float32(0.05550733743691264)
_C4 = np.float32(0.009671512648906882)
_C5 = np.float32(0.001326472706523345)
_ONE = np.float32(1.0)


_MAGIC_64 = 6755399441055744.0  # 1.5 * 2^52
_FLOOR_64 = -1021.0
# 2^f - 1 on [-1/2, 1/2] through Chebyshev's nodes, relative error 6e-16: three products less than Taylor's.
_E1, _E2, _E3 = 0.6931471805599462, 0.24022650695910075, 0.05550410866465167
_E4, _E5, _E6 = 0.009618129107618665, 0.0013333558200794592, 0.00015403530424776529
_E7, _E8 = 1.5252672924850737e-05, 1.3215451633221434e-06
_E9, _E10 = 1.0205905413765595e-07, 7.070977866508138e-09


def exp2_of_product(a, b):
    """2 ** (a * b) for a * b <= 0, 1 exactly at 0; relative error below 3e-7 in float32, 1e-13 in float64.

    (The error of float32 is that of rounding a * b.)
    """
    raise NotImplementedError("for compiled code only")


@overload(exp2_of_product, inline="always")
def _exp2_of_product(a, b):
    if a == types.float32:

        def single(a, b):
            y = maximum(a * b, _FLOOR)
            rounded = y + _MAGIC
            f = y - (rounded - _MAGIC)
            p = fused(fused(fused(fused(_C5, f, _C4), f, _C3), f, _C2), f, _C1)
            return scaled(fused(p, f, _ONE), rounded)

        return single

    def double(a, b):
        y = maximum(a * b, _FLOOR_64)
        rounded = y + _MAGIC_64
        f = y - (rounded - _MAGIC_64)
        p = fused(fused(fused(fused(fused(_E10, f, _E9), f, _E8), f, _E7), f, _E6), f, _E5)
        p = fused(fused(fused(fused(p, f, _E4), f, _E3), f, _E2), f, _E1)
        return scaled(fused(p, f, 1.0), rounded)

    return double


@njit(inline="always")
def distances_to(xt, first, width, centre, n_padded, kind, acc):
    """Distances of columns first .. first + width - 1 of xt (features, rows) to one centre, into acc.

    Loops run from 0 over slices: where an index might be negative numba wraps it, and loads become gathers.
    """
    for k in range(0, n_padded, 4):
        z0, z1, z2, z3 = centre[k], centre[k + 1], centre[k + 2], centre[k + 3]
        x0, x1 = xt[k, first : first + width], xt[k + 1, first : first + width]
        x2, x3 = xt[k + 2, first : first + width], xt[k + 3, first : first + width]
        if kind == SQUARED:
            if k == 0:
                for t in range(width):
                    d0, d1, d2, d3 = x0[t] - z0, x1[t] - z1, x2[t] - z2, x3[t] - z3
                    acc[t] = fused(d0, d0, fused(d1, d1, fused(d2, d2, d3 * d3)))
            else:
                for t in range(width):
                    d0, d1, d2, d3 = x0[t] - z0, x1[t] - z1, x2[t] - z2, x3[t] - z3
                    acc[t] = fused(d0, d0, fused(d1, d1, fused(d2, d2, fused(d3, d3, acc[t]))))
        elif k == 0:
            for t in range(width):
                acc[t] = (abs(x0[t] - z0) + abs(x1[t] - z1)) + (abs(x2[t] - z2) + abs(x3[t] - z3))
        else:
            for t in range(width):
                acc[t] += (abs(x0[t] - z0) + abs(x1[t] - z1)) + (abs(x2[t] - z2) + abs(x3[t] - z3))


@njit(inline="always")
def kernel_row(xt, centre, kind, rate, row):
    """K between one centre and every column of xt (features, rows); the distances themselves at rate 0."""
    widest()
    for first in range(0, row.size, BLOCK):
        width = min(BLOCK, row.size - first)
        acc = row[first : first + width]
        distances_to(xt, first, width, centre, centre.size, kind, acc)
        if rate != 0:
            for t in range(width):
                acc[t] = exp2_of_product(acc[t], rate)


@njit(inline="always")
def laid_out(x, first, width, panels):
    """Rows first .. first + width - 1 of x as `distances_of_four` reads them."""
    for t in range(width):
        panel, lane = panels[t // PANEL], t % PANEL
        for k in range(x.shape[1]):
            panel[k, lane] = x[first + t, k]


@njit(inline="always")
def distances_of_four(panels, centres, i, kind, acc):
    """Distances of rows to centres i .. i + 3, into acc (4, block), the bits that `distances_to` gives."""
    if kind == SQUARED:
        squared_tile(panels, centres, i, acc)
    else:
        absolute_tile(panels, centres, i, acc)


@njit(nogil=True, cache=True)
def kernel_rows(x, centres, start, stop, kind, rate, out):
    """Rows start .. stop - 1 of the matrix of kernels (distances, at rate 0) of centres to the rows of x.

    `start` is a multiple of four, and so is the number of centres; `out` has a row for each that is wanted.
    """
    widest()
    panels = np.zeros((BLOCK // PANEL, centres.shape[1], PANEL), x.dtype)
    acc = np.empty((CENTRES, BLOCK), x.dtype)
    for first in range(0, len(x), BLOCK):
        width = min(BLOCK, len(x) - first)
        laid_out(x, first, width, panels)
        for i in range(start, stop, CENTRES):
            distances_of_four(panels, centres, i, kind, acc)
            for j in range(min(CENTRES, stop - i)):
                near, row = acc[j], out[i + j, first : first + width]
                if rate != 0:
                    for t in range(width):
                        row[t] = exp2_of_product(near[t], rate)
                else:
                    for t in range(width):
                        row[t] = near[t]


@njit(nogil=True, cache=True)
def kernels_of(distances, start, stop, rate, out):
    """Rows start .. stop - 1 of the kernels of distances, the bits that `kernel_rows` gives."""
    widest()
    for i in range(start, stop):
        near, row = distances[i], out[i]
        for t in range(row.size):
            row[t] = exp2_of_product(near[t], rate)


def sweep_block(x, centres, rates, ends, weights, work, total, out, numbers):
    """out[r, o] = sum_i weights[i, o] 2^(rates[q(o), i] d(x_r, centre_i)) for rows start <= r < stop.

    Output o belongs to term q(o): term q owns the outputs ends[q - 1] <= o < ends[q].
    Sums run in the type of x over 32 centres at a time and in float64 across them.
    Pointers, as `machine_code` calls it; `numbers` are the sizes unpacked below, the number of centres a
    multiple of four, and `work` and `total` are room for (n_padded + 5 + n_outputs, block) and
    (n_outputs, block) numbers, all zero.
    """
    widest()
    before = flush_tiny()
    sizes = carray(numbers, 10)
    n_rows, n_features, start, stop, kind = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    n_centres, n_padded, n_terms, n_outputs, block = sizes[5], sizes[6], sizes[7], sizes[8], sizes[9]
    x, out = carray(x, (n_rows, n_features)), carray(out, (n_rows, n_outputs))
    centres, weights = carray(centres, (n_centres, n_padded)), carray(weights, (n_centres, n_outputs))
    rates, ends = carray(rates, (n_terms, n_centres)), carray(ends, n_terms)
    panels = carray(work, (block // PANEL, n_padded, PANEL))
    room, total = carray(work, (n_padded + 5 + n_outputs, block)), carray(total, (n_outputs, block))
    four, value, part = room[n_padded : n_padded + 4], room[n_padded + 4], room[n_padded + 5 :]
    for first in range(start, stop, block):
        width = min(block, stop - first)
        laid_out(x, first, width, panels)
        for i in range(n_centres):
            if i % CENTRES == 0:
                distances_of_four(panels, centres, i, kind, four)
            acc = four[i % CENTRES]
            o = 0
            for q in range(n_terms):
                rate = rates[q, i]
                if ends[q] == o + 1:
                    w, row = weights[i, o], part[o]
                    if w != 0.0:
                        for t in range(block):
                            row[t] = fused(w, exp2_of_product(acc[t], rate), row[t])
                    o += 1
                    continue
                for t in range(block):
                    value[t] = exp2_of_product(acc[t], rate)
                while o < ends[q]:
                    w = weights[i, o]
                    if w != 0.0:
                        row = part[o]
                        for t in range(block):
                            row[t] = fused(w, value[t], row[t])
                    o += 1
            if i % 32 == 31 or i == n_centres - 1:
                for o in range(n_outputs):
                    whole, row = total[o], part[o]
                    for t in range(block):
                        whole[t] += row[t]
                        row[t] = 0.0
        for o in range(n_outputs):
            for t in range(width):
                out[first + t, o] = total[o, t]
            total[o, :] = 0.0
    restore(before)


@njit(nogil=True, cache=True)
def weighted_rows(gram, which, weights, out):
    """out += sum_k weights[k] gram[which[k]], in float64 (a symmetric Gram is read by rows)."""
    widest()
    before = flush_tiny()
    n = out.size
    for first in range(0, n, 1024):
        last = min(first + 1024, n)
        part = out[first:last]
        for k in range(which.size):
            row = gram[which[k], first:last]
            w = weights[k]
            for t in range(part.size):
                part[t] += w * row[t]
    restore(before)
