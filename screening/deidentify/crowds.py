"""Groups of rows that nobody can tell apart: what a copy for teaching may show of each row."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

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
