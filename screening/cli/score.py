"""`screen score`: one table at a model's operating point."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from screening.cli import logs, options
from screening.cli.console import ATTENTION, agreement, bar, print_answer
from screening.cli.groups import Without
from screening.cli.processes import prepare_for_scoring
from screening.cli.register import enter_in_register
from screening.cli.users import act_as_owner
from screening.errors import UsageError
from screening.option_groups import Option
from screening.settings import (
    NightOptions,
    PublicKeyFile,
    PublishOptions,
    Resources,
    out_option,
)

if TYPE_CHECKING:
    from screening.scoring.score import Run
    from screening.store.pages import PageFolder


@dataclass(frozen=True, kw_only=True)
class RunOutput:
    """The run directory to write, and when its command fails."""

    out: Annotated[
        Path,
        out_option(
            "Run directory to write.",
            metavar="DIR",
        ),
    ]
    require_signature: PublicKeyFile = None
    strict: Annotated[bool, Option("Exit 5 if the page shows ATTENTION.")] = False
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
    if night.may_replace:
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
