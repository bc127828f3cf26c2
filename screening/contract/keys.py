"""The keys of a contract, as its types declare them; and a contract as a TOML text that explains each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomlkit
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaValue

HEAD = (
    "Review every line. A key behind a # is not set: take the # away to set it. All keys: docs/contract.md."
)
AT_THE_END = "What was guessed, inferred and dropped:"
# The keys that every contract names, whether they are set or not.
ON_TOP = (
    "title", "intended_use", "series", "id", "group", "label", "positive", "time", "subgroup", "display",
    "drop", "prevalence", "minutes_per_review", "capacity",
)  # fmt: skip
# Of each type: its name in words, and what stands in a starter contract for a key that is not set.
TYPES = {
    "number": ("number", "0.1"),
    "integer": ("whole number", "5"),
    "array": ("list of texts", "[]"),
    "object": ("table of texts", "{}"),
    "string": ("text", '""'),
    "boolean": ("`true` or `false`", "false"),
}
BOUNDS = {"exclusiveMinimum": "over", "minimum": "from", "exclusiveMaximum": "under"}
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
    schema = model.model_json_schema()
    return [
        Key(
            name,
            *_type(declared),
            meaning=" ".join(declared.get("description", "").split()),
            required=name in schema.get("required", ()),
        )
        for name, declared in schema["properties"].items()
        if name not in ("features", "format")
    ]


def _type(declared: JsonSchemaValue) -> tuple[str, str, str]:
    """The type of a key that is set, in words; its default and an example."""
    default = _toml(declared["default"]) if declared.get("default") is not None else ""
    options = [one for one in declared.get("anyOf", [declared]) if one.get("type") != "null"]
    chosen: JsonSchemaValue = options[0]
    if chosen.get("format") == "date":
        return f"day such as {DAY}", default, f'"{DAY}"'
    if values := chosen.get("enum"):
        return " or ".join(f"`{_toml(value)}`" for value in values), default, _toml(values[0])
    if numbers := chosen.get("prefixItems"):
        return f"{len(numbers)} numbers", default, "[0, 1]"
    kind, example = TYPES[chosen["type"]]
    bounds = [f"{word} {chosen[bound]:g}" for bound, word in BOUNDS.items() if bound in chosen]
    return " ".join([kind, *bounds]), default, example


def contract_toml(stated: Mapping[str, Any], notes: Sequence[str], roles: type[BaseModel]) -> str:
    """TOML text of a contract: roles at the top level of `stated`, `features` a table of tables.

    The roles that matter stand on top, also where they are not set, each with its meaning in a few words;
    `notes` become comments at the end.
    """
    lines = [f"# {HEAD}", "", "format = 1", "", "[cohort]"]
    for key in keys_of(roles):
        words = re.split(r"[.;:](?: |$)", key.meaning)[0]
        if key.name in stated:
            lines.append(f"{key.name} = {_toml(stated[key.name])}  # {words}")
        elif key.name in ON_TOP:
            lines.append(f"# {key.name} = {key.example}  # {words}")
    for name, values in stated.get("features", {}).items():
        lines += ["", f"[features.{tomlkit.key(name).as_string()}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in values.items()]
    if notes:
        lines += ["", f"# {AT_THE_END}", *(f"# - {_one_line(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        within = tomlkit.inline_table()
        within.update(value)
        return within.as_string()
    return tomlkit.item(value).as_string()


def _one_line(note: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in note).split())
