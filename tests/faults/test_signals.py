"""Signals and kills at any moment: a message and an exit code, nothing left, and the
next run clears up.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import typer
from commands import screen

from faults.amounts import attempts
from faults.desk import content, copied, leftovers, train
from screening.cli import main
from screening.errors import ModelError
from screening.store.loading import load_model
from screening.store.publishing import publish

boundary = importlib.import_module("screening.cli.boundary")
CODES = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}
# Before Python listens, the system ends the process, and there is nothing to clear up.
UNHEARD = {-signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT, -signal.SIGKILL}
# A process of its own for each attack, split off one that has its modules: a thousand
# fit into half an hour.
FORKED = multiprocessing.get_context("forkserver")
LOADED = [
    "screening.cli",
    "screening.model_selection.train",
    "screening.report",
    "lightgbm",
]
FORKED.set_forkserver_preload(LOADED)


def command(words: list[str], said: Path) -> None:
    """What `screen` does in a process, with its streams in a file."""
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["screen", *words]
    main()


def started(folder):
    words = train(folder, "--seed", "1", "--out", folder / "model")
    words = [str(word) for word in words]
    (folder.parent / "said").unlink(missing_ok=True)
    said_in = folder.parent / "said"
    process = FORKED.Process(target=command, args=(words, said_in))
    process.start()
    return process


@pytest.fixture
def training(desk, tmp_path):
    """A desk, what its model may be, and how long a training takes once its processes
    are warm.
    """
    folder = copied(desk, tmp_path / "desk")
    before = content(folder / "model")
    for _ in range(2):
        began = time.monotonic()
        process = started(folder)
        process.join()
        assert process.exitcode == 0
    return folder, (before, content(folder / "model")), time.monotonic() - began


def ends_of(begun: bool, number: int) -> set[int]:
    """How a process may end that this signal reached; one that had not begun yet ends
    as Python's does.
    """
    return {0, CODES[number]} | UNHEARD | ({1} - {begun})


def test_a_signal_at_any_moment_leaves_nothing_behind(training):
    folder, models, whole = training
    for at in attempts("signals while training (SIGTERM, SIGHUP, SIGINT)", 3, 200):
        number = [*CODES][at % len(CODES)]
        said_in = folder.parent / "said"
        process = started(folder)
        share = random.Random(at).uniform(0.15, 1)
        time.sleep(share * whole)
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
        process.join()
        said = said_in.read_text(encoding="utf-8") if said_in.exists() else ""
        where = (at, number, process.exitcode, said)
        assert process.exitcode in ends_of(said_in.exists(), number), where
        # What a library's callback swallows is Python's to say, and the training goes
        # on to its end.
        swallowed = said.count("Exception ignored in")
        assert said.count("Traceback") <= swallowed or process.exitcode in UNHEARD, (
            where
        )
        assert leftovers(folder) == [], where
        assert content(folder / "model") in models, where


def test_what_a_kill_leaves_is_swept_by_the_next_run_in_that_folder(training):
    folder, models, whole = training
    for at in attempts("kills while training (SIGKILL)", 2, 1000):
        process = started(folder)
        share = random.Random(at).uniform(0.3, 1)
        time.sleep(share * whole)
        process.kill()
        process.join()
        assert content(folder / "model") in models, at
        load_model(folder / "model")
    words = [str(word) for word in train(folder, "--out", folder / "another")]
    screening = [sys.executable, "-m", "screening", *words]
    subprocess.run(screening, check=True, capture_output=True)
    assert leftovers(folder) == []


BEHIND_MEMORY = ModelError("arrays.npz is damaged")
BEHIND_MEMORY.__context__ = MemoryError()
# A library's own error after a signal, memory that ended behind another error, a
# command's own exit code.
ENDS = [
    (
        "_received_signals",
        [signal.SIGHUP],
        ValueError("'cls' must be valid"),
        129,
        "stopped by SIGHUP",
    ),
    ("_received_signals", [], BEHIND_MEMORY, 2, "not enough memory"),
    ("_memory_limit", lambda: 1 << 40, typer.Exit(10), 10, ""),
]


@pytest.mark.parametrize(("name", "value", "error", "code", "said"), ENDS)
def test_boundary_tells_an_error_by_its_cause(
    monkeypatch, capsys, name, value, error, code, said
):
    monkeypatch.setattr(boundary, name, value)
    with pytest.raises(typer.Exit) as ended, boundary.exits():
        raise error
    assert ended.value.exit_code == code
    assert said in capsys.readouterr().err


def test_loads_during_exchange_never_say_damaged(desk):
    """A model that is replaced while it is loaded is read as it was or as it is."""
    screen(*train(desk, "--seed", "1", "--out", desk / "other"))
    kinds = [content(desk / name) for name in ("model", "other")]
    ids = {load_model(desk / name).id for name in ("model", "other")}
    ended = threading.Event()
    exchanges = []

    def replacing() -> None:
        while not ended.is_set():
            with publish(desk / "model", "model") as folder:
                for name, written in kinds[len(exchanges) % 2].items():
                    (folder / name).write_bytes(written)
            exchanges.append(1)

    writer = threading.Thread(target=replacing)
    writer.start()
    numbers = attempts("loads while a model is replaced", 60, 10_000)
    try:
        seen = {load_model(desk / "model").id for _ in numbers}
    finally:
        ended.set()
        writer.join()

    assert seen <= ids
    assert len(exchanges) > 1 or not seen
