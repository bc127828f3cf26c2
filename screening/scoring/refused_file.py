"""A private CSV file of the cells that were refused or out of bounds in a night."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import pyarrow as pa

from screening.data.refused_cells import SCHEMA, RefusedCells
from screening.errors import CohortError
from screening.files import discard, temporary_folder_named
from screening.scoring.flagged_list import write_table
from screening.store.publishing import write_whole


@contextmanager
def refused_file(
    path: str | Path | None,
) -> Iterator[list[RefusedCells]]:
    """Give what writes the refused cells of a table; nothing without a path.

    The file appears at the end, and also where the table is refused as a whole: its
    source needs it then most of all.
    """
    if path is None:
        yield []
        return
    with ExitStack() as stack:
        lines_file = TemporaryFile()  # noqa: SIM115
        stack.callback(discard, lines_file)

        def add(lines: pa.Table, header: bool = False) -> None:
            with temporary_folder_named():
                write_table(lines_file, [lines], header)

        def write() -> None:
            with temporary_folder_named():
                lines_file.seek(0)
            write_whole(Path(path), lines_file.read())

        add(SCHEMA.empty_table(), header=True)
        try:
            yield [RefusedCells(add)]
        except CohortError:
            write()
            raise
        write()
