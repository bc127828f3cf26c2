"""Signals and kills at any moment: a message and an exit code, nothing left, and the next run clears up."""

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
# A process of its own for each attack, split off one that has its modules: a thousand fit into half an hour.
FORKED = multiprocessing.get_context("forkserver")
LOADED = ["screening.cli", "screening.model_selection.train", "screening.report", "lightgbm"]
FORKED.set_forkserver_preload(LOADED)


def command(words: list[str], said: Path) -> None:
    """What `screen` does in a process, with its streams in a file."""
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["screen", *words]
    main()


def started(folder):
    words = [str(word) for word in train(folder, "--seed", "1", "--out", folder / "model")]
    said_in(folder).unlink(missing_ok=True)
    process = FORKED.Process(target=command, args=(words, said_in(folder)))
    process.start()
    return process


def said_in(folder) -> Path:
    return folder.parent / "said"


def ends_of(folder, number) -> set[int]:
    """How a process may end that this signal reached; one that had not begun yet ends as Python's does."""
    unbegun = set() if said_in(folder).exists() else {1}
    return {0, CODES[number]} | UNHEARD | unbegun


def seconds_of(folder) -> float:
    """How long a training takes, once the first has warmed up what the others are split off."""
    for _ in range(2):
        began = time.monotonic()
        process = started(folder)
        process.join(120)
        assert process.exitcode == 0
    return time.monotonic() - began


def test_a_signal_at_any_moment_leaves_nothing_behind(desk, tmp_path):
    folder = copied(desk, tmp_path / "desk")
    before, whole = content(folder / "model"), seconds_of(folder)
    after = content(folder / "model")

    for at in attempts("signals while training (SIGTERM, SIGHUP, SIGINT)", 6, 200):
        number = [*CODES][at % len(CODES)]
        process = started(folder)
        time.sleep(random.Random(at).uniform(0.15, 1) * whole)
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
        process.join(60)
        said = said_in(folder).read_text(encoding="utf-8") if said_in(folder).exists() else ""
        where = (at, number, process.exitcode, said)
        assert process.exitcode in ends_of(folder, number), where
        # What a library's callback swallows is Python's to say, and the training goes on to its end.
        swallowed = said.count("Exception ignored in")
        assert said.count("Traceback") <= swallowed or process.exitcode in UNHEARD, where
        assert leftovers(folder) == [], where
        assert content(folder / "model") in (before, after), where


def test_what_a_library_makes_of_a_signal_is_told_as_the_signal(monkeypatch, capsys):
    monkeypatch.setattr(boundary, "_heard", [signal.SIGHUP])
    with pytest.raises(typer.Exit) as ended, boundary.exits():
        raise ValueError("'cls' must be valid as the first argument to 'isinstance'")
    assert ended.value.exit_code == 129
    assert "stopped by SIGHUP" in capsys.readouterr().err


def test_memory_that_ended_behind_another_error_is_named_and_no_file_is_called_damaged(capsys):
    with pytest.raises(typer.Exit) as ended, boundary.exits():
        try:
            raise MemoryError
        except MemoryError:
            raise ModelError("arrays.npz is damaged") from None

    assert ended.value.exit_code == 2
    assert "not enough memory" in capsys.readouterr().err


def test_a_commands_own_exit_code_stands_where_memory_is_capped(monkeypatch):
    monkeypatch.setattr(boundary, "_most", lambda: 1 << 40)
    with pytest.raises(typer.Exit) as ended, boundary.exits():
        raise typer.Exit(10)
    assert ended.value.exit_code == 10


def test_what_a_kill_leaves_is_swept_by_the_next_run_in_that_folder(desk, tmp_path):
    folder = copied(desk, tmp_path / "desk")
    before, whole = content(folder / "model"), seconds_of(folder)
    after = content(folder / "model")

    for at in attempts("kills while training (SIGKILL)", 3, 1000):
        process = started(folder)
        time.sleep(random.Random(at).uniform(0.3, 1) * whole)
        process.kill()
        process.join(60)
        assert content(folder / "model") in (before, after), at
        load_model(folder / "model")
    words = [str(word) for word in train(folder, "--out", folder / "another")]
    subprocess.run([sys.executable, "-m", "screening", *words], check=True, capture_output=True)

    assert leftovers(folder) == []


def test_loads_during_exchange_never_say_damaged(desk):
    """A model that is replaced while it is loaded is read as it was or as it is."""
    screen(*train(desk, "--seed", "1", "--out", desk / "other"))
    kinds = [
        {path.name: path.read_bytes() for path in (desk / name).iterdir()} for name in ("model", "other")
    ]
    ids = {load_model(desk / name).id for name in ("model", "other")}
    ended, exchanges = threading.Event(), []

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
