"""Files and rows that somebody damaged or forged: an exit code, never a traceback.

    python benchmarks/mutated_files.py --each 600 --out mutated.csv

Six kinds: NIGHT.toml, a file of verdicts, an Excel workbook, `model.json` and
`arrays.npz` with digests that fit, and rows of a ledger. Each mutation is made anew
from a valid file by its number, and read by a command that reads such a file, in this
process. An error that is no refusal is printed with its number.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import shutil
import sqlite3
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import tomlkit
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from commands import screen, verdict_file
from flow_cohorts import patients, written

from screening.cli import app
from screening.files import digest_of
from screening.store.serialization import read_document
from screening.store.serialization import written as sealed

VALUES = (
    *(None, True, -1, 0, 5, 10**30, 1e300, 1e-300, "", "C", "\0", "\ud83d", "\u202e"),
    *(
        "a" * 5000,
        "2026-02-30",
        "0001-01-01T00:00:00+14:00",
        "{date}",
        "$X",
        "../..",
        "0.9",
    ),
    *([], [[]], {}, {"a": 1}, ["x"] * 3, [None], [{}], [1, "a"]),
)
PIECES = (
    b"",
    b"\0",
    b"\xff\xfe",
    b'"',
    b"<",
    b"&",
    b"\n",
    b"]]",
    b"1e999",
    b"NaN",
    b"null",
)
LEDGER_COMMANDS = (
    "history --verify --ledger l.db",
    "status --ledger l.db --runs runs --artefacts",
    "review runs/1 verdicts.json --ledger l.db",
    "score m night2.csv --date 2026-03-02 --series w --ledger l.db --out runs/2",
    "forget Z00001 --ledger l.db --runs runs",
    "purge --older-than 1d --ledger l.db --runs runs",
    "ledger rebuild l.db",
    "promote m2 --series w --reason x --ledger l.db",
    "retire w --reason x --ledger l.db",
    "threshold m --max-flag-rate 0.2 --reason x --ledger l.db",
)


@dataclass(frozen=True)
class Kind:
    """A kind of mutated file: how one is made, and the commands that read it."""

    mutate: Callable[[Path, random.Random], None]
    commands: tuple[str, ...]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every place below the top of a nested document."""
    children: Any = []
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


def change_value(document: Any, dice: random.Random) -> None:
    """Put another value at a place of a document, take it out, or double it."""
    *path, key = dice.choice([*places(document)])
    parent = document
    for step in path:
        parent = parent[step]
    action = dice.choice(["put", "put", "put", "take out", "rename"])
    if action == "put":
        parent[key] = dice.choice(VALUES)
    elif action == "take out":
        del parent[key]
    elif isinstance(parent, dict):
        parent[dice.choice(["a", "", "id", "model", str(key) + "_"])] = parent.pop(key)


def damage(content: bytes, dice: random.Random) -> bytes:
    """Put pieces into a file, cut some out, or double them."""
    for _ in range(dice.randint(1, 4)):
        start = dice.randint(0, len(content))
        end = dice.randint(start, min(len(content), start + 60))
        piece = dice.choice([*PIECES, content[start:end] * 2, dice.randbytes(4)])
        content = content[:start] + piece + content[end:]
    return content


def mutate_site(desk: Path, dice: random.Random) -> None:
    """Change NIGHT.toml as text or by its values."""
    file = desk / "NIGHT.toml"
    if dice.random() < 0.3:
        file.write_bytes(damage(file.read_bytes(), dice))
        return
    document = tomlkit.parse(file.read_text()).unwrap()
    change_value(document, dice)
    try:
        file.write_text(tomlkit.dumps(document), encoding="utf-8")
    except (ValueError, TypeError, UnicodeEncodeError):
        file.write_bytes(damage(file.read_bytes(), dice))


def mutate_verdicts(desk: Path, dice: random.Random) -> None:
    """Change a file of verdicts as text or by its values."""
    file = desk / "verdicts.json"
    if dice.random() < 0.3:
        file.write_bytes(damage(file.read_bytes(), dice))
        return
    document = json.loads(file.read_bytes())
    for _ in range(dice.randint(1, 3)):
        change_value(document, dice)
    file.write_text(json.dumps(document))


def mutate_workbook(desk: Path, dice: random.Random) -> None:
    """Damage a workbook, or one of the files that it packs."""
    file = desk / "night.xlsx"
    content = file.read_bytes()
    if dice.random() < 0.3:
        file.write_bytes(damage(content, dice))
        return
    packed = {}
    with ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            packed[name] = archive.read(name)
    name = dice.choice([*packed])
    packed[name] = damage(packed[name], dice)
    if dice.random() < 0.2:
        del packed[name]
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for name, part in packed.items():
            archive.writestr(name, part)


def seal(folder: Path, document: dict[str, Any]) -> None:
    """Write a model's document with digests that fit its files."""
    digests = {
        "arrays_sha256": digest_of(folder / "arrays.npz"),
        "validation_sha256": digest_of(folder / "validation.parquet"),
    }
    try:
        content = sealed(document | digests)[1]
    except (ValueError, UnicodeEncodeError):
        return
    (folder / "model.json").write_bytes(content)


def mutate_model(desk: Path, dice: random.Random) -> None:
    """Forge values of `model.json`, with a digest that fits."""
    document = json.loads((desk / "m" / "model.json").read_bytes())
    for _ in range(dice.randint(1, 2)):
        change_value(document, dice)
    seal(desk / "m", document)


def mutate_arrays(desk: Path, dice: random.Random) -> None:
    """Forge an array of a model, with digests that fit."""
    folder = desk / "m"
    with np.load(folder / "arrays.npz") as archive:
        arrays = dict(archive)
    name = dice.choice([*arrays])
    array = arrays[name]
    rng = np.random.default_rng(dice.getrandbits(32))
    forgeries: list[Callable[[], np.ndarray | None]] = [
        lambda: None,
        lambda: array.ravel()[:0],
        lambda: array[..., None],
        lambda: array.ravel()[:1],
        lambda: np.concatenate([array.ravel(), array.ravel()]),
        lambda: array.astype(str),
        lambda: np.zeros(array.shape, dtype=bool),
        lambda: np.zeros(array.shape),
        lambda: np.full(array.shape, np.nan),
        lambda: np.full(array.shape, 1e300),
        lambda: rng.integers(-(2**40), 2**40, array.shape),
        lambda: np.flip(array),
    ]
    forged = dice.choice(forgeries)()
    if forged is None:
        del arrays[name]
    else:
        arrays[name] = forged
    np.savez(folder / "arrays.npz", **arrays)
    seal(folder, json.loads((folder / "model.json").read_bytes()))


def mutate_ledger(desk: Path, dice: random.Random) -> None:
    """Change, delete or double a row of a ledger."""
    with closing(sqlite3.connect(desk / "l.db")) as connection, connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        )
        table = dice.choice([name for (name,) in tables])
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        rows = [row for (row,) in connection.execute(f"SELECT rowid FROM {table}")]
        if not rows:
            return
        column = dice.choice(columns)
        row = dice.choice(rows)
        values = (
            None,
            -1,
            0,
            2**62,
            1.5,
            "",
            "C",
            "{}",
            "[]",
            "null",
            b"\0",
            "\u202e",
            10**6 * "9",
        )
        action = dice.choice(["put", "put", "put", "text", "delete"])
        try:
            if action == "delete":
                connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
            elif action == "put":
                change = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                connection.execute(change, (dice.choice(values), row))
            else:
                old = connection.execute(
                    f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)
                ).fetchone()[0]
                text = damage(str(old).encode(), dice).decode("utf-8", "replace")
                connection.execute(
                    f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (text, row)
                )
        except sqlite3.IntegrityError:
            return


KINDS = {
    "NIGHT.toml": Kind(mutate_site, ("status --site NIGHT.toml",)),
    "verdicts": Kind(mutate_verdicts, ("review runs/1 verdicts.json --ledger l.db",)),
    "xlsx": Kind(
        mutate_workbook,
        ("check night.xlsx --model m", "score m night.xlsx --out runs/x"),
    ),
    "model": Kind(
        mutate_model,
        (
            "score m night2.csv --out runs/x",
            "report m",
            "threshold m --max-flag-rate 0.2 --reason x",
            "check night2.csv --model m",
        ),
    ),
    "arrays": Kind(
        mutate_arrays,
        ("score m night2.csv --out runs/x", "approve m --by A --reason x"),
    ),
    "ledger rows": Kind(mutate_ledger, LEDGER_COMMANDS),
}


def lay_desk(desk: Path) -> None:
    """Make a model, a night with verdicts in a ledger, a workbook and a site's file."""
    table = patients(150)
    known = ["--label", "ill", "--positive", "yes", "--id", "patient"]
    few = ["--search", 1, "--folds", 3, "--repeats", 1, "--jobs", 1, "--beside", "none"]
    past = written(table, desk / "past.csv")
    for name, recipe in (("m", "logistic"), ("m2", "svm_weighted")):
        out = ["--recipe", recipe, "--max-flag-rate", 0.3, "--out", desk / name]
        screen("train", past, *known, *few, *out)
        answer = ["--known-before", "fever,crp,ward"]
        screen("approve", desk / name, "--by", "A", "--reason", "tried", *answer)
    night = patients(40, seed=3).drop(columns="ill")
    night.to_excel(desk / "night.xlsx", index=False)
    written(night, desk / "night1.csv")
    written(patients(40, seed=4).drop(columns="ill"), desk / "night2.csv")
    words = ["--date", "2026-03-01", "--series", "w", "--ledger", desk / "l.db"]
    screen("score", desk / "m", desk / "night1.csv", *words, "--out", desk / "runs/1")
    shadow = ["--shadow", "--out", desk / "runs/1.shadow"]
    screen("score", desk / "m2", desk / "night1.csv", *words, *shadow)
    cases = read_document(desk / "runs/1", "run")["cases"][:4]
    verdicts = [
        {
            "id": case["id"],
            "verdict": "unsure",
            "note": "n",
            "given": "2026-03-01T09:00:00Z",
        }
        for case in cases
    ]
    file = verdict_file(desk / "runs/1", verdicts, site="w")
    screen("review", desk / "runs/1", file, "--ledger", desk / "l.db")
    file.rename(desk / "verdicts.json")
    (desk / "NIGHT.toml").write_text(
        '[site]\nledger = "l.db"\npublish = "pages"\nmode = "0640"\njobs = 1\n'
        'catch_up = 2\nhooks = [["/bin/true"]]\n[series.w]\nmodel = "m"\n'
        'cohort = "in/{date}.csv"\nshadow = ["m2"]\nrule = {max_flag_rate = 0.3}\n'
        "minutes = 5\nmemory_mb = 100\n"
    )


def attempt(desk: Path, kept: Path, kind: Kind, number: int) -> tuple[str, str]:
    """Make a mutation, run a command on it; return how it ended, and the error.

    The desk is put back from where it is kept, at its place: a copy of its ledger would
    take no entries.
    """
    dice = random.Random(number)
    shutil.rmtree(desk)
    shutil.copytree(kept, desk)
    kind.mutate(desk, dice)
    command = kind.commands[number % len(kind.commands)]
    with chdir(desk):
        ended = CliRunner().invoke(app, command.split())
    left = [path.name for path in desk.rglob(".*.partial")]
    error = ended.exception
    if error is not None and not isinstance(error, SystemExit):
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        return "traceback", f"{command}: {type(error).__name__} at {where}: {error}"
    if ended.exit_code not in (0, 2, 3, 4, 5):
        return "other", f"{command}: exit {ended.exit_code}"
    if left:
        return "left", f"{command}: {left}"
    return f"exit {ended.exit_code}", ""


def main() -> None:
    """Try as many mutations of each kind as wanted, and print a table of their ends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--each", type=int, default=600)
    parser.add_argument("--only", choices=[*KINDS], help="only this kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    options = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as place:
        desk = Path(place) / "desk"
        desk.mkdir()
        lay_desk(desk)
        kept = Path(shutil.copytree(desk, Path(place) / "kept"))
        for name, kind in KINDS.items():
            if options.only not in (None, name):
                continue
            counts[name] = Counter()
            for number in range(options.first, options.first + options.each):
                end, error = attempt(desk, kept, kind, number)
                counts[name][end] += 1
                if error:
                    print(f"{name} {number}: {error[:300]}", flush=True)
            print(f"{name}: {dict(sorted(counts[name].items()))}", flush=True)


if __name__ == "__main__":
    main()
