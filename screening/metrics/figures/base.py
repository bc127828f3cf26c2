"""A figure as one entry, and the function that evaluates a population of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from screening.metrics.judged_rows import JudgedRows
from screening.schemas.base import UNDEFINED, Estimate

Need = Literal["rows", "cases", "others", "chance"]
Form = Literal["share", "area", "ratio"]
Table = Literal["subgroups", "night"]

Compute = Callable[[JudgedRows], Estimate]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a population of rows.

    Parameters
    ----------
    name : str
        Key in documents.
    title : str
        Head of its column.
    help : str
        What it is, one sentence for a reader of a page.
    form : {"share", "area", "ratio"}
        How it is written: in per cent, or with two decimals.
    better : {"higher", "lower"} or None
        Which values are better; None where neither is.
    needs : frozenset of {"rows", "cases", "others", "chance"}
        What the population must have enough of.
    tables : frozenset of {"subgroups", "night"}
        Where it is computed and shown.
    place : int
        Columns of a table are in the order of their places.
    compute : callable
        Returns the figure, with its 95 % interval, from `JudgedRows`.
    """

    name: str
    title: str
    help: str
    form: Form
    better: Literal["higher", "lower"] | None
    needs: frozenset[Need]
    tables: frozenset[Table]
    place: int
    compute: Compute


FIGURES: dict[str, Figure] = {}
"""Every figure by its name."""


def add(figure: Figure) -> None:
    """Add a figure; ValueError if there is one of its name."""
    if figure.name in FIGURES:
        raise ValueError(f"there are two figures with the name {figure.name!r}")
    FIGURES[figure.name] = figure


def figure(
    *,
    title: str,
    help: str,
    form: Form,
    place: int,
    better: Literal["higher", "lower"] | None = "higher",
    needs: Iterable[Need] = ("cases", "others"),
    tables: Iterable[Table] = (),
) -> Callable[[Compute], Figure]:
    """Make a function from judged rows to an estimate the figure of its name.

    Parameters as for ``Figure``.
    """

    def entry(compute: Compute) -> Figure:
        made = Figure(
            name=compute.__name__,
            title=title,
            help=help,
            form=form,
            better=better,
            needs=frozenset(needs),
            tables=frozenset(tables),
            place=place,
            compute=compute,
        )
        add(made)
        return made

    return entry


def figures_in(table: Table) -> list[Figure]:
    """Return the figures of a table in the order of its columns."""
    shown = [figure for figure in FIGURES.values() if table in figure.tables]
    return sorted(shown, key=lambda figure: figure.place)


def evaluate(rows: JudgedRows, figures: Iterable[Figure]) -> dict[str, Estimate]:
    """Return figures of a population of rows by name, each with its 95 % interval.

    A figure is undefined where the population has too little of what it needs.
    """
    found = {}
    for figure in figures:
        enough = not lacking(rows, figure)
        found[figure.name] = figure.compute(rows) if enough else UNDEFINED
    return found


def lacking(rows: JudgedRows, figure: Figure) -> frozenset[Need]:
    """Return what a figure needs and a population has too little of."""
    missing: set[Need] = set()
    for need in figure.needs:
        if need == "chance":
            is_there = rows.chance is not None
        else:
            is_there = rows.units[need] >= rows.fewest
        if not is_there:
            missing.add(need)
    return frozenset(missing)
