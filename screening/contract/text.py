"""Write a contract as TOML, every key with what it means."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import tomlkit
from tomlkit.items import Comment

from screening.contract.keys import Key
from screening.documents.tables import of

WIDTH = 98
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
    text = tomlkit.document()
    for note in (*HEAD, *notes):
        text.add(tomlkit.comment(_one_line(note)))
    text.add(tomlkit.nl())
    text.add("format", 1)
    text.add(tomlkit.nl())
    text.add("cohort", _roles(content, roles, features))
    of_features = tomlkit.table(is_super_table=True)
    stated = of(dict, content.get("features", {}))
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
