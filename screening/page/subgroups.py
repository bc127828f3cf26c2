"""The model in subgroups: past performance by level beside what was flagged there tonight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents.model import ModelDocument
from screening.documents.run import NightSubgroup, RunDocument
from screening.documents.validation import Level, SubgroupFacts
from screening.page import format as shown

TOO_FEW = "too few"
Tonight = Mapping[tuple[str, str | None], NightSubgroup]


def subgroups(model: ModelDocument, run: RunDocument | None) -> list[dict[str, Any]]:
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


def _rows(column: SubgroupFacts, tonight: Tonight, asked: bool) -> list[dict[str, Any]]:
    name, known = column.column, [row.level for row in column.rows]
    listed = [_of_level(row) | _tonight(tonight.get((name, row.level)), asked) for row in column.rows]
    # A level that training never met has no past performance, and is shown for that very reason.
    listed += [
        _of_level(UNMET) | _named(level) | _tonight(seen, asked)
        for (held, level), seen in tonight.items()
        if held == name and level not in known
    ]
    return [
        row | {"column": shown.feature(name) if i == 0 else "", "span": len(listed)}
        for i, row in enumerate(listed)
    ]


UNMET = Level(
    level=None, n=None, events=None, few=(), flag_rate=None,
    sensitivity=None, sensitivity_low=None, sensitivity_high=None,
    specificity=None, specificity_low=None, specificity_high=None,
)  # fmt: skip


def _of_level(row: Level) -> dict[str, Any]:
    def share(name: str, value: float | None, low: float | None = None, high: float | None = None) -> Any:
        if name in row.few:
            return {"value": TOO_FEW, "interval": ""}
        return {"value": shown.percent(value), "interval": shown.interval(low, high)}

    def count(name: str, value: int | None) -> str:
        return TOO_FEW if name in row.few else shown.count(value)

    return _named(row.level) | {
        "n": count("n", row.n),
        "events": count("events", row.events),
        "sensitivity": share("sensitivity", *row.sensitivity_ends),
        "specificity": share("specificity", *row.specificity_ends),
        "flag_rate": share("flag_rate", row.flag_rate)["value"],
    }


def _named(level: str | None) -> dict[str, Any]:
    return {"level": "missing" if level is None else shown.name(level), "absent": level is None}


def _tonight(seen: NightSubgroup | None, asked: bool) -> dict[str, Any]:
    if seen is None:
        return {"tonight": {"n": "0" if asked else "", "rate": shown.NOT_KNOWN}}
    if seen.n is None:
        return {"tonight": {"n": TOO_FEW, "rate": TOO_FEW}}
    return {"tonight": {"n": shown.count(seen.n), "rate": shown.percent(seen.flag_rate)}}
