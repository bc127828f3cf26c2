"""A failure at every open, write, sync, rename and SQL call: the result is whole before or whole after."""

from __future__ import annotations

import errno
import json
import shutil

import pytest
from commands import screen
from typer.testing import CliRunner

from faults.amounts import LONG
from faults.desk import ROLES, content, copied, laid, leftovers, train
from faults.injection import REMOVALS, Fault, injected
from screening.cli import app
from screening.ledger import history, open_ledger
from screening.report import render_comparison, render_run
from screening.store import load_model, read_document

NIGHT = ("--date", "2026-03-02")
COMMANDS = {
    "train": lambda desk: train(desk, "--seed", "1", "--out", desk / "model"),
    "score": lambda desk: (
        ("score", desk / "model", desk / "tonight.csv", "--out", desk / "run", *NIGHT)
        + ("--ledger", desk / "screening.db", "--jobs", "1")
    ),
    "review": lambda desk: (
        "review",
        desk / "run",
        desk / "verdicts.json",
        "--ledger",
        desk / "screening.db",
    ),
    "threshold": lambda desk: (
        ("threshold", desk / "model", "--max-flag-rate", "0.2", "--reason", "fewer")
        + ("--ledger", desk / "screening.db")
    ),
    "report": lambda desk: ("report", desk / "run"),
    "compare": lambda desk: (
        ("compare", desk / "past.csv", "--recipes", "logistic", "--control", "logistic")
        + ("--search", "1", "--folds", "2", "--repeats", "1", *ROLES, "--out", desk / "compared")
    ),
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    return laid(tmp_path_factory.mktemp("desk"))


def n_calls(words, folder, monkeypatch) -> int:
    """How many calls a command makes in a folder."""
    with injected(Fault(folder), monkeypatch) as fault:
        screen(*words)
    return len(fault.calls)


def assert_whole(folder, desk) -> None:
    """Everything on the desk can be read, belongs together, and no row of the ledger contradicts its trail."""
    load_model(folder / "model")
    run = read_document(folder / "run", "run")
    assert (folder / "run" / "report.html").read_text(encoding="utf-8") == render_run(run)
    if run["date"] == "2026-03-01":
        assert content(folder / "run") == content(desk / "run")
    if (folder / "compared").exists():
        compared = read_document(folder / "compared", "comparison")
        page = (folder / "compared" / "report.html").read_text(encoding="utf-8")
        assert page == render_comparison(compared)
    with open_ledger(folder / "screening.db") as book:
        history(book, verify=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_failure_at_any_call_leaves_the_result_whole(name, desk, tmp_path, monkeypatch):
    first = copied(desk, tmp_path / "counting")
    total = n_calls(COMMANDS[name](first), first, monkeypatch)
    after = content(first / "model")
    assert total > 5
    step = 1 if LONG else max(1, total // 6)

    for at in range(1, total + 1, step):
        folder = copied(desk, tmp_path / "tried")
        with injected(Fault(folder, at, errno.ENOSPC), monkeypatch) as fault:
            result = CliRunner().invoke(app, [str(word) for word in COMMANDS[name](folder)])

        where = (
            f"call {at} of {total}, {fault.calls[-1] if fault.calls else ''} {fault.struck}: {result.output}"
        )
        assert fault.struck, where
        assert result.exit_code in (0, 2), (where, result.exception)
        assert result.exit_code == 2 or fault.struck in REMOVALS, where
        assert result.exit_code == 0 or "No space left" in result.output or "disk I/O" in result.output, where
        assert fault.struck in REMOVALS or leftovers(folder) == [], where
        assert content(folder / "model") in (content(desk / "model"), after), where
        assert_whole(folder, desk)

        screen(*COMMANDS[name](folder))
        assert leftovers(folder) == [], where
        assert_whole(folder, desk)
        assert len(
            json.loads(screen("history", "--ledger", folder / "screening.db", "--json").stdout)["runs"]
        ) == (2 if name == "score" else 1), where
        shutil.rmtree(folder)
