"""A night of a whole site: what is still to be scored, every series side by side, one overview."""

from __future__ import annotations

import datetime
import glob
import hashlib
import itertools
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from joblib import Parallel, delayed

from screening.cluster import open_cluster
from screening.errors import Locked, ModelError, ScreenError
from screening.io.opening import digests
from screening.ledger.database import Ledger, open_ledger
from screening.ledger.entries import Artefact
from screening.ledger.location import refuse_copy
from screening.ledger.nights import published
from screening.ledger.register import hand_out
from screening.ledger.status import Excuses, excuses_of
from screening.ledger.verifying import refuse_older
from screening.report import format as shown
from screening.report.page import render_overview
from screening.schemas.figures import Rule
from screening.schemas.history import OverviewDocument, SeriesNight
from screening.schemas.model import ModelDocument
from screening.schemas.reasons import OVER_MEMORY
from screening.schemas.run import RunDocument
from screening.site.processes import Budget, Outcome, Processes
from screening.site.site import Network
from screening.store.publishing import hold, sweep
from screening.store.serialization import read_document

ATTENTION, LOCKED = 5, 75
Relay = Callable[[Mapping[str, object]], None]
Status = Literal["published", "unchanged", "failed", "left out", "given up"]
Result = TypeVar("Result")

DAY = datetime.timedelta(days=1)
# Between two attempts at what somebody else is writing.
PAUSE_SECONDS = 2
# The worst of several exit codes, the worst first: a bug, a refused model or table, a wrong setting, a lock.
WORST_FIRST = (1, 4, 3, 2, LOCKED, ATTENTION, 0)


def worst(codes: Iterable[int]) -> int:
    """The one exit code that stands for several; a process that a signal ended counts as a bug."""
    return min(
        (code if code in WORST_FIRST else 1 for code in codes),
        key=WORST_FIRST.index,
        default=0,
    )


@dataclass(frozen=True, eq=False)
class Task:
    """One night of one series with one model."""

    network: Network
    series: str
    night: str
    model: Path
    shadow: bool
    late: bool  # A missed night.
    excuses: Excuses
    run: RunDocument | None  # The run of this very table, where it stands already.
    accepted: str | None  # Why the delivery is taken as it is.

    @property
    def out(self) -> Path:
        return self.network.out(
            self.series, self.night, self.model if self.shadow else None
        )

    def command(self) -> list[str]:
        """The command that scores it."""
        plan, site = self.network.series[self.series], self.network.site
        pages = self.network.pages_of(self.series)
        options: dict[str, object] = {
            "--out": self.out,
            "--date": self.night,
            "--series": self.series,
            "--table": plan.table,
            "--query": plan.query,
            "--label": plan.label,
            "--templates": plan.templates,
            "--require-signature": plan.require_signature,
            "--accept-delivery": self.accepted,
            "--jobs": plan.jobs,
        }
        if pages is not None and not self.shadow:
            options |= {
                "--publish": pages.directory,
                "--mode": site.mode,
                "--group": site.group,
            }
        if not self.shadow:
            options["--refused"] = self.network.refused(self.series, self.night)
        given = [
            word
            for key, value in options.items()
            if value is not None
            for word in (key, str(value))
        ]
        return [
            "score",
            str(self.model),
            *given,
            *(["--shadow"] if self.shadow else []),
        ]

    def line(self, status: Status, **facts: Any) -> SeriesNight:
        """What the overview says of it."""
        own: dict[str, Any] = {
            "series": self.series,
            "night": self.night,
            "shadow": self.shadow,
        }
        return SeriesNight(status=status, **({"model": self.model.name} | own | facts))

    def of_run(
        self, run: RunDocument, status: Status, peak: int | None = None
    ) -> SeriesNight:
        """What the overview says of its run, which took so many MiB."""
        reasons = [
            one
            for one in run.attention
            if self.excuses.acknowledged(one, self.night) is None
        ]
        claim = self.network.series[self.series].memory_mb
        if peak is not None and peak > claim:
            reasons.append(
                OVER_MEMORY(
                    figure=peak,
                    threshold=claim,
                    peak=peak,
                    claim=claim,
                    proposal=peak + peak // 4,
                    series=self.series,
                )
            )
        pages = self.network.pages_of(self.series)
        page = self.out / "report.html" if pages is None else pages.path_of(self.night)
        link = quote(
            Path(os.path.relpath(page, self.network.pages.directory)).as_posix()
        )
        return self.line(
            status,
            model=run.model.id,
            run_id=run.run_id,
            scored=run.counts.scored,
            refused=run.counts.refused,
            flagged=run.counts.flagged,
            to_review=run.awaited,
            capacity=run.model.stated.capacity,
            drift_p=run.drift.p if run.drift else None,
            attention=reasons,
            acknowledged=[reason for reason in run.attention if reason not in reasons],
            page=None if self.shadow else link,
            peak_mb=peak,
        )

    def as_it_stands(self) -> SeriesNight | None:
        """What the overview says of a night that is there or was given up; None where it is to be tried."""
        if self.run is not None:
            return self.of_run(self.run, "unchanged")
        given_up = None if self.accepted else self.excuses.given_up.get(self.night)
        return None if given_up is None else self.line("given up", said=given_up)


def run_night(
    network: Network,
    night: str,
    *,
    only: Sequence[str] = (),
    accept_delivery: str | None = None,
    strict: bool = False,
    relay: Relay = lambda _: None,
    cluster: str | None = None,
) -> tuple[OverviewDocument, Path]:
    """Score what is still to be scored of every series, and write the overview; return it and its page.

    `only`: series to work on; the others stand on the overview as they are. All where there are none.
    `accept_delivery`: why tonight's tables of `only` are right although they do not look like it.
    `strict`: exit code 5 where a series is complete and wants attention.
    `relay`: is given the lines of every child's log.
    `cluster`: where nights are scored: ``"local:N"``, or the address of a dask scheduler, whose workers see
    the same files and reach the same ledger. The site's budget holds for all of them together.
    Raises UsageError: the ledger, or the place of the pages, cannot be used: then nothing was begun.
    Raises Locked: another run is at work on the same runs, or in the ledger for longer than a night may take.
    """
    names = set(only or network.series)
    with open_cluster(cluster) as workers, hold(network.site.runs / "night"):
        if workers is not None:
            workers.check(
                [network.folder, network.site.runs], secret=network.has_password()
            )
        network.pages.prepare()

        def every_task(_: float) -> list[list[Task]]:
            with open_ledger(network.ledger, make=True) as ledger:
                refuse_older(ledger, network.site.runs)
                with ledger.reading() as connection:
                    refuse_copy(connection)
                    excuses = excuses_of(connection)
                accepted = dict.fromkeys(only, accept_delivery)
                return [
                    _tasks(
                        network, ledger, name, night, excuses[name], accepted.get(name)
                    )
                    for name in network.series
                ]

        tasks = _patiently(
            every_task, max(network.series[name].minutes for name in names)
        )
        runner = _Runner(network, night, Processes(network.site.runs, workers), relay)
        scored = runner.run_all([some for some in tasks if some[0].series in names])
        left_out = "not scored yet: this run was for other series"
        lines = [
            (
                task,
                scored.get(task)
                or task.as_it_stands()
                or task.line("left out", said=left_out),
            )
            for task in itertools.chain(*tasks)
            if task in scored or not task.late
        ]
        codes = [line.exit_code for line in scored.values()]
        codes += [
            ATTENTION
            for line in scored.values()
            if strict and line.attention and not line.shadow
        ]
        document = OverviewDocument(
            title=network.site.title,
            night=night,
            exit_code=worst(codes),
            series=[line for task, line in lines if not task.late and not task.shadow],
            shadows=[line for task, line in lines if task.shadow],
            caught_up=[line for task, line in lines if task.late and not task.shadow],
        )
        page = network.pages.show(render_overview(document).encode(), night)
    return document, page


def _patiently(attempt: Callable[[float], Result], minutes: float) -> Result:
    """Try again for as long as somebody else is writing, and so many minutes at most."""
    end = time.monotonic() + 60 * minutes
    while True:
        try:
            return attempt(end - time.monotonic())
        except Locked:
            if time.monotonic() + PAUSE_SECONDS > end:
                raise
        time.sleep(PAUSE_SECONDS)


def _tasks(
    network: Network,
    ledger: Ledger,
    name: str,
    night: str,
    excuses: Excuses,
    accepted: str | None,
) -> list[Task]:
    """What there is to do for a series, the oldest night first, each champion before its shadows.

    A night whose run was lost is missed too.
    `accepted`: why tonight is scored whatever its delivery looks like, even where it was scored.
    """
    plan = network.series[name]
    in_force, shadows = published(ledger, name)
    missed = [
        day
        for day in _caught_up(network, name, night)
        if (day in in_force or day not in excuses.given_up)
        and _run_in_force(network.out(name, day), {in_force.get(day)}) is None
        and _has_come(network.cohort(name, day))
    ]
    tasks = []
    for day in [*missed, night]:
        accept = accepted if day == night else None
        for model in (None, *plan.shadow):
            shadow = model is not None
            run = _run_in_force(
                network.out(name, day, model),
                shadows if shadow else {in_force.get(day)},
            )
            if run is not None:
                same = [file.sha256 for file in run.input.files] == digests(
                    network.cohort(name, day)
                )
                run = run if same and not accept else None
            task = Task(
                network,
                name,
                day,
                model or plan.model,
                shadow,
                day != night,
                excuses,
                run,
                accept,
            )
            tasks.append(task)
    return tasks


def _caught_up(network: Network, name: str, night: str) -> list[str]:
    """The nights before this one that a series catches up where they are missed."""
    plan, tonight = network.series[name], datetime.date.fromisoformat(night)
    back = network.site.catch_up if plan.catch_up is None else plan.catch_up
    return (
        [str(tonight - DAY * n) for n in range(back, 0, -1)]
        if "{date}" in plan.cohort
        else []
    )


def _has_come(cohort: str) -> bool:
    """Whether a night's table is there; of a database nobody knows before asking it."""
    return "://" not in cohort and (
        Path(cohort).exists() or bool(glob.glob(cohort, recursive=True))
    )


def _run_in_force(out: Path, keys: Collection[str | None]) -> RunDocument | None:
    """The run in a directory, if it is whole and one of these of the ledger."""
    try:
        run = RunDocument.from_dict(read_document(out, "run"))
    except ModelError:
        return None
    if run.ledger is None or run.ledger.key not in keys:
        return None
    return run if run.ledger.shadow or (out / "report.html").is_file() else None


class _Runner:
    """Scores the nights of all series within the site's budget."""

    def __init__(
        self, network: Network, night: str, processes: Processes, relay: Relay
    ):
        self.network, self.night, self.processes, self.relay = (
            network,
            night,
            processes,
            relay,
        )
        self.budget = Budget(network.site.jobs, network.site.memory_mb)

    def run_all(self, tasks: Sequence[Sequence[Task]]) -> dict[Task, SeriesNight]:
        """The series side by side, the nights of each in their order."""
        # Each thread with the caller's settings, such as the form of log lines.
        calls = [
            delayed(copy_context().run)(self._run_series, of_series)
            for of_series in tasks
        ]
        try:
            lines = Parallel(n_jobs=max(len(calls), 1), backend="threading")(calls)
        except BaseException:
            self.processes.stop()
            raise
        return {task: line for of_series in lines for task, line in of_series.items()}

    def _run_series(self, tasks: Sequence[Task]) -> dict[Task, SeriesNight]:
        tonight = next(task for task in tasks if not task.late)
        try:
            _restore_pages(self.network, tonight.series, self.night)
        except ScreenError as error:
            return {tonight: tonight.line("failed", exit_code=2, said=str(error))}
        return {task: task.as_it_stands() or self._run(task) for task in tasks}

    def _run(self, task: Task) -> SeriesNight:
        plan, cohort = (
            self.network.series[task.series],
            self.network.cohort(task.series, task.night),
        )
        secrets = {"SCREEN_LEDGER": self.network.ledger, "SCREEN_COHORT": cohort}

        def attempt(seconds: float) -> Outcome:
            outcome = self.processes.run(task.command(), secrets, plan.jobs, seconds)
            if outcome.code == LOCKED:
                raise Locked(outcome.message)
            return outcome

        try:
            _refuse_other_rule(plan.rule, task.model)
            with self.budget.share(plan.jobs, plan.memory_mb):
                outcome = _patiently(attempt, plan.minutes)
            for line in outcome.lines:
                self.relay({"series": task.series, "night": task.night} | dict(line))
            if outcome.late:
                late = f"stopped after {plan.minutes:g} minutes (minutes of the series)"
                return task.line("failed", exit_code=1, said=late)
            if outcome.code != 0:
                return task.line(
                    "failed", exit_code=worst([outcome.code]), said=outcome.message
                )
            run = RunDocument.from_dict(read_document(task.out, "run"))
        except (ModelError, Locked) as error:
            code = LOCKED if isinstance(error, Locked) else 4
            return task.line("failed", exit_code=code, said=str(error))
        return task.of_run(run, "published", outcome.peak_mb)


def _restore_pages(network: Network, name: str, night: str) -> None:
    """Make the readers' pages again that are lost or altered, and sweep up after runs that were killed.

    Of nights before those that would be caught up a lost page is noticed, an altered one is not.
    """
    since = min([night, *_caught_up(network, name, night)])
    for folder in {network.out(name, day).parent for day in (since, night)}:
        sweep(folder)
    pages = network.pages_of(name)
    if pages is None:
        return
    with open_ledger(network.ledger) as ledger:
        in_force, _ = published(ledger, name)
        if in_force:
            pages.prepare()
        for day, key in sorted(in_force.items()):
            out = network.out(name, day)
            looked_at = (
                day >= min(since, max(in_force)) or not pages.path_of(day).is_file()
            )
            if looked_at and _run_in_force(out, {key}) is not None:
                page = (out / "report.html").read_bytes()
                digest = hashlib.sha256(page).hexdigest()
                lost = [
                    Artefact(what="page", place=at.resolve(), sha256=digest, key=key)
                    for at in pages.lacking(page, day)
                ]
                if lost:
                    hand_out(ledger, *lost)
                pages.show(page, day)


def _refuse_other_rule(agreed: Rule | None, model: Path) -> None:
    """ModelError where a model's threshold follows another rule than the agreed one, naming both."""
    if agreed is None:
        return
    for point in ModelDocument.from_dict(
        read_document(model, "model")
    ).operating_points:
        if (point.rule.name, point.rule.value) != (agreed.name, agreed.value):
            raise ModelError(
                f"the model's threshold follows another rule ({shown.rule(point.rule)}) than was agreed for "
                f"the series ({shown.rule(agreed)}); choose it with `screen threshold`, or correct `rule`"
            )
