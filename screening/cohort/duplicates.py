"""Ids that occur more than once in a table, found in memory that does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from screening.sources.private_file import PrivateFile

# Rows whose hashes are held before they are put away, in parts by the hash's first bits.
HELD_ROWS = 1 << 20
PART_BITS = 8
SCHEMA = pa.schema([("hash", pa.uint64()), ("row", pa.int64())])


class DuplicateIds:
    """Takes in the ids of a table in row order, as 64 bits each."""

    def __init__(self) -> None:
        self.n_rows = self._n_held = 0
        self._held: list[np.ndarray] = []
        self._file: PrivateFile | None = None
        self._parts: list[list[int]] = [[] for _ in range(1 << PART_BITS)]

    def add(self, ids: np.ndarray) -> None:
        """Take in the ids of further rows, None where there is none."""
        self._held.append(hashed(ids))
        self._n_held += len(ids)
        if self._n_held >= HELD_ROWS:
            self._put_away()

    def found(self) -> tuple[np.ndarray, np.ndarray]:
        """Hashes of repeated ids, sorted ascending, and the rows that have one, from 0."""
        repeated, rows = zip(*map(_repeated, self._whole_parts()), strict=True)
        return np.concatenate(repeated), np.sort(np.concatenate(rows))

    def _whole_parts(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Hashes and their rows; equal hashes are in the same part, and parts ascend."""
        if self._file is None:
            yield self._taken()
            return
        self._put_away()
        for places in self._parts:
            stored = pa.Table.from_batches([self._file.get(place) for place in places], SCHEMA)
            yield stored["hash"].to_numpy(), stored["row"].to_numpy()

    def _taken(self) -> tuple[np.ndarray, np.ndarray]:
        """The hashes held, and their rows; none are held after."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *self._held])
        rows = self.n_rows + np.arange(len(hashes))
        self.n_rows += len(hashes)
        self._held, self._n_held = [], 0
        return hashes, rows

    def _put_away(self) -> None:
        self._file = self._file or PrivateFile()
        hashes, rows = self._taken()
        part = (hashes >> np.uint64(64 - PART_BITS)).astype(np.uint8)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=len(self._parts)))
        for places, mine in zip(self._parts, np.split(order, ends[:-1]), strict=True):
            if len(mine):
                places.append(self._file.put(pa.record_batch([hashes[mine], rows[mine]], SCHEMA)))


def _repeated(part: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes that occur more than once, and the rows that have one; 0 stands for no id."""
    hashes, rows = part
    ordered = np.sort(hashes)
    found = np.unique(ordered[1:][(ordered[1:] == ordered[:-1]) & (ordered[1:] != 0)])
    return found, rows[np.isin(hashes, found)] if found.size else rows[:0]


def hashed(ids: np.ndarray) -> np.ndarray:
    """64 bits per id, in this process alone; 0 where there is none."""
    texts = (0 if text is None else hash(text) for text in ids.tolist())
    return np.fromiter(texts, dtype=np.int64, count=len(ids)).view(np.uint64)
