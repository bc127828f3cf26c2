"""Arguments for processes of this machine, with large arrays as memory maps.

Linux alone has memory of this kind: it has no name, and ends with the last process that
uses it, however that ends.
"""

from __future__ import annotations

import io
import os
import pickle
import threading
from types import TracebackType
from typing import Any

import numpy as np

# Smaller arrays are copied in less time than they are mapped.
MAPPED_BYTES = 100_000


class SharedArrays:
    """Writes each large array once, to memory that other processes map.

    Its arrays must not change before it is closed.
    """

    def __init__(self) -> None:
        self._files: dict[int, tuple[np.ndarray, int]] = {}
        # Calls are packed in whichever thread asks for the next one.
        self._lock = threading.Lock()

    def pack(self, arguments: tuple[Any, ...]) -> bytes:
        """Pickle arguments, with a place in memory for each large array."""
        content = io.BytesIO()
        _Packer(content, self).dump(arguments)
        return content.getvalue()

    def place_of(self, array: np.ndarray) -> str:
        """Return the path under which other processes map an array."""
        with self._lock:
            if id(array) not in self._files:
                number = os.memfd_create("array")
                with os.fdopen(number, "wb", closefd=False) as file:
                    np.save(file, array)
                self._files[id(array)] = array, number
            return f"/proc/{os.getpid()}/fd/{self._files[id(array)][1]}"

    def __enter__(self) -> SharedArrays:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            for _, number in self._files.values():
                os.close(number)
            self._files.clear()


class _Packer(pickle.Pickler):
    """Pickles large arrays as places in memory."""

    def __init__(self, file: io.BytesIO, arrays: SharedArrays) -> None:
        super().__init__(file, protocol=5)
        self._arrays = arrays

    def reducer_override(self, value: Any) -> Any:
        is_large = type(value) is np.ndarray and value.nbytes >= MAPPED_BYTES
        if not is_large or value.dtype.hasobject:
            return NotImplemented
        # The loops are compiled for arrays that can be written to: each process would
        # write to pages of its own.
        return np.load, (self._arrays.place_of(value), "c")
