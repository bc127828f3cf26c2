"""A night of a whole site: what is still to be scored, every series side by side, one overview."""

from __future__ import annotations

import datetime
import glob
import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from joblib import Parallel, delayed

from screening.documents.overview import OverviewDocument, SeriesNight, worst
from screening.documents.reason import Reason
from screening.documents.run import RunDocument
from screening.documents.stored import model_in, run_in
from screening.errors import ModelError, ScreenError
from screening.ledger import Ledger, Published, heads, open_ledger, published
from screening.network.processes import Budget, Ended, Order, Processes, Workers
from screening.network.site import Network
from screening.page.page import render_overview
from screening.parallel import opened
from screening.sources.opening import digests
from screening.storage.publishing import hold
from screening.storage.serialization import read_document

ATTENTION = 5
Told = Callable[[Mapping[str, object]], None]


DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Task:
    """One night of one series with one model."""

    series: str
    night: str
    model: Path
    cohort: str
    out: Path
    shadow: bool = False
    late: bool = False  # A missed night.
    # The run of this very table, where it stands already.
    known: RunDocument | None = field(default=None, compare=False)


@dataclass(frozen=True)
class NightOfSite:
    """What it came to, and where its page lies."""

    document: OverviewDocument
    page: Path


def run_night(
    network: Network,
    night: str,
    *,
    only: Sequence[str] = (),
    strict: bool = False,
    told: Told = lambda _: None,
    cluster: str | None = None,
) -> NightOfSite:
    """Score what is still to be scored of every series, and write the overview.

    `night`: YYYY-MM-DD.
    `only`: series to work on; the others stand on the overview as they are. All where there are none.
    `strict`: exit code 5 where a series is complete and wants attention.
    `told`: is given the lines of every child's log.
    `cluster`: where nights are scored: ``"local:N"``, or the address of a dask scheduler, whose workers see
    the same files and reach the same ledger. The site's budget holds for all of them together.
    Raises UsageError: the ledger, or the place of the pages, cannot be used: then nothing was begun.
    Raises Locked: another run is at work on the same runs.
    """
    with opened(cluster) as workers, hold(network.runs / "night"):
        if workers is not None:
            workers.check([network.folder, network.runs])
        network.pages.prepare()
        with open_ledger(network.ledger, make=True) as ledger:
            heads.refuse_older(ledger, network.runs)
            plans = {name: tasks_of(network, ledger, name, night) for name in network.series}
        wanted = set(only or network.series)
        children = Processes(network.runs) if workers is None else Workers(workers)
        work = _Work(network, children, Budget(network.site.jobs, network.site.memory_mb), told)
        done = work.all({name: tasks for name, tasks in plans.items() if name in wanted})
        lines = {
            task: done.get(task) or _left_out(network, task)
            for tasks in plans.values()
            for task in tasks
            if task in done or not task.late
        }
        document = _document(network, night, lines, [done[task] for task in done], strict)
        page = network.pages.show(render_overview(document).encode(), night)
    return NightOfSite(document, page)


class _Work:
    def __init__(self, network: Network, children: Processes | Workers, budget: Budget, told: Told):
        self.network, self.children, self.budget, self.told = network, children, budget, told

    def all(self, plans: Mapping[str, Sequence[Task]]) -> dict[Task, SeriesNight]:
        """The series side by side, the nights of each in their order."""
        # Each thread with the caller's settings, such as the form of log lines.
        series = [delayed(copy_context().run)(self._series, tasks) for tasks in plans.values()]
        try:
            found = Parallel(n_jobs=max(len(plans), 1), backend="threading")(series)
        except BaseException:
            self.children.stop()
            raise
        return {task: line for lines in found for task, line in lines.items()}

    def _series(self, tasks: Sequence[Task]) -> dict[Task, SeriesNight]:
        return {task: self._night(task) for task in tasks}

    def _night(self, task: Task) -> SeriesNight:
        plan = self.network.series[task.series]
        if task.known is not None:
            return _line(self.network, task, task.known, "unchanged")
        try:
            check_rule(plan.rule, task.model)
        except ScreenError as error:
            return _failure(task, 4, str(error))
        with self.budget.share(plan.jobs, plan.memory_mb):
            words = _words(self.network, task)
            ended = self.children.run(Order(words, self.network.ledger, plan.jobs, plan.minutes * 60))
        for line in ended.lines:
            self.told({"series": task.series, "night": task.night} | dict(line))
        if ended.late:
            return _failure(task, 1, f"stopped after {plan.minutes:g} minutes (minutes of the series)")
        if ended.code != 0:
            return _failure(task, worst([ended.code]), ended.said)
        return self._finished(task, ended)

    def _finished(self, task: Task, ended: Ended) -> SeriesNight:
        try:
            run = run_in(read_document(task.out, "run"))
        except ModelError as error:
            return _failure(task, 4, str(error))
        return _line(self.network, task, run, "published", ended.peak_mb)


def _words(network: Network, task: Task) -> list[str]:
    """The command that scores a night."""
    plan, pages = network.series[task.series], network.pages_of(task.series)
    options: dict[str, object] = {
        "--out": task.out,
        "--date": task.night,
        "--series": task.series,
        "--table": plan.table,
        "--query": plan.query and network.place(plan.query),
        "--label": plan.label,
        "--templates": plan.templates and network.place(plan.templates),
        "--require-signature": plan.require_signature and network.place(plan.require_signature),
        "--jobs": plan.jobs,
    }
    if pages is not None and not task.shadow:
        options |= {"--publish": pages.directory, "--mode": network.site.mode, "--group": network.site.group}
    given = [word for key, value in options.items() if value is not None for word in (key, str(value))]
    return ["score", str(task.model), task.cohort, *given, *(["--shadow"] if task.shadow else [])]


def _line(
    network: Network,
    task: Task,
    run: RunDocument,
    status: Literal["published", "unchanged"],
    peak: int | None = None,
) -> SeriesNight:
    reasons, claim = list(run.attention), network.series[task.series].memory_mb
    if peak is not None and peak > claim:
        words = f"The night took {peak} MiB of memory, more than the {claim} it claims of the site's budget."
        remedy = f"Give memory_mb = {peak + peak // 4} under [series.{task.series}]."
        reasons.append(Reason("over_memory", words, None, peak, claim, remedy))
    return SeriesNight(
        series=task.series,
        night=task.night,
        status=status,
        shadow=task.shadow,
        exit_code=0,
        said=None,
        model=run.model.id,
        run_id=run.run_id,
        scored=run.counts.scored,
        refused=run.counts.refused,
        flagged=run.counts.flagged,
        to_review=run.awaited,
        capacity=run.model.stated.capacity,
        drift_p=run.drift.p if run.drift else None,
        attention=reasons,
        page=None if task.shadow else _link(network, task),
        peak_mb=peak,
    )


def _link(network: Network, task: Task) -> str:
    """Where the page lies, as seen from the overview."""
    pages = network.pages_of(task.series)
    page = task.out / "report.html" if pages is None else pages.of(task.night)
    return quote(Path(os.path.relpath(page, network.pages.directory)).as_posix())


def _failure(task: Task, code: int, said: str | None) -> SeriesNight:
    return _without_run(task, "failed", code, said)


def _left_out(network: Network, task: Task) -> SeriesNight:
    """A series that nobody asked for: as it stands."""
    if task.known is not None:
        return _line(network, task, task.known, "unchanged")
    return _without_run(task, "left out", 0, "not scored yet: this run was for other series")


def _without_run(
    task: Task, status: Literal["failed", "left out"], code: int, said: str | None
) -> SeriesNight:
    return SeriesNight(
        series=task.series,
        night=task.night,
        status=status,
        shadow=task.shadow,
        exit_code=code,
        said=said,
        model=task.model.name,
        run_id=None,
        scored=None,
        refused=None,
        flagged=None,
        to_review=None,
        capacity=None,
        drift_p=None,
        attention=[],
        page=None,
        peak_mb=None,
    )


def _document(
    network: Network,
    night: str,
    lines: Mapping[Task, SeriesNight],
    done: Sequence[SeriesNight],
    strict: bool,
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


def tasks_of(network: Network, ledger: Ledger, name: str, night: str) -> list[Task]:
    """Return the nights of a series, the oldest first, each champion before its shadows."""
    plan = network.series[name]
    back = network.site.catch_up if plan.catch_up is None else plan.catch_up
    tonight = datetime.date.fromisoformat(night)
    days = [str(tonight - DAY * n) for n in range(back, 0, -1)] if "{date}" in plan.cohort else []
    there = published(ledger, name, min([night, *days]))
    missed = [day for day in days if day not in there.in_force and _lies_there(network.cohort(name, day))]
    return [task for day in [*missed, night] for task in _of_night(network, name, day, day != night, there)]


def _of_night(network: Network, name: str, night: str, late: bool, there: Published) -> list[Task]:
    plan, cohort = network.series[name], network.cohort(name, night)
    found = []
    for model in (None, *plan.shadow):
        out = network.out(name, night, model)
        known = _standing(out, cohort, {there.in_force.get(night)} if model is None else there.shadow)
        if known is not None and model is None and not _shown(network, name, night, out):
            known = None
        place = network.place(plan.model if model is None else model)
        found.append(Task(name, night, place, cohort, out, model is not None, late, known))
    return found


def _standing(out: Path, cohort: str, keys: set[str | None] | frozenset[str]) -> RunDocument | None:
    """The run in a directory, if the ledger has it and the table has not changed since."""
    try:
        run = run_in(read_document(out, "run"))
    except ModelError:
        return None
    same = [file.sha256 for file in run.input.files] == digests(cohort)
    return run if same and run.ledger is not None and run.ledger.key in keys else None


def _shown(network: Network, name: str, night: str, out: Path) -> bool:
    """Whether the page for the readers is there, and is the run's."""
    pages = network.pages_of(name)
    if pages is None:
        return True
    try:
        return pages.of(night).read_bytes() == (out / "report.html").read_bytes()
    except OSError:
        return False


def _lies_there(cohort: str) -> bool:
    """Whether a night's table has come; of a database nobody knows before asking it."""
    return "://" not in cohort and (Path(cohort).exists() or bool(glob.glob(cohort, recursive=True)))


def check_rule(agreed: Mapping[str, float] | None, model: Path) -> None:
    """Refuse a model whose threshold follows another rule than the agreed one.

    Raises ModelError: naming both, and what to do.
    """
    for name, value in (agreed or {}).items():
        for point in model_in(read_document(model, "model")).operating_points:
            if (point.rule.name, point.rule.value) != (name, value):
                known = f"{point.rule.name} {'' if point.rule.value is None else point.rule.value}".strip()
                raise ModelError(
                    f"the model's threshold follows {known}, and {name} {value:g} was agreed for the series; "
                    "choose it with `screen threshold`, or correct `rule`"
                )
