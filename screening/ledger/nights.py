"""Entering a night, and finding it as it was entered.

A series has one table and one model a night: another is refused unless it is forced, or scored in shadow. Of
several runs of a night the one recorded last is in force, and the others are kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from screening.documents import Reason, reasons_in
from screening.documents.series import shown_series
from screening.documents.tables import listed, of, table
from screening.errors import UsageError
from screening.ledger import audit, model_registry
from screening.ledger.audit import Head
from screening.ledger.case_states import Known, NightCases, audit_of, in_force, quiet_nights, recognise, role
from screening.ledger.database import AUDIT, CASES, RUNS, STATES, Ledger


@dataclass(frozen=True)
class Recorded:
    """A night as the ledger has it."""

    revision: int  # 1, or more after `--force`.
    head: Head  # The entry of the audit trail that vouches for it.
    cases: dict[str, Known]
    # cases = new + ongoing + reviewed + known, and resolved: flagged on the night before and not tonight.
    counts: dict[str, int]
    drawn: tuple[str, ...] = ()  # Cases of the random audit, so that those judged stand for all flagged.
    attention: tuple[Reason, ...] = ()  # As decided when the night was entered.


def record_night(ledger: Ledger, night: NightCases, *, force: bool = False) -> Recorded:
    """Enter a night, or find it as it was entered before.

    The night is not in force until `publish_night` is called: its run directory may yet fail to appear.

    `force`: enter a known night, or another table or model for it, as a new revision, judged by what is
    known now; the old one is kept. Raises UsageError: another table of this night is in force, or another
    model is the series' champion.
    """
    with ledger.writing() as connection:
        again = sa.select(RUNS).where(RUNS.c.key == night.key).order_by(RUNS.c.revision.desc()).limit(1)
        known = connection.execute(again).first()
        if not force and (known is None or not known.published):
            _refuse_second(connection, night)
        if known is not None and not force:
            return _found(connection, known)
        return _entered(connection, ledger.clock(), night)


def publish_night(ledger: Ledger, key: str, revision: int) -> None:
    """Put a recorded night in force, its run directory being in place."""
    with ledger.writing() as connection:
        mine = (RUNS.c.key == key) & (RUNS.c.revision == revision)
        connection.execute(RUNS.update().where(mine).values(published=True))
        run = connection.execute(sa.select(RUNS).where(mine)).one()
        if not run.shadow:
            model_registry.begin(connection, run.series, run.model, run.entry)


OTHER_MODEL = (
    "--shadow scores it beside that one, `screen promote` puts it in its place, `screen threshold` and "
    "`screen approve` with --ledger record what they change, --force scores this one night with it"
)


def _refuse_second(connection: sa.Connection, night: NightCases) -> None:
    if not night.shadow and model_registry.champion(connection, night.series) is not None:
        model_registry.refuse_other(connection, night.series, night.model, OTHER_MODEL)
    for run in in_force(connection, night.series, night.beside, RUNS.c.night == night.night):
        if run.key != night.key:
            raise UsageError(
                f"series {shown_series(night.series)} has another table for the night of {night.night}, run "
                f"{run.key[:12]}; another ward needs a --series of its own, a corrected table --force, which "
                "keeps the old"
            )


def _entered(connection: sa.Connection, recorded: str, night: NightCases) -> Recorded:
    cases, resolved = recognise(connection, night)
    states = Counter(case.state for case in cases.values())
    counts = {"cases": len(cases)} | {name: states[name] for name in STATES} | {"resolved": resolved}
    reasons = tuple(night.attention(counts, quiet_nights(connection, night)))
    drawn = audit_of(cases, night.key, night.draw)
    verdicts = {name: case.verdict for name, case in sorted(cases.items()) if case.verdict}
    facts, named = divided(
        {
            **night.facts,
            "question": dict(night.question),
            "counts": counts,
            "attention": [reason.to_dict() for reason in reasons],
            "verdicts_before": verdicts,
            "drawn": drawn,
        }
    )
    revision = _next_revision(connection, night)
    run = {
        "key": night.key, "revision": revision, "series": night.series, "night": night.night,
        "model": night.model, "shadow": night.shadow,
    }  # fmt: skip
    rows: list[tuple[str, str | None, int]] = [(name, None, 0) for name in night.sampled]
    rows += [(name, case.state, case.nights) for name, case in cases.items()]
    entry = audit.append(
        connection, recorded, "run", run | {"facts": facts}, named | {"cases": sorted(map(list, rows))}
    )
    connection.execute(
        RUNS.insert().values(**run, entry=entry.number, published=False, facts=audit.plain(facts))
    )
    if rows:
        values = (
            {"entry": entry.number, "case_id": name, "state": state, "nights": nights, "drawn": name in drawn}
            for name, state, nights in rows
        )
        connection.execute(CASES.insert(), list(values))
    return Recorded(revision, entry, cases, counts, drawn, reasons)


def _next_revision(connection: sa.Connection, night: NightCases) -> int:
    """One more than any run of this night in its role, whatever its table, and than any of this key."""
    of_night = (RUNS.c.series == night.series) & (RUNS.c.night == night.night) & role(night.beside)
    both = sa.select(sa.func.max(RUNS.c.revision)).where(of_night | (RUNS.c.key == night.key))
    return 1 + (connection.scalar(both) or 0)


def _found(connection: sa.Connection, run: sa.Row[Any]) -> Recorded:
    digest = connection.scalar(sa.select(AUDIT.c.digest).where(AUDIT.c.number == run.entry))
    facts, named = json.loads(run.facts), audit.part_of(connection, run.entry, audit.PATIENTS)
    # Of an erased night the names are gone.
    before = of(dict, named.get("verdicts_before", {}))
    verdicts = {name: (when, word) for name, (when, word) in before.items()}
    flagged = sa.select(CASES).where(CASES.c.entry == run.entry, CASES.c.state.is_not(None))
    cases = {
        row.case_id: Known(row.state, row.nights, verdicts.get(row.case_id))
        for row in connection.execute(flagged)
    }
    drawn, reasons = tuple(listed(named.get("drawn", []))), tuple(reasons_in(facts["attention"]))
    return Recorded(run.revision, Head(run.entry, str(digest)), cases, facts["counts"], drawn, reasons)


OF_PATIENTS = ("drawn", "verdicts_before")
OF_DRIFT = ("who", "cell")


def divided(facts: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Facts without patients, and the rest: random audit, verdicts shown, and the hashes under `drift`."""
    told = {name: value for name, value in facts.items() if name not in OF_PATIENTS}
    named = {name: facts[name] for name in OF_PATIENTS if name in facts}
    if told.get("drift") is not None:
        drift = table(told, "drift")
        named["drift"] = {name: drift[name] for name in OF_DRIFT if name in drift}
        told["drift"] = {name: value for name, value in drift.items() if name not in OF_DRIFT}
    return told, named


@dataclass(frozen=True)
class Published:
    """Runs of a series whose directory stood once."""

    in_force: Mapping[str, str]  # By night, the key of the run that is in force.
    shadow: frozenset[str]  # Keys of runs in shadow.


def published(ledger: Ledger, series: str, since: str) -> Published:
    """What the ledger has of a series from the night `since` on."""
    mine = (RUNS.c.series == series) & (RUNS.c.night >= since) & RUNS.c.published
    with ledger.reading() as connection:
        runs = connection.execute(
            sa.select(RUNS.c.night, RUNS.c.key, RUNS.c.shadow).where(mine).order_by(RUNS.c.entry)
        ).all()
    # The later entry of a night comes later here, and stands.
    return Published(
        {run.night: run.key for run in runs if not run.shadow},
        frozenset(run.key for run in runs if run.shadow),
    )
