"""A cohort's source of whatever kind: files here or elsewhere, images, a database, a table in memory.

Files at s3://, gs:// or abfs:// are fetched once into a private folder and read there (fsspec).
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

from screening.errors import CohortError, UsageError, of_system
from screening.files import digest_of
from screening.io.arrow_files import ArrowFile, ParquetFile
from screening.io.csv_files import CsvFile
from screening.io.database import Database, open_database
from screening.io.excel import ExcelFile
from screening.io.frames import Table, source_of
from screening.io.readers import Source, TableFile, all_of
from screening.registry import OPTIONAL, optional
from screening.spelling import first_of

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Readable: TypeAlias = str | Path | Database | Table
# The first that knows a file's content reads it, and CSV is what no other knows.
READERS: tuple[type[TableFile], ...] = (
    ExcelFile,
    ParquetFile,
    ArrowFile,
    CsvFile,
)  # fmt: skip
SUFFIXES = tuple(suffix for reader in READERS for suffix in reader.suffixes)
# What brings each of them; `memory` is there for tests.
EXTRAS = {
    "s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure",
    "memory": "s3",
}  # fmt: skip
REASONS: dict[type[BaseException], str] = {
    FileNotFoundError: "there is no such file",
    PermissionError: "it may not be read from here",
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
        return [digest_of(path) for path in local_files(source)[0]]
    except (UsageError, CohortError):
        return []


def _holds_images(place: str | Path) -> bool:
    return "images" in OPTIONAL and bool(optional("images").holds(Path(place)))


def open_source(source: str | Path) -> Source:
    """Find the files of a cohort, digest them, and read what their heads say.

    Raises UsageError: no file is there; CohortError: files that are empty, no tables, or have faulty headers;
    all of them are named.
    """
    return source_over(*local_files(source))


def source_over(paths: Sequence[Path], notes: Sequence[str]) -> Source:
    """The source that some files are; raises as `open_source` does."""
    files = all_of(_opened, paths)
    names: dict[str, list[str]] = {}
    for file in files:
        names.setdefault(file.note, []).append(file.name)
    forms = [
        f"{', '.join(alike) if len(alike) < 4 else f'{alike[0]} and {len(alike) - 1} more files'}: {note}"
        for note, alike in names.items()
    ]
    if nameless := [file.name for file in files if "" in file.header]:
        forms.append(f"columns without a name were ignored ({first_of(nameless, 1)})")
    return Source(files, [*notes, *forms])


def _opened(path: Path) -> TableFile:
    try:
        with path.open("rb") as stream:
            head = stream.read(1 << 16)
        if not head.strip():
            raise CohortError(f"{path.name}: the file is empty; export it again")
        # A name that is not UTF-8 is told by the numbers of its bytes: documents and pages hold no halves.
        name = os.fsencode(path.name).decode("utf-8", "backslashreplace")
        return next(reader for reader in READERS if reader.knows(path, head))(path, name)
    except OSError as error:
        raise of_system(error, path) from error


def local_files(source: str | Path) -> tuple[list[Path], list[str]]:
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
        remote, notes = _remote_files(system, path, url)
        # A folder a file: a glob may match files of one name in several places.
        fetched = [folder / str(number) / PurePosixPath(name).name for number, name in enumerate(remote)]
        for name, copy in zip(remote, fetched, strict=True):
            copy.parent.mkdir()
            system.get_file(name, str(copy))
        source = source_over(fetched, [f"fetched from {url.rpartition('/')[0]}/", *notes])
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            if str(error.filename or "").startswith(str(folder)):
                raise of_system(error) from None
        elif not type(error).__module__.startswith(("botocore", "aiohttp", "google", "azure", "gcsfs")):
            raise
        # A service's own words may hold keys.
        raise UsageError(f"{url} cannot be read: {REASONS.get(type(error), type(error).__name__)}") from None
    weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
    return source


def _remote_files(system: AbstractFileSystem, path: str, url: str) -> tuple[list[str], list[str]]:
    """Files, and a note on those of a folder that were not read."""
    if any(mark in path for mark in "*?["):
        matches = sorted(name for name in system.glob(path) if system.isfile(name))
        if not matches:
            raise UsageError(f"no glob match at {url}")
        return matches, []
    if not system.isdir(path):
        return [path], []
    inside = {
        PurePosixPath(entry["name"]).name: entry
        for entry in system.ls(path, detail=True)
        if entry["name"].strip("/") != path.strip("/")
    }
    names, notes = tables_among({name: entry["type"] for name, entry in inside.items()}, url)
    return [inside[name]["name"] for name in names], notes
