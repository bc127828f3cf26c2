"""Whether rows of a table belong to the same patient: by its names, its blanks, its order and its copies.

Rows of one patient on both sides of a fold make every promise too good, and no figure shows it afterwards.
None of the signs needs the label.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import mannwhitneyu
from sklearn.neighbors import NearestNeighbors

from screening.contract.contract import Contract
from screening.data.ids import counts_rows, few_rows_each, sizes_of_stems, stems_of
from screening.data.summary import INDEX_NAME, is_called
from screening.errors import UsageError
from screening.io.columns import plain, texts
from screening.io.number_formats import LED_BY_ZERO, fast_numbers
from screening.io.readers import Block, Part, Source
from screening.schemas.base import Reason

CODE = "rows_of_one_patient"
# The head of a table is enough to see how it is made; fewer rows show nothing.
MOST_ROWS, FEWEST_ROWS = 20_000, 30
# Rows whose nearest others are looked for, and among how many.
PROBES, AMONG = 1_000, 10_000
# Lines of the file that are near, and those as near by chance; on clinical tables with several rows a patient
# the shares' ratio was 7.5 to 112, on 27 without 0.7 to 2.7 (docs/benchmarks.md).
NEAR, BEYOND = 3, (10, 40)
LEAST_NEAR, LEAST_CONTRAST, FLOOR = 0.10, 7.0, 0.003
FEWEST_STEPS = 16
# A column of fewer values tells arms, sites or sexes apart, and no patients.
FEW_VALUES = 10
# Chance that two rows agree in a column that tells patients apart, and columns of which pairs are tried.
FINE, MOST_FINE = 0.05, 12
# So many columns in which chance lets two rows agree tell whether they are of one patient.
MANY = 8
LONGEST_CODE = 24
# Of more columns with values every second or third says as well which rows are alike.
MOST_VALUES = 1_000
# Whose ids repeat by their nature.
NOT_PEOPLE = re.compile(
    r"ward|hosp|cent(er|re)|site|clinic|station|dep|doctor|phys|nurse|unit|room|bed|user|study|trial|device",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Sign:
    """One sign that rows are not patients of their own."""

    kind: Literal["stem", "first_row_only", "repeated", "slow_columns", "near_in_file", "copies"]
    seen: str  # a sentence without a value of the table
    column: str | None = None  # that tells patients apart; None where none does, "" where it has no name
    certain: bool = False  # training waits until somebody has said what the rows are

    @property
    def remedy(self) -> str:
        """What to do with the table or the command."""
        group = f"--group {self.column!r}"
        if self.column is None:
            return (
                "If patients have several rows, add a column with each row's patient and name it by --group."
            )
        if not self.column:
            return "Write a name above that column, save the table and give the name by --group."
        if self.kind == "stem":
            return f"Give {group}: rows whose names have one stem then count as one patient."
        if self.kind == "first_row_only":
            down = f"Fill column '{self.column}' down, so that each row has its patient"
            return f"{down}, save the table and give {group}."
        return f"If it names the patient, give {group}."

    @property
    def note(self) -> str:
        """What a starter contract says of it."""
        if not self.column:
            return f"{self.seen} {self.remedy}"
        if self.kind == "first_row_only":
            return f"{self.seen} It is filled down and made the group, the patient of a row; review"
        return f"{self.seen} '{self.column}' was therefore made the group, the patient of a row; review"


def refuse_dependent(signs: Sequence[Sign]) -> None:
    """UsageError where rows are surely of the same patients and nobody has said which."""
    certain = [sign for sign in signs if sign.certain]
    if certain:
        seen = " ".join(f"{sign.seen} {sign.remedy}" for sign in certain)
        raise UsageError(
            f"rows seem to belong to the same patients, and figures would be too good. {seen} "
            "If every row is a patient of its own, say so with --independent (independent=True)"
        )


def dependence(
    source: Source, contract: Contract, head: Iterable[tuple[Part, Block]] | None = None
) -> list[Sign]:
    """Signs of dependent rows in a table, the surest first; none where the contract has a group that binds.

    `head`: its first blocks, where they were read already. Voxels are looked at no further: without a group
    all are of one patient.
    """
    if contract.coordinates or (contract.group and contract.group_stem):
        return []
    columns, parts, rows = head_columns(source), defaultdict[str, list[pa.Array]](list), 0
    blocks = ((file, block) for file in source.files for block in file.blocks(columns, MOST_ROWS))
    for file, block in head or blocks:
        for name in columns:
            parts[name].append(_words(block.columns[name], file.decimal(name)))
        rows += block.n_rows
        if rows >= MOST_ROWS:
            break
    frame = pd.DataFrame(
        # The texts of a column go when its numbers are there: of 5,000 columns both take their room.
        {name: _as_numbers(pa.concat_arrays(parts.pop(name))[:MOST_ROWS]) for name in [*parts]}
    )
    if contract.group:
        # A group of which every row has its own binds nothing, so that only a stem may.
        alone = contract.group in frame and frame[contract.group].nunique() == len(frame)
        frame = frame[[contract.group]] if alone else frame[[]]
    return signs(frame.drop(columns=[name for name in (contract.label, contract.time) if name in frame]))


def reasons(signs: list[Sign]) -> list[Reason]:
    """What a model's page says of signs, one reason each."""
    return [Reason(CODE, sign.seen, sign.column or None, remedy=sign.remedy) for sign in signs]


def head_columns(source: Source) -> list[str]:
    """Columns that all files have; the first may have no name, where an index was saved with the table."""
    first, *others = (file.header for file in source.files)
    return [
        name
        for position, name in enumerate(first)
        if (name or not position) and all(name in header for header in others)
    ]


def _words(cells: pa.Array, decimal: str) -> pa.Array:
    """Texts with a decimal point, null where blank."""
    column = texts(plain(cells))
    if column is None:
        return pa.nulls(len(cells), pa.string())
    column = pc.utf8_trim_whitespace(column.cast(pa.string()))
    column = pc.replace_substring(column, decimal, ".") if decimal != "." else column
    return pc.if_else(pc.equal(column, ""), None, column)


def _as_numbers(column: pa.Array) -> np.ndarray:
    """A column as numbers where nearly all its cells are; zeros that lead are a name's."""
    led = pc.any(pc.match_substring_regex(column, LED_BY_ZERO)).as_py()
    numbers = None if led else fast_numbers(column, ".")
    if numbers is None:
        cells = np.array(column.to_pylist(), dtype=object)
        numbers = pd.to_numeric(cells, errors="coerce").astype(float)
        if led or np.isfinite(numbers).sum() < 0.9 * (len(column) - column.null_count):
            return cells
    return numbers


def signs(frame: pd.DataFrame) -> list[Sign]:
    """Signs that several rows of a table belong to one patient.

    `frame`: rows in the order of the file, numbers as float64, else text with None where blank; no label.
    """
    if len(frame) < FEWEST_ROWS or not len(frame.columns):
        return []
    table = _Table(frame)
    named = [*_stems(table), *_first_rows(table), *_repeated(table)]
    if any(sign.certain for sign in named):
        return named
    by_values = [*_slow(table), *_near_in_file(table), *_copies(table)]
    column = None if named or not by_values else table.patient()
    return [*named, *(Sign(sign.kind, sign.seen, column) for sign in by_values)]


class _Table:
    """A table's columns as codes, and those of them by which rows are alike or not as one matrix."""

    def __init__(self, frame: pd.DataFrame):
        self.frame = frame
        self.codes = {str(name): _codes(cells) for name, cells in frame.items()}
        self.values = {
            name: codes
            for name, codes in self.codes.items()
            # Nor whole numbers or texts of which nearly all differ, for these number or name the rows.
            if not is_called(name, "row", "patient")
            and codes.max()
            and (codes.max() + 1 <= 0.95 * len(frame) or _measured(frame[name]))
        }
        self.values = dict(
            itertools.islice(self.values.items(), 0, None, 1 + len(self.values) // MOST_VALUES)
        )
        self.chance = {name: _pairs(codes) / _pairs(0 * codes) for name, codes in self.values.items()}
        self.unsorted = [n for n, codes in self.values.items() if not _sorted(codes, self.chance[n])]
        self.n_rows = min(len(frame), AMONG)
        rng = np.random.default_rng(0)
        self.probes = np.sort(rng.choice(self.n_rows, min(PROBES, self.n_rows), replace=False))
        # Of rows alike in every value, chance says which is the nearest, and not their places.
        self.parts = {
            name: part + 1e-6 * rng.normal(size=part.shape)
            for name, part in ((name, _scaled(frame[name])[: self.n_rows]) for name in self.unsorted)
        }

    def matrix(self, *without: str) -> np.ndarray:
        """Values of the rows, ranks from 0 to 1, shape (n_rows, n_values)."""
        parts = [part for name, part in self.parts.items() if name not in without]
        return np.hstack(parts) if parts else np.zeros((self.n_rows, 0))

    def nearest(self, *without: str) -> np.ndarray | None:
        """The row nearest to each probe, shape (n_probes,); None where rows have no values."""
        matrix = self.matrix(*without)
        if not matrix.shape[1]:
            return None
        index = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(matrix)
        two = index.kneighbors(matrix[self.probes], return_distance=False)
        return np.where(two[:, 0] == self.probes, two[:, 1], two[:, 0])

    def together(self, groups: np.ndarray, *without: str) -> float:
        """How often the nearest other row is of one's group, as a multiple of chance; 0 if by chance."""
        nearest = self.nearest(*without)
        if nearest is None:
            return 0.0
        groups = groups[: self.n_rows]
        share, chance = np.mean(groups[self.probes] == groups[nearest]), _pairs(groups) / _pairs(0 * groups)
        if share * len(self.probes) < 5 or share < chance + 5 * np.sqrt(chance / len(self.probes)):
            return 0.0
        return float(share / max(chance, 1 / len(groups)))

    def in_stretches(self, name: str) -> bool:
        """Whether each value of a column fills one stretch of rows."""
        values, changes = self.codes[name].max() + 1, np.count_nonzero(np.diff(self.codes[name]))
        return bool(FEW_VALUES <= values <= len(self.frame) / 1.5 and values >= 0.95 * (1 + changes))

    def patient(self) -> str | None:
        """A column of which each value fills one stretch of rows that are near in all others."""
        best, column = LEAST_CONTRAST, None
        for name, codes in self.codes.items():
            if not self.in_stretches(name) or _measured(self.frame[name]):
                continue
            if (multiple := self.together(codes, name)) > best:
                best, column = multiple, name
        return column


def _codes(cells: pd.Series) -> np.ndarray:
    """The place of each value among the sorted ones, shape (n_rows,); missing ones share one."""
    return pd.factorize(cells, sort=True, use_na_sentinel=False)[0]


def _pairs(codes: np.ndarray) -> float:
    """Pairs of rows with one code."""
    counts = np.bincount(codes).astype(float)
    return float((counts * (counts - 1) / 2).sum())


def _number(cells: pd.Series) -> bool:
    return cells.dtype.kind == "f"


def _measured(cells: pd.Series) -> bool:
    return _number(cells) and bool(np.any(np.nan_to_num(cells.to_numpy()) % 1))


def _scaled(cells: pd.Series) -> np.ndarray:
    """Ranks of numbers from 0 to 1; of texts a column for each of the commonest; shape (n_rows, n_values)."""
    if _number(cells):
        ranks = cells.rank(pct=True).fillna(0.5).to_numpy()[:, None]
        return np.hstack([ranks, 0.5 * cells.isna().to_numpy()[:, None]]) if cells.isna().any() else ranks
    common = cells.value_counts().index[:20]
    return 0.5 * (cells.to_numpy()[:, None] == common.to_numpy()[None]).astype(float)


def _sorted(codes: np.ndarray, chance: float) -> bool:
    """Whether a file is sorted or cut by a column, alone, within another, or nearly so."""
    if abs(np.corrcoef(codes, np.arange(len(codes)))[0, 1]) > 0.7:
        return True
    for lag in (1, 10):
        steps = codes[lag:] - codes[:-lag]
        steps = steps[steps != 0]
        if not steps.size or abs(np.mean(steps > 0) - 0.5) > 0.2:
            return True
    # Arms or sites one after the other.
    return codes.max() < FEW_VALUES and float(np.mean(np.diff(codes) == 0)) > (1 + chance) / 2


def _stems(table: _Table) -> Iterator[Sign]:
    """Names that are one but for a running end."""
    for name, cells in table.frame.items():
        if _number(cells) or cells.isna().mean() > 0.1 or is_called(str(name), "place"):
            continue
        names = cells.fillna("")
        sizes = sizes_of_stems(names.tolist())
        if not sizes:
            continue
        multiple = table.together(_codes(pd.Series(stems_of(names.to_numpy()))))
        counted = few_rows_each(names.tolist(), sizes)
        sure = multiple >= 1.5 or counts_rows(names.tolist())
        if counted or multiple >= 3:
            several = sum(size for size in sizes if size > 1) / len(names)
            seen = (
                f"Names in {_called(name)} are {len(sizes):,} stems with a running end, as ab_1 and ab_2: "
                f"{several:.0%} of rows seem to share their patient with others."
            )
            yield Sign("stem", seen, str(name), certain=several >= 0.8 and sure)


def _first_rows(table: _Table) -> Iterator[Sign]:
    """Names that stand in a first row only, the rows below it being blank."""
    for name, cells in table.frame.items():
        given = cells.notna().to_numpy()
        if not given[0] or given.mean() > 0.7 or given.sum() < max(FEW_VALUES, 0.02 * len(cells)):
            continue
        values = cells[given]
        if values.nunique() < 0.98 * len(values) or _measured(cells):
            continue
        coded = (
            bool((np.diff(values) > 0).all())
            if _number(cells)
            else values.str.len().max() <= LONGEST_CODE and values.str.contains(r"\d").mean() >= 0.9
        )
        if not (coded or is_called(str(name), "row", "patient")):
            continue
        steps = np.abs(np.diff(table.matrix(str(name)), axis=0)).sum(axis=1)
        inside = ~given[1 : table.n_rows]
        alike = inside.any() and not inside.all() and steps.any()
        alike = alike and mannwhitneyu(steps[inside], steps[~inside], alternative="less").pvalue < 1e-3
        others = (column for label, column in table.frame.items() if label != name)
        merged = any((column.notna().to_numpy() == given).all() for column in others)
        certain = bool(merged or alike)
        if certain or is_called(str(name), "row", "patient"):
            seen = (
                f"{_called(name, 'C')} is filled in {given.sum():,} of {len(cells):,} rows, each time with "
                "another name, as where cells are merged and only a patient's first row has it."
            )
            yield Sign("first_row_only", seen, str(name), certain=certain)


def _repeated(table: _Table) -> Iterator[Sign]:
    """A column that is called as patients or rows are, and whose values repeat."""
    for name, cells in table.frame.items():
        called = str(name)
        people = is_called(called, "patient") or (is_called(called, "row") and not NOT_PEOPLE.search(called))
        if not people and not (INDEX_NAME.fullmatch(called) and table.in_stretches(called)):
            continue
        several = float(cells.dropna().duplicated(keep=False).mean())
        if cells.isna().mean() > 0.1 or cells.nunique() < FEW_VALUES or several < 0.02 or _measured(cells):
            continue
        seen = f"{several:.0%} of rows have the same '{name}' as another row."
        yield Sign("repeated", seen, called, certain=people and several > 0.5)


def _slow(table: _Table) -> Iterator[Sign]:
    """Stretches of rows that repeat columns, such as age and sex, and then change them all at once."""
    best, names = 0.3, list[str]()
    for lead in table.unsorted:
        codes, chance = table.values[lead], table.chance[lead]
        same = np.diff(codes) == 0
        far = np.mean([np.mean(codes[lag:] == codes[:-lag]) for lag in (10, 20, 40) if lag < len(codes)])
        # Stretches longer than that are a patient's only if the value is measured, and no site's or batch's.
        long = same.mean() >= 0.95 and codes.max() >= 2 * FEW_VALUES and _number(table.frame[lead])
        if chance > FINE or same.mean() < best or not (long or same.mean() - chance >= 4 * (far - chance)):
            continue
        alike = {
            name: np.mean(np.diff(other)[same] == 0)
            for name, other in table.values.items()
            if name != lead and table.chance[name] <= 0.8
        }
        others = [
            name
            for name, share in alike.items()
            if share >= 0.95
            and np.mean(np.diff(table.values[name])[~same] == 0) <= (1 + table.chance[name]) / 2
        ]
        # Rows of one region share what it has, and of ten other columns most no more than by chance.
        coarse = [name for name in alike if table.chance[name] > FINE]
        beyond = [(alike[name] - table.chance[name]) / (1 - table.chance[name]) for name in coarse]
        if len(coarse) >= MANY and np.median(beyond) < 0.1:
            continue
        if others:
            best, names = float(same.mean()), [lead, *others]
    if names:
        yield Sign("slow_columns", f"{best:.0%} of rows repeat {_listed(names)} of the row above them.")


def _near_in_file(table: _Table) -> Iterator[Sign]:
    """Nearest rows that lie next to each other in the file, and not only in the same part of it."""
    n_rows, names = table.n_rows, table.unsorted
    by_chance = _places_apart(n_rows, 1, NEAR) / _places_apart(n_rows, *BEYOND)
    while len(names) >= 3:
        nearest = table.nearest(*(name for name in table.unsorted if name not in names))
        if nearest is None:
            return
        # Where rows were sorted by a score, equal ones lie together, and of others a column runs one way.
        differ = np.any(
            [table.values[name][nearest] != table.values[name][table.probes] for name in names], axis=0
        )
        lag = np.where(differ, np.abs(nearest - table.probes), n_rows)
        near = float(np.mean(lag <= NEAR))
        beyond = float(np.mean((lag >= BEYOND[0]) & (lag <= BEYOND[1]))) * by_chance
        if near < max(LEAST_NEAR, 12 / n_rows) or (near + FLOOR) / (beyond + FLOOR) < LEAST_CONTRAST:
            return
        pairs = np.sort([table.probes, nearest], axis=0)[:, lag <= NEAR]
        # Values that nearly always rise from one to the other, or nearly always fall.
        steps = {name: np.diff(table.values[name][pairs], axis=0) for name in names}
        rises = {name: step[step != 0] > 0 for name, step in steps.items()}
        even = [n for n, up in rises.items() if up.size < FEWEST_STEPS or abs(np.mean(up) - 0.5) <= 0.25]
        if len(even) == len(names):
            seen = f"{near:.0%} of rows have the row most like them within {NEAR} lines of the file."
            yield Sign("near_in_file", seen)
            return
        names = even


def _places_apart(n_rows: int, low: int, high: int) -> int:
    """Pairs of rows that lie so many lines apart."""
    return sum(max(n_rows - lag, 0) for lag in range(low, high + 1))


def _copies(table: _Table) -> Iterator[Sign]:
    """Rows that agree in two columns in which chance seldom lets two agree, and are near in all others."""
    fine = [n for n in table.unsorted if table.chance[n] <= FINE and _number(table.frame[n])]
    fine = sorted(fine, key=table.chance.__getitem__)[-MOST_FINE:]
    best, names = 0.2, list[str]()
    for first, second in itertools.combinations(fine, 2):
        if abs(np.corrcoef(table.values[first], table.values[second])[0, 1]) > 0.9:
            continue
        # Each missing value has a code of its own: two that are missing agree in nothing.
        first_codes, second_codes = (
            np.where(table.frame[name].isna(), len(codes) + np.arange(len(codes)), codes)
            for name, codes in ((name, table.values[name]) for name in (first, second))
        )
        both = np.unique(first_codes * 2 * len(second_codes) + second_codes, return_inverse=True)[1]
        shared = float(np.mean(np.bincount(both)[both] > 1))
        if shared <= best or _pairs(both) < 5 * _pairs(first_codes) * table.chance[second]:
            continue
        thirds = [name for name in table.values if name not in (first, second) and table.chance[name] <= 0.8]
        same = [_follows(table, name, both, first_codes, second_codes) for name in thirds]
        # What a ward or a region has in common follows too; its patients differ in sex and most else.
        coarse = [table.chance[name] > FINE for name in thirds]
        if (
            any(same)
            and 2 * np.sum(same, where=coarse) >= np.sum(coarse)
            and table.together(both, first, second) >= 3
        ):
            best, names = shared, [first, second]
    if names:
        yield Sign(
            "copies", f"{best:.0%} of rows agree with another row in {_listed(names)}, and in most else."
        )


def _follows(
    table: _Table, name: str, both: np.ndarray, first_codes: np.ndarray, second_codes: np.ndarray
) -> bool:
    """Whether rows that agree in both columns agree in a third one, unlike those that agree in one."""
    third, n_rows = table.values[name], len(both)
    shares = [
        _pairs(np.unique(codes * n_rows + third, return_inverse=True)[1]) / max(_pairs(codes), 1.0)
        for codes in (both, first_codes, second_codes)
    ]
    return shares[0] >= 0.9 and max(shares[1:]) <= (shares[0] + table.chance[name]) / 2


def _called(name: object, first_letter: str = "c") -> str:
    """A column in a sentence, at its head with a large first letter."""
    return f"{first_letter}olumn '{name}'" if name else f"{first_letter}olumn 1, which has no name,"


def _listed(names: list[str]) -> str:
    *most, last = [f"'{name}'" for name in names[:4]]
    return f"{', '.join(most)} and {last}" if most else last
