"""Stand-ins for the workers of a cluster, and pieces of work that die."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

from screening import parallel
from screening.parallel import _on_worker


class Stopped(BaseException):
    """The driver is killed."""


class Asked:
    """What was asked for and is worked on when its result is."""

    def __init__(
        self,
        cluster: InThisProcess,
        function: Callable[..., object],
        given: tuple[object, ...],
    ):
        self.cluster, self.function, self.given = cluster, function, given

    def result(self, timeout: float = 0) -> object:
        given = [
            each.result() if isinstance(each, Asked) else each for each in self.given
        ]
        self.cluster.work_on(self.function, given)
        return self.function(*pickle.loads(pickle.dumps(given)))


class InThisProcess:
    """A cluster whose pieces are worked on here, one after the other; the driver dies after so many."""

    where, threads = "local:2", 1

    def __init__(self, lives: int = 1 << 30):
        self.lives, self.client, self.begun = lives, self, WeakSet()
        self.pieces: list[object] = []

    def check(self, paths=(), secret=False):
        assert secret

    def nthreads(self):
        return {"first": 1, "second": 1}

    def holding(self, value: object) -> Asked:
        return self.submit(parallel._given, value, pure=False)

    def submit(
        self, function: Callable[..., object], *given: object, pure: bool
    ) -> Asked:
        return Asked(self, function, given)

    def work_on(self, function: Callable[..., object], given: list[object]) -> None:
        """Count a piece; what pieces share is none."""
        if function is not _on_worker:
            return
        if len(self.pieces) == self.lives:
            raise Stopped
        self.pieces.append(given)

    @contextmanager
    def opened(self, where):
        yield self if where else None


def die_once(mark: str) -> str:
    """Take the worker's process down, but not twice."""
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return f"done: {mark}"
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def listeners(pids: list[int]) -> list[tuple[str, str]]:
    """Address and port, in hexadecimal, of every TCP socket on which some processes listen."""
    sockets = {
        cells[9]: (cells[1].partition(":")[0], cells[1].partition(":")[2])
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for cells in map(str.split, Path(table).read_text().splitlines()[1:])
        if cells[3] == "0A"
    }
    held = {
        os.readlink(handle).removeprefix("socket:[").removesuffix("]")
        for pid in pids
        for handle in Path(f"/proc/{pid}/fd").iterdir()
        if handle.is_symlink()
    }
    return [sockets[inode] for inode in sorted(held & sockets.keys())]
