"""Which of tonight's cases are new, going on, reviewed, known to have it, or gone since the night before.

One table a night and question: of several runs of a night the one recorded last is in force, and the others
are kept. Tables of different wards belong in ledgers of their own, or each would resolve the other's cases.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import sqlalchemy as sa

from screening.documents import Reason, reasons_in
from screening.ledger import audit
from screening.ledger.audit import Head
from screening.ledger.book import Ledger
from screening.ledger.tables import CASES, RUNS, STATES
from screening.ledger.verdicts import HAS_IT, in_order

Decided = Callable[[Mapping[str, int], int], Sequence[Reason]]
"""Why a night wants attention, given the counts of its cases and the nights in a row without one."""


def _nothing(counts: Mapping[str, int], quiet: int) -> Sequence[Reason]:
    return ()


@dataclass(frozen=True)
class NightCases:
    """What a night brings to the ledger.

    Parameters
    ----------
    key : str
        Digest of model, input, settings and date.
    question : mapping
        What makes nights comparable: label, positive values, id and group columns.
    night : str
        YYYY-MM-DD.
    flagged : tuple of str
        Ids of flagged cases (groups where rows come in groups), each once.
    sampled : tuple of str
        Ids of those drawn at random from the rest.
    facts : mapping
        Figures for `screen history`; no patient in them.
    recognisable : bool
        Whether an id means the same patient on another night. Where no column names the rows it does not.
    known_days : int
        How long somebody confirmed stays known, counted from the night of the verdict.
    draw : int
        New cases to mark by lot for review, whatever their rank.
    attention : callable
        Decides why the night wants attention, once the ledger has told what it knows.
    """

    key: str
    question: Mapping[str, Any]
    night: str
    flagged: tuple[str, ...]
    sampled: tuple[str, ...]
    facts: Mapping[str, Any]
    recognisable: bool = True
    known_days: int = 30
    draw: int = 5
    attention: Decided = _nothing

    @property
    def series(self) -> str:
        """Digest of the question."""
        return hashlib.sha256(audit.plain(dict(self.question)).encode()).hexdigest()


@dataclass(frozen=True)
class Known:
    """What the ledger knows of one flagged case on one night.

    Parameters
    ----------
    state : {"new", "ongoing", "reviewed", "known"}
    nights : int
        Nights flagged in an unbroken row, tonight among them.
    verdict : tuple of str, optional
        Night and word of the last verdict before tonight, whether or not it belongs to this row of nights.
    """

    state: str
    nights: int
    verdict: tuple[str, str] | None = None


@dataclass(frozen=True)
class Recorded:
    """A night as the ledger has it.

    Parameters
    ----------
    revision : int
        1, or more after `--force`.
    head : Head
        The entry of the audit trail that vouches for it.
    cases : dict of str to Known
    counts : dict of str to int
        cases = new + ongoing + reviewed + known, and resolved: flagged on the night before and not tonight.
    first_time : bool
        False where the ledger had this very run already.
    quiet : int
        Nights in an unbroken row on which nobody was flagged, tonight among them; 0 if somebody was.
    drawn : tuple of str
        New cases marked by lot for review, so that those judged stand for all.
    attention : tuple of Reason
        As decided when the night was entered.
    """

    revision: int
    head: Head
    cases: dict[str, Known]
    counts: dict[str, int]
    first_time: bool
    quiet: int = 0
    drawn: tuple[str, ...] = ()
    attention: tuple[Reason, ...] = ()


def record_night(ledger: Ledger, night: NightCases, *, force: bool = False) -> Recorded:
    """Enter a night, or find it as it was entered before.

    The night is not in force until `publish_night` is called: its run directory may yet fail to appear.

    Parameters
    ----------
    force : bool
        Enter a known night as a new revision, judged by what is known now; the old one is kept.
    """
    with ledger.writing() as connection:
        revision = (
            connection.scalar(sa.select(sa.func.max(RUNS.c.revision)).where(RUNS.c.key == night.key)) or 0
        )
        if revision and not force:
            return _found(connection, night, revision)
        cases, resolved = recognise(connection, night)
        quiet = quiet_nights(connection, night)
        return _entered(connection, ledger.clock(), night, revision + 1, cases, resolved, quiet)


def publish_night(ledger: Ledger, key: str, revision: int) -> None:
    """Put a recorded night in force, its run directory being in place."""
    with ledger.writing() as connection:
        mine = (RUNS.c.key == key) & (RUNS.c.revision == revision)
        connection.execute(RUNS.update().where(mine).values(published=True))


def recognise(connection: sa.Connection, night: NightCases) -> tuple[dict[str, Known], int]:
    """Tell new from known cases by the nights before this one, and count the resolved.

    A case is known when it was last said to have the condition, and that either since it was first flagged
    in this row of nights or no more than `known_days` ago. Of the others it is ongoing when it was flagged on
    the last night before this one, reviewed when moreover it was judged not to have the condition in this row
    of nights, and new otherwise: who was judged so and comes back after a night without a flag is looked at
    again.
    """
    if not night.recognisable:
        return {name: Known("new", 1) for name in night.flagged}, 0
    before = in_force(connection, night.series, night.night)
    if not before:
        return {name: Known("new", 1) for name in night.flagged}, 0
    last = before[-1]
    chosen = (CASES.c.key == last.key) & (CASES.c.revision == last.revision) & CASES.c.state.is_not(None)
    yesterday = {row.case_id: row.nights for row in connection.execute(sa.select(CASES).where(chosen))}
    verdicts = _last_verdicts(connection, night)
    nights = [run.night for run in before]
    recent = str(datetime.date.fromisoformat(night.night) - datetime.timedelta(days=night.known_days))
    cases = {}
    for name in night.flagged:
        stretch, verdict = yesterday.get(name, 0), verdicts.get(name)
        since = nights[-min(stretch, len(nights))] if stretch else night.night
        cases[name] = Known(_state(verdict, since, stretch, recent), stretch + 1, verdict)
    return cases, len(yesterday.keys() - set(night.flagged))


def _state(verdict: tuple[str, str] | None, since: str, stretch: int, recent: str) -> str:
    """What a case is by its last verdict, its row's first night and length, and what is recent."""
    when, word = verdict or ("", "unsure")
    in_this_row = bool(stretch) and when >= since
    if word in HAS_IT and (in_this_row or when >= recent):
        return "known"
    if word == "not" and in_this_row:
        return "reviewed"
    return "ongoing" if stretch else "new"


def drawn_of(cases: Mapping[str, Known], key: str, most: int) -> tuple[str, ...]:
    """The new cases that lots mark, sorted; the same for the same run."""
    new = sorted(name for name, case in cases.items() if case.state == "new")
    rng = np.random.default_rng([int(hashlib.sha256(key.encode()).hexdigest(), 16), len(new)])
    return tuple(sorted(new[i] for i in rng.permutation(len(new))[:most]))


def in_force(connection: sa.Connection, series: str, before: str) -> list[Any]:
    """Key, revision and night of the published runs before a night, in order; one a night, the last.

    Their facts stay where they are: a site's years of nights are megabytes of them.
    """
    columns = sa.select(RUNS.c.key, RUNS.c.revision, RUNS.c.night)
    mine = (RUNS.c.series == series) & RUNS.c.published & (RUNS.c.night < before)
    latest = {row.night: row for row in connection.execute(columns.where(mine).order_by(RUNS.c.entry))}
    return [latest[night] for night in sorted(latest)]


def quiet_nights(connection: sa.Connection, night: NightCases) -> int:
    """Nights in an unbroken row without a case, this one among them."""
    if night.flagged:
        return 0
    before = reversed(in_force(connection, night.series, night.night))
    return 1 + len(list(takewhile(lambda run: not _cases_of(connection, run), before)))


def _cases_of(connection: sa.Connection, run: sa.Row[Any]) -> int:
    mine = (RUNS.c.key == run.key) & (RUNS.c.revision == run.revision)
    return int(json.loads(str(connection.scalar(sa.select(RUNS.c.facts).where(mine))))["counts"]["cases"])


def _last_verdicts(connection: sa.Connection, night: NightCases) -> dict[str, tuple[str, str]]:
    said = in_order(connection, night.series, night.night)
    return {row.case_id: (row.night, row.verdict) for row in said}


def _entered(
    connection: sa.Connection,
    recorded: str,
    night: NightCases,
    revision: int,
    cases: dict[str, Known],
    resolved: int,
    quiet: int,
) -> Recorded:
    counts = _counts(cases, resolved)
    rows: dict[str, tuple[str | None, int]] = {
        name: (case.state, case.nights) for name, case in cases.items()
    }
    rows |= {name: (None, 0) for name in night.sampled}
    shown = {name: case.verdict for name, case in sorted(cases.items()) if case.verdict}
    drawn = drawn_of(cases, night.key, night.draw)
    known = {"question": dict(night.question), "counts": counts, "verdicts_before": shown, "quiet": quiet}
    reasons = tuple(night.attention(counts, quiet))
    facts = dict(night.facts) | known | {"drawn": drawn}
    facts |= {"attention": [reason.to_dict() for reason in reasons]}
    run = {"key": night.key, "revision": revision, "series": night.series, "night": night.night}
    said = audit.append(
        connection, recorded, "run", run | {"facts": facts, "cases": audit.digest_of_cases(rows)}
    )
    connection.execute(
        RUNS.insert().values(**run, entry=said.number, published=False, facts=audit.plain(facts))
    )
    if rows:
        connection.execute(
            CASES.insert(),
            [
                {"key": night.key, "revision": revision, "case_id": name, "state": state, "nights": nights}
                for name, (state, nights) in rows.items()
            ],
        )
    return Recorded(revision, said, cases, counts, True, quiet, drawn, reasons)


def _found(connection: sa.Connection, night: NightCases, revision: int) -> Recorded:
    mine = (RUNS.c.key == night.key) & (RUNS.c.revision == revision)
    run = connection.execute(sa.select(RUNS).where(mine)).one()
    digest = connection.scalar(sa.select(audit.AUDIT.c.digest).where(audit.AUDIT.c.number == run.entry))
    facts = json.loads(run.facts)
    shown = {name: (night_, word) for name, (night_, word) in facts["verdicts_before"].items()}
    chosen = (CASES.c.key == night.key) & (CASES.c.revision == revision) & CASES.c.state.is_not(None)
    cases = {
        row.case_id: Known(row.state, row.nights, shown.get(row.case_id))
        for row in connection.execute(sa.select(CASES).where(chosen))
    }
    # A night from before quiet nights were counted, cases drawn or reasons kept has none of these.
    counts, quiet, drawn = facts["counts"], facts.get("quiet", 0), tuple(facts.get("drawn", ()))
    kept = facts.get("attention")
    reasons = tuple(night.attention(counts, quiet) if kept is None else reasons_in(kept))
    return Recorded(revision, Head(run.entry, str(digest)), cases, counts, False, quiet, drawn, reasons)


def _counts(cases: Mapping[str, Known], resolved: int) -> dict[str, int]:
    states = [case.state for case in cases.values()]
    return {"cases": len(cases)} | {name: states.count(name) for name in STATES} | {"resolved": resolved}
