"""What one column holds, gathered batch by batch in bounded memory."""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.contract.parsing import floats, is_numeric, is_text, plain, texts
from screening.io.number_formats import (
    DATE,
    LED_BY_ZERO,
    MARKS,
    date_orders,
    fast_numbers,
    parsed_number,
    trimmed,
    truths,
)
from screening.monitoring.drift import SampledValues

MOST_TEXTS = 1000
MOST_COUNTED = 20
MOST_SAMPLED = 1 << 15
OTHER = r"^\d{1,2}[-/.]"
# Numbers that questionnaires and laboratories write for "not known": -1, -9, 99, -999, 8888.
CODES = frozenset(
    [
        -1.0,
        -7.0,
        -8.0,
        -9.0,
        *(sign * float(digit * n) for digit in "789" for n in range(2, 16) for sign in (1, -1)),
    ]
)


# So many times the middle nine tenths of the numbers beyond them: heavy tails of laboratories reach 50.
STRAY = 100


class ColumnSummary:
    """Counts of a column's kinds of cells, its distinct texts up to a limit, and a sample of its numbers."""

    def __init__(self) -> None:
        self.rows = self.present = self.numbers = self.dates = 0
        self.zero_led = False  # digits behind a zero, as codes are written
        self.missing_codes: dict[str, int] = {}
        self.censored = 0
        self.misprinted = 0  # numbers with a comma or point in the wrong place
        self.odd = 0  # neither number, nor censored, nor a usual missing code
        self.odd_texts: set[str] = set()
        self.date_orders = {"dmy", "mdy"}
        self.day_or_month_first = False
        self.unreadable = self.native = self.native_boolean = False
        self.clocked = False  # times of day or durations
        self.whole = True
        self.low, self.high = np.inf, -np.inf
        self._texts = pa.array([], pa.string())
        self.counts: Counter[str] = Counter()  # rows of each text, where they are few
        self._sample = SampledValues(MOST_SAMPLED)

    @property
    def missing_share(self) -> float:
        return 1 - self.present / self.rows if self.rows else 0.0

    @property
    def coded_share(self) -> float:
        """The share of rows that say in a text or a far number that the value is not known."""
        far = float(np.isin(self._sample.values, self.far_codes).mean()) if self._sample.values.size else 0.0
        said = sum(self.missing_codes.values()) + self.odd + far * self.numbers
        return said / self.rows if self.rows else 0.0

    @property
    def texts(self) -> set[str]:
        """The distinct texts, of many of them some."""
        return {*self._texts.to_pylist()}

    @property
    def n_texts(self) -> int:
        return len(self._texts)

    @property
    def many_texts(self) -> bool:
        return self.n_texts > MOST_TEXTS

    @property
    def constant(self) -> bool:
        return self.n_texts <= 1 if not self.native else self.low == self.high

    @property
    def boolean_words(self) -> bool:
        return self.native_boolean or truths(text.as_py().lower() for text in self._texts)

    @property
    def ticked(self) -> bool:
        """Whether cells hold a tick or nothing."""
        few = 0 < self.present < self.rows and self.n_texts <= 2 * len(MARKS)
        return few and {text.lower() for text in self.texts} <= MARKS

    @cached_property
    def _percentiles(self) -> np.ndarray:
        """The 1st, 5th, 95th and 99th percentile of the sampled numbers but far codes; none of no numbers."""
        numbers = self._sample.values[~np.isin(self._sample.values, self.far_codes)]
        return np.percentile(numbers, [1, 5, 95, 99]) if numbers.size else np.zeros(0)

    def usual_range(self) -> tuple[float, float] | None:
        """The 1st and the 99th percentile, as finely as a hundredth of what lies between them."""
        if not self._percentiles.size:
            return None
        low, high = self._percentiles[[0, -1]]
        digits = 2 - math.floor(math.log10(high - low)) if high > low else 6
        return round(float(low), digits), round(float(high), digits)

    @property
    def stray(self) -> bool:
        """Whether a number lies so far out that a decimal point may be lost in it, or a unit mistaken."""
        if self.far_codes or not self._percentiles.size:
            return False
        least, most = self._percentiles[1:3]
        reach = STRAY * (most - least)
        return bool(reach > 0 and not least - reach <= self.low <= self.high <= most + reach)

    @cached_property
    def far_codes(self) -> list[float]:
        """Numbers such as -99 that occur more than once, farther from all others than those lie apart."""
        values = self._sample.values
        # What lies farthest out is a code then; most columns have none and need not be sorted.
        if not values.size or CODES.isdisjoint((values.min(), values.max())):
            return []
        distinct, counts = np.unique(values, return_counts=True)
        like_codes = np.isin(distinct, [*CODES])
        others = distinct[~like_codes]
        if others.size < 2:
            return []
        reach = others[-1] - others[0]
        far = (distinct < others[0] - reach) | (distinct > others[-1] + reach)
        return distinct[like_codes & far & (counts > 1)].tolist()  # type: ignore[no-any-return]

    def add(self, cells: pa.Array | pa.ChunkedArray, decimal: str) -> None:
        """Take in one batch of the column."""
        cells = plain(cells)
        self.rows += len(cells)
        if is_numeric(cells):
            self.native = True
            native = floats(cells)
            self.present += int(np.count_nonzero(~np.isnan(native)))
            self._add_numbers(native)
            words = None if self.many_texts else texts(cells)
            if words is not None:
                self._add_texts(words.drop_null())
            return
        if pa.types.is_temporal(cells.type):
            self.present += len(cells) - cells.null_count
            if pa.types.is_date(cells.type) or pa.types.is_timestamp(cells.type):
                self.dates += len(cells) - cells.null_count
            else:
                self.clocked = True
            return
        words = texts(cells)
        if words is None:
            self.unreadable = True
            return
        self.native_boolean = self.native_boolean or not is_text(cells)
        bare = trimmed(words)
        given = bare.filter(pc.fill_null(pc.not_equal(bare, ""), False))
        self.present += len(given)
        distinct = self._add_texts(given)
        self.zero_led = self.zero_led or _any_like(distinct, LED_BY_ZERO)
        values = fast_numbers(given, decimal)
        if values is None:
            self._add_dates(given)
            values = self._mixed(given, decimal)
        self._add_numbers(values)

    def _add_dates(self, given: pa.Array) -> None:
        dates = given.filter(pc.match_substring_regex(given, DATE))
        if len(dates):
            self.dates += len(dates)
            self.date_orders &= date_orders(pc.unique(dates).to_pylist())
            self.day_or_month_first = self.day_or_month_first or _any_like(dates, OTHER)

    def _mixed(self, given: pa.Array, decimal: str) -> np.ndarray:
        counted = given.value_counts()
        found = []
        for text, count in zip(
            counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True
        ):
            kind = parsed_number(text, decimal)
            if isinstance(kind, float):
                found += [kind] * count
            elif kind == "censored":
                self.censored += count
            elif kind in ("decimal_comma", "decimal_point"):
                self.misprinted += count
            elif kind == "missing_code":
                if len(self.missing_codes) < MOST_TEXTS:
                    self.missing_codes[text] = self.missing_codes.get(text, 0) + count
            else:
                self.odd += count
                if len(self.odd_texts) <= MOST_TEXTS:
                    self.odd_texts.add(text)
        return np.array(found, dtype=np.float64)

    def _add_numbers(self, values: np.ndarray) -> None:
        values = values[np.isfinite(values)]
        if not values.size:
            return
        self.numbers += values.size
        self.whole = self.whole and bool(np.all(values == np.rint(values)))
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self._sample.add(values)

    def _add_texts(self, given: pa.Array) -> pa.Array:
        """Take in texts; returns the distinct ones."""
        distinct = pc.unique(given)
        if not self.many_texts:
            some = distinct.slice(0, MOST_TEXTS + 1).cast(pa.string())
            self._texts = pc.unique(pa.concat_arrays([self._texts, some]))
        if len(distinct) <= MOST_COUNTED >= self.n_texts:
            self.counts.update({one["values"]: one["counts"] for one in given.value_counts().to_pylist()})
        return distinct


def _any_like(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())
