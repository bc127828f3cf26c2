"""What names a row: an id of its own, a stem it shares with a patient's other rows, or only its place."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import hypergeom

from screening.data.cohort import Cohort
from screening.data.summary import INDEX_NAME
from screening.io.number_formats import LED_BY_ZERO
from screening.schemas.base import Reason
from screening.schemas.model import IdShape

ROW_NUMBERS = "ids_are_row_numbers"
PLAIN_NUMBER = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)
REMEDY = (
    "Name the column that holds the patients' ids (`--id`, or `id` in the contract)."
)
# voice_07_1, P12-OD, 0815/2 and, where a digit stands before it, 0815a and S03V2.
ENDED = re.compile(
    r"(?P<parted>.*\w)[\s_.:/#-]+(?P<end>\d{1,3}|[A-Z]|O[DSU]|[LR]E|left|right)"
    r"|(?P<joined>.*\d)(?P<letter>[A-Z]\d{0,2})",
    re.IGNORECASE,
)
DAY = re.compile(r"\d{4}-\d{1,2}(-\d{1,2})?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")
# Fewer stems are years or places.
FEWEST_STEMS = 10
# A patient's rows are seldom more; the patients of a centre are numbered further.
USUAL_ROWS, MOST_USUAL = 12, 20
SPREAD = 2.0
DIGITS, HEX = "^[0-9]+$", "^[0-9A-Fa-f-]+$"
# Chance below which ids that lack what training's had are written otherwise, and are not merely others.
BY_CHANCE = 1e-4


def row_number_ids(cohort: Cohort) -> list[Reason]:
    """Say where a row is known by its place alone; where rows come in groups, the group names the patient."""
    column = cohort.contract.id
    if cohort.contract.group or cohort.contract.coordinates:
        return []
    if column is None:
        text = "No column names the patients: the ids on this page are row numbers of the table."
    elif INDEX_NAME.fullmatch(column) and _consecutive(cohort.id):
        text = f"The ids in column '{column}' look like row numbers of the table, not like patients' ids."
    else:
        return []
    return [Reason(ROW_NUMBERS, text, column, remedy=REMEDY)]


def _consecutive(ids: np.ndarray) -> bool:
    """Whether the ids are 0, 1, 2... or 1, 2, 3..., in any order."""
    # A number with zeros before it was written by somebody who gives numbers to patients.
    if len(ids) < 2 or not all(PLAIN_NUMBER.fullmatch(text) for text in ids):
        return False
    numbers = np.sort([int(text) for text in ids])
    return bool(numbers[0] in (0, 1) and (np.diff(numbers) == 1).all())


def id_shape(ids: np.ndarray) -> IdShape | None:
    """How the ids of some rows are written, None where none of the rows has an id."""
    texts = pa.array(ids, pa.string()).drop_null()
    if not len(texts):
        return None
    lengths = pc.min_max(pc.utf8_length(texts)).as_py()
    zero_led, digits, hexadecimal = (
        int(pc.sum(pc.match_substring_regex(texts, pattern)).as_py())
        for pattern in (LED_BY_ZERO, DIGITS, HEX)
    )
    shape = {
        "shortest": lengths["min"],
        "longest": lengths["max"],
        "leading_zeros": zero_led,
    }
    return IdShape(n_rows=len(texts), digits=digits, hex=hexadecimal - digits, **shape)


def other_shape(past: IdShape, tonight: IdShape) -> list[str]:
    """In what tonight's ids are written unlike those of training, where no other patients explain it."""
    differences = []
    # Running numbers may have grown by a digit.
    numbered = past.digits == past.n_rows and not past.leading_zeros
    if (
        tonight.shortest > past.longest + numbered
        or tonight.longest < past.shortest - numbered
    ):
        differences.append(
            f"{_length(tonight)} characters long, in training {_length(past)}"
        )
    # Numbers of one width need no zero in front, 0999 is followed by 1000; but none of them is shorter.
    if past.shortest == past.longest:
        lost = tonight.shortest < past.shortest and tonight.digits == tonight.n_rows
    else:
        lost = _by_chance(past.n_rows, past.leading_zeros, tonight.n_rows) < BY_CHANCE
    if lost and past.leading_zeros and not tonight.leading_zeros:
        differences.append(
            "without the zeros in front that training's have; export them as text"
        )
    if not past.leading_zeros and 2 * tonight.leading_zeros > tonight.n_rows > 1:
        differences.append("with zeros in front, which training's have not")
    written = {
        "digits alone": (past.digits, tonight.digits),
        "hexadecimal digits": (past.hex, tonight.hex),
        "letters and other signs": (past.letters, tonight.letters),
    }
    usual = [kind for kind, (before, _) in written.items() if before]
    strange = [kind for kind, (before, rows) in written.items() if rows and not before]
    shared = any(before and rows for before, rows in written.values())
    if not shared and _by_chance(past.n_rows, past.n_rows, tonight.n_rows) < BY_CHANCE:
        differences.append(f"{' or '.join(strange)}, in training {' or '.join(usual)}")
    return differences


def _length(shape: IdShape) -> str:
    return (
        f"{shape.shortest}"
        if shape.shortest == shape.longest
        else f"{shape.shortest} to {shape.longest}"
    )


def _by_chance(n_past: int, having: int, n_tonight: int) -> float:
    """Chance that none of tonight's rows has what `having` of training's have, if all are of one kind."""
    return float(hypergeom.cdf(0, n_past + n_tonight, having, n_tonight))


def keyed_hashes(names: np.ndarray, key: str) -> np.ndarray:
    """A hash of 64 bits for each name that nobody can tell without the key, shape (n,)."""
    return pd.util.hash_array(np.asarray(names, dtype=object), hash_key=key[:16])


def short_hashes(hashes: np.ndarray) -> np.ndarray:
    """The half of such hashes by which the ledger knows a unit on several nights, shape (n,)."""
    return hashes & np.uint64(0xFFFFFFFF)


def short_hash(name: str, key: str) -> int:
    """The hash by which the ledger knows one unit on several nights of the model that is the key."""
    return int(short_hashes(keyed_hashes(np.array([name], dtype=object), key))[0])


def stem_and_end(name: str) -> tuple[str, str]:
    """A row's name as stem and running end; the whole of it and nothing where it has no such end."""
    match = ENDED.fullmatch(name)
    if match is None:
        return name, ""
    return match["parted"] or match["joined"], match["end"] or match["letter"]


def stems_of(names: np.ndarray) -> np.ndarray:
    """The stem of each row's name, shape (n_rows,), None where there is none."""
    return np.array(
        [name and stem_and_end(name.strip())[0] for name in names.tolist()],
        dtype=object,
    )


def sizes_of_stems(names: Sequence[str]) -> list[int]:
    """Rows of each stem, where different names are some stems with ends that follow each other; else none."""
    ends = defaultdict(list)
    for stem, end in map(stem_and_end, names):
        ends[stem].append(end)
    several = [endings for endings in ends.values() if len(endings) > 1]
    few = len(ends) < FEWEST_STEMS or 2 * sum(map(len, several)) < len(names)
    if (
        few
        or len({*names}) < 0.95 * len(names)
        or sum(map(bool, map(DAY.fullmatch, names))) > len(names) / 2
    ):
        return []
    running = median(_spread(endings) / len(endings) for endings in several) <= SPREAD
    return [len(endings) for endings in ends.values()] if running else []


def few_rows_each(names: Sequence[str], sizes: Sequence[int]) -> bool:
    """Whether ends count a patient's rows, few and in one or two digits, and not a centre's patients."""
    short = sum(
        len(stem_and_end(name)[1]) <= 2 or not name[-1].isdigit() for name in names
    )
    return (
        median(sizes) <= USUAL_ROWS
        and max(sizes) <= MOST_USUAL
        and short >= 0.9 * len(names)
    )


def _spread(ends: list[str]) -> int:
    """From the first to the last of a stem's numbered ends; of letters and sides, their count."""
    numbers = [
        int(match[0]) for match in (re.search(r"\d+$", end) for end in ends) if match
    ]
    return max(numbers) - min(numbers) + 1 if len(numbers) == len(ends) else len(ends)
