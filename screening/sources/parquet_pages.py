"""What the pages of a Parquet file unfold to, read from their own headers before anything is unpacked.

The footer's figures are no promise: a page of a kilobyte may say, and hold, two gigabytes.
"""

from __future__ import annotations

import io
import os
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from screening.sources.columns import Columns

# Writers make pages of a megabyte; one that holds a long text may be larger.
LARGEST_PAGE = 64 << 20
# A page header without statistics has some 20 bytes, and with them holds two values.
_USUAL_HEADER, _LONGEST_HEADER = 1 << 12, 1 << 20
# Of the held-out table of a model: cells, and bytes once texts that are stored once stand in every row.
_MOST_CELLS, _MOST_BYTES = 50_000_000, 1 << 28


class TooLarge(ValueError):
    """The pages unfold to more than is read."""


class NoEnd(TooLarge):
    """A page header goes on behind what was read of it."""


def check_pages(stream: BinaryIO, metadata: pq.FileMetaData) -> int:
    """Walk over every page header; return what all pages unfold to, in bytes.

    Raises
    ------
    TooLarge
        A page is larger than `LARGEST_PAGE`, or holds no bytes where it says it does.
    """
    total = 0
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            starts = [chunk.dictionary_page_offset, chunk.data_page_offset]
            at = min(start for start in starts if start)
            end = at + chunk.total_compressed_size
            while at < end:
                header = _header_at(stream, at, end)
                if not 0 <= header.unpacked <= LARGEST_PAGE or not 0 <= header.packed <= end - at:
                    raise TooLarge("a page of the Parquet file is too large")
                total += header.unpacked
                at += header.length + header.packed
    return total


def _header_at(stream: BinaryIO, at: int, end: int) -> _Header:
    """The page header that begins `at`; few are longer than what is read first."""
    for length in (_USUAL_HEADER, _LONGEST_HEADER):
        stream.seek(at)
        content = stream.read(min(length, end - at))
        try:
            return _Header(content)
        except NoEnd:
            if len(content) < length or length == _LONGEST_HEADER:
                raise
    raise AssertionError


class _Header:
    """The first fields of a page header (thrift's compact protocol): sizes, and its own length."""

    def __init__(self, content: bytes):
        self._content, self._at = content, 0
        fields = self._struct(0)
        self.unpacked, self.packed = fields.get(2, -1), fields.get(3, -1)
        self.length = self._at

    def _byte(self) -> int:
        self._at += 1
        try:
            return self._content[self._at - 1]
        except IndexError:
            raise NoEnd("a page header of the Parquet file has no end") from None

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise TooLarge("a number in a page header of the Parquet file has no end")

    def _struct(self, depth: int) -> dict[int, int]:
        fields: dict[int, int] = {}
        number = 0
        while kind := self._byte():
            step, kind = kind >> 4, kind & 15
            number = number + step if step else self._zigzag()
            value = self._value(kind, depth)
            if value is not None:
                fields[number] = value
        return fields

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _value(self, kind: int, depth: int) -> int | None:
        if depth > 8:
            raise TooLarge("a page header of the Parquet file is nested too deeply")
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 3:
            self._byte()
        elif kind == 7:
            self._at += 8
        elif kind == 8:
            size = self._varint()
            self._at += size
        elif kind in (9, 10):
            size = self._byte()
            count = size >> 4 if size >> 4 < 15 else self._varint()
            for _ in range(min(count, len(self._content))):
                self._value(size & 15, depth + 1)
        elif kind == 12:
            self._struct(depth + 1)
        elif kind not in (1, 2):
            raise TooLarge("a page header of the Parquet file cannot be read")
        return None


def small_table(columns: Columns) -> bytes:
    """A Parquet table in memory, the same whichever pandas is there."""
    stream = io.BytesIO()
    pq.write_table(
        pa.table({name: pa.array(each, from_pandas=True) for name, each in columns.items()}), stream
    )
    return stream.getvalue()


def read_small_table(content: bytes) -> Columns:
    """Read a Parquet table from memory.

    Raises
    ------
    TooLarge
        It unfolds to more than the held-out rows of any model.
    ValueError
        It is damaged.
    """
    stream = io.BytesIO(content)
    try:
        with pq.ParquetFile(stream) as file:
            metadata = file.metadata
            cells = metadata.num_rows * metadata.num_columns
            unpacked = check_pages(stream, metadata)
            if cells > _MOST_CELLS or unpacked > _MOST_BYTES:
                raise TooLarge("the held-out table unfolds to more than any model's")
        repeatable = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary)
        fields = file.schema_arrow
        texts = [field.name for field in fields if any(is_it(field.type) for is_it in repeatable)]
        stream.seek(0, os.SEEK_SET)
        # A text that every row repeats is stored once, and may be long: counted before it is repeated.
        with pq.ParquetFile(stream, read_dictionary=texts) as file:
            table = file.read(use_threads=False)
        longest = [_longest(table[name]) for name in texts]
        if sum(longest) * table.num_rows > 8 * _MOST_BYTES:
            raise TooLarge("the held-out table unfolds to more than any model's")
        for name in texts:
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, table[name].cast(pa.string()))
        arrays = {name: table[name].to_numpy() for name in table.column_names}
        return Columns(arrays, table.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"the held-out table is damaged ({type(error).__name__})") from None


def _longest(column: pa.ChunkedArray) -> int:
    texts = (text or "" for chunk in column.chunks for text in chunk.dictionary.to_pylist())
    return max(map(len, texts), default=0)
