"""Outcomes of patients: `screen outcomes`."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from screening.cli.console import ATTENTION, print_answer
from screening.cli.options import (
    AsJson,
    DatabaseOptions,
    LedgerHere,
    SeriesAsked,
    in_data,
    in_output,
)
from screening.cli.users import open_as_owner
from screening.contract.contract import hours_from
from screening.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from screening.ledger.database import Ledger
    from screening.ledger.outcomes import Entered, GivenOutcome


@dataclass(frozen=True)
class OutcomeOptions:
    """Options that say how a table of events is read, and which events count."""

    id: Annotated[
        str | None, in_data(help="Column of the patient, as the nights name it.")
    ] = None
    time: Annotated[
        str | None, in_data(help="Column of the time of the event; blank for none.")
    ] = None
    event: Annotated[
        str | None, in_data(help="Column that names the event, of several classes.")
    ] = None
    within: Annotated[
        str | None,
        typer.Option(
            metavar="72h",
            help="An event so long after a night makes its row a case.",
        ),
    ] = None
    after: Annotated[
        str | None,
        typer.Option(
            metavar="0h",
            help="Rows of patients whose event came before are not at risk.",
        ),
    ] = None

    @property
    def given(self) -> GivenOutcome:
        """Return them as arguments of `enter_outcomes`."""
        return {
            "id": self.id,
            "time": self.time,
            "event": self.event,
            "within": _hours("--within", self.within),
            "after": _hours("--after", self.after),
        }


@dataclass(frozen=True)
class NightsOptions:
    """Options that say which nights are judged."""

    ledger: LedgerHere = "screening.db"
    series: SeriesAsked = None
    site: Annotated[
        Path | None,
        typer.Option(
            metavar="NIGHT.toml", help="Read the tables that the site's series name."
        ),
    ] = None


def outcomes_command(
    events: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", help="A file or database with a line an event."
        ),
    ] = None,
    *,
    database: DatabaseOptions,
    nights: NightsOptions,
    outcome: OutcomeOptions,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="DATE", help="Outcomes are complete up to here; now by default."
        ),
    ] = None,
    missed: Annotated[
        Path | None,
        in_output(
            metavar="FILE",
            help="Private CSV of those who were not flagged on the night before.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge the nights of SERIES by what became of the patients.

    Every row of the nights in force then has a truth, flagged or not: sensitivity, PPV
    and specificity by outcomes stand in `screen history`, and below the promise in
    `screen status`. Of a patient whom an earlier table named, this one's lines replace
    the earlier ones. With --site the tables that NIGHT.toml names (`outcomes`) are
    read.
    """
    from screening.ledger.outcomes import enter_outcomes

    if nights.site is not None:
        _read_site(nights.site, nights.ledger, as_json)
        return
    series = nights.series
    if events is None or series is None:
        raise UsageError("give TABLE and --series, or --site NIGHT.toml")
    with open_as_owner(nights.ledger) as book:
        entered = enter_outcomes(
            book,
            series,
            database.source(events),
            as_of=_time(as_of),
            **outcome.given,
        )
        if missed is not None:
            _write_missed(book, series, missed, entered.missed)
    if as_json:
        answer = {
            "new": entered.new,
            "corrected": entered.corrected,
            "unknown": entered.unknown,
            "other": entered.other,
            "figures": entered.figures.to_dict(),
        }
    else:
        answer = _in_words(entered)
    print_answer(answer, as_json)


def _read_site(site: Path, ledger: str, as_json: bool) -> None:
    """Read the tables of a site's series; exit 5 if one could not be used."""
    from screening.site.outcomes import outcomes_of_night
    from screening.site.site import read_network

    network = read_network(site, ledger)
    today = datetime.date.today().isoformat()
    with open_as_owner(network.ledger) as book:
        tables = outcomes_of_night(network, book, today, sorted(network.series))
    if as_json:
        print_answer({"tables": [table.to_dict() for table in tables]}, as_json)
    else:
        lines = []
        for table in tables:
            counts = f"{table.new} new, {table.corrected} corrected"
            lines.append(f"{table.series}: {table.refused or counts}")
        print_answer({"read": lines}, as_json)
    if any(table.refused for table in tables):
        raise typer.Exit(ATTENTION)


def _hours(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        hours = hours_from(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from None
    assert isinstance(hours, float), "a text is read"
    return hours


def _time(text: str | None) -> datetime.datetime | None:
    """Return a time by the clock of its zone, as times of events are read."""
    if text is None:
        return None
    try:
        return datetime.datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        raise UsageError(f"--as-of {text}: write YYYY-MM-DD") from None


def _write_missed(
    ledger: Ledger, series: str, path: Path, missed: pd.DataFrame
) -> None:
    """Write whom no flag preceded, for their owner alone; `forget` finds the file."""
    from screening.ledger.entries import Artefact
    from screening.ledger.register import hand_out
    from screening.store.publishing import write_whole

    content = missed.to_csv(index=False, date_format="%Y-%m-%dT%H:%M").encode()
    digest = sha256(content).hexdigest()
    place = path.resolve()
    hand_out(ledger, Artefact(what="export", place=place, sha256=digest, series=series))
    write_whole(place, content, mode=0o600)


def _in_words(entered: Entered) -> dict[str, object]:
    from screening.report import format as fmt
    from screening.report.history import share_words

    figures = entered.figures
    lead = figures.lead
    auroc = fmt.fixed(figures.auroc, 2)
    if fmt.area_ci(figures.auroc):
        auroc += f" ({fmt.area_ci(figures.auroc)})"
    hours = "unknown"
    if lead.median_hours is not None:
        hours = f"{lead.median_hours:.0f} hours in the median"
    in_words: dict[str, object] = {
        "entered": (
            f"{entered.new} new, {entered.corrected} corrected, "
            f"{entered.unknown} of nobody scored, {entered.other} other events"
        ),
        "as of": figures.as_of,
        "rows": (
            f"{figures.rows} known of {figures.nights} nights, {figures.open} open, "
            f"{figures.past} after an event"
        ),
        "cases": f"{figures.cases}, of which {figures.true_positive} flagged",
        "sensitivity": share_words(figures.sensitivity),
        "specificity": share_words(figures.specificity),
        "PPV": share_words(figures.ppv),
        "AUROC": auroc,
        "events": (
            f"{lead.events}, of which {lead.detected} were flagged the night before"
        ),
        "lead time": hours,
    }
    for of_class in figures.by_class:
        in_words[of_class.label] = (
            f"{fmt.plural(of_class.cases, 'case')}, sensitivity "
            f"{share_words(of_class.sensitivity)}, PPV {share_words(of_class.ppv)}"
        )
    return in_words
