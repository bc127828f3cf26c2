"""Read and change the champion of a series: the model whose nights are in force.

Only an entry of the trail replaces a champion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import entries, trail
from screening.ledger.database import CHAMPIONS, RUNS, Ledger, Unchained
from screening.ledger.entries import (
    Approved,
    Retired,
    Stated,
    ThresholdChosen,
    append,
    stated,
)
from screening.ledger.location import ledger_word
from screening.ledger.trail import Head, text_part
from screening.schemas.history import NightsBeside
from screening.schemas.model import ModelDocument, TrainedOn
from screening.spelling import command_line, did_you_mean, shown_series

GIVE_CHAMPION = "give the directory of the champion"
NO_SHADOW = (
    "model {:.12} has no night in shadow in series {}; score it with `shadow` first"
)
REVISED_ELSEWHERE = (
    "it is the same model with a new threshold or approval, which was "
    "recorded for other series; to use it in this series too: {}"
)

Revision = ThresholdChosen | Approved
"""What makes one model of another with the same machines."""


def champions(connection: sa.Connection) -> dict[str, str]:
    """Return by series the digest of the model whose nights are in force.

    A series has none before its first night. It is read from the trail; Unchained if
    the table of champions, which anybody with write access to the database can change,
    differs.
    """
    in_trail = entries.champions_in_trail(connection)
    rows = connection.execute(
        sa.select(CHAMPIONS).order_by(CHAMPIONS.c.series, CHAMPIONS.c.entry)
    )
    if in_trail != {row.series: row.model for row in rows}:
        raise Unchained(
            f"the table {CHAMPIONS.name} differs from the audit trail",
            repair="rebuild",
        )
    return in_trail


def series_of_champion(ledger: Ledger, model: str) -> list[str]:
    """Return the series whose champion has a digest, in order."""
    with ledger.reading() as connection:
        return sorted(_series_with(connection, {model}))


def _series_with(connection: sa.Connection, models: Collection[str]) -> list[str]:
    """Return the series whose champion is one of some models."""
    by_series = champions(connection)
    return [series for series, model in by_series.items() if model in models]


def refuse_other(
    connection: sa.Connection, series: str, model: str, remedy: str
) -> None:
    """Raise UsageError for a model that is not the champion, with the remedy."""
    champion = champions(connection).get(series)
    if champion != model:
        if revisions_to(connection, champion, model):
            place = ledger_word(connection)
            words = ("promote", "MODEL", "--series", shown_series(series))
            promote_it = command_line(*words, "--ledger", place, "--reason", "WHY")
            remedy = REVISED_ELSEWHERE.format(promote_it)
        scored = "no model yet" if champion is None else f"model {champion[:12]}"
        raise UsageError(
            f"series {shown_series(series)} uses {scored}, but this is {model[:12]}: "
            f"{remedy}",
            parameters=["shadow", "force"],
        )


def record_revision(
    ledger: Ledger,
    action: str,
    change: Mapping[str, Any],
    series: Collection[str] | None = None,
) -> Head:
    """Enter that a model was rewritten; it replaces the one before as champion.

    Parameters
    ----------
    ledger : Ledger
    action : str
        "threshold" or "approve".
    change : mapping
        Facts of `ModelChange`, and a reason.
    series : collection of str, optional
        Replace the champion of these series only; of all if None. Empty for a copy from
        which no series is scored.
    """
    # An entry of several series is of none alone; `champion_of` has them.
    only = next(iter(series)) if series is not None and len(series) == 1 else None
    facts = {"series": only, "champion_of": (), **change}
    reason = facts.pop("reason", None)
    revision = entries.KINDS[action].from_dict(facts, "the change")
    before = facts["model_before"]
    after = facts["model_after"]
    with ledger.writing() as connection:
        # The same change twice in a row is entered once.
        for last in deque(stated(connection, type(revision)), 1):
            is_same = last.facts.replace(champion_of=()) == revision
            if is_same and last.reason == reason:
                return trail.head(connection, last.entry)
        if before == after:
            return trail.head(connection)
        replaced = _series_with(connection, {before})
        if series is not None:
            replaced = [name for name in replaced if name in series]
        parts = [] if reason is None else [text_part("reason", reason)]
        revision = revision.replace(champion_of=replaced)
        return append(connection, ledger.clock(), revision, *parts)


def is_of_other_models(ledger: Ledger, *models: str) -> bool:
    """Return True if series of a ledger are scored, none with one of these models."""
    with ledger.reading() as connection:
        in_use = set(champions(connection).values())
    return bool(in_use) and in_use.isdisjoint(models)


def record_sealed(ledger: Ledger, before: str, after: str) -> None:
    """Enter that a model was rewritten without a patient.

    It replaces the model before as champion.
    """
    with ledger.writing() as connection:
        replaced = {before}
        for seal in stated(connection, entries.SealedAnew):
            # Of a killed attempt: that model was never published.
            if seal.facts.model_before == before:
                replaced.add(seal.facts.model_after)
        replaced.discard(after)
        series = _series_with(connection, replaced)
        if series:
            facts = entries.SealedAnew(
                model_before=before, model_after=after, champion_of=series
            )
            append(connection, ledger.clock(), facts)


def revisions_to(
    connection: sa.Connection, before: str | None, after: str
) -> list[Stated[ThresholdChosen] | Stated[Approved]]:
    """Return the entries that made one model of another, in order.

    They are its thresholds and approvals. Empty if the trail has none that did.
    """
    made_by: dict[str, Stated[ThresholdChosen] | Stated[Approved]] = {}
    for chosen in stated(connection, ThresholdChosen):
        made_by[chosen.facts.model_after] = chosen
    for approved in stated(connection, Approved):
        made_by[approved.facts.model_after] = approved
    revisions: list[Stated[ThresholdChosen] | Stated[Approved]] = []
    model: str | None = after
    while model is not None and model != before:
        # Each entry once: a threshold may have been taken back.
        revision = made_by.pop(model, None)
        if revision is None:
            return []
        revisions.insert(0, revision)
        model = revision.facts.model_before
    return revisions if model is not None else []


def revisions_by_document(model: ModelDocument, before: str | None) -> list[Revision]:
    """Return the thresholds and approvals that made one model of another, in order.

    They are those of the model's own document, for a ledger that was not given when
    they were made. Empty if it was never the model `before`.
    """
    revisions: list[Revision] = []
    changes = list(model.thresholds_before)
    after = model.sha256
    approval = model.approval
    while after != before:
        if approval is not None and approval.drafts:
            draft = approval.drafts[0]
            if before is not None and before in approval.drafts:
                draft = before
            approved = Approved(
                model_before=draft,
                model_after=after,
                champion_of=(),
                by=approval.by,
                date=approval.date,
            )
            revisions.insert(0, approved)
            after, approval = draft, None
        elif changes:
            change = changes.pop()
            chosen = ThresholdChosen(
                model_before=change.model_before,
                model_after=after,
                champion_of=(),
                classes=change.classes,
            )
            revisions.insert(0, chosen)
            after, approval = change.model_before, change.approval
        else:
            return []
    return revisions


def is_revision(
    connection: sa.Connection, champion: str | None, model: ModelDocument
) -> bool:
    """Return True if a model is the champion with other thresholds or approvals."""
    is_in_trail = bool(revisions_to(connection, champion, model.sha256))
    return is_in_trail or bool(revisions_by_document(model, champion))


def follow_revisions(
    ledger: Ledger, series: str, model: ModelDocument, reason: str
) -> Head:
    """Make a revision of its champion the champion of a series too.

    The thresholds and approvals that lead to it were entered for other series, or the
    model's document alone has them; they are entered for this series.

    Raises
    ------
    UsageError
        If the model is not a revision of the champion.
    """
    why = trail.reason_of(reason)
    digest = model.sha256
    with ledger.writing() as connection:
        before = champions(connection).get(series)
        in_trail = revisions_to(connection, before, digest)
        revisions: list[Revision] = [each.facts for each in in_trail]
        revisions = revisions or revisions_by_document(model, before)
        if before != digest and not revisions:
            raise UsageError(NO_SHADOW.format(digest, shown_series(series)))
        for facts in revisions:
            for_series = facts.replace(champion_of=[series], series=series)
            append(connection, ledger.clock(), for_series, why)
        return trail.head(connection)


def promote(
    ledger: Ledger,
    series: str,
    model: str,
    reason: str,
    evidence: NightsBeside,
    drafts: Sequence[str] = (),
) -> Head:
    """Make a model that was scored in shadow the champion from now on.

    Parameters
    ----------
    ledger : Ledger
    series : str
    model : str
        Its digest.
    reason : str
    evidence : NightsBeside
        Its nights in shadow compared with the champion's.
    drafts : sequence of str
        Digests of the model before its approval, as its document has them.

    Raises
    ------
    UsageError
        If it has no night in shadow.
    """
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        before = champions(connection).get(series)
        if before == model:
            return trail.head(connection)
        if in_shadow(connection, series, model, drafts) is None:
            raise UsageError(
                NO_SHADOW.format(model, shown_series(series)), parameters=["shadow"]
            )
        facts = entries.Promoted(
            series=series,
            model_before=before,
            model_after=model,
            champion_of=[series],
            evidence=evidence,
        )
        return append(connection, ledger.clock(), facts, why)


def in_shadow(
    connection: sa.Connection, series: str, model: str, drafts: Sequence[str] = ()
) -> str | None:
    """Return the digest under which a model was scored in shadow, or None.

    That is its own digest, or that of a draft before its approval: the trail knows
    drafts that were approved with the ledger, the model's document all `drafts`.
    """
    drafts_in_trail = [
        approval.facts.model_before
        for approval in stated(connection, Approved)
        if approval.facts.model_after == model
    ]
    shadows = models_in_shadow(connection, series)
    for candidate in (*drafts, *drafts_in_trail, model):
        if candidate in shadows:
            return candidate
    return None


def models_in_shadow(connection: sa.Connection, series: str) -> set[str]:
    """Return the digests of the models that were scored in shadow in a series."""
    models = sa.select(RUNS.c.model).where(RUNS.c.series == series, RUNS.c.shadow)
    return set(connection.scalars(models.distinct()))


def every_series(connection: sa.Connection) -> list[str]:
    """Return the keys of the series that have a run, in order."""
    keys = sa.select(RUNS.c.series).distinct().order_by(RUNS.c.series)
    return list(connection.scalars(keys))


def find_series(connection: sa.Connection, text: str) -> str:
    """Find the key of a series by its name, or by the digits shown for it.

    UsageError if there is not exactly one.
    """
    keys = every_series(connection)
    matches = [key for key in keys if text in (key, shown_series(key))]
    if len(matches) != 1:
        names = list(map(shown_series, keys))
        hint = did_you_mean(text, names) or f"; it has {', '.join(names) or 'none'}"
        raise UsageError(f"the ledger has no series {text!r}{hint}")
    return matches[0]


def retire(ledger: Ledger, series: str, reason: str) -> Head:
    """Close a series, so that its nights are not due; a later night reopens it."""
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        name = find_series(connection, series)
        closed = retired(connection).get(name)
        if closed is not None and closed.reason == reason.strip():
            # The same command again, such as after it was killed.
            return trail.head(connection, closed.entry)
        if closed is not None:
            raise UsageError(f"series {shown_series(name)} is already closed")
        last = _last_nights(connection).get(name, "")
        facts = Retired(series=name, last=last)
        return append(connection, ledger.clock(), facts, why)


def retired(connection: sa.Connection) -> dict[str, Stated[Retired]]:
    """Return the entry by which each closed series was closed."""
    last = _last_nights(connection)
    closed: dict[str, Stated[Retired]] = {}
    for entry in stated(connection, Retired):
        series = entry.facts.series
        closed.pop(series, None)
        # A later night reopens it; one that is entered late does not.
        if last.get(series, "") <= entry.facts.last:
            closed[series] = entry
    return closed


def _last_nights(connection: sa.Connection) -> dict[str, str]:
    """Return the last night of each series."""
    runs = RUNS.c
    nights = (
        sa.select(runs.series, sa.func.max(runs.night))
        .where(~runs.shadow)
        .group_by(runs.series)
    )
    return dict(connection.execute(nights).all())


def record_retraining(
    ledger: Ledger,
    series: str,
    before: str,
    after: str,
    facts: TrainedOn,
    accepted: str | None = None,
) -> Head:
    """Enter that model `after` was trained on verdicts; `before` stays the champion.

    `accepted`: why ids of the past cohort were accepted.
    """
    with ledger.writing() as connection:
        refuse_other(connection, series, before, GIVE_CHAMPION)
        retrained = entries.Retrained(
            series=series,
            champion=before,
            model=after,
            trained_on=facts,
            accepted=accepted,
        )
        return append(connection, ledger.clock(), retrained)


def find_retraining(
    ledger: Ledger, series: str, before: str, after: str, facts: TrainedOn
) -> Head | None:
    """Find the entry of a retraining by the same verdicts; None without one."""
    retrained = entries.Retrained(
        series=series, champion=before, model=after, trained_on=facts
    )
    with ledger.reading() as connection:
        for entry in stated(connection, entries.Retrained):
            if entry.facts.replace(accepted=None).to_dict() == retrained.to_dict():
                return trail.head(connection, entry.entry)
    return None
