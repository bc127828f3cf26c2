"""Names of rows: row numbers for ids, and stems of the rows of one patient."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

import numpy as np

from screening.data.cohort import Cohort
from screening.data.column_names import INDEX_NAME
from screening.schemas.base import Reason
from screening.schemas.reasons import IDS_ARE_ROW_NUMBERS

PLAIN_NUMBER = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)
# voice_07_1, P12-OD, 0815/2; behind a digit also 0815a and S03V2.
ENDED = re.compile(
    r"(?P<parted>.*\w)[\s_.:/#-]+(?P<end>\d{1,3}|[A-Z]|O[DSU]|[LR]E|left|right)"
    r"|(?P<joined>.*\d)(?P<letter>[A-Z]\d{0,2})",
    re.IGNORECASE,
)
DAY = re.compile(r"\d{4}-\d{1,2}(-\d{1,2})?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")
# Fewer stems are years or places.
MIN_STEMS = 10
# A patient's rows are seldom more, in the median and at most; a centre's patients are
# numbered further.
USUAL_ROWS = 12
MAX_USUAL_ROWS = 20
# Numbers of one stem may leave gaps: their range for each row, in the median.
MAX_RANGE_A_ROW = 2.0


def row_number_ids(cohort: Cohort) -> list[Reason]:
    """Return reasons for attention: none, or that a row is known by its place alone.

    Empty where rows come in groups: the group names the patient.
    """
    column = cohort.contract.id
    if cohort.contract.group or cohort.contract.coordinates:
        return []
    if column is None:
        text = (
            "No column names the patients: the ids on this page are row numbers of "
            "the table."
        )
    elif INDEX_NAME.fullmatch(column) and _are_row_numbers(cohort.id):
        text = (
            f"The ids in column '{column}' look like row numbers of the table, not "
            "like patients' ids."
        )
    else:
        return []
    return [IDS_ARE_ROW_NUMBERS(column=column, description=text)]


def _are_row_numbers(ids: np.ndarray) -> bool:
    """Return True for 0, 1, 2... or 1, 2, 3..., in any order."""
    # A person who numbers patients writes zeros before a number; a table does not.
    if len(ids) < 2 or not all(map(PLAIN_NUMBER.fullmatch, ids)):
        return False
    numbers = sorted(map(int, ids))
    first = numbers[0]
    return first in (0, 1) and numbers == list(range(first, first + len(ids)))


def stem_and_end(name: str) -> tuple[str, str]:
    """Return a row's name as stem and running end; the end is "" where it has none."""
    match = ENDED.fullmatch(name)
    if match is None:
        return name, ""
    return match["parted"] or match["joined"], match["end"] or match["letter"]


def stems_of(names: np.ndarray) -> np.ndarray:
    """Return the stem of each row's name, shape (n_rows,), None where it has none."""
    stems = [name and stem_and_end(name.strip())[0] for name in names.tolist()]
    return np.array(stems, dtype=object)


def sizes_of_stems(names: Sequence[str]) -> list[int]:
    """Return the rows of each stem, if rows are named by stems with running ends.

    Empty where names repeat, are dates, have few stems, or ends that do not follow
    each other.
    """
    if len(set(names)) < 0.95 * len(names):
        return []
    ends = defaultdict(list)
    for stem, end in map(stem_and_end, names):
        ends[stem].append(end)
    sizes = list(map(len, ends.values()))
    n_alone = sizes.count(1)
    if len(ends) < MIN_STEMS or n_alone > len(names) / 2:
        return []
    if _are_days(names):
        return []
    ranges = [
        _range_of_ends(endings) / len(endings)
        for endings in ends.values()
        if len(endings) > 1
    ]
    return sizes if median(ranges) <= MAX_RANGE_A_ROW else []


def _are_days(names: Sequence[str]) -> bool:
    """Return True if most names are dates."""
    is_day = [DAY.fullmatch(name) is not None for name in names]
    return sum(is_day) > len(names) / 2


def few_rows_each(names: Sequence[str], sizes: Sequence[int]) -> bool:
    """Return True if ends count a patient's rows, and not a centre's patients.

    A patient has few rows, counted in one or two digits, or by letters.

    Parameters
    ----------
    names : sequence of str
        As `sizes_of_stems` takes them.
    sizes : sequence of int
        As it returns them.
    """
    is_short = []
    for name in names:
        _, end = stem_and_end(name)
        is_short.append(len(end) <= 2 or not name[-1].isdigit())
    has_few_rows = median(sizes) <= USUAL_ROWS and max(sizes) <= MAX_USUAL_ROWS
    return has_few_rows and sum(is_short) >= 0.9 * len(names)


def _range_of_ends(ends: list[str]) -> int:
    """Return the range of a stem's numbers; of letters and sides, their count."""
    matches = [re.search(r"\d+$", end) for end in ends]
    numbers = [int(match[0]) for match in matches if match]
    if len(numbers) < len(ends):
        return len(ends)
    return max(numbers) - min(numbers) + 1
