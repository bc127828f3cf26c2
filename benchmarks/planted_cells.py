"""Are cells that no patient can have named, and how many true ones are named too?

    python benchmarks/planted_cells.py --splits 20

The columns of numbers of the UCI sets in ../shared/data, and of the nosocomial sample.
A third of the rows is left out at random; bounds are those of the others. True rows:
how many of the rows left out have a cell out of bounds. Planted cells: a value in place
of one left out, or one left out times a factor, only in columns where no other row has
such a value. `plausible` is not used. Beside them, values inside the bounds that may be
in another unit or lack a digit: true ones that are doubted, and a value left out that
is written in another unit of its quantity, where the name of its column tells it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent / "papers"))
from sets import UCI

from screening.contract.contract import Contract, Feature
from screening.data.out_of_bounds import Bounds, bounds_of_range
from screening.io.columns import Columns
from screening.monitoring.other_readings import ColumnReadings, readings_of_columns
from screening.monitoring.profile import profile

SAMPLE = Path(__file__).parents[1] / "sample_cohorts" / "nosocomial_past.csv"
LEFT_OUT = 1 / 3
# Columns of fewer values are categories or counts of a few.
MIN_VALUES = 10
CODES = (0.0, -9.0, 999.0, 9999.0)
FACTORS = (10.0, 100.0, 1000.0, 0.1)


def tables() -> Iterator[tuple[str, Columns]]:
    """Yield the columns of numbers of each table that is there."""
    paths = sorted(UCI.glob("*.csv")) if UCI.is_dir() else []
    if not paths:
        print("UCI sets skipped: they are not in ../shared/data beside the repository")
    for path in [SAMPLE, *paths]:
        frame = pd.read_csv(path)
        numbers = frame.select_dtypes("number").drop(columns="label", errors="ignore")
        columns = {
            name: numbers[name].to_numpy(float)
            for name in numbers
            if numbers[name].nunique() >= MIN_VALUES
        }
        if columns:
            yield path.stem, columns


def plants(values: np.ndarray) -> Iterator[tuple[str, Callable[[float], float]]]:
    """Yield what may be planted into a column, and how a cell becomes it."""
    present = values[np.isfinite(values)]
    for code in CODES:
        if not np.any(present == code):
            yield f"{code:g}", lambda cell, code=code: code
    for factor in FACTORS:
        sign = f"x {factor:g}" if factor > 1 else f"/ {1 / factor:g}"
        yield sign, lambda cell, factor=factor: cell * factor


class Counts:
    """Planted cells and those that were named, and the same of true rows."""

    def __init__(self) -> None:
        self.planted: dict[str, list[bool]] = {}
        self.true_rows: list[np.ndarray] = []
        self.true_cells: list[np.ndarray] = []
        self.true_doubted: list[bool] = []
        self.n_columns = 0

    def add_split(self, columns: Columns, rng: np.random.Generator) -> None:
        """Leave out a third of the rows once, and count."""
        n_rows = len(next(iter(columns.values())))
        is_left_out = rng.random(n_rows) < LEFT_OUT
        is_named = np.zeros(n_rows, bool)
        for name, values in columns.items():
            past = values[~is_left_out & np.isfinite(values)]
            bounds = bounds_of_range(past.min(), past.max()) if len(past) else None
            if bounds is None:
                continue
            is_named |= bounds.exceeded_by(values)
            new = values[is_left_out & np.isfinite(values)]
            if len(new):
                self.true_cells.append(bounds.exceeded_by(new))
                readings = readings_of(name, past)
                self._doubt(new, bounds, readings)
                cell = float(rng.choice(new))
                self._plant(values, cell, bounds, readings)
                self._rewrite(cell, bounds, readings)
        self.true_rows.append(is_named[is_left_out])

    def _plant(
        self,
        values: np.ndarray,
        cell: float,
        bounds: Bounds,
        readings: ColumnReadings | None,
    ) -> None:
        for sign, change in plants(values):
            planted = change(cell)
            # A 0 times 10 is what it was.
            if planted == cell:
                continue
            is_named = is_listed(planted, bounds, readings)
            self.planted.setdefault(sign, []).append(is_named)

    def _doubt(
        self, new: np.ndarray, bounds: Bounds, readings: ColumnReadings | None
    ) -> None:
        for value in new:
            is_within = not bounds.exceeded_by(np.array([value]))[0]
            is_doubted = is_within and is_listed(float(value), bounds, readings)
            self.true_doubted.append(is_doubted)

    def _rewrite(
        self, cell: float, bounds: Bounds, readings: ColumnReadings | None
    ) -> None:
        for conversion in readings.conversions if readings else ():
            written = conversion.factor * cell + conversion.offset
            is_named = is_listed(written, bounds, readings)
            self.planted.setdefault("in another unit", []).append(is_named)


def readings_of(name: str, past: np.ndarray) -> ColumnReadings | None:
    """Return the other readings of a column by its name and past values."""
    contract = Contract(features={name: Feature(type="number")})
    return readings_of_columns(contract, profile({name: past}, contract)).get(name)


def is_listed(value: float, bounds: Bounds, readings: ColumnReadings | None) -> bool:
    """Return True for a value out of bounds, or with another reading."""
    if bounds.exceeded_by(np.array([value]))[0]:
        return True
    return readings is not None and bool(readings.readings(np.array([value])))


def main() -> None:
    """Print the shares named, of planted cells and of true rows."""
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--splits", type=int, default=20, help="Of each table.")
    n_splits = options.parse_args().splits
    counts = Counts()
    n_tables = 0
    for _, columns in tables():
        rng = np.random.default_rng(n_tables)
        n_tables += 1
        counts.n_columns += len(columns)
        for _ in range(n_splits):
            counts.add_split(columns, rng)
    rows = np.concatenate(counts.true_rows)
    print(f"{n_tables} tables, {counts.n_columns} columns, {len(rows):,} true rows")
    cells = np.concatenate(counts.true_cells)
    print(f"true rows named: {1000 * rows.mean():.2f} of 1,000")
    print(f"true cells named: {1000 * cells.mean():.2f} of 1,000")
    doubted = 1000 * np.mean(counts.true_doubted)
    print(f"true cells within bounds doubted: {doubted:.2f} of 1,000")
    for sign, named in counts.planted.items():
        print(f"{sign:16} {100 * np.mean(named):5.0f} % of {len(named):,} named")


if __name__ == "__main__":
    main()
