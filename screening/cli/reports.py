"""Commands that show a run to others: `screen explain`, `export` and `report`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from screening.cli import logs, options
from screening.cli.console import print_answer
from screening.cli.register import enter_in_register
from screening.cli.users import act_as_owner
from screening.errors import UsageError
from screening.option_groups import Option
from screening.scoring.exports import form_names
from screening.settings import (
    DatabaseOptions,
    ExportOptions,
    Templates,
)

if TYPE_CHECKING:
    from screening.ledger.entries import ArtefactKind
    from screening.ledger.merging import Merges
    from screening.report.values import Value
    from screening.schemas.run import RunDocument


@dataclass(frozen=True, kw_only=True)
class TableOfRunOptions:
    """The model and table of a run, to explain a row that was not flagged."""

    model: Annotated[
        Path | None,
        Option(
            "With --cohort: the run's model, to explain any row by all its values.",
            metavar="MODEL",
        ),
    ] = None
    cohort: Annotated[
        str | None, Option("With --model: the run's table.", metavar="COHORT")
    ] = None
    database: DatabaseOptions


def explain_command(
    run: options.RunFolder,
    case: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="Id of a row, or of a group (its row with the highest score).",
        ),
    ],
    table: TableOfRunOptions,
    out: options.PageFile = None,
    ledger: options.LedgerMaybe = None,
    templates: Templates = None,
    as_json: options.AsJson = False,
) -> None:
    """Show why one case of RUN was flagged."""
    from screening.report.page import render_case
    from screening.scoring.explaining import explain
    from screening.store.loading import load_model
    from screening.store.publishing import write_whole

    if ledger:
        act_as_owner(ledger)
    loaded = load_model(table.model) if table.model else None
    explained = explain(
        run,
        options.id_from(os.fsencode(case)),
        loaded,
        table.cohort and options.source_of(table.cohort, table.database),
    )
    night = explained["run"]
    row = explained["case"]
    if out is not None:
        page = render_case(night, row, templates).encode()
        patient = row["id"] if row.get("group") is None else row["group"]
        enter_in_register(
            ledger, night.get("ledger"), "case", out, content=page, patient=patient
        )
        write_whole(out, page)
    answer = {"run_id": night["run_id"], "date": night["date"]}
    answer |= row if as_json else _case_in_words(night, row)
    if out:
        answer["report"] = str(out)
    print_answer(answer, as_json)


def _case_in_words(
    night: Mapping[str, object], row: Mapping[str, object]
) -> dict[str, object]:
    """Return a case for a terminal, its values as the page writes them."""
    from screening.report.format import name
    from screening.report.worklist import line_of_one
    from screening.schemas.run import ExplainedCase, RunDocument

    run = RunDocument.from_dict(night)
    case = ExplainedCase.from_dict(row)
    line = line_of_one(run, case)
    facts: dict[str, object] = {name.lower(): fact for name, fact in line.facts}
    return {
        "id": line.id,
        "flagged": line.remarks[0],
        **facts,
        "why": list(map(_value_in_words, line.values)),
        "missing": [name(run.model.title_of(feature)) for feature in case.missing],
    }


def _value_in_words(value: Value) -> str:
    """Return a contributing value, its range and its effect on the score."""
    parts = [value.feature, value.value, value.unit, value.outside]
    if value.range:
        parts.append(f"({value.range_is} {value.range})")
    value_and_range = " ".join(filter(None, parts))
    if not value.change:
        return value_and_range
    effect = "raises" if value.raises else "lowers"
    return f"{value_and_range}: {effect} the score, {value.change}"


# A model's card goes to others as a night does.
MODEL_CARD = "model-card"
FORMS = sorted([*form_names(), MODEL_CARD])
Form = StrEnum("Form", {form: form for form in FORMS})  # type: ignore[misc]


def export_command(
    run: options.RunFolder,
    to: Annotated[Form, Option("Format to write.")],
    *,
    form: ExportOptions,
    force: Annotated[bool, Option("Replace existing files.")] = False,
    ledger: options.LedgerMaybe = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the flagged rows of RUN for another system.

    For images, flags and scores are written as volumes. With --to model-card, RUN is a
    model, and FILE its card in the format of CHAI (FILE.xml) or HL7, which includes
    CHAI's (FILE.json).
    """
    if to == MODEL_CARD:
        _export_card(run, form.out, force, as_json)
        return
    from screening.scoring.exporting import prepared
    from screening.scoring.id_reasons import note_on_writing

    out = form.out
    place = _place_of(form)
    if ledger:
        act_as_owner(ledger)
    is_own = _is_own_export(ledger, run, place)
    flagged, write = prepared(
        run, to, force or is_own, form.stated(), _merges_in(ledger)
    )
    of_writing = note_on_writing(flagged.run)
    if of_writing is not None:
        logs.note(of_writing)
    is_table = form.url is not None
    with _export_registered(ledger, flagged.run, place, is_table=is_table):
        # A directory of volumes is not replaced as a whole: its names are the
        # patients'.
        if is_own and out is not None and out.is_dir():
            shutil.rmtree(out)
        written = write() or str(out)
    answer = {
        "run_id": flagged.run.run_id,
        "rows": flagged.rows.num_rows,
        "erased": flagged.run.erased,
        "out": written,
    }
    print_answer(answer, as_json)


def _place_of(form: ExportOptions) -> Path | None:
    """Return the path of an export's file or directory, or of its table."""
    from screening.io.connections import described, read_url

    if form.url is not None:
        return Path(f"{described(read_url(form.url))}/{form.table}")
    return form.out and form.out.resolve()


def _merges_in(ledger: str | None) -> Merges:
    """Return the merged numbers of a ledger; none without."""
    from screening.ledger.database import open_ledger
    from screening.ledger.merging import NO_MERGES, merges_of

    if ledger is None:
        return NO_MERGES
    with open_ledger(ledger) as book, book.reading() as connection:
        return merges_of(connection)


@contextmanager
def _export_registered(
    ledger: str | None, run: RunDocument, place: Path | None, *, is_table: bool
) -> Iterator[None]:
    """Enter an export in the ledger's register before it is written, and after.

    If it is killed in between, it is known to be unfinished.
    """
    if place is None:
        yield
        return
    what: ArtefactKind = "table" if is_table else "export"
    entry = run.ledger.to_dict() if run.ledger else None
    enter_in_register(ledger, entry, what, place, content=b"")
    yield
    if ledger:
        content = run.sha256.encode() if is_table else None
        enter_in_register(ledger, entry, what, place, content=content)


def _export_card(model: Path, out: Path | None, force: bool, as_json: bool) -> None:
    """Write the card of a model: XML of CHAI, or HL7's JSON that carries it."""
    from screening.report.model_card import applied_model_card, document_reference
    from screening.store.loading import load_model
    from screening.store.publishing import write_whole

    if out is None or out.suffix not in (".xml", ".json"):
        raise UsageError(
            "--out FILE: give FILE.xml for CHAI's card, or FILE.json for HL7's document"
        )
    if out.exists() and not force:
        raise UsageError(
            f"{out} already exists; give another --out, or --force to replace it"
        )
    loaded = load_model(model)
    content = applied_model_card(loaded.facts, loaded.id)
    if out.suffix == ".json":
        title = loaded.facts.stated.title or loaded.facts.task.label
        reference = document_reference(content, loaded.id, title)
        content = (json.dumps(reference, indent=1) + "\n").encode()
    write_whole(out, content)
    print_answer({"model": loaded.id, "out": str(out)}, as_json)


def _is_own_export(ledger: str | None, run: Path, place: Path | None) -> bool:
    """Return True if an export of this run lies at a place, unaltered or unfinished.

    A command that was killed is then finished by the same command.
    """
    from screening.ledger.database import open_ledger
    from screening.ledger.register import may_be_replaced
    from screening.store.serialization import read_document

    if ledger is None or place is None:
        return False
    entry = read_document(run, "run").get("ledger")
    if not entry:
        return False
    with open_ledger(ledger) as book:
        return may_be_replaced(book, entry["key"], place)


def report_command(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Model, run, comparison or validation directory; several models and "
            "validations are drawn as one table.",
        ),
    ],
    out: Annotated[
        Path | None,
        Option(
            "Page to write (HTML); by default DIR/report.html. Required for "
            "several directories.",
            metavar="FILE",
            flags=("--out", "-o"),
            panel="Output",
        ),
    ] = None,
    ledger: options.LedgerMaybe = None,
    templates: Templates = None,
    as_json: options.AsJson = False,
) -> None:
    """Draw the report of a directory again, or one table for several.

    With --ledger, the table includes the series whose outcomes are known.
    """
    from screening.report.page import PAGES
    from screening.store.publishing import write_whole
    from screening.store.serialization import read_document

    if ledger:
        act_as_owner(ledger)
    if len(directories) > 1:
        place = _draw_side_by_side(directories, out, ledger, templates)
        print_answer({"report": str(place)}, as_json)
        return
    (directory,) = directories
    kinds = (kind for kind in PAGES if (directory / f"{kind}.json").exists())
    kind = next(kinds, "model")
    target = out or directory / "report.html"
    document = read_document(directory, kind)
    # Only a run has one.
    entry = cast(dict[str, Any], document.get("ledger") or {})
    if entry.get("shadow"):
        raise UsageError(
            f"{directory} was scored in shadow and has no page; to compare it, use the "
            "option --beside of `screen history`"
        )
    _, render = PAGES[kind]
    page = render(document, templates).encode()
    if out is not None:
        enter_in_register(ledger, entry, "page", target, content=page)
    write_whole(target, page)
    answer: dict[str, Any] = {"report": str(target)}
    # A comparison has none.
    if "attention" in document:
        answer["attention"] = document["attention"]
    print_answer(answer, as_json)


def _draw_side_by_side(
    directories: list[Path],
    out: Path | None,
    ledger: str | None,
    templates: Path | None,
) -> Path:
    """Draw one table of models and validations, and of series if there is a ledger."""
    from screening.ledger.database import open_ledger
    from screening.ledger.history import history
    from screening.report.side_by_side import (
        ComparedPopulation,
        populations_of,
        populations_of_series,
        render_side_by_side,
    )
    from screening.schemas.comparison import ExternalValidation
    from screening.schemas.history import HistoryDocument
    from screening.schemas.model import ModelDocument
    from screening.store.publishing import write_whole
    from screening.store.serialization import read_document

    if out is None:
        raise UsageError(
            "several directories are drawn on one page; name it with --out FILE",
            parameters=["out"],
        )
    populations: list[ComparedPopulation] = []
    for directory in directories:
        if (directory / "validation.json").exists():
            validation = read_document(directory, "validation")
            populations += populations_of(ExternalValidation.from_dict(validation))
        else:
            model = read_document(directory, "model")
            populations += populations_of(ModelDocument.from_dict(model))
    if ledger:
        with open_ledger(ledger) as book:
            nights = HistoryDocument.from_dict(history(book))
        for series in nights.series:
            populations += populations_of_series(series)
    write_whole(out, render_side_by_side(populations, templates).encode())
    return out
