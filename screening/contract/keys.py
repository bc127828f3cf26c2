"""What each key of a contract means, from the types and their docstrings: for `init` and the reference."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue

# What stands in a starter contract for a key that is not set; a number cannot be left blank.
EXAMPLES = {"number": "0.1", "integer": "5", "array": "[]", "string": '""', "boolean": "false"}
DAY = "2030-01-31"


@dataclass(frozen=True)
class Key:
    """One key of a contract.

    Parameters
    ----------
    name : str
    kind : str
        Its type, in words.
    default : str
        As TOML; empty where there is none.
    example : str
        A value of its type, as TOML.
    meaning : str
    required : bool
    """

    name: str
    kind: str
    default: str
    example: str
    meaning: str
    required: bool


def keys_of(model: type[BaseModel]) -> list[Key]:
    """The keys of a table of the contract, in the order of the type; tables within it are none of them."""
    schema, meanings = model.model_json_schema(), meanings_of(model)
    return [
        Key(
            name=name,
            kind=_kind(part),
            default=_toml(part.get("default")),
            example=_example(part),
            meaning=meanings.get(name, ""),
            required=name in schema.get("required", ()),
        )
        for name, part in schema["properties"].items()
        if name not in ("features", "format")
    ]


def meanings_of(model: type[BaseModel]) -> dict[str, str]:
    """What the `Attributes` of a type's docstring say of each; nothing where Python dropped docstrings."""
    section = (inspect.getdoc(model) or "").partition("Attributes\n----------\n")[2]
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line.startswith(" "):
            found |= {name: f"{found[name]} {line.strip()}".strip() for name in names}
        elif line.strip():
            names = re.split(r",\s*", line.partition(" : ")[0].strip())
            found |= dict.fromkeys(names, "")
    return found


def _choices(part: JsonSchemaValue) -> JsonSchemaValue:
    """The schema of a key that is set, where it may also be absent."""
    options = [one for one in part.get("anyOf", [part]) if one.get("type") != "null"]
    return options[0]


def _kind(part: JsonSchemaValue) -> str:
    part = _choices(part)
    if part.get("format") == "date":
        return f"day such as {DAY}"
    if "enum" in part or "const" in part:
        return " or ".join(f'`"{value}"`' for value in part.get("enum", [part.get("const")]))
    if part.get("type") == "array":
        numbers = part.get("prefixItems")
        return f"{len(numbers)} numbers" if numbers else "list of texts"
    bounds = [
        f"{sign} {part[key]:g}"
        for key, sign in (("exclusiveMinimum", "over"), ("minimum", "from"), ("exclusiveMaximum", "under"))
        if key in part
    ]
    word = {"string": "text", "integer": "whole number", "boolean": "`true` or `false`"}
    return " ".join([word.get(part.get("type", ""), "number"), *bounds])


def _example(part: JsonSchemaValue) -> str:
    part = _choices(part)
    if "enum" in part or "const" in part:
        return _toml(part.get("enum", [part.get("const")])[0])
    if "prefixItems" in part:
        return "[0, 1]"
    if part.get("format") == "date":
        return f'"{DAY}"'
    return EXAMPLES[part.get("type", "string")]


def _toml(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
