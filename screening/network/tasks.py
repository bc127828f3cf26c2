"""What is still to be scored: tonight, missed nights whose table has come, shadows; and by which rule."""

from __future__ import annotations

import datetime
import glob
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from screening.documents.run import RunDocument
from screening.documents.stored import model_in, run_in
from screening.errors import ModelError
from screening.ledger import Ledger, Published, published
from screening.network.site import Network
from screening.sources.opening import digests
from screening.storage.serialization import read_document

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


def tasks_of(network: Network, ledger: Ledger, name: str, night: str) -> list[Task]:
    """Return the nights of a series, the oldest first, each champion before its shadows."""
    plan = network.series[name]
    back = network.site.catch_up if plan.catch_up is None else plan.catch_up
    tonight = datetime.date.fromisoformat(night)
    days = [str(tonight - DAY * n) for n in range(back, 0, -1)] if "{date}" in plan.cohort else []
    there = published(ledger, name, min([night, *days]))
    missed = [day for day in days if day not in there.in_force and _lies_there(network.cohort(name, day))]
    nights = [task for day in [*missed, night] for task in _of_night(network, name, day, day != night, there)]
    return nights


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
