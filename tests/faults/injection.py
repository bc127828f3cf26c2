"""One failure at one call: opens, writes, syncs, renames, removals, listings and SQL,
counted, then refused.

Interpreter calls are seen by an audit hook, the rest by wrappers: what arrow and file
objects write, what SQLite executes. Only calls that touch a watched folder count.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

AUDITED = (
    "open",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.remove",
    "os.chmod",
    "os.scandir",
    "os.listdir",
)
REMOVALS = ("os.rmdir", "os.remove", "os.scandir", "os.listdir")


@dataclass
class Fault:
    """The failure of the `at`-th watched call (never, if 0); `calls` lists what was
    called.
    """

    folder: Path
    at: int = 0
    number: int = errno.ENOSPC
    calls: list[str] = field(default_factory=list)
    struck: str = ""

    def call(self, name: str, path: object) -> None:
        """Count a call, and fail if it is the one; SQL fails as the driver would."""
        if not self._watches(path):
            return
        self.calls.append(f"{name} {os.path.basename(os.fsdecode(path))}")
        if len(self.calls) == self.at:
            self.struck = name
            if name.startswith("sql"):
                raise sqlite3.OperationalError("disk I/O error")
            raise OSError(self.number, os.strerror(self.number), path)

    def _watches(self, path: object) -> bool:
        return isinstance(path, str | bytes | os.PathLike) and os.fsdecode(
            path
        ).startswith(str(self.folder))


_armed: list[Fault] = []


def _hook(event: str, details: tuple[Any, ...]) -> None:
    if _armed and event in AUDITED:
        _armed[-1].call(event, details[0])


sys.addaudithook(_hook)


class _File(io.FileIO):
    """A file whose writes are counted."""

    def write(self, content: Any) -> int:
        if _armed:
            _armed[-1].call("write", _path(self.fileno()))
        return super().write(content)


class _Cursor(sqlite3.Cursor):
    def execute(self, *words: Any) -> Any:
        _strike("sql execute", self.connection)
        return super().execute(*words)

    def executemany(self, *words: Any) -> Any:
        _strike("sql executemany", self.connection)
        return super().executemany(*words)


class _Connection(sqlite3.Connection):
    def __init__(self, place: Any, *words: Any, **named: Any):
        super().__init__(place, *words, **named)
        path = str(place).removeprefix("file:")
        self.place, *_ = path.split("?")

    def cursor(self, *words: Any) -> Any:
        return super().cursor(_Cursor)

    def commit(self) -> None:
        _strike("sql commit", self)
        super().commit()


def _strike(name: str, connection: Any) -> None:
    if _armed:
        _armed[-1].call(name, connection.place)


def _path(handle: int) -> str:
    if sys.platform == "darwin":
        path = fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(1024))
        return os.fsdecode(path.rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{handle}")


@contextmanager
def injected(fault: Fault, monkeypatch: Any) -> Iterator[Fault]:
    """Count the watched calls of the block, and let one of them fail."""
    opened = io.open
    synced = os.fsync
    connected = sqlite3.dbapi2.connect
    table = pq.ParquetWriter.write_table
    closed = pq.ParquetWriter.close

    def opening(
        file: Any,
        mode: str = "r",
        *words: Any,
        **named: Any,
    ) -> Any:
        if mode not in ("wb", "w"):
            return opened(file, mode, *words, **named)
        raw = io.BufferedWriter(_File(file, "w"))
        return raw if mode == "wb" else io.TextIOWrapper(raw, **named)

    def syncing(handle: int) -> None:
        fault.call("fsync", _path(handle))
        synced(handle)

    def writing(self: Any, *words: Any, **named: Any) -> None:
        fault.call("write", str(fault.folder / "a table"))
        table(self, *words, **named)

    def closing(self: Any) -> None:
        fault.call("close", str(fault.folder / "a table"))
        closed(self)

    with monkeypatch.context() as patch:
        patch.setattr(io, "open", opening)
        patch.setattr("builtins.open", opening)
        patch.setattr(os, "fsync", syncing)
        patch.setattr(
            sqlite3.dbapi2,
            "connect",
            lambda *w, **n: connected(*w, factory=_Connection, **n),
        )
        patch.setattr(pq.ParquetWriter, "write_table", writing)
        patch.setattr(pq.ParquetWriter, "close", closing)
        _armed.append(fault)
        try:
            yield fault
        finally:
            _armed.remove(fault)
