"""A site's own templates, looked at before the work whose page they draw: each draws a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import count
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from screening.report.comparison import render_comparison
from screening.report.page import draw_run, render_model, render_validation
from screening.schemas.base import Document
from screening.schemas.comparison import ComparisonDocument, ExternalValidation
from screening.schemas.figures import MinSensitivity, Rule
from screening.schemas.model import ModelDocument
from screening.schemas.run import RunDocument

PAGES: dict[str, tuple[type[Document], Callable[..., str]]] = {
    "run": (RunDocument, draw_run),
    "model": (ModelDocument, render_model),
    "comparison": (ComparisonDocument, render_comparison),
    "validation": (ExternalValidation, render_validation),
}
TEXT = "2026-01-01"
"""Every text of a sample: a class, a column, an id and a day at once."""


def check_templates(templates: Path | None, kind: str) -> None:
    """Draw a sample page of `kind` with a site's own templates; nothing is to be done where there are none.

    Raises UsageError, naming the template and the line: it asks for what no page has, or is no template.
    """
    if templates is not None:
        draw_sample(kind, templates)


def draw_sample(kind: str, templates: Path | None = None) -> str:
    """A page of `kind` on which every block is drawn."""
    document, drawn = PAGES[kind]
    return drawn(sample_of(document, count(1)), templates)


class Every(dict[str, Any]):
    """A mapping that has the same under every name."""

    def __missing__(self, name: str) -> Any:
        return self[TEXT]


def sample_of(kind: Any, numbers: Iterator[int]) -> Any:
    """A value of a type: of a document one with every field, two of each list, and rising numbers."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Annotated, Union, UnionType):
        return sample_of(args[0], numbers)
    if origin is Literal:
        return args[0]
    if origin in (Sequence, list):
        return [sample_of(args[0], numbers) for _ in "ab"]
    if origin is tuple:
        return tuple(sample_of(one, numbers) for one in args if one is not ...)
    if origin in (Mapping, dict):
        return {} if args[1] in (Any, object) else Every({TEXT: sample_of(args[1], numbers)})
    if kind in (bool, str):
        return True if kind is bool else TEXT
    if kind in (int, float):
        return next(numbers) if kind is int else next(numbers) / 1e5
    if kind is Rule:
        return MinSensitivity(0.9)
    if issubclass(kind, Document):
        fields = {name: sample_of(field.annotation, numbers) for name, field in kind.model_fields.items()}
        if isinstance(fields.get("threshold"), float):
            fields["threshold"] = 0.5  # As one rule's are, on a page.
        return kind.model_construct(**fields)
    assert isinstance(kind, type) and is_dataclass(kind)
    made = object.__new__(kind)
    for name, hint in get_type_hints(kind).items():
        if get_origin(hint) is not ClassVar and hint is not ClassVar:
            object.__setattr__(made, name, sample_of(hint, numbers))
    return made
