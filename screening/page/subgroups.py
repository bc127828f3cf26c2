"""The model in subgroups: past performance by level beside what was flagged there tonight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents.reading import mapping, multi, part, points, sequence
from screening.page import format as shown

TOO_FEW = "too few"


def subgroups(model: Mapping[str, Any], run: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return a table for each watched class; empty where the contract names no subgroup."""
    tonight = {
        (str(row.get("column")), row.get("level")): row
        for row in sequence(run, "subgroups")
        if isinstance(row, Mapping)
    }
    tables = []
    for point in points(model):
        columns = sequence(mapping(model, "validation", "subgroups"), str(point.get("class")))
        rows = [row for column in columns for row in _rows(column, tonight, run is not None)]
        if rows:
            tables.append(
                {
                    "class": shown.name(point.get("class")) if multi(model) else "",
                    "tonight": run is not None,
                    "rows": rows,
                }
            )
    return tables


def _rows(column: Any, tonight: Mapping[Any, Any], asked: bool) -> list[dict[str, Any]]:
    name = str(part(column, "column"))
    known = [row for row in sequence(column, "rows") if isinstance(row, Mapping)]
    levels = [row.get("level") for row in known]
    # A level that training never met has no past performance, and is shown for that very reason.
    new = [level for held, level in tonight if held == name and level not in levels]
    listed = [_row(row, tonight.get((name, row.get("level")), {}), asked) for row in known]
    listed += [_row({"level": level, "few": []}, tonight[name, level], asked) for level in new]
    return [
        row | {"column": shown.feature(name) if i == 0 else "", "span": len(listed)}
        for i, row in enumerate(listed)
    ]


def _row(row: Mapping[str, Any], now: Mapping[str, Any], asked: bool) -> dict[str, Any]:
    few = sequence(row, "few")

    def share(key: str) -> dict[str, str]:
        if key in few:
            return {"value": TOO_FEW, "interval": ""}
        ends = shown.interval(row.get(f"{key}_low"), row.get(f"{key}_high"))
        return {"value": shown.percent(row.get(key)), "interval": ends}

    def count(key: str) -> str:
        return TOO_FEW if key in few else shown.count(row.get(key))

    seen = {"n": "0" if asked else "", "rate": shown.NOT_KNOWN}
    if now:
        withheld = now.get("n") is None
        seen = {
            "n": TOO_FEW if withheld else shown.count(now.get("n")),
            "rate": TOO_FEW if withheld else shown.percent(now.get("flag_rate")),
        }
    level = row.get("level")
    return {
        "level": "missing" if level is None else shown.name(level),
        "absent": level is None,
        "n": count("n"),
        "events": count("events"),
        "sensitivity": share("sensitivity"),
        "specificity": share("specificity"),
        "flag_rate": share("flag_rate")["value"],
        "tonight": seen,
    }
