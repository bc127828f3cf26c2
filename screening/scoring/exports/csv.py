"""Export the flagged rows as CSV, UTF-8 with a header, as in `flagged.csv`.

No spreadsheet takes a cell for a formula.
"""

from __future__ import annotations

import io
from pathlib import Path

from screening.scoring.rows import FlaggedRows, write_table
from screening.store.publishing import write_whole


def write(flagged: FlaggedRows, *, out: Path) -> None:
    """Write one file, whole or not at all."""
    content = io.BytesIO()
    write_table(content, [flagged.table()])
    write_whole(out, content.getvalue())
