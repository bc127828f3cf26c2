"""Which model's nights are in force in a series; only an entry of the trail puts another in its place."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from screening.documents.history import NightsBeside
from screening.errors import UsageError
from screening.ledger import trail
from screening.ledger.database import CHAMPIONS, RUNS, Ledger
from screening.ledger.kinds import KINDS, Promoted, Retired, SealedAnew, append
from screening.ledger.trail import Head, facts_of, text_part
from screening.spelling import did_you_mean, shown_series


def champions(connection: sa.Connection) -> dict[str, str]:
    """By series, the digest of the model whose nights are in force."""
    rows = connection.execute(sa.select(CHAMPIONS).order_by(CHAMPIONS.c.series, CHAMPIONS.c.entry))
    return {row.series: row.model for row in rows}


def champion(connection: sa.Connection, series: str) -> str | None:
    """Digest of the model whose nights are in force; None before the first."""
    mine = sa.select(CHAMPIONS.c.model).where(CHAMPIONS.c.series == series)
    return connection.scalar(mine.order_by(CHAMPIONS.c.entry.desc()).limit(1))


def refuse_other(connection: sa.Connection, series: str, model: str, remedy: str) -> None:
    """Refuse a model that is not the champion (UsageError), with what to do about it."""
    known = champion(connection, series)
    if known != model:
        scored = "no model yet" if known is None else f"model {known[:12]}"
        raise UsageError(
            f"series {shown_series(series)} is scored with {scored}, and this is {model[:12]}: {remedy}"
        )


def record_revision(
    ledger: Ledger, action: str, change: Mapping[str, Any], series: str | None = None
) -> Head:
    """Enter that a model was written anew; it is champion from now on wherever the one before was.

    The same twice in a row is one entry, and a model that stayed as it was none.

    `action`: "threshold" or "approve".
    `change`: digests of the model before and after, and what was changed, by whom or why; no patient in it.
    `series`: only there.
    """
    facts = dict(change) | ({} if series is None else {"series": series})
    reason = facts.pop("reason", None)
    before, after = str(facts["model_before"]), str(facts["model_after"])
    with ledger.writing() as connection:
        if before == after:
            return trail.head(connection)
        said = {"series": None, "reason": reason} | facts
        for last in deque(facts_of(connection, action), 1):
            if all(last.get(name) == value for name, value in said.items()):
                return trail.head(connection, last["entry"])
        where = [
            name
            for name, model in champions(connection).items()
            if model == before and series in (None, name)
        ]
        stated = KINDS[action].from_dict(facts | {"champion_of": where}, "the change")
        parts = [] if reason is None else [text_part("reason", reason)]
        return append(connection, ledger.clock(), stated, *parts)


def record_sealed(ledger: Ledger, before: str, after: str) -> None:
    """Enter that a model was sealed anew without a patient; it is champion where the one before was."""
    with ledger.writing() as connection:
        # What never came to stand in the place of the one before, since an attempt was killed.
        earlier = facts_of(connection, "seal")
        replaced = {before, *(each["model_after"] for each in earlier if each["model_before"] == before)}
        where = [
            name for name, model in champions(connection).items() if model in replaced and model != after
        ]
        if where:
            facts = SealedAnew(model_before=before, model_after=after, champion_of=where)
            append(connection, ledger.clock(), facts)


def promote(ledger: Ledger, series: str, model: str, reason: str, evidence: NightsBeside) -> Head:
    """Make a model that was scored in shadow the one whose nights are in force from now on.

    `model`: digest.
    `reason`: why, in words.
    `evidence`: what its nights beside the champion's had shown by then.
    Raises UsageError: no reason is given, or the model has no night in shadow there.
    """
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        before = champion(connection, series)
        if before == model:
            return trail.head(connection)
        names = [model, *_drafts(connection, model)]
        mine = (RUNS.c.series == series) & RUNS.c.model.in_(names) & RUNS.c.shadow
        if connection.scalar(sa.select(RUNS.c.entry).where(mine).limit(1)) is None:
            raise UsageError(
                f"model {model[:12]} has no night in shadow in series {shown_series(series)}; "
                "score it with --shadow first"
            )
        facts = Promoted(
            series=series, model_before=before, model_after=model, champion_of=[series], evidence=evidence
        )
        return append(connection, ledger.clock(), facts, why)


def scored_as(ledger: Ledger, series: str, model: str) -> str:
    """The digest under which a model has nights in shadow: its own, or that of its draft."""
    with ledger.reading() as connection:
        for name in _drafts(connection, model):
            mine = (RUNS.c.series == series) & (RUNS.c.model == name) & RUNS.c.shadow
            if connection.scalar(sa.select(RUNS.c.entry).where(mine).limit(1)) is not None:
                return name
    return model


def _drafts(connection: sa.Connection, model: str) -> list[str]:
    """Digests of the drafts that were approved as this model."""
    entries = facts_of(connection, "approve")
    return [str(each["model_before"]) for each in entries if each["model_after"] == model]


def every_series(connection: sa.Connection) -> list[str]:
    """The series that have a run, in order.

    One look at the index a series: a plain DISTINCT would read the entries of all nights of all of them.
    """
    found: list[str] = []
    following = sa.select(sa.func.min(RUNS.c.series))
    one = connection.scalar(following)
    while one is not None:
        found.append(one)
        one = connection.scalar(following.where(RUNS.c.series > one))
    return found


def find_series(connection: sa.Connection, text: str) -> str:
    """The series of a name, or of the first digits that one without a name is shown by.

    Raises UsageError: there is none, or no single one.
    """
    known = every_series(connection)
    found = [each for each in known if text in (each, shown_series(each))]
    if len(found) != 1:
        names = [shown_series(each) for each in known]
        hint = did_you_mean(text, names) or f"; there are {', '.join(names) or 'none'}"
        raise UsageError(f"the ledger has no series {text!r}{hint}")
    return found[0]


def retire(ledger: Ledger, series: str, reason: str) -> Head:
    """Enter that no further night of a series is to be waited for; a later night takes it back.

    Raises UsageError: no reason is given, there is no such series, or it is closed already.
    """
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        known = find_series(connection, series)
        if known in retired(connection):
            raise UsageError(f"series {shown_series(known)} is closed already")
        facts = Retired(series=known, last=_last(connection, known))
        return append(connection, ledger.clock(), facts, why)


def retired(connection: sa.Connection) -> dict[str, dict[str, Any]]:
    """The series that are closed: what was said of each when it was, and when that was `recorded`."""
    closed = {each["series"]: each for each in facts_of(connection, "retire")}
    # A night after the one that was the last takes it back; a back-fill is none.
    return {name: each for name, each in closed.items() if _last(connection, name) <= each["last"]}


def _last(connection: sa.Connection, series: str) -> str:
    mine = (RUNS.c.series == series) & ~RUNS.c.shadow
    return connection.scalar(sa.select(sa.func.max(RUNS.c.night)).where(mine)) or ""
