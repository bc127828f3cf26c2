"""Patients as parts of entries name them: by keyed hashes in place of their ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sqlalchemy as sa

from screening.identity.hashes import Patients, keyed_hashes, series_key
from screening.identity.writing import reduced_form
from screening.ledger import trail
from screening.ledger.database import PARTS
from screening.ledger.entries import STAND_IN
from screening.ledger.trail import Part


def patients_part(patients: Patients) -> Part:
    """Return the part of a night that names some of its patients."""
    return Part("patients", names=_names(patients.reduced, patients.whole))


def names_by_hashes(ids: Sequence[str], series: str) -> list[str]:
    """Return the names that parts of a series have for patients with these ids."""
    key = series_key(series)
    whole = keyed_hashes(np.array(ids, dtype=object), key)
    forms = np.array([reduced_form(name) for name in ids], dtype=object)
    return _names(keyed_hashes(forms, key), whole)


def _names(reduced: np.ndarray, whole: np.ndarray) -> list[str]:
    """Return a name for each pair of hashes."""
    pairs = zip(reduced.tolist(), whole.tolist(), strict=True)
    return [f"{of_form:016x}{of_id:016x}" for of_form, of_id in pairs]


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
