"""Parquet files of the same columns joined as they are, without decoding a cell.

Arrow joins footers, but not files: a footer gives the places of the cells as offsets,
which hold for the file that it was written for. So each footer is copied with other
offsets, in the compact protocol of Thrift in which Parquet writes it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MAGIC = b"PAR1"
# Behind a footer: its length in four bytes, and MAGIC.
TAIL_BYTES = 8
# Bytes of a file that are copied at a time.
COPIED_BYTES = 1 << 20
OFFSET = "offset"
ORDINAL = "ordinal"
# Numbers of the fields in parquet.thrift whose values change, by structure.
COLUMN_FIELDS = {9: OFFSET, 10: OFFSET, 11: OFFSET, 14: OFFSET}
CHUNK_FIELDS = {2: OFFSET, 3: COLUMN_FIELDS, 4: OFFSET, 6: OFFSET}
ROW_GROUP_FIELDS = {1: CHUNK_FIELDS, 5: OFFSET, 7: ORDINAL}
FOOTER_FIELDS = {4: ROW_GROUP_FIELDS}
# Types of values in the compact protocol.
BOOLEANS = (1, 2)
BYTE = 3
INTEGERS = (4, 5, 6)
DOUBLE = 7
BINARY = 8
LISTS = (9, 10)
STRUCTURE = 12


@dataclass
class _FooterCopy:
    """Copies a footer, and adds to the fields that `FOOTER_FIELDS` names.

    Parameters
    ----------
    source : bytes
    additions : mapping of str to int
        By `OFFSET` and `ORDINAL`.
    """

    source: bytes
    additions: Mapping[str, int]
    target: bytearray = field(default_factory=bytearray)
    position: int = 0

    def copy_structure(self, fields: Any) -> None:
        """Copy fields to the end of their structure."""
        number = 0
        while header := self._copy_byte():
            delta = header >> 4
            if delta:
                number += delta
            else:
                number = _signed(self._copy_varint())
            kind = header & 15
            # The header has a boolean's value.
            if kind not in BOOLEANS:
                self._copy_value(kind, fields.get(number, {}))

    def _copy_value(self, kind: int, fields: Any) -> None:
        """Copy a value; `fields` names what changes in it."""
        if kind == STRUCTURE:
            self.copy_structure(fields)
        elif kind in LISTS:
            self._copy_list(fields)
        elif kind in INTEGERS:
            self._copy_integer(fields or None)
        elif kind == BINARY:
            self._copy_bytes(self._copy_varint())
        elif kind == DOUBLE:
            self._copy_bytes(8)
        elif kind == BYTE or kind in BOOLEANS:
            self._copy_bytes(1)
        else:
            raise ValueError(f"a Parquet footer cannot contain a value of type {kind}")

    def _copy_list(self, fields: Any) -> None:
        header = self._copy_byte()
        n_values = header >> 4
        if n_values == 15:
            n_values = self._copy_varint()
        for _ in range(n_values):
            self._copy_value(header & 15, fields)

    def _copy_integer(self, meaning: str | None) -> None:
        encoded = self._read_varint()
        # Offset 0 means that there is no such place.
        if meaning == ORDINAL or (meaning == OFFSET and encoded > 0):
            encoded += 2 * self.additions[meaning]
        self._write_varint(encoded)

    def _copy_byte(self) -> int:
        byte = self.source[self.position]
        self._copy_bytes(1)
        return byte

    def _copy_bytes(self, n_bytes: int) -> None:
        end = self.position + n_bytes
        self.target += self.source[self.position : end]
        self.position = end

    def _copy_varint(self) -> int:
        value = self._read_varint()
        self._write_varint(value)
        return value

    def _read_varint(self) -> int:
        value = 0
        shift = 0
        while True:
            byte = self.source[self.position]
            self.position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _write_varint(self, value: int) -> None:
        while value >= 128:
            self.target.append(value & 127 | 128)
            value >>= 7
        self.target.append(value)


def _signed(encoded: int) -> int:
    """Return the integer that a varint encodes by zigzag."""
    return encoded >> 1 ^ -(encoded & 1)


class ParquetJoin:
    """A Parquet file that is written by appending others of the same columns.

    Parameters
    ----------
    path : Path
        File to write, which is complete once it is closed.
    """

    def __init__(self, path: Path):
        self._file = path.open("wb")
        self._file.write(MAGIC)
        self._metadata: pq.FileMetaData | None = None

    def append(self, content: memoryview) -> None:
        """Append the row groups of a Parquet file."""
        end = len(content) - TAIL_BYTES - _footer_length(content[-TAIL_BYTES:])
        self._add_footer(bytes(content[end:-TAIL_BYTES]))
        self._file.write(content[len(MAGIC) : end])

    def append_file(self, path: Path) -> None:
        """Append the row groups of a Parquet file on disk.

        It is copied by a small buffer: to map it takes more than twice as long.
        """
        buffer = memoryview(bytearray(COPIED_BYTES))
        with path.open("rb") as source:
            source.seek(-TAIL_BYTES, os.SEEK_END)
            n_footer = _footer_length(source.read(TAIL_BYTES))
            end = source.seek(-TAIL_BYTES - n_footer, os.SEEK_END)
            self._add_footer(source.read(n_footer))
            source.seek(len(MAGIC))
            for start in range(len(MAGIC), end, COPIED_BYTES):
                n_bytes = source.readinto(buffer[: end - start])
                self._file.write(buffer[:n_bytes])

    def _add_footer(self, footer: bytes) -> None:
        """Add the metadata of row groups that are appended next."""
        n_groups = 0
        if self._metadata is not None:
            n_groups = self._metadata.num_row_groups
        additions = {OFFSET: self._file.tell() - len(MAGIC), ORDINAL: n_groups}
        metadata = _moved_footer(footer, additions)
        if self._metadata is None:
            self._metadata = metadata
        else:
            self._metadata.append_row_groups(metadata)

    def close(self) -> None:
        """Write the joined footer."""
        with self._file:
            if self._metadata is not None:
                sink = pa.BufferOutputStream()
                self._metadata.write_metadata_file(sink)
                self._file.write(memoryview(sink.getvalue())[len(MAGIC) :])


def _footer_length(tail: bytes | memoryview) -> int:
    """Return the length of the footer before the last bytes of a file."""
    return int.from_bytes(tail[:4], "little")


def _moved_footer(footer: bytes, additions: Mapping[str, int]) -> pq.FileMetaData:
    """Return the metadata of a footer whose row groups lie elsewhere."""
    copy = _FooterCopy(footer, additions)
    copy.copy_structure(FOOTER_FIELDS)
    n_bytes = len(copy.target).to_bytes(4, "little")
    content = MAGIC + copy.target + n_bytes + MAGIC
    return pq.read_metadata(pa.BufferReader(content))
