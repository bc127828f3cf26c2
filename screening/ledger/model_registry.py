"""Which model's nights are in force in a series; only an entry of the trail puts another in its place."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import entries, trail
from screening.ledger.database import CHAMPIONS, REVIEWS, RUNS, Ledger, Unchained
from screening.ledger.entries import Retired, Stated, append, stated
from screening.ledger.trail import Head, text_part
from screening.ledger.verdicts import last_verdicts
from screening.schemas.history import NightsBeside
from screening.schemas.model import TrainedOn
from screening.spelling import did_you_mean, shown_series

GIVE_CHAMPION = "give the directory of the champion"
NO_SHADOW = (
    "model {:.12} has no night in shadow in series {}; score it with --shadow first"
)


def champions(connection: sa.Connection) -> dict[str, str]:
    """Return by series the digest of the model whose nights are in force.

    A series has none before its first night. The trail says it; Unchained if the table
    of champions, which anybody who can write to the database can change, differs.
    """
    in_trail = entries.champions_in_trail(connection)
    rows = connection.execute(
        sa.select(CHAMPIONS).order_by(CHAMPIONS.c.series, CHAMPIONS.c.entry)
    )
    if in_trail != {row.series: row.model for row in rows}:
        raise Unchained(
            f"the table {CHAMPIONS.name} is not what the audit trail says; `screen "
            "ledger rebuild` makes it anew"
        )
    return in_trail


def series_of_champion(ledger: Ledger, model: str) -> list[str]:
    """Return the series whose champion has a digest, in order."""
    with ledger.reading() as connection:
        models = champions(connection)
    return sorted(series for series, champion in models.items() if champion == model)


def refuse_other(
    connection: sa.Connection, series: str, model: str, remedy: str
) -> None:
    """Refuse a model that is not the champion (UsageError), with what to do about it."""
    champion = champions(connection).get(series)
    if champion != model:
        scored = "no model yet" if champion is None else f"model {champion[:12]}"
        raise UsageError(
            f"series {shown_series(series)} is scored with {scored}, and this is {model[:12]}: {remedy}"
        )


def record_revision(
    ledger: Ledger, action: str, change: Mapping[str, Any], series: str | None = None
) -> Head:
    """Enter that a model was written anew; it is champion from now on wherever the one before was.

    `action`: "threshold" or "approve"; `change`: facts of `ModelChange` and a reason; `series`: only there.
    """
    facts = {"series": series, "champion_of": (), **change}
    reason = facts.pop("reason", None)
    revision = entries.KINDS[action].from_dict(facts, "the change")
    before, after = facts["model_before"], facts["model_after"]
    with ledger.writing() as connection:
        # The same twice in a row is one entry, and a model that stayed as it was none.
        for last in deque(stated(connection, type(revision)), 1):
            if (last.facts.replace(champion_of=()), last.reason) == (revision, reason):
                return trail.head(connection, last.entry)
        if before == after:
            return trail.head(connection)
        of_series = champions(connection).items()
        replaced = [
            name
            for name, model in of_series
            if model == before and series in (None, name)
        ]
        words = [] if reason is None else [text_part("reason", reason)]
        return append(
            connection, ledger.clock(), revision.replace(champion_of=replaced), *words
        )


def record_sealed(ledger: Ledger, before: str, after: str) -> None:
    """Enter that a model was sealed anew without a patient; it is champion where the one before was."""
    with ledger.writing() as connection:
        # What never came to stand in the place of the one before, since an attempt was killed.
        earlier = [seal.facts for seal in stated(connection, entries.SealedAnew)]
        replaced = {
            before,
            *(seal.model_after for seal in earlier if seal.model_before == before),
        } - {after}
        series = [
            name for name, model in champions(connection).items() if model in replaced
        ]
        if series:
            facts = entries.SealedAnew(
                model_before=before, model_after=after, champion_of=series
            )
            append(connection, ledger.clock(), facts)


def promote(
    ledger: Ledger, series: str, model: str, reason: str, evidence: NightsBeside
) -> Head:
    """Make a model that was scored in shadow the champion from now on, by what its nights had shown."""
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        before = champions(connection).get(series)
        if before == model:
            return trail.head(connection)
        if in_shadow(connection, series, model) is None:
            raise UsageError(NO_SHADOW.format(model, shown_series(series)))
        facts = entries.Promoted(
            series=series,
            model_before=before,
            model_after=model,
            champion_of=[series],
            evidence=evidence,
        )
        return append(connection, ledger.clock(), facts, why)


def in_shadow(connection: sa.Connection, series: str, model: str) -> str | None:
    """The digest under which a model has nights in shadow: its own, or that of its draft."""
    approvals = [approval.facts for approval in stated(connection, entries.Approved)]
    drafts = [one.model_before for one in approvals if one.model_after == model]
    shadows = sa.select(RUNS.c.model).where(RUNS.c.series == series, RUNS.c.shadow)
    models = set(connection.scalars(shadows.distinct()))
    return next((name for name in [*drafts, model] if name in models), None)


def every_series(connection: sa.Connection) -> list[str]:
    """The series that have a run, in order."""
    return list(
        connection.scalars(sa.select(RUNS.c.series).distinct().order_by(RUNS.c.series))
    )


def find_series(connection: sa.Connection, text: str) -> str:
    """The series of a name, or of the digits that one without a name is shown by (UsageError)."""
    every = every_series(connection)
    named = [name for name in every if text in (name, shown_series(name))]
    if len(named) != 1:
        names = [shown_series(name) for name in every]
        hint = did_you_mean(text, names) or f"; there are {', '.join(names) or 'none'}"
        raise UsageError(f"the ledger has no series {text!r}{hint}")
    return named[0]


def retire(ledger: Ledger, series: str, reason: str) -> Head:
    """Enter that no further night of a series is to be waited for; a later night takes it back."""
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        name = find_series(connection, series)
        closed = retired(connection).get(name)
        if closed is not None and closed.reason == reason.strip():
            # The same command again, such as after it was killed.
            return trail.head(connection, closed.entry)
        if closed is not None:
            raise UsageError(f"series {shown_series(name)} is closed already")
        facts = Retired(series=name, last=_last_nights(connection).get(name, ""))
        return append(connection, ledger.clock(), facts, why)


def retired(connection: sa.Connection) -> dict[str, Stated[Retired]]:
    """The series that are closed, and the entry by which each was."""
    last, closed = (
        _last_nights(connection),
        {one.facts.series: one for one in stated(connection, Retired)},
    )
    # A night after the one that was the last takes it back; a back-fill is none.
    return {
        name: one
        for name, one in closed.items()
        if last.get(name, "") <= one.facts.last
    }


def _last_nights(connection: sa.Connection) -> dict[str, str]:
    nights = sa.select(RUNS.c.series, sa.func.max(RUNS.c.night)).where(~RUNS.c.shadow)
    return dict(connection.execute(nights.group_by(RUNS.c.series)).all())


class LastWord(NamedTuple):
    """The last verdict on a case, and the table it was given on."""

    case_id: str  # Id of the row, or of the group where rows come in groups.
    night: str
    verdict: str  # One of "confirmed", "ruled out", "unsure", "known", "disputed".
    table: str  # Digests of that night's files as the ledger keeps them; empty for nights from before it did.


class Judged(NamedTuple):
    """What the ledger has of a series for a model that is to be trained on it."""

    series: str  # Its key in the ledger.
    words: tuple[LastWord, ...]  # In order of their nights, one a case.


def judged(ledger: Ledger, series: str, model: str) -> Judged:
    """The last word on every case that was judged in a series, flagged or drawn; `model`: its champion."""
    with ledger.reading() as connection:
        name = find_series(connection, series)
        refuse_other(connection, name, model, GIVE_CHAMPION)
        last = last_verdicts(REVIEWS.c.series == name)
        rows = connection.execute(
            sa.select(last).order_by(last.c.night, last.c.case_id)
        ).all()
        nights = entries.nights_at(connection, sorted({row.run for row in rows}))
    words = [
        LastWord(row.case_id, row.night, row.verdict, nights[row.run].table or "")
        for row in rows
    ]
    return Judged(name, tuple(words))


def record_retraining(
    ledger: Ledger, series: str, before: str, after: str, facts: TrainedOn
) -> Head:
    """Enter that model `after` was trained on the verdicts; the champion stays `before`."""
    with ledger.writing() as connection:
        refuse_other(connection, series, before, GIVE_CHAMPION)
        retrained = entries.Retrained(
            series=series, champion=before, model=after, trained_on=facts
        )
        return append(connection, ledger.clock(), retrained)
