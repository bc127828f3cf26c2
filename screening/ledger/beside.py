"""A shadow beside its champion, or two series: whom both flag, whom only one, and who was right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from screening.documents.history import Flagging, NightsBeside
from screening.errors import UsageError
from screening.ledger.database import CASES, RUNS, Ledger
from screening.ledger.kinds import NightFacts, nights_at
from screening.ledger.model_registry import champions, every_series, find_series, no_shadow
from screening.ledger.nights import in_force
from screening.ledger.review_stats import mean_of, of_judged
from screening.ledger.trail import portions
from screening.ledger.verdicts import in_order
from screening.spelling import DIGITS, shown_series


@dataclass(frozen=True)
class _Night:
    """What one of the two made of a night."""

    cases: set[str]
    facts: NightFacts

    @property
    def units(self) -> int:
        return self.facts.counts.cases + self.facts.unflagged.cases

    @property
    def waiting(self) -> int:
        return self.facts.counts.new + self.facts.counts.pending


def compare_nights(ledger: Ledger, series: str, beside: str) -> NightsBeside:
    """Compare a series' nights in force with a shadow's, or with those of another series.

    `series`: as `history` takes it.
    `beside`: first digits of a model that was scored in shadow there, or another series.
    Raises UsageError: there is no such series or shadow.
    """
    with ledger.reading() as connection:
        known = champions(connection)
        one = find_series(connection, series)
        other, shadow = _beside(connection, one, beside)
        entries, others = (
            {run.night: run.entry for run in in_force(connection, name, model)}
            for name, model in ((one, None), (other, shadow))
        )
        common = sorted(entries.keys() & others.keys())
        ours = _nights(connection, [entries[night] for night in common])
        theirs = _nights(connection, [others[night] for night in common])
        last = {
            said.case_id: said.verdict
            for each in dict.fromkeys((one, other))
            for said in in_order(connection, each)
        }
    pairs = list(zip(ours, theirs, strict=True))
    alike = [(a, b) for a, b in pairs if (a.facts.table, a.units) == (b.facts.table, b.units)]
    agreement, kappa = _agreement(alike)
    return NightsBeside(
        nights=len(common),
        first=common[0] if common else None,
        last=common[-1] if common else None,
        other_tables=len(pairs) - len(alike),
        both=sum(len(a.cases & b.cases) for a, b in pairs),
        neither=sum(a.units - len(a.cases | b.cases) for a, b in alike),
        agreement=agreement,
        kappa=kappa,
        one=_flagging(one, known.get(one, ""), False, pairs, last),
        other=_flagging(
            other, shadow or known.get(other, ""), shadow is not None, [(b, a) for a, b in pairs], last
        ),
    )


def _beside(connection: sa.Connection, series: str, text: str) -> tuple[str, str | None]:
    """The series that is compared with, and the model whose shadow it is."""
    shadows = sa.select(RUNS.c.model).where(RUNS.c.series == series, RUNS.c.shadow).distinct()
    found = [model for model in connection.scalars(shadows) if len(text) >= 4 and model.startswith(text)]
    if len(found) > 1:
        raise UsageError(f"--beside {text}: several shadows begin so; give more of the digits")
    if found:
        return series, found[0]
    if DIGITS.fullmatch(text) and not any(each.startswith(text) for each in every_series(connection)):
        raise UsageError(no_shadow(series, text))
    other = find_series(connection, text)
    if other == series:
        raise UsageError(f"--beside {text}: a series beside itself; give a shadow's model or another series")
    return other, None


def _nights(connection: sa.Connection, entries: Sequence[int]) -> list[_Night]:
    cases = defaultdict(set)
    for some in portions(entries):
        flagged = sa.select(CASES.c.entry, CASES.c.case_id).where(CASES.c.state.is_not(None))
        for entry, name in connection.execute(flagged.where(CASES.c.entry.in_(some))):
            cases[entry].add(name)
    facts = nights_at(connection, entries)
    return [_Night(cases[entry], facts[entry]) for entry in entries]


def _agreement(pairs: Sequence[tuple[_Night, _Night]]) -> tuple[float | None, float | None]:
    """Share of units on which both say the same, and Cohen's kappa."""
    n = sum(a.units for a, _ in pairs)
    if not n:
        return None, None
    a, b = sum(len(one.cases) for one, _ in pairs), sum(len(other.cases) for _, other in pairs)
    differ = sum(len(one.cases ^ other.cases) for one, other in pairs)
    same, chance = 1 - differ / n, (a * b + (n - a) * (n - b)) / n**2
    return same, None if chance == 1 else (same - chance) / (1 - chance)


def _flagging(
    series: str,
    model: str,
    shadow: bool,
    pairs: Sequence[tuple[_Night, _Night]],
    last: Mapping[str, str],
) -> Flagging:
    mine = [night for night, _ in pairs]
    flagged = {name for night in mine for name in night.cases}
    only = {name for night, other in pairs for name in night.cases - other.cases}
    minutes = [(night.waiting, night.facts.minutes_per_review) for night in mine]
    return Flagging(
        series=shown_series(series),
        model=", ".join(dict.fromkeys(night.facts.model[:12] for night in mine)) or model[:12],
        shadow=shadow,
        cases_per_night=mean_of(len(night.cases) for night in mine),
        waiting_per_night=mean_of(night.waiting for night in mine),
        minutes_per_night=mean_of(None if each is None else waiting * each for waiting, each in minutes),
        ppv=of_judged(last[name] for name in flagged & last.keys()),
        only=sum(len(night.cases - other.cases) for night, other in pairs),
        only_ppv=of_judged(last[name] for name in only & last.keys()),
    )
