"""Entering a night, finding it as it was entered, and what the nights before it were.

Of a night's cases the ledger says which are new, going on, known or gone. A series has one table and one
model a night: another is refused unless it is forced, or scored in shadow. Of several runs of a night the one
recorded last is in force, and the others are kept.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count, islice, takewhile
from typing import Any

import numpy as np
import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import model_registry, register, trail
from screening.ledger.database import (
    CASES,
    IS_FLAGGED,
    RESERVATIONS,
    REVIEWS,
    RUNS,
    Ledger,
)
from screening.ledger.entries import (
    Artefact,
    Night,
    Reserved,
    append,
    nights_at,
    scores_at,
    source_digest,
)
from screening.ledger.trail import Part
from screening.ledger.verdicts import last_verdicts
from screening.monitoring.delivery import Elsewhere
from screening.monitoring.drift import WINDOW
from screening.schemas.base import Reason
from screening.schemas.history import Question
from screening.schemas.run import HAS_IT, STATES, WAITING, Delivery, ScoreCounts, Since
from screening.spelling import shown_series

CASES_A_PART = 5000
"""Cases in one part of an entry."""

FURTHEST = 2 * WINDOW
"""Nights in force that tonight is held against: some of them are no measure for later ones."""

OTHER_MODEL = (
    "--shadow scores it beside that one, `screen promote` puts it in its place, `screen threshold` and "
    "`screen approve` with --ledger record what they change, --force scores this one night with it"
)


def series_by(named: str | None, question: Question) -> str:
    """The name of a series, or the digest of its question where it has none."""
    return named or hashlib.sha256(trail.plain(question.to_dict()).encode()).hexdigest()


@contextmanager
def open_night(
    ledger: Ledger,
    night: Night,
    flagged: Iterable[str],
    *,
    force: bool = False,
    again: bool = False,
) -> Iterator[Tonight]:
    """Open the transaction of a night; what fails in the block leaves nothing entered.

    The cases have their states; a night that the ledger does not have is entered in the
    block, by `Tonight.enter`.

    Parameters
    ----------
    ledger : Ledger
    night : Night
    flagged : iterable of str
        Ids of the flagged cases (groups where rows come in groups), each once.
    force : bool
        Enter a known night, or another table or model for it, as a new revision, judged
        by what is known now; the old one is kept.
    again : bool
        So with a known night alone.

    Raises
    ------
    UsageError
        Another table of this night is in force, or another model is the series'
        champion.
    """
    with ledger.writing() as connection:
        last = sa.select(sa.func.max(RUNS.c.entry)).where(RUNS.c.key == night.key)
        entered = None if force or again else connection.scalar(last)
        if entered is None and not force:
            if not night.shadow and night.series in model_registry.champions(
                connection
            ):
                model_registry.refuse_other(
                    connection, night.series, night.model, OTHER_MODEL
                )
            same_night = current_runs(
                night.series, night.shadow_model, RUNS.c.night == night.night
            )
            for run in connection.execute(same_night.where(RUNS.c.key != night.key)):
                raise UsageError(
                    f"series {shown_series(night.series)} has another table for the night of {night.night}, "
                    f"run {run.key[:12]}; another ward needs a --series of its own, a corrected table "
                    "--force, which keeps the old"
                )
        # A table of this connection: the database joins it with millions of others.
        column = sa.Column("case_id", CASES.c.case_id.type, primary_key=True)
        names = sa.Table("tonight", sa.MetaData(), column, prefixes=["TEMPORARY"])
        names.create(connection)
        cases = ({"case_id": name} for name in flagged)
        while rows := list(islice(cases, CASES_A_PART)):
            connection.execute(names.insert(), rows)
        tonight = Tonight(connection, ledger.clock(), night, names)
        if entered is None:
            tonight.count_states()
        else:
            tonight.find(entered)
        yield tonight
        names.drop(connection)


def reserve(ledger: Ledger, series: str, night: str) -> None:
    """Enter that a night is being scored: killed after that, its directory may stand, and is scored again."""
    with ledger.writing() as connection:
        if series not in reserved(connection, night):
            append(connection, ledger.clock(), Reserved(series=series, night=night))


def reserved(connection: sa.Connection, night: str) -> list[str]:
    """The series of which this night was being scored, and has not been entered since."""
    of_series = (RUNS.c.series == RESERVATIONS.c.series) & (RUNS.c.night == night)
    entered_since = sa.exists().where(of_series, RUNS.c.entry > RESERVATIONS.c.entry)
    open_series = sa.select(RESERVATIONS.c.series).where(
        RESERVATIONS.c.night == night, ~entered_since
    )
    return list(connection.scalars(open_series.distinct()))


class Tonight:
    """A night in the transaction that enters it.

    `head` vouches for it, `drawn` is its audit; `quiet`: nights in an unbroken row without a case, with it
    counted; `since`: the night in force before it, and its cases not flagged now.
    """

    def __init__(
        self, connection: sa.Connection, recorded: str, night: Night, flagged: sa.Table
    ):
        self.night, self.head, self.drawn = (
            night,
            trail.head(connection, 0),
            list[str](),
        )
        self._connection, self._recorded, self._flagged = connection, recorded, flagged
        has_cases = (
            sa.exists()
            .where(CASES.c.entry == RUNS.c.entry, IS_FLAGGED)
            .label("has_cases")
        )
        earlier = current_runs(
            night.series, night.shadow_model, RUNS.c.night < night.night
        )
        before = connection.execute(earlier.add_columns(has_cases)).all()
        quiet_before = takewhile(lambda run: not run.has_cases, reversed(before))
        n_flagged = connection.scalar(sa.select(sa.func.count()).select_from(flagged))
        self.quiet = 0 if n_flagged else 1 + len(list(quiet_before))
        # Without a column of ids nobody is known again.
        self._before = before if night.question.recognisable else []
        self._last, self.since = 0, None
        if self._before:
            self._last = self._before[-1].entry
            gone = sa.select(CASES.c.case_id).where(
                CASES.c.entry == self._last,
                IS_FLAGGED,
                CASES.c.case_id.not_in(sa.select(flagged)),
            )
            self.since = Since(
                night=self._before[-1].night, gone=sorted(connection.scalars(gone))
            )

    def hand_out(self, *artefacts: Artefact) -> None:
        """Enter what shows the night, in the same transaction."""
        register.enter(self._connection, self._recorded, *artefacts)

    @property
    def chain(self) -> str:
        """Digest of the trail's first entry."""
        return trail.head(self._connection, 1).digest

    def known(self, names: Sequence[str]) -> dict[str, sa.Row[Any]]:
        """Rows of the cases of the night, as it was entered, of those of some names that are flagged."""
        cases = sa.select(CASES).where(CASES.c.entry == self.head.number, IS_FLAGGED)
        rows = trail.rows_in(self._connection, cases, CASES.c.case_id, names)
        return {row.case_id: row for row in rows}

    def find(self, entered: int) -> None:
        """Take the night as it was entered."""
        self.head = trail.head(self._connection, entered)
        self.night = nights_at(self._connection, [entered])[entered]
        drawn = sa.select(CASES.c.case_id).where(
            CASES.c.entry == entered, CASES.c.drawn
        )
        self.drawn = sorted(self._connection.scalars(drawn))

    @property
    def is_entered(self) -> bool:
        """False until the night is in the ledger."""
        return self.head.number > 0

    def count_states(self) -> None:
        """Count the cases of the night by state."""
        states = Counter(state for _, state, *_ in self._recognised())
        counts = {name.replace(" ", "_"): states[name] for name in STATES}
        gone = len(self.since.gone) if self.since else 0
        self.night = self.night.replace(
            **counts, cases=states.total(), no_longer_flagged=gone
        )

    def enter(
        self,
        attention: Sequence[Reason] = (),
        sampled: Sequence[str] = (),
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        """Enter the night with its cases.

        Parameters
        ----------
        attention : sequence of Reason
        sampled : sequence of str
            Ids of cases drawn at random from those not flagged.
        columns : mapping, optional
            What the night's features counted.
        """
        night = self.night
        # One more than any run of this night in its role, whatever its table, and than any of this key.
        same_night = (RUNS.c.series == night.series) & (RUNS.c.night == night.night)
        same_night &= of_role(night.shadow_model)
        last = sa.select(sa.func.max(RUNS.c.revision)).where(
            same_night | (RUNS.c.key == night.key)
        )
        facts = night.replace(
            revision=1 + (self._connection.scalar(last) or 0),
            attention=tuple(attention),
            begins=not night.shadow
            and night.series not in model_registry.champions(self._connection),
            drift=night.drift and night.drift.replace(who=(), cell=()),
        )
        cells, who = (night.drift.cell, night.drift.who) if night.drift else ((), ())
        parts = [Part("lots", [*cells], [*map(str, who)]), Part("columns", columns)]
        head = append(
            self._connection, self._recorded, facts, *parts, self._parts(sampled)
        )
        self.find(head.number)

    def _parts(self, sampled: Sequence[str]) -> Iterator[Part]:
        """The cases, some thousand a part; of those flagged the random audit is drawn on the way."""
        audit, place = (
            audit_sample(self.night.waiting, self.night.key, self.night.draw),
            count(),
        )
        unflagged = ((name, (None, 0, False, None, None)) for name in sampled)
        flagged = (
            (
                name,
                (
                    state,
                    nights,
                    state in WAITING and next(place) in audit,
                    judged,
                    verdict,
                ),
            )
            for name, state, nights, judged, verdict in self._recognised()
        )
        cases = chain(unflagged, flagged)
        while part := list(islice(cases, CASES_A_PART)):
            names, facts = zip(*part, strict=True)
            yield Part("cases", facts, names)

    def _recognised(self) -> Iterator[tuple[str, str, int, str | None, str | None]]:
        """The flagged cases in order of their ids, told new from known by the nights before this one.

        Of each its state, the nights it was flagged in an unbroken row, tonight among them, and night and
        word of the last verdict before tonight, whether or not it belongs to this row.
        """
        night, name, nights = (
            self.night,
            self._flagged.c.case_id,
            [run.night for run in self._before],
        )
        first = datetime.date.fromisoformat(night.night).toordinal() - night.known_days
        recent = datetime.date.fromordinal(max(first, 1)).isoformat()
        last = last_verdicts(
            REVIEWS.c.series == night.series,
            REVIEWS.c.night < night.night,
            REVIEWS.c.case_id.in_(sa.select(name)),
            sa.literal(bool(self._before)),
        )
        on_last_night = (
            (CASES.c.entry == self._last) & (CASES.c.case_id == name) & IS_FLAGGED
        )
        joined = sa.select(
            name, sa.func.coalesce(CASES.c.nights, 0), last.c.night, last.c.verdict
        )
        joined = joined.outerjoin(CASES, on_last_night).outerjoin(
            last, last.c.case_id == name
        )
        # As Python orders them: a server orders by the rules of a language.
        ordered = (
            name if self._connection.dialect.name == "sqlite" else sa.collate(name, "C")
        )
        streamed = {"yield_per": CASES_A_PART}
        rows = self._connection.execute(
            joined.order_by(ordered), execution_options=streamed
        )
        for case_id, n_before, judged, verdict in rows:
            since = nights[-min(n_before, len(nights))] if n_before else night.night
            yield (
                case_id,
                _state(judged, verdict, since, n_before, recent),
                n_before + 1,
                judged,
                verdict,
            )


def _state(
    judged: str | None, verdict: str | None, since: str, n_before: int, recent: str
) -> str:
    """What a case is by its last verdict, its row's first night and length, and what is recent.

    It is known when it was last said to have the condition, and that either since it was first flagged in
    this row of nights or no more than `known_days` ago. Of the others it is pending when it was flagged on
    the last night before this one, ruled out when moreover it was judged not to have the condition in this
    row of nights, and new otherwise: who was judged so and comes back after a night without a flag is looked
    at again.
    """
    in_this_row = bool(n_before) and judged is not None and judged >= since
    if verdict in HAS_IT and (in_this_row or str(judged) >= recent):
        return "known"
    if verdict == "ruled out" and in_this_row:
        return "ruled out"
    return "pending" if n_before else "new"


def audit_sample(n_waiting: int, key: str, most: int) -> set[int]:
    """The random audit of the flagged, as places among those who wait; the same for the same run."""
    rng = np.random.default_rng(
        [int(hashlib.sha256(key.encode()).hexdigest(), 16), n_waiting]
    )
    return set(rng.permutation(n_waiting)[:most].tolist())


def of_role(shadow_model: str | None) -> Any:
    """Whether a run is of the champion's nights, or of those that this model scored in shadow."""
    return (
        ~RUNS.c.shadow
        if shadow_model is None
        else RUNS.c.shadow & (RUNS.c.model == shadow_model)
    )


def current_runs(
    series: str, shadow_model: str | None = None, *when: sa.ColumnElement[bool]
) -> sa.Select[Any]:
    """The last run of each night of a series, in order; `shadow_model`: of its nights in shadow instead."""
    last = sa.select(sa.func.max(RUNS.c.entry)).where(
        RUNS.c.series == series, of_role(shadow_model), *when
    )
    return (
        sa.select(RUNS)
        .where(RUNS.c.entry.in_(last.group_by(RUNS.c.night)))
        .order_by(RUNS.c.night)
    )


def published(ledger: Ledger, series: str) -> tuple[Mapping[str, str], Set[str]]:
    """By night the key of the run of a series that is in force, and the keys of its runs in shadow."""
    with ledger.reading() as connection:
        in_force = {
            run.night: run.key for run in connection.execute(current_runs(series))
        }
        shadows = sa.select(RUNS.c.key).where(RUNS.c.series == series, RUNS.c.shadow)
        return in_force, set(connection.scalars(shadows))


@dataclass(frozen=True)
class PastNights:
    """Nights of a series before one that were in force, by night where they are many."""

    deliveries: Mapping[str, Delivery]  # How each came.
    # Of those that are a measure for later ones, the last `WINDOW` at most: of the same model its scores, and
    # what the features counted.
    scores: Mapping[str, ScoreCounts]
    columns: Mapping[str, Mapping[str, Any]]
    patients: (
        Sequence[int] | None
    )  # Keyed hashes of those of the last, where it was of the same model.
    same_table: Sequence[Elsewhere]  # Nights of any series with the table in question.
    accepted: str | None = None  # Why somebody took this very table tonight.


def past_nights(
    ledger: Ledger,
    series: str,
    night: str,
    model: str,
    table: str,
    *,
    shadow: bool = False,
) -> PastNights:
    """What tonight is held against; `model`: digest of tonight's, `table`: digests of its table's files."""
    with ledger.reading() as connection:
        in_role = current_runs(series, model if shadow else None, RUNS.c.night <= night)
        runs = connection.execute(in_role).all()
        nights = nights_at(
            connection, [run.entry for run in runs if run.night < night][-FURTHEST:]
        )
        tonight = nights_at(
            connection, [run.entry for run in runs if run.night == night]
        ).values()
        measures = [
            entry
            for entry, one in nights.items()
            if one.delivery and one.delivery.measure
        ][-WINDOW:]
        scored = {
            entry: nights[entry] for entry in measures if nights[entry].model == model
        }
        counted = trail.parts_of(connection, measures, "columns")
        last = scores_at(
            connection,
            {entry: scored[entry] for entry in measures[-1:] if entry in scored},
        )
        same_table = sa.select(RUNS).where(RUNS.c.source == source_digest(table))
        elsewhere = connection.execute(
            same_table.order_by(RUNS.c.night, RUNS.c.entry)
        ).all()
        return PastNights(
            deliveries={
                one.night: one.delivery for one in nights.values() if one.delivery
            },
            scores={one.night: one.drift for one in scored.values() if one.drift},
            columns={
                nights[entry].night: counted[entry].facts
                for entry in measures
                if counted[entry].facts
            },
            patients=next((drift.who or None for drift in last.values()), None),
            same_table=[
                _elsewhere(connection, run, series, night, model) for run in elsewhere
            ],
            accepted=next(
                (
                    one.delivery.accepted
                    for one in tonight
                    if one.table == table and one.delivery
                ),
                None,
            ),
        )


def _elsewhere(
    connection: sa.Connection, run: sa.Row[Any], series: str, night: str, model: str
) -> Elsewhere:
    """A night with tonight's table, and whether that is odd: another series had other tables until now.

    Where they have no night in common, one model has no reason to read one table under two names.
    """
    if run.series == series:
        return Elsewhere(run.night)
    ours, theirs = RUNS.alias(), RUNS.alias()
    common = sa.select(ours.c.source != theirs.c.source).where(
        ours.c.series == series,
        theirs.c.series == run.series,
        ours.c.night == theirs.c.night,
        ours.c.night < night,
        ~ours.c.shadow,
        ~theirs.c.shadow,
    )
    differ = connection.scalar(
        common.order_by(ours.c.night.desc(), ours.c.entry.desc()).limit(1)
    )
    is_odd = run.model == model if differ is None else bool(differ)
    return Elsewhere(run.night, shown_series(run.series), is_odd)
