"""Find ids that differ from known ones, or from each other, only in spelling."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from screening.identity.hashes import HASH_KEY, N_REMEMBERED, Patients, hash_ids
from screening.identity.reduced import ExponentRows, find_exponents, reduced_forms
from screening.schemas.model import MAX_COLLIDING

_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Names:
    """Distinct ids of consecutive rows.

    Parameters
    ----------
    reduced, whole : ndarray of uint64, shape (n,)
    row : ndarray of int64, shape (n,)
        Number of the first row that has the id.
    """

    reduced: np.ndarray
    whole: np.ndarray
    row: np.ndarray


@dataclass(frozen=True)
class IdCounts:
    """What is kept of the ids of some rows; those of consecutive rows add up.

    Parameters
    ----------
    exponents : mapping of str to ExponentRows
        By column.
    names : tuple of Names
        Of the column whose ids may repeat; empty where each row has its own.
    sample : Patients
        Of the patients those with the lowest hashes.
    rewritten : tuple of ndarray of int64
        Numbers of rows with a new spelling of a patient of earlier nights.
    reduced : tuple of ndarray of uint64
        Hashes of the reduced ids of all rows, 0 where an id is missing; empty without a
        column of ids that do not repeat.
    """

    exponents: Mapping[str, ExponentRows] = field(default_factory=dict)
    names: tuple[Names, ...] = ()
    sample: Patients = field(default_factory=Patients)
    rewritten: tuple[np.ndarray, ...] = ()
    reduced: tuple[np.ndarray, ...] = ()

    def __add__(self, other: IdCounts) -> IdCounts:
        columns = dict.fromkeys([*self.exponents, *other.exponents])
        nothing = ExponentRows()
        return IdCounts(
            exponents={
                name: self.exponents.get(name, nothing)
                + other.exponents.get(name, nothing)
                for name in columns
            },
            names=self.names + other.names,
            sample=(self.sample + other.sample).lowest(),
            rewritten=self.rewritten + other.rewritten,
            reduced=self.reduced + other.reduced,
        )

    def colliding_rows(self) -> np.ndarray:
        """Return the numbers of the first rows of ids that collide, ascending.

        Of the column whose ids may repeat.
        """
        if not self.names:
            return _NO_ROWS
        table = pd.DataFrame(
            {
                name: np.concatenate([getattr(part, name) for part in self.names])
                for name in ("reduced", "whole", "row")
            }
        )
        first = table.drop_duplicates(["reduced", "whole"])
        is_colliding = first.duplicated("reduced", keep=False)
        return np.sort(first["row"][is_colliding].to_numpy())


@dataclass(frozen=True)
class IdReader:
    """Reads the ids of blocks of a table, in any order and place.

    Parameters
    ----------
    id, group : str, optional
        Columns of the row's id and of the patient; the row is the patient without the
        second.
    may_repeat : bool
        Rows without a group may have the same id.
    key : str
        Key of the hashes.
    known : Patients
        Of earlier nights.
    whole_only : set of str
        Columns whose reduced forms are not used: in training many collide.
    exempt : mapping of str to ndarray of uint64
        By column the reduced forms, hashed, that collide in training. Of these ids too
        only the whole form is used.
    """

    id: str | None
    group: str | None = None
    may_repeat: bool = False
    key: str = HASH_KEY
    known: Patients = field(default_factory=Patients)
    whole_only: Set[str] = frozenset()
    exempt: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def patient(self) -> str | None:
        """The column that names the patient."""
        return self.group or self.id

    def read(
        self, ids: np.ndarray, groups: np.ndarray | None, rows: np.ndarray
    ) -> IdCounts:
        """Hash the ids of rows, and find exponents and other spellings.

        Parameters
        ----------
        ids, groups : ndarray of str, shape (n_rows,)
            None where a row has none.
        rows : ndarray of int64, shape (n_rows,)
            Their numbers.
        """
        exponents = {}
        reduced = None
        if self.id is not None:
            exponents[self.id] = find_exponents(ids, rows)
        if self.id is not None and not self.may_repeat:
            reduced = self._reduced_hashes(ids, self.id)
        if self.group is None and reduced is not None:
            patients, first = ids, rows
            hashes = reduced
        elif self.patient is not None:
            patients, first = _distinct(ids if groups is None else groups, rows)
            hashes = self._reduced_hashes(patients, self.patient)
            if self.group is not None:
                exponents[self.group] = find_exponents(patients, first)
        else:
            return IdCounts(exponents)
        of_every_row = () if reduced is None else (reduced,)
        names: tuple[Names, ...] = ()
        if hashes is not reduced:
            names = (Names(hashes, hash_ids(patients, self.key), first),)
        return IdCounts(
            exponents=exponents,
            names=names,
            sample=self._sample(patients, hashes),
            rewritten=self._rewritten(patients, hashes, first),
            reduced=of_every_row,
        )

    def with_collisions(self, column: str, names: np.ndarray) -> IdReader:
        """Return a reader that knows the ids of a column in training, which collide."""
        distinct = pd.Series(names, dtype=object).dropna().drop_duplicates()
        forms = pd.Series(reduced_forms(distinct.to_numpy()))
        colliding = forms[forms.duplicated(keep=False)].drop_duplicates()
        if len(colliding) > MAX_COLLIDING * len(distinct):
            return replace(self, whole_only={*self.whole_only, column})
        hashes = hash_ids(colliding.to_numpy(), self.key)
        return replace(self, exempt={**self.exempt, column: hashes})

    def _reduced_hashes(self, names: np.ndarray, column: str) -> np.ndarray:
        """Return the hash of each id's reduced form, or of the id where it is used."""
        if column in self.whole_only:
            return self._whole_hashes(names)
        hashes = hash_ids(reduced_forms(names), self.key)
        exempt = self.exempt.get(column)
        if exempt is not None:
            among = np.flatnonzero(np.isin(hashes, exempt))
            hashes[among] = self._whole_hashes(names[among])
        return hashes

    def _whole_hashes(self, names: np.ndarray) -> np.ndarray:
        """Return hashes of whole ids that are not those of any reduced form."""
        hashes = hash_ids(names, self.key)
        return np.where(hashes == 0, hashes, ~hashes)

    def _sample(self, names: np.ndarray, reduced: np.ndarray) -> Patients:
        """Sample the patients with the lowest hashes."""
        among = np.flatnonzero(reduced)
        if len(among) > N_REMEMBERED:
            hashes = reduced[among]
            bound = np.partition(hashes, N_REMEMBERED - 1)[N_REMEMBERED - 1]
            among = among[hashes <= bound]
        return Patients.of(reduced[among], hash_ids(names[among], self.key)).lowest()

    def _rewritten(
        self, names: np.ndarray, reduced: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return the rows with new spellings of earlier nights' patients."""
        if not len(self.known):
            return ()
        among = np.flatnonzero(np.isin(reduced, self.known.reduced))
        whole = hash_ids(names[among], self.key)
        # Written as on any earlier night it is that patient.
        return (rows[among[~np.isin(whole, self.known.whole)]],)


def _distinct(names: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each id once, with the number of its first row."""
    present = pd.Series(names, index=rows).dropna().drop_duplicates()
    return present.to_numpy(dtype=object), present.index.to_numpy(np.int64)
