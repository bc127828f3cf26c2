"""Voxels on their grid, and features of their neighbourhood: mean, spread and gradient, within the mask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
from scipy.ndimage import uniform_filter

from screening.contract.contract import AXES, Contract, Feature
from screening.errors import CohortError, UsageError
from screening.io.arrow_types import is_numeric, to_floats
from screening.io.columns import stretches
from screening.io.readers import Batches, Part, Source

STATISTICS = ("mean", "sd", "gradient")
MOST_CELLS = 50_000_000


def steps(values: np.ndarray) -> float:
    """Distance between neighbouring grid planes: the smallest gap between distinct coordinates, 1 for one."""
    gaps = np.diff(np.unique(np.round(values, 6)))
    return float(gaps.min()) if gaps.size else 1.0


def on_grid(coordinates: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Whole grid positions of coordinates, from 0 along each axis, shape (n, 3)."""
    if not len(coordinates):
        return np.zeros((0, 3), dtype=np.int64)
    return np.rint((coordinates - coordinates.min(axis=0)) / step).astype(np.int64)


def cells_of(
    coordinates: np.ndarray, where: str = ""
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Grid positions of one patient's voxels, shape (n, 3), and the shape of the smallest box around them.

    Raises CohortError: beginning with `where`: the box has too many cells to be looked through, or two voxels
    share one.
    """
    place = on_grid(coordinates, np.array([steps(axis) for axis in coordinates.T]))
    shape = tuple(int(most) + 1 for most in place.max(axis=0))
    few = np.prod([float(side) for side in shape]) <= MOST_CELLS
    if not few or len(np.unique(np.ravel_multi_index(tuple(place.T), shape))) < len(
        place
    ):
        raise CohortError(
            f"{where}a patient's coordinates are no grid (two voxels in one place, or far apart)"
        )
    return place, shape


def with_neighbourhood(source: Source, contract: Contract) -> tuple[Source, Contract]:
    """A source of voxels whose parts have the contract's neighbourhood features as columns, and the contract.

    Features of a contract that names none of them are joined by those of its numbers, declared alike.

    Raises UsageError: there are no coordinates, or no patients.
    """
    size = contract.neighbourhood
    if size is None:
        return source, contract
    header = source.files[0].header
    axes = contract.coordinates or [axis for axis in AXES if axis in header]
    if len(axes) != 3 or not contract.group:
        raise UsageError(
            "a neighbourhood is of voxels: it needs the patient (`--group`) and x, y, z"
        )
    group = contract.group
    names = {
        name: channel
        for channel, feature in contract.features.items()
        if feature.type == "number" and channel in header
        for name in derived(channel)
    }
    if names.keys().isdisjoint(contract.features):
        own = {
            name: Feature(type="number", normalise=contract.features[channel].normalise)
            for name, channel in names.items()
        }
        contract = contract.model_copy(update={"features": contract.features | own})
    roles = {
        contract.id,
        group,
        contract.label,
        contract.time,
        *axes,
        *contract.subgroup,
        *contract.drop,
        *contract.display,
    }
    channels = [
        name
        for name in header
        if name not in roles
        and not (
            contract.features and contract.features.keys().isdisjoint(derived(name))
        )
    ]
    owners: dict[object, int] = {}
    parts = [
        _Neighbours(part, group, axes, channels, size, owners) for part in source.files
    ]
    # In place: a source fetched from elsewhere takes its files with it when it goes.
    source.files = parts
    return source, contract


def derived(channel: str) -> list[str]:
    """Names of a channel's neighbourhood features."""
    return [f"{channel}_{what}" for what in STATISTICS]


def around(
    values: np.ndarray, place: np.ndarray, shape: tuple[int, ...], size: int
) -> list[np.ndarray]:
    """Mean, standard deviation and length of the gradient around each voxel, NaN where none has a value.

    `values` of one channel of one patient, NaN where missing, stand at the cells `place`, shape (n, 3), of a
    grid of `shape`; `size` is the side of the cube. The gradient is per voxel: half the difference of the two
    neighbours along an axis, the difference to the only one, 0 where there is none.
    """
    at, present = tuple(place.T), np.isfinite(values)
    # Squares of what lies far from 0 would leave no digits for the spread.
    middle = float(values[present].mean()) if present.any() else 0.0
    inside, grid = np.zeros(shape), np.zeros(shape)
    inside[at] = present
    grid[at] = np.where(present, values - middle, 0.0)

    def total(volume: np.ndarray) -> np.ndarray:
        return np.asarray(uniform_filter(volume, size, mode="constant"))[at]

    share = total(inside)
    some = share > 0.5 / size**3
    safe = np.where(some, share, 1.0)
    mean = total(grid) / safe
    square = total(grid**2) / safe
    variance = square - mean**2
    # What rounding leaves of a constant surrounding is no spread.
    spread = np.sqrt(np.where(variance > 1e-12 * square, variance, 0.0))
    slope = sum(_slope(grid, inside > 0, axis) ** 2 for axis in range(3))
    return [
        np.where(some, mean + middle, np.nan),
        np.where(some, spread, np.nan),
        np.where(present, np.sqrt(slope)[at], np.nan),
    ]


def _slope(grid: np.ndarray, inside: np.ndarray, axis: int) -> np.ndarray:
    """Difference along an axis at every cell, from the neighbours that are inside."""
    behind, before = (
        tuple(part if other == axis else slice(None) for other in range(3))
        for part in (slice(1, None), slice(None, -1))
    )
    both = inside[behind] & inside[before]
    step = np.where(both, np.diff(grid, axis=axis), 0.0)
    difference, count = np.zeros_like(grid), np.zeros_like(grid)
    for side in (behind, before):
        difference[side] += step
        count[side] += both
    return np.asarray(difference / np.maximum(count, 1.0))


class _Neighbours(Part):
    """A part of voxels, read patient by patient, with the neighbourhood features behind its own columns."""

    def __init__(
        self,
        part: Part,
        group: str,
        axes: Sequence[str],
        channels: Sequence[str],
        size: int,
        owners: dict[object, int],
    ):
        self.part, self.name, self.sha256, self.bytes = (
            part,
            part.name,
            part.sha256,
            part.bytes,
        )
        self.origin, self.stamps = part.origin, part.stamps
        self.group, self.axes, self.channels = group, list(axes), list(channels)
        self.size, self.owners = size, owners
        self.decimal_mark, self.other_marks = part.decimal_mark, part.other_marks
        self.header = [
            *part.header,
            *(name for channel in channels for name in derived(channel)),
        ]

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the rows in order.

        Raises CohortError: a patient's rows do not stand together, a channel is text, or coordinates are no
        grid.
        """
        channels_wanted = [
            channel for channel in self.channels if {*derived(channel)} & {*wanted}
        ]
        if not channels_wanted:
            yield from self.part.batches(wanted, batch_rows)
            return
        own = [name for name in wanted if name in self.part.header]
        needed = list(dict.fromkeys([*own, self.group, *self.axes, *channels_wanted]))
        for cells in self._patients(needed, batch_rows):
            places = np.column_stack([self._floats(cells, axis) for axis in self.axes])
            grid = cells_of(places, f"{self.name}: ")
            for channel in channels_wanted:
                features = around(self._floats(cells, channel), *grid, self.size)
                cells |= {
                    name: pa.array(values, from_pandas=True)
                    for name, values in zip(derived(channel), features, strict=True)
                }
            yield pa.record_batch([cells[name] for name in wanted], wanted)

    def _floats(self, cells: Mapping[str, pa.Array], column: str) -> np.ndarray:
        numbers = cells[column]
        if not is_numeric(numbers):
            raise CohortError(
                f"{self.name}: column '{column}' is text; a neighbourhood is of numbers as Parquet or images "
                "hold them (name other columns with --drop)"
            )
        return to_floats(numbers)

    def _patients(
        self, needed: Sequence[str], batch_rows: int
    ) -> Iterator[dict[str, pa.Array]]:
        """The columns of one patient after the other."""
        parts = (
            (name, {key: cells[rows] for key, cells in block.columns.items()})
            for block in self.part.blocks(needed, batch_rows)
            for name, rows in stretches(
                block.columns[self.group].to_numpy(zero_copy_only=False)
            )
        )
        seen: set[object] = set()
        for name, of_patient in groupby(parts, key=itemgetter(0)):
            if name in seen or self.owners.setdefault(name, id(self)) != id(self):
                raise CohortError(
                    f"{self.name}: rows of a patient do not stand together; sort them by patient"
                )
            seen.add(name)
            columns = [part for _, part in of_patient]
            yield {
                key: pa.concat_arrays([part[key] for part in columns])
                for key in columns[0]
            }
