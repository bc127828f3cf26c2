"""Encode parsed columns as the numeric matrix of the kernels.

Everything learned is kept as plain arrays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy

from screening.contract.contract import Feature
from screening.errors import CohortError
from screening.io.columns import Columns, count_rows, count_values
from screening.threads import run_in_threads

# A 0/1 column set in few rows would stand out by 1 / sd, so its sd is at least this.
MIN_BINARY_SCALE = 0.1
ONE_CLASS_MIN_BINARY_SCALE = 1.0
"""Minimum for machines that learn one class: 0/1 columns keep their unit.

Such a machine cannot learn that a rare flag is irrelevant, and many rare flags in units
of their sd outweigh every number.
"""
# Scale of a column that is constant in training: divided by it, the column stays zero.
CONSTANT_SCALE = 1e300
# A standard deviation below this share of the mean is rounding of a constant column.
MIN_RELATIVE_SCALE = 1e-12
# Positive numbers of at least this skewness are put on a log scale, if that halves it
# and there are so many distinct ones: numbers of few values are levels.
MIN_SKEWNESS = 2.0
MIN_SKEWED_VALUES = 10
# Number of columns, and of rows, processed at a time.
BLOCK_COLUMNS = 32
BLOCK_ROWS = 4096
# A category of more values is encoded by prefixes.
MANY_VALUES = 30
MAX_PREFIXES = 30
# A prefix with a column has at least this share and number of the rows.
MIN_PREFIX_SHARE = 0.01
MIN_PREFIX_ROWS = 10
# A prefix of more rows has hardly more information than its absence.
MAX_PREFIX_SHARE = 0.9
NUMBER = re.compile(r"(?P<integer>\d+)(\.(?P<fraction>\d*))?")
# K35.8, 5-470, N02BE01: a code, whose prefix is its chapter.
CODE = re.compile(r"[A-Za-z]{0,3}[-.]?\d[A-Za-z0-9.\-/+*]*")
# Values of `Category.width` where levels are not prefixes: every value, or frequent
# ones.
EVERY_VALUE = -1
FREQUENT_VALUES = 0


class EncodedColumn(NamedTuple):
    """Description of one encoded column.

    `step` is its term in a bundle: the steps of the columns of a category that are set
    in a row add up to the rank of the row's level, counted from 1.
    """

    name: str
    step: int
    is_binary: bool


class Encoder:
    """Impute, one-hot encode, centre and scale.

    Missing numbers get the median; booleans and ordinal features (codes 0, 1, ...) the
    lower median; categories, encoded as 0/1 columns (`Category`), the most frequent
    level or a level of their own, as `missing` says. A level not seen in training
    sets no column, or, for a code, those of its chapter; where one column distinguishes
    two levels, it lies at the column's mean. Where the contract asks for it, a 0/1
    column `NAME missing` is added. Every column is then scaled to zero mean and unit
    variance over the training rows; the standard deviation of a 0/1 column is taken as
    at least `min_binary_scale`.

    With `log_skewed`, numbers that are all positive and strongly skewed to the right,
    as concentrations are, are replaced by their logarithms before they are scaled:
    otherwise a few very high values make all others look alike to a kernel. When rows
    are scored, a value below half the smallest of training is taken as that half.

    Parameters
    ----------
    features : mapping of str to Feature
    min_binary_scale : float, > 0
    log_skewed : bool

    Attributes
    ----------
    names : list of str, length n_encoded
        Encoded columns, such as `age`, `ward=ICU`, `lactate missing`.
    columns : list of str, length n_encoded
        The feature of each encoded column.
    medians : dict of str to float, str or None
        Value imputed for each feature, as in `Cohort.values`.
    """

    names: list[str]
    columns: list[str]
    medians: dict[str, float | str | None]

    def __init__(
        self,
        features: Mapping[str, Feature],
        min_binary_scale: float = MIN_BINARY_SCALE,
        *,
        log_skewed: bool = False,
    ):
        self._features = features
        self._min_binary_scale = min_binary_scale
        self._log_skewed = log_skewed
        # Half the smallest value of each column on a log scale.
        self._log_floors: dict[str, float] = {}
        # By name: the columns of a table in another order are encoded alike.
        self._learned: dict[str, Category | float] = dict.fromkeys(
            sorted(features), 0.0
        )

    def fit(self, values: Columns) -> Encoder:
        """Learn the encoding from rows; raise CohortError if there are none."""
        self._fit_raw(values)
        return self

    def fit_transform(self, values: Columns) -> np.ndarray:
        """Learn the encoding from rows, and return them encoded."""
        raw = self._fit_raw(values)

        def scale_block(first: int) -> None:
            self._scale_in_place(raw[first : first + BLOCK_ROWS])

        run_in_threads(scale_block, range(0, len(raw), BLOCK_ROWS))
        return raw

    def _fit_raw(self, values: Columns) -> np.ndarray:
        """Learn the encoding, and return the columns before centring and scaling.

        Columns are encoded, and then averaged, in several threads.
        """
        n_rows = count_rows(values)
        if not n_rows:
            raise CohortError("the table has no rows to learn the encoding from")
        self._log_floors = {}
        for name in self._learned:
            feature = self._features[name]
            self._learned[name] = _learn(feature, values[name])
            if self._log_skewed and feature.type == "number":
                floor = log_floor(values[name])
                if floor > 0:
                    self._log_floors[name] = floor
        self._name_columns()
        raw = np.zeros((n_rows, len(self.names)))
        self._center = np.empty(len(self.names))
        self._scale = np.empty(len(self.names))
        names = list(self._learned)

        def encode_feature(number: int) -> None:
            self._encode_feature(names[number], values, raw)

        def measure_block(first: int) -> None:
            # A copy of all columns at once may not fit into memory.
            block = slice(first, first + BLOCK_COLUMNS)
            center, scale = _center_and_scale(
                raw[:, block], self._is_binary[block], self._min_binary_scale
            )
            self._center[block] = center
            self._scale[block] = scale

        run_in_threads(encode_feature, range(len(names)))
        run_in_threads(measure_block, range(0, len(self.names), BLOCK_COLUMNS))
        return raw

    @property
    def on_log_scale(self) -> list[str]:
        """Names of the columns whose numbers are replaced by their logarithms."""
        return list(self._log_floors)

    def transform(self, values: Columns) -> np.ndarray:
        """Return the encoded rows, float64, shape (n_rows, n_encoded)."""
        raw = self._raw(values)
        self._scale_in_place(raw)
        return raw

    def _scale_in_place(self, raw: np.ndarray) -> None:
        """Centre and scale raw columns."""
        raw -= self._center
        raw /= self._scale
        # NaN is the mean of a category's only column.
        raw[np.isnan(raw)] = 0

    def typical_row(self) -> np.ndarray:
        """Return the encoded row of all imputed values, shape (n_encoded,)."""
        columns = {}
        for name, value in self.medians.items():
            dtype = float if isinstance(value, float) else object
            columns[name] = np.array([value], dtype=dtype)
        return (self._raw(columns)[0] - self._center) / self._scale

    def bundles(self) -> Bundles:
        """Return the bundles of the encoded columns, one for each category."""
        widths = np.diff(self._starts, append=len(self.names))
        is_alone = np.repeat(widths == 1, widths)
        steps = np.where(is_alone, 1.0, self._steps * self._scale)
        return Bundles(self._starts, steps)

    def state(self) -> dict[str, np.ndarray]:
        """Return what was learned as arrays without objects, for `from_state`.

        `fill` is the imputed number of a feature, or the width of a category; a
        category's `levels` follow its most frequent level. `log_floors`, absent where
        no feature is on a log scale, is 0 for every feature that is not.
        """
        fill: list[float] = []
        levels: list[str] = []
        level_counts: list[int] = []
        for learned in self._learned.values():
            if isinstance(learned, Category):
                fill.append(learned.width)
                texts = [learned.typical or "", *learned.levels]
            else:
                fill.append(learned)
                texts = []
            levels += texts
            level_counts.append(len(texts))
        state = {
            "features": np.array(list(self._learned), dtype=np.str_),
            "fill": np.array(fill, dtype=np.float64),
            "levels": np.array(levels, dtype=np.str_),
            "level_counts": np.array(level_counts, dtype=np.int64),
            "center": self._center,
            "scale": self._scale,
        }
        if self._log_floors:
            floors = [self._log_floors.get(name, 0.0) for name in self._learned]
            state["log_floors"] = np.array(floors, dtype=np.float64)
        return state

    @classmethod
    def from_state(
        cls, features: Mapping[str, Feature], state: Mapping[str, np.ndarray]
    ) -> Encoder:
        """Rebuild a fitted encoder, bit for bit, from its `state`.

        ValueError if the state is that of other features.
        """
        encoder = cls(features)
        levels = state["levels"].astype(str).tolist()
        counts = state["level_counts"]
        ends = counts.cumsum()
        for column, name in enumerate(encoder._learned):
            fill = float(state["fill"][column])
            if not counts[column]:
                encoder._learned[name] = fill
                continue
            first = ends[column] - counts[column]
            typical, *texts = levels[first : ends[column]]
            encoder._learned[name] = Category(
                typical=typical or None,
                levels=tuple(texts),
                width=int(fill),
                missing_level=features[name].missing == "category",
            )
        encoder._log_floors = _log_floors(list(encoder._learned), state)
        encoder._name_columns()
        encoder._center = state["center"]
        encoder._scale = state["scale"]
        shape = (len(encoder.names),)
        for values in (encoder._center, encoder._scale):
            if values.shape != shape or values.dtype != np.float64:
                raise ValueError("centre and scale: expected one number per column")
        if not (encoder._scale > 0).all():
            raise ValueError("scale: every number must be > 0")
        return encoder

    def _name_columns(self) -> None:
        """Describe the encoded columns, and where the bundles begin."""
        self.columns = []
        self.medians = {}
        self._columns_of: dict[str, slice] = {}
        described: list[EncodedColumn] = []
        starts: list[int] = []
        for name, learned in self._learned.items():
            feature = self._features[name]
            starts.append(len(described))
            if isinstance(learned, Category):
                described += learned.describe(name)
                self.medians[name] = learned.typical
            else:
                is_binary = feature.type == "boolean"
                described.append(EncodedColumn(name, 1, is_binary))
                self.medians[name] = learned
            if feature.missing == "indicator":
                starts.append(len(described))
                described.append(EncodedColumn(f"{name} missing", 1, True))
            self._columns_of[name] = slice(len(self.columns), len(described))
            self.columns += [name] * (len(described) - len(self.columns))
        self.names = [column.name for column in described]
        self._steps = np.array([column.step for column in described])
        self._is_binary = np.array([column.is_binary for column in described], bool)
        # A category without any value in training has no column.
        within = [start for start in starts if start < len(described)]
        self._starts = np.unique(within)

    def _raw(self, features: Columns) -> np.ndarray:
        """Return the encoded columns before centring and scaling."""
        raw = np.zeros((count_rows(features), len(self.names)))
        for name in self._learned:
            self._encode_feature(name, features, raw)
        return raw

    def _encode_feature(self, name: str, features: Columns, raw: np.ndarray) -> None:
        """Write the encoded columns of a feature into `raw`, where they belong."""
        learned = self._learned[name]
        values = features[name]
        if isinstance(learned, Category):
            encoded = learned.encode(values)
        else:
            encoded = np.where(pd.isna(values), learned, values)[:, None]
        if name in self._log_floors:
            encoded = np.log(np.maximum(encoded, self._log_floors[name]))
        if self._features[name].missing == "indicator":
            encoded = np.column_stack([encoded, pd.isna(values)])
        raw[:, self._columns_of[name]] = encoded


def typical_value(feature: Feature, values: np.ndarray) -> float | str | None:
    """Return a column's median, lower median or most frequent text."""
    learned = _learn(feature, values)
    return learned.typical if isinstance(learned, Category) else learned


def _learn(feature: Feature, values: np.ndarray) -> Category | float:
    """Return what is learned from a column: its category, or the value to impute."""
    if feature.type == "category":
        missing_level = feature.missing == "category"
        return Category.learn(values, feature.categories, missing_level)
    present = values[~np.isnan(values)]
    if not present.size:
        return 0.0
    if feature.type == "number":
        return float(np.median(present))
    return float(np.quantile(present, 0.5, method="lower"))


def log_floor(values: np.ndarray) -> float:
    """Return half the smallest of numbers that a log scale suits, 0 of all others.

    It suits positive numbers whose skewness is at least 2, and that of their logarithms
    at most half of it. NaN is missing.
    """
    present = values[~np.isnan(values)]
    n_distinct = len(np.unique(present))
    if n_distinct < MIN_SKEWED_VALUES or present.min() <= 0:
        return 0.0
    # In units of the largest: cubes of 1e300 would overflow.
    skewness = scipy.stats.skew(present / present.max())
    if skewness < MIN_SKEWNESS:
        return 0.0
    skewness_of_log = scipy.stats.skew(np.log(present))
    if abs(skewness_of_log) > skewness / 2:
        return 0.0
    return float(present.min() / 2)


def _log_floors(
    features: Sequence[str], state: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Return half the smallest values on a log scale from an encoder's state."""
    if "log_floors" not in state:
        return {}
    floors = state["log_floors"]
    is_valid = np.isfinite(floors) & (floors >= 0)
    if floors.shape != (len(features),) or not is_valid.all():
        raise ValueError("log_floors: expected one number >= 0 per feature")
    on_log_scale = {}
    for name, floor in zip(features, floors.tolist(), strict=True):
        if floor:
            on_log_scale[name] = floor
    return on_log_scale


@dataclass(frozen=True)
class Bundles:
    """Combine the 0/1 columns of each category into one, which is all that trees need.

    Exclusive feature bundling (Ke et al. 2017).

    Attributes
    ----------
    starts : ndarray of int, shape (n_bundles,)
        First encoded column of each bundle.
    steps : ndarray of float, shape (n_encoded,)
        Factor of each encoded column in the sum of its bundle.
    """

    starts: np.ndarray
    steps: np.ndarray

    def of(self, encoded: np.ndarray) -> np.ndarray:
        """Return encoded rows as trees see them, float32, shape (n_rows, n_bundles)."""
        bundled = np.empty((len(encoded), len(self.starts)), np.float32)
        for first in range(0, len(encoded), BLOCK_ROWS):
            rows = slice(first, first + BLOCK_ROWS)
            terms = encoded[rows] * self.steps
            bundled[rows] = np.add.reduceat(terms, self.starts, axis=1)
        return bundled


def _center_and_scale(
    raw: np.ndarray, is_binary: np.ndarray, min_binary_scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of columns, and the divisors that give them unit variance."""
    # In units of a power of two, so that squares of 1e300 and 1e-300 stay in range.
    _, power = np.frexp(np.abs(raw).max(axis=0))
    reduced = np.ldexp(raw, -power)
    center = np.ldexp(reduced.mean(axis=0), power)
    scale = np.ldexp(reduced.std(axis=0), power)
    is_rare = is_binary & (scale > 0) & (scale < min_binary_scale)
    scale[is_rare] = min_binary_scale
    is_varying = scale > MIN_RELATIVE_SCALE * np.abs(center)
    return center, np.where(is_varying, scale, CONSTANT_SCALE)


@dataclass(frozen=True)
class Category:
    """The levels of a category that have a 0/1 column.

    Of at most 30 values every one has a column; of two, only the second. Where there
    are more and most are codes (letters and a digit at their beginning), each prefix
    that one row in a hundred shares has a column; numbers are padded to the longest, so
    that 41 and 410 begin differently. Of other texts, the frequent ones have a column.

    Attributes
    ----------
    typical : str or None
        The most frequent value, which is imputed; None where most rows have no value
        and that is a level.
    levels : tuple of str
        Values or prefixes with a column.
    width : int
        Number of digits to which the integer part of a number is padded, where levels
        are prefixes; else `EVERY_VALUE` or `FREQUENT_VALUES`.
    missing_level : bool
        A missing value has a column, the last, and is not imputed.
    """

    typical: str | None
    levels: tuple[str, ...]
    width: int
    missing_level: bool

    @classmethod
    def learn(
        cls, values: np.ndarray, listed: Sequence[str] | None, missing_level: bool
    ) -> Category:
        """Learn the levels of a column, in the order of `listed` or of the alphabet."""
        counts = count_values(values)
        levels = [text for text in listed or sorted(counts) if text in counts]
        width = EVERY_VALUE
        typical = max(levels, key=counts.__getitem__, default=None)
        n_missing = len(values) - counts.total()
        if missing_level and n_missing > max(counts.values(), default=0):
            typical = None
        if len(counts) > MANY_VALUES:
            levels, width = frequent_levels(counts)
        return cls(typical, tuple(levels), width, missing_level)

    @property
    def _has_one_column(self) -> bool:
        """True for two levels, where only the second has a column."""
        n_levels = len(self.levels) + self.missing_level
        return self.width == EVERY_VALUE and n_levels == 2

    @property
    def _has_prefixes(self) -> bool:
        """True where levels are prefixes of values."""
        return self.width > FREQUENT_VALUES

    def describe(self, feature: str) -> list[EncodedColumn]:
        """Describe the encoded columns of a feature of this category."""
        # In alphabetical order, codes with a common prefix are adjacent.
        ordered = self.levels if self.width == EVERY_VALUE else sorted(self.levels)
        ranks = {level: rank for rank, level in enumerate(ordered, 1)}
        columns = []
        for level in self.levels:
            step = ranks[level]
            name = f"{feature}={level}"
            if self._has_prefixes:
                # Shorter prefixes are set in the same rows.
                shorter = (level[:end] for end in range(len(level)))
                step -= max(ranks.get(prefix, 0) for prefix in shorter)
                name += "*"
            columns.append(EncodedColumn(name, step, True))
        if self.missing_level:
            step = len(columns) + 1
            columns.append(EncodedColumn(f"{feature}=(missing)", step, True))
        return columns[1:] if self._has_one_column else columns

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Encode texts as 0/1 columns, shape (n_values, n_columns).

        Where one column distinguishes two levels, it is NaN for any other text.
        """
        codes, distinct = pd.factorize(values)
        n_levels = len(self.levels)
        # The last row is that of missing values, whose code is -1.
        encoded = np.zeros((len(distinct) + 1, n_levels + self.missing_level))
        column_of = {level: column for column, level in enumerate(self.levels)}
        for row, value in enumerate([*distinct, self.typical or ""]):
            for key in self._keys(value):
                if key in column_of:
                    encoded[row, column_of[key]] = 1
        if self.missing_level:
            encoded[-1] = 0
            encoded[-1, n_levels:] = 1
        if self._has_one_column:
            is_known = encoded.any(axis=1)
            is_second = np.where(is_known, encoded[:, 1], np.nan)
            encoded = is_second[:, None]
        return encoded[codes]

    def _keys(self, value: str) -> list[str]:
        """Return the levels that a value may have: itself, or its prefixes."""
        if not self._has_prefixes:
            return [value]
        padded = _pad_number(value, self.width)
        return [padded[:end] for end in range(1, len(padded) + 1)]


def frequent_levels(counts: Mapping[str, int]) -> tuple[list[str], int]:
    """Return the prefixes of codes, or whole texts, that many rows share.

    Parameters
    ----------
    counts : mapping of str to int
        Number of rows with each value.

    Returns
    -------
    levels : list of str
        The most frequent first.
    width : int
        Number of digits to which numbers are padded, or `FREQUENT_VALUES` for texts.
    """
    n_rows = sum(counts.values())
    n_codes = sum(count for value, count in counts.items() if CODE.fullmatch(value))
    has_prefixes = n_codes > n_rows / 2
    width = _width_of_numbers(counts) if has_prefixes else FREQUENT_VALUES
    rows: Counter[str] = Counter()
    for value, count in counts.items():
        if not has_prefixes:
            rows[value] += count
            continue
        key = _pad_number(value, width)
        for end in range(1, len(key) + 1):
            rows[key[:end]] += count
    least = max(MIN_PREFIX_SHARE * n_rows, MIN_PREFIX_ROWS)
    most = MAX_PREFIX_SHARE * n_rows
    frequent = [key for key, count in rows.items() if least <= count <= most]
    if has_prefixes:
        frequent = _longest_of_equal(frequent, rows)
    frequent.sort(key=lambda key: (-rows[key], key))
    return frequent[:MAX_PREFIXES], width


def _longest_of_equal(prefixes: Sequence[str], rows: Mapping[str, int]) -> list[str]:
    """Return the prefixes, of those that the same rows share only the longest."""
    redundant = set()
    for prefix in prefixes:
        for end in range(len(prefix)):
            shorter = prefix[:end]
            if rows.get(shorter) == rows[prefix]:
                redundant.add(shorter)
    return [prefix for prefix in prefixes if prefix not in redundant]


def _width_of_numbers(values: Iterable[str]) -> int:
    """Return the largest number of digits before the point of a number, at least 1."""
    numbers = filter(None, map(NUMBER.fullmatch, values))
    return max((len(number["integer"]) for number in numbers), default=1)


def _pad_number(value: str, width: int) -> str:
    """Return a number padded and without its point; any other text unchanged."""
    number = NUMBER.fullmatch(value)
    if number is None:
        return value
    return number["integer"].zfill(width) + (number["fraction"] or "")
