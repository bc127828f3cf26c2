"""Processes for a command with a large table, prepared while it starts."""

from __future__ import annotations

import os
from pathlib import Path

from screening.settings import Resources

# Smaller tables are fitted, or scored, in less time than it takes to import.
TRAINING_BYTES = 200_000
SCORING_BYTES = 10_000_000


def prepare_for_training(table: str, resources: Resources) -> None:
    """Have processes ready that fit machines, where a table is worth them."""
    if (
        resources.jobs != 1
        and resources.cluster is None
        and _size(table) >= TRAINING_BYTES
    ):
        from screening.fork_server import prepare_processes

        prepare_processes("screening.model_selection.train")


def prepare_for_scoring(table: str, resources: Resources) -> None:
    """Have processes ready that score pieces of a table that is worth them."""
    if (
        resources.jobs != 1
        and resources.cluster is None
        and _size(table) >= SCORING_BYTES
    ):
        from screening.fork_server import prepare_processes

        # Arrow's own allocator keeps memory that no block of rows needs any longer.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        prepare_processes("screening.scoring.scoring_pass")


def _size(table: str) -> int:
    """Return the bytes of a file, or of the files of a folder; 0 for anything else."""
    path = Path(table)
    try:
        if path.is_dir():
            return sum(file.stat().st_size for file in path.iterdir())
        return path.stat().st_size
    except OSError:
        return 0
