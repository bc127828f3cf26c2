"""Which model's nights are in force in a series; only an entry of the trail puts another in its place."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from screening.documents.series import shown_series
from screening.documents.tables import word
from screening.errors import UsageError
from screening.ledger import audit
from screening.ledger.audit import Head, said
from screening.ledger.database import AUDIT, RUNS, SERIES, Ledger
from screening.spelling import did_you_mean


def champion(connection: sa.Connection, series: str) -> str | None:
    """Digest of the model whose nights are in force; None before the first."""
    return connection.scalar(sa.select(SERIES.c.champion).where(SERIES.c.series == series))


def begin(connection: sa.Connection, series: str, model: str, entry: int) -> None:
    """Make the model of the first published night the champion."""
    if champion(connection, series) is None:
        connection.execute(SERIES.insert().values(series=series, champion=model, since=entry))


def refuse_other(connection: sa.Connection, series: str, model: str, remedy: str) -> None:
    """Refuse a model that is not the champion (UsageError), with what to do about it."""
    known = champion(connection, series)
    if known != model:
        scored = "no model yet" if known is None else f"model {known[:12]}"
        raise UsageError(
            f"series {shown_series(series)} is scored with {scored}, and this is {model[:12]}: {remedy}"
        )


def record_revision(
    ledger: Ledger, action: str, change: Mapping[str, object], series: str | None = None
) -> Head:
    """Enter that a model was written anew; it is champion from now on wherever the one before was.

    The same twice in a row is one entry, and a model that stayed as it was none.

    `action`: "threshold" or "approve".
    `change`: digests of the model before and after, and what was changed, by whom or why; no patient in it.
    `series`: only there.
    """
    with ledger.writing() as connection:
        if change["model_before"] == change["model_after"]:
            return audit.head(connection)
        said = dict(change) | ({} if series is None else {"series": series})
        last = connection.execute(
            sa.select(AUDIT).where(AUDIT.c.action == action).order_by(AUDIT.c.number.desc()).limit(1)
        ).first()
        if last is not None and audit.plain(audit.part_of(connection, last.number)) == audit.plain(said):
            return Head(last.number, last.digest)
        entry = audit.append(connection, ledger.clock(), action, said)
        follow(connection, said, entry.number)
        return entry


def promote(ledger: Ledger, series: str, model: str, reason: str, evidence: Mapping[str, object]) -> Head:
    """Make a model that was scored in shadow the one whose nights are in force from now on.

    `model`: digest.
    `reason`: why, in words.
    `evidence`: what its nights beside the champion's had shown by then; no patient in it.
    Raises UsageError: no reason is given, or the model has no night in shadow there.
    """
    why = audit.reason_of(reason)
    with ledger.writing() as connection:
        before = champion(connection, series)
        if before == model:
            return audit.head(connection)
        names = [model, *_drafts(connection, model)]
        mine = (RUNS.c.series == series) & RUNS.c.model.in_(names) & RUNS.c.shadow & RUNS.c.published
        if connection.scalar(sa.select(RUNS.c.entry).where(mine).limit(1)) is None:
            raise UsageError(
                f"model {model[:12]} has no night in shadow in series {shown_series(series)}; "
                "score it with --shadow first"
            )
        said = {"series": series, "model_before": before, "model_after": model, "reason": why}
        entry = audit.append(connection, ledger.clock(), "promote", said | {"evidence": dict(evidence)})
        begin(connection, series, model, entry.number)
        follow(connection, said, entry.number)
        return entry


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
    entries = said(connection, "approve")
    return [str(each["model_before"]) for each in entries if each["model_after"] == model]


def follow(connection: sa.Connection, change: Mapping[str, object], entry: int) -> None:
    """Put the model after a change in the place of the one before, in the series it was made for or all."""
    mine = (SERIES.c.champion == change["model_before"]) & (SERIES.c.since < entry)
    if change.get("series") is not None:
        mine &= SERIES.c.series == change["series"]
    connection.execute(SERIES.update().where(mine).values(champion=change["model_after"], since=entry))


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
    why = audit.reason_of(reason)
    with ledger.writing() as connection:
        found = find_series(connection, series)
        if found in retired(connection):
            raise UsageError(f"series {shown_series(found)} is closed already")
        closed = {"series": found, "reason": why, "last": _last(connection, found)}
        return audit.append(connection, ledger.clock(), "retire", closed)


def retired(connection: sa.Connection) -> dict[str, dict[str, object]]:
    """The series that are closed: what was said of each when it was, and when that was `recorded`."""
    told = {word(each, "series"): each for each in said(connection, "retire")}
    # A night after the one that was the last takes it back; a back-fill is none.
    return {name: each for name, each in told.items() if _last(connection, name) <= word(each, "last")}


def _last(connection: sa.Connection, series: str) -> str:
    mine = (RUNS.c.series == series) & RUNS.c.published & ~RUNS.c.shadow
    return connection.scalar(sa.select(sa.func.max(RUNS.c.night)).where(mine)) or ""
