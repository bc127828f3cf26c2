"""`flagged.csv`: the flagged rows of a night by rank, for a spreadsheet."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import WriteOptions, write_csv

from screening.parallel import in_parallel
from screening.scoring.rows import HISTORY, Rows, ranked_rows
from screening.store.model import CHANCES, DISPLAY, OUT_OF_BOUNDS

# Flagged rows that are worth several processes.
MANY_FLAGGED = 300_000
# Columns of `flagged.csv`, in this order; one to be shown may have the same name.
COLUMNS = (
    "rank",
    "id",
    "group",
    "class",
    "score",
    "p_value",
    *CHANCES,
    OUT_OF_BOUNDS,
    *HISTORY,
)
# Where a spreadsheet may begin to read a cell: at its start and, if lists are split by
# another sign, behind a separator. There it runs what begins like a formula, full-width
# forms too; some spreadsheets skip spaces and quotes.
BEGINS = "(^|[;,|\t\r\n\v\f\x1c-\x1f\x85\u2028\u2029])"
FORMULA = re.compile(
    BEGINS
    + "(?='|[\\s\"\x00-\x20\x7f-\xa0\u200b-\u200f\ufeff]*[-=+@\t\r\n＝＋－＠﹦﹢﹣﹫−])"
)
MARK = re.compile(f"{BEGINS}'")
# For Arrow, which cannot look ahead: a sign of a formula behind nothing but signs, as
# in every cell that FORMULA matches.
MAY_BEGIN = BEGINS + "[^0-9A-Za-z]*['=+@\t\r\n＝＋－＠﹦﹢﹣﹫−-]"


def write_flagged(path: Path, rows: Rows, jobs: int = 1) -> None:
    """Write `flagged.csv`, as a spreadsheet may read it.

    The flagged rows, the highest score first, and then, without a rank, the others that
    have a cell out of bounds.

    Parameters
    ----------
    path : Path
    rows : Rows
    jobs : int
        Processes, which are used where many rows are flagged.
    """
    if len(rows.ranks) < MANY_FLAGGED:
        jobs = 1
    columns = listed_columns(rows.schema)
    with rows.by_rank(columns) as pieces, path.open("wb") as file:
        # The allocator would keep the memory that ranking took while lines are written.
        pa.default_memory_pool().release_unused()
        tasks = [(piece, number == 0) for number, piece in enumerate(pieces)]
        for lines in in_parallel(_lines_of, tasks, jobs=jobs):
            file.write(lines)
        write_table(file, [as_listed(rows.to_check(columns))], header=False)


def _lines_of(piece: Path, header: bool) -> bytes:
    """Return the lines of `flagged.csv` for a file that `Rows.by_rank` wrote."""
    lines = BytesIO()
    write_table(lines, [as_listed(ranked_rows(piece))], header)
    # A process would keep it for as long as it lives.
    pa.default_memory_pool().release_unused()
    return lines.getvalue()


def listed_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that `flagged.csv` has of a night, those to be shown last."""
    names = [name for name in COLUMNS if name in schema.names]
    return [*names, *(name for name in schema.names if name.startswith(DISPLAY))]


def as_listed(rows: pa.Table) -> pa.Table:
    """Return rows as `flagged.csv` has them.

    A column to be shown has its own name, unless a column of ours has it.
    """
    if "group" not in rows.column_names:
        rows = rows.append_column("group", pa.nulls(rows.num_rows, pa.string()))
    names = listed_columns(rows.schema)
    titles = {}
    for name in names:
        shown_name = name.removeprefix(DISPLAY)
        if name.startswith(DISPLAY) and shown_name not in COLUMNS:
            titles[name] = shown_name
    return rows.select(names).rename_columns(titles)


def write_table(
    file: BinaryIO, tables: Iterable[pa.Table], header: bool = True
) -> None:
    """Write tables of the same columns as CSV, without formulas.

    It begins with a byte-order mark, without which Excel does not read UTF-8.
    """
    if header:
        file.write(codecs.BOM_UTF8)
    for number, table in enumerate(tables):
        names = list(map(as_text, table.column_names))
        columns = list(map(as_texts, table.columns))
        is_first = header and not number
        options = WriteOptions(include_header=is_first, quoting_style="needed")
        # Arrow 18 writes the rows before an empty chunk twice.
        whole = pa.table(columns, names=names).combine_chunks()
        write_csv(whole, file, options)


def as_text(value: str) -> str:
    """Return text that a spreadsheet shows and does not run as a formula."""
    return FORMULA.sub(r"\1'", value)


def without_marks(text: str) -> str:
    """Return a text as it was before `as_text` marked it."""
    return MARK.sub(r"\1", text)


def as_texts(cells: pa.Array) -> pa.Array:
    """Return cells that a spreadsheet shows and does not run as formulas."""
    if pa.types.is_boolean(cells.type):
        return pc.if_else(cells, "yes", "no")
    if not pa.types.is_string(cells.type):
        return cells
    may_begin = pc.match_substring_regex(cells, MAY_BEGIN)
    if not pc.any(may_begin).as_py():
        return cells
    texts = [text if text is None else as_text(text) for text in cells.to_pylist()]
    return pa.array(texts, pa.string())
