"""The rows of a table, typed by its contract, with the faults of their cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from screening.clock.zone import Clock
from screening.contract.contract import Contract
from screening.contract.parsing import (
    TypedColumn,
    are_filled,
    parse_coordinate,
    parse_feature,
    parse_texts,
    parse_times,
)
from screening.contract.violations import Fault
from screening.data.cohort import Cohort
from screening.data.ids import stems_of
from screening.data.labels import BLANK_IS
from screening.io.columns import Columns
from screening.io.readers import Block, FileFormat


@dataclass(frozen=True)
class RowTyper:
    """Types the rows of blocks by a contract.

    Parameters
    ----------
    contract : Contract
    label : str, optional
        Column of the label, where it is read.
    need_label : bool
        A row without a label is a fault.
    to_score : bool
        The contract's columns to display, and the hour of the table, are read.
    clock : Clock
        Of times without a zone, in whatever process they are read.
    """

    contract: Contract
    label: str | None
    need_label: bool
    to_score: bool
    clock: Clock

    @property
    def display(self) -> list[str]:
        """Columns that are read to be shown with a row."""
        return self.contract.display if self.to_score else []

    def type_rows(
        self, file_format: FileFormat, block: Block, n_above: int
    ) -> tuple[Cohort, list[Fault]]:
        """Return all rows of a block, valid or not, and the faults of their cells.

        Parameters
        ----------
        file_format : FileFormat
            Of the block's file.
        block : Block
        n_above : int
            Rows of the table above the file.
        """
        contract = self.contract
        parser = _BlockParser(file_format, block)
        numbers = n_above + block.first_row + np.arange(block.n_rows)
        # In the order in which a row's faults are reported: it is left out for the
        # first.
        ids = parser.texts(contract.id, "no_id", strip=False, distinct=True)
        group = parser.texts(contract.group, "no_group", strip=False)
        label = self._type_labels(parser)
        coordinates = parser.coordinates(contract.coordinates)
        time = parser.times(contract, self.clock)
        hour = parser.hours(contract, self.clock) if self.to_score else None
        subgroups = parser.text_columns(contract.subgroup)
        display = parser.text_columns(self.display)
        values = parser.features(contract)
        if ids is None:
            ids = numbers.astype(str).astype(object)
        if group is not None and contract.group_stem:
            group = stems_of(group)
        rows = Cohort(
            id=ids,
            group=group,
            label=label,
            time=time,
            hour=hour,
            coordinates=coordinates,
            subgroups=subgroups,
            display=display,
            values=values,
            raw=None,
            rows=numbers,
            contract=contract,
        )
        return rows, parser.faults

    def _type_labels(self, parser: _BlockParser) -> np.ndarray | None:
        """Return the label texts, "" where one is missing and does not mean "no"."""
        blank_is_no = self.contract.unlabelled == "no"
        needs_text = self.need_label and not blank_is_no
        violation = "no_label" if needs_text else None
        label = parser.texts(self.label, violation)
        if label is None:
            return None
        text_of_blank = BLANK_IS if blank_is_no else ""
        return np.where(pd.isna(label), text_of_blank, label)


@dataclass
class _BlockParser:
    """Types columns of one block, and notes the faults of their cells."""

    file_format: FileFormat
    block: Block
    faults: list[Fault] = field(init=False)

    def __post_init__(self) -> None:
        self.faults = [
            ("", "ragged", self.block.ragged),
            ("", "repeated_header", self.block.repeated_header),
        ]
        self._broken = self.block.ragged | self.block.repeated_header

    def texts(
        self,
        column: str | None,
        missing_fault: str | None = None,
        strip: bool = True,
        distinct: bool = False,
    ) -> np.ndarray | None:
        """Return a role's texts, shape (n_rows,); None where no column has the role."""
        if column is None:
            return None
        cells = self.block.columns[column]
        return self._noted(column, parse_texts(cells, missing_fault, strip, distinct))

    def text_columns(self, names: Sequence[str]) -> Columns | None:
        """Return several columns of text by name, None for no names."""
        columns = {name: np.asarray(self.texts(name)) for name in names}
        return columns or None

    def coordinates(self, names: Sequence[str]) -> np.ndarray | None:
        """Return coordinates, shape (n_rows, 3), None for no names."""
        if not names:
            return None
        axes = []
        for name in names:
            cells = self.block.columns[name]
            axis = parse_coordinate(cells, self.file_format.decimal(name))
            axes.append(self._noted(name, axis))
        return np.column_stack(axes)

    def times(self, contract: Contract, clock: Clock) -> np.ndarray | None:
        """Return times as instants, shape (n_rows,), None for no column."""
        if contract.time is None:
            return None
        cells = self.block.columns[contract.time]
        typed = parse_times(cells, contract.date_order, contract.date_numbers, clock)
        return self._noted(contract.time, typed)

    def hours(self, contract: Contract, clock: Clock) -> np.ndarray | None:
        """Return the instants at which the table was taken; None for no column.

        A blank cell is not a fault: the newest time of the column counts.
        """
        column = contract.hour_column
        if column is None:
            return None
        cells = self.block.columns[column]
        typed = parse_times(cells, contract.date_order, None, clock)
        if column == contract.time:
            # Its faults are noted as those of the time.
            return typed.values
        is_filled = are_filled(cells)
        typed.faults = [
            (kind, mask & is_filled if kind == "not_time" else mask)
            for kind, mask in typed.faults
        ]
        return self._noted(column, typed)

    def features(self, contract: Contract) -> Columns:
        """Return the values of every feature by name."""
        values = {}
        for name, feature in contract.features.items():
            cells = self.block.columns[name]
            typed = parse_feature(cells, feature, self.file_format.decimal(name))
            values[name] = self._noted(name, typed)
        return values

    def _noted(self, column: str, typed: TypedColumn) -> np.ndarray:
        for kind, mask in typed.faults:
            # A broken row has no cells to blame.
            self.faults.append((column, kind, mask & ~self._broken))
        return typed.values
