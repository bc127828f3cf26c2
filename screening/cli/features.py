"""One row a stay from events: `screen features`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from screening.cli import logs
from screening.cli.console import print_answer, printable
from screening.cli.options import AsJson
from screening.cli.waiting import stop_waiting
from screening.errors import UsageError
from screening.option_groups import Option
from screening.settings import Jobs, out_option

if TYPE_CHECKING:
    from screening.features.table import Features, Made

PARQUET = ".parquet"


@dataclass(frozen=True)
class WhichNights:
    """Options that say for which nights a table is made; one of them is given."""

    night: Annotated[
        str | None,
        Option(
            "Make the table of a night: the stays included at its hour.",
            metavar="DATE",
            panel="Data",
        ),
    ] = None
    past: Annotated[
        str | None,
        Option(
            "Make the table of the past, with label and contract.",
            metavar="FROM..TO",
            panel="Data",
        ),
    ] = None
    outcomes: Annotated[
        str | None,
        Option(
            "Make a table of outcomes of these nights, for `screen outcomes`.",
            metavar="FROM..TO",
            panel="Data",
        ),
    ] = None

    def made_by(self, features: Features, *, covered: bool) -> Made:
        """Return the table that is asked for; `covered` as of `Features.make_night`."""
        given = [name for name, value in vars(self).items() if value is not None]
        if len(given) != 1:
            raise UsageError("give one of --night DATE, --past and --outcomes FROM..TO")
        if self.night is not None:
            return features.make_night(self.night, covered=covered)
        if self.past is not None:
            return features.make_past(*_ends("--past", self.past), covered=covered)
        return features.make_outcomes(*_ends("--outcomes", str(self.outcomes)))


def _ends(option: str, text: str) -> tuple[str, str]:
    """Return the first and the last night of FROM..TO."""
    first, dots, last = text.partition("..")
    if not (first and dots and last):
        raise UsageError(
            f"{option} {text}: write two nights, such as 2024-01-01..2025-12-31"
        )
    return first, last


def features_command(
    spec: Annotated[
        Path,
        typer.Argument(
            metavar="SPEC.toml",
            help="Sources, stays and features. With --suggest: files of events.",
        ),
    ],
    *,
    which: WhichNights,
    out: Annotated[
        Path | None,
        out_option(
            "Table to write.",
            metavar="FILE.parquet",
        ),
    ] = None,
    sql: Annotated[
        bool, Option("Print the SQL that makes the table.", panel="Output")
    ] = False,
    page: Annotated[
        Path | None,
        Option(
            "Write a page with coverage, units, delays and codes without events.",
            metavar="FILE.html",
            panel="Output",
        ),
    ] = None,
    suggest: Annotated[
        bool,
        Option(
            "List the codes in event files by number of stays, and print a first spec.",
            panel="Data",
        ),
    ] = False,
    jobs: Jobs = -1,
    as_json: AsJson = False,
) -> None:
    """Make a table from events, one row per stay, as SPEC.toml says.

    One spec makes the table of a night and that of the past. An event whose time or
    known_since is after the hour of a night is not used for that night's row. Of a
    corrected result, the version known at that hour counts. A table of the past gets
    a contract, so that `screen train FILE` needs nothing else.
    """
    from screening.features.table import Features

    if suggest:
        _suggest(spec, as_json)
        return
    _refuse_places(out, page, which, sql)
    features = Features(spec, threads=jobs if jobs > 0 else None)
    made = which.made_by(features, covered=page is not None)
    for fault in made.faults:
        logs.note(fault)
    if sql:
        stop_waiting()
        typer.echo(printable(";\n\n".join(made.statements) + ";", lines=True))
    if out is None:
        return
    answer: dict[str, Any] = {
        "table": str(out),
        "rows": made.table.num_rows,
        "columns": made.table.num_columns,
        "counts": dict(made.rows),
        "faults": list(made.faults),
        "undated": list(made.undated),
    }
    contract = _write(made, out, features, is_past=which.past is not None)
    if contract is not None:
        answer["contract"] = str(contract)
    if page is not None:
        _draw(made, page, out.name)
        answer["page"] = str(page)
    if not sql:
        print_answer(answer, as_json)


def _refuse_places(
    out: Path | None, page: Path | None, which: WhichNights, sql: bool
) -> None:
    """Raise UsageError for places that make no sense."""
    if out is None and not sql:
        raise UsageError("give --out FILE.parquet, or --sql")
    if out is not None and out.suffix != PARQUET:
        raise UsageError(
            f"--out {out}: the table is Parquet; end the name with {PARQUET}"
        )
    if page is not None and (out is None or which.outcomes is not None):
        raise UsageError("--page needs --night or --past, and --out")


def _suggest(files: Path, as_json: bool) -> None:
    """Print the codes of a source, and a first spec."""
    from screening.features.coverage import first_spec, format_of, suggest
    from screening.features.spec import Source

    kind = format_of(files)
    found = suggest(Source(format=kind, path=str(files.absolute())))
    text = first_spec({"format": kind, "path": str(files)}, found)
    if as_json:
        codes = list(map(vars, found))
        print_answer({"codes": codes, "spec": text}, as_json)
        return
    stop_waiting()
    for one in found:
        unit = f", {one.unit}" if one.unit else ""
        values = f"{one.values:.0%} with a value{unit}"
        line = f"# {one.code}: {one.stays:,} stays, {one.lines:,} lines, {values}"
        typer.echo(printable(line))
    typer.echo(printable(text, lines=True))


def _draw(made: Made, page: Path, table: str) -> None:
    """Write the page of what was made."""
    from screening.report.features import render_features
    from screening.store.publishing import write_whole

    assert made.coverage is not None, "a night and the past have it"
    content = render_features(
        table,
        rows=made.rows,
        faults=made.faults,
        undated=made.undated,
        coverage=made.coverage,
    )
    write_whole(page, content.encode(), mode=0o600)


def _write(made: Made, out: Path, features: Features, is_past: bool) -> Path | None:
    """Write a table, and before a table of the past its contract; return its place."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from screening.data.completing import CONTRACT_ENDING
    from screening.features.contract import contract_of
    from screening.store.publishing import write_whole

    sink = pa.BufferOutputStream()
    pq.write_table(made.table, sink)
    content = sink.getvalue().to_pybytes()
    out.parent.mkdir(parents=True, exist_ok=True)
    contract = None
    if is_past:
        contract = out.with_suffix(CONTRACT_ENDING)
        stated = contract_of(features.spec, made.undated)
        write_whole(contract, stated.to_toml().encode(), mode=0o600)
    write_whole(out, content, mode=0o600)
    return contract
