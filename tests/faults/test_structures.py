"""A wrong type or value in what people and other programs write is refused by the name
of its key.
"""

from __future__ import annotations

import json
import random
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import screen
from typer.testing import CliRunner
from written_files import read_json

from faults.amounts import attempts
from faults.desk import copied
from screening.cli import app
from screening.files import digest_of
from screening.store.serialization import written

ROOT = Path(__file__).parents[2]
VALUES = (
    None,
    True,
    -1,
    5,
    10**30,
    1e300,
    "",
    "C",
    "\u202e",
    [],
    [[]],
    {},
    {"a": 1},
    ["x"] * 3,
    [None],
)
Step = str | int


def places(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Every place of a nested document."""
    yield path
    values = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value if isinstance(value, list) else ())
    )
    for key, child in values:
        yield from places(child, (*path, key))


def put(document: Any, path: tuple[Step, ...], value: Any) -> Any:
    """A copy of a document with another value at one place."""
    copy = json.loads(json.dumps(document))
    parent = at_path(copy, path[:-1])
    parent[path[-1]] = value
    return copy


def toml(value: Any) -> str:
    """A value as TOML writes it, tables in one line; nothing stands for None."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(
                f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()
            )
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return '""' if value is None else json.dumps(value)


@pytest.fixture(scope="module")
def desk(desk):
    screen("init", desk / "past.csv", "--out", desk / "contract.toml")
    shutil.copy(ROOT / "models" / "svm_weighted.toml", desk / "recipe.toml")
    return desk


def toml_at(path):
    def write(changed):
        lines = (
            f"{json.dumps(key)} = {toml(value)}\n" for key, value in changed.items()
        )
        path.write_text("".join(lines), encoding="utf-8")

    return tomllib.loads(path.read_text(encoding="utf-8")), write


def json_at(path):
    return read_json(path), lambda changed: path.write_bytes(
        json.dumps(changed).encode()
    )


def run_at(path):
    return read_json(path), lambda changed: path.write_bytes(written(changed)[1])


def model_at(path):
    tables = {"arrays_sha256": "arrays.npz", "validation_sha256": "validation.parquet"}
    digests = {}
    for key, name in tables.items():
        digests[key] = digest_of(path.parent / name)
    return read_json(path), lambda changed: path.write_bytes(
        written(changed | digests)[1]
    )


REVIEW = "review {0}/run {0}/verdicts.json --ledger {0}/screening.db"
# By what is broken: where it lies, how it is read and written again, and the command
# that reads it.
KINDS = {
    "contract": (
        "contract.toml",
        toml_at,
        "check {0}/tonight.csv --contract {0}/contract.toml",
    ),
    "recipe": ("recipe.toml", toml_at, "recipes {0}/recipe.toml"),
    "verdicts": ("verdicts.json", json_at, REVIEW),
    "run.json, its page": ("run/run.json", run_at, "report {0}/run"),
    "run.json, its verdicts": ("run/run.json", run_at, REVIEW),
    "model.json, its page": ("model/model.json", model_at, "report {0}/model"),
    "model.json, its threshold": (
        "model/model.json",
        model_at,
        "threshold {0}/model --g-mean --reason x",
    ),
    "model.json, its check": (
        "model/model.json",
        model_at,
        "check {0}/tonight.csv --model {0}/model",
    ),
    "model.json, its night": (
        "model/model.json",
        model_at,
        "score {0}/model {0}/tonight.csv --out {0}/next",
    ),
}


def at_path(document, path):
    for step in path:
        document = document[step]
    return document


def fits(value, other) -> bool:
    """Whether two values are of one type, whatever numbers they are."""
    numeric = int | float
    numbers = isinstance(value, numeric) and isinstance(other, numeric)
    return numbers or type(value) is type(other)


@pytest.mark.parametrize("kind", KINDS)
def test_any_value_at_any_place_ends_in_an_exit_code_and_names_its_key(
    kind, desk, tmp_path
):
    name, opened, command = KINDS[kind]
    folder = copied(desk, tmp_path / "desk")
    (folder / "key").write_bytes(bytes(range(32)))
    (folder / "key").chmod(0o600)
    document, write = opened(folder / name)
    spots = [path for path in places(document) if path]
    spots = [path for path in spots if path != ("sha256",)]

    for at in attempts(f"wrong values: {kind}", 12, 2000):
        dice = random.Random(at)
        path = dice.choice(spots)
        value = dice.choice(VALUES)
        write(put(document, path, value))
        # Of another model than this one is.
        shutil.rmtree(folder / "next", ignore_errors=True)
        words = command.format(folder).split()
        ended = CliRunner().invoke(app, words)
        where = (path, value, ended.exit_code, ended.output[:2000])
        assert ended.exit_code in (0, 2, 3, 4), (where, ended.exc_info)
        assert "Traceback" not in ended.output, where
        keys = [step.removesuffix("s") for step in path if isinstance(step, str)]
        # A value of the right type may fail to fit another key, which is then the one
        # that is named; a column that is not in the table is named itself.
        named = any(
            word in ended.output for word in (*keys, f"missing column '{value}'")
        )
        named = named or fits(value, at_path(document, path))
        assert ended.exit_code == 0 or named, where
