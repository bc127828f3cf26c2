"""Which rows of a block are left out, and which are scored without a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from screening.contract.contract import Contract
from screening.contract.violations import (
    CELLS_OF_NO_NUMBER,
    NEEDED,
    NEEDED_OUT_OF_BOUNDS,
    NEEDED_UNREADABLE,
    NOT_TAKEN,
    OUT_OF_BOUNDS,
    READ_ALL_THE_SAME,
    UNREADABLE,
    UNSEEN,
    Fault,
)

# Faults of a cell, which concern the row taken of a unit alone.
OF_CELLS = (*NEEDED, UNSEEN)
Masks = Mapping[str, np.ndarray]
"""Masks of rows, by column."""


@dataclass(frozen=True)
class SortedFaults:
    """Faults of the cells of a block, by what follows from them.

    Parameters
    ----------
    left_out : list of Fault
        Rows with these are not used. Where one row of a unit is taken, faults of cells
        concern the rows taken alone; what breaks the contract does so in any row.
    not_taken : list of Fault
        Cells out of bounds of rows that are not taken for their unit.
    unused : list of Fault
        Rows are scored without these cells.
    noted : list of Fault
        Cells that are read all the same.
    unlisted : mapping of str to ndarray
        Masks of categories that the contract does not list.
    """

    left_out: list[Fault]
    not_taken: list[Fault]
    unused: list[Fault]
    noted: list[Fault]
    unlisted: Masks


@dataclass(frozen=True)
class FaultSorter:
    """Sorts faults of cells by what the contract makes of them.

    Parameters
    ----------
    contract : Contract
    to_score : bool
        Rows are to be scored: `on_unseen` decides on a category that is not listed, an
        implausible value is out of bounds, and a text that is not a number is missing.
    """

    contract: Contract
    to_score: bool

    def sort(
        self,
        found: Sequence[Fault],
        beyond: Masks,
        unseen: Masks,
        is_taken: np.ndarray | None,
    ) -> SortedFaults:
        """Sort faults by their consequences.

        Parameters
        ----------
        found : sequence of Fault
            As `RowTyper` found them.
        beyond : mapping of str to ndarray
            Masks of the cells out of bounds.
        unseen : mapping of str to ndarray
            Masks of the categories that training has not seen.
        is_taken : ndarray of bool, shape (n_rows,), optional
            Rows that are used, where one is taken of each unit.
        """
        noted = [fault for fault in found if fault[1] in READ_ALL_THE_SAME]
        others = [fault for fault in found if fault[1] not in READ_ALL_THE_SAME]
        faults, unlisted, unreadable = self._split_found(others)
        faults += self._unseen_faults(unseen, unlisted)
        needed, unused = self._split_needed(beyond, unreadable)
        left_out = [*faults, *needed]
        not_taken: list[Fault] = []
        if is_taken is not None:
            not_taken = [
                (column, NOT_TAKEN, mask & ~is_taken)
                for column, kind, mask in needed
                if kind == NEEDED_OUT_OF_BOUNDS
            ]
            left_out = [
                (column, kind, mask & is_taken if kind in OF_CELLS else mask)
                for column, kind, mask in left_out
            ]
        return SortedFaults(left_out, not_taken, unused, noted, unlisted)

    def breaks_contract(self, found: Sequence[Fault]) -> np.ndarray:
        """Return a mask of the rows that are left out, whichever row of a unit counts.

        A row without a value may still be taken for a unit if all its rows have none.
        """
        faults, _, _ = self._split_found(found)
        exempt = (*READ_ALL_THE_SAME, *NEEDED)
        masks = [mask for _, kind, mask in faults if kind not in exempt]
        is_broken: np.ndarray = np.logical_or.reduce(masks)
        return is_broken

    def _split_found(
        self, found: Sequence[Fault]
    ) -> tuple[list[Fault], dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return faults of rows, and masks of cells for which rows are scored.

        Returns
        -------
        faults : list of Fault
        unlisted, unreadable : dict of str to ndarray
            Masks of categories that are not listed, and of texts that are not numbers.
        """
        if not self.to_score:
            return [*found], {}, {}
        faults: list[Fault] = []
        unlisted: dict[str, np.ndarray] = {}
        unreadable: dict[str, np.ndarray] = {}
        for column, kind, mask in found:
            if self._is_unreadable(column, kind):
                unreadable[column] = unreadable.get(column, False) | mask
            elif kind == "unknown_category":
                unlisted[column] = mask
            elif kind != "implausible":
                faults.append((column, kind, mask))
        return faults, unlisted, unreadable

    def _is_unreadable(self, column: str, kind: str) -> bool:
        """Return True if a cell with this fault has no value, and breaks no contract.

        Such a cell is missing; a score that needs it is not computed. It is

        - a category that is not listed, of an ordinal that a score needs: it has no
          rank, and would be imputed;
        - a text in place of a number, such as a remark, where a violation would refuse
          the whole table (`on_violation = "stop"`) and the number may be missing.

        Other texts in place of numbers are violations: with "stop" the table is
        refused, else the row is left out. So is always a number written in another
        way, such as with a decimal comma.
        """
        feature = self.contract.features.get(column)
        if feature is None:
            return False
        if kind == "unknown_category":
            return feature.type == "ordinal" and feature.is_needed
        is_optional_number = feature.type == "number" and feature.missing != "refuse"
        stops = self.contract.on_violation == "stop"
        return is_optional_number and stops and kind in CELLS_OF_NO_NUMBER

    def _split_needed(
        self, beyond: Masks, unreadable: Masks
    ) -> tuple[list[Fault], list[Fault]]:
        """Split faults of cells that a score needs from those it can do without."""
        needed: list[Fault] = []
        unused: list[Fault] = []
        for masks, kind_if_needed, kind in (
            (beyond, NEEDED_OUT_OF_BOUNDS, OUT_OF_BOUNDS),
            (unreadable, NEEDED_UNREADABLE, UNREADABLE),
        ):
            for column, mask in masks.items():
                if self.contract.features[column].is_needed:
                    needed.append((column, kind_if_needed, mask))
                else:
                    unused.append((column, kind, mask))
        return needed, unused

    def _unseen_faults(self, unseen: Masks, unlisted: Masks) -> list[Fault]:
        """Return faults for categories that training has not seen, unless allowed."""
        faults: list[Fault] = []
        for name in dict.fromkeys([*unseen, *unlisted]):
            if self.contract.policy("on_unseen", name) == "unknown":
                continue
            masks = [by_name[name] for by_name in (unseen, unlisted) if name in by_name]
            faults.append((name, UNSEEN, np.any(masks, axis=0)))
        return faults
