"""Voxels on their grid, and features of their neighbourhood within the mask.

The features of a channel are mean, standard deviation and gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
from scipy.ndimage import uniform_filter

from screening.contract.contract import AXES, Contract, Feature
from screening.contract.parsing import parse_feature
from screening.contract.violations import FAULTS, MAX_SHOWN_ROWS
from screening.errors import CohortError, UsageError
from screening.io.arrow_types import is_numeric, to_floats
from screening.io.columns import runs_of
from screening.io.readers import RecordBatches, Source, SourceFile
from screening.spelling import first_of

_STATISTICS = ("mean", "sd", "gradient")
MAX_CELLS = 50_000_000
"""Cells of the box around a patient's voxels beyond which it is not searched."""


def grid_step(values: np.ndarray) -> float:
    """Return the smallest gap between distinct coordinates, 1 if there is only one."""
    gaps = np.diff(np.unique(np.round(values, 6)))
    return float(gaps.min()) if gaps.size else 1.0


def grid_index(coordinates: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return grid positions of coordinates, from 0 along each axis.

    Parameters
    ----------
    coordinates : ndarray of shape (n, 3)
    step : ndarray of shape (3,)
        Distance of neighboring positions along each axis.

    Returns
    -------
    int ndarray of shape (n, 3)
    """
    if not len(coordinates):
        return np.zeros((0, 3), dtype=np.int64)
    steps_from_corner = (coordinates - coordinates.min(axis=0)) / step
    return np.rint(steps_from_corner).astype(np.int64)


def bounding_grid(
    coordinates: np.ndarray, where: str = ""
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return one patient's voxels on the smallest grid around them.

    Parameters
    ----------
    coordinates : ndarray of shape (n, 3)
    where : str
        Begins the message of errors.

    Returns
    -------
    index : int ndarray of shape (n, 3)
    shape : tuple of 3 int

    Raises
    ------
    CohortError
        If a coordinate is missing, the grid has too many cells, or two voxels share
        one.
    """
    if not np.isfinite(coordinates).all():
        raise CohortError(f"{where}a coordinate of a voxel is missing")
    step = np.array(list(map(grid_step, coordinates.T)))
    index = grid_index(coordinates, step)
    shape = tuple((index.max(axis=0) + 1).tolist())
    fits = math.prod(shape) <= MAX_CELLS
    if not fits or not _is_distinct(index, shape):
        raise CohortError(
            f"{where}a patient's coordinates do not form a grid (two voxels are in one "
            "place, or voxels are too far apart)"
        )
    return index, shape


def _is_distinct(index: np.ndarray, shape: tuple[int, ...]) -> bool:
    cells = np.ravel_multi_index(tuple(index.T), shape)
    return len(np.unique(cells)) == len(index)


def add_neighbourhood(source: Source, contract: Contract, size: int) -> None:
    """Add the contract's neighbourhood features to a source of voxels as columns.

    Parameters
    ----------
    source : Source
        Its files are replaced.
    contract : Contract
    size : int
        Side of the cube around a voxel, in voxels.

    Raises
    ------
    UsageError
        If there are no coordinates, or no patient column.
    """
    header = source.files[0].header
    axes = contract.coordinates or [axis for axis in AXES if axis in header]
    group = contract.group
    if len(axes) != 3 or not group:
        raise UsageError(
            "a neighbourhood needs voxels, with the patient (`group`) and x, y, z",
            parameters=["group"],
        )
    channels = _channels(contract, header, axes)
    owners: dict[object, int] = {}
    files: list[SourceFile] = [
        _NeighbourhoodFile(file, group, axes, channels, size, owners)
        for file in source.files
    ]
    # In place: a source that was downloaded deletes its files when it is freed.
    source.files = files


def declare_channels(source: Source, contract: Contract) -> None:
    """Say what a complete contract says of the channels with a neighbourhood.

    A code for missing and an implausible value are then no part of a mean.
    """
    declared = {
        name: feature
        for name, feature in contract.features.items()
        if feature.type == "number"
    }
    for file in source.files:
        if isinstance(file, _NeighbourhoodFile):
            file.channels = {name: declared.get(name) for name in file.channels}


def features_of_channels(
    contract: Contract, header: Sequence[str]
) -> dict[str, Feature]:
    """Return neighbourhood features of a contract's numbers, unless it has some."""
    declared: dict[str, Feature] = {}
    for channel, feature in contract.features.items():
        if feature.type == "number" and channel in header:
            for name in _feature_names(channel):
                declared[name] = Feature(type="number", normalise=feature.normalise)
    if not declared.keys().isdisjoint(contract.features):
        return {}
    return declared


def _channels(
    contract: Contract, header: Sequence[str], axes: Sequence[str]
) -> list[str]:
    """Return the columns that have neighbourhood features."""
    roles = {
        contract.id,
        contract.group,
        contract.label,
        contract.time,
        *axes,
        *contract.subgroup,
        *contract.drop,
        *contract.display,
    }
    channels = [name for name in header if name not in roles]
    if not contract.features:
        return channels
    return [
        name
        for name in channels
        if not contract.features.keys().isdisjoint(_feature_names(name))
    ]


def _feature_names(channel: str) -> list[str]:
    """Return the names of a channel's neighbourhood features."""
    return [f"{channel}_{statistic}" for statistic in _STATISTICS]


def neighbourhood_features(
    values: np.ndarray, index: np.ndarray, shape: tuple[int, ...], size: int
) -> list[np.ndarray]:
    """Return mean, standard deviation and length of the gradient around each voxel.

    Parameters
    ----------
    values : ndarray of shape (n,)
        One channel of one patient, NaN if missing.
    index : int ndarray of shape (n, 3)
        Grid positions of the voxels.
    shape : tuple of 3 int
        Shape of the grid.
    size : int
        Side of the cube around a voxel, in voxels.

    Returns
    -------
    list of 3 ndarray of shape (n,)
        Mean and standard deviation are NaN where no voxel of the cube has a value, the
        gradient where the voxel itself has none. It is per voxel: half the difference
        of the two neighbors along an axis, the difference to the only one, or 0.
    """
    at = tuple(index.T)
    present = np.isfinite(values)
    # Centred, since squares of large values would leave no digits for the spread.
    centre = float(values[present].mean()) if present.any() else 0.0
    has_value = np.zeros(shape)
    grid = np.zeros(shape)
    has_value[at] = present
    grid[at] = np.where(present, values - centre, 0.0)

    def cube_mean(volume: np.ndarray) -> np.ndarray:
        return np.asarray(uniform_filter(volume, size, mode="constant"))[at]

    share = cube_mean(has_value)
    has_values = share > 0.5 / size**3
    safe = np.where(has_values, share, 1.0)
    mean = cube_mean(grid) / safe
    square = cube_mean(grid**2) / safe
    variance = square - mean**2
    # Below this the variance of a constant cube is rounding.
    is_spread = variance > 1e-12 * square
    sd = np.sqrt(np.where(is_spread, variance, 0.0))
    squared_gradient = sum(
        _axis_gradient(grid, has_value > 0, axis) ** 2 for axis in range(3)
    )
    gradient = np.sqrt(squared_gradient)
    return [
        np.where(has_values, mean + centre, np.nan),
        np.where(has_values, sd, np.nan),
        np.where(present, gradient[at], np.nan),
    ]


def _axis_gradient(grid: np.ndarray, has_value: np.ndarray, axis: int) -> np.ndarray:
    """Return the difference along an axis per voxel, from neighbors with a value."""
    upper: list[slice] = [slice(None)] * 3
    lower: list[slice] = [slice(None)] * 3
    upper[axis] = slice(1, None)
    lower[axis] = slice(None, -1)
    both_have = has_value[tuple(upper)] & has_value[tuple(lower)]
    step = np.where(both_have, np.diff(grid, axis=axis), 0.0)
    difference = np.zeros_like(grid)
    count = np.zeros_like(grid)
    for side in (tuple(upper), tuple(lower)):
        difference[side] += step
        count[side] += both_have
    return np.asarray(difference / np.maximum(count, 1.0))


class _NeighbourhoodFile(SourceFile):
    """A file of voxels that is read by patient, with neighbourhood features added.

    Parameters
    ----------
    file : SourceFile
    group : str
        Column of the patient.
    axes : sequence of 3 str
        Columns of the coordinates.
    channels : sequence of str
        Columns that have features.
    size : int
        Side of the cube around a voxel.
    owners : dict
        File in which each patient was read, shared by all files of a source.
    """

    def __init__(
        self,
        file: SourceFile,
        group: str,
        axes: Sequence[str],
        channels: Sequence[str],
        size: int,
        owners: dict[object, int],
    ):
        self.file = file
        self.name = file.name
        self.sha256 = file.sha256
        self.bytes = file.bytes
        self.origin = file.origin
        self.stamps = file.stamps
        self.decimal_mark = file.decimal_mark
        self.other_marks = file.other_marks
        self.group = group
        self.axes = list(axes)
        # What the contract says of each, as far as it is known.
        self.channels: dict[str, Feature | None] = dict.fromkeys(channels)
        self.size = size
        self.owners = owners
        self.header = [*file.header]
        for channel in channels:
            self.header += _feature_names(channel)

    def record_batches(self, wanted: list[str], batch_rows: int) -> RecordBatches:
        """Yield the rows in order, those of one patient at a time.

        Raises
        ------
        CohortError
            If a patient's rows are not contiguous, a channel is text or infinite, or
            coordinates are no grid.
        """
        channels = [
            channel
            for channel in self.channels
            if not set(_feature_names(channel)).isdisjoint(wanted)
        ]
        if not channels:
            yield from self.file.record_batches(wanted, batch_rows)
            return
        read = [name for name in wanted if name in self.file.header]
        columns_of_grid = [self.group, *self.axes]
        needed = list(dict.fromkeys([*read, *columns_of_grid, *channels]))
        n_above = 0
        for columns in self._patients(needed, batch_rows):
            axes = [self._floats(columns, axis) for axis in self.axes]
            index, shape = bounding_grid(np.column_stack(axes), f"{self.name}: ")
            for channel in channels:
                values = self._values(columns, channel, n_above)
                features = neighbourhood_features(values, index, shape, self.size)
                arrays = map(partial(pa.array, from_pandas=True), features)
                columns |= zip(_feature_names(channel), arrays, strict=True)
            yield pa.record_batch([columns[name] for name in wanted], wanted)
            n_above += len(index)

    def _values(
        self, columns: Mapping[str, pa.Array], name: str, n_above: int
    ) -> np.ndarray:
        """Return a channel as floats, NaN where the contract makes a value missing.

        Parameters
        ----------
        columns : mapping of str to pa.Array
            Of one patient.
        name : str
        n_above : int
            Rows of the file above the patient's.

        Raises
        ------
        CohortError
            If the channel is text. Also for an infinite value of a channel that the
            contract does not name: nobody else reads it.
        """
        self._floats(columns, name)
        declared = self.channels[name]
        feature = declared or Feature(type="number")
        typed = parse_feature(columns[name], feature, ".")
        masks = dict(typed.faults)
        if "infinite" in masks and declared is None:
            rows = (1 + n_above + np.flatnonzero(masks["infinite"])).tolist()
            what, remedy = FAULTS["infinite"]
            raise CohortError(
                f"{self.name}: column '{name}', rows "
                f"{first_of(rows, MAX_SHOWN_ROWS, len(rows))}: {what}; {remedy}"
            )
        if "implausible" in masks:
            return np.where(masks["implausible"], np.nan, typed.values)
        return typed.values

    def _floats(self, columns: Mapping[str, pa.Array], name: str) -> np.ndarray:
        """Return a column as floats; CohortError for text."""
        column = columns[name]
        if not is_numeric(column):
            raise CohortError(
                f"{self.name}: column '{name}' is text, but a neighbourhood needs "
                "numbers from Parquet files or images; name other columns with `drop`",
                parameters=["drop"],
            )
        return to_floats(column)

    def _patients(
        self, needed: Sequence[str], batch_rows: int
    ) -> Iterator[dict[str, pa.Array]]:
        """Yield the columns of one patient after the other."""
        seen: set[object] = set()
        runs = groupby(self._runs(needed, batch_rows), key=itemgetter(0))
        for name, patient_runs in runs:
            is_of_other = self.owners.setdefault(name, id(self)) != id(self)
            if name in seen or is_of_other:
                raise CohortError(
                    f"{self.name}: the rows of a patient are not next to each other; "
                    "sort the rows by patient"
                )
            seen.add(name)
            parts = [columns for _, columns in patient_runs]
            whole = {}
            for key in parts[0]:
                whole[key] = pa.concat_arrays([part[key] for part in parts])
            yield whole

    def _runs(
        self, needed: Sequence[str], batch_rows: int
    ) -> Iterator[tuple[object, dict[str, pa.Array]]]:
        """Yield the patient and columns of each run of rows within a block."""
        for block in self.file.blocks(needed, batch_rows):
            groups = block.columns[self.group].to_numpy(zero_copy_only=False)
            for name, rows in runs_of(groups):
                yield name, {key: column[rows] for key, column in block.columns.items()}
