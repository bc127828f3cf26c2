"""Commands of the ledger: `screen history`, `status`, `review`, `promote`, `ledger`."""

from __future__ import annotations

import datetime
import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from screening.cli import logs
from screening.cli.console import (
    ATTENTION,
    agreement,
    join_reasons,
    print_answer,
    printable,
)
from screening.cli.options import (
    AsJson,
    LedgerHere,
    LedgerMaybe,
    ModelFolder,
    PageFile,
    PromotedSeries,
    SeriesAsked,
    day_from,
    series_keys,
)
from screening.cli.users import act_as_owner, open_as_owner
from screening.errors import ModelError, UsageError
from screening.spelling import (
    DIGITS,
    EACH,
    SERVER_LEDGER,
    command_line,
    names_from,
    shown_series,
)

if TYPE_CHECKING:
    from screening.ledger.database import Ledger
    from screening.ledger.entries import SiteNight
    from screening.ledger.status import Due
    from screening.schemas.history import (
        NightRun,
        NightsBeside,
        SeriesStatus,
        VerdictsRead,
    )
    from screening.site.site import Network
    from screening.store.model import Model


@dataclass(frozen=True)
class VerifyOptions:
    """Options that verify the audit trail."""

    verify: Annotated[
        bool, typer.Option("--verify", help="Verify the audit trail from its start.")
    ] = False
    head: Annotated[
        str | None,
        typer.Option(
            metavar="HEAD",
            help="With --verify: head digest of the trail, from the foot of a report.",
        ),
    ] = None


def history_command(
    ledger: LedgerHere = "screening.db",
    series: SeriesAsked = None,
    *,
    trail: VerifyOptions,
    beside: Annotated[
        str | None,
        typer.Option(
            metavar="Y",
            help="With --series: compare with this model in shadow, or another series.",
        ),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="With --series: table of months with patient_days, outcomes and "
            "interventions.",
        ),
    ] = None,
    out: PageFile = None,
    as_json: AsJson = False,
) -> None:
    """Report workload, PPV, missed cases and drift over the nights.

    With several series, --out FILE is an overview. The folder FILE without its
    extension then has one page per series.
    """
    from screening.ledger.database import open_ledger
    from screening.ledger.history import compare_nights, history

    if series is None:
        _refuse_without_series(beside, rates)
    with open_ledger(ledger, read_only=True) as book:
        document = history(
            book,
            series,
            verify=trail.verify or trail.head is not None,
            printed=trail.head,
        )
        if trail.verify:
            _refuse_altered_runs(book)
        if rates is not None:
            document = _with_rates(document, rates)
        answer = dict(document) if as_json else _lines(document)
        if beside is not None and series is not None:
            compared = compare_nights(book, series, beside)
            answer["beside"] = compared.to_dict() if as_json else agreement(compared)
    if out is not None:
        _write_history(document, out)
    print_answer(answer, as_json)


def _with_rates(document: dict[str, object], rates: str) -> dict[str, object]:
    from screening.ledger.rates import with_rates

    return with_rates(document, rates)


def _refuse_without_series(beside: str | None, rates: str | None) -> None:
    """Raise UsageError for an option of one series."""
    if beside is not None:
        raise UsageError("--beside compares one series; give --series too")
    if rates is not None:
        raise UsageError("--rates belongs to one series; give --series too")


def _write_history(document: dict[str, object], out: Path) -> None:
    """Write the page of the history; of several series an overview, and their pages."""
    from screening.report.history import render_histories, render_history
    from screening.store.publishing import write_whole

    if len(cast(list[object], document["series"])) <= 1:
        write_whole(out, render_history(document).encode())
        return
    overview, pages = render_histories(document, out.stem)
    for name, page in pages.items():
        write_whole(out.with_suffix("") / name, page.encode())
    write_whole(out, overview.encode())


def _lines(document: dict[str, object]) -> dict[str, object]:
    """Return the history for a terminal."""
    from screening.report.history import sentences
    from screening.schemas.history import HistoryDocument

    history = HistoryDocument.from_dict(document)
    summary: list[str] = []
    for series in history.series:
        summary += sentences(series)
    audit = history.audit
    trail = f"{audit.entries} entries, head {audit.head}"
    if audit.verified:
        trail += ", verified"
    runs = list(map(_line_of_run, history.runs))
    return {"runs": runs, "summary": summary, "audit": trail}


def _line_of_run(run: NightRun) -> str:
    """Return one line of a run."""
    line = (
        f"{run.night}  {run.flagged} of {run.scored} flagged: {run.new} new, "
        f"{run.pending} pending, {run.ruled_out} ruled out, {run.known} known; "
        f"{run.no_longer_flagged} no longer flagged"
    )
    if not run.in_force:
        line += " (not in force)"
    return line + join_reasons(run.attention)


UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True)
class EntryOptions:
    """Options that enter a night given up, or a reason acknowledged, in the trail."""

    give_up: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Stop waiting for this night. Needs --series and --reason.",
        ),
    ] = None
    acknowledge: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Silence this reason for attention. Needs --series, --until and "
            "--reason.",
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="With --acknowledge: last night of silence."),
    ] = None
    reason: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Reason, kept in the trail."),
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
        typer.Option(
            "--nagios",
            help=(
                "Print and exit like a Nagios plugin: 0 fine, 1 attention, 2 a night "
                "is missing, 3 unknown."
            ),
        ),
    ] = False
    ping: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="SCREEN_PING",
            help="Fetch this address if no night is missing (dead man's switch).",
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
        typer.Option(
            metavar="DURATION",
            help="Maximum age of the last night, such as 90m, 26h or 2d.",
        ),
    ] = "26h"
    ledger: LedgerMaybe = None
    site: Annotated[
        Path | None,
        typer.Option(
            metavar="NIGHT.toml",
            help="Site file that names the expected series and the ledger.",
        ),
    ] = None
    series: Annotated[
        str,
        typer.Option(
            metavar="NAME|each",
            help="Only these series, separated by commas; `each` for all.",
        ),
    ] = EACH
    night: Annotated[
        str | None,
        typer.Option(
            metavar="DATE|today", help="Require this night, instead of --max-age."
        ),
    ] = None
    grace: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="With --night: time after the night's midnight by which it must "
            "arrive, such as 6h.",
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
        Path | None,
        typer.Option(metavar="FILE", help="Also write metrics for Prometheus."),
    ] = None
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit 5 also if that night's page shows ATTENTION."
        ),
    ] = False
    runs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Exit 4 if run directories in this folder belong to a newer ledger.",
        ),
    ] = None
    artefacts: Annotated[
        bool,
        typer.Option(
            "--artefacts",
            help="Also list every published file and who may read it.",
        ),
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


def _refuse_altered_runs(book: Ledger) -> None:
    """Raise ModelError for a file of a run directory that is not as it was written."""
    from screening.ledger.register import run_artefacts
    from screening.store.outputs import altered_outputs
    from screening.store.serialization import read_run

    for artefact in run_artefacts(book):
        if not (artefact.place / "run.json").is_file():
            continue
        altered = altered_outputs(artefact.place, read_run(artefact.place))
        if altered:
            raise ModelError(
                f"{altered[0]} has been changed since it was written: move it away, "
                "then run the night again to write a new one"
            )


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


def review_command(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help="Run directory whose page was reviewed. With --site: folder of "
            "verdicts.",
        ),
    ] = None,
    verdicts: Annotated[
        Path | None,
        typer.Argument(metavar="VERDICTS", help="JSON file that the page saved."),
    ] = None,
    ledger: LedgerHere = "screening.db",
    site: Annotated[
        Path | None,
        typer.Option(
            metavar="NIGHT.toml",
            help="Read every file in the site's folder of verdicts, or in RUN.",
        ),
    ] = None,
    series: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Refuse a RUN of another series."),
    ] = None,
    token: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Private file with the reviewer's token; its SHA-256 is recorded.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read clinicians' verdicts on RUN into the ledger.

    Reading the same file twice changes nothing. With --site, each file goes to the run
    that it names, and is then moved to done/ or refused/ in the folder.
    """
    from screening.ledger.verdicts import review

    if site is not None:
        _read_folder(site, run, ledger, token, as_json)
        return
    if run is None or verdicts is None:
        raise UsageError("give RUN and VERDICTS, or --site NIGHT.toml")
    with open_as_owner(ledger) as book:
        outcomes = review(run, verdicts, book, series, token)
    print_answer(outcomes, as_json)


def _read_folder(
    site: Path, folder: Path | None, ledger: str, token: Path | None, as_json: bool
) -> None:
    """Read a folder of verdicts; exit 5 if one could not be used."""
    from screening.site.inbox import read_inbox
    from screening.site.site import read_network

    network = read_network(site, ledger)
    folder = folder or network.site.verdicts
    if folder is None:
        raise UsageError(
            f"{site.name} does not name a folder of verdicts; give one, or write "
            'verdicts = "inbox" under [site]'
        )
    with open_as_owner(network.ledger) as book:
        files = read_inbox(network, book, folder, token)
    if as_json:
        print_answer({"files": [file.to_dict() for file in files]}, as_json)
    else:
        print_answer({"read": list(map(_line_of_file, files))}, as_json)
    if any(file.refused for file in files):
        raise typer.Exit(ATTENTION)


def _line_of_file(file: VerdictsRead) -> str:
    """Return the outcome of a file of verdicts, on one line."""
    if file.refused is not None:
        return f"{file.file}: refused: {file.refused}"
    line = f"{file.file}: {file.series} {file.night}: {file.verdicts} verdicts"
    line += f", {file.new} new, {file.changed} changed"
    if file.disputed:
        line += f", {file.disputed} disputed"
    if file.superseded:
        line += f", {file.superseded} for cases no longer in the corrected table"
    return line


def promote_command(
    model: ModelFolder,
    reason: Annotated[
        str, typer.Option(metavar="REASON", help="Reason, kept in the trail.")
    ],
    ledger: LedgerHere = "screening.db",
    series: PromotedSeries = None,
    site: Annotated[
        Path | None,
        typer.Option(
            metavar="NIGHT.toml",
            help="Also name MODEL in this file, and use its ledger.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make MODEL the champion of a series from the next night on.

    The trail records the reason, and a comparison of MODEL's nights in shadow with the
    champion's. If MODEL is the champion with another threshold or approval, as the
    trail or MODEL itself records, it needs no night in shadow.
    """
    from screening.model_selection.approving import refuse_draft
    from screening.scoring.series_history import series_of
    from screening.site.champion import name_champion, refuse_unwritable
    from screening.site.site import read_network
    from screening.store.loading import load_model

    loaded = load_model(model)
    network = None if site is None else read_network(site, ledger)
    if network is not None:
        ledger = network.ledger
    with open_as_owner(ledger) as book:
        keys = series_keys(book, series) or [series_of(loaded)]
        promotions = [_Promotion.of(book, key, loaded) for key in keys]
        if not all(promotion.is_revision for promotion in promotions):
            refuse_draft(loaded.facts, model)
        if network is not None:
            for key in keys:
                refuse_unwritable(network, key, model)
        for promotion in promotions:
            entry = promotion.enter(book, loaded, reason)
    lines = []
    for key in keys:
        if network is None:
            lines.append(_line_to_write(model, shown_series(key)))
        else:
            line = name_champion(network, key, model)
            lines.append(f"{network.file.name} has {line} under [series.{key}]")
    evidence = promotions[0].evidence
    answer = {
        "series": ", ".join(map(shown_series, keys)),
        "champion": loaded.id,
        "entry": entry,
        "next": "; ".join(lines),
    }
    if evidence is not None:
        answer["beside"] = evidence.to_dict() if as_json else agreement(evidence)
    print_answer(answer, as_json)


@dataclass(frozen=True)
class _Promotion:
    """A model that becomes the champion of a series.

    Parameters
    ----------
    series : str
    evidence : NightsBeside or None
        Its nights in shadow beside the champion's; None for a revision without one.
    """

    series: str
    evidence: NightsBeside | None

    @property
    def is_revision(self) -> bool:
        """True if the champion only gets another threshold or approval."""
        return self.evidence is None

    @classmethod
    def of(cls, book: Ledger, series: str, model: Model) -> _Promotion:
        """Compare a model with the champion; UsageError if it cannot be promoted."""
        from screening.ledger.history import compare_nights
        from screening.ledger.model_registry import champions, is_revision
        from screening.schemas.model import drafts_of

        try:
            drafts = drafts_of(model.facts)
            evidence = compare_nights(book, series, model.digest, drafts)
        except UsageError:
            with book.reading() as connection:
                champion = champions(connection).get(series)
                is_revised = is_revision(connection, champion, model.facts)
            if not is_revised and champion != model.digest:
                raise
            return cls(series, None)
        return cls(series, evidence)

    def enter(self, book: Ledger, model: Model, reason: str) -> int:
        """Enter the promotion; return the number of its entry."""
        from screening.ledger.model_registry import follow_revisions, promote
        from screening.schemas.model import drafts_of

        if self.evidence is None:
            return follow_revisions(book, self.series, model.facts, reason).number
        drafts = drafts_of(model.facts)
        return promote(
            book, self.series, model.digest, reason, self.evidence, drafts
        ).number


def _line_to_write(model: Path, series: str) -> str:
    """Return what NIGHT.toml must say of a series before its next night."""
    from screening.site.champion import model_line

    return (
        f"in NIGHT.toml write {model_line(model)} under [series.{json.dumps(series)}], "
        "and take the model out of shadow, or give --site NIGHT.toml; until then the "
        "next night is refused"
    )


def retire_command(
    series: Annotated[
        str,
        typer.Argument(metavar="SERIES", help="Series; `screen status` lists all."),
    ],
    reason: Annotated[
        str, typer.Option(metavar="REASON", help="Reason, kept in the trail.")
    ],
    ledger: LedgerHere = "screening.db",
    as_json: AsJson = False,
) -> None:
    """Close SERIES, so that `screen status` no longer expects it.

    Its nights and history are kept. A later published night reopens it.
    """
    from screening.ledger.model_registry import retire

    with open_as_owner(ledger) as book:
        head = retire(book, series, reason)
    print_answer({"retired": series, "entry": head.number}, as_json)


class Action(StrEnum):
    """Actions of `screen ledger`."""

    rebuild = "rebuild"
    accept = "accept"
    moved = "moved"
    backup = "backup"
    restore = "restore"
    merge = "merge"


@dataclass(frozen=True)
class MoveOptions:
    """Options that say from where, and to where."""

    was: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="For restore: the backup. For moved: old place of published files; "
            "without it, the whole site was moved.",
        ),
    ] = None
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="PLACE",
            help=(
                "For backup: its folder. With moved --from: new place of the files; "
                "without it, they are deleted."
            ),
        ),
    ] = None


def ledger_command(
    action: Annotated[
        Action,
        typer.Argument(
            metavar="ACTION",
            help="What to do: backup, restore, rebuild, accept, moved or merge.",
        ),
    ],
    place: Annotated[
        str,
        typer.Argument(
            metavar="LEDGER",
            help="Ledger: a SQLite file or a database's URL. For merge: the table of "
            "merges.",
        ),
    ],
    runs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="For accept: run directory, or a folder of them."
        ),
    ] = None,
    *,
    move: MoveOptions,
    ledger: Annotated[
        str,
        typer.Option(
            metavar="URL", envvar="SCREEN_LEDGER", help="For merge: the ledger."
        ),
    ] = "screening.db",
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="For backup: keep the newest N, and remove the others.",
        ),
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="For accept and moved: reason, kept in the trail.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Back up, restore or repair LEDGER.

    backup writes a dated, private and verified file, even while a night is scored.
    restore verifies a backup, replaces LEDGER by it, and keeps the old file next to it.
    rebuild derives the tables from the audit trail again. accept continues with an
    older copy of the trail than run directories have seen.

    merge FILE enters patients whose numbers were merged. FILE has the columns old, new
    and since, the day from which both are one patient. The past does not change. A
    blank new number undoes a merge.

    moved --from records the new place of published files, or that they are deleted, so
    that `forget` and `purge` reach them. moved without --from records that the whole
    site was moved. Until then LEDGER counts as a copy, and no night can be entered.
    """
    if action is Action.backup:
        answer = _back_up(place, move.to, keep)
    elif action is Action.restore:
        answer = _restore(place, move.was)
    elif action is Action.rebuild:
        answer = _rebuild(place)
    elif action is Action.merge:
        answer = _merge(place, ledger)
    elif action is Action.accept:
        answer = _accept(place, runs, reason or "")
    else:
        answer = _enter_move(place, move.was, move.to, reason or "")
    print_answer(answer, as_json)


def _rebuild(place: str) -> dict[str, object]:
    """Derive the tables again from the audit trail; return the answer."""
    from screening.ledger.verifying import rebuild

    with open_as_owner(place) as book:
        head = rebuild(book)
    return {"entries": head.number, "head": head.digest}


def _merge(table: str, ledger: str) -> dict[str, object]:
    """Enter merged numbers of patients; return the answer."""
    from screening.ledger.merge_tables import merge_numbers

    with open_as_owner(ledger) as book:
        return {"merges": merge_numbers(book, table)}


def _accept(place: str, runs: Path | None, reason: str) -> dict[str, object]:
    """Accept an older copy of the trail, or a new one; return the answer."""
    from screening.ledger.database import open_ledger
    from screening.ledger.verifying import accept

    if runs is None:
        raise UsageError("accept compares with run directories; give --runs")
    act_as_owner(place)
    # If a ledger was lost without a backup, a new one is begun.
    with open_ledger(place, make=True) as book:
        return {"accepted": accept(book, runs, reason)}


def _back_up(place: str, to: Path | None, keep: int | None) -> dict[str, object]:
    """Write a backup; return the answer."""
    from screening.ledger.backup import back_up

    act_as_owner(place)
    if to is None:
        raise UsageError("backup writes to a folder; give --to DIR")
    path, head = back_up(place, to, keep)
    return {"backup": str(path), "entries": head.number, "head": head.digest}


def _restore(place: str, was: Path | None) -> dict[str, object]:
    """Put a backup back; return the answer."""
    from screening.ledger.backup import n_entries, restore
    from screening.ledger.database import file_of

    act_as_owner(place)
    if was is None:
        raise UsageError("restore needs a backup; give --from BACKUP")
    before = n_entries(place)
    head, kept = restore(was, place)
    if before > head.number:
        n_lost = before - head.number
        entries = "one entry" if n_lost == 1 else f"{n_lost} entries"
        word = SERVER_LEDGER if file_of(place) is None else place
        accept_it = command_line(
            *("ledger", "accept", word, "--runs", "RUNS", "--reason", "WHY")
        )
        logs.note(
            f"the previous ledger had {entries} more. Nights since the backup are "
            "refused (code 4) until you put the newer ledger back, or accept this one: "
            f"{accept_it}"
        )
    answer: dict[str, object] = {"entries": head.number, "head": head.digest}
    if kept is not None:
        answer["kept"] = str(kept)
    return answer


def _enter_move(
    place: str, was: Path | None, to: Path | None, reason: str
) -> dict[str, object]:
    """Enter that files, or the whole site, were moved; return the answer."""
    from screening.ledger import register

    with open_as_owner(place) as book:
        if was is not None:
            number = register.moved(book, was, to and to.resolve(), reason)
            outcome = "moved" if to else "gone"
            return {outcome: number}
        if to is not None:
            raise UsageError(
                "--to is the new place of the files in --from; give --from too"
            )
        return {"site": register.relocate(book, reason)}
