"""Signals and kills at any moment: a message and an exit code, nothing left, and the next run clears up."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest

from faults.amounts import counted, tries
from faults.desk import content, copied, laid, leftovers, train
from screening.storage.loading import load_model

CODES = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}
# Before Python listens, the system ends the process, and there is nothing to clear up.
UNHEARD = {-signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT, -signal.SIGKILL}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    return laid(tmp_path_factory.mktemp("desk"))


def started(folder) -> subprocess.Popen:
    words = [str(word) for word in train(folder, "--seed", "1", "--out", folder / "model")]
    command = [sys.executable, "-m", "screening", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def seconds_of(folder) -> float:
    began = time.monotonic()
    process = started(folder)
    process.communicate(timeout=120)
    assert process.returncode == 0
    return time.monotonic() - began


def test_a_signal_at_any_moment_leaves_nothing_behind(desk, tmp_path):
    folder = copied(desk, tmp_path / "desk")
    before, whole = content(folder / "model"), seconds_of(folder)
    after, dice = content(folder / "model"), random.Random(0)
    n = tries(6, 200)

    for at in range(n):
        number = [*CODES][at % len(CODES)]
        process = started(folder)
        time.sleep(dice.uniform(0.15, 1) * whole)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
        where = (at, number, process.returncode, said)
        assert process.returncode in {0, CODES[number]} | UNHEARD, where
        assert "Traceback" not in said or process.returncode in UNHEARD, where
        assert leftovers(folder) == [], where
        assert content(folder / "model") in (before, after), where
    counted("signals while training (SIGTERM, SIGHUP, SIGINT)", n)


def test_what_a_kill_leaves_is_swept_by_the_next_run_in_that_folder(desk, tmp_path):
    folder = copied(desk, tmp_path / "desk")
    before, whole = content(folder / "model"), seconds_of(folder)
    after, dice = content(folder / "model"), random.Random(1)
    n = tries(3, 1000)

    for at in range(n):
        process = started(folder)
        time.sleep(dice.uniform(0.3, 1) * whole)
        process.kill()
        process.communicate(timeout=60)
        assert content(folder / "model") in (before, after), at
        load_model(folder / "model")
    words = [str(word) for word in train(folder, "--out", folder / "another")]
    subprocess.run([sys.executable, "-m", "screening", *words], check=True, capture_output=True)

    assert leftovers(folder) == []
    counted("kills while training (SIGKILL)", n)
