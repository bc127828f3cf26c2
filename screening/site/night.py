"""Score a night of a site and write its overview.

Series run side by side in threads; each night and model is a process of its own.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlsplit

from joblib import Parallel, delayed

from screening.cluster import Cluster, open_cluster
from screening.errors import Locked, ModelError, ScreenError, UsageError, of_system
from screening.files import digest_of
from screening.io.opening import digests, exists
from screening.io.queries import Database
from screening.ledger.database import Ledger, open_ledger
from screening.ledger.entries import ALL_SERIES, Artefact, SiteNight
from screening.ledger.location import refuse_copy, refuse_copy_at
from screening.ledger.merge_tables import merge_numbers
from screening.ledger.nights import published
from screening.ledger.register import hand_out
from screening.ledger.review_counts import review_counts
from screening.ledger.site_entries import enter_site_night
from screening.ledger.status import Suppressions, suppressions_of
from screening.ledger.verifying import refuse_new, refuse_older
from screening.option_groups import OptionGroup
from screening.report import format as shown
from screening.report.page import render_overview
from screening.schemas.base import Reason, new_reasons
from screening.schemas.figures import Rule
from screening.schemas.history import (
    OverviewDocument,
    SeriesNight,
    VerdictsRead,
)
from screening.schemas.reasons import (
    ACCEPT_DELIVERY,
    MERGES_REFUSED,
    OVER_MEMORY,
    REASONS,
)
from screening.schemas.run import RunDocument
from screening.scoring.over_nights import show_over_nights
from screening.settings import (
    DatabaseOptions,
    NightOptions,
    PublishOptions,
    Resources,
)
from screening.site.champion import model_command, with_promotions
from screening.site.findings import Findings, find
from screening.site.inbox import inbox_of_night
from screening.site.missing import (
    ATTENTION,
    SLIP,
    lines_of_missing,
    missing_series,
    retire_command,
    slips,
)
from screening.site.outcomes import outcomes_of_night
from screening.site.processes import Budget, Outcome, Processes
from screening.site.site import Network
from screening.spelling import command_line
from screening.store.outputs import LIST, is_list_altered
from screening.store.pages import PageFolder
from screening.store.publishing import hold, sweep
from screening.store.serialization import read_model, read_run
from screening.threads import available_cores

UNUSABLE_TABLE = 3
LOCKED = 75
# Exit codes, the worst first: a bug, a refused model, a refused table, a wrong setting,
# a lock, attention.
WORST_FIRST = (1, 4, 3, 2, LOCKED, ATTENTION, 0)
# A server that takes longer to answer is not asked for other missed nights.
MAX_ANSWER_SECONDS = 10
# Between two attempts while another process is writing.
PAUSE_SECONDS = 2
DAY = datetime.timedelta(days=1)
# For how long the command that is printed acknowledges a reason.
ACKNOWLEDGED_FOR = datetime.timedelta(days=14)
ALTERED = (
    "{path} has been changed since it was written: move it away, then run the night "
    "again, which writes a new one"
)
NOT_ASKED_FOR = "not scored yet: this run was for other series"

Relay = Callable[[Mapping[str, object]], None]
Status = Literal["published", "unchanged", "failed", "left out", "given up"]
Result = TypeVar("Result")


def worst(codes: Iterable[int]) -> int:
    """Return the exit code for several; that of a process ended by a signal is 1."""
    exit_codes = [code if code in WORST_FIRST else 1 for code in codes]
    return min(exit_codes, key=WORST_FIRST.index, default=0)


@dataclass(frozen=True)
class SlipFault:
    """Why a new series is not scored, and the commands that settle it."""

    said: str
    remedies: Sequence[str]


@dataclass(frozen=True, eq=False)
class SeriesTask:
    """One night of one series with one model.

    Parameters
    ----------
    network : Network
    series, night : str
    model : Path
    shadow : bool
    late : bool
        A missed night.
    suppressions : Suppressions
        Nights given up and reasons acknowledged in the series.
    run : RunDocument, optional
        The run of this very table, if it is published already.
    accepted : str, optional
        Why the delivery is accepted unchanged.
    replaced : str, optional
        Why it replaces what was scored of the night.
    has_other_table : bool
        What was scored of the night is of another table.
    fault : str, optional
        Why the night is not scored: what it left cannot be read or restored.
    slip : SlipFault, optional
        Why a new series is not scored: its name may be a misspelling of a missing
        one's.
    is_entered : bool
        The ledger has a published run of the night.
    """

    network: Network
    series: str
    night: str
    model: Path
    shadow: bool
    late: bool
    suppressions: Suppressions
    run: RunDocument | None
    accepted: str | None
    replaced: str | None = None
    has_other_table: bool = False
    fault: str | None = None
    slip: SlipFault | None = None
    is_entered: bool = False

    @property
    def out(self) -> Path:
        """The run directory."""
        model = self.model if self.shadow else None
        return self.network.out(self.series, self.night, model)

    @property
    def table(self) -> str | None:
        """The table of a database that the night is read from."""
        source = self.network.source(self.series, self.night)
        return source.table if isinstance(source, Database) else None

    def command(self) -> list[str]:
        """Return the words of the command that scores the night."""
        plan = self.network.series[self.series]
        site = self.network.site
        refused = pages = None
        if not self.shadow:
            refused = self.network.refused(self.series, self.night)
            pages = self.network.pages_of(self.series)
        night = NightOptions(
            label=plan.label,
            date=self.night,
            hour=plan.hour or site.hour,
            time_zone=site.time_zone,
            series=self.series,
            shadow=self.shadow,
            replace=self.replaced,
            accept_delivery=self.accepted,
            refused=refused,
            templates=plan.templates,
        )
        groups: list[OptionGroup] = [
            night,
            DatabaseOptions(table=self.table, query=plan.query),
            Resources(jobs=plan.jobs),
        ]
        if pages is not None:
            readers = PublishOptions(
                publish=pages.directory, mode=site.mode, group=site.group
            )
            groups.append(readers)
        arguments = ["score", str(self.model), "--out", str(self.out)]
        if plan.require_signature is not None:
            arguments += ["--require-signature", str(plan.require_signature)]
        for group in groups:
            arguments += group.words()
        return arguments

    def failed(self, code: int, said: str | None) -> SeriesNight:
        """Return the line of a night that failed, with the commands that repair it."""
        file = self.network.file
        again = ("run", file, "--date", self.night, "--only", self.series)
        remedies = [command_line(*again)]
        # A table that breaks the contract is never right.
        if code == UNUSABLE_TABLE and "--accept-delivery" in (said or ""):
            remedies.append(command_line(*again, "--accept-delivery", "WHY"))
        if self.has_other_table:
            remedies = [command_line(*again, "--replace", "WHY")]
        give_up = ("--give-up", self.night, "--reason", "WHY")
        # What was published is not given up.
        if not (self.has_other_table or self.shadow or self.is_entered):
            status = ("status", "--site", file, "--series", self.series)
            remedies.append(command_line(*status, *give_up))
        if said is not None:
            # `run` has no option for the place of a run: NIGHT.toml has a key.
            said = said.replace("--out", f"`out` under [series.{self.series}]")
        return self.line("failed", exit_code=code, said=said, remedies=remedies)

    def line(self, status: Status, **facts: Any) -> SeriesNight:
        """Return the night's line of the overview."""
        facts.setdefault("model", self.model.name)
        return SeriesNight(
            status=status,
            series=self.series,
            night=self.night,
            shadow=self.shadow,
            **facts,
        )

    def line_of_run(
        self, run: RunDocument, status: Status, peak_mb: int | None = None
    ) -> SeriesNight:
        """Return the line of the overview of a run that took `peak_mb` MiB."""
        reasons, acknowledged = self.suppressions.split(run.attention, self.night)
        claim = self.network.series[self.series].memory_mb
        if peak_mb is not None and peak_mb > claim:
            over_memory = OVER_MEMORY(
                figure=peak_mb,
                threshold=claim,
                peak=peak_mb,
                claim=claim,
                proposal=peak_mb + peak_mb // 4,
                series=self.series,
            )
            reasons.append(over_memory)
        drift_p = run.drift.p if run.drift else None
        link = None if self.shadow else self._link()
        return self.line(
            status,
            model=run.model.id,
            run_id=run.run_id,
            approval=run.model.approval,
            scored=run.counts.scored,
            refused=run.counts.refused,
            flagged=run.counts.flagged,
            to_review=run.awaited,
            capacity=run.model.stated.capacity,
            drift_p=drift_p,
            attention=reasons,
            acknowledged=[reason for reason, _ in acknowledged],
            page=link,
            peak_mb=peak_mb,
        )

    def _link(self) -> str:
        """Return the link from the overview to the night's page."""
        pages = self.network.pages_of(self.series)
        page = self.out / "report.html" if pages is None else pages.path_of(self.night)
        relative = os.path.relpath(page, self.network.pages.directory)
        return quote(Path(relative).as_posix())

    def settled_line(self) -> SeriesNight | None:
        """Return the line of a night that is published or given up, else None."""
        if self.slip is not None:
            return self.line(
                "failed",
                exit_code=2,
                said=self.slip.said,
                remedies=self.slip.remedies,
            )
        if self.fault is not None:
            return self.failed(2, self.fault)
        if self.run is not None:
            return self.line_of_run(self.run, "unchanged")
        is_asked_for = self.accepted or self.replaced
        given_up = None if is_asked_for else self.suppressions.given_up.get(self.night)
        return None if given_up is None else self.line("given up", said=given_up)


def run_night(
    network: Network,
    night: str,
    *,
    only: Sequence[str] = (),
    accept_delivery: str | None = None,
    replace_reason: str | None = None,
    strict: bool = False,
    relay: Relay = lambda _: None,
    cluster: str | Cluster | None = None,
) -> tuple[OverviewDocument, Path]:
    """Score what is still to be scored of every series, and write the overview.

    Parameters
    ----------
    network : Network
    night : str
        YYYY-MM-DD.
    only : sequence of str
        Series to score; the others stay as they are. By default all.
    accept_delivery : str, optional
        Why tonight's tables of `only` are right although they do not look like it.
    replace_reason : str, optional
        Why what was scored of the night of `only` is replaced, such as by a corrected
        table.
    strict : bool
        Exit code 5 if a complete series needs attention.
    relay : callable
        Called with each line of the log of every child process.
    cluster : str, optional
        Where nights are scored: ``"local:N"``, or the address of a dask scheduler. Its
        workers must have access to the same files and ledger. The site's budget is for
        all of them together.

    Returns
    -------
    document : OverviewDocument
    page : Path
        The overview.

    Raises
    ------
    UsageError
        If the ledger or the folder of pages cannot be used; nothing was begun.
    ModelError
        If the ledger does not fit the run directories, or is a copy; nothing was begun.
    Locked
        If another run scores the same runs, or writes in the ledger for longer than a
        night may take.
    """
    names = set(only or network.series)
    today = str(network.clock.today())
    began = time.monotonic()
    # Before any folder is touched: those of NIGHT.toml may be the original's.
    refuse_copy_at(network.ledger)
    refuse_new(network.ledger, network.site.runs)
    with open_cluster(cluster) as workers, hold(network.site.runs / "night"):
        if workers is not None:
            folders = [network.folder, network.site.runs]
            workers.check(folders, secret=network.has_password())
        network.pages.prepare()
        with open_ledger(network.ledger, make=True) as ledger:
            # Before merges and verdicts are entered in a ledger that is not the site's.
            refuse_older(ledger, network.site.runs)
            refused_merges = _enter_merges(network, ledger)
            verdicts = inbox_of_night(network, ledger)
            missing = missing_series(ledger, network, night)
            faults = _faults_of_slips(ledger, network, night, missing, only)
        wishes = dict.fromkeys(only, _Wish(accept_delivery, replace_reason))
        minutes = max(network.series[name].minutes for name in names)
        tasks = _patiently(
            lambda _: _list_tasks(network, night, wishes, today, faults), minutes
        )
        runner = _Runner(network, night, Processes(network.site.runs, workers), relay)
        asked_for = [of_series for of_series in tasks if of_series[0].series in names]
        scored, verdicts = _score_and_read(runner, asked_for, verdicts, minutes)
        document = _overview(network, night, chain(*tasks), scored, verdicts)
        with open_ledger(network.ledger, make=True) as ledger:
            outcomes = outcomes_of_night(network, ledger, night, sorted(names))
            lost = lines_of_missing(ledger, network, night, missing)
            series = [*document.series, *lost]
            document = document.replace(
                series=with_promotions(ledger, network, series),
                caught_up=with_promotions(ledger, network, document.caught_up),
                outcomes=outcomes,
            )
            findings = find(network, ledger, night)
            findings.of_site.extend(refused_merges)
            document = _with_findings(network, document, findings, ledger)
            exit_code = _exit_code(
                [*scored.values(), *lost], document, findings, strict
            )
            document = document.replace(exit_code=exit_code)
            document = _show_over_nights(network, ledger, document, findings)
            document = _with_review_counts(ledger, document)
            enter_site_night(ledger, _site_night(document, findings, began))
        page = network.pages.show(render_overview(document).encode(), night)
    return document, page


def _score_and_read(
    runner: _Runner,
    tasks: Sequence[Sequence[SeriesTask]],
    verdicts: list[VerdictsRead],
    minutes: float,
) -> tuple[dict[SeriesTask, SeriesNight], list[VerdictsRead]]:
    """Score nights; return their lines, and the results of the files of verdicts.

    Files that wait for a lost run directory are read once it is made again, before the
    night itself where it is of an earlier one.
    """

    def read_waiting() -> list[VerdictsRead]:
        read = [file for file in verdicts if not file.waits]
        with open_ledger(runner.network.ledger, make=True) as ledger:
            return read + inbox_of_night(runner.network, ledger)

    scored: dict[SeriesTask, SeriesNight] = {}
    if any(file.waits for file in verdicts):
        late = [[task for task in of_series if task.late] for of_series in tasks]
        scored = runner.in_parallel(runner.run_each, late)
        verdicts = _patiently(lambda _: read_waiting(), minutes)
        tasks = [[task for task in of_series if not task.late] for of_series in tasks]
    scored |= runner.in_parallel(runner.run_series, tasks)
    if any(file.waits for file in verdicts):
        verdicts = _patiently(lambda _: read_waiting(), minutes)
    return scored, verdicts


def _with_review_counts(ledger: Ledger, document: OverviewDocument) -> OverviewDocument:
    """Return the overview with what reviews of the last month say of each series."""
    counts = review_counts(ledger, document.night)
    lines = [
        line.replace(
            verdicts_late=counts[line.series].late,
            found_recently=counts[line.series].found,
        )
        if line.series in counts
        else line
        for line in document.series
    ]
    return document.replace(series=lines)


def _enter_merges(network: Network, ledger: Ledger) -> list[Reason]:
    """Enter the merged numbers that a site names; return why they were refused.

    A table that cannot be used ends no night.
    """
    if network.site.merged is None:
        return []
    try:
        merge_numbers(ledger, str(network.site.merged))
    except ScreenError as error:
        fault = str(error).replace("\n", "; ")
        return [MERGES_REFUSED(fault=fault)]
    return []


def _overview(
    network: Network,
    night: str,
    tasks: Iterable[SeriesTask],
    scored: Mapping[SeriesTask, SeriesNight],
    verdicts: Sequence[VerdictsRead],
) -> OverviewDocument:
    """Return the overview of a night; `scored`: the lines of what this run scored."""
    series = []
    shadows = []
    caught_up = []
    for task in dict.fromkeys([*tasks, *scored]):
        line = scored.get(task)
        if line is None:
            if task.late:
                continue
            line = task.settled_line() or task.line("left out", said=NOT_ASKED_FOR)
        if task.shadow:
            shadows.append(line)
        elif task.late:
            caught_up.append(line)
        else:
            series.append(line)
    return OverviewDocument(
        title=network.site.title,
        night=night,
        exit_code=0,
        verdicts=verdicts,
        series=series,
        shadows=shadows,
        caught_up=caught_up,
    )


def _faults_of_slips(
    ledger: Ledger,
    network: Network,
    night: str,
    missing: Mapping[str, str],
    only: Collection[str],
) -> dict[str, SlipFault]:
    """Return by new series why it is not scored; one asked for by name is scored."""
    faults = {}
    for name, lost in slips(ledger, network, missing).items():
        if name not in only:
            said = SLIP.format(name=name, missing=lost, file=network.file.name)
            again = ("run", network.file, "--date", night, "--only", name)
            remedies = [retire_command(ledger, lost), command_line(*again)]
            faults[name] = SlipFault(said, remedies)
    return faults


def _remedies(
    network: Network, line: SeriesNight, reasons: Sequence[Reason]
) -> list[str]:
    """Return the commands that settle the new reasons of a published night."""
    codes = dict.fromkeys(reason.code for reason in new_reasons(reasons))
    kinds = [REASONS[code] for code in codes if code in REASONS]
    file = network.file
    run = ("run", file, "--date", line.night, "--only", line.series)
    commands = []
    if any(kind.is_of_table for kind in kinds):
        commands.append(command_line(*run, "--replace", "WHY"))
    if any(ACCEPT_DELIVERY in kind.remedy for kind in kinds):
        commands.append(command_line(*run, "--accept-delivery", "WHY"))
    until = str(datetime.date.fromisoformat(line.night) + ACKNOWLEDGED_FOR)
    for kind in kinds:
        if kind.can_be_acknowledged:
            status = ("status", "--site", file, "--series", line.series)
            acknowledge = ("--acknowledge", kind.code, "--until", until)
            commands.append(command_line(*status, *acknowledge, "--reason", "WHY"))
    for words in dict.fromkeys(kind.model_command for kind in kinds):
        if words:
            commands.append(model_command(network, line.series, words))
    return commands


def _with_findings(
    network: Network,
    document: OverviewDocument,
    findings: Findings,
    ledger: Ledger,
) -> OverviewDocument:
    """Return the overview with what the nights up to this one show together."""
    with ledger.reading() as connection:
        suppressions = suppressions_of(connection)
    of_site, acknowledged = suppressions[ALL_SERIES].split(
        findings.of_site, document.night
    )
    lines = []
    for line in document.series:
        reasons, silenced = suppressions[line.series].split(
            findings.of(line.series), line.night
        )
        attention = [*line.attention, *reasons]
        silenced_reasons = [reason for reason, _ in silenced]
        lines.append(
            line.replace(
                attention=attention,
                acknowledged=[*line.acknowledged, *silenced_reasons],
                remedies=[*line.remedies, *_remedies(network, line, attention)],
            )
        )
    return document.replace(
        series=lines,
        attention=of_site,
        acknowledged=[reason for reason, _ in acknowledged],
    )


def _show_over_nights(
    network: Network, ledger: Ledger, document: OverviewDocument, findings: Findings
) -> OverviewDocument:
    """Show on the page of each series what its nights up to this one show together.

    Return the overview, with the reason for each page that cannot be written.
    """
    lines = []
    for line in document.series:
        reasons = findings.on_page_of(line.series)
        # Of an earlier run of the night other nights may have been known.
        has_earlier = line.status == "unchanged"
        is_scored = has_earlier or line.status == "published"
        if is_scored and (reasons or has_earlier):
            try:
                _show_on_page(network, ledger, line, reasons)
            except (ScreenError, OSError) as error:
                said = f"its page is without the results over all its nights: {error}"
                line = line.replace(said=said)
        lines.append(line)
    return document.replace(series=lines)


def _show_on_page(
    network: Network, ledger: Ledger, line: SeriesNight, reasons: Sequence[Reason]
) -> None:
    """Show reasons on the page of a night and on its copies for readers."""
    out = network.out(line.series, line.night)
    templates = network.series[line.series].templates
    run = show_over_nights(ledger, out, reasons, templates)
    pages = network.pages_of(line.series)
    if pages is not None and run.ledger is not None:
        page = out / "report.html"
        _restore_page(ledger, pages, page, line.night, run.ledger.key)


def _site_night(
    document: OverviewDocument, findings: Findings, began: float
) -> SiteNight:
    """Return what the ledger keeps of a run of the site."""
    failed = {line.series for line in document.nights if line.status == "failed"}
    return SiteNight(
        night=document.night,
        exit_code=document.exit_code,
        seconds=round(time.monotonic() - began, 3),
        failed=sorted(failed),
        attention=findings.of_site,
        by_series=findings.by_series,
    )


def _exit_code(
    lines: Sequence[SeriesNight],
    document: OverviewDocument,
    findings: Findings,
    strict: bool,
) -> int:
    """Return the exit code of a run of a site.

    Parameters
    ----------
    lines : sequence of SeriesNight
        Of what the run scored, and of series that are missing in the file.
    document : OverviewDocument
        With what was read, and what all series show together.
    findings : Findings
    strict : bool
        A file that was refused, or a new reason for attention, counts too.
    """
    codes = [line.exit_code for line in lines]
    refused = [file.refused for file in document.verdicts]
    refused += [table.refused for table in document.outcomes]
    of_runs = [line.attention for line in lines if not line.shadow]
    of_nights = [findings.of(line.series) for line in document.series]
    reasons = chain(document.attention, *of_runs, *of_nights)
    if strict and (any(refused) or new_reasons(reasons)):
        codes.append(ATTENTION)
    return worst(codes)


def _patiently(attempt: Callable[[float], Result], minutes: float) -> Result:
    """Call again after each Locked, for so many minutes in all; then raise Locked.

    `attempt` takes the seconds that remain: waiting and attempts share them.
    """
    end = time.monotonic() + 60 * minutes
    while True:
        try:
            return attempt(end - time.monotonic())
        except Locked:
            if time.monotonic() + PAUSE_SECONDS > end:
                raise
        time.sleep(PAUSE_SECONDS)


@dataclass(frozen=True)
class _Wish:
    """Reasons to score a night that was scored before.

    Parameters
    ----------
    accepted : str, optional
        Why the delivery is right.
    replaced : str, optional
        Why what was scored of it is replaced.
    """

    accepted: str | None = None
    replaced: str | None = None


NO_WISH = _Wish()
# Why a database's rows replace those that were scored of the same night.
OTHER_ROWS = "the rows in the database have changed"
NIGHT_IS_OVER = (
    "the database returns today's rows, but the night of {night} is over; name the "
    "night in `table` by {{date}} or in `query` by :night, or give the night up"
)


def _list_tasks(
    network: Network,
    night: str,
    wishes: Mapping[str, _Wish],
    today: str,
    slip_faults: Mapping[str, SlipFault],
) -> list[list[SeriesTask]]:
    """List the tasks of every series.

    Parameters
    ----------
    network : Network
    night : str
    wishes : mapping of str to _Wish
        By series, of tonight.
    today : str
        The day on which the run began.
    slip_faults : mapping
        Why a new series is not scored, by series.
    """
    with open_ledger(network.ledger, make=True) as ledger:
        refuse_older(ledger, network.site.runs)
        with ledger.reading() as connection:
            refuse_copy(connection)
            suppressions = suppressions_of(connection)
        tasks = []
        silent_servers: set[tuple[str, str]] = set()
        for name in network.series:
            in_force, shadows = published(ledger, name)
            series = _Series(
                network,
                name,
                suppressions[name],
                in_force,
                shadows,
                today,
                silent_servers,
                slip_faults.get(name),
            )
            tasks.append(series.tasks(night, wishes.get(name, NO_WISH)))
    return tasks


@dataclass(frozen=True)
class _Series:
    """A series as the ledger knows it.

    Parameters
    ----------
    network : Network
    name : str
    suppressions : Suppressions
    in_force : mapping
        Key of the run in force, by night.
    shadows : set of str
        Keys of its runs in shadow.
    today : str
        The day on which the run of the site began.
    silent_servers : set of (str, str)
        Scheme and host of those that took too long to answer; it grows.
    slip : SlipFault, optional
        Why it is not scored, if it is new.
    """

    network: Network
    name: str
    suppressions: Suppressions
    in_force: Mapping[str, str]
    shadows: Collection[str]
    today: str
    silent_servers: set[tuple[str, str]]
    slip: SlipFault | None

    def tasks(self, night: str, wish_of_tonight: _Wish) -> list[SeriesTask]:
        """Return tasks, the oldest night first, each champion before its shadows."""
        models = (None, *self.network.series[self.name].shadow)
        missed = [
            self._task(day, shadow, NO_WISH, late=True)
            for day in self._missed(night)
            for shadow in models
        ]
        tonight = [
            self._task(night, shadow, wish_of_tonight, late=False) for shadow in models
        ]
        return missed + tonight

    def _task(
        self, night: str, shadow: Path | None, wish: _Wish, *, late: bool
    ) -> SeriesTask:
        """Return the task of one night and model."""
        run = None
        fault = None
        replaced = wish.replaced
        has_other_table = False
        try:
            if wish == NO_WISH:
                run = self._published_run(night, shadow)
                has_other_table = not self._is_of_table(run, night)
        except UsageError as error:
            fault = _unreadable(error)
        if has_other_table:
            run = None
            if self.network.is_live(self.name):
                # The current content of the database is another delivery.
                replaced = OTHER_ROWS
                has_other_table = False
        if self._is_over(night) and not (run or wish.accepted):
            fault = fault or NIGHT_IS_OVER.format(night=night)
        return SeriesTask(
            self.network,
            self.name,
            night,
            model=shadow or self.network.series[self.name].model,
            shadow=shadow is not None,
            late=late,
            suppressions=self.suppressions,
            run=run,
            accepted=wish.accepted,
            replaced=replaced,
            has_other_table=has_other_table,
            fault=fault,
            slip=self.slip,
            is_entered=night in self.in_force,
        )

    def _missed(self, night: str) -> list[str]:
        """Return the nights to catch up: not given up, and their table exists.

        A night without its run is missed too.
        """
        missed = []
        for day in _catch_up_nights(self.network, self.name, night):
            is_given_up = day not in self.in_force and day in self.suppressions.given_up
            if is_given_up or self._is_published(day):
                continue
            if self._has_table(day):
                missed.append(day)
        return missed

    def _has_table(self, night: str) -> bool:
        """Return True if a night's table exists; a server that is silent has none.

        A table of features can be made of any night.
        """
        if self.network.series[self.name].features is not None:
            return True
        address = urlsplit(self.network.cohort(self.name, night))
        server = (address.scheme, address.netloc)
        if server in self.silent_servers:
            return False
        began = time.monotonic()
        has_table = exists(self.network.source(self.name, night))
        if address.netloc and time.monotonic() - began > MAX_ANSWER_SECONDS:
            self.silent_servers.add(server)
        return has_table

    def _is_published(self, night: str) -> bool:
        """Return True if a night has its run; an unreadable one counts as missed."""
        try:
            return self._published_run(night, None) is not None
        except UsageError:
            return False

    def _published_run(self, night: str, shadow: Path | None) -> RunDocument | None:
        """Return the run of a night in force, or that of a shadow, if it is whole."""
        out = self.network.out(self.name, night, shadow)
        if shadow is not None:
            return _read_run(out, self.shadows)
        run = _read_run(out, {self.in_force.get(night)})
        if run is not None and is_list_altered(out, run):
            raise UsageError(ALTERED.format(path=out / LIST))
        return run

    def _is_over(self, night: str) -> bool:
        """Return True if a database no longer has the rows of a night."""
        return self.network.is_live(self.name) and night < self.today

    def _is_of_table(self, run: RunDocument | None, night: str) -> bool:
        """Return True if a run, if any, is of the current table of its night."""
        if run is None or self._is_over(night):
            return True
        if self.network.series[self.name].features is not None:
            # Nothing known after the hour is in it: it is made once.
            return True
        scored = [file.sha256 for file in run.input.files]
        return scored == digests(self.network.source(self.name, night))


def _catch_up_nights(network: Network, name: str, night: str) -> list[str]:
    """Return the nights before this one that a series catches up if they are missed."""
    plan = network.series[name]
    if not network.has_nights(name):
        return []
    tonight = datetime.date.fromisoformat(night)
    n_nights = network.site.catch_up if plan.catch_up is None else plan.catch_up
    return [str(tonight - DAY * back) for back in range(n_nights, 0, -1)]


def _read_run(out: Path, keys: Collection[str | None]) -> RunDocument | None:
    """Read the run in a directory if it is whole and has one of these keys."""
    try:
        run = read_run(out)
    except ModelError:
        return None
    if run.ledger is None or run.ledger.key not in keys:
        return None
    names = () if run.ledger.shadow else ("report.html", "flagged.csv")
    is_whole = all((out / name).is_file() for name in names)
    return run if is_whole else None


class _Runner:
    """Scores the nights of all series within the site's budget."""

    def __init__(
        self, network: Network, night: str, processes: Processes, relay: Relay
    ):
        self.network = network
        self.night = night
        self.processes = processes
        self.relay = relay
        n_jobs = network.site.jobs
        if n_jobs is None:
            # A series may be set to more threads than this host has cores.
            plans = network.series.values()
            n_jobs = max(available_cores(), *(plan.jobs for plan in plans))
        self.budget = Budget(n_jobs, network.site.memory_mb)

    def in_parallel(
        self,
        run: Callable[[Sequence[SeriesTask]], dict[SeriesTask, SeriesNight]],
        tasks: Sequence[Sequence[SeriesTask]],
    ) -> dict[SeriesTask, SeriesNight]:
        """Call `run` with the tasks of each series in parallel; return all lines."""
        # Each thread with the caller's settings, such as the form of log lines.
        calls = [delayed(copy_context().run)(run, of_series) for of_series in tasks]
        try:
            results = Parallel(n_jobs=max(len(calls), 1), backend="threading")(calls)
        except BaseException:
            self.processes.stop()
            raise
        lines: dict[SeriesTask, SeriesNight] = {}
        for of_series in results:
            lines |= of_series
        return lines

    def run_series(self, tasks: Sequence[SeriesTask]) -> dict[SeriesTask, SeriesNight]:
        """Score the nights of one series; return their lines."""
        tonight = next(task for task in tasks if not task.late)
        try:
            faults = _restore_pages(self.network, tonight.series, self.night)
        except ScreenError as error:
            said = str(error)
            return {task: task.failed(2, said) for task in tasks}
        lines = self.run_each(tasks)
        nights = {task.night for task in tasks}
        for night, fault in faults.items():
            if night not in nights:
                earlier = replace(tonight, night=night, late=True, fault=fault)
                lines[earlier] = earlier.failed(2, fault)
        return lines

    def run_each(self, tasks: Iterable[SeriesTask]) -> dict[SeriesTask, SeriesNight]:
        """Score nights in order; return their lines."""
        return {task: task.settled_line() or self._run(task) for task in tasks}

    def _run(self, task: SeriesTask) -> SeriesNight:
        """Score one night; return its line."""
        plan = self.network.series[task.series]
        try:
            _refuse_other_rule(plan.rule, task.model)
            with self.budget.share(plan.jobs, plan.memory_mb):
                outcome = _patiently(partial(self._attempt, task), plan.minutes)
            for line in outcome.lines:
                self.relay({"series": task.series, "night": task.night} | dict(line))
            if outcome.late:
                late = f"stopped after {plan.minutes:g} minutes (minutes of the series)"
                return task.failed(1, late)
            if outcome.code != 0:
                return task.failed(worst([outcome.code]), outcome.message)
            run = read_run(task.out)
        except ModelError as error:
            return task.failed(4, str(error))
        except Locked as error:
            return task.failed(LOCKED, str(error))
        except ScreenError as error:
            return task.failed(2, str(error))
        return task.line_of_run(run, "published", outcome.peak_mb)

    def _attempt(self, task: SeriesTask, seconds: float) -> Outcome:
        """Run the command of a task; Locked if another process is writing."""
        cohort = self.network.cohort(task.series, task.night)
        secrets = {"SCREEN_LEDGER": self.network.ledger, "SCREEN_COHORT": cohort}
        plan = self.network.series[task.series]
        table = Path(cohort)
        # A shadow scores the table of its champion.
        is_made = task.shadow and table.is_file()
        if plan.features is not None and not is_made:
            make = ["features", str(plan.features), "--night", task.night]
            place = ["--out", cohort, "--jobs", str(plan.jobs)]
            outcome = self.processes.run([*make, *place], {}, plan.jobs, seconds)
            if outcome.code:
                return outcome
        outcome = self.processes.run(task.command(), secrets, plan.jobs, seconds)
        if plan.features is not None and not task.shadow:
            self._keep_table(task, table, outcome.code)
        if outcome.code == LOCKED:
            raise Locked(outcome.message)
        return outcome

    def _keep_table(self, task: SeriesTask, table: Path, code: int) -> None:
        """Enter a night's table of features in the ledger, so that `forget` finds it.

        It is removed if its night was not scored.
        """
        if code:
            table.unlink(missing_ok=True)
            return
        run = read_run(task.out)
        key = None if run.ledger is None else run.ledger.key
        digest = digest_of(table)
        artefact = Artefact(
            what="export", place=table.resolve(), sha256=digest, key=key
        )
        with open_ledger(self.network.ledger) as ledger:
            hand_out(ledger, artefact)


def _restore_pages(network: Network, name: str, night: str) -> dict[str, str]:
    """Draw lost or altered pages for readers again, and remove what killed runs left.

    Of nights before those that are caught up, lost pages are found, altered ones not.

    Returns
    -------
    dict of str to str
        By night why its page cannot be restored.
    """
    faults: dict[str, str] = {}
    since = min([night, *_catch_up_nights(network, name, night)])
    folders = {network.out(name, day).parent for day in (since, night)}
    for folder in folders:
        sweep(folder)
    pages = network.pages_of(name)
    if pages is None:
        return faults
    with open_ledger(network.ledger) as ledger:
        in_force, _ = published(ledger, name)
        if in_force:
            pages.prepare()
            since = min(since, max(in_force))
        for day, key in sorted(in_force.items()):
            out = network.out(name, day)
            is_checked = day >= since or not pages.path_of(day).is_file()
            try:
                if is_checked and _read_run(out, {key}) is not None:
                    _restore_page(ledger, pages, out / "report.html", day, key)
            except UsageError as error:
                faults[day] = _unreadable(error)
    return faults


def _unreadable(error: UsageError) -> str:
    """Return what to do about a run directory that cannot be read."""
    if "has been changed since it was written" in str(error):
        return str(error)
    return (
        f"{error}; make the account of the nightly job the owner of the run directory "
        "(chown -R), then run the night again"
    )


def _restore_page(
    ledger: Ledger, pages: PageFolder, source: Path, night: str, key: str
) -> None:
    """Copy a run's page for its readers where it is missing, and register it."""
    try:
        page = source.read_bytes()
    except OSError as error:
        raise of_system(error, source) from error
    digest = hashlib.sha256(page).hexdigest()
    copies = []
    for path in pages.outdated(page, night):
        copy = Artefact(what="page", place=path.resolve(), sha256=digest, key=key)
        copies.append(copy)
    if copies:
        hand_out(ledger, *copies)
    pages.show(page, night)


def _refuse_other_rule(agreed: Rule | None, model: Path) -> None:
    """Raise ModelError if a model's threshold follows another rule than was agreed."""
    if agreed is None:
        return
    document = read_model(model)
    for point in document.operating_points:
        rule = point.rule
        if rule.name != agreed.name or rule.value != agreed.value:
            raise ModelError(
                f"the model's threshold follows the rule {shown.rule(rule)}, but the "
                f"series states {shown.rule(agreed)}; choose that with "
                "`screen threshold`, or correct `rule`"
            )
