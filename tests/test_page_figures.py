"""Every figure on a page is its document's: which field stands in which cell of which
block, kind by kind.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import ValidationError
from written_files import read_json

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


def figures_of(kind: str, only: str = "") -> dict[str, list[str]]:
    """Which fields each cell of each block is of: those with which it changes."""
    of: dict[str, set[str]] = {}
    # Blocks on a night's model, and on one that is validated, are those of the model's
    # own page.
    paths = [
        path
        for path in dict.fromkeys(leaves(made(kind)))
        if path.startswith(only)
        and (
            not path.startswith(".model.")
            or (kind, path.split(".")[2]) == ("run", "operating_points")
        )
    ]
    with patch.object(Document, "from_dict", classmethod(as_it_is)):
        draw = KINDS[kind][1]
        plain = Cells(draw(made(kind), None)).cells
        for path in paths:
            try:
                document = changed(made(kind), path[1:].split("."))
                page = Cells(draw(document, None)).cells
            except ValidationError:
                of.setdefault("no page: two rules", set()).add(path[1:])
                continue
            for place, _ in (page - plain) + (plain - page):
                of.setdefault(place, set()).add(path[1:])
    return {place: sorted(paths) for place, paths in sorted(of.items())}


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_of_a_page_is_that_field_of_its_document(kind):
    """`python tests/test_page_figures.py` writes the table anew, to be read before it
    is believed.
    """
    assert figures_of(kind) == read_json(FIGURES)[kind]


if __name__ == "__main__":
    figures = {kind: figures_of(kind) for kind in KINDS}
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
