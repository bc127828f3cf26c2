"""Tables of a run directory, and whether they are as they were written."""

from __future__ import annotations

from pathlib import Path

from screening.files import digest_of
from screening.schemas.run import RunDocument

LIST = "flagged.csv"
"""Name of the list of flagged cases in a run directory."""


def altered_outputs(directory: Path, run: RunDocument) -> list[Path]:
    """Return the tables of a run directory that are there, but not as written."""
    altered = []
    for name, digest in (run.outputs or {}).items():
        path = directory / name
        if path.is_file() and digest_of(path) != digest:
            altered.append(path)
    return altered


def is_list_altered(directory: Path, run: RunDocument) -> bool:
    """Return True if the list of flagged cases is there, but not as it was written."""
    lists = {name: one for name, one in (run.outputs or {}).items() if name == LIST}
    return bool(altered_outputs(directory, run.replace(outputs=lists)))
