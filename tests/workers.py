"""Stand-ins for the workers of a cluster, and pieces of work, of which some die.

Processes import this module for them, and little with it.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joblib.parallel import ParallelBackendBase

from screening.threads import n_threads


class Stopped(BaseException):
    """The driver is killed."""


class InThisProcess:
    """A cluster whose tasks are done here, one by one; the caller dies after so
    many.
    """

    address = "local:2"
    n_threads = 1

    def __init__(self, lives: int = 1 << 30):
        self.lives, self.client = lives, self
        self.pieces: list[object] = []

    def check(self, paths=(), secret=False):
        assert secret

    n_workers = 2

    def sees(self, paths):
        return True

    def backend(self) -> ParallelBackendBase:
        return _Backend(self)

    def work_on(self, call: Callable[[], object]) -> object:
        """Count a task and do it, on arguments that have travelled."""
        if len(self.pieces) == self.lives:
            raise Stopped
        travelled = pickle.dumps(call)
        self.pieces.append(travelled)
        return pickle.loads(travelled)()

    @contextmanager
    def opened(self, where):
        yield self if where else None


class _Backend(ParallelBackendBase):
    """A backend of joblib that does a task when its result is asked for."""

    supports_return_generator = True

    def __init__(self, cluster: InThisProcess):
        super().__init__()
        self.cluster = cluster

    def effective_n_jobs(self, n_jobs):
        return 2

    def configure(self, n_jobs=1, parallel=None, **settings):
        self.parallel = parallel
        return 2

    def submit(self, func, callback=None):
        return _Task(self.cluster, func, callback)


class _Task:
    def __init__(self, cluster: InThisProcess, call: Any, callback: Any):
        self.cluster = cluster
        self.call = call
        self.callback = callback

    def get(self, timeout=None):
        result = self.cluster.work_on(self.call)
        self.callback(result)
        return result


def square(number: int) -> int:
    """Return the square of a number; ValueError below 0."""
    if number < 0:
        raise ValueError("no square")
    return number**2


def process_of(*arguments: object) -> int:
    return os.getpid()


def facts_of(array: Any) -> tuple[type, bool, int]:
    return type(array), array.flags.writeable, n_threads()


def modules_of() -> bool:
    return "screening.scoring.scoring_pass" in sys.modules


def wait(seconds: float) -> None:
    time.sleep(seconds)


def die(mark: str) -> None:
    """Take the worker's process down, each time."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(mark: str) -> str:
    """Take the worker's process down, but not twice."""
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return f"done: {mark}"
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def listeners(pids: list[int]) -> list[tuple[str, str]]:
    """Address and port, in hexadecimal, of every TCP socket on which some processes
    listen.
    """
    sockets = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            cells = line.split()
            address, _, port = cells[1].partition(":")
            if cells[3] == "0A":
                sockets[cells[9]] = (address, port)
    held = {
        os.readlink(handle).removeprefix("socket:[").removesuffix("]")
        for pid in pids
        for handle in Path(f"/proc/{pid}/fd").iterdir()
        if handle.is_symlink()
    }
    return [sockets[inode] for inode in sorted(held & sockets.keys())]
