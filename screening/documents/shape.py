"""How a document's type is declared and read: frozen, nothing unknown in it, nothing missing from it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, cast, dataclass_transform, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from screening.errors import ModelError

T = TypeVar("T")

Range = tuple[float | None, float | None]
Setting = Mapping[str, object]
"""Parameters of a recipe by name: numbers, words or lists, as the recipe has them."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def document(declared: type[T]) -> type[T]:
    """A part of a document: a frozen dataclass that knows every key it may have."""
    declared.__pydantic_config__ = {"extra": "forbid", "populate_by_name": True}  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(declared)


def named(key: str) -> Any:
    """The JSON key of a field whose name Python keeps for itself."""
    return Field(alias=key)


@cache
def _adapter(declared: Any) -> Any:
    return TypeAdapter(declared)


def read(declared: type[T], stored: Mapping[str, object], name: str) -> T:
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
    try:
        found: T = _adapter(cast(Hashable, declared)).validate_python(stored)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(step) for step in each['loc'])}: {each['msg']}" for each in error.errors()[:5]
        ]
        raise ModelError(f"{name} is not as this version writes it: {'; '.join(problems)}") from None
    return found


def rare(default: Any = None, beside: str | None = None) -> Any:
    """A field that JSON leaves out while it has its default, or wherever the field `beside` is left out."""
    return field(default=default, metadata={"rare": beside or ""})


def even(*columns: Sequence[object]) -> None:
    """ValueError unless columns that are read side by side are of one length."""
    if len({len(column) for column in columns}) > 1:
        raise ValueError("columns that are read side by side are not of one length")


def plain(found: object) -> dict[str, object]:
    """A document's type as its JSON: keys in the order in which the type declares its fields.

    Those of a type's `ORDER` come first.
    """
    return {
        key: _json(getattr(found, name))
        for name, key, default, beside in _keys(cast(Hashable, type(found)))
        if beside is None or not _left_out(found, name, default, beside)
    }


def _left_out(found: object, name: str, default: object, beside: str) -> bool:
    """Whether a rare field has nothing to say; what stands beside another goes with it."""
    if beside:
        return getattr(found, beside) is None
    value = getattr(found, name)
    return value is default or value == default


@cache
def _keys(declared: Any) -> tuple[tuple[str, str, object, str | None], ...]:
    """Of each field its name, JSON key, default, and beside which field it is left out (None: never)."""
    hints = get_type_hints(declared, include_extras=True)
    by_name = {each.name: each for each in fields(declared)}
    first = {name: by_name[name] for name in getattr(declared, "ORDER", ())}
    return tuple(
        (name, _key(hints[name]) or name, each.default, each.metadata.get("rare"))
        for name, each in (first | by_name).items()
    )


def _key(hint: Any) -> str | None:
    return next((each.alias for each in getattr(hint, "__metadata__", ()) if hasattr(each, "alias")), None)


def _json(value: Any) -> Any:
    # Most values are: years of nights have tens of thousands of them.
    if value is None or isinstance(value, (str, int, float)):
        return value
    if is_dataclass(value):
        return plain(value)
    if isinstance(value, Mapping):
        return {key: _json(each) for key, each in value.items()}
    return [_json(each) for each in value] if isinstance(value, (list, tuple)) else value


def schema(declared: type) -> dict[str, object]:
    """The JSON Schema of a document."""
    return dict(_adapter(declared).json_schema(by_alias=True))
