"""A shadow beside its champion, or two series: whom both flag, whom only one, and who was right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from screening.documents.history import Flagging, NightsBeside
from screening.errors import UsageError
from screening.ledger import trail
from screening.ledger.database import CASES, RUNS, Ledger
from screening.ledger.kinds import NightFacts, nights_in
from screening.ledger.model_registry import champion, every_series, find_series
from screening.ledger.nights import in_force
from screening.ledger.review_stats import mean_of, of_judged
from screening.ledger.trail import portions
from screening.ledger.verdicts import in_order
from screening.spelling import DIGITS, shown_series


@dataclass(frozen=True)
class _Track:
    """Nights that follow each other: a series' champion's, or those of a shadow beside it."""

    series: str
    model: str
    shadow: bool
    nights: Mapping[str, int]


@dataclass(frozen=True)
class _Night:
    """What one of the two made of a night."""

    model: str
    cases: frozenset[str]
    units: int
    waiting: int
    minutes: float | None
    table: str | None


def compare_nights(ledger: Ledger, series: str, beside: str) -> NightsBeside:
    """Compare a series' nights in force with a shadow's, or with those of another series.

    `series`: as `history` takes it.
    `beside`: first digits of a model that was scored in shadow there, or another series.
    Raises UsageError: there is no such series or shadow.
    """
    with ledger.reading() as connection:
        one = _champions(connection, find_series(connection, series))
        other = _beside(connection, one.series, beside)
        common = sorted(one.nights.keys() & other.nights.keys())
        ours, theirs = (_nights(connection, track, common) for track in (one, other))
        last = {
            said.case_id: said.verdict
            for each in dict.fromkeys((one.series, other.series))
            for said in in_order(connection, each)
        }
    pairs = list(zip(ours, theirs, strict=True))
    alike = [(a, b) for a, b in pairs if (a.table, a.units) == (b.table, b.units)]
    neither = sum(a.units - len(a.cases | b.cases) for a, b in alike)
    agreement, kappa = _agreement(alike)
    return NightsBeside(
        nights=len(common),
        first=common[0] if common else None,
        last=common[-1] if common else None,
        other_tables=len(pairs) - len(alike),
        both=sum(len(a.cases & b.cases) for a, b in pairs),
        neither=neither,
        agreement=agreement,
        kappa=kappa,
        one=_flagging(one, pairs, last),
        other=_flagging(other, [(b, a) for a, b in pairs], last),
    )


def _champions(connection: sa.Connection, series: str) -> _Track:
    nights = {run.night: run.entry for run in in_force(connection, series, None)}
    return _Track(series, champion(connection, series) or "", False, nights)


def _beside(connection: sa.Connection, series: str, text: str) -> _Track:
    shadows = sa.select(RUNS.c.model).where(RUNS.c.series == series, RUNS.c.shadow).distinct()
    found = [model for model in connection.scalars(shadows) if len(text) >= 4 and model.startswith(text)]
    if len(found) > 1:
        raise UsageError(f"--beside {text}: several shadows begin so; give more of the digits")
    if found:
        nights = {run.night: run.entry for run in in_force(connection, series, found[0])}
        return _Track(series, found[0], True, nights)
    if DIGITS.fullmatch(text) and not any(each.startswith(text) for each in every_series(connection)):
        raise UsageError(
            f"model {text[:12]} has no night in shadow in series {shown_series(series)}; "
            "score it with --shadow first"
        )
    other = find_series(connection, text)
    if other == series:
        raise UsageError(f"--beside {text}: a series beside itself; give a shadow's model or another series")
    return _champions(connection, other)


def _nights(connection: sa.Connection, track: _Track, nights: Sequence[str]) -> list[_Night]:
    entries = [track.nights[night] for night in nights]
    cases: dict[int, set[str]] = {entry: set() for entry in entries}
    for some in portions(entries):
        flagged = sa.select(CASES.c.entry, CASES.c.case_id)
        for row in connection.execute(flagged.where(CASES.c.entry.in_(some), CASES.c.state.is_not(None))):
            cases[row.entry].add(row.case_id)
    facts = {entry: nights_in(stated) for entry, stated in trail.stated(connection, entries).items()}
    return [_night(frozenset(cases[entry]), facts[entry]) for entry in entries]


def _night(cases: frozenset[str], facts: NightFacts) -> _Night:
    waiting, each = facts.counts.new + facts.counts.ongoing, facts.minutes_per_review
    return _Night(
        model=facts.model,
        cases=cases,
        units=facts.counts.cases + facts.unflagged.cases,
        waiting=waiting,
        minutes=None if each is None else waiting * each,
        table=facts.table,
    )


def _agreement(pairs: Sequence[tuple[_Night, _Night]]) -> tuple[float | None, float | None]:
    """Share of units on which both say the same, and Cohen's kappa."""
    n = sum(a.units for a, _ in pairs)
    if not n:
        return None, None
    a, b = sum(len(one.cases) for one, _ in pairs), sum(len(other.cases) for _, other in pairs)
    differ = sum(len(one.cases ^ other.cases) for one, other in pairs)
    same, chance = 1 - differ / n, (a * b + (n - a) * (n - b)) / n**2
    return same, None if chance == 1 else (same - chance) / (1 - chance)


def _flagging(track: _Track, pairs: Sequence[tuple[_Night, _Night]], last: Mapping[str, str]) -> Flagging:
    mine = [night for night, _ in pairs]
    flagged = {name for night in mine for name in night.cases}
    only = {name for night, other in pairs for name in night.cases - other.cases}
    return Flagging(
        series=shown_series(track.series),
        model=", ".join(dict.fromkeys(night.model[:12] for night in mine)) or track.model[:12],
        shadow=track.shadow,
        cases_per_night=mean_of(len(night.cases) for night in mine),
        waiting_per_night=mean_of(night.waiting for night in mine),
        minutes_per_night=mean_of(night.minutes for night in mine),
        ppv=of_judged(last[name] for name in flagged & last.keys()),
        only=sum(len(night.cases - other.cases) for night, other in pairs),
        only_ppv=of_judged(last[name] for name in only & last.keys()),
    )
