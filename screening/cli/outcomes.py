"""Outcomes of patients: `screen outcomes`."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from screening.cli.console import ATTENTION, print_answer
from screening.cli.options import (
    AsJson,
    LedgerHere,
    SeriesAsked,
    reason_from,
    source_of,
)
from screening.cli.users import open_as_owner
from screening.clock.zone import check_zone, hours_from
from screening.errors import UsageError
from screening.option_groups import Option
from screening.settings import DatabaseOptions, TimeZone

if TYPE_CHECKING:
    import pandas as pd

    from screening.ledger.database import Ledger
    from screening.ledger.outcomes import Entered
    from screening.ledger.scored_nights import GivenOutcome
    from screening.schemas.history import KnownNights


@dataclass(frozen=True)
class OutcomeOptions:
    """Options that say how a table of events is read, and which events count."""

    id: Annotated[
        str | None,
        Option(
            "Column of the patient's id, as written in the nights.",
            metavar="COLUMN",
            panel="Data",
        ),
    ] = None
    time: Annotated[
        str | None,
        Option(
            "Column with the time of the event, blank if there was none.",
            metavar="COLUMN",
            panel="Data",
        ),
    ] = None
    event: Annotated[
        str | None,
        Option(
            "Column of the event's class, if there are several.",
            metavar="COLUMN",
            panel="Data",
        ),
    ] = None
    until: Annotated[
        str | None,
        Option(
            "Column with the end of the stay; windows that end later are censored.",
            metavar="COLUMN",
            panel="Data",
        ),
    ] = None
    within: Annotated[
        str | None,
        Option(
            "A row is a case if an event occurs within this time of the night's "
            "hour, such as 72h.",
            metavar="DURATION",
        ),
    ] = None
    after: Annotated[
        str | None,
        Option(
            "Exclude rows whose event is within this time after the night's hour, "
            "such as 6h.",
            metavar="DURATION",
        ),
    ] = None
    again: Annotated[
        str | None,
        Option(
            "Time after an event until a patient is at risk again, such as 30d; "
            "by default never.",
            metavar="DURATION",
        ),
    ] = None
    by: Annotated[
        Literal["patient", "stay"] | None,
        Option("Whether the table has ids of patients or of stays."),
    ] = None
    events: Annotated[
        Literal["any", "first"] | None,
        Option("Events of a patient or stay that count."),
    ] = None
    known_without_time: Annotated[
        Literal["leave_out", "case"] | None,
        Option(
            'A case known without a time ("yes"): leave its rows out, or count '
            "its last row as a case."
        ),
    ] = None

    @property
    def given(self) -> GivenOutcome:
        """The options as arguments of `enter_outcomes`."""
        return {
            "id": self.id,
            "time": self.time,
            "event": self.event,
            "until": self.until,
            "within": _hours("--within", self.within),
            "after": _hours("--after", self.after),
            "again": _hours("--again", self.again),
            "by": self.by,
            "events": self.events,
            "known_without_time": self.known_without_time,
        }


@dataclass(frozen=True)
class TimeOptions:
    """Options that say how times are read, and up to when outcomes are complete."""

    as_of: Annotated[
        str | None,
        Option(
            "The outcomes are known up to this date, by default now; later "
            "events are refused.",
            metavar="DATE",
        ),
    ] = None
    reach: Annotated[
        str | None,
        Option(
            "The table is complete up to this date, by default estimated from "
            "its last event.",
            metavar="DATE",
        ),
    ] = None
    time_zone: TimeZone = None
    date_order: Annotated[
        Literal["dmy", "mdy"] | None,
        Option("Order of day and month in dates that do not begin with the year."),
    ] = None


@dataclass(frozen=True)
class NightsOptions:
    """Options that say which nights are judged."""

    ledger: LedgerHere = "screening.db"
    series: SeriesAsked = None
    site: Annotated[
        Path | None,
        Option(
            "Read the outcome tables named in this site file.", metavar="NIGHT.toml"
        ),
    ] = None


@dataclass(frozen=True)
class FileOptions:
    """Options of private files of single patients."""

    missed: Annotated[
        Path | None,
        Option(
            "Private CSV of cases not flagged on the night before.",
            metavar="FILE",
            panel="Output",
        ),
    ] = None
    rows: Annotated[
        Path | None,
        Option(
            "Private CSV of every row: true label, event and reason.",
            metavar="FILE",
            panel="Output",
        ),
    ] = None


def outcomes_command(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", help="File or database with one row per event."
        ),
    ] = None,
    *,
    database: DatabaseOptions,
    nights: NightsOptions,
    outcome: OutcomeOptions,
    times: TimeOptions,
    accept_delivery: Annotated[
        str | None,
        Option(
            "Accept a table that removes most cases, or has ids unlike those of "
            "the nights, for this reason.",
            metavar="REASON",
        ),
    ] = None,
    files: FileOptions,
    as_json: AsJson = False,
) -> None:
    """Compare the nights of SERIES with the patients' outcomes.

    Every scored row gets a true label, whether or not it was flagged. `screen history`
    then shows sensitivity, PPV and specificity by outcomes. `screen status` reports if
    they are below the validation estimate. For a patient already recorded, later
    entries replace earlier ones.
    """
    from screening.ledger.outcomes import enter_outcomes

    reason = reason_from("--accept-delivery", accept_delivery)
    series = nights.series
    if nights.site is not None:
        if source is not None:
            raise UsageError("give TABLE or --site, not both")
        _read_site(nights, reason, as_json)
        return
    if source is None or series is None:
        raise UsageError("give TABLE and --series, or --site NIGHT.toml")
    with open_as_owner(nights.ledger) as book:
        entered = enter_outcomes(
            book,
            series,
            source_of(source, database),
            as_of=times.as_of,
            time_zone=_zone(times.time_zone),
            date_order=times.date_order,
            reach=times.reach,
            accept_delivery=reason,
            **outcome.given,
        )
        if files.missed is not None:
            _write_lines(book, series, files.missed, entered.missed)
        if files.rows is not None:
            _write_lines(book, series, files.rows, entered.rows)
    if as_json:
        answer = {
            "new": entered.new,
            "corrected": entered.corrected,
            "withdrawn": entered.withdrawn,
            "unknown": entered.unknown,
            "other": entered.other,
            "figures": entered.figures.to_dict(),
        }
    else:
        answer = _in_words(entered)
    print_answer(answer, as_json)


def _read_site(
    nights: NightsOptions, accept_delivery: str | None, as_json: bool
) -> None:
    """Read the tables of a site's series; exit 5 if one could not be used."""
    from screening.ledger.verifying import refuse_older
    from screening.site.outcomes import outcomes_of_night
    from screening.site.site import read_network

    assert nights.site is not None, "it is given"
    network = read_network(nights.site, nights.ledger)
    today = network.clock.today().isoformat()
    names = sorted(network.series)
    if nights.series is not None:
        if nights.series not in network.series:
            raise UsageError(
                f"{network.file.name} has no series {nights.series}; it has "
                f"{', '.join(names)}"
            )
        names = [nights.series]
    elif accept_delivery is not None:
        raise UsageError(
            "--accept-delivery with --site accepts one table; name its series with "
            "--series"
        )
    with open_as_owner(network.ledger) as book:
        refuse_older(book, network.site.runs)
        tables = outcomes_of_night(network, book, today, names, accept_delivery)
    if as_json:
        print_answer({"tables": [table.to_dict() for table in tables]}, as_json)
    else:
        lines = []
        for table in tables:
            counts = table.refused or f"{table.new} new, {table.corrected} corrected"
            if table.withdrawn:
                counts += f", {table.withdrawn} of them no longer cases"
            if table.remedies:
                counts += f"; then: {' or: '.join(table.remedies)}"
            lines.append(f"{table.series}: {counts}")
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


def _zone(name: str | None) -> str | None:
    """Return a time zone; UsageError for one that is not known."""
    if name is None:
        return None
    try:
        return check_zone(name)
    except ValueError as error:
        raise UsageError(f"--time-zone {name}: {error}") from None


def _write_lines(ledger: Ledger, series: str, path: Path, lines: pd.DataFrame) -> None:
    """Write lines that name patients for their owner alone; `forget` finds the file."""
    from screening.ledger.entries import Artefact
    from screening.ledger.register import hand_out
    from screening.store.publishing import write_whole

    content = lines.to_csv(index=False).encode()
    digest = sha256(content).hexdigest()
    place = path.resolve()
    hand_out(ledger, Artefact(what="export", place=place, sha256=digest, series=series))
    write_whole(place, content, mode=0o600)


def _in_words(entered: Entered) -> dict[str, object]:
    from screening.report import format as fmt
    from screening.report.outcome_words import (
        complete_words,
        hours_words,
        left_out_words,
        zone_words,
    )

    figures = entered.figures
    lead = figures.lead
    withdrawn = ""
    if entered.withdrawn:
        withdrawn = f" ({entered.withdrawn} of them no longer cases)"
    in_words: dict[str, object] = {
        "entered": (
            f"{entered.new} new, {entered.corrected} corrected{withdrawn}, "
            f"{entered.unknown} for patients never scored, "
            f"{entered.other} other events"
        ),
        "patients never scored": fmt.patients_words(figures.table),
        "as of": figures.as_of,
        "complete up to": complete_words(figures),
        "time zone": zone_words(figures),
        "hour of the nights": hours_words(figures),
        "rows": (
            f"{figures.rows} known of {figures.nights} nights; left out: "
            f"{left_out_words(figures)}"
        ),
        "cases": f"{figures.cases}, {figures.true_positive} of them flagged",
        **_figures_in_words(figures),
        "events": (
            f"{lead.events}; {lead.detected} were flagged the night before, "
            f"{lead.flagged_earlier} only on an earlier night of the window"
        ),
        "lead time": (
            f"{_hours_in_words(lead.median_hours)} from the first unbroken flag, "
            f"{_hours_in_words(lead.first_median_hours)} from the first in the window"
        ),
    }
    if figures.at_noon:
        in_words["dates alone"] = f"{figures.at_noon} events, taken at noon"
    if figures.twice:
        in_words["times that exist twice"] = f"{figures.twice}, taken as the first"
    for of_class in figures.by_class:
        in_words[of_class.label] = (
            f"{fmt.plural(of_class.cases, 'case')}, sensitivity "
            f"{fmt.share_words(of_class['sensitivity'])}, PPV "
            f"{fmt.share_words(of_class['ppv'])}"
        )
    return in_words


def _figures_in_words(figures: KnownNights) -> dict[str, str]:
    """Return each figure of outcomes with its interval, by its name."""
    from screening.metrics.figures import FIGURES
    from screening.report.format import in_sentence, with_interval

    in_order = sorted(FIGURES.values(), key=lambda figure: figure.order)
    return {
        in_sentence(figure): with_interval(figures[figure.name], figure)
        for figure in in_order
        if figure.name in figures.figures
    }


def _hours_in_words(hours: float | None) -> str:
    """Return a median of hours."""
    return "unknown" if hours is None else f"median {hours:.0f} hours"
