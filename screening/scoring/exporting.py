"""Export the flagged rows of a run directory in one of the forms of `exports`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from screening.errors import ScreenError, UsageError
from screening.ledger.merging import NO_MERGES, Merges
from screening.registry import log_traceback
from screening.schemas.run import RunDocument
from screening.scoring import exports
from screening.scoring.flagged_list import as_listed, listed_columns
from screening.scoring.rows import Rows, refuse_altered
from screening.store.model import DISPLAY
from screening.store.serialization import read_run

# Columns of an export in front of these: the night, and when its table was taken.
OF_RUN = ("run_id", "date", "taken_at")


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
