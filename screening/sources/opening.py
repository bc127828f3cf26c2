"""A cohort's source of whatever kind: files, images, a database, files elsewhere, a table in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from screening.errors import CohortError, UsageError
from screening.files import digest_of
from screening.sources.database import Database
from screening.sources.frames import Table, source_of
from screening.sources.images import holds_images, open_images
from screening.sources.readers import Source
from screening.sources.remote import open_remote
from screening.sources.source_files import found_files, open_source
from screening.sources.sql import open_database

Readable: TypeAlias = str | Path | Database | Table


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
