"""Repeated ids of a table of any length, found by their hashes."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Iterator

import numpy as np

from screening.files import discard, temporary_folder_named
from screening.identity.hashes import keyed_hashes
from screening.io.columns import absent
from screening.threads import run_in_threads

# Rows whose hashed ids stay in memory; those of more rows go to a file.
UNFILED_ROWS = 1 << 20
# Hashes that a thread sorts at a time; more if there would be too many parts.
HELD_ROWS = 1 << 20
MAX_PARTS = 32
# Hashes that are read at a time.
READ_ROWS = 1 << 17


class DuplicateIds:
    """Finds repeated ids of a table of any length, in bounded memory.

    Holds 64 bits of each, of many rows in a file without a name.
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._file = tempfile.SpooledTemporaryFile(8 * UNFILED_ROWS)  # noqa: SIM115
        self._lock = threading.Lock()
        weakref.finalize(self, discard, self._file)

    def add(self, hashes: np.ndarray) -> None:
        """Take in the hashes of the ids of further rows, 0 where a row has none."""
        with temporary_folder_named():
            self._file.write(np.ascontiguousarray(hashes).data)
        self.n_rows += len(hashes)

    def repeats(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the hashes of repeated ids, and the rows that have one.

        Both are sorted ascending; rows count from 0.
        """
        # Equal hashes have equal low bits: a part is the hashes with the same ones.
        n_parts = 1
        while n_parts * HELD_ROWS < self.n_rows and n_parts < MAX_PARTS:
            n_parts *= 2
        repeated = [np.zeros(0, np.uint64)]

        def find_repeats(part: int) -> None:
            hashes = np.concatenate([*self._part(part, n_parts)])
            hashes.sort()
            repeated.append(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]))

        run_in_threads(find_repeats, range(n_parts))
        hashes = np.sort(np.concatenate(repeated))
        rows = [np.zeros(0, np.int64)]
        n_above = 0
        for block in self._read() if hashes.size else ():
            nearest = np.searchsorted(hashes, block).clip(max=len(hashes) - 1)
            rows.append(n_above + np.flatnonzero(hashes[nearest] == block))
            n_above += len(block)
        return hashes, np.concatenate(rows)

    def _part(self, part: int, n_parts: int) -> Iterator[np.ndarray]:
        """Yield the hashes whose low bits are the number of a part."""
        for block in self._read():
            # 0 stands for no id.
            yield block[(block & (n_parts - 1) == part) & (block != 0)]

    def _read(self) -> Iterator[np.ndarray]:
        """Yield the hashes in the order of rows; threads take turns to read."""
        for start in range(0, max(1, self.n_rows), READ_ROWS):
            with self._lock, temporary_folder_named():
                self._file.seek(8 * start)
                content = self._file.read(8 * READ_ROWS)
            yield np.frombuffer(content, np.uint64)


def hash_ids(ids: np.ndarray, key: str) -> np.ndarray:
    """Return 64 bits an id, shape (n_rows,); 0 where there is none."""
    hashes = keyed_hashes(ids, key)
    hashes[absent(ids)] = 0
    return hashes
