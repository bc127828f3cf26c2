"""A file as text: unpacked where it is packed, in the encoding it agrees with, never more than is bounded."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from screening.errors import CohortError, ScreenError, of_system

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIPPED = b"\x1f\x8b"
# Characters; no table comes near, and memory holds it.
LONGEST_LINE = 16 << 20
# What a gzip file may unfold to: text shrinks to a twentieth, zeros to a thousandth.
LEAST_UNPACKED, MOST_FOLDS = 1 << 30, 100
# Bytes that mean nothing in cp1252; a file that holds one was written in something else.
CP1252_HOLES = bytes((0x81, 0x8D, 0x8F, 0x90, 0x9D))
NOT_ASCII = bytes(range(128, 256))
BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip


def opened_bytes(path: Path) -> BinaryIO:
    stream = path.open("rb")
    zipped = stream.read(2) == GZIPPED
    stream.seek(0)
    if not zipped:
        return stream
    stream.close()
    return io.BufferedReader(_Unpacked(path))


class _Unpacked(io.RawIOBase):
    """A gzip file that is refused once it unfolds to more than a table would."""

    def __init__(self, path: Path):
        self._stream = gzip.GzipFile(path, "rb")
        self._left = max(LEAST_UNPACKED, MOST_FOLDS * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        into = memoryview(buffer)
        content = self._stream.read1(len(into))
        self._left -= len(content)
        if self._left < 0:
            raise _Bomb
        into[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Bomb(Exception):
    """A compressed file unfolds to more than is read."""


class LongLine(Exception):
    """A line is longer than is read."""


READING = (UnicodeError, EOFError, OSError, zlib.error, _Bomb)
"""What reading a file as text may raise."""


def lines_of(stream: io.TextIOWrapper) -> Iterator[str]:
    while line := stream.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise LongLine
        yield line


def fault_of(error: Exception, path: Path, encoding: str) -> ScreenError:
    """The system's refusal, a bomb, or damage."""
    if isinstance(error, OSError) and error.errno is not None:
        return of_system(error, path)
    if isinstance(error, _Bomb):
        return CohortError(f"{path.name}: unfolds to more than {MOST_FOLDS} times its size; unpack it first")
    return CohortError(damaged(path.name, encoding))


def opened_text(path: Path, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(opened_bytes(path), encoding=encoding, newline="")


def damaged(name: str, encoding: str) -> str:
    return f"{name}: damaged or cut short (read as {encoding}); export it again as UTF-8"


def encoding_of(path: Path) -> str:
    """Encoding that the whole file agrees with: a byte-order mark, UTF-8, cp1252, else latin-1."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    utf8, holes, lines, foreign = True, False, 1, 0
    try:
        with opened_bytes(path) as stream:
            head = stream.read(1 << 16)
            for mark, encoding in BOMS:
                if head.startswith(mark):
                    return encoding
            wide = _utf16_without_mark(head)
            if wide:
                return wide
            chunk = head
            while chunk:
                if b"\0" in chunk:
                    line = lines + chunk[: chunk.index(b"\0")].count(b"\n")
                    raise CohortError(
                        f"{path.name}, line {line}: a NUL byte; the file is binary or was damaged, "
                        "export it again as UTF-8"
                    )
                lines += chunk.count(b"\n")
                foreign += len(chunk) - len(chunk.translate(None, NOT_ASCII))
                holes = holes or any(hole in chunk for hole in CP1252_HOLES)
                if utf8:
                    try:
                        decoder.decode(chunk)
                    except UnicodeDecodeError:
                        utf8 = False
                chunk = stream.read(1 << 20)
            if utf8:
                left = len(decoder.getstate()[0])
                # A last character cut in two after others that were whole: UTF-8, but not all of it.
                if left and foreign > left:
                    raise CohortError(damaged(path.name, "utf-8"))
                utf8 = not left
    except READING as error:
        raise fault_of(error, path, "bytes") from None
    control = sum(byte < 9 or 13 < byte < 32 for byte in head)
    if not utf8 and control > len(head) / 50:
        raise CohortError(
            f"{path.name}: binary content, not a table; export it as CSV in UTF-8 or as Parquet"
        )
    return "utf-8" if utf8 else "latin-1" if holes else "cp1252"


def _utf16_without_mark(head: bytes) -> str | None:
    even, odd = head[0::2], head[1::2]
    # ASCII digits and delimiters have a zero in the high byte only.
    if len(head) < 4 or len(head) % 2:
        return None
    if odd.count(0) > 0.6 * len(odd) and even.count(0) == 0:
        return "utf-16-le"
    if even.count(0) > 0.6 * len(even) and odd.count(0) == 0:
        return "utf-16-be"
    return None
