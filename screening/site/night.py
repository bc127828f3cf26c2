"""A night of a whole site: what is still to be scored, every series side by side, one overview."""

from __future__ import annotations

import datetime
import glob
import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from joblib import Parallel, delayed

from screening.errors import Locked, ModelError, ScreenError
from screening.io.opening import digests
from screening.ledger.database import Ledger, open_ledger
from screening.ledger.nights import published
from screening.ledger.register import Artefact, hand_out
from screening.ledger.status import Excuses, excused
from screening.ledger.verifying import refuse_older
from screening.parallel import opened
from screening.report import format as shown
from screening.report.page import render_overview
from screening.schemas.base import Reason
from screening.schemas.figures import Rule
from screening.schemas.history import OverviewDocument, SeriesNight
from screening.schemas.model import ModelDocument
from screening.schemas.run import RunDocument
from screening.site.processes import Budget, Ended, Processes
from screening.site.site import Network
from screening.store.publishing import hold, sweep
from screening.store.serialization import read_document

ATTENTION, LOCKED = 5, 75
Told = Callable[[Mapping[str, object]], None]
Status = Literal["published", "unchanged", "failed", "left out", "given up"]
Done = TypeVar("Done")

DAY = datetime.timedelta(days=1)
# Between two attempts at what somebody else is writing.
PAUSE_SECONDS = 2
# The worst of several exit codes, the worst first: a bug, a refused model or table, a wrong setting, a lock.
WORST_FIRST = (1, 4, 3, 2, LOCKED, ATTENTION, 0)


def worst(codes: Iterable[int]) -> int:
    """The one exit code that stands for several; a process that a signal ended counts as a bug."""
    return min((code if code in WORST_FIRST else 1 for code in codes), key=WORST_FIRST.index, default=0)


@dataclass(frozen=True, eq=False)
class Task:
    """One night of one series with one model."""

    series: str
    night: str
    model: Path
    cohort: str
    out: Path
    shadow: bool
    late: bool  # A missed night.
    excuses: Excuses
    known: RunDocument | None  # The run of this very table, where it stands already.
    accepted: str | None  # Why the delivery is taken as it is.

    @property
    def given_up(self) -> str | None:
        """Why the night is not tried; None where it is."""
        return None if self.known is not None or self.accepted else self.excuses.given_up.get(self.night)

    def line(self, status: Status, **facts: Any) -> SeriesNight:
        """What the overview says of it."""
        own: dict[str, Any] = {"series": self.series, "night": self.night, "shadow": self.shadow}
        return SeriesNight(status=status, **({"model": self.model.name} | own | facts))


@dataclass(frozen=True)
class Plan:
    """What there is to do for a series."""

    tasks: Sequence[Task]  # The oldest night first, each champion before its shadows.
    in_force: Mapping[str, str]  # By night, the key of the run that is in force.
    since: str  # The first night that would be caught up.


def run_night(
    network: Network,
    night: str,
    *,
    only: Sequence[str] = (),
    accept_delivery: str | None = None,
    strict: bool = False,
    told: Told = lambda _: None,
    cluster: str | None = None,
) -> tuple[OverviewDocument, Path]:
    """Score what is still to be scored of every series, and write the overview; return it and its page.

    `night`: YYYY-MM-DD.
    `only`: series to work on; the others stand on the overview as they are. All where there are none.
    `accept_delivery`: why tonight's tables of `only` are right although they do not look like it.
    `strict`: exit code 5 where a series is complete and wants attention.
    `told`: is given the lines of every child's log.
    `cluster`: where nights are scored: ``"local:N"``, or the address of a dask scheduler, whose workers see
    the same files and reach the same ledger. The site's budget holds for all of them together.
    Raises UsageError: the ledger, or the place of the pages, cannot be used: then nothing was begun.
    Raises Locked: another run is at work on the same runs, or in the ledger for longer than a night may take.
    """
    wanted = set(only or network.series)
    with opened(cluster) as workers, hold(network.site.runs / "night"):
        if workers is not None:
            workers.check([network.folder, network.site.runs], secret=network.has_password())
        network.pages.prepare()
        minutes = max(network.series[name].minutes for name in wanted)
        accepted = dict.fromkeys(only, accept_delivery)
        plans = _patiently(lambda: _plans(network, night, accepted), minutes)
        work = _Work(network, Processes(network.site.runs, workers), told)
        done = work.all([plan for name, plan in plans.items() if name in wanted])
        lines = {
            task: done.get(task) or _as_it_stands(network, task)
            for plan in plans.values()
            for task in plan.tasks
            if task in done or not task.late
        }
        document = _document(network, night, lines, list(done.values()), strict)
        page = network.pages.show(render_overview(document).encode(), night)
    return document, page


def _patiently(attempt: Callable[[], Done], minutes: float) -> Done:
    """Try again for as long as somebody else is writing, and so many minutes at most."""
    end = time.monotonic() + 60 * minutes
    while True:
        try:
            return attempt()
        except Locked:
            if time.monotonic() + PAUSE_SECONDS > end:
                raise
        time.sleep(PAUSE_SECONDS)


class _Work:
    def __init__(self, network: Network, children: Processes, told: Told):
        self.network, self.children, self.told = network, children, told
        self.budget = Budget(network.site.jobs, network.site.memory_mb)

    def all(self, plans: Sequence[Plan]) -> dict[Task, SeriesNight]:
        """The series side by side, the nights of each in their order."""
        # Each thread with the caller's settings, such as the form of log lines.
        series = [delayed(copy_context().run)(self._series, plan) for plan in plans]
        try:
            lines = Parallel(n_jobs=max(len(plans), 1), backend="threading")(series)
        except BaseException:
            self.children.stop()
            raise
        return {task: line for of_series in lines for task, line in of_series.items()}

    def _series(self, plan: Plan) -> dict[Task, SeriesNight]:
        tonight = next(task for task in plan.tasks if not task.late)
        try:
            _restore(self.network, tonight.series, plan)
        except ScreenError as error:
            return {tonight: tonight.line("failed", exit_code=2, said=str(error))}
        return {task: self._night(task) for task in plan.tasks}

    def _night(self, task: Task) -> SeriesNight:
        plan = self.network.series[task.series]
        if task.known is not None or task.given_up is not None:
            return _as_it_stands(self.network, task)
        try:
            check_rule(plan.rule, task.model)
            with self.budget.share(plan.jobs, plan.memory_mb):
                ended = self._scored(task, plan.minutes)
            for line in ended.lines:
                self.told({"series": task.series, "night": task.night} | dict(line))
            if ended.late:
                late = f"stopped after {plan.minutes:g} minutes (minutes of the series)"
                return task.line("failed", exit_code=1, said=late)
            if ended.code != 0:
                return task.line("failed", exit_code=worst([ended.code]), said=ended.said)
            run = RunDocument.from_dict(read_document(task.out, "run"))
        except ModelError as error:
            return task.line("failed", exit_code=4, said=str(error))
        return _line(self.network, task, run, "published", ended.peak_mb)

    def _scored(self, task: Task, minutes: float) -> Ended:
        """Score a night; while somebody else writes in the ledger, or there, it is tried again."""
        end, earlier = time.monotonic() + 60 * minutes, list[Ended]()

        def attempt() -> Ended:
            ended = self.children.run(
                _words(self.network, task),
                {"SCREEN_LEDGER": self.network.ledger, "SCREEN_COHORT": task.cohort},
                self.network.series[task.series].jobs,
                end - time.monotonic(),
            )
            if ended.code == LOCKED:
                earlier.append(ended)
                raise Locked(str(ended.said))
            return earlier[-1] if ended.late and earlier else ended

        try:
            return _patiently(attempt, minutes)
        except Locked:
            return earlier[-1]


def _words(network: Network, task: Task) -> list[str]:
    """The command that scores a night."""
    plan, pages = network.series[task.series], network.pages_of(task.series)
    options: dict[str, object] = {
        "--out": task.out,
        "--date": task.night,
        "--series": task.series,
        "--table": plan.table,
        "--query": plan.query,
        "--label": plan.label,
        "--templates": plan.templates,
        "--require-signature": plan.require_signature,
        "--accept-delivery": task.accepted,
        "--jobs": plan.jobs,
    }
    if pages is not None and not task.shadow:
        options |= {"--publish": pages.directory, "--mode": network.site.mode, "--group": network.site.group}
    given = [word for key, value in options.items() if value is not None for word in (key, str(value))]
    return ["score", str(task.model), *given, *(["--shadow"] if task.shadow else [])]


def _line(
    network: Network, task: Task, run: RunDocument, status: Status, peak: int | None = None
) -> SeriesNight:
    reasons = list(task.excuses.heard(run.attention, task.night))
    claim = network.series[task.series].memory_mb
    if peak is not None and peak > claim:
        words = f"The night took {peak} MiB of memory, more than the {claim} it claims of the site's budget."
        remedy = f"Give memory_mb = {peak + peak // 4} under [series.{task.series}]."
        reasons.append(Reason("over_memory", words, None, peak, claim, remedy))
    return task.line(
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
        page=None if task.shadow else _link(network, task),
        peak_mb=peak,
    )


def _link(network: Network, task: Task) -> str:
    """Where the page lies, as seen from the overview."""
    pages = network.pages_of(task.series)
    page = task.out / "report.html" if pages is None else pages.of(task.night)
    return quote(Path(os.path.relpath(page, network.pages.directory)).as_posix())


def _as_it_stands(network: Network, task: Task) -> SeriesNight:
    """A night that is not tried: it is there, was given up, or nobody asked for its series."""
    if task.known is not None:
        return _line(network, task, task.known, "unchanged")
    if task.given_up is not None:
        return task.line("given up", said=task.given_up)
    return task.line("left out", said="not scored yet: this run was for other series")


def _document(
    network: Network, night: str, lines: Mapping[Task, SeriesNight], done: Sequence[SeriesNight], strict: bool
) -> OverviewDocument:
    wanting = [ATTENTION for line in done if line.attention and not line.shadow and strict]
    return OverviewDocument(
        title=network.site.title,
        night=night,
        exit_code=worst([*(line.exit_code for line in done), *wanting]),
        series=[line for task, line in lines.items() if not task.late and not task.shadow],
        shadows=[line for task, line in lines.items() if task.shadow],
        caught_up=[line for task, line in lines.items() if task.late and not task.shadow],
    )


def _plans(network: Network, night: str, accepted: Mapping[str, str | None]) -> dict[str, Plan]:
    with open_ledger(network.ledger, make=True) as ledger:
        refuse_older(ledger, network.site.runs)
        return {name: _plan(network, ledger, name, night, accepted.get(name)) for name in network.series}


def _plan(network: Network, ledger: Ledger, name: str, night: str, accepted: str | None) -> Plan:
    """What there is to do for a series; a night whose run was lost is missed too.

    `accepted`: why tonight is scored whatever its delivery looks like, even where it was scored.
    """
    plan, excuses = network.series[name], excused(ledger, name)
    in_force, shadows = published(ledger, name)
    back = network.site.catch_up if plan.catch_up is None else plan.catch_up
    tonight = datetime.date.fromisoformat(night)
    days = [str(tonight - DAY * n) for n in range(back, 0, -1)] if "{date}" in plan.cohort else []
    missed = [
        day
        for day in days
        if (day in in_force or day not in excuses.given_up)
        and _run_in_force(network.out(name, day), {in_force.get(day)}) is None
        and _lies_there(network.cohort(name, day))
    ]
    tasks = []
    for day in [*missed, night]:
        cohort, accept = network.cohort(name, day), accepted if day == night else None
        for model in (None, *plan.shadow):
            out = network.out(name, day, model)
            known = _run_in_force(out, {in_force.get(day)} if model is None else shadows)
            if known is not None and (
                accept or [file.sha256 for file in known.input.files] != digests(cohort)
            ):
                known = None
            shadow, late = model is not None, day != night
            own = model or plan.model
            tasks.append(Task(name, day, own, cohort, out, shadow, late, excuses, known, accept))
    return Plan(tasks, in_force, min([night, *days]))


def _run_in_force(out: Path, keys: Collection[str | None]) -> RunDocument | None:
    """The run in a directory, if it is whole and one of these of the ledger."""
    try:
        run = RunDocument.from_dict(read_document(out, "run"))
    except ModelError:
        return None
    if run.ledger is None or run.ledger.key not in keys:
        return None
    return run if run.ledger.shadow or (out / "report.html").is_file() else None


def _restore(network: Network, name: str, plan: Plan) -> None:
    """Make the readers' pages again that are lost or altered, and sweep up after runs that were killed.

    Of nights before those that would be caught up a lost page is noticed, an altered one is not.
    """
    for folder in {network.out(name, night).parent for night in (plan.since, plan.tasks[-1].night)}:
        sweep(folder)
    pages = network.pages_of(name)
    if pages is None or not plan.in_force:
        return
    pages.prepare()
    last = max(plan.in_force)
    for night, key in sorted(plan.in_force.items()):
        out = network.out(name, night)
        looked_at = night >= min(plan.since, last) or not pages.of(night).is_file()
        if looked_at and _run_in_force(out, {key}) is not None:
            page = (out / "report.html").read_bytes()
            digest = hashlib.sha256(page).hexdigest()
            lost = [Artefact("page", at.resolve(), digest, key) for at in pages.lacking(page, night)]
            if lost:
                with open_ledger(network.ledger) as ledger:
                    hand_out(ledger, *lost)
            pages.show(page, night)


def _lies_there(cohort: str) -> bool:
    """Whether a night's table has come; of a database nobody knows before asking it."""
    return "://" not in cohort and (Path(cohort).exists() or bool(glob.glob(cohort, recursive=True)))


def check_rule(agreed: Rule | None, model: Path) -> None:
    """Refuse a model whose threshold follows another rule than the agreed one.

    Raises ModelError: naming both, and what to do.
    """
    if agreed is None:
        return
    for point in ModelDocument.from_dict(read_document(model, "model")).operating_points:
        if (point.rule.name, point.rule.value) != (agreed.name, agreed.value):
            raise ModelError(
                f"the model's threshold follows another rule ({shown.rule(point.rule)}) than was agreed for "
                f"the series ({shown.rule(agreed)}); choose it with `screen threshold`, or correct `rule`"
            )
