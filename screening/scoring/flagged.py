"""The flagged rows of a night by rank, out of `scores.parquet`: `flagged.csv`, and what exports hand on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import WriteOptions, write_csv

from screening.documents.run import RunDocument
from screening.errors import ModelError, UsageError
from screening.files import digest_of
from screening.scoring.rows import HISTORY, Rows
from screening.storage.model import CHANCES, DISPLAY
from screening.storage.serialization import read_document

# Rows in memory at a time: for more of them the table is gone through again.
PIECE_ROWS = 300_000
COLUMNS = ("rank", "id", "group", "class", "score", "p_value")
# Where a cell may begin: at its start and, where lists are split by another sign, behind a separator.
# There a spreadsheet runs what starts like a formula, full-width forms too; some skip spaces and quotes.
BEGINS = "(^|[;,|\t\r\n\v\f\x1c-\x1f\x85\u2028\u2029])"
FORMULA = re.compile(
    BEGINS + "(?='|[\\s\"\x00-\x20\x7f-\xa0\u200b-\u200f\ufeff]*[-=+@\t\r\n＝＋－＠﹦﹢﹣﹫−])"
)
# What Arrow can look for: a sign of a formula behind nothing but signs, which holds of every such cell.
MAY_BEGIN = BEGINS + "[^0-9A-Za-z]*['=+@\t\r\n＝＋－＠﹦﹢﹣﹫−-]"


def flagged_rows(table: Rows) -> Iterator[pa.Table]:
    """The flagged rows by rank, some at a time.

    Columns: `COLUMNS`, the chances where they are earned, what the ledger knew, and what the contract wants
    shown, by its own name unless one of these is called so.
    """
    names, ours = table.schema.names, (*COLUMNS, *CHANCES, *HISTORY)
    shown = {name: name.removeprefix(DISPLAY) for name in names if name.startswith(DISPLAY)}
    wanted = [*(name for name in ours if name in names), *shown]
    called = [name if shown.get(name, name) in ours else shown[name] for name in wanted]
    for start in range(0, max(len(table.ranks), 1), PIECE_ROWS):
        rows = table.listed(wanted, start, start + PIECE_ROWS).rename_columns(called)
        if "rank" not in wanted:
            rows = rows.add_column(0, "rank", pa.array(np.arange(start, start + rows.num_rows) + 1))
        if "group" not in wanted:
            rows = rows.add_column(COLUMNS.index("group"), "group", pa.nulls(rows.num_rows, pa.string()))
        yield rows


def write_flagged(path: Path, rows: Rows) -> None:
    """Write `flagged.csv`: the flagged rows, the highest score first, as a spreadsheet may read them."""
    with path.open("wb") as file:
        write_table(file, flagged_rows(rows))


def write_table(file: BinaryIO, tables: Iterable[pa.Table]) -> None:
    """Write tables of the same columns, one behind the other, as CSV in which no cell is a formula."""
    for number, table in enumerate(tables):
        names = map(as_text, table.column_names)
        marked = pa.table([_marked(column) for column in table.columns], names=[*names])
        options = WriteOptions(include_header=not number, quoting_style="needed")
        write_csv(marked, file, options)


def _marked(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_boolean(column.type):
        column = pc.if_else(column, "yes", "no")
    return as_texts(column)


def as_text(value: str) -> str:
    """Text that a spreadsheet shows and does not run as a formula."""
    return FORMULA.sub(r"\1'", value)


def as_texts(cells: pa.Array) -> pa.Array:
    """Cells that a spreadsheet shows: those alone are gone through one by one that may begin a formula."""
    if not pa.types.is_string(cells.type) or not pc.any(pc.match_substring_regex(cells, MAY_BEGIN)).as_py():
        return cells
    return pa.array([text if text is None else as_text(text) for text in cells.to_pylist()], pa.string())


@dataclass(frozen=True)
class FlaggedRows:
    """The flagged rows of a run as exports hand them on; `rows` has the columns of `flagged.csv`."""

    directory: Path
    run: RunDocument
    rows: pa.Table

    def table(self) -> pa.Table:
        """The rows behind run and date: nights lie one below the other, so each row says whose it is."""
        stated = {"run_id": self.run.run_id, "date": self.run.date}
        constants = [pa.repeat(pa.scalar(text), self.rows.num_rows) for text in stated.values()]
        return pa.table([*constants, *self.rows.columns], names=[*stated, *self.rows.column_names])

    def subjects(self) -> list[str]:
        """Who is meant by each row: the patient where rows come in patients, else the row."""
        return pc.if_else(pc.equal(self.rows["group"], ""), self.rows["id"], self.rows["group"]).to_pylist()


def read_flagged(directory: str | Path) -> FlaggedRows:
    """Read the flagged rows of a run directory.

    Raises UsageError: it is a shadow run. Raises ModelError: a digest does not agree, or the run is of a
    version that noted none.
    """
    folder = Path(directory)
    stored = read_document(folder, "run")
    run = RunDocument.from_dict(stored)
    if not run.outputs:
        raise ModelError(f"{folder} was written by a version that noted no digests; score the night again")
    for name, digest in run.outputs.items():
        path = folder / name
        if not path.is_file() or digest_of(path) != digest:
            raise ModelError(
                f"{path} is missing or damaged: its digest does not match; score the night again"
            )
    if "flagged.csv" not in run.outputs:
        raise UsageError(f"{folder} is a shadow run; nothing of it is handed on")
    rows = pa.concat_tables(flagged_rows(Rows(folder / "scores.parquet")))
    empty = {pa.string(): "", pa.bool_(): False}
    columns = [pc.fill_null(each, empty[each.type]) if each.type in empty else each for each in rows.columns]
    return FlaggedRows(folder, run, pa.table(columns, names=rows.column_names))
