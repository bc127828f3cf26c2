"""Summary of a column's cells, gathered batch by batch in bounded memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.identity.reduced import LED_BY_ZERO
from screening.io.arrow_types import is_numeric, is_text, to_floats, to_texts
from screening.io.columns import SampledValues
from screening.io.date_formats import (
    DATE,
    DateNumbers,
    DateOrder,
    are_compact_dates,
    date_numbers_of,
    parse_time,
)
from screening.io.number_formats import (
    FLAGGED,
    MARKS,
    match_reading,
    parse_number,
    parse_plain_numbers,
    trim,
    unit_of,
)

MAX_TEXTS = 1000
MAX_COUNTED_TEXTS = 20
MAX_SAMPLED = 1 << 15
FIRST_COMPACT_DATE = 19_000_101
DAY_OR_MONTH_FIRST = r"^\d{1,2}[-/.]"


class NumberCounts:
    """Counts of numbers and a sample of them.

    Attributes
    ----------
    n : int
    whole : bool
        All numbers are whole.
    low, high : float
        The lowest and the highest number.
    rising : bool
        Every number is higher than the one before.
    never_falls : bool
        No number is lower than the one before.
    sample : SampledValues
    """

    def __init__(self) -> None:
        self.n = 0
        self.whole = True
        self.low = np.inf
        self.high = -np.inf
        self.rising = True
        self.never_falls = True
        self.sample = SampledValues(MAX_SAMPLED)

    def add(self, values: np.ndarray) -> None:
        """Count in finite numbers."""
        if not values.size:
            return
        positions = self.n + np.arange(values.size)
        self.sample += SampledValues.of(MAX_SAMPLED, positions, values)
        self.n += values.size
        is_whole = values == np.rint(values)
        self.whole = self.whole and bool(is_whole.all())
        steps = np.diff(values, prepend=self.high)
        self.rising = self.rising and bool((steps > 0).all())
        self.never_falls = self.never_falls and bool((steps >= 0).all())
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))

    def add_all(self, other: NumberCounts) -> None:
        """Count in the numbers of another, by its sample where they are many."""
        n = self.n + other.n
        self.add(other.sample.values)
        self.n = n
        self.whole = self.whole and other.whole
        self.rising = False
        self.never_falls = False
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)


class ColumnSummary:
    """Counts of a column's cells, its distinct texts and a sample of its numbers.

    Attributes
    ----------
    rows, present : int
        Number of cells, and of those that are not empty.
    numbers, dates : int
        Number of cells that are numbers or dates.
    native : bool
        The file stores the column as numbers.
    native_boolean : bool
        The file stores the column as booleans.
    unreadable : bool
        The file stores the column in a type that is not read, such as a list.
    day_or_month_first : bool
        Some dates do not begin with the year.
    date_orders : set of str
        Orders of day and month, "dmy" or "mdy", in which all dates can be read.
    zero_led : bool
        Some cells are digits led by a zero, as codes are.
    faults : Counter of str
        Number of cells that are not numbers, by the reason of `parse_number`.
    missing_codes, odd_texts : Counter of str
        Texts that often mean "missing", and other texts among numbers, with the number
        of their cells.
    flagged : int
        Number of cells with a flag behind the number, such as "13.5 H".
    unit : str or None
        The unit behind numbers, where `settle` found a single one.
    counts : Counter of str
        Number of rows of each text, complete only where there are few texts.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.present = 0
        self.dates = 0
        self.native = False
        self.native_boolean = False
        self.unreadable = False
        self.day_or_month_first = False
        self.date_orders: set[DateOrder] = {"dmy", "mdy"}
        self.zero_led = False
        self.faults: Counter[str] = Counter()
        self.missing_codes: Counter[str] = Counter()
        self.odd_texts: Counter[str] = Counter()
        self.flagged = 0
        self.unit: str | None = None
        self.counts: Counter[str] = Counter()
        self._texts = pa.array([], pa.string())
        self._numbers = NumberCounts()
        # Numbers with a unit, and how often each unit is written so.
        self._measured = NumberCounts()
        # Cells with a limit and a unit, such as "<0.5 mg/L".
        self._n_limits = 0
        self._units: Counter[str] = Counter()

    @property
    def numbers(self) -> int:
        """Number of cells that are numbers."""
        return self._numbers.n

    @property
    def whole(self) -> bool:
        """True if all numbers are whole."""
        return self._numbers.whole

    @property
    def rising(self) -> bool:
        """True if every number is higher than the one of the row above."""
        return self._numbers.rising

    @property
    def never_falls(self) -> bool:
        """True if no number is lower than the one of the row above."""
        return self._numbers.never_falls

    @property
    def low(self) -> float:
        """Lowest number."""
        return self._numbers.low

    @property
    def high(self) -> float:
        """Highest number."""
        return self._numbers.high

    @property
    def date_numbers(self) -> DateNumbers | None:
        """How dates are counted, by the highest number; None if it is not a date."""
        return date_numbers_of(self.high)

    @property
    def all_date_numbers(self) -> DateNumbers | None:
        """How all cells count dates; None if some are not such numbers."""
        are_numbers = self.numbers == self.present > 0
        if are_numbers and date_numbers_of(self.low) == self.date_numbers:
            return self.date_numbers
        return None

    @property
    def odd(self) -> int:
        """Number of cells that are neither numbers nor codes."""
        return self.faults["not_number"] + self.faults["infinite"]

    @property
    def sample(self) -> np.ndarray:
        """Numbers of the column, all of them where they are not too many."""
        return self._numbers.sample.values

    def missing_share(self, coded: bool, sentinels: Sequence[float]) -> float:
        """Return the share of rows without a value.

        Parameters
        ----------
        coded : bool
            Count texts and numbers for "not known" as missing too.
        sentinels : sequence of float
            The numbers for "not known".
        """
        unknown = float(self.rows - self.present)
        if coded and self.sample.size:
            share_of_sentinels = float(np.isin(self.sample, sentinels).mean())
            n_odd = self.faults["missing_code"] + self.odd
            unknown += n_odd + share_of_sentinels * self.numbers
        return unknown / self.rows if self.rows else 0.0

    @property
    def texts(self) -> set[str]:
        """Distinct texts, at most `MAX_TEXTS` + 1."""
        return set(self._texts.to_pylist())

    @property
    def n_texts(self) -> int:
        """Number of distinct texts, at most `MAX_TEXTS` + 1."""
        return len(self._texts)

    @property
    def constant(self) -> bool:
        """True if all cells are equal."""
        if self.native:
            return bool(self.low == self.high)
        return self.n_texts <= 1

    @property
    def ticked(self) -> bool:
        """True if every cell is empty or a tick, and both occur."""
        is_partly_empty = 0 < self.present < self.rows
        if not is_partly_empty or self.n_texts > 2 * len(MARKS):
            return False
        return {text.lower() for text in self.texts} <= MARKS

    def usual_range(self, sentinels: Sequence[float]) -> tuple[float, float] | None:
        """Return the 1st and 99th percentile, without numbers for "not known".

        They are rounded to a hundredth of their distance.
        """
        numbers = self.sample[~np.isin(self.sample, sentinels)]
        if not numbers.size:
            return None
        low, high = np.percentile(numbers, [1, 99])
        digits = 6
        if high > low:
            digits = 2 - math.floor(math.log10(high - low))
        return round(float(low), digits), round(float(high), digits)

    @property
    def on_grid(self) -> bool:
        """True for numbers that are whole or repeated, as coordinates are."""
        if self.numbers != self.rows:
            return False
        values = self.sample
        return self.whole or 2 * np.unique(values).size <= values.size

    def add(self, cells: pa.Array, decimal: str) -> None:
        """Count in a batch of cells.

        Parameters
        ----------
        cells : Array
            As the reader gives them.
        decimal : str
            The decimal mark of numbers written as texts.
        """
        self.rows += len(cells)
        if is_numeric(cells):
            self._add_native_numbers(cells)
        elif pa.types.is_date(cells.type) or pa.types.is_timestamp(cells.type):
            self.present += len(cells) - cells.null_count
            self.dates += len(cells) - cells.null_count
        else:
            texts = to_texts(cells)
            if texts is None or pa.types.is_temporal(cells.type):
                self.unreadable = True
                return
            self.native_boolean = self.native_boolean or not is_text(cells)
            trimmed = trim(texts)
            is_present = pc.fill_null(pc.not_equal(trimmed, ""), False)
            self._add_present(trimmed.filter(is_present), decimal)

    def _add_native_numbers(self, cells: pa.Array) -> None:
        """Count in cells that the file stores as numbers."""
        self.native = True
        numbers = to_floats(cells)
        self.present += int(np.count_nonzero(~np.isnan(numbers)))
        self._add_numbers(numbers)
        if self.n_texts <= MAX_TEXTS:
            texts = to_texts(_first_distinct(cells))
            if texts is not None:
                self._add_texts(texts.drop_null())

    def _add_present(self, texts: pa.Array, decimal: str) -> None:
        """Count in texts, none of them empty."""
        self.present += len(texts)
        distinct = self._add_texts(texts)
        self.zero_led = self.zero_led or any_match(distinct, LED_BY_ZERO)
        numbers = parse_plain_numbers(texts, decimal)
        if numbers is not None:
            self._add_numbers(numbers)
            return
        dates = distinct.filter(pc.match_substring_regex(distinct, DATE))
        if len(dates):
            self._add_dates(texts.filter(pc.is_in(texts, dates)))
        self._add_mixed(texts, decimal)

    def _add_dates(self, dates: pa.Array) -> None:
        """Count in texts that are dates, and find the orders of day and month."""
        self.dates += len(dates)
        days = pc.unique(dates).to_pylist()
        for order in [*self.date_orders]:
            if not all(parse_time(day, order) for day in days):
                self.date_orders.remove(order)
        if any_match(dates, DAY_OR_MONTH_FIRST):
            self.day_or_month_first = True

    def _add_mixed(self, texts: pa.Array, decimal: str) -> None:
        """Count in texts, some of them numbers."""
        numbers: list[float] = []
        measured: list[float] = []
        for text, count in _value_counts(texts).items():
            number = parse_number(text, decimal)
            if isinstance(number, float):
                numbers += [number] * count
                self.flagged += count * bool(match_reading(FLAGGED, text))
                continue
            self.faults[number] += count
            if number == "missing_code":
                _add_bounded(self.missing_codes, text, count)
            # An infinite number is a fault of the export, and does not mean "missing".
            elif number == "not_number":
                _add_bounded(self.odd_texts, text, count)
                measured += self._with_unit(text, decimal, count)
        self._add_numbers(np.array(numbers, dtype=np.float64))
        self._measured.add(np.array(measured, dtype=np.float64))

    def _with_unit(self, text: str, decimal: str, count: int) -> list[float]:
        """Count the unit behind a number, and return the number `count` times.

        A limit is counted, and is not among the numbers.
        """
        unit = unit_of(text)
        if unit is None:
            return []
        number = parse_number(text, decimal, unit=unit)
        if isinstance(number, str) and number != "censored":
            return []
        _add_bounded(self._units, unit, count)
        if isinstance(number, str):
            self._n_limits += count
            return []
        return [number] * count

    def settle(self) -> None:
        """Find what only all cells together show; called once all were added."""
        self._settle_unit()
        are_digits = self.numbers == self.present and self.whole
        may_be_dates = are_digits and self.low >= FIRST_COMPACT_DATE
        if may_be_dates and are_compact_dates(self.texts):
            self.dates = self.present

    def _settle_unit(self) -> None:
        """Count numbers with a unit as numbers, if all have one and the same."""
        if len({unit.casefold() for unit in self._units}) != 1:
            return
        ((self.unit, _),) = self._units.most_common(1)
        self._numbers.add_all(self._measured)
        self.faults["not_number"] -= self._measured.n + self._n_limits
        self.faults["censored"] += self._n_limits
        for text in [*self.odd_texts]:
            if unit_of(text):
                del self.odd_texts[text]

    def _add_numbers(self, values: np.ndarray) -> None:
        """Count in numbers; those that are not finite are ignored."""
        self._numbers.add(values[np.isfinite(values)])

    def _add_texts(self, texts: pa.Array) -> pa.Array:
        """Count in texts; return the distinct ones."""
        distinct = pc.unique(texts)
        if self.n_texts <= MAX_TEXTS:
            first = distinct.slice(0, MAX_TEXTS + 1).cast(pa.string())
            self._texts = pc.unique(pa.concat_arrays([self._texts, first]))
        if max(len(distinct), self.n_texts) <= MAX_COUNTED_TEXTS:
            self.counts.update(_value_counts(texts))
        return distinct


def _first_distinct(numbers: pa.Array) -> pa.Array:
    """Return the numbers whose texts are counted: of too many distinct ones the first.

    Converting to text is slow, and no more distinct texts than `MAX_TEXTS` are kept.
    """
    distinct = pc.unique(numbers.drop_null())
    # One more, since "not a number" is not a text.
    return numbers if len(distinct) <= MAX_TEXTS else distinct.slice(0, MAX_TEXTS + 2)


def _add_bounded(texts: Counter[str], text: str, count: int) -> None:
    """Count a text; a new one only while there are at most `MAX_TEXTS`."""
    if text in texts or len(texts) <= MAX_TEXTS:
        texts[text] += count


def _value_counts(values: pa.Array) -> dict[str, int]:
    """Return the number of occurrences of each value."""
    entries = values.value_counts().to_pylist()
    return {entry["values"]: entry["counts"] for entry in entries}


def any_match(texts: pa.Array, pattern: str) -> bool:
    """Return True if a regular expression matches any of the texts."""
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())
