"""A cohort's source of whatever kind: files, images, a database, files elsewhere, a table in memory.

Files at s3://, gs:// or abfs:// are fetched once into a private folder and read there (fsspec).
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

from screening.errors import CohortError, UsageError, of_system
from screening.files import digest_of
from screening.io.database import Database, open_database
from screening.io.frames import Table, source_of
from screening.io.images import holds_images, open_images
from screening.io.readers import Source, refuse_many
from screening.io.source_files import found_files, open_source, source_over, tables_among

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Readable: TypeAlias = str | Path | Database | Table
# What brings each of them; `memory` is there for tests.
EXTRAS = {
    "s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure",
    "memory": "s3",
}  # fmt: skip


def source_at(place: Readable) -> Source:
    """Files by path or URL, a folder of images, a table or query of a database, or a table in memory."""
    if isinstance(place, str) and "://" in place:
        return open_remote(place)
    if isinstance(place, str | Path):
        return open_images(Path(place)) if holds_images(Path(place)) else open_source(place)
    return open_database(place) if isinstance(place, Database) else source_of(place)


def digests(source: str) -> list[str]:
    """SHA-256 of each part of a source as it lies there now; nothing of a database or an empty place."""
    try:
        if holds_images(Path(source)):
            return [part.sha256 for part in open_images(Path(source)).files]
        return [digest_of(path) for path in found_files(source)[0]]
    except (UsageError, CohortError):
        return []


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
        fetched = [_fetched(system, place, folder / str(number)) for number, place in enumerate(places)]
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


def _fetched(system: AbstractFileSystem, place: str, folder: Path) -> Path:
    from fsspec.implementations.cached import SimpleCacheFileSystem

    # A folder a file: a glob may match files of one name in several places.
    cache = SimpleCacheFileSystem(fs=system, cache_storage=str(folder), same_names=True)
    with cache.open(place, "rb") as stream:
        return Path(stream.name)
