"""Rules by which a column without a contract becomes a feature, or is dropped.

Every rule has a name, and of each list the first that applies decides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from screening.data.column_names import INDEX_NAME, is_called, names_codes
from screening.data.encoding import CODE, MANY_VALUES
from screening.data.sentinels import sentinels_of
from screening.data.summary import MAX_TEXTS, ColumnSummary
from screening.io.number_formats import is_yes_no, plain_number
from screening.spelling import first_of

# A larger share of missing values gets a column of its own.
INDICATOR_SHARE = 0.05
# As many rows may have whole values without a gap by chance: the ages of a ward.
MAX_ROWS_GAPLESS_BY_CHANCE = 50
# Where this share of the values, or this many, differ, whole numbers may count rows.
COUNTING_SHARE = 0.9
COUNTING_VALUES = 900
# From here on neighbouring whole numbers are one float: such precision occurs in
# identifiers, not in measurements.
FIRST_INEXACT_NUMBER = 2.0**53
# Fewer texts may be categories, whatever the column is called.
MIN_TEXTS_OF_ID = 21
MIN_TEXTS_OF_FREE_TEXT = 11
# More texts than this among numbers do not all mean "missing".
MAX_ODD_TEXTS = 50
# A column with the name of an id contains codes, such as admission_type_id, if each
# value is in so many rows.
MIN_ROWS_A_CODE = 20
# Two numbers up to this one are codes, such as 1 and 2 for the sexes.
MAX_OF_TWO_CODES = 10
# Code books number answers from 1; scales of more than six numbers are scores.
MAX_OF_NUMBERED_ANSWERS = 6
# A few whole numbers up to this one may be grades or codes.
MAX_FEW_NUMBERS = 10
MAX_OF_FEW_NUMBERS = 20
# From here on whole numbers that repeat are seldom measured.
FIRST_LARGE_NUMBER = 10_000
# Numbers of patients or places begin at 0 or 1, leave few out, and are as common among
# the high ones as among the low. Counts are rarer the higher they are.
MIN_SHARE_GAPLESS = 0.7
MIN_SHARE_GAPLESS_IN_ORDER = 0.5
MIN_SHARE_OF_HIGH = 0.3
# Codes of diagnoses in ICD-9 are 001 to 999 with two decimals at most.
END_OF_DIAGNOSES = 1000
# Neighbouring values of a quantity are about as common as each other, but for chance;
# of alleles or other codes they are not. Ages and scores may be heaped, so that this
# is only a doubt.
MAX_OF_CODES_APART = 99
MAX_CODES_APART = 30
MIN_RATIO_TO_CHANCE = 2.0
# A counter of a subset's rows rises from row to row, and has at most so many numbers
# left out for each that is there.
MAX_GAPS_A_ROW = 10
# Words with this share of different ones are names of people.
MIN_SHARE_OF_NAMES = 0.4
WORDS_OF_NAME = re.compile(r"[^\W\d_]+([ ,.'’-]{1,2}[^\W\d_]+)*\.?")
# So many texts of letters and digits (V57, E909) beside numbers make codes of these.
MIN_LETTERED_CODES = 3
# A share of numbers among the cells; the lower one where the values are many.
MIN_SHARE_OF_NUMBERS = 0.9
MIN_SHARE_OF_MANY_NUMBERS = 0.5
MANY_NUMBERS = 30
# Texts that are not a category either, unless one category alone would be left; "none",
# "unknown" and "ND" (not detected) may be an answer.
NO_ANSWER = frozenset("na n/a n.a. #n/a nan null k.a. . ? - --".split())
# "-" beside one of these is the result of a test.
POSITIVE_MARK = re.compile(r"[0-9]?\++|\(\+\)")
# A text that is not usual for "missing" is shown if it is in so many rows; others may
# be a patient's.
MIN_ROWS_OF_SHOWN_TEXT = 3
MAX_SHOWN_TEXTS = 5
# 45 %, 12.5mg/l, <0,5 g: a number, and what it is counted in.
MEASURED_TEXT = re.compile(
    r"[<>≤≥]?\s*[+-]?\d+([.,]\d+)?\s*(?P<unit>%|[^\W\d]{1,6}(/[^\W\d]{1,6})?)"
)
MAX_UNITS = 3
# 120/80: a systolic and a diastolic pressure.
TWO_NUMBERS = re.compile(r"\d+([.,]\d+)?\s*[/|\\;]\s*\d+([.,]\d+)?")
MIN_MEASURED_SHARE = 0.9
ZERO_AND_ONE = frozenset({"0", "1", "0.0", "1.0"})
# A program that exports whole numbers of a column with gaps writes 2 as 2.0.
WHOLE_NUMBER = re.compile(r"(-?\d+)\.0+")


@dataclass(frozen=True)
class Candidate:
    """A column that may become a feature."""

    name: str
    summary: ColumnSummary

    @cached_property
    def has_codes(self) -> bool:
        """True if digits are not quantities: some follow a letter, or by the name."""
        summary = self.summary
        if summary.unreadable or summary.dates or summary.faults["censored"]:
            return False
        if self.has_two_codes or self.has_numbered_answers:
            return True
        if is_called(self.name, "patient") and not self._has_few_texts:
            return False
        has_few = self._has_few_texts
        if _has_lettered_codes(summary.odd_texts):
            may_repeat = has_few or not is_called(self.name, "row")
            return may_repeat and self._repeats_codes
        if summary.whole and (has_few or self._numbers_places):
            return names_codes(self.name)
        return self._has_diagnoses

    @cached_property
    def has_two_codes(self) -> bool:
        """True for two small numbers that are not 0 and 1, each in many rows."""
        summary = self.summary
        are_numbers = summary.whole and summary.numbers == summary.present
        if not are_numbers or summary.n_texts != 2 or summary.texts <= ZERO_AND_ONE:
            return False
        is_small = summary.low >= 0 and summary.high <= MAX_OF_TWO_CODES
        return is_small and summary.present >= 2 * MIN_ROWS_A_CODE

    @cached_property
    def has_numbered_answers(self) -> bool:
        """True for 1, 2, 3 and so on without a gap, or -1, 0 and 1, in many rows.

        Code books number answers so, in an order or without one. Counts begin at 0.
        """
        summary = self.summary
        is_number = summary.whole and summary.numbers > 0 and not summary.odd
        if not is_number or is_called(self.name, "quantity"):
            return False
        values = [*np.unique(summary.sample)]
        is_in_many = summary.numbers >= len(values) * MIN_ROWS_A_CODE
        is_short = 2 < len(values) <= MAX_OF_NUMBERED_ANSWERS
        is_numbered = values == [*range(1, len(values) + 1)] or values == [-1, 0, 1]
        return is_in_many and is_short and is_numbered

    @property
    def _has_few_texts(self) -> bool:
        """True for more than two texts, each in many rows."""
        most = min(self.summary.present / MIN_ROWS_A_CODE, MAX_TEXTS)
        return 2 < self.summary.n_texts <= most

    @property
    def has_numbered_codes(self) -> bool:
        """True for codes that are all numbers."""
        return self.has_codes and self.summary.numbers == self.summary.present

    @property
    def may_be_codes(self) -> bool:
        """True for few whole numbers under a name with both a thing and a quantity."""
        is_thing = is_called(self.name, "code", "thing", "diagnosis code")
        return is_thing and self._has_few_texts and self.summary.whole

    @property
    def may_be_grades(self) -> bool:
        """True for two numbers or few small whole ones, by the name no quantity."""
        summary = self.summary
        highest = max(abs(summary.low), abs(summary.high))
        is_small = summary.whole and highest <= MAX_OF_FEW_NUMBERS
        is_few = summary.n_texts <= (MAX_FEW_NUMBERS if is_small else 2)
        return is_few and not is_called(self.name, "quantity")

    @property
    def may_number(self) -> bool:
        """True for whole numbers that look like those of patients or places."""
        summary = self.summary
        is_varied = summary.whole and summary.n_texts > MAX_FEW_NUMBERS
        if not is_varied or is_called(self.name, "quantity"):
            return False
        if names_codes(self.name):
            return True
        n_numbers = np.unique(summary.sample).size
        n_cells = summary.sample.size
        is_whole_table = summary.present == summary.rows > MAX_ROWS_GAPLESS_BY_CHANCE
        all_differ = is_whole_table and n_numbers == n_cells
        repeats = 2 * n_numbers <= n_cells
        is_large = summary.low >= FIRST_LARGE_NUMBER and repeats
        if all_differ or is_large or summary.never_falls:
            return True
        return self._is_even_from_one(MIN_SHARE_GAPLESS)

    @property
    def numbers_blocks(self) -> bool:
        """True for numbers of patients or places whose rows are next to each other."""
        summary = self.summary
        is_varied = summary.whole and summary.n_texts >= MIN_TEXTS_OF_ID
        repeats = 2 * summary.n_texts <= summary.present
        if not (is_varied and repeats and summary.never_falls):
            return False
        is_even = self._is_even_from_one(MIN_SHARE_GAPLESS_IN_ORDER)
        return is_even and not is_called(self.name, "quantity")

    def _is_even_from_one(self, min_share: float) -> bool:
        """Return True for numbers from 0 or 1 on with common high ones.

        `min_share`: the share of the numbers up to the highest that must be there.
        """
        summary = self.summary
        numbers, counts = np.unique(summary.sample, return_counts=True)
        span = summary.high - summary.low + 1
        is_gapless = summary.low in (0, 1) and numbers.size >= min_share * span
        n_high = counts[2 * numbers > summary.low + summary.high].sum()
        return is_gapless and bool(n_high >= MIN_SHARE_OF_HIGH * counts.sum())

    @property
    def _numbers_places(self) -> bool:
        """True for numbers in two rows each on average, and by the name no id."""
        summary = self.summary
        most = min(summary.present / 2, MAX_TEXTS)
        is_number = summary.numbers == summary.present
        repeats = is_number and MAX_FEW_NUMBERS < summary.n_texts <= most
        return repeats and not is_called(self.name, "row", "patient")

    @property
    def has_codes_apart(self) -> bool:
        """True for small whole numbers without neighbours among the common ones."""
        summary = self.summary
        is_few = MAX_FEW_NUMBERS < summary.n_texts <= MAX_CODES_APART
        is_small = summary.low >= 0 and summary.high <= MAX_OF_CODES_APART
        if not (summary.whole and is_few and is_small):
            return False
        counts = np.bincount(summary.sample.astype(int))
        counts = np.pad(counts[int(summary.low) :], 1)
        # One peak rises by its height and falls by it.
        excess = np.abs(np.diff(counts)).sum() - 2 * counts.max()
        by_chance = np.sqrt(2 / np.pi * (counts[1:] + counts[:-1])).sum()
        is_jagged = bool(excess > MIN_RATIO_TO_CHANCE * by_chance)
        return is_jagged and not is_called(self.name, "quantity")

    @property
    def _repeats_codes(self) -> bool:
        """True for texts that are in two rows on average, and are not quantities."""
        summary = self.summary
        repeats = summary.n_texts <= summary.present / 2
        return repeats and not are_measured(summary.odd_texts)

    @property
    def _has_diagnoses(self) -> bool:
        """True for numbers such as 401.9 in a column of diagnoses."""
        summary = self.summary
        repeats = 2 < summary.n_texts <= min(summary.present / 2, MAX_TEXTS)
        is_in_range = summary.low >= 0 and summary.high < END_OF_DIAGNOSES
        is_number = summary.numbers == summary.present
        is_named = is_called(self.name, "diagnosis code") and names_codes(self.name)
        return repeats and is_in_range and is_number and is_named

    @cached_property
    def has_numbers(self) -> bool:
        """True for quantities, but for missing codes and a few odd texts."""
        summary = self.summary
        if self.has_codes or self._is_one_number_or_missing:
            return False
        if summary.native:
            return True
        n_numbers = (
            summary.numbers
            + summary.faults["censored"]
            + summary.faults["decimal_mark"]
        )
        if not n_numbers or summary.zero_led:
            return False
        # <40 and >=40 are classes, unless some values are measured too.
        if summary.faults["censored"] == n_numbers:
            return False
        share = n_numbers / (n_numbers + summary.odd)
        if summary.n_texts > MANY_NUMBERS:
            return share >= MIN_SHARE_OF_MANY_NUMBERS
        return share >= MIN_SHARE_OF_NUMBERS

    @property
    def _is_one_number_or_missing(self) -> bool:
        """True for one number beside texts such as "-", which answer each other."""
        summary = self.summary
        others = summary.n_texts - len(summary.missing_codes)
        return bool(summary.missing_codes) and others == 1 and summary.numbers > 0

    @cached_property
    def sentinels(self) -> dict[float, int]:
        """Numbers that mean "not known", with their number of cells."""
        return sentinels_of(self.name, self.summary)

    @property
    def often_missing(self) -> bool:
        """True if a value is missing in over `INDICATOR_SHARE` of the rows."""
        share = self.summary.missing_share(self.has_numbers, [*self.sentinels])
        return share > INDICATOR_SHARE


def _has_lettered_codes(texts: Iterable[str]) -> bool:
    """Return True if most of the texts are codes that begin with a letter."""
    is_lettered = [text[:1].isalpha() and bool(CODE.fullmatch(text)) for text in texts]
    n_lettered = sum(is_lettered)
    return n_lettered >= MIN_LETTERED_CODES and n_lettered > len(is_lettered) / 2


def are_measured(texts: Iterable[str]) -> bool:
    """Return True if nearly all texts are numbers with one of a few units."""
    matches = [MEASURED_TEXT.fullmatch(text) for text in texts]
    units = Counter(match["unit"] for match in matches if match)
    n_measured = sum(count for _, count in units.most_common(MAX_UNITS))
    return n_measured >= MIN_MEASURED_SHARE * len(matches)


@dataclass(frozen=True)
class DropRule:
    """Drops a column; `reason` is said of it in a note."""

    name: str
    reason: str
    applies: Callable[[Candidate], bool]


def _is_dated(column: Candidate) -> bool:
    return column.summary.dates > column.summary.present / 2


def _is_bed(column: Candidate) -> bool:
    """Return True for beds and rooms, unless they only say whether there is one."""
    return is_called(column.name, "bed") and column.summary.n_texts > 2


def _is_comment(column: Candidate) -> bool:
    """Return True for several texts in a column of comments."""
    return is_called(column.name, "comment") and column.summary.n_texts > 2


def _is_constant(column: Candidate) -> bool:
    summary = column.summary
    return summary.constant and summary.present == summary.rows


def counts_rows(name: str, summary: ColumnSummary) -> bool:
    """Return True for whole numbers that number the rows of a table."""
    if not summary.whole or summary.present <= 1:
        return False
    if summary.n_texts <= min(COUNTING_SHARE * summary.present, COUNTING_VALUES):
        return False
    is_whole_table = summary.present == summary.rows > MAX_ROWS_GAPLESS_BY_CHANCE
    span = summary.high - summary.low + 1
    is_gapless = span == summary.rows
    counts_subset = (
        summary.rising
        and summary.low >= 0
        and summary.high <= MAX_GAPS_A_ROW * summary.rows
    )
    is_counter = is_whole_table and (is_gapless or counts_subset)
    return is_counter or bool(INDEX_NAME.fullmatch(name))


def counts_time(name: str, summary: ColumnSummary) -> bool:
    """Return True for dates as numbers of days or seconds, by name and latest.

    Milliseconds of 2000 to 2040 are instants whatever the column is called, and so are
    seconds with a word for time in the name: measurements have no such numbers.
    """
    if not summary.numbers == summary.present > 0:
        return False
    if counts_instants(name, summary):
        return True
    is_date = is_called(name, "date", "time stamp")
    return is_date and summary.date_numbers is not None


def counts_instants(name: str, summary: ColumnSummary) -> bool:
    """Return True if all cells count from 1970, and lie in 2000 to 2040.

    They are milliseconds, or seconds if the column's name has a word for time.
    """
    if summary.all_date_numbers == "milliseconds_1970":
        return summary.whole
    is_in_seconds = summary.all_date_numbers == "seconds_1970"
    return is_in_seconds and is_called(name, "word of time")


def _is_of_ten_digits(column: Candidate) -> bool:
    """Return True for many whole numbers that may be instants, or ids.

    Of patients, such as NHS numbers, any ten digits may be; seconds of 2000 have nine.
    """
    summary = column.summary
    is_varied = summary.n_texts >= MIN_TEXTS_OF_ID and summary.whole
    has_ten_digits = summary.low >= 1e9 and summary.high < 1e10
    return is_varied and (has_ten_digits or summary.all_date_numbers == "seconds_1970")


def _is_two_numbers(column: Candidate) -> bool:
    """Return True if nearly all cells are two numbers, such as 120/80."""
    summary = column.summary
    if summary.n_texts < MIN_TEXTS_OF_FREE_TEXT:
        return False
    n_pairs = sum(map(bool, map(TWO_NUMBERS.fullmatch, summary.texts)))
    return n_pairs >= MIN_MEASURED_SHARE * summary.n_texts


def _is_number_of_row(column: Candidate) -> bool:
    """Return True for many whole numbers too large to measure, or called so."""
    summary = column.summary
    if summary.n_texts < MIN_TEXTS_OF_ID or not summary.whole:
        return False
    is_inexact = summary.low >= FIRST_INEXACT_NUMBER
    return is_inexact or is_called(column.name, "row", "patient")


def _is_name_of_row(column: Candidate) -> bool:
    is_varied = column.summary.n_texts >= MIN_TEXTS_OF_ID
    return is_varied and is_called(column.name, "row", "patient")


def _is_measured(column: Candidate) -> bool:
    summary = column.summary
    return summary.n_texts >= MIN_TEXTS_OF_FREE_TEXT and are_measured(summary.texts)


def _is_person(column: Candidate) -> bool:
    return is_called(column.name, "person")


def _has_names(column: Candidate) -> bool:
    """Return True for many words that mostly differ, as names of people do."""
    summary = column.summary
    if summary.n_texts < MIN_TEXTS_OF_FREE_TEXT:
        return False
    if summary.n_texts <= MIN_SHARE_OF_NAMES * summary.present:
        return False
    n_words = sum(map(bool, map(WORDS_OF_NAME.fullmatch, summary.texts)))
    return n_words >= MIN_MEASURED_SHARE * summary.n_texts


def _is_free_text(column: Candidate) -> bool:
    """Return True for more texts than categories have, most of them different."""
    n_texts = column.summary.n_texts
    differs = n_texts > 0.5 * column.summary.present
    return n_texts > MAX_TEXTS or (n_texts >= MIN_TEXTS_OF_FREE_TEXT and differs)


LOOKS_LIKE_ID = "looks like an id (name it as `id` or `group`)"
DROP_ANY = (
    DropRule(
        "unreadable",
        "nested or binary values, times of day, or durations (write times and "
        "durations as numbers, such as hours)",
        lambda column: column.summary.unreadable,
    ),
    DropRule(
        "person",
        "names or addresses of people, which a model must not contain",
        _is_person,
    ),
    DropRule("empty", "no values", lambda column: not column.summary.present),
    DropRule(
        "dates",
        "dates (make an age or duration of them, or name one as time in a contract)",
        _is_dated,
    ),
    DropRule("constant", "one value only", _is_constant),
    DropRule(
        "bed",
        "beds or rooms, which do not describe a patient (name them under [features] "
        "to learn from them, or in `display` to show them)",
        _is_bed,
    ),
)
DROP_NUMBERS = (
    DropRule(
        "row_index",
        "a row index",
        lambda column: counts_rows(column.name, column.summary),
    ),
    DropRule(
        "day_numbers",
        "dates written as numbers of days or seconds (name one as `time` and set "
        "`date_numbers`; or format the cells as dates and save the table again)",
        lambda column: counts_time(column.name, column.summary),
    ),
    DropRule("id_number", LOOKS_LIKE_ID, _is_number_of_row),
    DropRule(
        "ten_digits",
        "whole numbers of ten digits, which may be seconds since 1970 or "
        "identify somebody "
        "(name it as time with date_numbers, as id, or under [features])",
        _is_of_ten_digits,
    ),
    DropRule(
        "blocks",
        "numbers of patients or places, as their order shows (name it as `group` or "
        "under [features])",
        lambda column: column.numbers_blocks,
    ),
    DropRule(
        "mixed_texts",
        "numbers and many other texts",
        lambda column: len(column.summary.odd_texts) > MAX_ODD_TEXTS,
    ),
)
DROP_TEXTS = (
    DropRule("id_text", LOOKS_LIKE_ID, _is_name_of_row),
    DropRule("comment", "comments", _is_comment),
    DropRule(
        "measured",
        "numbers with several units (export bare numbers of one unit)",
        _is_measured,
    ),
    DropRule(
        "two_numbers",
        "two numbers in a cell, such as a blood pressure of 120/80 (write one column "
        "per number, such as bp_systolic and bp_diastolic)",
        _is_two_numbers,
    ),
    DropRule("names", "texts that hardly repeat, such as names of people", _has_names),
    DropRule("free_text", "id or free text (nearly every row differs)", _is_free_text),
)


def drop_rule(column: Candidate) -> DropRule | None:
    """Return the rule that drops a column, None for a feature."""
    rules = list(DROP_ANY)
    if column.has_numbers:
        rules += DROP_NUMBERS
    elif not column.has_codes:
        rules += DROP_TEXTS
    return next((rule for rule in rules if rule.applies(column)), None)


@dataclass(frozen=True)
class TypeRule:
    """Makes a feature of a column: the keys of its table in the contract."""

    name: str
    applies: Callable[[Candidate], bool]
    feature: Callable[[Candidate], dict[str, Any]]


def _is_yes_no(column: Candidate) -> bool:
    """Return True for texts such as yes and no, or the numbers 0 and 1."""
    summary = column.summary
    says_so = summary.native_boolean or is_yes_no(map(str.lower, summary.texts))
    # Of numbers only 0 and 1 say yes and no.
    has_two = summary.n_texts <= 2 and summary.texts <= ZERO_AND_ONE
    return says_so and not summary.constant and (has_two or not column.has_numbers)


def _is_yes_no_or_unanswered(column: Candidate) -> bool:
    answers = column.summary.texts - _unanswered(column)
    return bool(_unanswered(column)) and is_yes_no(map(str.lower, answers))


def _unanswered(column: Candidate) -> set[str]:
    """Return the texts of a column of words that say "missing".

    None where a single category would be left: it is the answer that they deny.
    """
    codes = column.summary.missing_codes
    unanswered = {code for code in codes if code.lower() in NO_ANSWER}
    answers = column.summary.texts - unanswered
    if any(map(POSITIVE_MARK.fullmatch, answers)):
        unanswered -= {"-", "--"}
    return unanswered if len(answers) > 1 else set()


def _boolean(column: Candidate) -> dict[str, Any]:
    return {"type": "boolean", "missing": _missing(column)}


def _boolean_or_unanswered(column: Candidate) -> dict[str, Any]:
    return _boolean(column) | {"missing_values": sorted(_unanswered(column))}


def number_feature(column: Candidate) -> dict[str, Any]:
    """Return the keys of a numeric feature's table in the contract."""
    summary = column.summary
    sentinels = {plain_number(value) for value in column.sentinels}
    feature: dict[str, Any] = {"type": "number", "missing": _missing(column)}
    seen = summary.usual_range([*column.sentinels])
    if seen:
        feature["seen"] = seen
    if summary.unit:
        feature["unit"] = summary.unit
    missing_values = {*summary.missing_codes, *summary.odd_texts, *sentinels}
    if missing_values:
        feature["missing_values"] = sorted(missing_values)
    if summary.faults["censored"]:
        feature["censored"] = "limit"
    return feature


def _category(column: Candidate) -> dict[str, Any]:
    """Return the feature of a column of categories."""
    unanswered = _unanswered(column)
    missing = "category" if column.often_missing else "impute"
    feature: dict[str, Any] = {"type": "category", "missing": missing}
    if unanswered:
        feature["missing_values"] = sorted(unanswered)
    # Of many codes, the next table has some that are missing here; that is not a fault.
    if column.summary.n_texts <= MANY_VALUES:
        answers = column.summary.texts - unanswered
        feature["categories"] = sorted({*map(_as_whole, answers)})
    return feature


def _as_whole(text: str) -> str:
    """Return a whole number without its decimals, and any other text as it is."""
    number = WHOLE_NUMBER.fullmatch(text)
    return number[1] if number else text


def _missing(column: Candidate) -> str:
    return "indicator" if column.often_missing else "impute"


TYPE_RULES = (
    TypeRule(
        "ticked",
        lambda column: column.summary.ticked,
        lambda column: {"type": "boolean", "missing": "no"},
    ),
    TypeRule("yes_no", _is_yes_no, _boolean),
    TypeRule("yes_no_unanswered", _is_yes_no_or_unanswered, _boolean_or_unanswered),
    TypeRule("number", lambda column: column.has_numbers, number_feature),
    TypeRule("category", lambda column: True, _category),
)


def infer_feature(column: Candidate) -> dict[str, Any]:
    """Infer the keys of a feature's table in the contract."""
    rule = next(rule for rule in TYPE_RULES if rule.applies(column))
    return rule.feature(column)


@dataclass(frozen=True)
class ReviewRule:
    """Asks a person to review a feature; `remark` is said of it in a note.

    Parameters
    ----------
    name : str
    remark : callable
        Returns the note's words on a feature by its summary.
    applies : callable
    changes_values : bool
        The guess makes other values of cells, which the model's page says too.
    """

    name: str
    remark: Callable[[Candidate], str]
    applies: Callable[[Candidate, Mapping[str, Any]], bool]
    changes_values: bool = False


def _lists_texts(column: Candidate, feature: Mapping[str, Any]) -> bool:
    """Return True if texts among the numbers were listed as missing."""
    summary = column.summary
    listed = {*feature.get("missing_values", ())}
    return not listed.isdisjoint({*summary.odd_texts, *summary.missing_codes})


def _remark_on_texts(column: Candidate) -> str:
    """Return the remark on texts that were listed as missing."""
    texts = _shown_texts(column.summary)
    listed = f" ({texts})" if texts else ""
    return f"texts that mean missing{listed} were listed in missing_values; review"


def _shown_texts(summary: ColumnSummary) -> str:
    """Return the texts among numbers that no single patient has, in quotes."""
    texts = [*summary.missing_codes]
    for text, count in summary.odd_texts.most_common():
        if count >= MIN_ROWS_OF_SHOWN_TEXT:
            texts.append(text)
    quoted = [f'"{text}"' for text in sorted(texts)]
    return first_of(quoted, MAX_SHOWN_TEXTS)


def _remark_on_sentinels(column: Candidate) -> str:
    """Return the remark on numbers that were listed as missing."""
    numbers = []
    for value, count in column.sentinels.items():
        reason = "repeated and far from all others" if value else "no such measurement"
        rows = f"{count:,} of {column.summary.rows:,} rows"
        numbers.append(f"{plain_number(value)} in {rows} ({reason})")
    return f"{'; '.join(numbers)} was listed in missing_values; review"


REVIEW_RULES = (
    ReviewRule(
        "numbers_as_codes",
        lambda column: (
            'its name suggests a code; if it is a quantity, write type = "number"'
        ),
        lambda column, feature: (
            column.has_numbered_codes
            and not column.has_two_codes
            and names_codes(column.name)
        ),
    ),
    ReviewRule(
        "numbered_answers",
        lambda column: (
            "few numbers, read as answers of a list; if they are grades or a quantity, "
            'write type = "number"'
        ),
        lambda column, feature: (
            column.has_numbered_answers and not names_codes(column.name)
        ),
    ),
    ReviewRule(
        "two_numbers_as_codes",
        lambda column: (
            'two numbers, read as codes; if they are a quantity, write type = "number"'
        ),
        lambda column, feature: column.has_two_codes,
    ),
    ReviewRule(
        "codes_as_numbers",
        lambda column: (
            'its name suggests a quantity; if it is a code, write type = "category"'
        ),
        lambda column, feature: feature["type"] == "number" and column.may_be_codes,
    ),
    ReviewRule(
        "grades",
        lambda column: (
            "few numbers, read as grades; if they are codes without an order, "
            'write type = "category"'
        ),
        lambda column, feature: feature["type"] == "number" and column.may_be_grades,
    ),
    ReviewRule(
        "numbers_of_patients",
        lambda column: (
            "may number rows, patients or places; if so, name it as `id` or `group`, "
            'or write type = "category"'
        ),
        lambda column, feature: feature["type"] == "number" and column.may_number,
    ),
    ReviewRule(
        "codes_apart",
        lambda column: (
            "the common numbers are not consecutive; if they are codes, write "
            'type = "category"'
        ),
        lambda column, feature: feature["type"] == "number" and column.has_codes_apart,
    ),
    ReviewRule(
        "one_text",
        lambda column: (
            "one text or blank; a blank is read as an answer of its own; if it means "
            "not known, drop the column"
        ),
        lambda column, feature: (
            feature["type"] == "category" and len(feature.get("categories", ())) == 1
        ),
    ),
    ReviewRule("missing_texts", _remark_on_texts, _lists_texts),
    ReviewRule(
        "missing_numbers",
        _remark_on_sentinels,
        lambda column, feature: feature["type"] == "number" and bool(column.sentinels),
        changes_values=True,
    ),
    ReviewRule(
        "ticked",
        lambda column: "ticked or blank; a blank is read as no",
        lambda column, feature: feature["missing"] == "no",
    ),
    ReviewRule(
        "flagged",
        lambda column: "flags after numbers, such as H or *, are left out",
        lambda column, feature: (
            feature["type"] == "number" and column.summary.flagged > 0
        ),
    ),
    ReviewRule(
        "units",
        lambda column: (
            f"numbers followed by {column.summary.unit}; a number with another unit "
            "is not accepted"
        ),
        lambda column, feature: "unit" in feature,
    ),
    ReviewRule(
        "censored",
        lambda column: "censored values are read as their limit; review",
        lambda column, feature: "censored" in feature,
    ),
)
