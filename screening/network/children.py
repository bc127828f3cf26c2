"""Nights side by side, each in a process of its own: what ends one, be it the system, ends no other."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

# What one process may still do to leave nothing half-done.
GRACE_SECONDS = 20
# The numerical libraries start a thread a core each otherwise, whatever the command was told.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ARROW_NUM_THREADS")


@dataclass(frozen=True)
class Ended:
    """How a command ended, and the lines of its JSON log."""

    code: int
    lines: Sequence[Mapping[str, object]]
    late: bool = False

    @property
    def said(self) -> str | None:
        """Why it failed, in its own words."""
        events = [str(line["event"]) for line in self.lines if "exit_code" in line]
        return None if self.code == 0 else events[-1] if events else f"ended without a word ({self.code})"

    @property
    def peak_mb(self) -> int | None:
        """The most memory it took."""
        found = [line["peak_mb"] for line in self.lines if "peak_mb" in line]
        return found[-1] if found and isinstance(found[-1], int) else None


class Budget:
    """Threads and memory that nights take while they work, and give back.

    Parameters
    ----------
    jobs, memory_mb : int
        What there is in all; nobody asks for more than that.
    """

    def __init__(self, jobs: int, memory_mb: int):
        self._left = [jobs, memory_mb]
        self._changed = threading.Condition()

    @contextmanager
    def share(self, jobs: int, memory_mb: int) -> Iterator[None]:
        """Wait until so much is left, and hold it."""
        with self._changed:
            self._changed.wait_for(lambda: self._left[0] >= jobs and self._left[1] >= memory_mb)
            self._take(jobs, memory_mb)
        try:
            yield
        finally:
            with self._changed:
                self._take(-jobs, -memory_mb)
                self._changed.notify_all()

    def _take(self, jobs: int, memory_mb: int) -> None:
        self._left[0] -= jobs
        self._left[1] -= memory_mb


# Looked up before any process is forked: there no lock may be waited for.
_PRCTL = ctypes.CDLL(None).prctl if sys.platform.startswith("linux") else None


def end_with_parent() -> None:
    """Have the system end this process when the one that began it is gone (Linux)."""
    if _PRCTL is not None:
        _PRCTL(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Children:
    """The processes that work now, so that all can be stopped.

    Parameters
    ----------
    tied : bool
        They end with this process however it ends, where the system can see to it.
    """

    def __init__(self, tied: bool = False) -> None:
        self._first = end_with_parent if tied and _PRCTL else None
        self._working: set[subprocess.Popen[str]] = set()
        self._guard = threading.Lock()
        self._over = False

    def run(self, words: Sequence[str], ledger: str, jobs: int, seconds: float) -> Ended:
        """Run `screen WORDS` with JSON logs; the ledger's URL may hold a password, so no list shows it."""
        command = [sys.executable, "-P", "-m", "screening", "--log", "json", *words]
        surroundings = os.environ | {"SCREEN_LEDGER": ledger} | dict.fromkeys(THREADS, str(jobs))
        with self._guard:
            if self._over:
                return Ended(143, [])
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env=surroundings, text=True, encoding="utf-8", errors="replace", preexec_fn=self._first,
            )  # fmt: skip
            self._working.add(process)
        late = False
        try:
            try:
                said = process.communicate(timeout=seconds)[1]
            except subprocess.TimeoutExpired:
                late = True
                said = _stopped(process)
        finally:
            with self._guard:
                self._working.discard(process)
        return Ended(process.returncode, _lines(said), late)

    def stop(self) -> None:
        """Start nothing more, and have what works clean up and end."""
        with self._guard:
            self._over = True
            for process in self._working:
                process.terminate()


def _stopped(process: subprocess.Popen[str]) -> str:
    process.terminate()
    try:
        return process.communicate(timeout=GRACE_SECONDS)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1]


def _lines(said: str) -> list[Mapping[str, object]]:
    """The lines of the log; what else a library wrote there may quote the data and is not passed on."""
    found: list[Mapping[str, object]] = []
    for line in said.splitlines():
        with suppress(ValueError):
            read = json.loads(line)
            if isinstance(read, dict) and "event" in read:
                found.append(read)
    return found
