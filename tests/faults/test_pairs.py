"""All pairs of what a user may combine: recipe, table, rule, comparison, format, night
and following command.

Every pair of two of these occurs in some case. A new recipe, reader or export enters by
being listed where the tool lists it.
"""

import filecmp
from functools import cache

import pandas as pd
import pytest
from allpairspy import AllPairs
from typer.testing import CliRunner

from faults.amounts import LONG, attempts
from faults.combined import (
    BESIDE,
    FOLLOWING,
    FORMATS,
    N_NIGHT,
    NIGHT,
    NIGHTS,
    OPTIONS,
    POINTS,
    RULES,
    TABLES,
    TRAINING,
    recipes,
    roles_of,
    written,
)
from screening.cli import app
from screening.store.serialization import read_document

# Cases of a test, so that processes can share them.
CHUNK = 10
N_QUICK = 100
# Done; usage, contract and model refused; done, but wants attention.
DOCUMENTED = {0, 2, 3, 4, 5}


@cache
def cases():
    """Every case, as tuples of names, the same in every process."""
    parameters = [
        recipes(),
        [*TABLES],
        [*RULES],
        [*BESIDE],
        FORMATS,
        [*NIGHTS],
        FOLLOWING,
    ]
    return [tuple(pairs) for pairs in AllPairs(parameters)]


def run(*words):
    """Run a command; its exit code is a documented one, and it ends in no traceback."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    cause = result.exception
    is_exit = cause is None or isinstance(cause, SystemExit)
    assert is_exit, f"{' '.join(map(str, words))}: {cause!r}"
    assert result.exit_code in DOCUMENTED, result.stderr
    assert "Traceback" not in result.stderr
    return result.exit_code


def check_run(directory, table):
    """Counts add up, every row has one fate, and the page is drawn."""
    document = read_document(directory, "run")
    counts = document["counts"]
    scores = pd.read_parquet(directory / "scores.parquet")
    assert counts["read"] == len(table)
    assert counts["scored"] + counts["refused"] == counts["read"]
    assert sum(document["refused"].values()) == counts["refused"]
    assert counts["scored"] == len(scores)
    assert counts["flagged"] == int(scores.flagged.sum())
    assert scores.id.is_unique
    assert scores.score.notna().all()
    assert (directory / "report.html").read_text().rstrip().endswith("</html>")


def follow(command, folder, table, past, other):
    """Run a command on the model and the night of a folder."""
    model, night = folder / "model", folder / "run"
    ledger = ["--ledger", folder / "ledger.db"]
    first = next(iter(table.id), "P200000")
    name, _, form = command.partition(" ")
    if name == "export":
        out = folder / f"out.{form}"
        source = model if form == "model-card" else night
        options = OPTIONS.get(form, ())
        run("export", source, "--to", form, "--out", out, *options, *ledger)
    elif name in ("validate", "recalibrate"):
        more = ["--recalibrate"] if name == "recalibrate" else []
        out = folder / "elsewhere"
        run("validate", model, other, "--label", "label", "--out", out, *more)
    elif name == "again":
        out = folder / "again"
        later = ["--date", "2026-03-02", "--jobs", "1"]
        run("score", model, past, "--out", out, *later, *ledger)
    elif name == "outcomes":
        events = pd.DataFrame({"id": table.id[::7], "at": "2026-03-01 10:00"})
        path = written(events, folder, "events", ".csv")
        columns = ["--id", "id", "--time", "at", "--within", "72h"]
        run("outcomes", path, *columns, *ledger, "--as-of", "2026-03-09")
    else:
        words = {
            "explain": [night, first, "--out", folder / "case.html", *ledger],
            "threshold": [model, "--max-flag-rate", "0.2", "--reason", "capacity"],
            "history": ["--verify", "--out", folder / "history.html", *ledger],
            "report": [night],
            "forget": [first, "--reason", "asked", *ledger],
        }
        run(name, *words[name])


def check_case(case, folder):
    """Train, score, score again and follow, with what one case combines."""
    recipe, table_name, rule, beside, suffix, night_name, following = case
    past = TABLES[table_name](1)
    night = NIGHTS[night_name](TABLES[table_name](2).iloc[:N_NIGHT].copy())
    night = night.drop(columns="label")
    past_path = written(past, folder, "past", suffix)
    night_path = written(night, folder, "night", suffix)
    other_path = written(TABLES[table_name](3), folder, "other", suffix)
    method = recipe
    if recipe == "points":
        method = folder / "points.toml"
        method.write_text(POINTS)
    code = run(
        "train",
        past_path,
        *roles_of(past, recipe),
        "--recipe",
        method,
        *RULES[rule],
        *BESIDE[beside],
        *TRAINING,
        "--out",
        folder / "model",
    )
    if code not in (0, 5):
        assert not (folder / "model").exists()
        return
    scored = ["score", folder / "model", night_path, "--date", NIGHT, "--jobs", "1"]
    ledger = ["--ledger", folder / "ledger.db"]
    code = run(*scored, "--out", folder / "run", *ledger)
    if code not in (0, 5):
        assert not (folder / "run").exists()
        return
    check_run(folder / "run", night)
    twice = folder / "second" / "run"
    twice.parent.mkdir()
    again = run(*scored, "--out", twice, "--ledger", twice.parent / "ledger.db")
    assert again == code
    for name in ("scores.parquet", "flagged.csv"):
        assert filecmp.cmp(folder / "run" / name, twice / name, False), name
    follow(following, folder, night, past_path, other_path)


@pytest.mark.parametrize("chunk", range(1 if LONG else N_QUICK // CHUNK))
def test_every_pair(chunk, tmp_path):
    """No pair of recipe, table, rule, comparison, format, night and command fails."""
    every = cases()
    first = chunk * CHUNK
    for number in attempts(f"pairs {chunk}", CHUNK, len(every)):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            check_case(every[first + number], folder)
        except AssertionError as error:
            raise AssertionError(f"{every[first + number]}: {error}") from error


def test_pairs_are_all_there():
    """Every pair of a recipe and a table is in some case."""
    found = {case[:2] for case in cases()}

    assert found == {(recipe, table) for recipe in recipes() for table in TABLES}
