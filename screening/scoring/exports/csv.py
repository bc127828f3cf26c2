"""The flagged rows as CSV that no spreadsheet runs: UTF-8 with a header, marked as in `flagged.csv`."""

from __future__ import annotations

import io
from pathlib import Path

from screening.scoring.flagged import FlaggedRows, write_table
from screening.storage.publishing import write_whole


def write(flagged: FlaggedRows, *, out: Path) -> None:
    """One file, whole or not at all."""
    text = io.StringIO(newline="")
    write_table(text, [flagged.table()])
    write_whole(out, text.getvalue().encode())
