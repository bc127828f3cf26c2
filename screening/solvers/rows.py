"""Compiled access to kernel rows over the active set: a Gram matrix as it is, or a bounded LRU cache of rows.

A cache is one flat buffer (the Gram's type, or float32 where rows are computed) that holds `capacity` rows as
long as the active set. When the active set shrinks the rows are compacted in place, so the buffer never
grows and later holds more rows.
"""

from __future__ import annotations

import numpy as np

from screening.kernels.kept import njit
from screening.kernels.loops import kernel_row

DIRECT, GATHERED, COMPUTED = 0, 1, 2
HEAD, TAIL, USED, CAPACITY, FETCHED = 0, 1, 2, 3, 4


@njit
def _fill(row, i, mode, active, gram, xt, kind, rate):
    m = row.size
    if mode == GATHERED:
        source = gram[active[i]]
        for t in range(m):
            row[t] = source[active[t]]
        return
    if xt is not None:
        centre = np.empty(xt.shape[0], np.float32)
        for k in range(centre.size):
            centre[k] = xt[k, i]
        kernel_row(xt, centre, kind, rate, row)


@njit
def fetch(i, mode, active, gram, xt, kind, rate, buffer, slot_of, owner, newer, older, lru):
    """Row of the active point i, a view of the Gram or of the cache; the last two fetched stay valid."""
    m = active.size
    if mode == DIRECT:
        return gram[i]
    slot = slot_of[i]
    if slot >= 0:
        if lru[HEAD] != slot:
            above, below = newer[slot], older[slot]
            older[above] = below
            if below >= 0:
                newer[below] = above
            else:
                lru[TAIL] = above
            newer[lru[HEAD]] = slot
            older[slot] = lru[HEAD]
            newer[slot] = -1
            lru[HEAD] = slot
        return buffer[slot * m : slot * m + m]
    if lru[USED] < lru[CAPACITY]:
        slot = lru[USED]
        lru[USED] += 1
    else:
        slot = lru[TAIL]
        lru[TAIL] = newer[slot]
        older[lru[TAIL]] = -1
        slot_of[owner[slot]] = -1
    owner[slot] = i
    slot_of[i] = slot
    older[slot] = lru[HEAD]
    newer[slot] = -1
    if lru[HEAD] >= 0:
        newer[lru[HEAD]] = slot
    else:
        lru[TAIL] = slot
    lru[HEAD] = slot
    lru[FETCHED] += 1
    row = buffer[slot * m : slot * m + m]
    _fill(row, i, mode, active, gram, xt, kind, rate)
    return row


@njit(nogil=True, cache=True)
def compact(keep, m, buffer, slot_of, owner, newer, older, lru, new_slot_of):
    """Keep only the columns (and the rows) of the active positions `keep`, in place and in order of use."""
    place = np.full(slot_of.size, -1, np.int64)
    for k in range(keep.size):
        place[keep[k]] = k
    width = keep.size
    # Rows move towards the front of the buffer, slot by slot, so nothing is overwritten before it is read.
    renamed = np.full(lru[USED], -1, np.int64)
    used = 0
    for slot in range(lru[USED]):
        point = place[owner[slot]]
        if point >= 0:
            source, target = slot * m, used * width
            row, moved = buffer[source : source + m], buffer[target : target + width]
            for t in range(width):
                moved[t] = row[keep[t]]
            renamed[slot] = used
            new_slot_of[point] = used
            used += 1
    order = np.empty(used, np.int64)
    count = 0
    slot = lru[HEAD]
    while slot >= 0:
        if renamed[slot] >= 0:
            order[count] = renamed[slot]
            count += 1
        slot = older[slot]
    for k in range(keep.size):
        if new_slot_of[k] >= 0:
            owner[new_slot_of[k]] = k
    lru[HEAD], lru[TAIL] = -1, -1
    for k in range(used):
        newer[order[k]] = order[k - 1] if k > 0 else -1
        older[order[k]] = order[k + 1] if k + 1 < used else -1
    if used > 0:
        lru[HEAD], lru[TAIL] = order[0], order[used - 1]
    lru[USED] = used
