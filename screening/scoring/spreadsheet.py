"""`flagged.csv`: the flagged rows of a night, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from screening.scoring.gathering import Night
from screening.storage.chances import Chances

if TYPE_CHECKING:
    from screening.ledger import Known

COLUMNS = ("rank", "id", "group", "class", "score", "p_value")
# Behind the others, so that what reads a night without a ledger reads one with it; last, what the contract
# wants displayed.
REMEMBERED = ("state", "nights", "drawn")
# Where a cell may begin: at its start and, where lists are split by another sign, behind a separator.
# There a spreadsheet runs what starts like a formula, full-width forms too; some skip spaces and quotes.
# An apostrophe is marked as well: removing one at every such place gives back what was written.
_BEGINS = "(^|[;,|\t\r\n\v\f\x1c-\x1f\x85\u2028\u2029])"
FORMULA = re.compile(
    _BEGINS + "(?='|[\\s\"\x00-\x20\x7f-\xa0\u200b-\u200f\ufeff]*[-=+@\t\r\n＝＋－＠﹦﹢﹣﹫−])"
)
_MARK = re.compile(_BEGINS + "'")


def write_flagged(
    path: Path, night: Night, known: Mapping[str, Known] | None = None, drawn: Collection[str] = ()
) -> None:
    """Write the flagged rows, the highest score first.

    Parameters
    ----------
    path : Path
    night : Night
    known : mapping, optional
        What the ledger knows of each case: by group where rows come in groups, otherwise by id.
    drawn : collection of str
        Cases marked by lot for review.
    """
    ids, group, score, p_value, column, _ = night.all_flagged()
    display = night.all_displayed()
    cases = group if night.groups else ids
    chances = Chances(night.model)
    told = chances.of(score, column) if chances.earned else {}
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        beside = [] if display is None else list(display.columns)
        remembered = REMEMBERED if known is not None else ()
        table.writerow([*COLUMNS, *told, *remembered, *map(as_text, beside)])
        for rank, i in enumerate(np.argsort(-score, kind="stable"), start=1):
            texts = [ids[i], group[i], night.task.watched[column[i]]]
            case = known.get(str(cases[i])) if known else None
            lot = "yes" if str(cases[i]) in drawn else "no"
            history = [case.state, case.nights, lot] if case else []
            figures = [repr(float(score[i])), repr(float(p_value[i]))]
            figures += ["" if np.isnan(values[i]) else repr(float(values[i])) for values in told.values()]
            place = [] if display is None else ["" if text is None else text for text in display.iloc[i]]
            table.writerow([rank, *map(as_text, texts), *figures, *history, *map(as_text, place)])


def as_text(value: str) -> str:
    """Text that a spreadsheet shows and does not run as a formula."""
    return FORMULA.sub(r"\1'", value)


def as_written(text: str) -> str:
    """What `as_text` was given."""
    return _MARK.sub(r"\1", text)
