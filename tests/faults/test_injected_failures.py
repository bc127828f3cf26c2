"""A failure at every open, write, sync, rename and SQL call: the result is whole before
or whole after.
"""

from __future__ import annotations

import errno
import re
import shutil

import pytest
from commands import screen
from typer.testing import CliRunner
from written_files import page_in

from faults.amounts import LONG, attempts
from faults.desk import ROLES, content, copied, leftovers, train
from faults.injection import REMOVALS, Fault, injected
from screening.cli import app
from screening.ledger.database import open_ledger
from screening.ledger.history import history
from screening.report import render_run
from screening.report.comparison import render_comparison
from screening.store.loading import load_model
from screening.store.serialization import read_document

NIGHT = (
    "--date",
    "2026-03-02",
    "--jobs",
    "1",
    "--accept-delivery",
    "the same table again",
)
FEWER = ("--max-flag-rate", "0.2", "--reason", "fewer")
TWO_FOLDS = (
    "--recipes",
    "logistic",
    "--control",
    "logistic",
    "--search",
    "1",
    "--folds",
    "2",
)
ONCE = ("--repeats", "1", *ROLES)


def commands(desk):
    """What is done on a desk, by name."""
    ledger = ("--ledger", desk / "screening.db")
    model = desk / "model"
    run = desk / "run"
    return {
        "train": train(desk, "--seed", "1", "--out", model),
        "score": (
            "score",
            model,
            desk / "tonight.csv",
            "--out",
            desk / "run2",
            *NIGHT,
            *ledger,
        ),
        "review": ("review", run, desk / "verdicts.json", *ledger),
        "threshold": ("threshold", model, *FEWER, *ledger),
        "report": ("report", run),
        "compare": (
            "compare",
            desk / "past.csv",
            *TWO_FOLDS,
            *ONCE,
            "--out",
            desk / "compared",
        ),
    }


def n_calls(words, folder, monkeypatch) -> int:
    """How many calls a command makes in a folder."""
    with injected(Fault(folder), monkeypatch) as fault:
        screen(*words)
    return len(fault.calls)


def assert_whole(folder, desk) -> None:
    """Everything on the desk can be read and belongs together, and the ledger's trail
    holds.
    """
    load_model(folder / "model")
    run = read_document(folder / "run", "run")
    assert page_in(folder / "run") == render_run(run)
    if run["date"] == "2026-03-01":
        assert content(folder / "run") == content(desk / "run")
    if (folder / "compared").exists():
        compared = read_document(folder / "compared", "comparison")
        page = page_in(folder / "compared")
        assert page == render_comparison(compared)
    with open_ledger(folder / "screening.db") as book:
        history(book, verify=True)


@pytest.mark.parametrize(
    "name", ["train", "score", "review", "threshold", "report", "compare"]
)
def test_a_failure_at_any_call_leaves_the_result_whole(
    name, desk, tmp_path, monkeypatch
):
    first = copied(desk, tmp_path / "counting")
    total = n_calls(commands(first)[name], first, monkeypatch)
    after = content(first / "model")
    runs = {"score": 2}.get(name, 1)
    every = 1 if LONG else max(1, total // 3)
    assert total > 5

    for number in attempts(f"failures injected into {name}", 3, total):
        at = 1 + number * every
        folder = copied(desk, tmp_path / "tried")
        with injected(Fault(folder, at, errno.ENOSPC), monkeypatch) as fault:
            result = CliRunner().invoke(
                app, [str(word) for word in commands(folder)[name]]
            )

        where = f"call {at} of {total}, {fault.calls[at - 1]}: {result.exit_code} {result.output}"
        # What is open is removed by way of an open folder; filelock makes sure of a
        # folder that is there.
        cleaning = fault.struck in REMOVALS or fault.calls[at - 1] in (
            "open .compared.fits",
            "open .model.partial",
            "open .run.partial",
            "open .run2.partial",
            "os.mkdir tried",
            "os.mkdir run",
        )
        # A night without the scores of an earlier run that cannot be read is whole.
        cleaning |= name == "score" and fault.calls[at - 1] == "open run.json"
        assert result.exit_code == 2 or (result.exit_code == 0 and cleaning), where
        assert result.exit_code == 0 or re.search(
            "No space left|disk I/O", result.output
        ), where
        assert cleaning or leftovers(folder) == [], where
        before = content(desk / "model")
        assert content(folder / "model") in (before, after), where
        assert_whole(folder, desk)

        screen(*commands(folder)[name])
        assert leftovers(folder) == [], where
        assert_whole(folder, desk)
        with open_ledger(folder / "screening.db", read_only=True) as book:
            assert len(history(book)["runs"]) == runs, where
        shutil.rmtree(folder)
