"""The flagged rows of a night by rank, out of `scores.parquet`: `flagged.csv`, and what exports hand on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import WriteOptions, write_csv

from screening.errors import ModelError, UsageError
from screening.files import digest_of
from screening.schemas.run import RunDocument
from screening.scoring import exports
from screening.scoring.rows import HISTORY, Rows
from screening.store.model import CHANCES, DISPLAY
from screening.store.serialization import read_document

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


def export(
    run: str | Path, to: str, out: str | Path | None = None, *, force: bool = False, **options: Any
) -> str:
    """Write the flagged rows of a run for another system; of images, flags and scores as volumes.

    Nothing is entered in a ledger: `screen export --ledger` does that.

    Parameters
    ----------
    run : str or Path
        Run directory.
    to : {"csv", "dicom-seg", "fhir", "nifti", "omop", "table", "xlsx"}
        What to write.
    out : str or Path, optional
        File to write; of omop, nifti and dicom-seg a directory, and nothing of a table.
    force : bool
        Replace what is there already.
    **options
        `url` and `table` (of table), `id_system` (of fhir), `definition` (of omop), `reference` (of
        dicom-seg), as `screen export` has them.

    Returns
    -------
    str
        The place that was written.

    Raises
    ------
    UsageError
        There is no such form, an option is missing or too many, or something lies there already.
    ModelError
        The run is damaged.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from screening import export, score, train
    >>> samples, folder = files("screening.sample_cohorts"), Path(mkdtemp())
    >>> past = samples / "nosocomial_past.csv"
    >>> model = train(past, "logistic", contract=samples / "nosocomial.toml", search=1, beside=())
    >>> run = score(model, samples / "nosocomial_night.csv", folder / "run")
    >>> export(run.directory, "csv", folder / "list.csv") == str(folder / "list.csv")
    True
    """
    _, write = prepared(run, to, force, options | ({} if out is None else {"out": Path(out)}))
    return write() or str(out)


def prepared(
    run: str | Path, to: str, force: bool, options: Mapping[str, Any]
) -> tuple[FlaggedRows, Callable[[], str | None]]:
    """The flagged rows, and what writes them in a form; UsageError where it cannot be written so."""
    if to not in exports.FORMS:
        raise UsageError(f"no form {to!r}; there are {', '.join(exports.FORMS)}")
    write = import_module(f"{exports.__name__}.{to.replace('-', '_')}").write
    takes = {name: each for name, each in signature(write).parameters.items() if name != "flagged"}
    needed = {name for name, each in takes.items() if each.default is Parameter.empty}
    for names, does in ((needed - options.keys(), "needs"), (options.keys() - takes, "takes no")):
        if names:
            words = (f"--{name.replace('_', '-')}" for name in sorted(names))
            raise UsageError(f"--to {to} {does} {', '.join(words)}")
    if "out" in options and options["out"].exists() and not force:
        raise UsageError(f"{options['out']} exists already; give another --out, or --force to replace it")
    flagged = read_flagged(run)
    forced = {"force": force} if "force" in takes else {}
    return flagged, partial(write, flagged, **options, **forced)


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
