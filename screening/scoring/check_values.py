"""Values that no patient can have: cells of rows, and channels of images as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from screening.contract.contract import Contract
from screening.data.cohort import Cohort
from screening.data.out_of_bounds import Bounds, OddCell
from screening.data.unused_rows import UnusedCell, UnusedCells
from screening.monitoring.other_readings import (
    ColumnReadings,
    Reading,
    other_readings,
)
from screening.schemas.model import NumberProfile, Profile, TextProfile
from screening.schemas.run import (
    AlikeRow,
    ChannelFault,
    CheckValues,
    OddChannel,
    OddValue,
)

# Values that a page lists: nobody reads more. All are counted.
VALUES_SHOWN = 200
VOXELS_SHOWN = 20
CHANNELS_SHOWN = 200
# A channel of fewer distinct values may have one value in all of a patient's voxels.
MIN_STEPS_OF_CHANNEL = 10
# Figures of a channel in one patient: the sum of each over voxels, or its extreme.
_AGGREGATES = {
    "voxels": "sum",
    "present": "sum",
    "within": "sum",
    "low": "min",
    "high": "max",
}


@dataclass(frozen=True)
class OddRows:
    """Rows with cells out of bounds; those of consecutive rows add up.

    Parameters
    ----------
    size : int
        Largest number of values that are listed.
    n_rows : int
    n_doubtful : int
        Other rows with a value inside bounds that may be in another unit.
    by_column : Counter
        Cells out of bounds of each column.
    values : tuple of OddValue
        The first `size` in the order of the table.
    """

    size: int
    n_rows: int = 0
    n_doubtful: int = 0
    by_column: Counter[str] = field(default_factory=Counter)
    values: tuple[OddValue, ...] = ()

    @classmethod
    def of(
        cls,
        batch: Cohort,
        flagged: np.ndarray,
        odd_columns: pa.Array,
        bounds: Mapping[str, Bounds],
        readings: Mapping[str, ColumnReadings],
    ) -> OddRows:
        """Return those of a batch.

        Parameters
        ----------
        batch : Cohort
        flagged : ndarray of bool, shape (n_rows,)
        odd_columns : pa.Array, shape (n_rows,)
            Valid in the rows with cells out of bounds.
        bounds : mapping of str to Bounds
        readings : mapping of str to ColumnReadings
        """
        size = VOXELS_SHOWN if batch.contract.coordinates else VALUES_SHOWN
        doubtful = other_readings(batch.measured, readings)
        cells_of: dict[int, Sequence[OddCell]] = {}
        if batch.out_of_bounds is not None and odd_columns.null_count < batch.n_rows:
            rows = np.flatnonzero(np.asarray(odd_columns.is_valid())).tolist()
            cells_of = {row: batch.out_of_bounds[row] for row in rows}
        by_column = Counter(
            cell.column for cell in chain.from_iterable(cells_of.values())
        )
        values: list[OddValue] = []
        for row in sorted(cells_of.keys() | doubtful.keys())[:size]:
            place = _place_of(batch, row, bool(flagged[row]))
            for cell in cells_of.get(row, ()):
                values.append(_out_of_bounds(place, cell, bounds))
            for reading in doubtful.get(row, ()):
                values.append(_doubtful(place, reading, readings[reading.column]))
        n_doubtful = len(doubtful.keys() - cells_of.keys())
        return cls(size, len(cells_of), n_doubtful, by_column, tuple(values[:size]))

    def __add__(self, other: OddRows) -> OddRows:
        values = self.values + other.values
        return OddRows(
            self.size,
            self.n_rows + other.n_rows,
            self.n_doubtful + other.n_doubtful,
            self.by_column + other.by_column,
            values[: self.size],
        )


def _place_of(batch: Cohort, row: int, flagged: bool) -> dict[str, Any]:
    """Return the fields of an `OddValue` that are those of its row."""
    display = {name: texts[row] for name, texts in (batch.display or {}).items()}
    return {
        "id": batch.id[row],
        "group": None if batch.group is None else batch.group[row],
        "row": int(batch.rows[row]),
        "flagged": flagged,
        "display": display or None,
    }


def _out_of_bounds(
    place: Mapping[str, Any], cell: OddCell, bounds: Mapping[str, Bounds]
) -> OddValue:
    """Return a cell that was not used."""
    low, high = _limits(bounds.get(cell.column))
    return OddValue(
        **place,
        column=cell.column,
        value=cell.value,
        low=low,
        high=high,
        fault="unreadable" if cell.value is None else "out_of_bounds",
    )


def _doubtful(
    place: Mapping[str, Any], reading: Reading, column: ColumnReadings
) -> OddValue:
    """Return a cell that was used, and may be in another unit."""
    return OddValue(
        **place,
        column=reading.column,
        value=reading.written,
        low=column.low,
        high=column.high,
        fault="outside_training",
        treatment="scored_with",
        reading=reading.value,
        reading_unit=reading.unit or None,
        training_unit=reading.training_unit or None,
    )


def _limits(bounds: Bounds | None) -> tuple[float | None, float | None]:
    """Return the bounds of a column, None for one that does not exist."""
    if bounds is None:
        return None, None
    low, high = bounds
    return low, high if np.isfinite(high) else None


def _value_of(cell: UnusedCell, bounds: Mapping[str, Bounds]) -> OddValue:
    """Return a cell for which its row is not scored, for the page."""
    low, high = _limits(bounds.get(cell.column))
    return OddValue(
        id=cell.id,
        group=cell.group,
        row=cell.row,
        column=cell.column,
        value=cell.value,
        low=low,
        high=high,
        flagged=False,
        display=cell.display,
        fault=cell.fault,
        treatment=cell.treatment,
    )


def count_channels(batch: Cohort, bounds: Mapping[str, Bounds]) -> tuple[pa.Table, ...]:
    """Count the values of each channel in each patient of an image.

    One table with a row for each `group` and `column`: the number of voxels, of those
    that have a value and of values within bounds, the least and the greatest value.
    Empty if rows are not voxels of patients.
    """
    if not batch.contract.coordinates or batch.group is None:
        return ()
    codes, groups = pd.factorize(batch.group)
    counted = []
    for name in _channels(batch.contract):
        values = batch.measured[name]
        is_present = np.isfinite(values)
        is_within = is_present
        if name in bounds:
            is_within = is_present & ~bounds[name].exceeded_by(values)
        low = np.full(len(groups), np.inf)
        high = np.full(len(groups), -np.inf)
        np.fmin.at(low, codes, values)
        np.fmax.at(high, codes, values)
        figures = {
            "group": groups,
            "column": [name] * len(groups),
            "voxels": np.bincount(codes),
            "present": np.bincount(codes, is_present).astype(np.int64),
            "within": np.bincount(codes, is_within).astype(np.int64),
            "low": low,
            "high": high,
        }
        counted.append(pa.table(figures))
    return (pa.concat_tables(counted),) if counted else ()


def _channels(contract: Contract) -> list[str]:
    """Return the features that are numbers and no statistics of neighbouring voxels."""
    features = contract.features
    return [
        name
        for name, feature in features.items()
        if feature.type == "number" and name.rpartition("_")[0] not in features
    ]


def odd_channels(tables: Sequence[pa.Table], past: Profile | None) -> list[OddChannel]:
    """Return the channels of patients that have no usable value in any voxel."""
    if not tables:
        return []
    keys = ["group", "column"]
    total = (
        pa.concat_tables(tables)
        .group_by(keys, use_threads=False)
        .aggregate(list(_AGGREGATES.items()))
        .rename_columns([*keys, *_AGGREGATES])
    )
    is_suspect = pc.or_(
        pc.equal(total["within"], 0), pc.equal(total["low"], total["high"])
    )
    suspects = total.filter(is_suspect).sort_by([(key, "ascending") for key in keys])
    profiles = past.features if past else {}
    channels = []
    for row in suspects.to_pylist():
        fault = _fault_of(row, profiles.get(row["column"]))
        if fault is not None:
            channels.append(
                OddChannel(
                    group=row["group"],
                    column=row["column"],
                    voxels=row["voxels"],
                    fault=fault,
                )
            )
    return channels


def _fault_of(
    row: Mapping[str, float], past: NumberProfile | TextProfile | None
) -> ChannelFault | None:
    """Return what is wrong with a channel in all voxels of a patient."""
    if not row["present"]:
        return "missing"
    if not row["within"]:
        return "out of bounds"
    has_many_values = (
        isinstance(past, NumberProfile) and len(past.edges) >= MIN_STEPS_OF_CHANNEL
    )
    if row["present"] > 1 and has_many_values:
        return "one value"
    return None


def check_values_of(
    rows: OddRows,
    channels: Sequence[OddChannel],
    unused: UnusedCells,
    bounds: Mapping[str, Bounds],
    alike: Sequence[AlikeRow] = (),
) -> CheckValues | None:
    """Return the list for the page; None where there is nothing to check.

    Rows without a score come first.
    """
    has_values = rows.n_rows or rows.n_doubtful or channels or unused.n_cells
    if not has_values and not alike:
        return None
    patients = {channel.group for channel in channels}
    values = [_value_of(cell, bounds) for cell in unused.first]
    values.sort(key=lambda value: value.treatment == "not_taken")
    return CheckValues(
        rows=rows.n_rows,
        doubtful=rows.n_doubtful,
        left_out=unused.n_cells["left_out"],
        not_taken=unused.n_cells["not_taken"],
        by_column=dict(sorted(rows.by_column.items())),
        values=[*values, *rows.values][: rows.size],
        patients=len(patients),
        channels=channels[:CHANNELS_SHOWN],
        alike=alike,
    )
