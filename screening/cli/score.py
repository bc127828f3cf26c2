"""What a model says of a night: `screen score`, `run`, `explain`, `export`, `report`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from screening.cli import logs
from screening.cli.console import ATTENTION, agreement, bar, in_a_row, sentences, tell
from screening.cli.options import (
    AcceptDelivery,
    AsJson,
    Cluster,
    Jobs,
    LedgerMaybe,
    Mode,
    ModelFolder,
    Night,
    PageFile,
    Publish,
    Query,
    ReadBy,
    RunFolder,
    Series,
    Source,
    Table,
    Templates,
    id_from,
    in_data,
    in_output,
    series_from,
    source_of,
)
from screening.errors import UsageError
from screening.scoring import exports
from screening.spelling import did_you_mean

if TYPE_CHECKING:
    from screening.ledger.database import Ledger
    from screening.scoring.score import Run
    from screening.store.showing import PageFolder


def score(
    model: ModelFolder,
    cohort: Source,
    out: Annotated[Path, in_output("--out", "-o", help="Run directory to write.")],
    table: Table = None,
    query: Query = None,
    label: Annotated[
        str | None, in_data("--label", "-l", help="Column of true labels, to evaluate; never written.")
    ] = None,
    date: Night = None,
    require_signature: Annotated[
        Path | None,
        typer.Option(metavar="PUB", help="Refuse a model that this Ed25519 key (PEM) has not signed."),
    ] = None,
    ledger: LedgerMaybe = None,
    series: Series = None,
    shadow: Annotated[
        bool,
        typer.Option("--shadow", help="With --ledger: beside the series' champion; recorded, no page."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="With --ledger: enter a known night, or another table or model for it."),
    ] = False,
    accept_delivery: AcceptDelivery = None,
    allow_future: Annotated[
        bool, typer.Option("--allow-future", help="Take a --date after tomorrow, for tests.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 5 where the page's head says ATTENTION.")
    ] = False,
    publish: Publish = None,
    mode: Mode = None,
    group: ReadBy = None,
    templates: Templates = None,
    jobs: Jobs = -1,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Score every row of COHORT at MODEL's operating point."""
    from contextlib import nullcontext

    from screening.scoring import score as scoring
    from screening.store.loading import load_model
    from screening.store.signing import public_key

    logs.about(series=series_from(series), night=date)
    pages = _pages(publish, mode, group, shadow)
    signed_by = None if require_signature is None else public_key(require_signature)
    if force and not ledger:
        raise UsageError("--force makes a new revision in a ledger; give --ledger too")
    if series and not ledger:
        raise UsageError("--series is a name in a ledger; give --ledger too")
    # Before the ledger, which a command that is refused for its model does not begin.
    loaded = load_model(model, signed_by)
    with _opened(ledger) if ledger else nullcontext() as book, bar("Scoring") as progress:
        run = scoring.score(
            loaded, source_of(cohort, table, query), out, label=label, date=date,
            ledger=book, series=series_from(series), shadow=shadow, force=force,
            accept_delivery=accept_delivery, allow_future=allow_future, jobs=jobs, cluster=cluster,
            progress=progress, templates=templates,
        )  # fmt: skip
        told = run.summary()
        if shadow and book is not None:
            told["beside"] = _beside(book, run, as_json)
    if pages is not None:
        page, night = (run.directory / "report.html").read_bytes(), run.document["date"]
        _hand_out(ledger, run.document, "page", *pages.places(night), content=page)
        told["published"] = str(pages.show(page, night))
    known = run.document.get("ledger") or {}
    logs.about(series=known.get("series"), night=run.document["date"], run=run.document["run_id"])
    if label and run.document.get("evaluation") is None:
        logs.note(f"column {label} holds no label tonight: nothing is evaluated")
    logs.about(peak_mb=logs.peak_mb())
    logs.done("the night is scored and its run directory is complete")
    tell(told if as_json else told | {"attention": sentences(told["attention"])}, as_json)
    if strict and run.attention:
        words = " ".join(each.words for each in run.attention)
        logs.note(f"the run is complete but wants attention: {words}")
        raise typer.Exit(ATTENTION)


def _pages(publish: Path | None, mode: str | None, group: str | None, shadow: bool) -> PageFolder | None:
    """Where a copy of the page goes; what stands in its way is said before the night is scored."""
    if publish is None:
        if mode or group:
            raise UsageError("--mode and --group are those of a copy for readers; give --publish too")
        return None
    if shadow:
        raise UsageError("a night in shadow has no page to --publish")
    from screening.store.showing import PageFolder, readers

    pages = PageFolder(publish, readers(mode, group))
    pages.prepare()
    return pages


def _hand_out(
    ledger: str | None,
    run: Mapping[str, Any],
    what: str,
    *places: Path,
    content: bytes | None = None,
    patient: str | None = None,
    keyed: str | None = None,
) -> None:
    """Enter what shows a run, before it appears, in the ledger that the run was scored with.

    `content`: of the file; None where what lies there already is entered.
    """
    from screening.ledger.database import open_ledger
    from screening.ledger.register import Artefact, digest_at, hand_out

    known = run.get("ledger")
    if not known or not places:
        return
    if not ledger:
        logs.note("not entered in the ledger's register, so `screen forget` will not find it: give --ledger")
        return
    places = places if what == "table" else tuple(place.resolve() for place in places)
    digests = [digest_at(what, place) if content is None else sha256(content).hexdigest() for place in places]
    with open_ledger(ledger) as book:
        hand_out(
            book,
            *(
                Artefact(what, place, digest, known["key"], patient=patient, keyed=keyed)
                for place, digest in zip(places, digests, strict=True)
            ),
        )


def _beside(book: Ledger, run: Run, as_json: bool) -> Any:
    """How the shadow's nights compare with the champion's so far; nothing before there is one."""
    from screening.ledger.history import compare_nights

    whose, model = run.document["ledger"]["series"], run.document["model"]["digest"]
    found = compare_nights(book, whose, model)
    return found.to_dict() if as_json else agreement(found)


def _opened(ledger: str) -> AbstractContextManager[Ledger]:
    from screening.ledger.database import open_ledger

    return open_ledger(ledger, make=True)


def run(
    site: Annotated[Path, typer.Argument(metavar="NIGHT.toml", help="The site's series (docs/nightly.md).")],
    date: Night = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this series; may be repeated.")
    ] = None,
    accept_delivery: AcceptDelivery = None,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="URL", envvar="SCREEN_LEDGER", help="Ledger, where NIGHT.toml names none."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 5 where a series' page says ATTENTION.")
    ] = False,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Score every series of a site, and write one overview.

    Missed nights are scored too. The exit code is the worst of the series: 1, 4, 3, 2, 75, 5, 0.
    """
    from screening.scoring.score import night_of_date
    from screening.site.night import run_night
    from screening.site.processes import tell_hooks
    from screening.site.site import read_network

    network = read_network(site, ledger)
    for name in only or ():
        if name not in network.series:
            raise UsageError(
                f"--only {name}: no such series in {site.name}{did_you_mean(name, network.series)}"
            )
    if accept_delivery is not None and not only:
        raise UsageError("--accept-delivery is for tables that somebody has looked at; give --only NAME too")
    night = night_of_date(date)
    logs.about(night=night)
    overview, page = run_night(
        network, night, only=only or (), accept_delivery=accept_delivery, strict=strict, told=logs.relay,
        cluster=cluster,
    )  # fmt: skip
    document = overview.to_dict()
    text = json.dumps(document | {"overview": str(page)}, ensure_ascii=False).encode()
    lines = [*overview.series, *overview.caught_up, *overview.shadows]
    failed = sum(one.status == "failed" for one in lines)
    if failed:
        logs.note(f"{failed} of {len(lines)} nights failed")
    logs.done("the overview is written")
    hooks = tell_hooks(network.site.hooks, text, network.site.hook_seconds)
    for hook in hooks:
        if not hook.fine:
            logs.note(f"the night stands, but the hook {hook.command} {hook.said}")
    if as_json:
        tell(document | {"overview": str(page), "hooks": [hook.to_dict() for hook in hooks]}, True)
    else:
        answer = {
            "night": night,
            "series": [
                f"{one.series} {one.night}{' in shadow' * one.shadow}: {one.status}"
                + ("" if one.flagged is None else f", {one.flagged} of {one.scored} flagged")
                + ("" if one.said is None else f": {one.said}")
                + in_a_row(one.attention)
                for one in lines
            ],
            "overview": str(page),
            "hooks": [f"{hook.command} {hook.said}" for hook in hooks],
        }
        tell(answer, False)
    if overview.exit_code:
        raise typer.Exit(overview.exit_code)


def explain(
    run: RunFolder,
    case: Annotated[str, typer.Argument(metavar="ID", help="Id of a row, or of a group: its highest row.")],
    model: Annotated[
        Path | None,
        typer.Option(help="With --cohort: the run's model, to explain any row by all its values."),
    ] = None,
    cohort: Annotated[str | None, typer.Option(help="With --model: the table of the run.")] = None,
    table: Table = None,
    query: Query = None,
    out: PageFile = None,
    ledger: LedgerMaybe = None,
    templates: Templates = None,
    as_json: AsJson = False,
) -> None:
    """Say why one case of RUN was flagged."""
    from screening.report.page import render_case
    from screening.scoring import explaining
    from screening.store.loading import load_model
    from screening.store.publishing import write_whole

    loaded = load_model(model) if model else None
    found = explaining.explain(
        run, id_from(os.fsencode(case)), loaded, cohort and source_of(cohort, table, query)
    )
    if out is not None:
        page, one = render_case(found["run"], found["case"], templates).encode(), found["case"]
        whose = one["id"] if one.get("group") is None else one["group"]
        _hand_out(ledger, found["run"], "case", out, content=page, patient=whose)
        write_whole(out, page)
    facts = {"run_id": found["run"]["run_id"], "date": found["run"]["date"]}
    written = {"report": str(out)} if out else {}
    tell((facts | found["case"] if as_json else _lines(found, facts)) | written, as_json)


def _lines(found: dict[str, dict[str, object]], facts: dict[str, object]) -> dict[str, object]:
    from screening.report.page import told
    from screening.schemas.run import ExplainedCase, RunDocument

    case = told(RunDocument.from_dict(found["run"]), ExplainedCase.from_dict(found["case"]))
    why = [
        " ".join(
            filter(
                None, [c.feature, c.value, c.unit, c.outside, f"({c.range_is} {c.range})" if c.range else ""]
            )
        )
        + f": {'raises' if c.raises else 'lowers'} the score, {c.change}"
        for c in case["why"]
    ]
    named = {term.lower(): fact for term, fact in case["facts"]}
    return (
        facts | {"id": case["id"], "flagged": case["said"]} | named | {"why": why, "missing": case["missing"]}
    )


Form = StrEnum("Form", {form: form for form in exports.FORMS})  # type: ignore[misc]


def export(
    run: RunFolder,
    to: Annotated[Form, typer.Option(help="What to write.")],
    out: Annotated[
        Path | None,
        in_output(
            "--out", "-o", metavar="FILE", help="File to write; of omop, nifti and dicom-seg a directory."
        ),
    ] = None,
    url: Annotated[str | None, typer.Option(metavar="URL", help="Of table: the database.")] = None,
    table: Annotated[str | None, typer.Option(metavar="NAME", help="Of table: its name.")] = None,
    id_system: Annotated[
        str | None, typer.Option(metavar="URI", help="Of fhir: the system whose identifiers the ids are.")
    ] = None,
    definition: Annotated[
        int | None,
        typer.Option(metavar="N", help="Of omop: cohort_definition_id of the first class; 1 if absent."),
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Of dicom-seg: DIR/PATIENT has the DICOM series.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there already.")] = False,
    ledger: LedgerMaybe = None,
    as_json: AsJson = False,
) -> None:
    """Write the flagged rows of RUN for another system.

    Of images, flags and scores are written as volumes.
    """
    from screening.io.database import described, read_url
    from screening.scoring.flagged import prepared

    options = {
        "out": out, "url": url, "table": table, "id_system": id_system, "definition": definition,
        "reference": reference,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    flagged, write = prepared(run, to, force, given)
    shown = {"ledger": flagged.run.ledger and flagged.run.ledger.to_dict()}
    if out is not None:
        _hand_out(ledger, shown, "export", out, content=b"")
    elif url is not None:
        _hand_out(
            ledger,
            shown,
            "table",
            Path(f"{described(read_url(url))}/{table}"),
            content=str(flagged.run.sha256).encode(),
        )
    place = write()
    if ledger and out:
        _hand_out(ledger, shown, "export", out)
    told = {
        "run_id": flagged.run.run_id,
        "rows": flagged.rows.num_rows,
        "erased": flagged.run.erased,
        "out": place or str(out),
    }
    tell(told, as_json)


def report(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Model, run, comparison or validation directory.")
    ],
    out: Annotated[
        Path | None,
        in_output("--out", "-o", metavar="FILE", help="Page to write; DIR/report.html if absent."),
    ] = None,
    de_identify: Annotated[
        Path | None,
        typer.Option(
            metavar="KEYFILE",
            help="With --out: a run's page for teaching, in which nobody stands out; names by this secret.",
        ),
    ] = None,
    ledger: LedgerMaybe = None,
    templates: Templates = None,
    as_json: AsJson = False,
) -> None:
    """Draw the report of a model, run or other directory again."""
    from screening.report import render_model, render_run
    from screening.report.comparison import render_comparison
    from screening.report.page import render_validation
    from screening.store.publishing import write_whole
    from screening.store.serialization import read_document

    draws = {
        "run": render_run, "comparison": render_comparison, "validation": render_validation,
        "model": render_model,
    }  # fmt: skip
    kind = next((each for each in draws if (directory / f"{each}.json").exists()), "model")
    target = out or directory / "report.html"
    document = read_document(directory, kind)
    risk: dict[str, object] = {}
    keyed: str | None = None
    known = document.get("ledger")
    if kind == "run" and isinstance(known, dict) and known.get("shadow"):
        raise UsageError(
            f"{directory} was scored in shadow: it has no page; `screen history --beside` compares"
        )
    if de_identify is not None:
        if kind != "run":
            raise UsageError(f"--de-identify is for the page of a run; that of a {kind} names no patient")
        if target.resolve() == (directory / "report.html").resolve():
            raise UsageError("--de-identify makes a copy; give --out, another file than the run's own page")
        document, risk, keyed = _copy(directory, document, de_identify)
    page = draws[kind](document, templates).encode()
    told: dict[str, object] = {"report": str(target)}
    # Of a type that drawing has checked; a comparison has none.
    reasons = cast(list[dict[str, object]], document.get("attention", []))
    if kind != "comparison":
        told["attention"] = reasons if as_json else sentences(reasons)
    if kind == "run" and out is not None:
        what = "page" if keyed is None else "copy"
        _hand_out(ledger, {"ledger": known}, what, target, content=page, keyed=keyed)
    write_whole(target, page)
    tell(told | risk, as_json)


def _copy(
    directory: Path, document: Mapping[str, object], keyfile: Path
) -> tuple[dict[str, object], dict[str, object], str]:
    """The document of a copy, what is told of how well it hides, and the fingerprint of its key."""
    from screening.schemas.run import RunDocument
    from screening.teaching import deidentified, site_key

    key = site_key(keyfile)
    copy = deidentified(RunDocument.from_dict(document), key)
    told = {name: value for name, value in vars(copy).items() if name != "run"}
    return copy.run.to_dict(), told, key.fingerprint
