"""How numbers, truths and dates are written: the marks, words and orders of the usual languages."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# One mark between all thousands: the other mark, an apostrophe, a space of any width.
GROUP = r"[+-]?[1-9]\d{{0,2}}([{0}'’\u0020\u00a0\u2009\u202f])\d{{3}}(\1\d{{3}})*([{1}]\d+)?"
OTHER_MARK = {".": ",", ",": "."}
GROUPED = {
    mark: re.compile(GROUP.format(other, mark), re.ASCII)
    for mark, other in OTHER_MARK.items()
}
NUMBER_COMMA = re.compile(r"[+-]?\d*,\d+|[+-]?\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII)
CENSORED = re.compile(r"(<=?|>=?|≤|≥)\s*(.*)", re.DOTALL)
INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
# A number of which only one reading is left: "1,5" and "1.234,5" have a decimal comma, "1,234" may have none.
ONE_READING = (
    r"[+-]?(\d*[{0}](\d{{1,2}}|\d{{4,}})|0?[{0}]\d{{3}}|\d{{4,}}[{0}]\d{{3}}"
    r"|\d{{1,3}}([{1}]\d{{3}})+[{0}]\d+|\d{{1,3}}([{1}]\d{{3}}){{2,}})"
)
SPACERS = dict.fromkeys(map(ord, "'’ \u00a0\u2009\u202f"))
DECIDED = {
    mark: re.compile(ONE_READING.format(mark, other), re.ASCII)
    for mark, other in OTHER_MARK.items()
}
UNDECIDED = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
# Digits behind a zero: a name or a code, and no quantity.
LED_BY_ZERO = r"^[+-]?0[0-9]+$"
# Excel's mark of text, where what follows is a number, a date or a code.
APOSTROPHE = r"^'([-+<>]?[.,]?\d)"
# fmt: off
MISSING_CODES = frozenset((
    "na", "n/a", "n.a.", "#n/a", "nan", "null", "none", "nil", "missing", "unknown", "unk", "n.d.", "nd",
    "k.a.", ".", "?", "-", "--",
))
MARKS = frozenset(("x", "✓", "✔"))
TRUE = frozenset((
    "yes", "y", "true", "t", "1", "1.0", "ja", "j", "wahr", "oui", "o", "vrai", "v", "si", "sí", "sì", "s",
    "sim", "verdadero", "verdadeiro", "vero",
)) | MARKS
FALSE = frozenset((
    "no", "n", "false", "f", "0", "0.0", "nein", "nee", "nej", "nei", "falsch", "non", "faux", "falso", "não",
    "nao",
))
# Letters that answer each other in one language; T and N are stages of a tumour.
LETTERS = (
    {"y", "n"}, {"t", "f"}, {"j", "n"}, {"o", "n"}, {"s", "n"}, {"v", "f"}, {"1", "0"}, {"1.0", "0.0"},
)
# fmt: on
TIME = r"(?:[T ](?P<time>.*))?"
ISO_DATE = re.compile(
    r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})" + TIME, re.ASCII
)
OTHER_DATE = re.compile(
    r"(?P<day>\d{1,2})[-/.](?P<month>\d{1,2})[-/.](?P<year>\d{4}|\d{2})" + TIME,
    re.ASCII,
)
YEAR_OR_MONTH = re.compile(r"\d{4}(-\d{2})?", re.ASCII)
LONE_DIGIT = re.compile(r"(?<![\d.,])\d(?!\d)", re.ASCII)
DATE = (
    r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))([T ]\d|$)"
)


def trimmed(cells: pa.Array) -> pa.Array:
    """Text without spaces at its ends and without Excel's apostrophe before a number."""
    texts = pc.utf8_trim_whitespace(cells)
    if pc.any(pc.starts_with(texts, "'")).as_py():
        texts = pc.replace_substring_regex(texts, APOSTROPHE, r"\1")
    return texts


def truths(words: Iterable[str]) -> bool:
    """Whether these texts, in small letters, are yes and no of one language."""
    distinct = {*words}
    letters = {word for word in distinct if len(word) == 1 or word in ("1.0", "0.0")}
    both = bool(distinct & TRUE) and bool(distinct & FALSE)
    return (
        both and distinct <= TRUE | FALSE and any(letters <= pair for pair in LETTERS)
    )


def decimal_marks(
    rows: list[list[str]], header: list[str], delimiter: str
) -> tuple[str, dict[str, str]]:
    """The decimal mark of a file, and the columns in the other one; 12,345 is read as other columns are."""
    mark_of: dict[str, str] = {}
    for position, name in enumerate(header):
        cells = {
            cells[position].translate(SPACERS)
            for cells in rows
            if len(cells) == len(header)
        }
        marks = {
            mark for mark, cell in product(",.", cells) if DECIDED[mark].fullmatch(cell)
        }
        if marks:
            mark_of[name] = "," if marks == {","} else "."
        elif (
            any("," in cell and UNDECIDED.fullmatch(cell) for cell in cells)
            and delimiter != ","
        ):
            mark_of[name] = ""
    decided = {mark for mark in mark_of.values() if mark}
    whole = "," if decided == {","} or (not decided and "" in mark_of.values()) else "."
    return whole, {
        name: mark for name, mark in mark_of.items() if mark and mark != whole
    }


def fast_numbers(given: pa.Array, decimal: str) -> np.ndarray | None:
    """Numbers of a text column if every cell is null or a plain finite number, else None."""
    if decimal == ",":
        if pc.any(pc.match_substring(given, ".")).as_py():
            return None
        given = pc.replace_substring(given, ",", ".")
    try:
        values = pc.cast(given, pa.float64())
    except pa.ArrowInvalid:
        return None
    infinite = pc.any(pc.invert(pc.is_finite(values))).as_py()
    return None if infinite else values.to_numpy(zero_copy_only=False)


def parsed_number(
    text: str, decimal: str = ".", censored: str = "refuse"
) -> float | str:
    """The number a text stands for, or the name of its fault."""
    text = text.replace("−", "-")
    grouped = GROUPED[decimal].fullmatch(text)
    if grouped:
        text = text.replace(grouped[1], "")
    point = text.replace(",", ".") if decimal == "," and "." not in text else text
    if NUMBER.fullmatch(point) and not (decimal == "," and "." in text):
        value = float(point)
        return value if np.isfinite(value) else "infinite"
    if bound := CENSORED.fullmatch(text):
        limit = parsed_number(bound[2], decimal)
        if isinstance(limit, str) or censored == "refuse":
            return "not_number" if isinstance(limit, str) else "censored"
        return (
            limit / 2 if censored == "half" and bound[1] in ("<", "<=", "≤") else limit
        )
    if INFINITE.fullmatch(text):
        return "infinite"
    if text.lower() in MISSING_CODES:
        return "missing_code"
    with_point = decimal == "," and NUMBER.fullmatch(text.replace(",", ""))
    return (
        "decimal_mark" if with_point or NUMBER_COMMA.fullmatch(text) else "not_number"
    )


def moment(text: str, order: str | None) -> datetime.datetime | None:
    """The time a text says, in UTC; of a year or a month alone its first day; None where it says none."""
    if YEAR_OR_MONTH.fullmatch(text):
        text = f"{text}-01-01"[:10]
    elif match := ISO_DATE.fullmatch(text) or (
        OTHER_DATE.fullmatch(text) if order else None
    ):
        year, month, day = match["year"], match["month"], match["day"]
        if order == "mdy" and match.re is OTHER_DATE:
            day, month = month, day
        # Years of two digits are those from 1970 to 2069.
        year = year if len(year) == 4 else ("19" if int(year) >= 70 else "20") + year
        clock = "T" + LONE_DIGIT.sub(r"0\g<0>", match["time"]) if match["time"] else ""
        text = f"{year}-{int(month):02}-{int(day):02}{clock}"
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    # 64 bits of nanoseconds hold no other.
    if not 1678 <= time.year <= 2261:
        return None
    return time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time
