"""A night's rows: all in `scores.parquet`, the flagged by rank in `flagged.csv`.

Exports are handed the flagged rows.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from inspect import Parameter, signature
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.csv import WriteOptions, write_csv

from screening.errors import ModelError, ScreenError, UsageError
from screening.files import digest_of
from screening.io.arrow_files import parquet_file
from screening.ledger.merging import NO_MERGES, Merges
from screening.parallel import in_parallel
from screening.registry import log_traceback
from screening.schemas.run import RunDocument
from screening.scoring import exports
from screening.scoring.row_file import ListedCopy, RowFile
from screening.store.model import CHANCES, DISPLAY, OUT_OF_BOUNDS
from screening.store.serialization import read_run

READ_ROWS = 1 << 16
# What the ledger knows of a flagged row's case.
HISTORY = {"state": pa.string(), "nights": pa.int64(), "drawn": pa.bool_()}


@dataclass
class Rows:
    """A night's rows in a Parquet file, read in batches.

    Memory grows with the flagged rows alone.
    """

    path: Path
    _copy: ListedCopy | None = field(default=None, init=False, repr=False)

    @contextmanager
    def appending(self) -> Iterator[RowFile]:
        """Open the file to replace it."""
        file = RowFile(self.path)
        with closing(file):
            yield file
            file.finish()
        self._copy = file.copy

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of the table, all columns or some."""
        with parquet_file(self.path) as table:
            # Threads would read ahead of a slow caller, and keep what they have read.
            yield from table.iter_batches(READ_ROWS, columns=columns, use_threads=False)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns."""
        with parquet_file(self.path) as table:
            return table.schema_arrow

    @cached_property
    def ranks(self) -> np.ndarray:
        """Ranks of the flagged rows, from 1 on, in the order of the table.

        Rows of equal scores rank in that order.
        """
        column = "rank" if "rank" in self.schema.names else "score"
        batches = (batch[column].to_numpy() for batch in self._flagged([column]))
        values = np.concatenate([np.zeros(0), *batches])
        if column == "rank":
            return values.astype(np.uint32)
        order = np.argsort(np.negative(values, out=values), kind="stable")
        del values
        ranks = np.empty(len(order), np.uint32)
        ranks[order] = np.arange(1, len(order) + 1, dtype=np.uint32)
        return ranks

    def _flagged(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the flagged rows in the order of the table."""
        for batch in self._listed([*columns, "flagged"]):
            yield batch.filter(batch["flagged"]).select(columns)

    def _listed(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield at least the rows that `flagged.csv` lists, in the table's order."""
        source = self if self._copy is None else self._copy
        return source.batches(list(dict.fromkeys(columns)))

    def to_check(self, columns: Sequence[str]) -> pa.Table:
        """Return the rows that are not flagged and have a cell out of bounds.

        In the order of the table, with some columns and a `rank` of nulls.
        """
        names = [name for name in columns if name != "rank"]
        fields = [self.schema.field(name) for name in names]
        parts = []
        for batch in self._listed([*names, "flagged", OUT_OF_BOUNDS]):
            is_odd = pc.is_valid(batch[OUT_OF_BOUNDS])
            is_unflagged = pc.invert(batch["flagged"])
            parts.append(batch.filter(pc.and_(is_odd, is_unflagged)).select(names))
        rows = pa.Table.from_batches(parts, pa.schema(fields))
        return rows.append_column("rank", pa.nulls(rows.num_rows, pa.int64()))

    def flagged(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the flagged rows, and their `rank`, in batches."""
        # Read before the loop: both go through the same file.
        all_ranks = self.ranks
        start = 0
        names = [name for name in columns if name != "rank"]
        for rows in self._flagged(names):
            ranks = pa.array(all_ranks[start : start + rows.num_rows], pa.int64())
            yield rows.append_column("rank", ranks)
            start += rows.num_rows

    def first(self, columns: Sequence[str], most: int | None = None) -> pa.Table:
        """Return some columns of the flagged rows, and their `rank`, sorted by rank.

        `most`: only rows of rank 1 to `most`; fewer if patients were erased.
        """
        # The rows of a patient who was erased are missing among the ranks.
        last = self.ranks.max(initial=0) if most is None else most
        parts = [
            rows.filter(pc.less_equal(rows["rank"], last))
            for rows in self.flagged(columns)
        ]
        schema = self._ranked_schema(columns)
        return pa.Table.from_batches(parts, schema).sort_by("rank")

    def _ranked_schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return some columns, and `rank` as the last."""
        fields = [self.schema.field(name) for name in columns if name != "rank"]
        return pa.schema([*fields, pa.field("rank", pa.int64())])

    @contextmanager
    def by_rank(self, columns: Sequence[str]) -> Iterator[list[Path]]:
        """Write the flagged rows into files of `PIECE_ROWS` ranks, the highest first.

        `ranked_rows` reads them. They lie beside this file, for as long as the context.
        """
        ends = np.arange(PIECE_ROWS, len(self.ranks), PIECE_ROWS)
        with TemporaryDirectory(dir=self.path.parent) as folder:
            pieces = [Path(folder) / str(number) for number in range(len(ends) + 1)]
            self._write_pieces(pieces, ends, columns)
            yield pieces

    def _write_pieces(
        self, pieces: Sequence[Path], ends: np.ndarray, columns: Sequence[str]
    ) -> None:
        """Write the flagged rows into files, each of the ranks up to one of `ends`."""
        schema = self._ranked_schema(columns)
        with ExitStack() as stack:
            writers = []
            for piece in pieces:
                writer = pa.ipc.new_file(str(piece), schema)
                writers.append(stack.enter_context(writer))
            for rows in self.flagged(columns):
                rows = rows.sort_by("rank")
                inner = np.searchsorted(rows["rank"].to_numpy(), ends, side="right")
                cuts = pairwise([0, *inner, rows.num_rows])
                for writer, (start, end) in zip(writers, cuts, strict=True):
                    writer.write_batch(rows.slice(start, end - start))

    def named(self, name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return some columns of the rows with an id, or else of the group so named."""
        for unit in ("id", "group"):
            if unit in self.schema.names:
                is_named = pc.field(unit) == name
                rows = pq.read_table(self.path, columns=columns, filters=is_named)
                if rows.num_rows:
                    return rows.to_pylist()
        return []

    def without_row(self, names: Sequence[str]) -> list[str]:
        """Return those ids without a row; ids of groups, if rows come in groups."""
        if not names:
            return []
        unit = self.unit
        is_named = pc.field(unit).isin(pa.array(names, pa.string()))
        named_rows = pq.read_table(self.path, columns=[unit], filters=is_named)
        present = set(named_rows[unit].to_pylist())
        return [name for name in names if name not in present]

    @property
    def unit(self) -> str:
        """Name of the column of what is reviewed as one."""
        return "group" if "group" in self.schema.names else "id"

    def write_without(
        self, target: Path, gone: Callable[[pa.RecordBatch], np.ndarray]
    ) -> None:
        """Copy the rows that are not gone to another file.

        Flagged rows keep their rank in a new column `rank`: it cannot be computed from
        the remaining scores.

        Parameters
        ----------
        target : Path
        gone : callable
            Takes a batch and returns a mask of shape (n_rows,).
        """
        names = self.schema.names
        is_numbered = "flagged" in names and "rank" not in names
        start = 0
        with Rows(target).appending() as file:
            for batch in self.batches():
                rows = pa.Table.from_batches([batch])
                if is_numbered:
                    is_flagged = batch["flagged"].to_numpy(zero_copy_only=False)
                    end = start + int(np.count_nonzero(is_flagged))
                    rank = np.zeros(len(is_flagged), np.int64)
                    rank[is_flagged] = self.ranks[start:end]
                    rows = rows.append_column("rank", pa.array(rank, mask=~is_flagged))
                    start = end
                file.append(rows.filter(pa.array(~gone(batch))))

    def add_history(self, known: Callable[[Sequence[str]], Mapping[str, Any]]) -> None:
        """Add what the ledger knows of the flagged rows' cases.

        Parameters
        ----------
        known : callable
            Returns the cases of some ids, or of groups if rows come in groups.
        """
        unit = self.unit
        new = Rows(self.path.with_suffix(".new"))
        with new.appending() as file:
            for batch in self.batches():
                cases = known(batch[unit].filter(batch["flagged"]).unique().to_pylist())
                number = pc.index_in(batch[unit], pa.array([*cases], pa.string()))
                number = pc.if_else(batch["flagged"], number, None)
                rows = pa.Table.from_batches([batch])
                for name, kind in HISTORY.items():
                    facts = [getattr(case, name) for case in cases.values()]
                    rows = rows.append_column(name, pa.array(facts, kind).take(number))
                file.append(rows)
        new.path.replace(self.path)
        self._copy = new._copy
        del self.schema


# Rows in memory at a time.
PIECE_ROWS = 50_000
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
# Columns of an export in front of these: the night, and when its table was taken.
OF_RUN = ("run_id", "date", "taken_at")
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


def ranked_rows(piece: Path) -> pa.Table:
    """Return the rows of a file that `Rows.by_rank` wrote, sorted by rank."""
    with pa.OSFile(str(piece)) as file:
        return pa.ipc.open_file(file).read_all().sort_by("rank")


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


@dataclass(frozen=True)
class FlaggedRows:
    """The rows of a run as exports hand them on, with the columns of `flagged.csv`.

    Parameters
    ----------
    directory : Path
    run : RunDocument
    rows : pyarrow.Table
        The flagged rows.
    to_check : pyarrow.Table
        The others that have a cell out of bounds.
    merges : Merges
        Numbers of patients that were merged up to the night, as far as a ledger was
        given.
    """

    directory: Path
    run: RunDocument
    rows: pa.Table
    to_check: pa.Table
    merges: Merges = NO_MERGES

    def table(self) -> pa.Table:
        """Return all rows with their night (`OF_RUN`), so that nights can be joined.

        A displayed column with the name of one of these keeps its prefix.
        """
        rows = pa.concat_tables([self.rows, self.to_check])
        shown = {name: DISPLAY + name for name in OF_RUN if name in rows.column_names}
        rows = rows.rename_columns(
            [shown.get(name, name) for name in rows.column_names]
        )
        of_run = (self.run.run_id, self.run.date, instant_of_night(self.run))
        for place, (name, value) in enumerate(zip(OF_RUN, of_run, strict=True)):
            rows = rows.add_column(place, name, pa.repeat(value, rows.num_rows))
        return rows


def instant_of_night(run: RunDocument) -> str:
    """Return when the table was taken, with its offset; "" if only the day is known."""
    if run.times.taken_from in (None, "midnight"):
        return ""
    return run.times.taken_at or ""


def subjects_of(rows: pa.Table) -> list[str]:
    """Return the patient of each row, or the row's id if it has none."""
    has_no_group = pc.equal(rows["group"], "")
    return pc.if_else(has_no_group, rows["id"], rows["group"]).to_pylist()


def export(
    run: str | Path,
    to: str,
    out: str | Path | None = None,
    *,
    force: bool = False,
    **options: Any,
) -> str:
    """Write the flagged rows of a run for another system.

    Of images, flags and scores are written as volumes.
    Nothing is entered in a ledger: `screen export --ledger` does that.

    Parameters
    ----------
    run : str or Path
        Run directory.
    to : {"csv", "dicom-seg", "fhir", "nifti", "omop", "table", "xlsx"}
        What to write; or the name of a plug-in's export.
    out : str or Path, optional
        File to write; of omop, nifti and dicom-seg a directory, and nothing of a table.
    force : bool
        Replace what is there already.
    **options
        `url` and `table` (of table), `id_system` (of fhir), `definition` (of omop),
        `reference` (of dicom-seg), `since` (a Path, of csv, fhir and omop), as `screen
        export` has them; and those of a plug-in's export.

    Returns
    -------
    str
        The place that was written.

    Raises
    ------
    UsageError
        If the format is unknown, an option is missing or not one of the format's, or
        the place is taken.
    ModelError
        If the run is damaged.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from screening import export, score, train
    >>> samples, folder = files("screening.sample_cohorts"), Path(mkdtemp())
    >>> past = samples / "nosocomial_past.csv"
    >>> contract = samples / "nosocomial.toml"
    >>> model = train(past, "logistic", contract=contract, search=1, beside=())
    >>> run = score(model, samples / "nosocomial_night.csv", folder / "run")
    >>> export(run.directory, "csv", folder / "list.csv") == str(folder / "list.csv")
    True
    """
    if out is not None:
        options["out"] = Path(out)
    _, write = prepared(run, to, force, options)
    return write() or str(out)


def prepared(
    run: str | Path,
    to: str,
    force: bool,
    options: Mapping[str, Any],
    merges: Merges = NO_MERGES,
) -> tuple[FlaggedRows, Callable[[], str | None]]:
    """Return the flagged rows of a run, and a function that writes them in a format.

    `merges`: of patients' numbers; those that apply on the night of the run count.

    Raises
    ------
    UsageError
        See `export`.
    ModelError
        If the run is damaged.
    """
    if to not in exports.FORMS:
        raise UsageError(
            f"export format {to!r} does not exist; choose from "
            f"{', '.join(exports.FORMS)}"
        )
    write = exports.FORMS[to]
    parameters = dict(signature(write).parameters)
    del parameters["flagged"]
    needed = [
        name
        for name, parameter in parameters.items()
        if parameter.default is Parameter.empty
    ]
    _refuse_options(f"`to` {to} needs", set(needed) - set(options))
    _refuse_options(f"`to` {to} takes no", set(options) - set(parameters))
    if "out" in options and options["out"].exists() and not force:
        raise UsageError(
            f"{options['out']} already exists; give another `out`, or `force` to "
            "replace it",
            parameters=["out", "force"],
        )
    flagged = read_flagged(run)
    flagged = replace(flagged, merges=merges.on(flagged.run.date))
    forced = {"force": force} if "force" in parameters else {}
    return flagged, partial(_written, to, partial(write, flagged, **options, **forced))


def _written(to: str, write: Callable[[], str | None]) -> str | None:
    """Write an export; UsageError if the plug-in that does it fails."""
    try:
        return write()
    except Exception as error:
        plugin = exports.FORMS.plugin_of(to)
        if plugin is None or isinstance(error, ScreenError):
            raise
        log_traceback(error)
        raise UsageError(
            f"plug-in {plugin}: its export {to} failed ({type(error).__name__}); "
            "report it to its authors"
        ) from error


def _refuse_options(fault: str, names: set[str]) -> None:
    """Raise UsageError if there are any options of a fault."""
    if names:
        options = [f"`{name}`" for name in sorted(names)]
        raise UsageError(f"{fault} {', '.join(options)}", parameters=["to", *names])


def read_flagged(directory: str | Path) -> FlaggedRows:
    """Read the flagged rows of a run directory.

    Raises
    ------
    UsageError
        If it is a run in shadow.
    ModelError
        If it is damaged.
    """
    folder = Path(directory)
    run = read_run(folder)
    outputs = run.outputs or {}
    for name, digest in outputs.items():
        refuse_altered(folder / name, digest)
    if "flagged.csv" not in outputs:
        raise UsageError(f"{folder} is a shadow run, which cannot be exported")
    scores = Rows(folder / "scores.parquet")
    columns = listed_columns(scores.schema)
    return FlaggedRows(
        folder,
        run,
        rows=_without_nulls(as_listed(scores.first(columns))),
        to_check=_without_nulls(as_listed(scores.to_check(columns))),
    )


def _without_nulls(rows: pa.Table) -> pa.Table:
    """Return rows with "" and False in place of missing texts and booleans."""
    empty = {pa.string(): "", pa.bool_(): False}
    columns = []
    for cells in rows.columns:
        if cells.type in empty:
            cells = pc.fill_null(cells, empty[cells.type])
        columns.append(cells)
    return pa.table(columns, names=rows.column_names)


def refuse_altered(path: Path, digest: str) -> None:
    """Raise ModelError if a run's file is missing, or not as it was written."""
    if not path.is_file() or digest_of(path) != digest:
        raise ModelError(
            f"{path} is missing or damaged: its digest does not match; score the night "
            "again"
        )
