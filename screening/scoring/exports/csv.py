"""The flagged rows as CSV that no spreadsheet runs: UTF-8 with a header, marked as in `flagged.csv`."""

from __future__ import annotations

import io
from pathlib import Path

from screening.scoring.rows import FlaggedRows, write_table
from screening.store.publishing import write_whole


def write(flagged: FlaggedRows, *, out: Path) -> None:
    """One file, whole or not at all."""
    content = io.BytesIO()
    write_table(content, [flagged.table()])
    write_whole(out, content.getvalue())
