"""Stand-ins for the workers of a cluster, and pieces of work that die."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Stopped(BaseException):
    """The driver is killed."""


class InThisProcess:
    """A cluster whose pieces are worked on here, one after the other; the driver dies after so many."""

    def __init__(self, lives: int = 1 << 30):
        self.lives, self.threads, self.size = lives, 1, 2
        self.pieces: list[object] = []

    def check(self, paths):
        assert all(Path(path).exists() for path in paths)

    def map(self, function, pieces) -> Iterator[object]:
        for piece in pieces:
            if len(self.pieces) == self.lives:
                raise Stopped
            self.pieces.append(piece)
            yield function(pickle.loads(pickle.dumps(piece)))

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
