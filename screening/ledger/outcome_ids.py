"""Patients of a table of outcomes: whether they are those of the nights, and how many.

If ids were spelled differently from those of the nights, no patient would seem to have
had an event. Such a table is refused by row, until somebody accepts it with a reason.
The number of its patients that were never scored is compared with earlier tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa
from scipy.stats import hypergeom

from screening.errors import CohortError
from screening.identity.reduced import find_exponents
from screening.identity.writing import BUT_FOR, colliding
from screening.ledger.outcome_entries import outcome_entries
from screening.ledger.patients import names_by_hashes
from screening.schemas.history import PatientsOfTable
from screening.schemas.reasons import ACCEPT_OUTCOMES
from screening.spelling import first_of

# Rows that a message names.
ROWS_SHOWN = 5
# Chance below which more patients of a table are unknown than in the tables before.
# A table is read every night, and those of two nights have most lines in common.
ALPHA = 1e-4


@dataclass(frozen=True)
class TableIds:
    """Ids of a table of outcomes.

    Parameters
    ----------
    column : str
    names : sequence of str
        By row.
    whole_only : bool
        Reduced forms say nothing of such ids, because many of training's collide.
    """

    column: str
    names: Sequence[str]
    whole_only: bool = False

    def refuse_exponents(self) -> None:
        """Raise CohortError for digits with an exponent among digits."""
        names = np.array(self.names, dtype=object)
        rows = find_exponents(names, 1 + np.arange(len(names))).rows()
        if rows:
            raise CohortError(
                f"{self._rows(rows)}: the ids have an exponent, as a spreadsheet "
                "writes long numbers (1.2E+05); export the column as text"
            )

    def rewritten(
        self, patients: Iterable[str], accepted: Set[str], series: str
    ) -> dict[int, str]:
        """Return the ids that differ from another one only in spelling.

        Parameters
        ----------
        patients : iterable of str
            Of the nights.
        accepted : set of str
            What this returned for tables that were accepted.
        series : str

        Returns
        -------
        dict
            By the number of the row the name by which the ledger knows the id.
        """
        if self.whole_only:
            return {}
        places = colliding(self.names, patients)
        names = names_by_hashes([self.names[place] for place in places], series)
        return {
            place + 1: name
            for place, name in zip(places, names, strict=True)
            if name not in accepted
        }

    def refuse_rewritten(self, rows: Sequence[int]) -> None:
        """Raise CohortError for rows whose ids match known ones except for spelling."""
        if rows:
            found = f"{len(rows)} ids are those of patients"
            if len(rows) == 1:
                found = "1 id is that of a patient"
            raise CohortError(
                f"{self._rows(rows)}: {found} in the nights, or elsewhere in this "
                f"table, {BUT_FOR}; write ids as text, exactly as in the nights' "
                f"tables. {ACCEPT_OUTCOMES}"
            )

    def refuse_strangers(self, n_patients: int) -> None:
        """Raise CohortError because no night scored any patient of the table."""
        raise CohortError(
            f"column '{self.column}': none of {n_patients} patients was scored on any "
            "night of this series; check that the column and the series are correct. "
            f"{ACCEPT_OUTCOMES}"
        )

    def _rows(self, rows: Sequence[int]) -> str:
        noun = "row" if len(rows) == 1 else "rows"
        return f"column '{self.column}', {noun} {first_of(rows, ROWS_SHOWN, len(rows))}"


class EarlierTables(NamedTuple):
    """Tables of outcomes that were entered before.

    Parameters
    ----------
    accepted : set of str
        Names by hashes of ids that differ from others only in spelling.
    counted : list of PatientsOfTable
    """

    accepted: set[str]
    counted: list[PatientsOfTable]

    def checked(
        self, ids: TableIds, patients: Set[str], series: str, accepted: str | None
    ) -> list[str]:
        """Return names of accepted ids that differ from others only in spelling.

        CohortError for such ids, for digits with an exponent, and if no patient of the
        table was scored.
        """
        ids.refuse_exponents()
        rewritten = ids.rewritten(patients, self.accepted, series)
        if accepted is None:
            ids.refuse_rewritten([*rewritten])
            names = set(ids.names)
            if names and patients.isdisjoint(names):
                ids.refuse_strangers(len(names))
        return [*dict.fromkeys(rewritten.values())]

    def compared(
        self, patients: int, unknown: int, accepted: str | None
    ) -> PatientsOfTable:
        """Compare the unknown patients of a table with those of earlier tables.

        The share is compared with the one in the largest of the tables before, because
        a growing table has most of its lines in common with them (hypergeometric test).
        Later tables are not compared with one that had too many, unless it was
        accepted.
        """
        is_accepted = accepted is not None
        table = PatientsOfTable(
            patients=patients, unknown=unknown, accepted=is_accepted
        )
        usual: list[PatientsOfTable] = []
        for before in self.counted:
            if before.accepted:
                usual = []
            if not before.grown:
                usual.append(before)
        if not usual or not patients:
            return table
        largest = max(usual, key=lambda before: before.patients)
        n_rows = patients + largest.patients
        n_unknown = unknown + largest.unknown
        chance = hypergeom.sf(unknown - 1, n_rows, n_unknown, patients)
        return table.replace(
            usual_patients=largest.patients,
            usual_unknown=largest.unknown,
            grown=bool(chance < ALPHA) and not is_accepted,
        )


def earlier_tables(connection: sa.Connection, series: str) -> EarlierTables:
    """Return facts of earlier tables of outcomes, to check the next one."""
    accepted: set[str] = set()
    counted = []
    for _, facts, parts in outcome_entries(connection, series):
        if facts.figures.table is not None:
            counted.append(facts.figures.table)
        for part in parts:
            if part.what == "patients":
                accepted.update(part.names)
    return EarlierTables(accepted, counted)
