"""The columns of the worklist, each one object: head, cell, widths and help.

Those of plug-ins come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from screening.registry import Registry
from screening.report import format as fmt
from screening.schemas.model import ModelDocument
from screening.schemas.run import RunDocument


def _no_text(run: RunDocument) -> str:
    return ""


@dataclass(frozen=True)
class Column:
    """A column of the worklist.

    Parameters
    ----------
    name : str
        CSS class of its cells.
    width, print_width : str
        Track of the CSS grid on a screen and on A4, such as ``4rem`` and ``12mm``.
    help : str
        What it shows; ``docs/page.md`` lists it.
    head, note : callable
        Return the head of the column and the small print next to it.
    text : callable, optional
        Return the text of a cell from its `worklist.Line`. Without it the macro called
        `name` in ``templates/line.html.j2`` draws the cell.
    narrow, print_narrow : str, optional
        Other tracks: on a screen for lists without place and history, on A4 for lists
        without place.
    """

    name: str
    width: str
    print_width: str
    help: str
    head: Callable[[RunDocument], str] = _no_text
    note: Callable[[RunDocument], str] = _no_text
    text: Callable[[Any], str] | None = None
    narrow: str | None = None
    print_narrow: str | None = None


def people_of(model: ModelDocument) -> str:
    """Return what the rows of training are called."""
    return "patients" if model.unit_of_review == "row" else f"{model.unit_of_review}s"


def displayed(run: RunDocument) -> list[str]:
    """Return the columns that the contract displays, by the first named patient."""
    for case in (*run.cases, *(run.groups or ())):
        if case.display:
            return list(case.display)
    return []


def _place_head(run: RunDocument) -> str:
    return ", ".join(map(fmt.feature, displayed(run))) or "Id"


def _probability_head(run: RunDocument) -> str:
    has_chance = any(case.chance is not None for case in run.cases)
    return "Chance" if has_chance and not run.groups else "Rarity"


def _probability_note(run: RunDocument) -> str:
    listed = (*run.cases, *(run.groups or ()))
    return "last nights" if any(case.recent_flags for case in listed) else ""


def _reasons_head(run: RunDocument) -> str:
    is_given = run.model.recipe.machine == "given"
    return "Values" if is_given else "Strongest reasons"


def _reasons_note(run: RunDocument) -> str:
    note = f"bar: lower or higher than past {people_of(run.model)}"
    contributions = chain.from_iterable(case.contributions or () for case in run.cases)
    if any(contribution.reference for contribution in contributions):
        note += "; H, L: outside the reference range"
    return note


_SHIPPED = (
    Column("rank", "2.6rem", "6mm", "position in the list, highest score first"),
    Column(
        "who",
        "clamp(11rem,83vw - 54.3rem,20.4rem)",
        "42mm",
        "columns in `display` of the contract, id, class, random audit, earlier"
        " verdicts",
        head=_place_head,
        narrow="11rem",
        print_narrow="33mm",
    ),
    Column(
        "probability",
        "clamp(6.4rem,9vw,8rem)",
        "19mm",
        "chance of the condition or, without one, rarity of the score; bars for the "
        "last seven nights",
        head=_probability_head,
        note=_probability_note,
        narrow="5.4rem",
    ),
    Column(
        "why",
        "minmax(0,1fr)",
        "minmax(0,1fr)",
        "up to three recorded values that raise the score most, each with its "
        "percentile among past patients; then values that raise it because they are "
        "not recorded; for a score made elsewhere, the values that the contract shows",
        head=_reasons_head,
        note=_reasons_note,
    ),
)


def _shipped() -> Iterator[tuple[str, Column]]:
    for column in _SHIPPED:
        yield column.name, column


def _accepted(name: str, column: Any) -> Column:
    """Return the column of a plug-in; TypeError or ValueError if it cannot be used."""
    if not isinstance(column, Column):
        raise TypeError("it is not a Column")
    if column.name != name:
        raise ValueError(f"its `name` is not {name!r}")
    if column.text is None:
        raise ValueError("it has no `text`")
    return column


COLUMNS: Registry[Column] = Registry("column", _shipped, _accepted)
"""The columns of the worklist by name, from left to right."""


def columns_of(run: RunDocument, lines: Sequence[Any]) -> list[Column]:
    """Return the columns of a list of `worklist.Line`.

    A column of a plug-in that fails for one line is left out whole: an empty cell would
    be read as "none".
    """
    columns = []
    for name, column in [*COLUMNS.items()]:
        if column.text is None:
            columns.append(column)
        else:
            filled = COLUMNS.call(name, _filled, column, run, lines, default=None)
            columns += filter(None, [filled])
    return columns


def _filled(column: Column, run: RunDocument, lines: Sequence[Any]) -> Column | None:
    """Return a column with its texts; TypeError if one is not a text."""
    assert column.text is not None, "only such columns are filled"
    head = column.head(run)
    note = column.note(run)
    texts = {id(line): column.text(line) for line in lines}
    if not all(isinstance(text, str) for text in (head, note, *texts.values())):
        raise TypeError("not text")
    return replace(
        column,
        head=lambda run: head,
        note=lambda run: note,
        text=lambda line: texts[id(line)],
    )


def grid_style(columns: Sequence[Column]) -> str:
    """Return the widths of columns as properties that ``list.css`` uses."""
    tracks = {
        "cells": [column.width for column in columns],
        "cells-narrow": [column.narrow or column.width for column in columns],
        "cells-print": [column.print_width for column in columns],
        "cells-print-narrow": [
            column.print_narrow or column.print_width for column in columns
        ],
    }
    properties = [f"--{name}:{' '.join(widths)}" for name, widths in tracks.items()]
    return f":root{{{';'.join(properties)}}}\n"
