"""What the nights add up to: workload, what reviews found and what was missed, and drift.

Of two models of a series, or of two series: whom both flag, whom only one, and who was right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import trail, verifying
from screening.ledger.control import RECENT_NIGHTS, control_charts, drift_over
from screening.ledger.database import CASES, REVIEWS, RUNS, TRAIL, WAITING, Ledger
from screening.ledger.kinds import Night, nights_at, scores_at
from screening.ledger.model_registry import champions, every_series, find_series, no_shadow
from screening.ledger.nights import in_force
from screening.ledger.review_stats import (
    Sample,
    flagged_samples,
    forward_nights,
    mean_of,
    misses,
    of_flagged,
    of_judged,
    pooled,
    tally,
    to_date,
    unflagged_sample,
)
from screening.ledger.trail import facts_of, portions
from screening.ledger.verdicts import in_order, last_words
from screening.schemas.history import (
    Flagging,
    HistoryDocument,
    JudgedShare,
    NightFigures,
    NightRun,
    NightsBeside,
    Promotion,
    Retirement,
    Retraining,
    SeriesFacts,
    ThresholdChange,
    Trail,
    Workload,
)
from screening.schemas.run import ScoreCounts
from screening.spelling import DIGITS, shown_series

Change = TypeVar("Change", ThresholdChange, Promotion, Retraining, Retirement)


def history(
    ledger: Ledger, series: str | None = None, *, verify: bool = False, printed: str | None = None
) -> dict[str, object]:
    """Every run, and what the runs of each series add up to; counts only, no patient. Shadows are left out.

    Parameters
    ----------
    ledger : Ledger
        As `open_ledger` gives it.
    series : str, optional
        Only this one, by its name; one without a name by the first digits it is shown by.
    verify : bool
        Follow the audit trail from its beginning first.
    printed : str, optional
        With `verify`: a head printed on a report, which the trail must still hold.

    Returns
    -------
    dict
        As `screen history --json` prints it: `runs`, one entry a run and revision, oldest first; `series`;
        `threshold_changes`; `promotions`; `retrainings`; `retirements`; `audit`.

    Raises
    ------
    Unchained
        With `verify`, naming the first entry that is not as it was written.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from screening import history, open_ledger
    >>> with open_ledger(f"{mkdtemp()}/screening.db", make=True) as ledger:
    ...     history(ledger)["runs"]
    []
    """
    with ledger.reading() as connection:
        head = verifying.verify(connection, printed) if verify else trail.head(connection)
        one = None if series is None else find_series(connection, series)
        chosen = sa.select(RUNS, TRAIL.c.recorded).join(TRAIL, TRAIL.c.number == RUNS.c.entry)
        chosen = chosen.where(~RUNS.c.shadow).order_by(RUNS.c.night, RUNS.c.entry)
        runs = list(connection.execute(chosen if one is None else chosen.where(RUNS.c.series == one)))
        entered = nights_at(connection, [run.entry for run in runs])
        standing = {(run.series, run.night): run.entry for run in runs}
        recent: dict[str, list[int]] = defaultdict(list)
        for (name, _), entry in standing.items():
            recent[name].append(entry)
        last = {
            entry: entered[entry]
            for entries in recent.values()
            for entry in entries[-RECENT_NIGHTS:]
            if entered[entry].model == entered[entries[-1]].model
        }
        scores = scores_at(connection, last)
        verdicts = in_order(connection, *([] if one is None else [REVIEWS.c.series == one]))
        flagged = _flagged(connection, one, sorted(standing.values()))
        changes = _changes(connection, one, "threshold", ThresholdChange)
        promotions = _changes(connection, one, "promote", Promotion)
        retrainings = _changes(connection, one, "retrain", Retraining)
        retirements = _changes(connection, one, "retire", Retirement)
        # By the entries that erased: to look for what is gone all parts would have to be read.
        claimed = verifying.claims(connection).values()
        erased = sum(len(places) for some in claimed for places, _ in some)
    reviews = defaultdict(list)
    for verdict in verdicts:
        reviews[verdict.key].append(verdict)
    told = {
        run.entry: _night(
            run, entered[run.entry], reviews[run.key], run.entry == standing[run.series, run.night]
        )
        for run in runs
    }
    document = HistoryDocument(
        runs=[*told.values()],
        series=[
            _series(
                [told[entry] for entry in entries],
                [scores[entry] for entry in entries if entry in scores],
                [one for one in verdicts if one.series == name],
                [flagged[entry] for entry in entries],
                [unflagged_sample(told[entry], reviews[entered[entry].key]) for entry in entries],
                entered[entries[-1]],
                changes,
                promotions,
            )
            for name, entries in recent.items()
        ],
        threshold_changes=changes,
        promotions=promotions,
        retrainings=retrainings,
        retirements=retirements,
        audit=Trail(entries=head.number, head=head.digest, verified=verify, erased=erased),
    )
    return document.to_dict()


def _flagged(
    connection: sa.Connection, series: str | None, entries: Sequence[int]
) -> dict[int, list[sa.Row[Any]]]:
    """The flagged cases of these runs that are in the random audit or were ever judged in the series."""
    reviewed = sa.select(REVIEWS.c.case_id).where(REVIEWS.c.flagged)
    if series is not None:
        reviewed = reviewed.where(REVIEWS.c.series == series)
    known = CASES.c.drawn | CASES.c.state.not_in(WAITING) | CASES.c.case_id.in_(reviewed)
    chosen = sa.select(CASES).where(CASES.c.state.is_not(None), known)
    cases = defaultdict(list)
    # By their numbers: a server may read the cases of every ward to join them with one ward's runs.
    for some in portions(entries):
        for row in connection.execute(chosen.where(CASES.c.entry.in_(some))):
            cases[row.entry].append(row)
    return cases


def _changes(
    connection: sa.Connection, series: str | None, kind: str, declared: type[Change]
) -> list[Change]:
    """Changes of threshold or champion, in order: all, or those made for this series or for every one."""
    changes = []
    for stated in facts_of(connection, kind):
        whose = stated.get("series")
        stated.pop("champion_of", None)
        if series is None or whose in (None, series):
            named = {"series": shown_series(whose)} if whose else {}
            changes.append(declared.from_dict(stated | named, "the ledger's trail"))
    return changes


def _night(run: sa.Row[Any], entered: Night, reviews: Sequence[sa.Row[Any]], in_force: bool) -> NightRun:
    words = [review.verdict for review in reviews if review.flagged]
    figures = {name: getattr(entered, name) for name in NightFigures.model_fields}
    return NightRun(
        **figures | {"model": entered.model[:12]},
        night=run.night,
        revision=run.revision,
        series=shown_series(run.series),
        recorded=run.recorded,
        in_force=in_force,
        flag_rate=entered.flagged / entered.scored if entered.scored else None,
        minutes=entered.review_minutes,
        verdicts=tally(words),
        ppv=of_judged(words),
        sample=tally(review.verdict for review in reviews if not review.flagged),
    )


def _series(
    nights: Sequence[NightRun],
    scores: Sequence[ScoreCounts],
    verdicts: Sequence[sa.Row[Any]],
    cases: Sequence[Sequence[sa.Row[Any]]],
    unflagged: Sequence[Sample],
    newest: Night,
    changes: Sequence[ThresholdChange],
    promotions: Sequence[Promotion],
) -> SeriesFacts:
    """What the nights in force add up to; `cases` and `unflagged` of each, `newest` as it was entered."""
    last = nights[-1]
    # A patient flagged on five nights is one patient: counted by the last word on them.
    words = {one.case_id: one.verdict for one in verdicts if one.flagged}.values()
    flagged = flagged_samples(list(zip(nights, cases, strict=True)), verdicts)
    return SeriesFacts(
        series=last.series,
        title=last.title,
        question=nights[0].question,
        nights=len(nights),
        first=nights[0].night,
        last=last.night,
        ppv=of_judged(words),
        ppv_flagged=of_flagged(pooled(flagged)),
        verdicts=tally(words),
        ppv_to_date=list(to_date([night.night for night in nights], verdicts)),
        workload=Workload(
            cases_per_night=mean_of(night.cases for night in nights),
            waiting_per_night=mean_of(night.waiting for night in nights),
            minutes_per_night=mean_of(night.minutes for night in nights),
        ),
        misses=misses(pooled(unflagged)),
        drift=drift_over(scores),
        control=control_charts(nights, changes, [one for one in promotions if one.series == last.series]),
        forward=forward_nights(nights, flagged, unflagged, newest.promised),
        review_by=newest.review_by,
    )


Pairs = Sequence[tuple[Night, Night, int]]
"""Of each night what one made of it, what the other did, and how many cases both flagged."""


def compare_nights(ledger: Ledger, series: str, beside: str) -> NightsBeside:
    """Compare a series' nights in force with a shadow's, by the digits of its model, or another series'."""
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
        neither=sum(a.units - a.cases - b.cases + n for a, b, n in alike),
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
    a, b = (sum(night.cases for night in side) for side in list(zip(*pairs, strict=True))[:2])
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
        cases_per_night=mean_of(night.cases for night in nights),
        waiting_per_night=mean_of(night.waiting for night in nights),
        minutes_per_night=mean_of(night.review_minutes for night in nights),
        ppv=ppv,
        only=sum(night.cases - both for night, _, both in pairs),
        only_ppv=only_ppv,
    )
