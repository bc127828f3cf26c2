"""`screen status`: whether every series was scored, for people and monitors."""

from __future__ import annotations

import datetime
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from screening.cli.console import ATTENTION, join_reasons, print_answer, printable
from screening.cli.options import AsJson, LedgerMaybe, day_from
from screening.cli.users import open_as_owner
from screening.errors import ModelError, UsageError
from screening.option_groups import Option
from screening.spelling import DIGITS, EACH, names_from, shown_series

if TYPE_CHECKING:
    from screening.ledger.database import Ledger
    from screening.ledger.entries import SiteNight
    from screening.ledger.status import Due
    from screening.schemas.history import SeriesStatus
    from screening.site.site import Network


UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True)
class EntryOptions:
    """Options that enter a night given up, or a reason acknowledged, in the trail."""

    give_up: Annotated[
        str | None,
        Option(
            "Stop waiting for this night. Needs --series and --reason.", metavar="DATE"
        ),
    ] = None
    acknowledge: Annotated[
        str | None,
        Option(
            "Silence this reason for attention. Needs --series, --until and --reason.",
            metavar="CODE",
        ),
    ] = None
    until: Annotated[
        str | None, Option("With --acknowledge: last night of silence.", metavar="DATE")
    ] = None
    reason: Annotated[
        str | None, Option("Reason, kept in the trail.", metavar="REASON")
    ] = None

    def check(self, names: list[str], has_site: bool) -> None:
        """Raise UsageError unless the options belong together and name one series."""
        options = {name for name, value in vars(self).items() if value is not None}
        complete: tuple[set[str], ...] = (
            set(),
            {"give_up", "reason"},
            {"acknowledge", "until", "reason"},
        )
        if options not in complete:
            raise UsageError(
                "--give-up needs --reason; --acknowledge needs --until and --reason"
            )
        is_of_site = self.acknowledge is not None and not names and has_site
        if options and len(names) != 1 and not is_of_site:
            raise UsageError(
                "--give-up and --acknowledge apply to one series; give --series "
                "NAME. Without it, --site NIGHT.toml --acknowledge applies to all "
                "series together"
            )

    def write(self, place: str, names: list[str], of_site: list[str]) -> None:
        """Write the entry, if there is one, into the ledger."""
        from screening.ledger import status as states
        from screening.ledger.entries import ALL_SERIES

        if self.give_up is None and self.acknowledge is None:
            return
        with open_as_owner(place) as book:
            if self.give_up is not None:
                day = str(day_from("--give-up", self.give_up))
                states.give_up(book, names[0], day, str(self.reason), of_site)
            else:
                last = day_from("--until", self.until) or datetime.date.today()
                code = str(self.acknowledge)
                name = names[0] if names else ALL_SERIES
                states.acknowledge(book, name, code, last, str(self.reason))


@dataclass(frozen=True)
class MonitorOptions:
    """Options of programs that watch the nights."""

    nagios: Annotated[
        bool,
        Option(
            "Print and exit like a Nagios plugin: 0 fine, 1 attention, 2 a night "
            "is missing, 3 unknown."
        ),
    ] = False
    ping: Annotated[
        str | None,
        Option(
            "Fetch this address if no night is missing (dead man's switch).",
            metavar="URL",
            envvar="SCREEN_PING",
        ),
    ] = None

    def answer(self, statuses: list[SeriesStatus]) -> None:
        """Fetch the address if every night came; as a Nagios plugin, print and exit."""
        from screening.cli.monitors import fetch, nagios_answer

        if self.ping is not None and all(status.fine for status in statuses):
            fetch(self.ping)
        if self.nagios:
            text, code = nagios_answer(statuses)
            typer.echo(printable(text, lines=True))
            raise typer.Exit(code)


@dataclass(frozen=True)
class DueOptions:
    """Options that say which series had to have which night."""

    max_age: Annotated[
        str,
        Option(
            "Maximum age of the last night, such as 90m, 26h or 2d.", metavar="DURATION"
        ),
    ] = "26h"
    ledger: LedgerMaybe = None
    site: Annotated[
        Path | None,
        Option(
            "Site file that names the expected series and the ledger.",
            metavar="NIGHT.toml",
        ),
    ] = None
    series: Annotated[
        str,
        Option(
            "Only these series, separated by commas; `each` for all.",
            metavar="NAME|each",
        ),
    ] = EACH
    night: Annotated[
        str | None,
        Option("Require this night, instead of --max-age.", metavar="DATE|today"),
    ] = None
    grace: Annotated[
        str,
        Option(
            "With --night: time after the night's midnight by which it must "
            "arrive, such as 6h.",
            metavar="DURATION",
        ),
    ] = "0m"

    @property
    def names(self) -> list[str]:
        """Series that --series names; empty for all."""
        return [] if self.series == EACH else names_from(self.series)

    def due(self, network: Network | None) -> Due:
        """Return the night that is due now, by the clock of a given site."""
        from screening.ledger.status import Due

        now = datetime.datetime.now().astimezone()
        if network is not None:
            now = network.clock.now()
        return Due(
            now,
            _span("--max-age", self.max_age),
            _night(self.night, now),
            _span("--grace", self.grace),
        )

    def network(self) -> Network | None:
        """Return the site that --site names, if it is given."""
        from screening.site.site import read_network

        return None if self.site is None else read_network(self.site, self.ledger)


@dataclass(frozen=True)
class CheckOptions:
    """Options that say what is checked and reported besides the nights."""

    metrics: Annotated[
        Path | None, Option("Also write metrics for Prometheus.", metavar="FILE")
    ] = None
    strict: Annotated[
        bool, Option("Exit 5 also if that night's page shows ATTENTION.")
    ] = False
    runs: Annotated[
        Path | None,
        Option(
            "Exit 4 if run directories in this folder belong to a newer ledger.",
            metavar="DIR",
        ),
    ] = None
    artefacts: Annotated[
        bool, Option("Also list every published file and who may read it.")
    ] = False


def status_command(
    *,
    when: DueOptions,
    also: CheckOptions,
    entry: EntryOptions,
    monitor: MonitorOptions,
    as_json: AsJson = False,
) -> None:
    """Report whether every series was scored; exit with 5 if not.

    Each series has one line, with the reasons if the night needs attention. --give-up
    and --acknowledge take effect at once.
    """
    from screening.ledger import status as states
    from screening.store.publishing import write_whole

    names = when.names
    entry.check(names, when.site is not None)
    network = when.network()
    due = when.due(network)
    place = str(when.ledger or "screening.db")
    runs = also.runs
    of_site: list[str] = []
    if network is not None:
        place = network.ledger
        of_site = list(network.series)
        runs = runs or network.site.runs
    entry.write(place, names, of_site)
    statuses, published, last = _read_statuses(
        place, due, names or of_site, runs, also.artefacts
    )
    if network is not None and not names:
        statuses += _lost_series(network, due)
    if also.metrics is not None:
        content = states.exposition(statuses, last).encode()
        write_whole(also.metrics, content, mode=0o644)
    monitor.answer(statuses)
    if as_json:
        _print_as_json(statuses, published, also.artefacts)
    else:
        _print_lines(statuses, published)
    _exit_unless_fine(statuses, also.strict)


def _lost_series(network: Network, due: Due) -> list[SeriesStatus]:
    """Return a status for each series that the site's file lost."""
    from screening.ledger.database import open_ledger
    from screening.site.missing import statuses_of_missing

    night = str(due.night or due.now.date())
    # A ledger that cannot be read has a status already.
    with suppress(UsageError), open_ledger(network.ledger, read_only=True) as book:
        return statuses_of_missing(book, network, night)
    return []


def _exit_unless_fine(statuses: list[SeriesStatus], strict: bool) -> None:
    """Exit 5 if a night is missing; with `strict` also if one needs attention.

    Standing reasons were reported on earlier nights.
    """
    from screening.schemas.base import new_reasons

    is_fine = all(status.fine for status in statuses)
    needs_attention = any(new_reasons(status.attention) for status in statuses)
    if not is_fine or (strict and needs_attention):
        raise typer.Exit(ATTENTION)


def _read_statuses(
    place: str,
    due: Due,
    names: list[str],
    runs: Path | None,
    artefacts: bool,
) -> tuple[list[SeriesStatus], list[dict[str, object]], SiteNight | None]:
    """Read the status of each series, the published files, and the site's last run.

    A ledger that cannot be read is a status.
    """
    from screening.ledger import register
    from screening.ledger import status as states
    from screening.ledger.database import open_ledger
    from screening.ledger.site_entries import last_site_night
    from screening.ledger.verifying import refuse_older
    from screening.schemas.history import SeriesStatus

    try:
        with open_ledger(place, read_only=True) as book:
            if runs is not None:
                refuse_older(book, runs)
            statuses = states.series_statuses(book, due, names)
            statuses = _with_altered_lists(book, statuses)
            published = register.shown_to_readers(book) if artefacts else []
            with book.reading() as connection:
                last = last_site_night(connection)
    except UsageError as error:
        return [SeriesStatus(False, str(error))], [], None
    return statuses, published, last


def _with_altered_lists(
    book: Ledger, statuses: list[SeriesStatus]
) -> list[SeriesStatus]:
    """Return the statuses; one whose list of flagged cases was altered is not fine."""
    from screening.ledger.register import run_artefacts
    from screening.store.outputs import LIST, is_list_altered
    from screening.store.serialization import read_run

    place_of = {
        (shown_series(run.series), run.night): run.place
        for run in run_artefacts(book)
        if run.series is not None
    }
    checked = []
    for status in statuses:
        place = place_of.get((status.series or "", status.night))
        with suppress(ModelError, UsageError, OSError):
            if place is not None and is_list_altered(place, read_run(place)):
                said = f"{status.said}; {place / LIST} has been changed"
                status = replace(status, fine=False, said=said)
        checked.append(status)
    return checked


def _print_as_json(
    statuses: list[SeriesStatus], published: list[dict[str, object]], artefacts: bool
) -> None:
    """Print the statuses, and with `artefacts` the published files, as JSON."""
    answer: dict[str, object] = {
        "fine": all(status.fine for status in statuses),
        "series": list(map(asdict, statuses)),
    }
    if artefacts:
        answer["artefacts"] = published
    print_answer(answer, True)


def _print_lines(
    statuses: list[SeriesStatus], published: list[dict[str, object]]
) -> None:
    """Print one line a series, then one a published file."""
    from screening.schemas.base import new_reasons

    for status in statuses:
        words = status.said + join_reasons(status.attention)
        is_quiet = status.fine and not new_reasons(status.attention)
        heading = "ok" if is_quiet else "ATTENTION"
        name = "" if status.series is None else f"{status.series}  "
        if DIGITS.fullmatch(status.series or ""):
            # Else they would be taken for the id of a run.
            name = f"series {status.series} (without a name)  "
        print_answer({heading: f"{name}{' '.join(words.split())}"}, False)
    for artefact in published:
        line = "  ".join(str(artefact[key]) for key in ("mode", "state", "place"))
        print_answer({str(artefact["what"]): line}, False)


def _span(option: str, text: str) -> datetime.timedelta:
    """Return the time that an option gives, such as 90m, 26h or 2d."""
    match = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if match is None:
        raise UsageError(f"{option} {text}: write it as 90m, 26h or 2d")
    return datetime.timedelta(**{UNITS[match[2]]: int(match[1])})


def _night(text: str | None, now: datetime.datetime) -> datetime.date | None:
    """Return the night that --night gives, if any."""
    if text is None:
        return None
    if text == "today":
        return now.date()
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--night {text}: write the night as YYYY-MM-DD, or today"
        ) from None
