"""A whole night where there is no network: nothing is looked up, fetched or reported anywhere."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from screening.store.serialization import read_document

APART = ["unshare", "--map-root-user", "--net"]
CALL = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"


def permitted() -> bool:
    """Whether this host lets us take the network from a process."""
    return (
        bool(shutil.which("unshare"))
        and subprocess.run([*APART, "true"], capture_output=True).returncode == 0
    )


@pytest.mark.skipif(
    not permitted(), reason="this host lets nobody make a namespace without a network (unshare -rn)"
)
def test_a_night_runs_where_there_is_no_network(desk):
    ledger = ["--ledger", desk / "screening.db"]
    score = ["score", desk / "model", desk / "tonight.csv", "--out", desk / "next", "--date", "2026-03-02"]
    score += ["--accept-delivery", "the same table again"]
    called = subprocess.run([*APART, sys.executable, "-c", CALL], capture_output=True, text=True)
    night = (
        ["check", desk / "tonight.csv", "--model", desk / "model"], [*score, *ledger],
        ["report", desk / "next"], ["status", "--max-age", "9999d", *ledger],
        ["history", "--verify", *ledger],
    )  # fmt: skip

    for words in night:
        command = [*APART, sys.executable, "-m", "screening", *map(str, words)]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.returncode == 0, (words[0], ended.stderr)
    assert "unreachable" in called.stderr
    assert read_document(desk / "next", "run")["date"] == "2026-03-02"
