"""What lies where a cohort is read from, told by its digests alone."""

from __future__ import annotations

from pathlib import Path

from screening.errors import CohortError, UsageError
from screening.files import digest_of
from screening.sources.image_folders import holds_images
from screening.sources.source_files import found_files


def digests(source: str) -> list[str]:
    """SHA-256 of each part of a source as it lies there now; nothing of a database or an empty place."""
    try:
        if holds_images(Path(source)):
            # Read by who has images.
            from screening.sources.images import open_images

            return [part.sha256 for part in open_images(Path(source)).files]
        return [digest_of(path) for path in found_files(source)[0]]
    except (UsageError, CohortError):
        return []
