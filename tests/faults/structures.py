"""Nested documents with another value at one place, sealed as somebody would who knows how."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from screening.store.serialization import digest_of, written

VALUES = (None, True, -1, 5, 10**30, 1e300, "", "C", "\u202e", [], [[]], {}, {"a": 1}, ["x"] * 3, [None])
Step = str | int


def places(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Every place of a nested document."""
    yield path
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from places(child, (*path, key))


def put(document: Any, path: tuple[Step, ...], value: Any) -> Any:
    """A copy of a document with another value at one place."""
    copy = json.loads(json.dumps(document))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return copy


def reseal_model(folder: Path, document: dict[str, Any]) -> None:
    """Write a `model.json` whose digests are true."""
    tables = {"arrays_sha256": "arrays.npz", "validation_sha256": "validation.parquet"}
    digests = {key: digest_of((folder / name).read_bytes()) for key, name in tables.items()}
    (folder / "model.json").write_bytes(written(document | digests)[1])


def toml(value: Any) -> str:
    """A value as TOML writes it, tables in one line; nothing stands for None."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return '""' if value is None else json.dumps(value)


def toml_file(document: dict[str, Any]) -> str:
    """A document as TOML, a line a key."""
    return "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in document.items())
