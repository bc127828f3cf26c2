"""What a database answered, kept in a private file: asked once, read as often as needed.

A table is read twice or more (checked as a whole, then scored). Asked again, a database may answer with other
rows, or in another order, unless one transaction is kept open on it all the while, which hospitals' databases
suffer from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from screening.sources.blocks import Block, wanted_of, whole_block
from screening.sources.parts import TypedPart
from screening.sources.private_file import Place, PrivateFile

# Values in memory at a time while a database is read.
BLOCK_CELLS = 1 << 19
MOST_BLOCK_ROWS = 1 << 14


def block_rows(n_columns: int) -> int:
    """Rows to take from a database at a time."""
    return max(1, min(MOST_BLOCK_ROWS, BLOCK_CELLS // max(n_columns, 1)))


@dataclass(frozen=True)
class Answer:
    """What a database gives: the query as it was sent, the columns' names, and the rows as they come."""

    query: str
    header: list[str]
    blocks: Iterator[pa.RecordBatch]
    how: str


class Spool(TypedPart):
    """The answer of a database, read like a file; `sha256` is that of its values, in their order.

    Parameters
    ----------
    name : str
        What errors call it.
    header : sequence of str
    blocks : iterable of pyarrow.RecordBatch
        The rows; types may differ from block to block, as those of SQLite do.
    origin : mapping
        What is stated of it beside its digest.
    """

    def __init__(
        self, name: str, header: Sequence[str], blocks: Iterable[pa.RecordBatch], origin: Mapping[str, str]
    ):
        self.name, self.header, self.origin = name, list(header), origin
        self._file = PrivateFile()
        self._places: list[Place] = []
        self.rows: int | None = 0
        digest = hashlib.sha256(repr(self.header).encode("utf-8", "surrogatepass"))
        n_rows = 0
        for block in blocks:
            # Columns are found by their place: a name may occur twice until that is refused.
            numbered = block.rename_columns([str(place) for place in range(block.num_columns)])
            self._places.append(self._file.put(numbered))
            _fold(digest, numbered)
            n_rows += block.num_rows
        self.rows, self.bytes, self.sha256 = n_rows, self._file.bytes, digest.hexdigest()

    def blocks(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[Block]:
        """Yield the rows in order."""
        wanted = wanted_of(self.header, columns)
        places = [self.header.index(name) for name in wanted]
        first = 1
        for stored in self._places:
            block = self._file.get(stored)
            for offset in range(0, block.num_rows, batch_rows):
                part = block.slice(offset, batch_rows)
                cells = {name: part.column(place) for name, place in zip(wanted, places, strict=True)}
                yield whole_block(cells, part.num_rows, first)
                first += part.num_rows


def _fold(digest: hashlib._Hash, block: pa.RecordBatch) -> None:
    """Add a block's values to a digest: what lies in memory where a value is missing must not count."""
    for cells in block.columns:
        digest.update(cells.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False))
        present = cells.drop_null()
        # The bits behind the last one of a boolean column are nobody's.
        present = present.cast(pa.uint8()) if pa.types.is_boolean(cells.type) else present
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema([("", present.type)])) as stream:
            stream.write_batch(pa.record_batch([present], [""]))
        digest.update(sink.getvalue())
