"""Patients who were merged into others: who a subject is at an hour."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

Edges = Mapping[str, Sequence[tuple[datetime.datetime, str]]]


class Merge(NamedTuple):
    """A subject that counts as another one from an instant until another.

    `until` is None where that has not ended.
    """

    alias: str
    survivor: str
    since: datetime.datetime
    until: datetime.datetime | None


def resolved_merges(
    lines: Iterable[tuple[str, str, datetime.datetime]],
) -> tuple[list[Merge], list[str]]:
    """Return who each merged subject is over time, and the subjects in a circle.

    Parameters
    ----------
    lines : iterable of (subject, survivor, since)
        A line a merge; a subject that is its own survivor is merged no longer.

    Returns
    -------
    merges : list of Merge
        Chains are followed to their end.
    circles : list of str
        Subjects whose chain has no end; they stay who they are.
    """
    by_subject: dict[str, list[tuple[datetime.datetime, str]]] = defaultdict(list)
    for subject, survivor, since in lines:
        by_subject[subject].append((since, survivor))
    edges = {subject: sorted(by_subject[subject]) for subject in sorted(by_subject)}
    merges: list[Merge] = []
    circles: list[str] = []
    for subject in edges:
        times = sorted(set(_times_of_chain(subject, edges)))
        for since, until in zip(times, [*times[1:], None], strict=True):
            found = _survivor_at(subject, since, edges)
            if found is None:
                circles.append(subject)
            elif found != subject:
                merges.append(Merge(subject, found, since, until))
    return merges, sorted(set(circles))


def _times_of_chain(subject: str, edges: Edges) -> Iterator[datetime.datetime]:
    """Yield the times at which the survivor of a subject may change."""
    reached = {subject}
    waiting = [subject]
    while waiting:
        for since, survivor in edges.get(waiting.pop(), ()):
            yield since
            if survivor not in reached:
                reached.add(survivor)
                waiting.append(survivor)


def _survivor_at(subject: str, instant: datetime.datetime, edges: Edges) -> str | None:
    """Return who a subject is at an instant; None in a circle."""
    passed = {subject}
    while True:
        known = [edge for edge in edges.get(subject, ()) if edge[0] <= instant]
        if not known or known[-1][1] == subject:
            return subject
        subject = known[-1][1]
        if subject in passed:
            return None
        passed.add(subject)
