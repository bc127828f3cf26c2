"""Commands that use a model: `screen score`, `run`, `explain`, `export`, `report`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from screening.cli import logs, options
from screening.cli.console import ATTENTION, agreement, bar, join_reasons, print_answer
from screening.cli.groups import Without
from screening.cli.processes import prepare_for_scoring
from screening.cli.users import act_as_owner
from screening.errors import UsageError
from screening.scoring.exports import form_names
from screening.settings import (
    AcceptDelivery,
    ClusterAddress,
    DatabaseOptions,
    Date,
    NightOptions,
    PublicKeyFile,
    ReaderOptions,
    Replace,
    Resources,
    Templates,
)
from screening.spelling import did_you_mean

if TYPE_CHECKING:
    from screening.ledger.entries import ArtefactKind
    from screening.ledger.merging import Merges
    from screening.report.values import Value
    from screening.schemas.history import HookFacts, OverviewDocument, SeriesNight
    from screening.schemas.run import RunDocument
    from screening.scoring.score import Run
    from screening.site.site import Network
    from screening.store.pages import PageFolder


@dataclass(frozen=True, kw_only=True)
class RunOutput:
    """The run directory to write, and when its command fails."""

    out: Annotated[
        Path,
        options.in_output("--out", "-o", metavar="DIR", help="Run directory to write."),
    ]
    require_signature: PublicKeyFile = None
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit 5 if the page shows ATTENTION."),
    ] = False
    as_json: options.AsJson = False


def score_command(
    model: options.ModelFolder,
    source: options.CohortOptions,
    *,
    night: NightOptions,
    ledger: options.LedgerMaybe = None,
    readers: ReaderOptions,
    resources: Annotated[Resources, Without("memory")],
    output: RunOutput,
) -> None:
    """Score every row of COHORT at MODEL's operating point."""
    if ledger:
        # Before processes are started, which could not be ended by another user.
        act_as_owner(ledger)
    prepare_for_scoring(source.cohort, resources)
    from screening.ledger.database import open_ledger
    from screening.ledger.history import compare_nights
    from screening.ledger.reach import refuse_copy_at
    from screening.scoring.score import score
    from screening.store.loading import load_model

    logs.about(series=night.series, night=night.date)
    _refuse_without_page(readers, night)
    if not ledger:
        _refuse_without_ledger(night)
    key = options.public_key_from(output.require_signature)
    if ledger:
        # Before the folder of pages is made, which may be the original's.
        refuse_copy_at(ledger)
    # What stands in the way of a copy is refused before the night is scored.
    pages = _prepared_pages(readers)
    # Before the ledger, which a command that is refused for its model does not begin.
    loaded = load_model(model, key)
    with (
        open_ledger(ledger, make=True) if ledger else nullcontext() as book,
        bar("Scoring") as progress,
    ):
        run = score(
            loaded,
            source.readable,
            output.out,
            ledger=book,
            night=replace(night, published=pages is not None),
            resources=replace(resources, progress=progress),
        )
        answer = run.summary()
        document = run.document
        if night.shadow and book is not None:
            series = document["ledger"]["series"]
            compared = compare_nights(book, series, document["model"]["digest"])
            beside = compared.to_dict() if output.as_json else agreement(compared)
            answer["beside"] = beside
    answer |= _hand_out_night(ledger, run, night.refused, pages)
    _log_night(document, night.label)
    if not output.as_json:
        answer = _in_words(answer)
    print_answer(answer, output.as_json)
    if output.strict:
        _exit_if_attention(run)


def _prepared_pages(readers: ReaderOptions) -> PageFolder | None:
    """Return the folder of a copy for readers; raise UsageError if it cannot be one."""
    from screening.store.pages import PageFolder, parse_readers

    if readers.publish is None:
        return None
    pages = PageFolder(readers.publish, parse_readers(readers.mode, readers.group))
    pages.prepare()
    return pages


def _hand_out_night(
    ledger: str | None,
    run: Run,
    refused: str | Path | None,
    pages: PageFolder | None,
) -> dict[str, str]:
    """Publish a night's page, register its files, and return where they are."""
    entry = run.document.get("ledger")
    places = {}
    if refused is not None:
        _hand_out(ledger, entry, "refused", Path(refused))
        places["refused_cells"] = str(refused)
    if pages is not None:
        night = run.document["date"]
        page = (run.directory / "report.html").read_bytes()
        _hand_out(ledger, entry, "page", *pages.paths(night), content=page)
        places["published"] = str(pages.show(page, night))
    return places


def _log_night(document: Mapping[str, Any], label: str | None) -> None:
    """Log that a night is complete, and whether it could be evaluated by its label."""
    entry = document.get("ledger") or {}
    logs.about(
        series=entry.get("series"), night=document["date"], run=document["run_id"]
    )
    if label and document.get("evaluation") is None:
        logs.note(f"column {label} has no label tonight; nothing is evaluated")
    logs.about(peak_mb=logs.peak_mb())
    logs.done("the night is scored and its run directory is complete")


def _exit_if_attention(run: Run) -> None:
    """Exit 5 if a night needs attention for a reason that does not stand; say why."""
    from screening.schemas.base import new_reasons

    reasons = new_reasons(run.attention)
    if reasons:
        sentences = " ".join(reason.words for reason in reasons)
        logs.note(f"the run is complete but needs attention: {sentences}")
        raise typer.Exit(ATTENTION)


def _refuse_without_page(readers: ReaderOptions, night: NightOptions) -> None:
    """Raise UsageError for a copy of a page that a night does not have."""
    if readers.publish is not None and night.shadow:
        raise UsageError("a night in shadow has no page; leave out --publish")


def _refuse_without_ledger(night: NightOptions) -> None:
    """Raise UsageError for an option that needs --ledger."""
    if night.force or night.replace is not None:
        raise UsageError(
            "--force and --replace make a new revision in a ledger; give --ledger too"
        )
    if night.series:
        raise UsageError("--series names a series of a ledger; give --ledger too")


def _in_words(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer for a terminal: counts in words, and nothing that is empty."""
    from screening.report.outcome_words import taken_words
    from screening.schemas.history import CASE_COUNTS

    counts = answer["counts"]
    lines = [
        f"{counts['flagged']:,} flagged of {counts['scored']:,} rows scored; "
        f"{counts['read']:,} read, {counts['refused']:,} refused"
    ]
    states = [
        f"{counts[name]:,} {name.replace('_', ' ')}"
        for name in CASE_COUNTS[1:]
        if counts[name] is not None
    ]
    if states:
        lines.append(", ".join(states))
    stated = {
        key: value
        for key, value in answer.items()
        if key not in TIMES and (value or key == "attention")
    }
    return stated | {"counts": lines, "hour of night": taken_words(**_times(answer))}


# Keys of an answer that say when the table was taken.
TIMES = ("taken_at", "taken_from", "time_zone", "is_zone_of_host")


def _times(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an answer says of when its table was taken."""
    return {key: answer[key] for key in TIMES}


def _hand_out(
    ledger: str | None,
    entry: Mapping[str, Any] | None,
    what: ArtefactKind,
    *places: Path,
    content: bytes | None = None,
    patient: str | None = None,
) -> None:
    """Enter files that show a run in the ledger's register, before they appear.

    Parameters
    ----------
    ledger : str or None
    entry : mapping or None
        Entry of the run in its ledger; nothing is done without one.
    what : str
        Kind of the files: "page", "case", "export" or "table".
    *places : Path
    content : bytes, optional
        Content of the file; None where it is there already.
    patient : str, optional
        The patient whom a page is about.
    """
    from screening.ledger.database import open_ledger
    from screening.ledger.entries import Artefact
    from screening.ledger.register import digest_at, hand_out

    if not entry or not places:
        return
    if not ledger:
        logs.note(
            "not entered in the ledger's register, so `screen forget` will not find it:"
            " give --ledger"
        )
        return
    artefacts = []
    for place in places:
        if what != "table":
            place = place.resolve()
        if content is None:
            digest = digest_at(what, place)
        else:
            digest = sha256(content).hexdigest()
        about = {"key": entry["key"], "patient": patient}
        artefacts.append(Artefact(what=what, place=place, sha256=digest, **about))
    with open_ledger(ledger) as book:
        hand_out(book, *artefacts)


@dataclass(frozen=True)
class OnlyOptions:
    """Options of a run of some series only, such as with a corrected table."""

    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this series; repeatable."),
    ] = None
    accept_delivery: AcceptDelivery = None
    replace: Replace = None

    def check(self, network: Network, site: Path) -> None:
        """Raise UsageError for an unknown series, or a reason without words or series.

        A reason is for the tables that somebody has looked at.
        """
        for name in self.only or ():
            if name not in network.series:
                hint = did_you_mean(name, network.series)
                raise UsageError(f"--only {name}: {site.name} has no such series{hint}")
        for option, reason in (
            ("--accept-delivery", self.accept_delivery),
            ("--replace", self.replace),
        ):
            if reason is not None and not reason.strip():
                raise UsageError(
                    f"{option}: give the reason in a few words, which are recorded"
                )
        if (self.accept_delivery or self.replace) and not self.only:
            raise UsageError(
                "--accept-delivery and --replace need a table that somebody has "
                "checked; give --only NAME too"
            )


def run_command(
    site: Annotated[
        Path,
        typer.Argument(metavar="NIGHT.toml", help="Site file (docs/nightly.md)."),
    ],
    date: Date = None,
    *,
    series: OnlyOptions,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="SCREEN_LEDGER",
            help="Ledger, if NIGHT.toml does not name one.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit 5 if the page of a series shows ATTENTION."
        ),
    ] = False,
    cluster: ClusterAddress = None,
    as_json: options.AsJson = False,
) -> None:
    """Score every series of a site, and write one overview.

    Missed nights are scored too. The exit code is the worst of the series, in the order
    1, 4, 3, 2, 75, 5, 0.
    """
    from screening.scoring.score import night_of_date
    from screening.site.night import run_night
    from screening.site.processes import tell_hooks
    from screening.site.site import read_network

    network = read_network(site, ledger)
    series.check(network, site)
    night = night_of_date(date, clock=network.clock)
    logs.about(night=night)
    act_as_owner(network.ledger, network.site.runs)
    overview, page = run_night(
        network,
        night,
        only=series.only or [],
        accept_delivery=series.accept_delivery,
        replace_reason=series.replace,
        strict=strict,
        relay=logs.relay,
        cluster=cluster,
    )
    answer = overview.to_dict() | {"overview": str(page)}
    _log_failures(overview)
    _log_attention(overview)
    logs.done("the overview is written")
    content = json.dumps(answer, ensure_ascii=False).encode()
    hooks = tell_hooks(network.site.hooks, content, network.site.hook_seconds, site)
    for hook in hooks:
        if not hook.fine:
            logs.note(
                f"the night is published, but the hook {hook.command} {hook.said}"
            )
    if as_json:
        answer["hooks"] = [hook.to_dict() for hook in hooks]
    else:
        answer = _overview_in_words(overview, page, hooks)
    print_answer(answer, as_json)
    if overview.exit_code:
        raise typer.Exit(overview.exit_code)


def _log_failures(overview: OverviewDocument) -> None:
    """Log how many nights failed, and which files could not be used."""
    n_failed = sum(line.status == "failed" for line in overview.nights)
    if n_failed:
        logs.note(f"{n_failed} of {len(overview.nights)} nights failed")
    for file in overview.verdicts:
        if file.refused:
            logs.note(f"verdicts, {file.file}: refused: {file.refused}")
    for table in overview.outcomes:
        if table.refused:
            text = f"outcomes of {table.series}: refused: {table.refused}"
            logs.note(f"{text}; next: {'; or '.join(table.remedies)}")


def _log_attention(overview: OverviewDocument) -> None:
    """Log each reason for attention of the night that does not stand."""
    from screening.schemas.base import new_reasons

    for line in [*overview.series, *overview.caught_up]:
        for reason in new_reasons(line.attention):
            logs.attention(line.series, line.night, reason.code, reason.words)
    for reason in new_reasons(overview.attention):
        logs.attention(None, overview.night, reason.code, reason.words)


def _overview_in_words(
    overview: OverviewDocument, page: Path, hooks: Sequence[HookFacts]
) -> dict[str, Any]:
    """Return the overview of a night for a terminal."""
    return {
        "night": overview.night,
        "series": list(map(_night_in_words, overview.nights)),
        "together": [reason.sentence for reason in overview.attention],
        "overview": str(page),
        "hooks": [f"{hook.command} {hook.said}" for hook in hooks],
    }


def _night_in_words(line: SeriesNight) -> str:
    """Return what became of a night of a series, on one line."""
    shadow = " in shadow" if line.shadow else ""
    text = f"{line.series} {line.night}{shadow}: {line.status}"
    if line.flagged is not None:
        text += f", {line.flagged} of {line.scored} flagged"
    if line.said is not None:
        text += f": {' '.join(line.said.split())}"
    text += join_reasons(line.attention)
    if line.remedies:
        text += f"; next: {'; or '.join(line.remedies)}"
    return text


@dataclass(frozen=True, kw_only=True)
class TableOfRunOptions:
    """The model and table of a run, to explain a row that was not flagged."""

    model: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="With --cohort: the run's model, to explain any row by all its "
            "values.",
        ),
    ] = None
    cohort: Annotated[
        str | None,
        typer.Option(metavar="COHORT", help="With --model: the run's table."),
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
        _hand_out(
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


@dataclass(frozen=True)
class ExportOptions:
    """Options of single forms of an export: each form takes some of them."""

    out: Annotated[
        Path | None,
        options.in_output(
            "--out",
            "-o",
            metavar="FILE",
            help="File to write, or a directory for omop, nifti and dicom-seg.",
        ),
    ] = None
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="For table: URL of the database.")
    ] = None
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="For table: name of the table.")
    ] = None
    id_system: Annotated[
        str | None,
        typer.Option(metavar="URI", help="For fhir: system of the identifiers."),
    ] = None
    definition: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="For omop: cohort_definition_id of the first class; by default 1.",
        ),
    ] = None
    reference: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="For dicom-seg: folder with the DICOM series of each "
            "patient in DIR/PATIENT.",
        ),
    ] = None
    since: Annotated[
        Path | None,
        typer.Option(
            metavar="EARLIER",
            help="For csv, fhir and omop: the previous export in this format, or its "
            "run directory. Marks what is new, changed and ended.",
        ),
    ] = None

    @property
    def stated(self) -> dict[str, object]:
        """The options that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def place(self) -> Path | None:
        """Path of the export's file or directory, or of its table."""
        from screening.io.connections import described, read_url

        if self.url is not None:
            return Path(f"{described(read_url(self.url))}/{self.table}")
        return self.out and self.out.resolve()


def export_command(
    run: options.RunFolder,
    to: Annotated[Form, typer.Option(help="Format to write.")],
    *,
    form: ExportOptions,
    force: Annotated[
        bool, typer.Option("--force", help="Replace existing files.")
    ] = False,
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
    from screening.scoring.id_reasons import note_on_writing
    from screening.scoring.rows import prepared

    out = form.out
    place = form.place
    if ledger:
        act_as_owner(ledger)
    is_own = _is_own_export(ledger, run, place)
    flagged, write = prepared(run, to, force or is_own, form.stated, _merges_in(ledger))
    of_writing = note_on_writing(flagged.run)
    if of_writing is not None:
        logs.note(of_writing)
    is_table = form.url is not None
    with _export_registered(ledger, flagged.run, place, is_table=is_table):
        # Nothing replaces a directory of volumes, whose names are the patients'.
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
    _hand_out(ledger, entry, what, place, content=b"")
    yield
    if ledger:
        content = run.sha256.encode() if is_table else None
        _hand_out(ledger, entry, what, place, content=content)


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
        options.in_output(
            "--out",
            "-o",
            metavar="FILE",
            help="Page to write (HTML); by default DIR/report.html. Required for "
            "several directories.",
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
        _hand_out(ledger, entry, "page", target, content=page)
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
