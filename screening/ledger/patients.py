"""Patients of nights, by keyed hashes, as parts of the entries of nights."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from screening.identity.hashes import Patients
from screening.ledger import trail
from screening.ledger.database import PARTS
from screening.ledger.entries import STAND_IN, patient_name
from screening.ledger.trail import Part


def patients_part(patients: Patients) -> Part:
    """Return the part of a night that names some of its patients by hashes."""
    pairs = zip(patients.reduced.tolist(), patients.whole.tolist(), strict=True)
    return Part("patients", names=[patient_name(*pair) for pair in pairs])


def patients_at(connection: sa.Connection, nights: Sequence[int]) -> Patients:
    """Return the patients of nights, by their entries, who were not erased."""
    chosen = sa.select(PARTS).where(PARTS.c.what == "patients")
    names: set[str] = set()
    for row in trail.rows_in(connection, chosen, PARTS.c.entry, nights):
        names.update(trail.part_in(row).names)
    known = [name for name in names if not name.startswith(STAND_IN)]
    return Patients.of(
        [int(name[:16], 16) for name in known], [int(name[16:], 16) for name in known]
    )
