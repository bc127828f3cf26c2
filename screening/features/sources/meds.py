"""MEDS, the Medical Event Data Standard: Parquet with a line an event."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from screening.features.events import BIRTH, DEATH, SEX, Span
from screening.features.sources.long import select_lines
from screening.features.spec import Source

if TYPE_CHECKING:
    import duckdb

COLUMNS = {
    "subject": "subject_id",
    "stay": "hadm_id",
    "time": "time",
    "known_since": "known_since",
    "code": "code",
    "value": "numeric_value",
    "unit": "unit",
    "text": "text_value",
}
# Codes of MEDS for reserved ones.
CODES: dict[str, tuple[str, ...]] = {
    BIRTH: ("MEDS_BIRTH",),
    DEATH: ("MEDS_DEATH",),
    SEX: ("GENDER//*",),
}
# Folder of the events of a data set; its neighbour `metadata` has none.
DATA_FOLDER = "data"


def select_events(
    source: Source,
    name: str,
    connection: duckdb.DuckDBPyConnection,
    span: Span,
) -> str:
    """Return the SELECT of the events of a MEDS data set.

    Raises
    ------
    UsageError
        There is no file, or a column is missing.
    EventsError
        A file cannot be read.
    """
    path = Path(source.path)
    if (path / DATA_FOLDER).is_dir():
        path = path / DATA_FOLDER
    of_data = source.model_copy(update={"path": str(path)})
    columns = COLUMNS | source.columns
    return select_lines(of_data, name, connection, span, columns=columns)
