"""`flagged.csv`: the flagged rows of a night, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from screening.scoring.flags import Flag
from screening.scoring.gathering import Night
from screening.storage.model import CHANCES, Chances

if TYPE_CHECKING:
    from screening.ledger import Known

COLUMNS = ("rank", "id", "group", "class", "score", "p_value")
# Behind the others, so that what reads a night without a ledger reads one with it; last, what the contract
# wants displayed.
REMEMBERED = ("state", "nights", "drawn")
ASKED_ROWS = 1 << 10
# Where a cell may begin: at its start and, where lists are split by another sign, behind a separator.
# There a spreadsheet runs what starts like a formula, full-width forms too; some skip spaces and quotes.
# An apostrophe is marked as well: removing one at every such place gives back what was written.
_BEGINS = "(^|[;,|\t\r\n\v\f\x1c-\x1f\x85\u2028\u2029])"
FORMULA = re.compile(
    _BEGINS + "(?='|[\\s\"\x00-\x20\x7f-\xa0\u200b-\u200f\ufeff]*[-=+@\t\r\n＝＋－＠﹦﹢﹣﹫−])"
)
_MARK = re.compile(_BEGINS + "'")


def write_flagged(
    path: Path, night: Night, known: Mapping[str, Known] | None, drawn: Collection[str]
) -> None:
    """Write the flagged rows, the highest score first.

    Parameters
    ----------
    path : Path
    night : Night
    known : mapping or None
        What the ledger knows of each case: by group where rows come in groups, otherwise by id.
    drawn : collection of str
        Cases marked by lot for review.
    """
    chances = Chances(night.model)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        told = CHANCES if chances.earned else ()
        remembered = REMEMBERED if known is not None else ()
        table.writerow([*COLUMNS, *told, *remembered, *map(as_text, night.flags.display)])
        for rank, (flag, earned) in enumerate(_with_chances(night.flags, chances), start=1):
            texts = [flag.id, flag.group, night.task.watched[flag.column]]
            name = flag.group if night.groups else flag.id
            case = known.get(name) if known else None
            lot = "yes" if name in drawn else "no"
            history = [case.state, case.nights, lot] if case else []
            figures = [repr(flag.score), repr(flag.p_value)]
            figures += ["" if np.isnan(value) else repr(value) for value in earned]
            place = ["" if text is None else text for text in flag.display]
            table.writerow([rank, *map(as_text, texts), *figures, *history, *map(as_text, place)])


def _with_chances(flags: Iterable[Flag], chances: Chances) -> Iterator[tuple[Flag, tuple[float, ...]]]:
    """Each row with its chance and interval, where they are earned: asked for many at a time."""
    rest = iter(flags)
    while some := list(islice(rest, ASKED_ROWS)):
        score, column = (np.array([getattr(flag, name) for flag in some]) for name in ("score", "column"))
        told = chances.of(score, column).values() if chances.earned else ()
        earned = zip(*(values.tolist() for values in told), strict=True) if told else repeat(())
        yield from zip(some, earned, strict=False)


def as_text(value: str) -> str:
    """Text that a spreadsheet shows and does not run as a formula."""
    return FORMULA.sub(r"\1'", value)


def as_written(text: str) -> str:
    """What `as_text` was given."""
    return _MARK.sub(r"\1", text)
