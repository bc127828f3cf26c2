"""Formats of numbers, and of yes and no, in the usual languages."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# One mark between all thousands: the other mark, an apostrophe, a space of any width.
GROUP = (
    r"[+-]?[1-9]\d{{0,2}}([{other}'’\u0020\u00a0\u2009\u202f])\d{{3}}"
    r"(\1\d{{3}})*([{decimal}]\d+)?"
)
OTHER_MARK = {".": ",", ",": "."}
GROUPED = {
    mark: re.compile(GROUP.format(decimal=mark, other=other), re.ASCII)
    for mark, other in OTHER_MARK.items()
}
NUMBER_COMMA = re.compile(r"[+-]?\d*,\d+|[+-]?\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII)
# In English, German, French, Spanish and Italian.
CENSORED = re.compile(
    r"((?P<below><=?|≤|(?:less than|below|under|kleiner(?: als)?|unter|inférieur à"
    r"|menor que|inferiore a)\s)|>=?|≥|(?:greater than|more than|above|over"
    r"|größer(?: als)?|über|supérieur à|mayor que|superiore a)\s)\s*(?P<limit>.*)",
    re.DOTALL | re.IGNORECASE,
)
# First characters of such a bound, and of a number: most texts of a table have others.
STARTS_OF_BOUND = frozenset("<>≤≥abgikmlosuüABGIKMLOSUÜ")
STARTS_OF_NUMBER = frozenset("0123456789.,+-−<>≤≥")
# Characters of a reading with a flag or a unit at most.
MAX_READING = 40
# A laboratory's mark behind a number: 13.5 H, 57.1*, 4.2 (L).
FLAGGED = re.compile(
    r"(?P<number>.*\d.*?)(\s*(\*{1,2}|[↑↓!])|\s+(HH?|LL?)|\s*\((HH?|LL?)\))"
)
# A unit behind a number: 5.0 mg/L, 45 %, 98 mmHg. Letters need a space before them:
# 12b is a place.
MEASURED = re.compile(
    r"(?P<number>.*\d)\s*(?P<unit>%|°[CF]|(?<=\s)[^\W\d_][\w^*]{0,9}"
    r"|[^\W\d_][\w^*]{0,9}(/[\w^*]{1,9}){1,2})"
)
INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
# A number with one reading: "1,5" and "1.234,5" have a decimal comma, "1,234" may not.
ONE_READING = (
    r"[+-]?(\d*[{decimal}](\d{{1,2}}|\d{{4,}})|0?[{decimal}]\d{{3}}"
    r"|\d{{4,}}[{decimal}]\d{{3}}|\d{{1,3}}([{other}]\d{{3}})+[{decimal}]\d+"
    r"|\d{{1,3}}([{other}]\d{{3}}){{2,}})"
)
SPACERS = dict.fromkeys(map(ord, "'’ \u00a0\u2009\u202f"))
DECIDED = {
    mark: re.compile(ONE_READING.format(decimal=mark, other=other), re.ASCII)
    for mark, other in OTHER_MARK.items()
}
UNDECIDED = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
# Excel's mark of text before a number, a date or a code.
APOSTROPHE = r"^'([-+<>]?[.,]?\d)"
MISSING = "na n/a n.a. #n/a nan null none nil missing unknown unk n.d. nd k.a. . ? - --"
MISSING_CODES = frozenset(MISSING.split())
MARKS = frozenset({"x", "✓", "✔"})
YES = (
    "yes y true t 1 1.0 ja j wahr oui o vrai v si sí sì s sim verdadero verdadeiro vero"
)
NO = "no n false f 0 0.0 nein nee nej nei falsch non faux falso não nao"
TRUE = frozenset(YES.split()) | MARKS
FALSE = frozenset(NO.split())
# Letters that answer each other in one language; T and N are stages of a tumour.
LETTER_PAIRS = (
    {"y", "n"},
    {"t", "f"},
    {"j", "n"},
    {"o", "n"},
    {"s", "n"},
    {"v", "f"},
    {"1", "0"},
    {"1.0", "0.0"},
)
# Cells that are enough to reject most columns of texts as numbers.
FEW_CELLS = 64
# Whether a column has a decimal comma is open: all its marks may be of thousands.
UNDECIDED_MARK = ""


def trim(cells: pa.Array) -> pa.Array:
    """Trim outer spaces and Excel's apostrophe before a number."""
    texts = pc.utf8_trim_whitespace(cells)
    if pc.any(pc.starts_with(texts, "'")).as_py():
        texts = pc.replace_substring_regex(texts, APOSTROPHE, r"\1")
    return texts


def is_yes_no(words: Iterable[str]) -> bool:
    """Return True if lower-case texts are yes and no, and both occur.

    Single letters must be of one language; words need not be.
    """
    distinct = set(words)
    if not distinct & TRUE or not distinct & FALSE or not distinct <= TRUE | FALSE:
        return False
    letters = {word for word in distinct if len(word) == 1 or word in ("1.0", "0.0")}
    return any(letters <= pair for pair in LETTER_PAIRS)


def decimal_marks(
    rows: list[list[str]], header: list[str], delimiter: str
) -> tuple[str, dict[str, str]]:
    """Return the decimal mark of a file, and by name the columns with the other one.

    A comma that could as well be one of thousands, as in 12,345, is read as in the
    file's other columns, and as a decimal comma where none of them has a mark.
    """
    whole_rows = [cells for cells in rows if len(cells) == len(header)]
    mark_of: dict[str, str] = {}
    for position, name in enumerate(header):
        texts = {row[position] for row in whole_rows}
        cells = {_number_part(text).translate(SPACERS) for text in texts}
        mark = _decimal_mark(cells, delimiter)
        if mark is not None:
            mark_of[name] = mark
    marks = set(mark_of.values())
    file_mark = "."
    if marks and marks <= {",", UNDECIDED_MARK}:
        file_mark = ","
    other_marks = {
        name: mark
        for name, mark in mark_of.items()
        if mark not in (file_mark, UNDECIDED_MARK)
    }
    return file_mark, other_marks


def _number_part(text: str) -> str:
    """Return a text without a flag and a unit at its end."""
    flagged = match_reading(FLAGGED, text)
    if flagged:
        text = flagged["number"].rstrip()
    measured = match_reading(MEASURED, text)
    return measured["number"].rstrip() if measured else text


def match_reading(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Match a reading with something behind its number; a long text is none."""
    # On long texts these patterns would take quadratic time.
    if text[:1] not in STARTS_OF_NUMBER or len(text) > MAX_READING:
        return None
    return pattern.fullmatch(text)


def _decimal_mark(cells: set[str], delimiter: str) -> str | None:
    """Return the decimal mark of a column's cells, None if none of them has a mark."""
    marks = {mark for mark in ",." if any(map(DECIDED[mark].fullmatch, cells))}
    if marks == {","}:
        return ","
    if marks:
        return "."
    # A comma inside a cell of a file that has commas between cells was quoted.
    if delimiter == ",":
        return None
    if any("," in cell and UNDECIDED.fullmatch(cell) for cell in cells):
        return UNDECIDED_MARK
    return None


def parse_plain_numbers(cells: pa.Array, decimal: str) -> np.ndarray | None:
    """Parse a text column's numbers; None if a cell is not a plain finite number.

    The array has shape (n_rows,), NaN for null. Where None is returned, each distinct
    text needs `parse_number`.
    """
    if decimal == ",":
        if pc.any(pc.match_substring(cells, ".")).as_py():
            return None
        cells = pc.replace_substring(cells, ",", ".")
    try:
        # Arrow makes an error for each cell that is not a number, so few are tried
        # first.
        pc.cast(cells[:FEW_CELLS], pa.float64())
        values = pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        return None
    if pc.any(pc.invert(pc.is_finite(values))).as_py():
        return None
    return np.asarray(values.to_numpy(zero_copy_only=False))


def parse_number(
    text: str, decimal: str = ".", censored: str = "refuse", unit: str | None = None
) -> float | str:
    """Parse the number in a text; return the kind of its fault if it has one.

    A laboratory's flag behind a number, as in "13.5 H", is left out.

    Parameters
    ----------
    text : str
        Without spaces at its ends.
    decimal : {".", ","}
    censored : {"refuse", "limit", "half"}
        Meaning of "<0.5": a fault, 0.5, or 0.25 (">0.5" is then 0.5).
    unit : str, optional
        The unit that may follow the number; any other is a fault.

    Returns
    -------
    float or str
        A finite number, or a key of `violations.FAULTS`.
    """
    text = text.replace("−", "-")
    grouped = GROUPED[decimal].fullmatch(text)
    if grouped:
        text = text.replace(grouped[1], "")
    value = _plain_number(text, decimal)
    if value is not None:
        return value if np.isfinite(value) else "infinite"
    bound = CENSORED.fullmatch(text) if text[:1] in STARTS_OF_BOUND else None
    if bound:
        limit = parse_number(bound["limit"], decimal, unit=unit)
        return _censored_number(limit, bound["below"] is not None, censored)
    bare = _without_flag_or_unit(text, unit)
    if bare is not None:
        return parse_number(bare, decimal, censored, unit)
    return _fault_of_number(text, decimal)


def _without_flag_or_unit(text: str, unit: str | None) -> str | None:
    """Return a text without a flag or this unit at its end, None if it has neither."""
    flagged = match_reading(FLAGGED, text)
    if flagged:
        return flagged["number"].rstrip()
    measured = match_reading(MEASURED, text)
    if measured and unit and same_unit(measured["unit"], unit):
        return measured["number"].rstrip()
    return None


def same_unit(unit: str, other: str) -> bool:
    """Return True for one unit in two spellings, such as mg/L and mg/l."""
    return unit.strip().casefold() == other.strip().casefold()


def unit_of(text: str) -> str | None:
    """Return the unit after a number, None without one."""
    measured = match_reading(MEASURED, text)
    return measured["unit"] if measured else None


def plain_number(value: float) -> str:
    """Return the shortest text that is read as this number, without an exponent."""
    return np.format_float_positional(value, trim="-")


def _plain_number(text: str, decimal: str) -> float | None:
    if decimal == ",":
        if "." in text:
            return None
        text = text.replace(",", ".")
    if NUMBER.fullmatch(text):
        return float(text)
    return None


def _censored_number(limit: float | str, is_below: bool, censored: str) -> float | str:
    if isinstance(limit, str):
        return "not_number"
    if censored == "refuse":
        return "censored"
    if censored == "half" and is_below:
        return limit / 2
    return limit


def _fault_of_number(text: str, decimal: str) -> str:
    if INFINITE.fullmatch(text):
        return "infinite"
    if text.lower() in MISSING_CODES:
        return "missing_code"
    if NUMBER_COMMA.fullmatch(text):
        return "decimal_mark"
    if decimal == "," and NUMBER.fullmatch(text.replace(",", "")):
        return "decimal_mark"
    return "not_number"
