"""From typed columns to the numeric matrix that kernels see; everything learned is kept as plain arrays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from screening.contract.contract import Contract
from screening.data.cohort import Cohort
from screening.errors import CohortError
from screening.io.columns import Columns, absent, count_rows

# A 0/1 column set in few rows would stand apart by 1 / sd; below this sd it does not grow further.
LEAST_SPREAD = 0.1
# Nothing was learned about a column that is constant in training: divided by this, it stays zero.
UNINFORMATIVE = 1e300
BLOCK, BLOCK_ROWS = 32, 4096  # columns, and rows, at a time
# A category of more values than this is encoded by beginnings: so many at most, each of so many of the rows.
MANY_VALUES = 30
MOST_PREFIXES = 30
LEAST_SHARE, LEAST_ROWS = 0.01, 10
# Beyond this a beginning tells hardly anything that its absence does not.
MOST_SHARE = 0.9
NUMBER = re.compile(r"(?P<whole>\d+)(\.(?P<finer>\d*))?")
# K35.8, 5-470, N02BE01: a code, whose beginning is its chapter.
CODE = re.compile(r"[A-Za-z]{0,3}[-.]?\d[A-Za-z0-9.\-/+*]*")
EVERY_VALUE, WHOLE = -1, 0


class Encoder:
    """Impute, one-hot encode, centre and scale, as learned on the rows `fit` was given.

    number: missing to the median. boolean, ordinal (codes 0, 1, ...): to the lower median. category: 0/1
    columns (`Category`), missing to the most frequent or, where the contract says so, a level of its own; a
    level not seen in training has no column set, or of a code those of its chapter, and lies at the mean of a
    column that tells two levels apart. Where the contract asks for it, a 0/1 column `NAME missing` is added.
    Then every column gets zero mean and unit variance over the training rows (of 0/1 columns, an sd under 0.1
    is 0.1).
    """

    names: list[str]  # encoded columns, such as `age`, `ward=ICU`, `lactate missing`
    columns: list[str]  # the feature of each
    medians: dict[
        str, float | str | None
    ]  # what is put where a feature is missing, as in `Cohort.values`

    def __init__(self, contract: Contract):
        self.contract = contract
        # By name: the columns of a table in another order are encoded alike.
        self._learned: dict[str, Category | float] = dict.fromkeys(
            sorted(contract.features), 0.0
        )

    def fit(self, cohort: Cohort) -> Encoder:
        if not cohort.n_rows:
            raise CohortError("no rows to learn the encoding from")
        for name in self._learned:
            feature, values = self.contract.features[name], cohort.values[name]
            if feature.type == "category":
                missing_level = feature.missing == "category"
                self._learned[name] = Category.learned(
                    values, feature.categories, missing_level
                )
            elif (present := values[~np.isnan(values)]).size:
                number = feature.type == "number"
                fill = (
                    np.median(present)
                    if number
                    else np.quantile(present, 0.5, method="lower")
                )
                self._learned[name] = float(fill)
        self._name_columns()
        raw = self._raw(cohort.values)
        self._center, self._scale = np.empty(len(self.names)), np.empty(len(self.names))
        for at in range(0, len(self.names), BLOCK):  # a copy of all columns may not fit
            columns = slice(at, at + BLOCK)
            self._center[columns], self._scale[columns] = _spread(
                raw[:, columns], self._binary[columns]
            )
        return self

    def transform(self, cohort: Cohort) -> np.ndarray:
        """Encode rows, float64, shape (n_rows, n_encoded)."""
        encoded = self._raw(cohort.values)
        encoded -= self._center
        encoded /= self._scale
        return np.nan_to_num(encoded, copy=False, posinf=np.inf, neginf=-np.inf)

    def typical_row(self) -> np.ndarray:
        """Encode a row of nothing but training medians and most frequent values, shape (n_encoded,)."""
        kinds = {
            name: float if isinstance(value, float) else object
            for name, value in self.medians.items()
        }
        typical = {
            name: np.array([value], dtype=kinds[name])
            for name, value in self.medians.items()
        }
        return (self._raw(typical)[0] - self._center) / self._scale

    def bundles(self) -> Bundles:
        """The columns of each category as one: its levels, and its codes, as a dictionary has them."""
        widths = np.diff(self._starts, append=len(self.names))
        return Bundles(
            self._starts,
            np.where(np.repeat(widths == 1, widths), 1.0, self._steps * self._scale),
        )

    def state(self) -> dict[str, np.ndarray]:
        """What was learned, as arrays without objects; `from_state` takes it back bit for bit."""
        levels, counts, fill = [], [], []
        for learned in self._learned.values():
            # Of a category the width, and its most frequent value before its levels.
            own = (
                [learned.typical or "", *learned.levels]
                if isinstance(learned, Category)
                else []
            )
            fill.append(learned.width if isinstance(learned, Category) else learned)
            counts.append(len(own))
            levels += own
        return {
            "features": np.array([*self._learned], dtype=np.str_),
            "fill": np.array(fill, dtype=np.float64),
            "levels": np.array(levels, dtype=np.str_),
            "level_counts": np.array(counts, dtype=np.int64),
            "center": self._center,
            "scale": self._scale,
        }

    @classmethod
    def from_state(cls, contract: Contract, state: Mapping[str, np.ndarray]) -> Encoder:
        """Rebuild a fitted encoder."""
        encoder, levels, counts = (
            cls(contract),
            state["levels"].astype(str).tolist(),
            state["level_counts"],
        )
        fills = zip(state["fill"].tolist(), counts, counts.cumsum(), strict=True)
        for name, (value, count, end) in zip(encoder._learned, fills, strict=True):
            encoder._learned[name] = value
            if count:
                typical, *own = levels[end - count : end]
                missing_level = contract.features[name].missing == "category"
                encoder._learned[name] = Category(
                    typical or None, tuple(own), int(value), missing_level
                )
        encoder._name_columns()
        encoder._center, encoder._scale = state["center"], state["scale"]
        return encoder

    def _name_columns(self) -> None:
        self.columns, self.medians = [], {}
        described: list[tuple[str, int, bool]] = []  # name, step and whether it is 0/1
        starts: list[int] = []
        for name, learned in self._learned.items():
            feature = self.contract.features[name]
            starts.append(len(described))
            if isinstance(learned, Category):
                described += [
                    (f"{name}={level}", step, True)
                    for level, step in learned.described()
                ]
                self.medians[name] = learned.typical
            else:
                described.append((name, 1, feature.type == "boolean"))
                self.medians[name] = learned
            if feature.missing == "indicator":
                starts.append(len(described))
                described.append((f"{name} missing", 1, True))
            self.columns += [name] * (len(described) - len(self.columns))
        self.names = [name for name, _, _ in described]
        self._steps = np.array([step for _, step, _ in described])
        self._binary = np.array([binary for _, _, binary in described], dtype=bool)
        # A category that no row has a value of has no column.
        self._starts = np.unique([start for start in starts if start < len(described)])

    def _raw(self, features: Columns) -> np.ndarray:
        """Encoded columns before centring and scaling."""
        raw = np.zeros((count_rows(features), len(self.names)))
        at = 0
        for name, learned in self._learned.items():
            missing = absent(features[name])
            if isinstance(learned, Category):
                own = learned.columns(features[name])
            else:
                own = np.where(missing, learned, features[name])[:, None]
            if self.contract.features[name].missing == "indicator":
                own = np.column_stack([own, missing])
            raw[:, at : at + own.shape[1]] = own
            at += own.shape[1]
        return raw


@dataclass(frozen=True)
class Bundles:
    """The 0/1 columns of each category as a single one, which is all that a tree needs of them.

    Exclusive feature bundling (Ke et al. 2017): the steps of those that are set add up to a level's place.
    """

    starts: np.ndarray  # the first encoded column of each, shape (n_bundles,)
    steps: (
        np.ndarray
    )  # by which an encoded column is multiplied before those of a bundle are added up

    def of(self, encoded: np.ndarray) -> np.ndarray:
        """Encoded rows as trees see them, float32, shape (n_rows, n_bundles)."""
        bundled = np.empty((len(encoded), len(self.starts)), np.float32)
        for at in range(0, len(encoded), BLOCK_ROWS):
            rows = slice(at, at + BLOCK_ROWS)
            bundled[rows] = np.add.reduceat(
                encoded[rows] * self.steps, self.starts, axis=1
            )
        return bundled


def _spread(raw: np.ndarray, binary: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of columns, the latter as columns are divided by it."""
    # In units of a power of two, so that neither 1e300 nor 1e-300 leaves the range of its square.
    _, power = np.frexp(np.abs(raw).max(axis=0))
    level = np.ldexp(raw, -power)
    center = np.ldexp(level.mean(axis=0), power)
    spread = np.ldexp(level.std(axis=0), power)
    spread[binary & (spread > 0) & (spread < LEAST_SPREAD)] = LEAST_SPREAD
    # What rounding leaves of a constant column is no spread.
    return center, np.where(spread > 1e-12 * np.abs(center), spread, UNINFORMATIVE)


@dataclass(frozen=True)
class Category:
    """What of a category has a column.

    Of at most 30 values each has one, and of two the second. Of more, codes, which mostly begin with letters
    and a digit, have one for each beginning that one row in a hundred shares; numbers are filled up to the
    longest, so that 41 and 410 begin differently. Of other texts the frequent ones have a column.
    """

    typical: (
        str | None
    )  # the most frequent value; None where most rows have none, and that is a level
    levels: tuple[str, ...]  # values, or beginnings
    # Digits that a number before its point is filled up to; ``WHOLE`` where levels are the frequent ones of
    # many values, ``EVERY_VALUE`` where they are all.
    width: int
    missing_level: bool  # a missing value has a column, the last, and is not taken for the typical one

    @classmethod
    def learned(
        cls, values: np.ndarray, listed: Sequence[str] | None, missing_level: bool
    ) -> Category:
        """From a column; where its values are `listed`, in that order."""
        missing = absent(values)
        counts = Counter(values[~missing].tolist())
        levels, width = (
            [text for text in listed or sorted(counts) if text in counts],
            EVERY_VALUE,
        )
        typical = max(levels, key=counts.__getitem__, default=None)
        if missing_level and missing.sum() > max(counts.values(), default=0):
            typical = None
        if len(counts) > MANY_VALUES:
            levels, width = frequent_beginnings(counts)
        return cls(typical, tuple(levels), width, missing_level)

    @property
    def _told_by_one(self) -> bool:
        return self.width == EVERY_VALUE and len(self.levels) + self.missing_level == 2

    def described(self) -> list[tuple[str, int]]:
        """Name and step of each column; steps of those set in a row add up to its level's place, from 1."""
        # Beginnings are in the order of a dictionary: codes that begin alike are beside each other.
        in_order = self.levels if self.width == EVERY_VALUE else sorted(self.levels)
        places = {level: place for place, level in enumerate(in_order, 1)}
        columns = [(level, places[level]) for level in self.levels]
        if self.width > WHOLE:
            columns = [
                (
                    f"{level}*",
                    place
                    - max(places.get(level[:end], 0) for end in range(len(level))),
                )
                for level, place in columns
            ]
        if self.missing_level:
            columns.append(("(missing)", len(columns) + 1))
        return columns[self._told_by_one :]

    def columns(self, values: np.ndarray) -> np.ndarray:
        """Encode texts, (n_values, n_columns); where one column tells two values apart, NaN for another."""
        texts = (
            values
            if self.missing_level
            else np.where(absent(values), self.typical or "", values)
        )
        codes, distinct = pd.factorize(texts)
        # The last row is that of None, whose place is -1.
        encoded = np.zeros((len(distinct) + 1, len(self.levels) + self.missing_level))
        for row, value in enumerate(distinct):
            key = _key(value, self.width)
            begins = key.startswith if self.width > WHOLE else key.__eq__
            encoded[row, : len(self.levels)] = [begins(level) for level in self.levels]
        encoded[-1, len(self.levels) :] = 1
        if self._told_by_one:
            encoded = np.where(encoded.any(axis=1), encoded[:, 1], np.nan)[:, None]
        return encoded[codes]


def frequent_beginnings(counts: Mapping[str, int]) -> tuple[list[str], int]:
    """The beginnings of codes, or other texts whole, that many rows share; and the width of numbers."""
    n_rows = sum(counts.values())
    codes = sum(count for value, count in counts.items() if CODE.fullmatch(value))
    numbers = [match["whole"] for match in map(NUMBER.fullmatch, counts) if match]
    width = max([1, *map(len, numbers)]) if codes > n_rows / 2 else WHOLE
    rows: Counter[str] = Counter()
    for value, count in counts.items():
        key = _key(value, width)
        for end in range(1 if width else len(key), len(key) + 1):
            rows[key[:end]] += count
    least = max(LEAST_SHARE * n_rows, LEAST_ROWS)
    frequent = [
        key for key, count in rows.items() if least <= count <= MOST_SHARE * n_rows
    ]
    # Of beginnings that the same rows have the longest says what they are.
    longer = {
        (key[:end], rows[key]) for key in frequent for end in range(len(key)) if width
    }
    kept = [key for key in frequent if (key, rows[key]) not in longer]
    return sorted(kept, key=lambda key: (-rows[key], key))[:MOST_PREFIXES], width


def _key(value: str, width: int) -> str:
    number = NUMBER.fullmatch(value) if width > WHOLE else None
    return number["whole"].zfill(width) + (number["finer"] or "") if number else value
