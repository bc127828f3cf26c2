"""Signs that rows of a table belong to the same patients: names, blanks, order, copies.

Rows of one patient on both sides of a fold make every promise too good, and no figure
shows it afterwards.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from screening.contract.contract import Contract, Feature
from screening.contract.parsing import parse_feature, parse_texts, present_texts
from screening.data.column_names import INDEX_NAME, is_called
from screening.data.ids import few_rows_each, sizes_of_stems, stems_of
from screening.data.summary import any_match
from screening.errors import UsageError
from screening.identity.reduced import LED_BY_ZERO
from screening.io.arrow_types import is_numeric, to_floats
from screening.io.readers import Block, Source, SourceFile
from screening.schemas.base import Reason
from screening.schemas.reasons import ROWS_OF_ONE_PATIENT
from screening.spelling import quoted

# The head of a table is enough to see how it is made; fewer rows show nothing.
MOST_ROWS = 20_000
MIN_ROWS = 30
# Rows for which the nearest others are searched, and among how many.
N_PROBES = 1_000
MAX_NEIGHBOURS = 10_000
# Distance, in lines of the file, of rows that may be of one patient.
NEAR = 3
# Distances at which rows are alike by chance alone.
BEYOND = (10, 40)
# Share of nearest rows that are near, and its ratio to the share by chance, from which
# rows depend on each other. On clinical tables with several rows a patient the ratio
# was 7.5 to 112, on 27 without 0.7 to 2.7 (docs/benchmarks.md).
MIN_NEAR_SHARE = 0.10
MIN_CONTRAST = 7.0
# Added to both shares, for one of 0.
FLOOR = 0.003
# Fewest changes between near rows for their direction to be judged.
MIN_STEPS = 16
# A column of fewer values separates arms, sites or sexes, but not patients.
FEW_VALUES = 10
# Probability that two rows agree in a column that separates patients; pairs of at most
# so many such columns are tried.
FINE = 0.05
MAX_FINE = 12
# Largest probability that two rows agree in a coarse column; others are not used.
COARSE = 0.8
# With more columns, only every second or third is used to find rows that are alike.
MAX_VALUES = 1_000
# Names of columns in which ids repeat by their nature.
NOT_PEOPLE = re.compile(
    r"ward|hosp|cent(er|re)|site|clinic|station|dep|doctor|phys|nurse|unit|room|bed"
    r"|user|study|trial|device",
    re.IGNORECASE,
)
NUMBER = Feature(type="number")


@dataclass(frozen=True)
class Sign:
    """A sign that several rows belong to one patient.

    Parameters
    ----------
    kind : str
    seen : str
        What was seen, a sentence without a value of the table.
    column : str or None
        Column that separates patients: None without one, "" for one without a name.
    certain : bool
        Training waits until a person has said what the rows are.
    """

    kind: Literal[
        "stem", "first_row_only", "repeated", "slow_columns", "near_in_file", "copies"
    ]
    seen: str
    column: str | None = None
    certain: bool = False

    @property
    def remedy(self) -> str:
        """Remedy: what to do with the table or the command."""
        if self.column is None:
            return (
                "If patients have several rows, name the column of the patient as "
                "`group`, or add one."
            )
        if not self.column:
            return (
                "Write a name above that column, save the table and give the name as "
                "`group`."
            )
        group = quoted(self.column)
        if self.kind == "first_row_only":
            return f"Fill column '{self.column}' down and give `group` {group}."
        return f"If it is the patient, give `group` {group}."


def refuse_dependent(signs: Sequence[Sign]) -> None:
    """Raise UsageError if rows surely are of the same patients and no group is set."""
    certain = " ".join(f"{sign.seen} {sign.remedy}" for sign in signs if sign.certain)
    if certain:
        raise UsageError(
            f"rows seem to belong to the same patients: {certain} If every row is a "
            "different patient, give `independent`",
            parameters=["group", "independent"],
        )


def dependence(
    source: Source,
    contract: Contract,
    head: Sequence[tuple[SourceFile, Block]] | None = None,
) -> list[Sign]:
    """Return the signs of dependent rows, the surest first.

    Parameters
    ----------
    source : Source
    contract : Contract
        A group that it names is believed, unless every row has one of its own; voxels
        without a group are all of one patient.
    head : sequence of (SourceFile, Block), optional
        The first blocks of the source, where they were read already.
    """
    is_grouped = contract.group and contract.group_stem
    if contract.coordinates or is_grouped:
        return []
    roles = (contract.label, contract.time)
    names = [name for name in head_columns(source) if name not in roles]
    if contract.group:
        names = [name for name in names if name == contract.group]
    key = (contract.group, *names)
    if key not in source.signs:
        source.signs[key] = _signs_of_head(source, contract, names, head)
    return source.signs[key]


def _signs_of_head(
    source: Source,
    contract: Contract,
    names: Sequence[str],
    head: Sequence[tuple[SourceFile, Block]] | None,
) -> list[Sign]:
    """Return the signs in some columns of the first rows."""
    if head is None:
        head = _read_head(source, names)
    columns = {name: head_values(name, head)[:MOST_ROWS] for name in names}
    frame = pd.DataFrame(columns)
    has_repeats = frame.nunique() < len(frame)
    is_believed = contract.group and has_repeats.all()
    return [] if is_believed else signs(frame)


def _read_head(source: Source, names: Sequence[str]) -> list[tuple[SourceFile, Block]]:
    """Read the first block of each file, until there are rows enough."""
    head: list[tuple[SourceFile, Block]] = []
    n_rows = 0
    for part in source.files:
        if n_rows >= MOST_ROWS:
            break
        for block in itertools.islice(part.blocks(names, MOST_ROWS), 1):
            head.append((part, block))
            n_rows += block.n_rows
    return head


def reasons(signs: list[Sign]) -> list[Reason]:
    """Return the signs as reasons for attention."""
    return [
        ROWS_OF_ONE_PATIENT(
            column=sign.column or None, sign=sign.seen, remedy=sign.remedy
        )
        for sign in signs
    ]


def head_columns(source: Source) -> list[str]:
    """Return the columns that all files have.

    The first may have no name: an index that was saved with the table.
    """
    headers = [file.header for file in source.files]
    names = []
    for position, name in enumerate(headers[0]):
        in_all = all(name in header for header in headers[1:])
        if in_all and (name or not position):
            names.append(name)
    return names


def head_values(name: str, head: Sequence[tuple[SourceFile, Block]]) -> np.ndarray:
    """Return a column as numbers if nearly all its cells are, else as text.

    Numbers with leading zeros, such as 007, are names and stay text.
    """
    if not head:
        return np.zeros(0)
    parts = [block.columns[name] for _, block in head]
    if all(map(is_numeric, parts)):
        return np.concatenate(list(map(to_floats, parts)))
    parsed = [
        parse_feature(part, NUMBER, file.format.decimal(name)).values
        for (file, _), part in zip(head, parts, strict=True)
    ]
    numbers = np.concatenate(parsed)
    texts = list(map(present_texts, parts))
    n_present = sum(len(part) - part.null_count for part in texts)
    is_number = np.isfinite(numbers).sum() >= 0.9 * n_present
    if is_number and not any(any_match(part, LED_BY_ZERO) for part in texts):
        return numbers
    return np.concatenate(
        [parse_texts(part, None, strip=True).values for part in parts]
    )


def signs(frame: pd.DataFrame) -> list[Sign]:
    """Return the signs in a table without its label.

    Parameters
    ----------
    frame : DataFrame
        Rows in the order of the file; numbers as float64, else text with None.
    """
    if len(frame) < MIN_ROWS or not len(frame.columns):
        return []
    table = _Table(frame)
    named = [*_stems(table), *_first_rows(table), *_repeated(table)]
    if any(sign.certain for sign in named):
        return named
    return [
        *named,
        *_slow(table),
        *_near_in_file(table, table.unsorted),
        *_copies(table),
    ]


class _Table:
    """A table's columns as codes, and samples of its rows.

    Attributes
    ----------
    columns : dict of str to Series
        In the order of the table.
    codes : dict of str to ndarray of int, shape (n_rows,)
        Equal for equal cells.
    values : list of str
        Columns by which rows are alike or not: they neither number nor name rows.
    chance : dict of str to float
        Probability that two rows agree, for each of `values`.
    unsorted : list of str
        Those of `values` by which the file is not sorted.
    fine : list of str
        Those of `unsorted` in which chance seldom lets two rows agree.
    """

    def __init__(self, frame: pd.DataFrame):
        self.frame = frame
        self.columns = {str(name): cells for name, cells in frame.items()}
        self.codes = {name: _codes(cells) for name, cells in self.columns.items()}
        values = [name for name in self.columns if self._is_value(name)]
        self.values = values[:: 1 + len(values) // MAX_VALUES]
        self.chance = {name: _chance(self.codes[name]) for name in self.values}
        self.unsorted = [
            name
            for name in self.values
            if not _sorted(self.codes[name], self.chance[name])
        ]
        self.fine = [name for name in self.unsorted if self.chance[name] <= FINE]
        self.n_rows = min(len(frame), MAX_NEIGHBOURS)
        rng = np.random.default_rng(0)
        n_probes = min(N_PROBES, self.n_rows)
        self.probes = np.sort(rng.choice(self.n_rows, n_probes, replace=False))
        self._scaled = {name: self._scale(name, rng) for name in self.unsorted}

    def _scale(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """Scale a column to columns of numbers with a little noise.

        Noise decides which of several equal rows is the nearest; their places in the
        file must not.
        """
        scaled = _scaled(self.columns[name])[: self.n_rows]
        return scaled + 1e-6 * rng.normal(size=scaled.shape)

    def _is_value(self, name: str) -> bool:
        """Return False for a constant column, and one that numbers or names rows.

        The latter has such a name, or whole numbers or texts that nearly all differ.
        """
        if is_called(name, "row", "patient"):
            return False
        n_distinct = self.codes[name].max() + 1
        has_repeats = n_distinct <= 0.95 * len(self.frame)
        return n_distinct > 1 and (has_repeats or _measured(self.columns[name]))

    def nearest(self, *without: str) -> np.ndarray:
        """Return the row nearest to each probe, shape (n_probes,)."""
        parts = [part for name, part in self._scaled.items() if name not in without]
        matrix = np.hstack(parts) if parts else np.zeros((self.n_rows, 1))
        # A table that is read by a contract need not wait for scikit-learn.
        from sklearn.neighbors import NearestNeighbors

        index = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(matrix)
        two = index.kneighbors(matrix[self.probes], return_distance=False)
        nearest, second = two.T
        return np.where(nearest == self.probes, second, nearest)

    def together(self, groups: np.ndarray, *without: str) -> float:
        """Return how often the nearest other row is of the same group, against chance.

        0 if that may be chance.
        """
        groups = groups[: self.n_rows]
        n_probes = len(self.probes)
        nearest = self.nearest(*without)
        share = np.mean(groups[self.probes] == groups[nearest])
        chance = _chance(groups)
        highest_by_chance = chance + 5 * np.sqrt(chance / n_probes)
        if share < max(5 / n_probes, highest_by_chance):
            return 0.0
        return float(share / max(chance, 1 / len(groups)))


def _codes(cells: pd.Series) -> np.ndarray:
    """Return the rank of each value, shape (n_rows,); missing values share one."""
    return pd.factorize(cells, sort=True, use_na_sentinel=False)[0]


def _joint(*codes: np.ndarray) -> np.ndarray:
    """Return one code for the values of several columns, shape (n_rows,)."""
    rows = np.column_stack(codes)
    _, joint = np.unique(rows, axis=0, return_inverse=True)
    return joint.ravel()


def _chance(codes: np.ndarray) -> float:
    """Return the probability that two rows agree."""
    counts = np.bincount(codes).astype(float)
    n_rows = len(codes)
    n_agreeing = (counts * (counts - 1)).sum()
    return float(n_agreeing / (n_rows * (n_rows - 1)))


def _number(cells: pd.Series) -> bool:
    """Return True for a column of numbers."""
    return cells.dtype.kind == "f"


def _measured(cells: pd.Series) -> bool:
    """Return True for numbers that are not all whole."""
    if not _number(cells):
        return False
    fractions = np.nan_to_num(cells.to_numpy()) % 1
    return bool(fractions.any())


def _scaled(cells: pd.Series) -> np.ndarray:
    """Return ranks of numbers from 0 to 1, or a column for each common text.

    Shape (n_rows, n_values).
    """
    if _number(cells):
        ranks = cells.rank(pct=True).fillna(0.5)
        return np.column_stack([ranks, 0.5 * cells.isna()])
    common = cells.value_counts().index[:20]
    is_text = cells.to_numpy()[:, None] == common.to_numpy()
    return 0.5 * is_text.astype(float)


def _sorted(codes: np.ndarray, chance: float) -> bool:
    """Return True if a file is sorted or cut by a column, even within another."""
    correlation = np.corrcoef(codes, np.arange(len(codes)))[0, 1]
    if abs(correlation) > 0.7:
        return True
    for lag in (1, 10):
        steps = codes[lag:] - codes[:-lag]
        steps = steps[steps != 0]
        if not steps.size or abs(np.mean(steps > 0) - 0.5) > 0.2:
            return True
    # Arms or sites one after the other.
    stays = float(np.mean(np.diff(codes) == 0))
    return codes.max() < FEW_VALUES and stays > (1 + chance) / 2


def _stems(table: _Table) -> Iterator[Sign]:
    """Yield columns of names that differ by a running end only."""
    for name, cells in table.columns.items():
        if _number(cells) or cells.isna().mean() > 0.1 or is_called(name, "place"):
            continue
        names = cells.fillna("")
        sizes = sizes_of_stems(names.tolist())
        if not sizes:
            continue
        stems = pd.Series(stems_of(names.to_numpy()))
        multiple = table.together(_codes(stems))
        if few_rows_each(names.tolist(), sizes) or multiple >= 3:
            several = (len(names) - sizes.count(1)) / len(names)
            certain = several >= 0.8 and multiple >= 1.5
            seen = (
                f"Names in {_called(name)} are {len(sizes):,} stems with running "
                f"numbers, such as ab_1 and ab_2: {several:.0%} of rows seem to share "
                "their patient with others."
            )
            yield Sign("stem", seen, name, certain)


def _first_rows(table: _Table) -> Iterator[Sign]:
    """Yield columns that are filled in the first row of a patient only."""
    for name, cells in table.columns.items():
        is_filled = cells.notna().to_numpy()
        values = cells[is_filled]
        fewest = max(FEW_VALUES, 0.02 * len(cells))
        has_gaps = fewest <= len(values) <= 0.7 * len(cells)
        if not is_filled[0] or not has_gaps or _measured(cells):
            continue
        if values.nunique() < 0.98 * len(values):
            continue
        others = table.frame.drop(columns=name).notna().to_numpy()
        # Cells of a spreadsheet that were merged over the rows of a patient.
        is_equal = others == is_filled[:, None]
        is_merged = bool(is_equal.all(axis=0).any())
        certain = is_called(name, "patient") or (is_merged and _are_codes(values))
        if certain or is_called(name, "row"):
            seen = (
                f"{_called(name, 'C')} is filled in {len(values):,} of {len(cells):,} "
                "rows, each time with a different name, as if only a patient's first "
                "row had it."
            )
            yield Sign("first_row_only", seen, name, certain)


def _are_codes(values: pd.Series) -> bool:
    """Return True for ascending numbers, or for texts that nearly all have a digit."""
    if _number(values):
        return bool((np.diff(values) > 0).all())
    return bool(values.str.contains(r"\d").mean() >= 0.9)


def _names_people(name: str) -> bool:
    """Return True for a column that is called as patients are, or as their rows are."""
    if is_called(name, "patient"):
        return True
    return is_called(name, "row") and not NOT_PEOPLE.search(name)


def _repeated(table: _Table) -> Iterator[Sign]:
    """Yield columns that are called as patients or rows are and have repeats."""
    for name, cells in table.columns.items():
        people = _names_people(name)
        n_distinct = cells.nunique()
        if not people:
            # Numbers of patients with consecutive rows, under a name such as "nr".
            n_stretches = 1 + np.count_nonzero(np.diff(table.codes[name]))
            if not INDEX_NAME.fullmatch(name) or n_distinct < 0.95 * n_stretches:
                continue
        if cells.isna().mean() > 0.1 or n_distinct < FEW_VALUES or _measured(cells):
            continue
        several = float(cells.dropna().duplicated(keep=False).mean())
        if several >= 0.02:
            seen = f"{several:.0%} of rows have the same '{name}' as another row."
            yield Sign("repeated", seen, name, certain=people and several > 0.5)


def _slow(table: _Table) -> Iterator[Sign]:
    """Find runs of rows that repeat columns, as age and sex, and change all at once."""
    best = 0.3
    names: list[str] = []
    is_repeated = {
        name: np.diff(table.codes[name]) == 0
        for name in table.values
        if table.chance[name] <= COARSE
    }
    for lead in table.fine:
        share = float(is_repeated[lead].mean())
        if share < best or share < 4 * _share_far(table.codes[lead]):
            continue
        followers = [
            name
            for name, repeats in is_repeated.items()
            if _follows(repeats, is_repeated[lead], table.chance[name])
        ]
        # The leading column follows itself.
        if len(followers) > 1:
            followers.remove(lead)
            best = share
            names = [lead, *followers]
    if names:
        together = " and ".join(map(repr, names[:4]))
        seen = f"{best:.0%} of rows repeat {together} of the row above them."
        yield Sign("slow_columns", seen)


def _share_far(codes: np.ndarray) -> float:
    """Return how often rows agree that lie far apart in the file."""
    lags = [lag for lag in (10, 20, 40) if lag < len(codes)]
    shares = [np.mean(codes[lag:] == codes[:-lag]) for lag in lags]
    return float(np.mean(shares))


def _follows(repeats: np.ndarray, lead_repeats: np.ndarray, chance: float) -> bool:
    """Return True if a column repeats where the leading one does, and seldom else."""
    if np.mean(repeats[lead_repeats]) < 0.95:
        return False
    return bool(np.mean(repeats[~lead_repeats]) <= (1 + chance) / 2)


def _near_in_file(table: _Table, names: list[str]) -> Iterator[Sign]:
    """Find nearest rows that lie next to each other in the file.

    And not only in the same part of it, as where a file is sorted by ward.
    """
    if len(names) < 3:
        return
    others = [name for name in table.unsorted if name not in names]
    nearest = table.nearest(*others)
    differs = np.zeros(len(nearest), bool)
    for name in names:
        codes = table.codes[name]
        differs |= codes[nearest] != codes[table.probes]
    # Rows that are equal lie together wherever a table is sorted.
    distances = np.abs(nearest - table.probes)
    lag = np.where(differs, distances, table.n_rows)
    is_near = lag <= NEAR
    near_share = float(np.mean(is_near))
    first, last = BEYOND
    is_beyond = (lag >= first) & (lag <= last)
    by_chance = float(np.mean(is_beyond)) * NEAR / (1 + last - first)
    if near_share < max(MIN_NEAR_SHARE, 12 / table.n_rows):
        return
    if (near_share + FLOOR) / (by_chance + FLOOR) < MIN_CONTRAST:
        return
    pairs = np.sort([table.probes, nearest], axis=0)[:, is_near]
    # Rows that were sorted by a score are near for that; another look without it.
    even = [name for name in names if _goes_both_ways(table.codes[name], pairs)]
    if len(even) < len(names):
        yield from _near_in_file(table, even)
        return
    seen = (
        f"For {near_share:.0%} of rows, the most similar row is within {NEAR} lines in "
        "the file."
    )
    yield Sign("near_in_file", seen)


def _goes_both_ways(codes: np.ndarray, pairs: np.ndarray) -> bool:
    """Return True if a column rises in about half of the pairs of rows.

    Where rows were sorted by a score, its values nearly always rise, or fall.
    `pairs`: positions, shape (2, n_pairs), the upper row first.
    """
    steps = np.diff(codes[pairs], axis=0)
    rises = steps[steps != 0] > 0
    if rises.size < MIN_STEPS:
        return True
    return bool(abs(rises.mean() - 0.5) <= 0.25)


def _copies(table: _Table) -> Iterator[Sign]:
    """Find rows that agree in two fine columns, and in most that are coarse.

    In a fine column chance seldom lets two rows agree.
    """
    numbers = [name for name in table.fine if _number(table.columns[name])]
    numbers.sort(key=table.chance.__getitem__)
    best = 0.2
    names: list[str] = []
    for first, second in itertools.combinations(numbers[-MAX_FINE:], 2):
        both = _codes_of_pair(table, first, second)
        shared = float(np.mean(np.bincount(both)[both] > 1))
        by_chance = table.chance[first] * table.chance[second]
        if shared <= best or _chance(both) < 5 * by_chance:
            continue
        is_alike = _agree_in_coarse(table, both)
        if is_alike and table.together(both, first, second) >= 3:
            best = shared
            names = [first, second]
    if names:
        seen = (
            f"{best:.0%} of rows agree with another row in {' and '.join(names)}, and "
            "most other columns."
        )
        yield Sign("copies", seen)


def _codes_of_pair(table: _Table, first: str, second: str) -> np.ndarray:
    """Return one code for a row's values in two columns, shape (n_rows,).

    A row with a missing value has a code of its own: it agrees with none.
    """
    is_whole = table.frame[[first, second]].notna().all(axis=1)
    whole = np.flatnonzero(is_whole)
    codes = np.arange(len(table.frame))
    joint = _joint(table.codes[first][whole], table.codes[second][whole])
    codes[whole] = whole[joint]
    return codes


def _agree_in_coarse(table: _Table, codes: np.ndarray) -> bool:
    """Return True if rows of one code agree in most coarse columns too.

    Rows of a ward or a region have its values in common; their patients differ in sex
    and most else.
    """
    coarse = [name for name in table.values if FINE < table.chance[name] <= COARSE]
    agree = [
        _chance(_joint(codes, table.codes[name])) >= 0.9 * _chance(codes)
        for name in coarse
    ]
    return bool(agree) and bool(np.mean(agree) >= 0.5)


def _called(name: str, first_letter: str = "c") -> str:
    """Return a column's name for a message."""
    if not name:
        return f"{first_letter}olumn 1, which has no name,"
    return f"{first_letter}olumn '{name}'"
