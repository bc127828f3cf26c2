"""Rows put away in a private file without a name, which is gone with the process, however that ends."""

from __future__ import annotations

import os
import tempfile
import weakref

import pyarrow as pa


class PrivateFile:
    """Keeps batches of rows in a file under `TMPDIR` that nobody else can open; `bytes` is its size."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self.bytes = 0

    def put(self, rows: pa.RecordBatch) -> int:
        """Put rows away; returns the place that `get` has them from."""
        place = self._file.seek(0, os.SEEK_END)
        with pa.ipc.new_stream(self._file, rows.schema) as stream:
            stream.write_batch(rows)
        self.bytes = self._file.tell()
        return place

    def get(self, place: int) -> pa.RecordBatch:
        """The rows that were put there."""
        self._file.seek(place)
        with pa.ipc.open_stream(self._file) as stream:
            return stream.read_next_batch()
