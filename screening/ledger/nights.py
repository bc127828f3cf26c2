"""Entering a night, finding it as it was entered, and what the nights before it were.

Of a night's cases the ledger says which are new, going on, known or gone. A series has one table and one
model a night: another is refused unless it is forced, or scored in shadow. Of several runs of a night the one
recorded last is in force, and the others are kept.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count, islice, takewhile
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import model_registry, register, trail
from screening.ledger.database import CASES, REVIEWS, RUNS, STATES, WAITING, Ledger, by_bytes
from screening.ledger.kinds import COLUMNS, Night, Reserved, append, is_reserved, nights_at, source_digest
from screening.ledger.trail import Head, Part
from screening.ledger.verdicts import HAS_IT, last_words
from screening.monitoring.delivery import Elsewhere
from screening.monitoring.drift import WINDOW
from screening.schemas.base import Reason
from screening.schemas.run import Delivery, ScoreCounts, Since
from screening.spelling import shown_series

IN_A_PART = 5000
"""Cases in one part of an entry."""

FURTHEST = 2 * WINDOW
"""Nights in force that tonight is held against: some of them are no measure for later ones."""

OTHER_MODEL = (
    "--shadow scores it beside that one, `screen promote` puts it in its place, `screen threshold` and "
    "`screen approve` with --ledger record what they change, --force scores this one night with it"
)


def series_by(named: str | None, question: Mapping[str, object]) -> str:
    """The name of a series, or the digest of its question where it has none."""
    return named or hashlib.sha256(trail.plain(dict(question)).encode()).hexdigest()


@dataclass(frozen=True)
class NightCases:
    """What a night brings to the ledger."""

    key: str  # Digest of model, input, settings, series and date.
    # What is asked of the table: label, positive values, id and group columns.
    question: Mapping[str, object]
    night: str  # YYYY-MM-DD.
    flagged: Sequence[str]  # Ids of flagged cases (groups where rows come in groups), each once.
    sampled: Sequence[str]  # Ids of those drawn at random from the rest.
    facts: Mapping[str, Any]  # Figures for `screen history`; of patients only the hashes under `drift`.
    known_days: int = 30  # How long somebody confirmed stays known, counted from the night of the verdict.
    draw: int = 5  # Flagged cases without a verdict to draw into the random audit.
    columns: Mapping[str, Any] | None = None  # What its features counted, for the nights to come.
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


class Known(NamedTuple):
    """What the ledger knows of one flagged case on one night."""

    state: str  # One of "new", "pending", "ruled out", "known".
    nights: int  # Nights flagged in an unbroken row, tonight among them.
    # Night and word of the last verdict before tonight, whether or not it belongs to this row of nights.
    verdict: tuple[str, str] | None = None
    drawn: bool = False  # In the random audit of the flagged.


@contextmanager
def entering(
    ledger: Ledger, night: NightCases, *, force: bool = False, again: bool = False
) -> Iterator[Tonight]:
    """Enter a night in one transaction with what is done in the block, such as publishing its directory.

    Nobody else writes in the ledger meanwhile; where the block fails nothing was entered.

    `force`: enter a known night, or another table or model for it, as a new revision, judged by what is
    known now; the old one is kept. `again`: so with a known night alone. Raises UsageError: another table of
    this night is in force, or another model is the series' champion.
    """
    with ledger.writing() as connection, _listed(connection, night.flagged) as flagged:
        last = sa.select(RUNS).where(RUNS.c.key == night.key).order_by(RUNS.c.revision.desc()).limit(1)
        known = None if force or again else connection.execute(last).first()
        if known is None and not force:
            _refuse_second(connection, night)
        yield Tonight(connection, ledger.clock(), night, flagged, known)


def reserve(ledger: Ledger, night: NightCases) -> None:
    """Enter that a night is being scored, before its directory can appear.

    Killed after that, a directory may stand of which the ledger has nothing else: the night is scored again.
    """
    with ledger.writing() as connection:
        if not is_reserved(connection, night.series, night.night):
            append(connection, ledger.clock(), Reserved(series=night.series, night=night.night))


class Tonight:
    """A night in the transaction that enters it.

    `counts`: its cases, by state, and those no longer flagged. `since`: the night in force before it, and its
    cases not flagged now. `quiet`: nights in an unbroken row without a case, this one among them.
    Once it is entered, and from the beginning where it was entered before: `head`, the entry that vouches
    for it; `revision`, 1 or more after `--force`; `attention`; `drawn`, its random audit of the flagged.
    """

    def __init__(
        self,
        connection: sa.Connection,
        recorded: str,
        night: NightCases,
        flagged: sa.Table,
        known: sa.Row[Any] | None,
    ):
        self._connection, self._recorded, self._night, self._flagged = connection, recorded, night, flagged
        earlier = in_force(night.series, night.beside, RUNS.c.night < night.night)
        before = connection.execute(earlier).all()
        self.quiet = 0 if night.flagged else 1 + _quiet(connection, before)
        self._row = before if night.recognisable else []
        gone = self._no_longer()
        self.since = Since(night=self._row[-1].night, gone=gone) if self._row else None
        self.head: Head | None = None
        self.revision, self.drawn = 0, list[str]()
        self.attention: Sequence[Reason] = ()
        if known is None:
            states = Counter(case.state for _, case in self._recognised())
            self.counts = {"cases": states.total(), "no_longer_flagged": len(gone)}
            self.counts |= {name.replace(" ", "_"): states[name] for name in STATES}
        else:
            facts = nights_at(connection, [known.entry])[known.entry]
            self.head, self.revision = trail.head(connection, known.entry), known.revision
            self.counts, self.attention = dict(vars(facts.counts)), facts.attention
            drawn = sa.select(CASES.c.case_id).where(CASES.c.entry == known.entry, CASES.c.drawn)
            self.drawn = sorted(connection.scalars(drawn))

    def hand_out(self, *artefacts: register.Artefact) -> None:
        """Enter what shows the night, in the same transaction."""
        register.enter(self._connection, self._recorded, *artefacts)

    @property
    def chain(self) -> str:
        """Digest of the trail's first entry."""
        return trail.head(self._connection, 1).digest

    def known(self, names: Sequence[str]) -> dict[str, Known]:
        """Those of some names that are flagged cases of the night, as it was entered."""
        assert self.head is not None, "it is entered"
        mine = sa.select(CASES).where(CASES.c.entry == self.head.number, CASES.c.state.is_not(None))
        cases = {}
        for some in trail.portions(names):
            for row in self._connection.execute(mine.where(CASES.c.case_id.in_(some))):
                verdict = (row.judged, row.verdict) if row.judged else None
                cases[row.case_id] = Known(row.state, row.nights, verdict, row.drawn)
        return cases

    def enter(self, attention: Sequence[Reason]) -> None:
        """Enter the night, and why it wants attention."""
        night, connection = self._night, self._connection
        drift = dict(night.facts.get("drift") or {})
        who, cell = drift.pop("who", ()), drift.pop("cell", ())
        figures = {
            **night.facts, "drift": drift or None, "question": dict(night.question), "counts": self.counts,
            "attention": [*attention],
        }  # fmt: skip
        # One more than any run of this night in its role, whatever its table, and than any of this key.
        mine = (RUNS.c.series == night.series) & (RUNS.c.night == night.night) & role(night.beside)
        last = connection.scalar(
            sa.select(sa.func.max(RUNS.c.revision)).where(mine | (RUNS.c.key == night.key))
        )
        self.revision, self.attention = 1 + (last or 0), attention
        facts = {
            "key": night.key, "revision": self.revision, "series": night.series, "night": night.night,
            "model": night.model, "shadow": night.shadow, "facts": figures,
            "begins": not night.shadow and night.series not in model_registry.champions(connection),
        }  # fmt: skip
        self.head = append(
            connection, self._recorded, Night.from_dict(facts, "the night"),
            Part("lots", list(cell), list(map(str, who))), Part("columns", night.columns), self._parts(),
        )  # fmt: skip

    def _parts(self) -> Iterator[Part]:
        """The cases, some thousand a part; of those flagged the random audit is drawn on the way."""
        n_waiting = sum(self.counts[state] for state in WAITING)
        audit, place = audit_of(n_waiting, self._night.key, self._night.draw), count()

        def flagged() -> Iterator[tuple[str, tuple[object, ...]]]:
            for name, case in self._recognised():
                drawn = case.state in WAITING and next(place) in audit
                self.drawn += [name] if drawn else []
                yield name, (case.state, case.nights, drawn, *(case.verdict or (None, None)))

        sampled = ((name, (None, 0, False, None, None)) for name in self._night.sampled)
        rows = chain(sampled, flagged())
        while some := list(islice(rows, IN_A_PART)):
            names, facts = zip(*some, strict=True)
            yield Part("cases", facts, names)

    def _no_longer(self) -> list[str]:
        """Who was flagged on the night before and is not tonight, in order."""
        if not self._row:
            return []
        tonight = sa.select(self._flagged.c.case_id)
        before = sa.select(CASES.c.case_id).where(
            CASES.c.entry == self._row[-1].entry, CASES.c.state.is_not(None), CASES.c.case_id.not_in(tonight)
        )
        return sorted(self._connection.scalars(before))

    def _recognised(self) -> Iterator[tuple[str, Known]]:
        """The flagged cases in order of their ids, told new from known by the nights before this one.

        A case is known when it was last said to have the condition, and that either since it was first
        flagged in this row of nights or no more than `known_days` ago. Of the others it is pending when it
        was flagged on the last night before this one, ruled out when moreover it was judged not to have the
        condition in this row of nights, and new otherwise: who was judged so and comes back after a night
        without a flag is looked at again.
        """
        night, name = self._night, self._flagged.c.case_id
        if not self._row:
            yield from ((one, Known("new", 1)) for one in sorted(night.flagged))
            return
        nights = [run.night for run in self._row]
        first = datetime.date.fromisoformat(night.night).toordinal() - night.known_days
        recent = datetime.date.fromordinal(max(first, 1)).isoformat()
        words = last_words(
            REVIEWS.c.series == night.series,
            REVIEWS.c.night < night.night,
            REVIEWS.c.case_id.in_(sa.select(name)),
        )
        earlier = (CASES.c.entry == self._row[-1].entry) & (CASES.c.case_id == name)
        joined = sa.select(name, CASES.c.nights, words.c.night, words.c.verdict)
        joined = joined.outerjoin(CASES, earlier & CASES.c.state.is_not(None))
        joined = joined.outerjoin(words, words.c.case_id == name).order_by(by_bytes(self._connection, name))
        rows = self._connection.execute(joined, execution_options={"yield_per": IN_A_PART})
        for one, flagged, when, word in rows:
            stretch, verdict = flagged or 0, None if when is None else (when, word)
            since = nights[-min(stretch, len(nights))] if stretch else night.night
            yield one, Known(_state(verdict, since, stretch, recent), stretch + 1, verdict)


def _refuse_second(connection: sa.Connection, night: NightCases) -> None:
    if not night.shadow and night.series in model_registry.champions(connection):
        model_registry.refuse_other(connection, night.series, night.model, OTHER_MODEL)
    for run in connection.execute(in_force(night.series, night.beside, RUNS.c.night == night.night)):
        if run.key != night.key:
            raise UsageError(
                f"series {shown_series(night.series)} has another table for the night of {night.night}, "
                f"run {run.key[:12]}; another ward needs a --series of its own, a corrected table "
                "--force, which keeps the old"
            )


@contextmanager
def _listed(connection: sa.Connection, names: Sequence[str]) -> Iterator[sa.Table]:
    """Names as a table of this connection, so that the database joins them with millions of others."""
    column = sa.Column("case_id", CASES.c.case_id.type, primary_key=True)
    tonight = sa.Table("tonight", sa.MetaData(), column, prefixes=["TEMPORARY"])
    tonight.create(connection)
    for some in trail.portions(names, IN_A_PART):
        connection.execute(tonight.insert(), [{"case_id": name} for name in some])
    yield tonight
    tonight.drop(connection)


def _state(verdict: tuple[str, str] | None, since: str, stretch: int, recent: str) -> str:
    """What a case is by its last verdict, its row's first night and length, and what is recent."""
    when, word = verdict or ("", "unsure")
    in_this_row = bool(stretch) and when >= since
    if word in HAS_IT and (in_this_row or when >= recent):
        return "known"
    if word == "ruled out" and in_this_row:
        return "ruled out"
    return "pending" if stretch else "new"


def audit_of(n_waiting: int, key: str, most: int) -> set[int]:
    """The random audit of the flagged, as places among those who wait; the same for the same run."""
    rng = np.random.default_rng([int(hashlib.sha256(key.encode()).hexdigest(), 16), n_waiting])
    return set(rng.permutation(n_waiting)[:most].tolist())


def role(beside: str | None) -> Any:
    """Whether a run is of the champion's nights, or of those that this model scored in shadow."""
    return ~RUNS.c.shadow if beside is None else RUNS.c.shadow & (RUNS.c.model == beside)


def in_force(series: str, beside: str | None = None, *when: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """The runs of a series, in order of their nights; one a night, the last.

    `beside`: digest of a model: its nights in shadow, which follow each other and not the champion's.
    `when`: what holds for the runs besides.
    """
    last = sa.select(sa.func.max(RUNS.c.entry)).where(RUNS.c.series == series, role(beside), *when)
    return sa.select(RUNS).where(RUNS.c.entry.in_(last.group_by(RUNS.c.night))).order_by(RUNS.c.night)


def _quiet(connection: sa.Connection, before: Sequence[Any]) -> int:
    """How many of the last nights in a row had no case."""

    def is_quiet(run: sa.Row[Any]) -> bool:
        flagged = sa.select(CASES.c.entry).where(CASES.c.entry == run.entry, CASES.c.state.is_not(None))
        return connection.scalar(flagged.limit(1)) is None

    return len(list(takewhile(is_quiet, reversed(before))))


@dataclass(frozen=True)
class Published:
    """Runs of a series."""

    in_force: Mapping[str, str]  # By night, the key of the run that is in force.
    shadow: frozenset[str]  # Keys of runs in shadow.


def published(ledger: Ledger, series: str) -> Published:
    """What the ledger has of a series."""
    with ledger.reading() as connection:
        champions = connection.execute(in_force(series))
        shadows = sa.select(RUNS.c.key).where(RUNS.c.series == series, RUNS.c.shadow)
        return Published({run.night: run.key for run in champions}, frozenset(connection.scalars(shadows)))


@dataclass(frozen=True)
class PastNights:
    """Nights of a series before one that were in force, by night where they are many.

    `deliveries`: how each came. Of those that are a measure for later ones, the last `WINDOW` at most:
    `scores` of the same model, and `columns` by what its features counted. `patients`: keyed hashes of those
    of the last, where it was of the same model. `same_table`: nights of any series with the table in
    question. `accepted`: why somebody took this very table tonight.
    """

    deliveries: Mapping[str, Delivery]
    scores: Mapping[str, ScoreCounts]
    columns: Mapping[str, Mapping[str, Any]]
    patients: Sequence[int] | None
    same_table: Sequence[Elsewhere]
    accepted: str | None = None


def past_nights(
    ledger: Ledger, series: str, night: str, model: str, table: str, *, shadow: bool = False
) -> PastNights:
    """Read what tonight is held against.

    `model`: digest of tonight's; `table`: digests of the files of tonight's table.
    """
    beside = model if shadow else None
    with ledger.reading() as connection:
        runs = connection.execute(in_force(series, beside, RUNS.c.night < night)).all()[-FURTHEST:]
        tonight = [run.entry for run in connection.execute(in_force(series, beside, RUNS.c.night == night))]
        facts = nights_at(connection, [run.entry for run in runs] + tonight)
        came = {run: facts[run.entry].delivery for run in runs}
        measures = [run for run in runs if (delivery := came[run]) is not None and delivery.measure][-WINDOW:]
        scores = {
            run.night: drift
            for run in measures
            if (drift := facts[run.entry].drift) is not None and facts[run.entry].model == model
        }
        counted = trail.parts_of(connection, [run.entry for run in measures], COLUMNS)
        patients = None
        if measures and measures[-1].night in scores:
            last = measures[-1].entry
            drift = nights_at(connection, [last], patients_of=[last])[last].drift
            patients = drift.who or None if drift is not None else None
        same = sa.select(RUNS).where(RUNS.c.source == source_digest(table))
        again = connection.execute(same.order_by(RUNS.c.night, RUNS.c.entry)).all()
        accepted = (one.delivery for one in map(facts.__getitem__, tonight) if one.table == table)
        return PastNights(
            deliveries={run.night: delivery for run, delivery in came.items() if delivery is not None},
            scores=scores,
            columns={run.night: part.facts for run in measures if (part := counted[run.entry]).facts},
            patients=patients,
            same_table=[_elsewhere(connection, run, series, night, model) for run in again],
            accepted=next((delivery.accepted for delivery in accepted if delivery is not None), None),
        )


def _elsewhere(connection: sa.Connection, run: sa.Row[Any], series: str, night: str, model: str) -> Elsewhere:
    """A night with tonight's table, and whether that is odd: another series had other tables until now.

    That is by the last night of both before this one. Where they have no such night, one model has no reason
    to read one table under two names.
    """
    if run.series == series:
        return Elsewhere(run.night)
    mine, other = RUNS.alias(), RUNS.alias()
    both = sa.select(mine.c.source, other.c.source).where(
        mine.c.series == series, other.c.series == run.series, mine.c.night == other.c.night,
        mine.c.night < night, ~mine.c.shadow, ~other.c.shadow,
    )  # fmt: skip
    last = connection.execute(both.order_by(mine.c.night.desc(), mine.c.entry.desc()).limit(1)).first()
    differ = run.model == model if last is None else last[0] != last[1]
    return Elsewhere(run.night, shown_series(run.series), bool(differ))
