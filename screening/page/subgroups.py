"""The model in subgroups: past performance by level beside what was flagged there tonight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from screening.documents.model import ModelDocument
from screening.documents.run import NightSubgroup, RunDocument
from screening.documents.validation import Level, SubgroupFacts
from screening.page import format as shown

TOO_FEW = "too few"
Tonight = Mapping[tuple[str, str | None], NightSubgroup]


@dataclass(frozen=True)
class Share:
    """A share with its interval, in words."""

    value: str
    interval: str


@dataclass(frozen=True)
class Seen:
    """What tonight brought of a level."""

    n: str
    rate: str


@dataclass(frozen=True)
class Row:
    """A level of a column; the first of a column's rows names it, over `span` rows."""

    level: str
    absent: bool
    n: str
    events: str
    sensitivity: Share
    specificity: Share
    flag_rate: str
    tonight: Seen
    column: str = ""
    span: int = 1


def subgroups(model: ModelDocument, run: RunDocument | None) -> list[dict[str, object]]:
    """Return a table for each watched class; empty where the contract names no subgroup."""
    tonight = {(row.column, row.level): row for row in run.subgroups} if run else {}
    tables = []
    for point in model.points:
        columns = model.validation.subgroups.get(point.label, ())
        rows = [row for column in columns for row in _rows(column, tonight, run is not None)]
        if rows:
            tables.append(
                {
                    "class": shown.name(point.label) if model.multi else "",
                    "tonight": run is not None,
                    "rows": rows,
                }
            )
    return tables


def _rows(column: SubgroupFacts, tonight: Tonight, asked: bool) -> list[Row]:
    name, known = column.column, [row.level for row in column.rows]
    # A level that training never met has no past performance, and is shown for that very reason.
    unmet = [replace(UNMET, level=level) for held, level in tonight if held == name and level not in known]
    rows = [
        _of_level(level, _tonight(tonight.get((name, level.level)), asked))
        for level in (*column.rows, *unmet)
    ]
    return [
        replace(row, column=shown.feature(name) if i == 0 else "", span=len(rows))
        for i, row in enumerate(rows)
    ]


UNMET = Level(
    level=None, n=None, events=None, few=(), flag_rate=None,
    sensitivity=None, sensitivity_low=None, sensitivity_high=None,
    specificity=None, specificity_low=None, specificity_high=None,
)  # fmt: skip


def _of_level(row: Level, tonight: Seen) -> Row:
    def share(name: str, value: float | None, low: float | None = None, high: float | None = None) -> Share:
        if name in row.few:
            return Share(TOO_FEW, "")
        return Share(shown.percent(value), shown.interval(low, high))

    def count(name: str, value: int | None) -> str:
        return TOO_FEW if name in row.few else shown.count(value)

    return Row(
        level="missing" if row.level is None else shown.name(row.level),
        absent=row.level is None,
        n=count("n", row.n),
        events=count("events", row.events),
        sensitivity=share("sensitivity", *row.sensitivity_ends),
        specificity=share("specificity", *row.specificity_ends),
        flag_rate=share("flag_rate", row.flag_rate).value,
        tonight=tonight,
    )


def _tonight(seen: NightSubgroup | None, asked: bool) -> Seen:
    if seen is None:
        return Seen("0" if asked else "", shown.NOT_KNOWN)
    if seen.n is None:
        return Seen(TOO_FEW, TOO_FEW)
    return Seen(shown.count(seen.n), shown.percent(seen.flag_rate))
