"""Rows put away in a private file without a name, which is gone with the process, however that ends."""

from __future__ import annotations

import tempfile
import weakref
from typing import NamedTuple

import pyarrow as pa


class Place(NamedTuple):
    """Where rows lie in a `PrivateFile`, in bytes."""

    start: int
    length: int


class PrivateFile:
    """Keeps batches of rows in a file under `TMPDIR` that nobody else can open.

    Attributes
    ----------
    bytes : int
        Its size.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self.bytes = 0

    def put(self, rows: pa.RecordBatch) -> Place:
        """Put rows away."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows)
        content = sink.getvalue()
        place = Place(self.bytes, content.size)
        self._file.seek(place.start)
        self._file.write(content)
        self.bytes += content.size
        return place

    def get(self, place: Place) -> pa.RecordBatch:
        """The rows that were put there."""
        self._file.seek(place.start)
        with pa.ipc.open_stream(self._file.read(place.length)) as stream:
            (rows,) = stream
        return rows
