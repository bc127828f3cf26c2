"""Nobody stands out: groups of at least five patients, bands in place of values, small counts suppressed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from screening.documents.base import Range

Name = TypeVar("Name", bound=Hashable)

LEAST = 5
"""Patients that must share what a copy shows of any of them; and the smallest count that it shows."""


def crowds(facts: Sequence[frozenset[Hashable]], owners: Sequence[Hashable]) -> list[list[int]]:
    """Group rows so that each group is of five patients or more, and shares as many facts as it can.

    From the top, a row takes to it the row that shares most with all of the group so far, the nearest one
    among equals, until five patients stand together; what is left over at the end joins the group with which
    it shares most (k-member clustering, Byun et al. 2007).

    `facts` say what could be shown of each row, the most suspicious first, `owners` whose row it is: rows of
    one patient hide nobody. Each row number is in one group; there is none where there are fewer than five
    patients.
    """
    left, groups, common = list(range(len(facts))), [], []
    while len({owners[i] for i in left}) >= LEAST:
        group = [left.pop(0)]
        shared = facts[group[0]]
        while len(known := {owners[i] for i in group}) < LEAST:
            others = [i for i in left if owners[i] not in known]
            best = max(others, key=lambda i: len(shared & facts[i]))
            left.remove(best)
            group.append(best)
            shared &= facts[best]
        groups.append(group)
        common.append(shared)
    for i in left if groups else ():
        best = max(range(len(groups)), key=lambda g: len(common[g] & facts[i]))
        groups[best].append(i)
        common[best] &= facts[i]
    return groups


def smallest(shown: Sequence[Hashable], owners: Sequence[Hashable]) -> int | None:
    """Count the patients behind the rarest thing shown, in a copy as it is; None where nothing is shown."""
    sharing: dict[Hashable, set[Hashable]] = {}
    for what, owner in zip(shown, owners, strict=True):
        sharing.setdefault(what, set()).add(owner)
    return min(map(len, sharing.values())) if sharing else None


def suppress_small(counts: Mapping[Name, int]) -> dict[Name, int]:
    """Leave out counts below five, and one more where the sum would give a single one away."""
    ordered = sorted(((n, name) for name, n in counts.items() if n), key=lambda pair: pair[0])
    hidden = [(n, name) for n, name in ordered if n < LEAST]
    if hidden and sum(n for n, _ in hidden) < LEAST:
        hidden = ordered[: len(hidden) + 1]
    names = {name for _, name in hidden}
    return {name: n for name, n in counts.items() if name not in names}


def share(value: float, of: int) -> float:
    """A share in whole per cents; none where fewer than five rows stand behind it."""
    return 0.0 if value * of < LEAST - 0.5 else round(value, 2)


def even_step(spread: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not below a fifth of a spread (> 0)."""
    power = 10.0 ** math.floor(math.log10(spread / 5))
    return next(power * m for m in (1.0, 2.0, 5.0, 10.0) if power * m >= spread / 5 * (1 - 1e-9))


def at_least(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten, 1 at most: a p-value that is nobody's own."""
    return min(even_step(5 * value), 1.0) if value > 0 else 0.0


def step_of(learned: Range | None, values: Sequence[float] = ()) -> float:
    """The step of a feature's bands: a fifth of its range, or of the values' span if that is more."""
    low, high = learned or (None, None)
    spans = [high - low] if low is not None and high is not None else []
    spans.append(max(values, default=0.0) - min(values, default=0.0))
    return even_step(max(spans) or max(map(abs, values), default=0.0) or 1.0)


def band(values: Sequence[float], step: float) -> tuple[float, float]:
    """Return the ends of the band in which all values lie: multiples of the step, and nobody's own."""
    low = math.floor(min(values) / step)
    return low * step, (math.floor(max(values) / step) + 1) * step


def widened(seen: Range | None, step: float) -> Range | None:
    """A range learned from patients with its ends moved outwards to multiples of a step."""
    if seen is None:
        return None
    low, high = seen
    return (
        None if low is None else math.floor(low / step) * step,
        None if high is None else math.ceil(high / step) * step,
    )
