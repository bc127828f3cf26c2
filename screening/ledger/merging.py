"""Merged patient numbers: their entries, and the current number of each patient.

A merge says that an old number and a new one are one patient from a day on. Nothing in
the past is rewritten: states, verdicts, outcomes and figures take the two as one from
then on. A merge is undone by another entry, whose new number is blank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from screening.identity.hashes import Patients, keyed_hashes, short_hashes
from screening.identity.writing import reduced_form
from screening.ledger import trail
from screening.ledger.database import TRAIL, Ledger
from screening.ledger.entries import STAND_IN, Merged, facts_in


class Merge(NamedTuple):
    """A line of a table of merges.

    Parameters
    ----------
    row : int
        Its number in the table, or that of the entry.
    old : str
    new : str
        Empty where the merge of `old` is undone.
    since : str
        First day on which the two are one, YYYY-MM-DD.
    """

    row: int
    old: str
    new: str
    since: str


@dataclass(frozen=True)
class Merges:
    """Merges in force.

    Parameters
    ----------
    by_old : mapping of str to Merge
    """

    by_old: Mapping[str, Merge] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_old)

    def on(self, night: str) -> Merges:
        """Return the merges that apply on a night."""
        return Merges(
            {old: merge for old, merge in self.by_old.items() if merge.since <= night}
        )

    def patient(self, name: str) -> str:
        """Return the number by which a patient is known now."""
        merge = self.by_old.get(name)
        return name if merge is None else merge.new

    def entry(self, name: str) -> int:
        """Return the last entry that merged numbers of a patient; 0 without."""
        merges = self._by_patient.get(self.patient(name), ())
        return max((merge.row for merge in merges), default=0)

    def numbers(self, name: str) -> list[str]:
        """Return all numbers of a patient, the given one first."""
        patient = self.patient(name)
        others = [merge.old for merge in self._by_patient.get(patient, ())]
        return [*dict.fromkeys([name, patient, *others])]

    def hashes(self, key: str) -> dict[int, int]:
        """Return by the short hash of each old number that of the new one.

        `key`: of the hashes.
        """
        if not self.by_old:
            return {}
        new_numbers = [merge.new for merge in self.by_old.values()]
        names = np.array([*self.by_old, *new_numbers], dtype=object)
        old, new = np.split(short_hashes(keyed_hashes(names, key)), 2)
        return dict(zip(old.tolist(), new.tolist(), strict=True))

    def written_otherwise(self, key: str) -> Patients:
        """Return, under each number, patients whose numbers differ only in spelling.

        Both spellings are accepted because somebody merged them. `key`: of the hashes.
        """
        names: list[str] = []
        for old, merge in self.by_old.items():
            if reduced_form(old) == reduced_form(merge.new):
                names += [old, merge.new]
        numbers = np.array(names, dtype=object)
        forms = np.array([reduced_form(name) for name in names], dtype=object)
        return Patients.of(keyed_hashes(forms, key), keyed_hashes(numbers, key))

    @cached_property
    def _by_patient(self) -> Mapping[str, Sequence[Merge]]:
        """The merges into each patient."""
        by_patient: dict[str, list[Merge]] = {}
        for merge in self.by_old.values():
            by_patient.setdefault(merge.new, []).append(merge)
        return by_patient


NO_MERGES = Merges()


def merges_of(connection: sa.Connection) -> Merges:
    """Return the merges that the trail has in force."""
    by_old: dict[str, Merge] = {}
    for entry in trail.entries(connection, TRAIL.c.kind == Merged.KIND):
        _, parts = facts_in(entry)
        for part in parts:
            if part.what != "merges":
                continue
            pairs = zip(part.names[::2], part.names[1::2], strict=True)
            for (old, new), since in zip(pairs, part.facts, strict=True):
                if new:
                    by_old[old] = Merge(entry.number, old, new, since)
                else:
                    by_old.pop(old, None)
    return Merges(
        {
            old: merge
            for old, merge in by_old.items()
            if not any(name.startswith(STAND_IN) for name in (old, merge.new))
        }
    )


def numbers_to_erase(ledger: Ledger, name: str) -> list[str]:
    """Return all numbers of a patient, in the order in which they can be erased.

    The given one comes last and the one of now before it: killed at any place, the same
    command finds the others again.
    """
    with ledger.reading() as connection:
        merges = merges_of(connection)
    given, *others = merges.numbers(name)
    patient = merges.patient(name)
    return [*sorted(others, key=lambda number: number == patient), given]
