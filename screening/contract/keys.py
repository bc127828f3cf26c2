"""What each key of a contract means, from the types and their docstrings; and a contract written as TOML."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomlkit
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaValue
from tomlkit.items import Comment

WIDTH = 98
HEAD = (
    "What the cohort's table must look like. Review every line: roles, types, units, ranges.",
    "A key behind a # is not set; remove the # to set it.",
)
# What stands in a starter contract for a key that is not set; a number cannot be left blank.
EXAMPLES = {
    "number": "0.1",
    "integer": "5",
    "array": "[]",
    "object": "{}",
    "string": '""',
    "boolean": "false",
}
DAY = "2030-01-31"


@dataclass(frozen=True)
class Key:
    """One key of a contract: its type in words, default ("" for none) and example as TOML."""

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
    word = {
        "string": "text",
        "integer": "whole number",
        "boolean": "`true` or `false`",
        "object": "table of texts",
    }
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
    return "" if value is None else tomlkit.item(value).as_string()


def contract_toml(
    content: Mapping[str, Any], notes: Sequence[str], roles: Sequence[Key], features: Sequence[Key]
) -> str:
    """Return TOML text of a flat contract (roles at the top level, `features` a table of tables).

    `roles` and `features` are the keys there can be: each is explained, and named where it is not set.
    """
    text = tomlkit.document()
    for note in (*HEAD, *notes):
        text.add(tomlkit.comment(_one_line(note)))
    text.add(tomlkit.nl())
    text.add("format", 1)
    text.add(tomlkit.nl())
    text.add("cohort", _roles(content, roles, features))
    of_features = tomlkit.table(is_super_table=True)
    stated = content.get("features", {})
    for name, feature in stated.items():
        said = tomlkit.table()
        said.update({key: value for key, value in feature.items() if value is not None})
        of_features.add(name, said.add(tomlkit.nl()))
    text.add("features", of_features)
    return text.as_string().rstrip("\n") + "\n"


def _roles(
    content: Mapping[str, object], roles: Sequence[Key], features: Sequence[Key]
) -> tomlkit.items.Table:
    """The table of roles, and after it what the keys of a feature mean."""
    cohort = tomlkit.table()
    for key in roles:
        for line in _comments(key.meaning):
            cohort.add(line)
        value = content.get(key.name)
        if value is None:
            cohort.add(tomlkit.comment(f"{key.name} = {key.example}"))
        else:
            cohort.add(key.name, value)
        cohort.add(tomlkit.nl())
    cohort.add(
        tomlkit.comment(
            "Each feature is a table [features.NAME] with its type, and what else is to be said of it:"
        )
    )
    for key in features:
        said = f"{key.name} ({key.kind.replace('`', '')}): {key.meaning}"
        for line in _comments(said, "  ", "    "):
            cohort.add(line)
    return cohort.add(tomlkit.nl())


def _comments(text: str, first: str = "", later: str = "") -> list[Comment]:
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False)
    return [tomlkit.comment(line) for line in lines]


def _one_line(note: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in note).split())
