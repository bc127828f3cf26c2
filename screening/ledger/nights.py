"""Enter a night, or find it as it was entered.

For each case of a night the ledger says if it is new, pending, ruled out or known. A
series has one table and one model a night: another is refused unless it is forced or
scored in shadow. Of several runs of a night the one recorded last is in force; the
others are kept.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from screening.errors import CohortError, UsageError
from screening.identity.hashes import Patients
from screening.ledger import model_registry, register, trail
from screening.ledger.current import current_runs, last_verdicts, of_role, reserved
from screening.ledger.database import (
    ARTEFACTS,
    CASES,
    IS_FLAGGED,
    REVIEWS,
    RUNS,
    Ledger,
)
from screening.ledger.entries import (
    Artefact,
    Night,
    Reserved,
    append,
    facts_at,
    run_id_of,
)
from screening.ledger.merging import Merges, merges_of
from screening.ledger.patients import patients_part
from screening.ledger.standing import NIGHTS_UNTIL_STANDING, GivenReasons
from screening.ledger.trail import Part
from screening.schemas.base import Reason
from screening.schemas.history import Question
from screening.schemas.run import HAS_IT, STATES, WAITING, Since
from screening.spelling import shown_series

# Cases in one part of an entry.
CASES_A_PART = 5000
OTHER_MODEL = (
    "if the other model was promoted, name its directory as `model` of the "
    "series in NIGHT.toml. If this is the same model with a threshold or "
    "approval that the ledger does not have, type `screen promote`. If it is a "
    "new model, score a night with `shadow` first. `force` uses it for this "
    "night only"
)

# Nights longer before the first one are not a back-fill.
MAX_DAYS_BEFORE_FIRST = 366
NIGHTS_SHOWN = 7
"""Nights beside a case on the page, tonight the last."""

# Tables of one connection: the database joins them with millions of rows of others.
# Defined once, because SQLAlchemy keeps what it compiled by the tables of a statement.
_OF_CONNECTION = sa.MetaData()
_TONIGHT = sa.Table(
    "tonight",
    _OF_CONNECTION,
    sa.Column("case_id", CASES.c.case_id.type, primary_key=True),
    prefixes=["TEMPORARY"],
)
_MERGED = sa.Table(
    "merged",
    _OF_CONNECTION,
    sa.Column("old", CASES.c.case_id.type),
    sa.Column("new", CASES.c.case_id.type),
    prefixes=["TEMPORARY"],
)


def series_by(name: str | None, question: Question) -> str:
    """Return the key of a series: its name, or the digest of its question."""
    if name:
        return name
    content = trail.plain(question.to_dict()).encode()
    return hashlib.sha256(content).hexdigest()


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
        Enter a known night as a new revision too, but refuse another table or model.

    Yields
    ------
    tonight : Tonight
        The night as it was entered, if the ledger has it and neither `force` nor
        `again` is given. Otherwise a night whose cases have their states, for the
        caller to enter.

    Raises
    ------
    UsageError
        If another table of this night is in force, or another model is the series'
        champion.
    """
    with ledger.writing() as connection:
        entry = None
        if not force and not again:
            is_of_key = RUNS.c.key == night.key
            last = sa.select(sa.func.max(RUNS.c.entry)).where(is_of_key)
            entry = connection.scalar(last)
        if entry is None and not force:
            _refuse_other_model(connection, night)
            _refuse_other_table(connection, night)
        _TONIGHT.create(connection)
        cases = ({"case_id": name} for name in flagged)
        while rows := list(islice(cases, CASES_A_PART)):
            connection.execute(_TONIGHT.insert(), rows)
        merged = MergedNumbers(connection, merges_of(connection).on(night.night))
        tonight = Tonight(connection, ledger.clock(), night, _TONIGHT, merged)
        if entry is None:
            tonight.count_states()
        else:
            tonight.load(entry)
        yield tonight
        _TONIGHT.drop(connection)
        merged.drop()


class MergedNumbers:
    """Patients whose numbers were merged, in a transaction.

    Parameters
    ----------
    connection : Connection
    merges : Merges
        Those that apply on the night.
    """

    def __init__(self, connection: sa.Connection, merges: Merges):
        self._connection = connection
        self.merges = merges
        if merges:
            _MERGED.create(connection)
            rows = [
                {"old": merge.old, "new": merge.new} for merge in merges.by_old.values()
            ]
            connection.execute(_MERGED.insert(), rows)

    def patient(self, case_id: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
        """Return the number by which the patient of a case is known now."""
        if not self.merges:
            return case_id
        new = sa.select(_MERGED.c.new).where(_MERGED.c.old == case_id)
        return sa.func.coalesce(new.scalar_subquery(), case_id)

    def drop(self) -> None:
        """Drop what was made for the transaction."""
        if self.merges:
            _MERGED.drop(self._connection)


def _refuse_other_model(connection: sa.Connection, night: Night) -> None:
    """Raise UsageError if another model is the champion of a night's series."""
    if night.shadow or night.series not in model_registry.champions(connection):
        return
    model_registry.refuse_other(connection, night.series, night.model, OTHER_MODEL)


def _refuse_other_table(connection: sa.Connection, night: Night) -> None:
    """Raise UsageError if a run of this night with another table is in force."""
    same_night = current_runs(
        night.series, night.shadow_model, RUNS.c.night == night.night
    )
    others = same_night.where(RUNS.c.key != night.key)
    run = connection.execute(others).first()
    if run is not None:
        raise UsageError(
            f"series {shown_series(night.series)} has another table for the night of "
            f"{night.night}, run {run_id_of(run.key)}. If this table belongs to "
            "another ward, give that ward its own `series`. If it is a correction, "
            "give `replace` with the reason; the old table is kept",
            parameters=["series", "replace"],
        )


def refuse_old_night(
    connection: sa.Connection, series: str, night: str, accepted: str | None
) -> None:
    """Raise CohortError for a night long before the first one of its series.

    Back-fills do not go so far: the year of the date is a typing error, unless the
    delivery was `accepted` for a reason.
    """
    first_night = sa.select(sa.func.min(RUNS.c.night)).where(RUNS.c.series == series)
    first = connection.scalar(first_night)
    if first is None or accepted is not None:
        return
    n_days = _day(first) - _day(night)
    if n_days > MAX_DAYS_BEFORE_FIRST:
        raise CohortError(
            f"the night of {night} is {n_days} days before the first of its series, "
            f"{first}; correct `date`, or give the reason with `accept_delivery`",
            parameters=["date", "accept_delivery"],
        )


def _day(night: str) -> int:
    """Return the number of a night's day."""
    return datetime.date.fromisoformat(night).toordinal()


def reserve(ledger: Ledger, series: str, night: str) -> None:
    """Enter that a night is being scored.

    If the command is killed after that, its directory may exist without an entry of the
    night; the night is then scored again.
    """
    with ledger.writing() as connection:
        if series not in reserved(connection, night):
            append(connection, ledger.clock(), Reserved(series=series, night=night))


class Tonight:
    """A night in the transaction that enters it.

    Parameters
    ----------
    connection : Connection
        Within the transaction.
    recorded : str
        Time of its entries.
    night : Night
    flagged : Table
        Ids of its flagged cases.
    merged : MergedNumbers

    Attributes
    ----------
    night : Night
        With the counts of its cases by state.
    head : Head
        End of the trail at its entry; number 0 until it is entered.
    drawn : list of str
        Ids of its random audit.
    quiet : int
        Length of the streak of nights without a case that ends with it.
    since : Since, optional
        The night in force before it, and the cases that are no longer flagged.
    """

    def __init__(
        self,
        connection: sa.Connection,
        recorded: str,
        night: Night,
        flagged: sa.Table,
        merged: MergedNumbers,
    ):
        self._connection = connection
        self._recorded = recorded
        self._flagged = flagged
        self._merged = merged
        self.night = night
        self.head = trail.head(connection, 0)
        self.drawn: list[str] = []
        has_cases = sa.exists().where(CASES.c.entry == RUNS.c.entry, IS_FLAGGED)
        earlier = current_runs(
            night.series, night.shadow_model, RUNS.c.night < night.night
        )
        chosen = earlier.add_columns(has_cases.label("has_cases"))
        before = connection.execute(chosen).all()
        self.quiet = self._count_quiet(before)
        # Without a column of ids no case is known from earlier nights.
        self._earlier = before
        self._before = before if night.question.recognisable else []
        self.since = self._since_last()

    def _count_quiet(self, before: Sequence[sa.Row[Any]]) -> int:
        """Count the nights without a case up to this one."""
        n_flagged = sa.select(sa.func.count()).select_from(self._flagged)
        if self._connection.scalar(n_flagged):
            return 0
        n_quiet = 1
        for run in reversed(before):
            if run.has_cases:
                break
            n_quiet += 1
        return n_quiet

    def _since_last(self) -> Since | None:
        """Return the last night before this one, and its cases not flagged now."""
        if not self._before:
            return None
        last = self._before[-1]
        gone = sa.select(CASES.c.case_id).where(
            CASES.c.entry == last.entry,
            IS_FLAGGED,
            self._merged.patient(CASES.c.case_id).not_in(self._patients()),
        )
        cases = self._connection.scalars(gone)
        return Since(night=last.night, gone=sorted(cases))

    def _patients(self) -> sa.Select[Any]:
        """Select the patients of the flagged cases, as they are known now."""
        return sa.select(self._merged.patient(self._flagged.c.case_id))

    def hand_out(self, *artefacts: Artefact) -> None:
        """Enter files that name the night's cases, in the same transaction."""
        register.enter(self._connection, self._recorded, *artefacts)

    @property
    def chain(self) -> str:
        """Digest of the trail's first entry."""
        return trail.head(self._connection, 1).digest

    def known(self, names: Sequence[str]) -> dict[str, sa.Row[Any]]:
        """Return the flagged cases among some ids, as they were entered, by id."""
        cases = sa.select(CASES).where(CASES.c.entry == self.head.number, IS_FLAGGED)
        rows = trail.rows_in(self._connection, cases, CASES.c.case_id, names)
        return {row.case_id: row for row in rows}

    def recent_flags(self, names: Sequence[str]) -> dict[str, list[bool]]:
        """Return for the last nights in force, tonight the last, if a case was flagged.

        By id, for flagged cases of tonight.
        """
        entries = [run.entry for run in self._before[1 - NIGHTS_SHOWN :]]
        cases = sa.select(CASES.c.case_id, CASES.c.entry).where(
            CASES.c.entry.in_(entries), IS_FLAGGED
        )
        flagged: dict[str, set[int]] = defaultdict(set)
        merges = self._merged.merges
        numbers = [number for name in names for number in merges.numbers(name)]
        for row in trail.rows_in(self._connection, cases, CASES.c.case_id, numbers):
            flagged[merges.patient(row.case_id)].add(row.entry)
        flags = {}
        for name in names:
            nights = flagged[merges.patient(name)]
            on_night = [entry in nights for entry in entries]
            flags[name] = [*on_night, True]
        return flags

    def numbers(self, name: str) -> list[str]:
        """Return all numbers of a patient, the given one first."""
        return self._merged.merges.numbers(name)

    def recent_runs(self) -> list[Path | None]:
        """Return the run directories of the last nights in force before tonight.

        In the order of `recent_flags`; None for one that is gone or was altered.
        """
        keys = [run.key for run in self._before[1 - NIGHTS_SHOWN :]]
        artefacts = register.current_artefacts(
            self._connection, ARTEFACTS.c.key.in_(keys), ARTEFACTS.c.what == "run"
        )
        places = {
            artefact.key: artefact.place
            for artefact in artefacts
            if register.state_of(artefact) == "as written"
        }
        return [places.get(key) for key in keys]

    def recent_reasons(self) -> list[GivenReasons]:
        """Return the reasons for attention of the last nights in force, in order."""
        entries = [run.entry for run in self._earlier[-NIGHTS_UNTIL_STANDING:]]
        nights = facts_at(self._connection, Night, entries)
        return [
            GivenReasons(nights[entry].night, nights[entry].attention)
            for entry in entries
        ]

    def load(self, entry: int) -> None:
        """Read the night as it was entered."""
        self.head = trail.head(self._connection, entry)
        self.night = facts_at(self._connection, Night, [entry])[entry]
        is_drawn = (CASES.c.entry == entry) & CASES.c.drawn
        drawn = self._connection.scalars(sa.select(CASES.c.case_id).where(is_drawn))
        self.drawn = sorted(drawn)

    @property
    def is_entered(self) -> bool:
        """False until the night is in the ledger."""
        return self.head.number > 0

    def count_states(self) -> None:
        """Count the cases of the night by state."""
        states = Counter(state for _, state, *_ in self._classified())
        counts = {name.replace(" ", "_"): states[name] for name in STATES}
        n_gone = len(self.since.gone) if self.since else 0
        self.night = self.night.replace(
            **counts, cases=states.total(), no_longer_flagged=n_gone
        )

    def enter(
        self,
        attention: Sequence[Reason] = (),
        sampled: Sequence[str] = (),
        columns: Mapping[str, Any] | None = None,
        patients: Patients | None = None,
    ) -> None:
        """Enter the night with its cases.

        Parameters
        ----------
        attention : sequence of Reason
        sampled : sequence of str
            Ids of cases drawn at random from those not flagged.
        columns : mapping, optional
            What the night's features counted.
        patients : Patients, optional
            Used to detect on later nights that ids are spelled differently.
        """
        night = self.night
        champions = model_registry.champions(self._connection)
        hashes: Sequence[int] = ()
        cells: Sequence[int] = ()
        drift = night.drift
        if drift is not None:
            hashes = drift.who
            cells = drift.cell
            drift = drift.replace(who=(), cell=())
        facts = night.replace(
            revision=self._next_revision(),
            attention=tuple(attention),
            begins=not night.shadow and night.series not in champions,
            drift=drift,
        )
        head = append(
            self._connection,
            self._recorded,
            facts,
            Part("lots", list(cells), list(map(str, hashes))),
            Part("columns", columns),
            patients_part(patients or Patients()),
            self._case_parts(sampled),
        )
        self.load(head.number)

    def _next_revision(self) -> int:
        """Return one more than any run of this night in its role, or of its key."""
        night = self.night
        runs = RUNS.c
        same_night = sa.and_(
            runs.series == night.series,
            runs.night == night.night,
            of_role(night.shadow_model),
        )
        is_earlier = same_night | (runs.key == night.key)
        last = sa.select(sa.func.max(runs.revision)).where(is_earlier)
        return 1 + (self._connection.scalar(last) or 0)

    def _case_parts(self, sampled: Sequence[str]) -> Iterator[Part]:
        """Yield the cases in parts, some thousand each."""
        unflagged = ((name, (None, 0, False, None, None)) for name in sampled)
        cases = chain(unflagged, self._flagged_cases())
        while part := list(islice(cases, CASES_A_PART)):
            names, facts = zip(*part, strict=True)
            yield Part("cases", facts, names)

    def _flagged_cases(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        """Yield the flagged cases, with facts; the random audit is drawn from them."""
        audit = audit_sample(self.night.waiting, self.night.key, self.night.draw)
        n_waiting = 0
        for name, state, n_nights, judged, verdict in self._classified():
            is_drawn = False
            if state in WAITING:
                is_drawn = n_waiting in audit
                n_waiting += 1
            yield name, (state, n_nights, is_drawn, judged, verdict)

    def _classified(self) -> Iterator[tuple[str, str, int, str | None, str | None]]:
        """Yield the flagged cases in order of their ids, with their states.

        Yields
        ------
        case_id : str
        state : str
        n_nights : int
            Nights it was flagged in a streak that ends tonight.
        judged, verdict : str, optional
            Night and word of the last verdict before tonight, in this streak or not.
        """
        night = self.night
        nights = [run.night for run in self._before]
        date = datetime.date.fromisoformat(night.night)
        first = max(date.toordinal() - night.known_days, 1)
        recent = datetime.date.fromordinal(first).isoformat()
        streamed = {"yield_per": CASES_A_PART}
        rows = self._connection.execute(self._with_earlier, execution_options=streamed)
        for case_id, n_before, judged, verdict in rows:
            since = night.night
            if n_before:
                since = nights[-min(n_before, len(nights))]
            state = _state(judged, verdict, since, n_before, recent)
            yield case_id, state, n_before + 1, judged, verdict

    @cached_property
    def _with_earlier(self) -> sa.Select[Any]:
        """Flagged cases, with their nights before and their last verdict."""
        name = self._flagged.c.case_id
        patient_of = self._merged.patient
        last_verdict = last_verdicts(
            REVIEWS.c.series == self.night.series,
            REVIEWS.c.night < self.night.night,
            patient_of(REVIEWS.c.case_id).in_(self._patients()),
            sa.literal(bool(self._before)),
            patient_of=patient_of,
        )
        last_entry = self._before[-1].entry if self._before else 0
        on_last_night = self._nights_until(last_entry)
        tonight = sa.select(name, patient_of(name).label("patient")).subquery()
        joined = (
            sa.select(
                tonight.c.case_id,
                sa.func.coalesce(on_last_night.c.nights, 0),
                last_verdict.c.night,
                last_verdict.c.verdict,
            )
            .outerjoin(on_last_night, on_last_night.c.patient == tonight.c.patient)
            .outerjoin(last_verdict, last_verdict.c.patient == tonight.c.patient)
        )
        # As Python orders them: a server orders by the rules of a language.
        if self._connection.dialect.name == "sqlite":
            return joined.order_by(tonight.c.case_id)
        return joined.order_by(sa.collate(tonight.c.case_id, "C"))

    def _nights_until(self, entry: int) -> sa.Subquery:
        """Return for each patient of a night its length of the streak of flags.

        If a patient had two numbers that night, the longer streak counts.
        """
        patient = self._merged.patient(CASES.c.case_id).label("patient")
        cases = sa.select(patient, CASES.c.nights).where(
            CASES.c.entry == entry, IS_FLAGGED
        )
        of_cases = cases.subquery()
        longest = sa.func.max(of_cases.c.nights).label("nights")
        return (
            sa.select(of_cases.c.patient, longest)
            .group_by(of_cases.c.patient)
            .subquery()
        )


def _state(
    judged: str | None, verdict: str | None, since: str, n_before: int, recent: str
) -> str:
    """Return the state of a flagged case.

    It is known if its last verdict says that it has the condition, and that verdict was
    given in this streak of nights or is recent. Of the others it is pending if it
    was flagged on the last night, ruled out if moreover it was judged so in this
    streak, and new otherwise: a case that comes back after a night without a flag is
    looked at again.

    Parameters
    ----------
    judged, verdict : str, optional
        Night and word of its last verdict.
    since : str
        First night of its streak.
    n_before : int
        Length of that streak before tonight.
    recent : str
        First night from which a verdict is recent.
    """
    is_in_row = bool(n_before) and judged is not None and judged >= since
    is_recent = str(judged) >= recent
    if verdict in HAS_IT and (is_in_row or is_recent):
        return "known"
    if verdict == "ruled out" and is_in_row:
        return "ruled out"
    return "pending" if n_before else "new"


def audit_sample(n_waiting: int, key: str, max_drawn: int) -> set[int]:
    """Draw the random audit of the flagged, the same for the same run.

    Returns the positions of the cases among the `n_waiting` that wait for a review.
    """
    seed = int(hashlib.sha256(key.encode()).hexdigest(), 16)
    rng = np.random.default_rng([seed, n_waiting])
    return set(rng.permutation(n_waiting)[:max_drawn].tolist())


def published(ledger: Ledger, series: str) -> tuple[Mapping[str, str], Set[str]]:
    """Return the key of the run in force by night, and the keys of runs in shadow."""
    with ledger.reading() as connection:
        runs = connection.execute(current_runs(series))
        in_force = {run.night: run.key for run in runs}
        shadows = sa.select(RUNS.c.key).where(RUNS.c.series == series, RUNS.c.shadow)
        return in_force, set(connection.scalars(shadows))
