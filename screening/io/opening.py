"""Open any source of a cohort: files here or elsewhere, images, databases, frames."""

from __future__ import annotations

import glob
import os
import ssl
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from itertools import chain
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from screening.errors import CohortError, UsageError, of_system
from screening.files import escape_bytes
from screening.io.arrow_files import ArrowFile, ParquetFile, partition_of
from screening.io.csv_files import CsvFile
from screening.io.excel import ExcelFile
from screening.io.frames import Table, open_table
from screening.io.queries import Database
from screening.io.readers import Source, TableFile, open_each
from screening.registry import OPTIONAL, Registry, optional
from screening.spelling import first_of

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Readable: TypeAlias = str | Path | Database | Table


def _shipped_readers() -> Iterator[tuple[str, type[TableFile]]]:
    """Yield the kinds of file that ship by name, in the order in which they are tried.

    CSV, which is what no other reader knows, comes after those of plug-ins.
    """
    for reader in (ExcelFile, ParquetFile, ArrowFile, CsvFile):
        yield reader.kind.lower(), reader


def _accepted_reader(name: str, member: Any) -> type[TableFile]:
    """Return the reader of a plug-in; TypeError if it cannot be used."""
    if not isinstance(member, type) or not issubclass(member, TableFile):
        raise TypeError("it is not a class derived from TableFile")
    needed = ["kind", "suffixes"]
    if member.knows.__qualname__ == TableFile.knows.__qualname__:
        needed.append("magic")
    missing = [key for key in needed if not hasattr(member, key)]
    if missing:
        raise TypeError(f"it has no attribute {', '.join(missing)}")
    return member


READERS: Registry[type[TableFile]] = Registry(
    "reader", _shipped_readers, _accepted_reader
)
"""Every kind of file by name. The first that recognises a file's content is used."""


def suffixes() -> tuple[str, ...]:
    """Return the ends of file names by which a folder's files are tables."""
    return tuple(chain.from_iterable(reader.suffixes for reader in READERS.values()))


class _Kind(NamedTuple):
    """What can be done with a kind of source."""

    open: Callable[[], Source]
    exists: Callable[[], bool]
    is_fetched: bool = False


def _kind_of(source: Readable) -> _Kind:
    """Return the kind of a source: a database, a table in memory, a URL, or files."""
    if isinstance(source, Database):
        return _Kind(partial(open_database, source), partial(_has_rows, source))
    if not isinstance(source, str | Path):
        return _Kind(partial(open_table, source), lambda: True)
    place = str(_local_place(source))
    if "://" in place:
        opened = partial(open_remote, place)
        return _Kind(opened, partial(_exists_elsewhere, place), is_fetched=True)
    return _Kind(partial(_open_files, place), partial(_exists_here, place))


def source_at(source: Readable) -> Source:
    """Return the source of files, images, a database, or a table in memory."""
    return _kind_of(source).open()


def digests(source: str | Database) -> list[str]:
    """Return the SHA-256 of each file of a source, or of a database's answer.

    Empty for a source elsewhere, and for one that cannot be read.
    """
    try:
        kind = _kind_of(source)
        files = [] if kind.is_fetched else kind.open().files
        return [file.sha256 for file in files]
    except (UsageError, CohortError):
        return []


def exists(source: str | Database) -> bool:
    """Return True if there is a table: files, or at least one row of a database."""
    return _kind_of(source).exists()


def open_database(database: Database) -> Source:
    """Open a database's table or query as a source."""
    # SQLAlchemy is loaded only where a database is read.
    from screening.io.database import ask_database

    return ask_database(database)


def _has_rows(database: Database) -> bool:
    """Return True if a database's table or query has a row."""
    try:
        return bool(open_database(database).n_rows)
    except (UsageError, CohortError):
        return False


def _open_files(place: str) -> Source:
    """Open a file, a folder of tables or images, or a glob as a source."""
    if _has_images(place):
        return cast(Source, optional("images").open_images(Path(place)))
    files, notes = local_files(place)
    return source_over(files, notes)


def _exists_here(place: str) -> bool:
    """Return True if a file, folder or glob match is there."""
    return Path(place).exists() or bool(glob.glob(place, recursive=True))


def _local_place(place: str | Path) -> str | Path:
    """Return the path of a URL such as file:///past.csv; any other text as it is."""
    url = urlsplit(str(place))
    if url.scheme != "file":
        return place
    if url.netloc not in ("", "localhost"):
        raise UsageError(
            f"{place}: remote file:// URLs are not supported; write the "
            "path of the file"
        )
    return url2pathname(url.path)


def _exists_elsewhere(url: str) -> bool:
    """Return True if a file, folder or glob match lies behind a URL."""
    try:
        system, path = _file_system(url)
        if _is_glob(url):
            return bool(system.glob(path))
        return bool(system.exists(path))
    except Exception:
        # A service that refuses, or cannot be reached: tonight's table says so.
        return False


def _is_glob(url: str) -> bool:
    """Return True if a URL is a pattern; a question mark of the web begins a query."""
    marks = "*[" if url.startswith(("http://", "https://")) else "*?["
    return any(mark in url for mark in marks)


def _has_images(place: str | Path) -> bool:
    """Return True for a folder of images, if the room for images is there."""
    if "images" not in OPTIONAL:
        return False
    return bool(optional("images").is_image_folder(Path(place)))


def source_over(paths: Sequence[Path], notes: Sequence[str]) -> Source:
    """Return the source of some files, with their digests and headers."""
    files = open_each(_open_file, paths)
    names_by_format: dict[str, list[str]] = {}
    for file in files:
        names_by_format.setdefault(file.note, []).append(file.name)
    formats = [
        f"{first_of(names, 3)}: {note}" for note, names in names_by_format.items()
    ]
    nameless = [file.name for file in files if "" in file.header]
    if nameless:
        formats.append(f"columns without a name were ignored ({first_of(nameless, 1)})")
    return Source(files, [*notes, *formats])


def _open_file(path: Path) -> TableFile:
    """Open a file by the first reader that knows its content."""
    try:
        with path.open("rb") as stream:
            head = stream.read(1 << 16)
        if not head.strip():
            raise CohortError(f"{path.name}: the file is empty; export it again")
        reader = _reader_of(path, head)
        # The name is in documents and pages.
        n_folders = len(partition_of(path))
        return reader(path, escape_bytes("/".join(path.parts[-n_folders - 1 :])))
    except OSError as error:
        raise of_system(error, path) from error


def _reader_of(path: Path, head: bytes) -> type[TableFile]:
    """Return the first reader that knows a file's content."""
    # CSV knows any text, so that readers of plug-ins come before it.
    readers = sorted(READERS.items(), key=lambda item: item[1] is CsvFile)
    for name, reader in readers:
        if READERS.call(name, reader.knows, path, head, default=False):
            return reader
    return CsvFile


def local_files(source: str | Path) -> tuple[list[Path], list[str]]:
    """Return the files of a path, directory or glob, and notes on what was left out."""
    path = Path(source)
    if path.is_file():
        return [path], []
    if path.is_dir():
        partitions = _partitions(path)
        if partitions:
            return _files_of_partitions(partitions)
        kinds = {child.name: _kind(child) for child in path.iterdir()}
        names, notes = tables_among(kinds, source)
        return [path / name for name in names], notes
    matches = sorted(glob.glob(str(source), recursive=True))
    kinds = {match: _kind(Path(match)) for match in matches}
    # A glob names files; directories that it matches are ignored.
    files = _readable(
        {match: kind for match, kind in kinds.items() if kind != "directory"}
    )
    if not files:
        raise UsageError(f"no file, directory or glob matches {source}")
    return [Path(match) for match in files], []


def _partitions(folder: Path) -> list[Path]:
    """Return the folders of a partitioned table, such as day=2026-03-01, in order.

    Empty for a folder with any other entry.
    """
    entries = sorted(
        entry for entry in folder.iterdir() if not entry.name.startswith((".", "_"))
    )
    if all(entry.is_dir() and "=" in entry.name[1:] for entry in entries):
        return entries
    return []


def _files_of_partitions(partitions: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Return the files of the folders of a partitioned table, and notes."""
    files: list[Path] = []
    notes: list[str] = []
    for folder in partitions:
        names, left_out = local_files(folder)
        files += names
        notes += left_out
    return files, notes


def _kind(path: Path) -> str:
    """Return "file" for a readable file, and else what it is."""
    if path.is_dir():
        return "directory"
    if not path.is_file():
        return "broken link or special file"
    return "file" if os.access(path, os.R_OK) else "file that this user cannot read"


def _readable(kinds: Mapping[str, str]) -> list[str]:
    """Return the names; raise CohortError if one is not a file, which may have rows."""
    faults = [
        f"{PurePath(name).name}: a {kind}; mount its share if it has one. To leave "
        "it out, begin its name with _"
        for name, kind in kinds.items()
        if kind != "file"
    ]
    if faults:
        raise CohortError(faults)
    return [*kinds]


def tables_among(
    kinds: Mapping[str, str], source: object
) -> tuple[list[str], list[str]]:
    """Return the names of tables in a directory, and a note on other files.

    Parameters
    ----------
    kinds : mapping of str to str
        Kind of each entry by its name.
    """
    listed = [name for name in sorted(kinds) if not name.startswith((".", "_"))]
    ends = suffixes()
    others = [
        name
        for name in listed
        if kinds[name] == "file" and not name.lower().endswith(ends)
    ]
    tables = _readable({name: kinds[name] for name in listed if name not in others})
    if not tables:
        raise UsageError(
            f"directory {source} contains no CSV, Parquet or Excel file "
            f"({', '.join(ends)})"
        )
    notes = []
    if others:
        notes.append(
            "not read, because their names are not those of tables: "
            f"{first_of(others, 5)}"
        )
    return tables, notes


def open_remote(url: str) -> Source:
    """Fetch the files behind a URL that fsspec knows and return a source over them.

    Files are fetched whole, so that what is checked is what is scored. They lie in a
    private temporary folder that goes with the source.

    Raises UsageError: fsspec or the package of this kind of URL is not installed, no
    file lies there, or the service refuses.
    """
    system, path = _file_system(url)
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="screening-"))
        )
        try:
            remote, notes = _remote_files(system, path, url)
            copies = _fetch(system, remote, folder)
        except (UsageError, CohortError):
            raise
        except Exception as error:
            file = str(getattr(error, "filename", None) or "")
            if isinstance(error, OSError) and file.startswith(str(folder)):
                raise of_system(error) from None
            raise UsageError(f"{url} cannot be read: {_fault_of(error)}") from None
        notes = [f"fetched from {url.rpartition('/')[0]}/", *notes]
        source = source_over(copies, notes)
        source.is_fetched = True
        weakref.finalize(source, stack.pop_all().close)
    return source


def _fault_of(error: Exception) -> str:
    """Return in words why a service gives no file.

    Its own message may contain keys, so other errors are named by their kind only.
    """
    if isinstance(error, FileNotFoundError):
        return "the file does not exist"
    if isinstance(error, ssl.CertificateError):
        return (
            "the server's certificate is not trusted here; save your certificate "
            "authority's certificate to a file, and set SSL_CERT_FILE to its path"
        )
    kind = type(error).__name__
    if kind == "ClientPayloadError":
        return "the connection closed before the whole file arrived; run it again"
    if kind == "ClientConnectorError":
        return "no server answers there; is the address right, and the server up?"
    if kind == "ClientResponseError":
        status = HTTPStatus(getattr(error, "status", 500))
        return f"the server answers {status.value} ({status.phrase})"
    return kind


def _file_system(url: str) -> tuple[AbstractFileSystem, str]:
    """Return fsspec's file system for a URL and the path of the URL there."""
    scheme = url.partition("://")[0]
    try:
        from fsspec.core import url_to_fs
        from fsspec.registry import known_implementations
    except ImportError:
        raise UsageError(f"{scheme}:// needs fsspec: pip install fsspec") from None
    try:
        system, path = url_to_fs(url)
    except ValueError:
        raise UsageError(
            f"fsspec does not support {scheme}://; a database needs `table` or `query`",
            parameters=["table", "query"],
        ) from None
    except ImportError:
        remedy = known_implementations[scheme].get("err", "install its package")
        raise UsageError(f"{scheme}:// cannot be read: {remedy}") from None
    return system, path


def _fetch(system: AbstractFileSystem, names: list[str], folder: Path) -> list[Path]:
    """Fetch files into a folder of their own each, since a glob may repeat a name."""
    copies = []
    for number, name in enumerate(names):
        copy = folder / str(number) / PurePosixPath(name).name
        copy.parent.mkdir()
        system.get_file(name, str(copy))
        copies.append(copy)
    return copies


def _remote_files(
    system: AbstractFileSystem, path: str, url: str
) -> tuple[list[str], list[str]]:
    """Files, and a note on those of a folder that were not read."""
    if _is_glob(url):
        matches = sorted(name for name in system.glob(path) if system.isfile(name))
        if not matches:
            raise UsageError(f"no file matches {url}")
        return matches, []
    if not system.isdir(path):
        return [path], []
    inside = {
        PurePosixPath(entry["name"]).name: entry
        for entry in system.ls(path, detail=True)
        if entry["name"].strip("/") != path.strip("/")
    }
    names, notes = tables_among(
        {name: entry["type"] for name, entry in inside.items()}, url
    )
    return [inside[name]["name"] for name in names], notes
