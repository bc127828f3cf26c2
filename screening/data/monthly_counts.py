"""Read monthly counts of outcomes and interventions, before a screen and with it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from screening.contract.parsing import parse_texts
from screening.contract.violations import NO_ROWS, refuse_absent
from screening.data.stream import BATCH_ROWS
from screening.errors import CohortError
from screening.io.opening import Readable, source_at
from screening.io.readers import Source
from screening.spelling import first_of

COLUMNS = ("month", "patient_days", "outcomes")
INTERVENTIONS = "interventions"


def read_monthly_counts(source: Readable) -> pd.DataFrame:
    """Read the months of a table in order, one per line.

    Parameters
    ----------
    source : path, URL, Database, or a pandas, polars or Arrow table
        With columns `month` (YYYY-MM), `patient_days`, `outcomes` and, where they are
        counted, `interventions`.

    Returns
    -------
    DataFrame
        `month`, Timestamp of its first day, and the counts as floats; `interventions`
        are NaN where the table has none.

    Raises
    ------
    CohortError
        A column is missing, a cell is not a month or count, or a month occurs twice.
    """
    table = source_at(source)
    refuse_absent(table, COLUMNS)
    has_interventions = all(INTERVENTIONS in file.header for file in table.files)
    names = [*COLUMNS, INTERVENTIONS] if has_interventions else [*COLUMNS]
    texts = _read_texts(table, names)
    month = pd.to_datetime(texts["month"], format="%Y-%m", errors="coerce")
    months = pd.DataFrame({"month": month})
    for name in names[1:]:
        counts = pd.to_numeric(texts[name], errors="coerce")
        is_whole = counts == counts.round()
        months[name] = counts.where((counts >= 0) & is_whole)
    days = months["patient_days"]
    months["patient_days"] = days.where(days > 0)
    expected = dict.fromkeys(names, "a whole number")
    expected |= {"month": "a month such as 2026-01", "patient_days": "a number above 0"}
    faults = [
        f"column '{name}', rows {_rows(months[name])}: not {expected[name]}; correct "
        "the cells"
        for name in names
        if months[name].isna().any()
    ]
    if months["month"].duplicated().any():
        faults.append("column 'month': a month occurs twice; give one line per month")
    if faults:
        raise CohortError(faults)
    if not has_interventions:
        months[INTERVENTIONS] = np.nan
    return months.sort_values("month", ignore_index=True)


def _read_texts(table: Source, names: list[str]) -> pd.DataFrame:
    """Read columns of a table as texts, None where a cell is missing."""
    blocks = []
    for file in table.files:
        for block in file.blocks(names, BATCH_ROWS):
            columns = {
                name: parse_texts(block.columns[name], None, strip=True).values
                for name in names
            }
            blocks.append(pd.DataFrame(columns))
    if not blocks:
        raise CohortError(NO_ROWS)
    return pd.concat(blocks, ignore_index=True)


def _rows(column: pd.Series) -> str:
    """Return the numbers of the rows without a value, the first of many."""
    numbers = np.flatnonzero(column.isna()) + 1
    return first_of(numbers.tolist(), 5)
