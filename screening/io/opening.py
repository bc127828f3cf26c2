"""A cohort's source of whatever kind: files here or elsewhere, images, a database, a table in memory.

Files at s3://, gs:// or abfs:// are fetched once into a private folder and read there (fsspec).
"""

from __future__ import annotations

import codecs
import glob
import hashlib
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from screening.errors import CohortError, UsageError, of_system
from screening.files import digest_of
from screening.io import arrow_files, csv_files, excel
from screening.io.database import Database, open_database
from screening.io.frames import Table, source_of
from screening.io.readers import (
    Batches,
    Form,
    Part,
    Reader,
    Source,
    all_of,
    refuse_header,
    refuse_many,
    stamp_of,
)
from screening.registry import OPTIONAL, optional
from screening.spelling import first_of

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Readable: TypeAlias = str | Path | Database | Table
# What brings each of them; `memory` is there for tests.
EXTRAS = {
    "s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure",
    "memory": "s3",
}  # fmt: skip


# The first that knows a file's content reads it, and CSV is what no other knows.
READERS = {
    "Excel": Reader(excel.opened, excel.batches, (".xlsx",)),
    "Parquet": Reader(arrow_files.opened_parquet, arrow_files.parquet_batches, (".parquet", ".pq")),
    "Arrow": Reader(arrow_files.opened_arrow, arrow_files.arrow_batches, (".arrow", ".feather")),
    "CSV": Reader(
        csv_files.opened, csv_files.batches, (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
    ),
}
SUFFIXES = tuple(suffix for reader in READERS.values() for suffix in reader.suffixes)
# First bytes of files that are no table but are often handed over as one.
STRANGERS = {
    b"PK\x03\x04": "a zip archive and no Excel workbook; unpack it",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV (UTF-8)",
    b"<stata_dta>": "a Stata file; export the table as CSV (UTF-8) or Parquet",
    b"$FL2": "an SPSS file; export the table as CSV (UTF-8) or Parquet",
    b"<": "a web page or XML; export the table as CSV (UTF-8)",
    b"{": "JSON; export the table as CSV (UTF-8) or Parquet",
    b"[": "JSON; export the table as CSV (UTF-8) or Parquet",
    b"%PDF": "a PDF; export the table as CSV (UTF-8)",
    b"BZh": "a bzip2 archive; unpack it",
    b"\xfd7zXZ": "an xz archive; unpack it",
    b"\x28\xb5\x2f\xfd": "a zstandard archive; unpack it",
}


def source_at(place: Readable) -> Source:
    """Files by path or URL, a folder of images, a table or query of a database, or a table in memory."""
    if isinstance(place, str) and "://" in place:
        return open_remote(place)
    if isinstance(place, str | Path):
        return optional("images").opened(Path(place)) if _holds_images(place) else open_source(place)
    return open_database(place) if isinstance(place, Database) else source_of(place)


def digests(source: str) -> list[str]:
    """SHA-256 of each part of a source as it lies there now; nothing of a database or an empty place."""
    try:
        if _holds_images(source):
            return [part.sha256 for part in optional("images").opened(Path(source)).files]
        return [digest_of(path) for path in found_files(source)[0]]
    except (UsageError, CohortError):
        return []


def _holds_images(place: str | Path) -> bool:
    return "images" in OPTIONAL and bool(optional("images").holds(Path(place)))


@dataclass
class SourceFile(Part):
    """One file of a cohort, of a kind of `READERS`; `rows` is known once it was read."""

    path: Path
    name: str
    sha256: str
    bytes: int
    form: Form
    kind: str
    stamp: tuple[int, int]

    def refuse_changed(self) -> None:
        """CohortError where the file is not what it was when it was opened."""
        if stamp_of(self.path) != self.stamp:
            raise CohortError(f"{self.name}: changed while it was being read; run again when it is complete")

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the file's rows in order, as its reader takes them.

        Raises CohortError: the file is damaged.
        """
        done = 0
        reader = READERS[self.kind]
        with _damage_named(
            self.path, lambda: f"{self.name}: the {self.kind} file is damaged behind row {done}"
        ):
            for batch in reader.batches(self.path, self.name, self.form, wanted, batch_rows):
                yield batch
                done += batch.num_rows


def open_source(source: str | Path) -> Source:
    """Find the files of a cohort, digest them, and read what their heads say.

    Raises UsageError: no file is there; CohortError: files that are empty, no tables, or have faulty headers;
    all of them are named.
    """
    paths, notes = found_files(source)
    refuse_many(len(paths), source)
    return source_over(paths, notes)


def source_over(paths: Sequence[Path], notes: Sequence[str]) -> Source:
    """The source that some files are; raises as `open_source` does."""
    files = all_of(_opened, paths)
    names: dict[str, list[str]] = {}
    for file in files:
        names.setdefault(file.form.note, []).append(file.name)
    notes = [
        *notes,
        *(
            f"{', '.join(some) if len(some) < 4 else f'{some[0]} and {len(some) - 1} more files'}: {form}"
            for form, some in names.items()
        ),
    ]
    if nameless := [file.name for file in files if "" in file.header]:
        notes.append(f"columns without a name were ignored ({first_of(nameless, 1)})")
    return Source(files, notes)


def found_files(source: str | Path) -> tuple[list[Path], list[str]]:
    """The files that a path, directory or glob stands for, and notes on what of a directory is no table.

    Raises UsageError: there is none; CohortError: one that should be read is no file.
    """
    path = Path(source)
    if path.is_file():
        return [path], []
    if path.is_dir():
        names, notes = tables_among({child.name: _kind(child) for child in path.iterdir()}, source)
        return [path / name for name in names], notes
    matches = {match: _kind(Path(match)) for match in sorted(glob.glob(str(source), recursive=True))}
    # A glob stands for files: what of it is a directory has no match of its own.
    _refuse_unreadable({match: kind for match, kind in matches.items() if kind != "directory"})
    files = [Path(match) for match, kind in matches.items() if kind == "file"]
    if not files:
        raise UsageError(f"no file, directory or glob match at {source}")
    return files, []


def _kind(path: Path) -> str:
    """What an entry of a directory is, in words."""
    if path.is_file():
        return "file" if os.access(path, os.R_OK) else "a file that may not be read"
    if path.is_dir():
        return "directory"
    return "a link to nothing" if path.is_symlink() and not path.exists() else "no regular file"


def _refuse_unreadable(kinds: Mapping[str, str]) -> None:
    """Refuse what lies among the files of a cohort and is none, for some of its rows may be there."""
    faults = [
        f"{PurePath(name).name}: {f'a {kind}' if kind == 'directory' else kind}; is a share not mounted? "
        "Mend it, move it elsewhere, or begin its name with _ to have it left out"
        for name, kind in kinds.items()
        if kind != "file"
    ]
    if faults:
        raise CohortError(faults)


def tables_among(kinds: Mapping[str, str], source: object) -> tuple[list[str], list[str]]:
    """Of a directory's entries, names and what each is, the tables; and a note on files that are none.

    Names that begin with . or _ are skipped, and files whose names do not end as tables do.
    Raises UsageError: there is no table; CohortError: another entry is no file that can be read.
    """
    inside = {name: kinds[name] for name in sorted(kinds) if not name.startswith((".", "_"))}
    others = [n for n, kind in inside.items() if kind == "file" and not n.lower().endswith(SUFFIXES)]
    tables = {name: kind for name, kind in inside.items() if name not in others}
    _refuse_unreadable(tables)
    if not tables:
        raise UsageError(
            f"no CSV, Parquet or Excel file in directory {source} (looked for {', '.join(SUFFIXES)})"
        )
    notes = [f"no tables by their names, and not read: {first_of(others, 5, len(others))}"] if others else []
    return [*tables], notes


@contextmanager
def _damage_named(path: Path, words: Callable[[], str]) -> Iterator[None]:
    """Say what is raised while a file is read; that memory has ended is no fault of it."""
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, EOFError, UnicodeError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise of_system(error, path) from error
        raise CohortError(f"{words()}; export it again") from None


def _opened(path: Path) -> SourceFile:
    stamp = stamp_of(path)
    try:
        with path.open("rb") as stream:
            head = stream.read(1 << 16)
            stream.seek(0)
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise of_system(error, path) from error
    if not head.strip():
        raise CohortError(f"{path.name}: the file is empty; export it again")
    # A name that is not UTF-8 is told by the numbers of its bytes: documents and pages hold no halves.
    name = os.fsencode(path.name).decode("utf-8", "backslashreplace")
    for kind, reader in READERS.items():
        if kind == "CSV":
            _refuse_strangers(path, head)
        with _damage_named(path, lambda: f"{path.name}: the {kind} file is damaged or cut short"):  # noqa: B023
            form = reader.opened(path, head)
        if form:
            file = SourceFile(path, name, digest, stamp[0], form, kind, stamp)
            refuse_header(file)
            return file
    raise AssertionError("CSV is what no other reader knows")


def _refuse_strangers(path: Path, head: bytes) -> None:
    for magic, kind in STRANGERS.items():
        if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(magic):
            raise CohortError(f"{path.name}: this is {kind}")
    if path.name.lower().endswith((".parquet", ".pq")):
        raise CohortError(f"{path.name}: not a Parquet file; name it .csv if it is text, or export it again")


def open_remote(url: str) -> Source:
    """The source that a file, folder or glob elsewhere is.

    It is fetched whole before it is read: what is checked and what is scored are then the same bytes, however
    often they are read and whatever is put there meanwhile.

    Raises UsageError: there is nothing, it cannot be reached, or the library for this kind of place is
    missing; CohortError: as of files here.
    """
    scheme = url.partition("://")[0]
    if scheme not in EXTRAS:
        raise UsageError(
            f"{scheme}://: a database needs --table NAME or --query FILE.sql; "
            f"files are read from {', '.join(f'{name}://' for name in EXTRAS if name != 'memory')}"
        )
    try:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(url)
    except ImportError:
        raise UsageError(f'{scheme}:// needs fsspec: pip install "screening[{EXTRAS[scheme]}]"') from None
    folder = Path(tempfile.mkdtemp(prefix="screening-"))
    try:
        places, notes = _found(system, path, url)
        refuse_many(len(places), url)
        # A folder a file: a glob may match files of one name in several places.
        fetched = [folder / str(number) / PurePosixPath(place).name for number, place in enumerate(places)]
        for place, path in zip(places, fetched, strict=True):
            path.parent.mkdir()
            system.get_file(place, str(path))
        source = source_over(fetched, [f"fetched from {url.rpartition('/')[0]}/", *notes])
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        if error.filename and str(error.filename).startswith(str(folder)):
            raise of_system(error) from None
        raise UsageError(f"{url} cannot be read: {_reason(error)}") from None
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if type(error).__module__.startswith(("botocore", "aiohttp", "google", "azure", "gcsfs")):
            raise UsageError(f"{url} cannot be read: {_reason(error)}") from None
        raise
    weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
    return source


def _reason(error: BaseException) -> str:
    """The kind of what went wrong: a service's own words may hold keys."""
    kinds: dict[type[BaseException], str] = {
        FileNotFoundError: "there is no such file",
        PermissionError: "it may not be read from here",
    }
    return kinds.get(type(error), type(error).__name__)


def _found(system: AbstractFileSystem, path: str, url: str) -> tuple[list[str], list[str]]:
    """Files, and a note on those of a folder that were not read."""
    if any(mark in path for mark in "*?["):
        matches = sorted(place for place in system.glob(path) if system.isfile(place))
        if not matches:
            raise UsageError(f"no glob match at {url}")
        return matches, []
    if system.isdir(path):
        listed = [each for each in system.ls(path, detail=True) if each["name"].strip("/") != path.strip("/")]
        inside = {PurePosixPath(each["name"]).name: each for each in listed}
        names, notes = tables_among({name: each["type"] for name, each in inside.items()}, url)
        return [inside[name]["name"] for name in names], notes
    return [path], []
