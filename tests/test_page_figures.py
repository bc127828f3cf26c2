"""Every figure on a page is its document's: which field stands in which cell of which
block, kind by kind.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from faults.amounts import LONG
from pydantic import ValidationError
from written_files import read_json

from screening.registry import refuse_plugins
from screening.report.history import render_history
from screening.report.page import (
    PAGES,
    SAMPLE_TEXT,
    render_case,
    render_overview,
    sample_of,
)
from screening.schemas.base import Document
from screening.schemas.history import HistoryDocument, OverviewDocument
from screening.schemas.run import ExplainedCase, RunDocument

FIGURES = Path(__file__).with_name("page_figures.json")
"""Of each kind of page: its blocks, their cells, and the fields of the document that
each is of."""

KINDS = PAGES | {
    "model without cases": PAGES["model"],
    "history": (HistoryDocument, lambda document, _: render_history(document)),
    "overview": (OverviewDocument, lambda document, _: render_overview(document)),
    "case": (
        ExplainedCase,
        lambda case, _: render_case(sample_of(RunDocument, count(5000)), case),
    ),
}
NO_PAGE = "no page: two rules"
"""Of the table: fields that no document may have otherwise."""
DECIDING = ("platt.slope", "points.share")
"""Fields that decide, by comparison with another, which sentence or mark is shown."""
VOID = {"meta", "link", "input", "img", "br", "path", "circle"}
TEXTS = {
    "td",
    "th",
    "dt",
    "dd",
    "p",
    "li",
    "figcaption",
    "desc",
    "text",
    "script",
    "caption",
}
CONTRACT = {"cohort": {"capacity": 7, "minutes_per_review": 3.5, "prevalence": 0.0017}}


class Cells(HTMLParser):
    """What stands in each cell of each block: a cell by its row, its column or its
    first words.
    """

    def __init__(self, html: str):
        super().__init__()
        self.cells: Counter[tuple[str, str]] = Counter()
        self.block = self.term = self.row = self.text = ""
        self.heads: list[str] = []
        self.column = 0
        # Of the tables around the one that is read.
        self.outer: list[tuple[list[str], str, int]] = []
        self.tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "section":
            self.block = given.get("aria-labelledby") or "other"
        if tag == "header":
            self.block = "banner"
        if tag == "table":
            self._end()
            self.outer.append((self.heads, self.row, self.column))
        if tag == "thead":
            self.heads = []
        if tag == "tr":
            self.column = 0
            self.row = ""
        if tag in ("path", "circle"):
            attributes = str(sorted(given.items()))
            self.cells[f"{self.block}: drawn", attributes] += 1
        if label := given.get("aria-label") or given.get("aria-valuetext"):
            self.cells[f"{self.block}: label", label] += 1
        if tag not in VOID:
            self.tags.append(tag)
            if tag in TEXTS:
                self._end()

    def handle_endtag(self, tag: str) -> None:
        if tag in self.tags:
            while self.tags.pop() != tag:
                pass
        if tag in TEXTS:
            self._end(tag)
        if tag == "table":
            self.heads, self.row, self.column = self.outer.pop()

    def handle_data(self, text: str) -> None:
        self.text += text

    def _end(self, tag: str = "p") -> None:
        text = " ".join(self.text.split())
        self.text = ""
        name = tag
        if tag == "dt":
            self.term = text
        elif tag == "dd":
            name = self.term
        elif tag == "th" and "thead" in self.tags:
            self.heads.append(text)
        elif tag in ("td", "th"):
            is_known = self.column < len(self.heads)
            head = self.heads[self.column] if is_known else "td"
            name = ", ".join(filter(None, (self.row, head)))
            self.column = self.column + 1
            if tag == "th":
                words = re.findall(r"[A-Za-z]{3,}", text)
                self.row = " ".join(words[:4])
        elif tag not in ("text", "script"):
            words = re.findall(r"[A-Za-z]{3,}", text)
            name = " ".join(words[:3]) or tag
        if text:
            self.cells[f"{self.block}: {name}", text] += 1


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Paths of the numbers in a document, those of a list's parts together."""
    if isinstance(value, Document):
        for name in type(value).model_fields:
            yield from leaves(getattr(value, name), f"{path}.{name}")
    elif is_dataclass(value):
        for one in fields(value):
            yield from leaves(getattr(value, one.name), f"{path}.{one.name}")
    elif isinstance(value, Mapping):
        for key, part in value.items():
            of_key = path if key == SAMPLE_TEXT else f"{path}.{key}"
            yield from leaves(part, of_key)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if value and isinstance(value[0], (int, float)):
            yield path
        for part in value[:1]:
            yield from leaves(part, path) if not isinstance(part, (int, float)) else ()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path


def changed(value: Any, names: Sequence[str]) -> Any:
    """The same with the numbers at a path changed, in place where it has places."""
    if isinstance(value, (list, tuple)):
        return type(value)([changed(part, names) for part in value])
    if isinstance(value, Mapping):
        keys = list(value)
        if names and names[0] in keys:
            keys = [names[0]]
            names = names[1:]
        for key in keys:
            value[key] = changed(value[key], names)  # type: ignore[index]
    elif names and (isinstance(value, Document) or is_dataclass(value)):
        attribute, *rest = names
        value.__dict__[attribute] = changed(getattr(value, attribute), rest)
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    else:
        return value + 1000 if isinstance(value, int) else 0.37 + value
    return value


def made(kind: str) -> Document:
    document = sample_of(KINDS[kind][0], count(1))
    for model in (document, getattr(document, "model", None)):
        if "contract" in getattr(model, "__dict__", {}):
            model.__dict__["contract"] = CONTRACT
            if kind == "model without cases":
                model.operating_points[0].__dict__["n_positive"] = 0
            else:
                model.validation.__dict__["without_cases"] = None
    cases = [document, *getattr(document, "cases", ())]
    for case in [*cases, *getattr(document, "near_misses", ())]:
        # A case with a value out of bounds has no chance to show.
        if "out_of_bounds" in case.__dict__:
            case.__dict__["out_of_bounds"] = None
    return document


def as_it_is(kind: type[Document], document: Any) -> Document:
    return document if isinstance(document, kind) else kind.model_validate(document)


def own_fields(kind: str) -> list[str]:
    """Fields of a page that are not those of its model's own page."""
    fields_of_page = []
    for path in dict.fromkeys(leaves(made(kind))):
        is_of_model = path.startswith(".model.")
        if not is_of_model or (kind, path.split(".")[2]) == ("run", "operating_points"):
            fields_of_page.append(path[1:])
    return fields_of_page


def drawn(kind: str, document: Document) -> Counter[tuple[str, str]]:
    with patch.object(Document, "from_dict", classmethod(as_it_is)):
        return Cells(KINDS[kind][1](document, None)).cells


@cache
def unchanged(kind: str) -> Counter[tuple[str, str]]:
    """The cells of a page whose document is as it was made."""
    return drawn(kind, made(kind))


def cells_of(kind: str, fields_changed: Sequence[str]) -> set[str]:
    """Which cells change if these fields do; ValidationError if no document may."""
    document = made(kind)
    for path in fields_changed:
        document = changed(document, path.split("."))
    plain = unchanged(kind)
    page = drawn(kind, document)
    return {place for place, _ in (page - plain) + (plain - page)}


def figures_of(kind: str) -> dict[str, list[str]]:
    """Which fields each cell of each block is of: those with which it changes."""
    of: dict[str, list[str]] = {}
    for path in own_fields(kind):
        try:
            places = cells_of(kind, [path])
        except ValidationError:
            places = {NO_PAGE}
        for place in places:
            of.setdefault(place, []).append(path)
    return {place: sorted(paths) for place, paths in sorted(of.items())}


def halves(paths: Sequence[str]) -> Iterator[list[str]]:
    """Yield halves of the fields: of any two, some half has the one alone."""
    for digit in range(len(paths).bit_length()):
        for value in (0, 1):
            yield [
                path
                for number, path in enumerate(paths)
                if number >> digit & 1 == value
            ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_of_a_page_is_that_field_of_its_document(kind):
    """`python tests/test_page_figures.py` writes the table again, to be read before it
    is believed. That draws a page for each field; here half of them change at once.
    """
    table = read_json(FIGURES)[kind]
    fields_of = {place: set(paths) for place, paths in table.items()}
    fields_drawn = [
        path for path in own_fields(kind) if path not in fields_of.get(NO_PAGE, ())
    ]
    alone = [path for path in fields_drawn if path.endswith(DECIDING)]
    for path in alone:
        expected = {place for place, paths in fields_of.items() if path in paths}
        assert cells_of(kind, [path]) == expected, path
    for half in halves([path for path in fields_drawn if path not in alone]):
        n_changed = {place: len(paths & {*half}) for place, paths in fields_of.items()}
        found = cells_of(kind, half)
        assert found <= {place for place, n in n_changed.items() if n}
        # A difference of two fields that change by as much does not change, and another
        # field may hide a cell.
        for place in {place for place, n in n_changed.items() if n == 1} - found:
            (path,) = fields_of[place] & {*half}
            assert place in cells_of(kind, [path])


@pytest.mark.skipif(not LONG, reason="a page for each field: `make faults`")
@pytest.mark.repeated
@pytest.mark.parametrize("kind", KINDS)
def test_table_of_figures_is_that_of_each_field_alone(kind):
    assert figures_of(kind) == read_json(FIGURES)[kind]


if __name__ == "__main__":
    refuse_plugins()
    figures = read_json(FIGURES)
    for kind in sys.argv[1:] or KINDS:
        print(f"{kind}: drawing a page for each field of its document", flush=True)
        figures[kind] = figures_of(kind)
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
