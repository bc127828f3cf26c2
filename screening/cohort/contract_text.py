"""Write a contract as TOML; the standard library only reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
HEAD = (
    "What the cohort's table must look like. Review every line: types, units, ranges.",
    "missing_values: texts that mean missing; censored: how <5 and >90 are read (refuse, limit, half).",
)


def contract_toml(content: Mapping[str, Any], notes: Sequence[str] = ()) -> str:
    """Return TOML text of a flat contract (roles at the top level, `features` a table of tables)."""
    roles = {key: value for key, value in content.items() if key not in ("features", "format")}
    lines = [f"# {_one_line(note)}" for note in (*HEAD, *notes)]
    lines += ["", "format = 1", "", "[cohort]", *_entries(roles)]
    for name, feature in content.get("features", {}).items():
        key = name if BARE_KEY.fullmatch(name) else _text(name)
        lines += ["", f"[features.{key}]", *_entries(feature)]
    return "\n".join(lines) + "\n"


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items() if value is not None]


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)


def _text(value: str) -> str:
    # JSON's escapes are TOML's, but TOML also wants DEL escaped and knows no surrogate pairs.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one_line(note: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in note).split())
