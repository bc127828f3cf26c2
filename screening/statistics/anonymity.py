"""Groups of rows that nobody can tell apart: what a copy for teaching may show of each row."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

LEAST = 5
"""Patients that must share what a copy shows of any of them; and the smallest count that it tells."""


def crowds(facts: Sequence[frozenset[Hashable]], owners: Sequence[Hashable]) -> list[list[int]]:
    """Group rows so that each group is of five patients or more, and shares as many facts as it can.

    From the top, a row takes to it the row that shares most with all of the group so far, the nearest one
    among equals, until five patients stand together; what is left over at the end joins the group with which
    it shares most (k-member clustering, Byun et al. 2007).

    Parameters
    ----------
    facts : sequence of frozenset, length n
        What could be told of each row, most suspicious row first.
    owners : sequence, length n
        Whose row it is: rows of one patient hide nobody.

    Returns
    -------
    list of list of int
        Row numbers, each in one group; no group where there are fewer than five patients.
    """
    left, groups = list(range(len(facts))), []
    while len({owners[i] for i in left}) >= LEAST:
        group = [left.pop(0)]
        shared = facts[group[0]]
        while len({owners[i] for i in group}) < LEAST:
            known = {owners[i] for i in group}
            best = max((i for i in left if owners[i] not in known), key=lambda i: len(shared & facts[i]))
            left.remove(best)
            group.append(best)
            shared &= facts[best]
        groups.append(group)
    if not groups:
        return []
    for i in left:
        max(groups, key=lambda group: len(facts[i].intersection(*(facts[j] for j in group)))).append(i)
    return groups


def smallest(shown: Sequence[Hashable], owners: Sequence[Hashable]) -> int | None:
    """Count the patients behind the rarest thing shown, in a copy as it is; None where nothing is shown."""
    sharing: dict[Hashable, set[Hashable]] = {}
    for what, owner in zip(shown, owners, strict=True):
        sharing.setdefault(what, set()).add(owner)
    return min(map(len, sharing.values())) if sharing else None


def told(counts: Mapping[str, int]) -> dict[str, int]:
    """Leave out counts below five, and one more where the sum would give a single one away."""
    ordered = sorted((n, name) for name, n in counts.items() if n)
    hidden = [(n, name) for n, name in ordered if n < LEAST]
    if hidden and sum(n for n, _ in hidden) < LEAST:
        hidden = ordered[: len(hidden) + 1]
    names = {name for _, name in hidden}
    return {name: n for name, n in counts.items() if name not in names}


def band(values: Sequence[float], step: float) -> tuple[float, float]:
    """Return the ends of the band in which all values lie: multiples of a step, so they are nobody's own.

    Parameters
    ----------
    values : sequence of float, finite
    step : float, > 0
        Made even (`even_step`): the ends then have few digits.
    """
    low = math.floor(min(values) / step)
    high = max(math.floor(max(values) / step) + 1, low + 1)
    return low * step, high * step


def even_step(spread: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not below a fifth of a spread (> 0)."""
    power = 10.0 ** math.floor(math.log10(spread / 5))
    return next(power * m for m in (1.0, 2.0, 5.0, 10.0) if power * m >= spread / 5 * (1 - 1e-9))
