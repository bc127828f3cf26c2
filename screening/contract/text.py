"""Write a contract as TOML, every key with what it means; the standard library only reads it."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from screening.contract.keys import Key
from screening.documents.tables import of

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
WIDTH = 100
HEAD = (
    "What the cohort's table must look like. Review every line: roles, types, units, ranges.",
    "A key behind a # is not set; remove the # to set it.",
)


def contract_toml(
    content: Mapping[str, object], notes: Sequence[str], roles: Sequence[Key], features: Sequence[Key]
) -> str:
    """Return TOML text of a flat contract (roles at the top level, `features` a table of tables).

    `roles` and `features` are the keys there can be: each is explained, and named where it is not set.
    """
    lines = [f"# {_one_line(note)}" for note in (*HEAD, *notes)]
    lines += ["", "format = 1", "", "[cohort]"]
    for key in roles:
        lines += [*_comment(key.meaning), *_entry(key, content.get(key.name)), ""]
    lines += ["# Each feature is a table [features.NAME] with its type, and what else is to be said of it:"]
    for key in features:
        lines += _comment(f"{key.name} ({key.kind.replace('`', '')}): {key.meaning}", "#   ")
    stated = of(dict, content.get("features", {}))
    for name, feature in stated.items():
        head = name if BARE_KEY.fullmatch(name) else _text(name)
        said = [f"{key} = {_value(value)}" for key, value in feature.items() if value is not None]
        lines += ["", f"[features.{head}]", *said]
    return "\n".join(lines) + "\n"


def _comment(text: str, mark: str = "# ") -> Iterator[str]:
    later = mark if mark == "# " else f"{mark}  "
    return iter(
        textwrap.wrap(text, WIDTH, initial_indent=mark, subsequent_indent=later, break_long_words=False)
    )


def _entry(key: Key, value: object) -> list[str]:
    return [f"# {key.name} = {key.example}" if value is None else f"{key.name} = {_value(value)}"]


def _value(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)


def _text(value: str) -> str:
    # JSON's escapes are TOML's, but TOML also wants DEL escaped and knows no surrogate pairs.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one_line(note: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in note).split())
