"""A shadow beside its champion, or two series: whom both flag, whom only one, and who was right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger.database import CASES, REVIEWS, RUNS, Ledger
from screening.ledger.kinds import NightFacts, nights_at
from screening.ledger.model_registry import champions, every_series, find_series, no_shadow
from screening.ledger.nights import in_force
from screening.ledger.review_stats import mean_of, of_judged
from screening.ledger.verdicts import last_words
from screening.schemas.history import Flagging, JudgedShare, NightsBeside
from screening.spelling import DIGITS, shown_series

Pairs = Sequence[tuple[NightFacts, NightFacts, int]]
"""Of each night what one made of it, what the other did, and how many cases both flagged."""


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
        ours, theirs = in_force(one).subquery(), in_force(other, shadow).subquery()
        common = sa.select(ours.c.night, ours.c.entry.label("one"), theirs.c.entry.label("other"))
        nights = common.join(theirs, theirs.c.night == ours.c.night).cte()
        rows = connection.execute(sa.select(nights).order_by(nights.c.night)).all()
        facts = nights_at(connection, [entry for row in rows for entry in (row.one, row.other)])
        both, shares = _both(connection, nights), _shares(connection, nights, {one, other})
    pairs = [(facts[row.one], facts[row.other], both.get(row.night, 0)) for row in rows]
    turned = [(b, a, n) for a, b, n in pairs]
    alike = [(a, b, n) for a, b, n in pairs if (a.table, a.units) == (b.table, b.units)]
    agreement, kappa = _agreement(alike)
    model, others = known.get(one, ""), shadow or known.get(other, "")
    return NightsBeside(
        nights=len(rows),
        first=rows[0].night if rows else None,
        last=rows[-1].night if rows else None,
        other_tables=len(pairs) - len(alike),
        both=sum(both.values()),
        neither=sum(a.units - a.counts.cases - b.counts.cases + n for a, b, n in alike),
        agreement=agreement,
        kappa=kappa,
        one=_flagging(one, model, False, pairs, *shares[:2]),
        other=_flagging(other, others, shadow is not None, turned, *shares[2:]),
    )


def _beside(connection: sa.Connection, series: str, text: str) -> tuple[str, str | None]:
    """The series that is compared with, and the model whose shadow it is."""
    shadows = sa.select(RUNS.c.model).where(RUNS.c.series == series, RUNS.c.shadow).distinct()
    models = [model for model in connection.scalars(shadows) if len(text) >= 4 and model.startswith(text)]
    if len(models) > 1:
        raise UsageError(f"--beside {text}: several shadows begin so; give more of the digits")
    if models:
        return series, models[0]
    if DIGITS.fullmatch(text) and not any(name.startswith(text) for name in every_series(connection)):
        raise UsageError(no_shadow(series, text))
    other = find_series(connection, text)
    if other == series:
        raise UsageError(f"--beside {text}: a series beside itself; give a shadow's model or another series")
    return other, None


def _both(connection: sa.Connection, nights: sa.CTE) -> Mapping[str, int]:
    """By night the cases that both flagged; without those of which there are none."""
    a, b = CASES.alias(), CASES.alias()
    flagged = sa.select(nights.c.night, sa.func.count()).group_by(nights.c.night)
    flagged = flagged.join(a, (a.c.entry == nights.c.one) & a.c.state.is_not(None))
    same = (b.c.entry == nights.c.other) & (b.c.case_id == a.c.case_id)
    return dict(connection.execute(flagged.join(b, same & b.c.state.is_not(None))).all())


def _shares(connection: sa.Connection, nights: sa.CTE, series: set[str]) -> list[JudgedShare]:
    """Of one and of the other: the share with the condition of those it flagged, and it alone on a night."""
    words, shares = last_words(REVIEWS.c.series.in_(series)), []
    counted = sa.select(words.c.verdict, sa.func.count()).group_by(words.c.verdict)
    for mine, others in ((nights.c.one, nights.c.other), (nights.c.other, nights.c.one)):
        a, b = CASES.alias(), CASES.alias()
        flagged = sa.select(a.c.case_id).join(nights, mine == a.c.entry).where(a.c.state.is_not(None))
        too = sa.exists().where(b.c.entry == others, b.c.case_id == a.c.case_id, b.c.state.is_not(None))
        for cases in (flagged, flagged.where(~too)):
            verdicts = connection.execute(counted.where(words.c.case_id.in_(cases)))
            shares.append(of_judged(dict(verdicts.all())))
    return shares


def _agreement(pairs: Pairs) -> tuple[float | None, float | None]:
    """Share of units on which both say the same, and Cohen's kappa."""
    n = sum(a.units for a, _, _ in pairs)
    if not n:
        return None, None
    a, b = (sum(night.counts.cases for night in side) for side in list(zip(*pairs, strict=True))[:2])
    same = 1 - (a + b - 2 * sum(both for *_, both in pairs)) / n
    chance = (a * b + (n - a) * (n - b)) / n**2
    return same, None if chance == 1 else (same - chance) / (1 - chance)


def _flagging(
    series: str, model: str, shadow: bool, pairs: Pairs, ppv: JudgedShare, only_ppv: JudgedShare
) -> Flagging:
    nights = [night for night, _, _ in pairs]
    return Flagging(
        series=shown_series(series),
        model=", ".join(dict.fromkeys(night.model[:12] for night in nights)) or model[:12],
        shadow=shadow,
        cases_per_night=mean_of(night.counts.cases for night in nights),
        waiting_per_night=mean_of(night.counts.waiting for night in nights),
        minutes_per_night=mean_of(night.minutes for night in nights),
        ppv=ppv,
        only=sum(night.counts.cases - both for night, _, both in pairs),
        only_ppv=only_ppv,
    )
