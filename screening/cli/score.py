"""Commands of a night: `screen score`, and `run` for all wards of a site.

Errors are raised; `cli.boundary` prints them and has the exit code of each kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from screening.cli import logs, options
from screening.cli.console import ATTENTION, agreement, bar, join_reasons, print_answer
from screening.cli.groups import Without
from screening.cli.processes import prepare_for_scoring
from screening.cli.users import act_as_owner
from screening.errors import UsageError
from screening.settings import (
    AcceptDelivery,
    ClusterAddress,
    Date,
    NightOptions,
    PublicKeyFile,
    PublishOptions,
    Replace,
    Resources,
)
from screening.spelling import did_you_mean

if TYPE_CHECKING:
    from screening.ledger.entries import ArtefactKind
    from screening.schemas.history import HookFacts, OverviewDocument, SeriesNight
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
    publication: PublishOptions,
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
    from screening.ledger.location import refuse_copy_at
    from screening.scoring.score import score
    from screening.store.loading import load_model

    logs.about(series=night.series, night=night.date)
    _refuse_combinations(night, publication, ledger)
    key = options.public_key_from(output.require_signature)
    if ledger:
        # A copied ledger may name the folder in which the original publishes.
        refuse_copy_at(ledger)
    # A folder that cannot be published in is refused before the night is scored.
    pages = _prepared_pages(publication)
    # Loaded before a new ledger is made: a refused model leaves no ledger behind.
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


def _prepared_pages(publication: PublishOptions) -> PageFolder | None:
    """Return the folder to publish in; raise UsageError if it cannot be one."""
    from screening.store.pages import PageFolder, parse_readers

    if publication.publish is None:
        return None
    pages = PageFolder(
        publication.publish, parse_readers(publication.mode, publication.group)
    )
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
        enter_in_register(ledger, entry, "refused", Path(refused))
        places["refused_cells"] = str(refused)
    if pages is not None:
        night = run.document["date"]
        page = (run.directory / "report.html").read_bytes()
        enter_in_register(ledger, entry, "page", *pages.paths(night), content=page)
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
    """Exit 5 if a night needs attention for a new reason; log why."""
    from screening.schemas.base import new_reasons

    reasons = new_reasons(run.attention)
    if reasons:
        sentences = " ".join(reason.words for reason in reasons)
        logs.note(f"the run is complete but needs attention: {sentences}")
        raise typer.Exit(ATTENTION)


def _refuse_combinations(
    night: NightOptions, publication: PublishOptions, ledger: str | None
) -> None:
    """Raise UsageError for options that need a page or a ledger that is missing."""
    if publication.publish is not None and night.shadow:
        raise UsageError("a night in shadow has no page; leave out --publish")
    if ledger:
        return
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


def enter_in_register(
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
        The patient of a page.
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

        A reason is for tables that a person has checked.
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
    from screening.site.processes import run_hooks
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
    hooks = run_hooks(network.site.hooks, content, network.site.hook_seconds, site)
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
    """Log each new reason for attention of the night."""
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
    """Return the outcome of a night of a series, on one line."""
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
