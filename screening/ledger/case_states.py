"""What a night brings to the ledger, and which of its cases are new, going on, reviewed, known or gone."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import sqlalchemy as sa

from screening.documents import Reason
from screening.documents.run import Since
from screening.ledger import audit
from screening.ledger.database import CASES, RUNS, WAITING, Ledger
from screening.ledger.verdicts import HAS_IT, in_order

Decided = Callable[[Mapping[str, int], int], Sequence[Reason]]
"""Why a night wants attention, given the counts of its cases and the nights in a row without one."""


def series_by(named: str | None, question: Mapping[str, object]) -> str:
    """The name of a series, or the digest of its question where it has none."""
    return named or hashlib.sha256(audit.plain(dict(question)).encode()).hexdigest()


@dataclass(frozen=True)
class NightCases:
    """What a night brings to the ledger."""

    key: str  # Digest of model, input, settings, series and date.
    # What is asked of the table: label, positive values, id and group columns.
    question: Mapping[str, object]
    night: str  # YYYY-MM-DD.
    flagged: tuple[str, ...]  # Ids of flagged cases (groups where rows come in groups), each once.
    sampled: tuple[str, ...]  # Ids of those drawn at random from the rest.
    facts: Mapping[str, object]  # Figures for `screen history`; of patients only the hashes under `drift`.
    known_days: int = 30  # How long somebody confirmed stays known, counted from the night of the verdict.
    draw: int = 5  # Flagged cases without a verdict to draw into the random audit.
    # Decides why the night wants attention, once the ledger has told what it knows.
    attention: Decided = lambda counts, quiet: ()
    named: str | None = None  # Name of the series, where somebody named it.
    shadow: bool = False  # Scored beside the champion: nothing of it is in force.

    @property
    def series(self) -> str:
        """The key under which nights follow each other."""
        return series_by(self.named, self.question)

    @property
    def recognisable(self) -> bool:
        """Whether an id means the same patient on another night; without a column of ids it does not."""
        return bool(self.question.get("id") or self.question.get("group"))

    @property
    def model(self) -> str:
        """Digest of the model."""
        return str(self.facts["model"])

    @property
    def beside(self) -> str | None:
        """The model where it was scored in shadow: its nights follow each other."""
        return self.model if self.shadow else None


@dataclass(frozen=True)
class Known:
    """What the ledger knows of one flagged case on one night."""

    state: str  # One of "new", "ongoing", "reviewed", "known".
    nights: int  # Nights flagged in an unbroken row, tonight among them.
    # Night and word of the last verdict before tonight, whether or not it belongs to this row of nights.
    verdict: tuple[str, str] | None = None


def recognise(connection: sa.Connection, night: NightCases) -> tuple[dict[str, Known], int]:
    """Tell new from known cases by the nights before this one, and count the resolved.

    A case is known when it was last said to have the condition, and that either since it was first flagged
    in this row of nights or no more than `known_days` ago. Of the others it is ongoing when it was flagged on
    the last night before this one, reviewed when moreover it was judged not to have the condition in this row
    of nights, and new otherwise: who was judged so and comes back after a night without a flag is looked at
    again.
    """
    before = nights_before(connection, night) if night.recognisable else []
    if not before:
        return {name: Known("new", 1) for name in night.flagged}, 0
    yesterday = _nights_flagged(connection, before)
    reviews = in_order(connection, night.series, night.night, night.flagged)
    verdicts = {row.case_id: (row.night, row.verdict) for row in reviews}
    nights = [run.night for run in before]
    recent = str(datetime.date.fromisoformat(night.night) - datetime.timedelta(days=night.known_days))
    cases = {}
    for name in night.flagged:
        stretch, verdict = yesterday.get(name, 0), verdicts.get(name)
        since = nights[-min(stretch, len(nights))] if stretch else night.night
        cases[name] = Known(_state(verdict, since, stretch, recent), stretch + 1, verdict)
    return cases, len(yesterday.keys() - set(night.flagged))


def _nights_flagged(connection: sa.Connection, before: Sequence[Any]) -> dict[str, int]:
    """Who was flagged on the last of some nights, and on how many in an unbroken row."""
    flagged = sa.select(CASES).where(CASES.c.entry == before[-1].entry, CASES.c.state.is_not(None))
    return {row.case_id: row.nights for row in connection.execute(flagged)}


def _state(verdict: tuple[str, str] | None, since: str, stretch: int, recent: str) -> str:
    """What a case is by its last verdict, its row's first night and length, and what is recent."""
    when, word = verdict or ("", "unsure")
    in_this_row = bool(stretch) and when >= since
    if word in HAS_IT and (in_this_row or when >= recent):
        return "known"
    if word == "not" and in_this_row:
        return "reviewed"
    return "ongoing" if stretch else "new"


def audit_of(cases: Mapping[str, Known], key: str, most: int) -> tuple[str, ...]:
    """The random audit of the flagged: of those who wait, whatever their rank; the same for the same run."""
    waiting = sorted(name for name, case in cases.items() if case.state in WAITING)
    rng = np.random.default_rng([int(hashlib.sha256(key.encode()).hexdigest(), 16), len(waiting)])
    return tuple(sorted(waiting[i] for i in rng.permutation(len(waiting))[:most]))


def role(beside: str | None) -> Any:
    """Whether a run is of the champion's nights, or of those that this model scored in shadow."""
    return ~RUNS.c.shadow if beside is None else RUNS.c.shadow & (RUNS.c.model == beside)


def in_force(connection: sa.Connection, series: str, beside: str | None, *when: Any) -> list[Any]:
    """Entry, key and night of a series' published runs, in order; one a night, the last.

    Their facts stay where they are: a site's years of nights are megabytes of them.

    `beside`: digest of a model: its nights in shadow, which follow each other and not the champion's.
    `when`: what holds for the runs besides.
    """
    columns = sa.select(RUNS.c.entry, RUNS.c.key, RUNS.c.night)
    mine = columns.where(RUNS.c.series == series, RUNS.c.published, role(beside), *when)
    latest = {row.night: row for row in connection.execute(mine.order_by(RUNS.c.entry))}
    return [latest[night] for night in sorted(latest)]


def nights_before(connection: sa.Connection, night: NightCases) -> list[Any]:
    """The runs in force before this night, in order."""
    return in_force(connection, night.series, night.beside, RUNS.c.night < night.night)


def quiet_nights(connection: sa.Connection, night: NightCases) -> int:
    """Nights in an unbroken row without a case, this one among them."""
    if night.flagged:
        return 0

    def is_quiet(run: sa.Row[Any]) -> bool:
        flagged = sa.select(CASES.c.entry).where(CASES.c.entry == run.entry, CASES.c.state.is_not(None))
        return connection.scalar(flagged.limit(1)) is None

    return 1 + len(list(takewhile(is_quiet, reversed(nights_before(connection, night)))))


def since_last(ledger: Ledger, night: NightCases) -> Since | None:
    """The last night in force before this one, and its cases that are not flagged now; None for the first."""
    if not night.recognisable:
        return None
    with ledger.reading() as connection:
        before = nights_before(connection, night)
        if not before:
            return None
        names = _nights_flagged(connection, before).keys()
        return Since(night=before[-1].night, gone=sorted(names - set(night.flagged)))
