"""How a document's type is declared and read: frozen, nothing unknown in it, nothing missing from it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast, dataclass_transform

from screening.errors import ModelError

T = TypeVar("T")

Interval = tuple[float, float]
Range = tuple[float | None, float | None]
Setting = Mapping[str, Any]
"""Parameters of a recipe by name: numbers, words or lists, as the recipe has them."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def document(declared: type[T]) -> type[T]:
    """A part of a document: a frozen dataclass that knows every key it may have."""
    declared.__pydantic_config__ = {"extra": "forbid", "populate_by_name": True}  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(declared)


def named(key: str) -> Any:
    """The JSON key of a field whose name Python keeps for itself."""
    from pydantic import Field

    return Field(alias=key)


@cache
def _adapter(declared: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(declared)


def read(declared: type[T], stored: Mapping[str, Any], name: str) -> T:
    """A document's JSON as its type.

    Parameters
    ----------
    declared : type
    stored : mapping
    name : str
        What errors call it: "run.json".

    Raises
    ------
    ModelError
        Naming the keys that are missing, unknown or of a wrong type, never a value.
    """
    from pydantic import ValidationError

    try:
        found: T = _adapter(cast(Hashable, declared)).validate_python(stored)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(step) for step in each['loc'])}: {each['msg']}" for each in error.errors()[:5]
        ]
        raise ModelError(f"{name} is not as this version writes it: {'; '.join(problems)}") from None
    return found


def plain(found: object) -> dict[str, Any]:
    """A document's type as its JSON."""
    return dict(_adapter(cast(Hashable, type(found))).dump_python(found, mode="json", by_alias=True))


def schema(declared: type) -> dict[str, Any]:
    """The JSON Schema of a document."""
    return dict(_adapter(declared).json_schema(by_alias=True))
