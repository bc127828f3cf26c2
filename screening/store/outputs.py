"""Tables of a run directory, and whether they are as they were written."""

from __future__ import annotations

from pathlib import Path

from screening.files import digest_of
from screening.schemas.run import RunDocument

LIST = "flagged.csv"
"""Name of the list of flagged cases in a run directory."""


def altered_outputs(directory: Path, run: RunDocument) -> list[Path]:
    """Return the tables of a run directory that are there, but not as written."""
    outputs = run.outputs or {}
    return [
        directory / name
        for name, digest in outputs.items()
        if _is_altered(directory / name, digest)
    ]


def is_list_altered(directory: Path, run: RunDocument) -> bool:
    """Return True if the list of flagged cases is there, but not as it was written."""
    digest = (run.outputs or {}).get(LIST)
    return digest is not None and _is_altered(directory / LIST, digest)


def _is_altered(path: Path, digest: str) -> bool:
    """Return True if a file is there, but with another digest."""
    return path.is_file() and digest_of(path) != digest
