"""What the nights add up to: workload, PPV by reviews, missed cases, and drift.

Of two models of a series, or of two series: whom both flag, whom only one, and who was right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import review_stats as reviews
from screening.ledger import trail, verifying
from screening.ledger.control import RECENT_NIGHTS, control_charts, drift_over
from screening.ledger.database import CASES, IS_FLAGGED, REVIEWS, RUNS, TRAIL, WAITING, Ledger
from screening.ledger.entries import (
    Facts,
    Night,
    Promoted,
    Retired,
    Retrained,
    ThresholdChosen,
    nights_at,
    scores_at,
    stated,
)
from screening.ledger.model_registry import champions, every_series, find_series, no_shadow
from screening.ledger.nights import current_runs
from screening.ledger.verdicts import last_verdicts, ordered_verdicts
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
        changes = _changes(connection, one, ThresholdChosen, ThresholdChange)
        promotions = _changes(connection, one, Promoted, Promotion)
        names = sa.select(RUNS.c.series).where(
            ~RUNS.c.shadow, sa.literal(one is None) | (RUNS.c.series == one)
        )
        by_first_night = names.group_by(RUNS.c.series).order_by(
            sa.func.min(RUNS.c.night), sa.func.min(RUNS.c.entry)
        )
        runs, facts = dict[int, NightRun](), []
        for name in connection.scalars(by_first_night).all():
            of_series, sums = _series(connection, name, changes, promotions)
            runs |= of_series
            facts.append(sums)
        document = HistoryDocument(
            runs=[run for _, run in sorted(runs.items(), key=lambda item: (item[1].night, item[0]))],
            series=facts,
            threshold_changes=changes,
            promotions=promotions,
            retrainings=_changes(connection, one, Retrained, Retraining),
            retirements=_changes(connection, one, Retired, Retirement),
            audit=Trail(
                entries=head.number,
                head=head.digest,
                verified=verify,
                erased=verifying.count_erased(connection),
            ),
        )
    return document.to_dict()


def _changes(
    connection: sa.Connection, series: str | None, kind: type[Facts], document: type[Change]
) -> list[Change]:
    """Changes of threshold or champion, in order: all, or those made for this series or for every one."""
    changes = []
    for change in stated(connection, kind):
        values = dict(change.facts) | change._asdict()
        if series is None or values["series"] in (None, series):
            values["series"] = values["series"] and shown_series(values["series"])
            changes.append(document.from_dict({name: values[name] for name in document.model_fields}))
    return changes


def _series(
    connection: sa.Connection,
    series: str,
    changes: Sequence[ThresholdChange],
    promotions: Sequence[Promotion],
) -> tuple[Mapping[int, NightRun], SeriesFacts]:
    """The runs of a series by their entries, in order of their nights, and what those in force add up to."""
    chosen = sa.select(RUNS, TRAIL.c.recorded).join(TRAIL, TRAIL.c.number == RUNS.c.entry)
    chosen = chosen.where(RUNS.c.series == series, ~RUNS.c.shadow).order_by(RUNS.c.night, RUNS.c.entry)
    rows = connection.execute(chosen).all()
    entered = nights_at(connection, [row.entry for row in rows])
    verdicts = ordered_verdicts(connection, REVIEWS.c.series == series)
    on_run = defaultdict(list)
    for verdict in verdicts:
        on_run[verdict.key].append(verdict)
    last = {row.night: row.entry for row in rows}.values()
    runs = {row.entry: _run(row, entered[row.entry], on_run[row.key], row.entry in last) for row in rows}
    nights, newest = [runs[entry] for entry in last], entered[rows[-1].entry]
    cases = _judged_or_drawn(connection, series, [*last])
    flagged = reviews.flagged_samples([(runs[entry], cases[entry]) for entry in last], verdicts)
    unflagged = [reviews.unflagged_sample(runs[entry], on_run[entered[entry].key]) for entry in last]
    recent = {entry: entered[entry] for entry in [*last][-RECENT_NIGHTS:]}
    scores = scores_at(connection, {n: night for n, night in recent.items() if night.model == newest.model})
    # A patient flagged on five nights is one patient: counted by the last word on them.
    words = {verdict.case_id: verdict.verdict for verdict in verdicts if verdict.flagged}.values()
    shown = shown_series(series)
    return runs, SeriesFacts(
        series=shown,
        title=newest.title,
        question=nights[0].question,
        nights=len(nights),
        first=nights[0].night,
        last=nights[-1].night,
        ppv=reviews.judged_share(words),
        ppv_flagged=reviews.flagged_share(reviews.pooled(flagged)),
        verdicts=reviews.tally(words),
        ppv_to_date=list(reviews.shares_to_date([night.night for night in nights], verdicts)),
        workload=Workload(**_per_night(nights)),
        misses=reviews.misses(reviews.pooled(unflagged)),
        drift=drift_over([*scores.values()]),
        control=control_charts(nights, changes, [one for one in promotions if one.series == shown]),
        forward=reviews.forward_nights(nights, flagged, unflagged, newest.promised),
        review_by=newest.review_by,
    )


def _per_night(nights: Sequence[NightFigures]) -> dict[str, float | None]:
    """Means over nights, of what is known."""
    return {
        "cases_per_night": reviews.mean_of(night.cases for night in nights),
        "waiting_per_night": reviews.mean_of(night.waiting for night in nights),
        "minutes_per_night": reviews.mean_of(night.review_minutes for night in nights),
    }


def _run(row: sa.Row[Any], night: Night, verdicts: Sequence[sa.Row[Any]], in_force: bool) -> NightRun:
    words = [verdict.verdict for verdict in verdicts if verdict.flagged]
    figures = {name: getattr(night, name) for name in NightFigures.model_fields}
    return NightRun(
        **figures | {"model": night.model[:12]},
        night=row.night,
        revision=row.revision,
        series=shown_series(row.series),
        recorded=row.recorded,
        in_force=in_force,
        flag_rate=night.flagged / night.scored if night.scored else None,
        minutes=night.review_minutes,
        verdicts=reviews.tally(words),
        ppv=reviews.judged_share(words),
        sample=reviews.tally(verdict.verdict for verdict in verdicts if not verdict.flagged),
    )


def _judged_or_drawn(
    connection: sa.Connection, series: str, entries: Sequence[int]
) -> Mapping[int, list[sa.Row[Any]]]:
    """By run the flagged cases that are in the random audit or were ever judged in the series."""
    reviewed = sa.select(REVIEWS.c.case_id).where(REVIEWS.c.series == series, REVIEWS.c.flagged)
    counted = CASES.c.drawn | CASES.c.state.not_in(WAITING) | CASES.c.case_id.in_(reviewed)
    chosen, cases = sa.select(CASES).where(IS_FLAGGED, counted), defaultdict(list)
    # By their numbers: a server may read the cases of every ward to join them with one ward's runs.
    for case in trail.rows_in(connection, chosen, CASES.c.entry, entries):
        cases[case.entry].append(case)
    return cases


Pairs = Sequence[tuple[Night, Night, int]]
"""Of each night what one made of it, what the other did, and how many cases both flagged."""


def compare_nights(ledger: Ledger, series: str, beside: str) -> NightsBeside:
    """Compare a series' nights in force with a shadow's, by the digits of its model, or another series'."""
    with ledger.reading() as connection:
        models = champions(connection)
        one = find_series(connection, series)
        other, shadow = _compared_with(connection, one, beside)
        ours, theirs = current_runs(one).subquery(), current_runs(other, shadow).subquery()
        common = sa.select(ours.c.night, ours.c.entry.label("one"), theirs.c.entry.label("other"))
        nights = common.join(theirs, theirs.c.night == ours.c.night).cte()
        rows = connection.execute(sa.select(nights).order_by(nights.c.night)).all()
        facts = nights_at(connection, [entry for row in rows for entry in (row.one, row.other)])
        both, shares = _flagged_by(connection, nights, {one, other})
    pairs = [(facts[row.one], facts[row.other], both.get(row.night, 0)) for row in rows]
    same_table = [pair for pair in pairs if (pair[0].table, pair[0].units) == (pair[1].table, pair[1].units)]
    agreement, kappa = _agreement(same_table)
    model, others = models.get(one, ""), shadow or models.get(other, "")
    swapped = [(theirs, ours, n_both) for ours, theirs, n_both in pairs]
    return NightsBeside(
        nights=len(rows),
        first=rows[0].night if rows else None,
        last=rows[-1].night if rows else None,
        other_tables=len(pairs) - len(same_table),
        both=sum(both.values()),
        neither=sum(a.units - a.cases - b.cases + n_both for a, b, n_both in same_table),
        agreement=agreement,
        kappa=kappa,
        one=_flagging(one, model, False, pairs, shares["one"], shares["one alone"]),
        other=_flagging(other, others, shadow is not None, swapped, shares["other"], shares["other alone"]),
    )


def _compared_with(connection: sa.Connection, series: str, text: str) -> tuple[str, str | None]:
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


SIDES = ("one", "other")


def _flagged_by(
    connection: sa.Connection, nights: sa.CTE, series: set[str]
) -> tuple[Mapping[str, int], Mapping[str, JudgedShare]]:
    """By night the cases that both flagged; and by side the share with the condition of those it flagged.

    And the same of those that one of them flagged `alone` on a night.
    """
    sides = [
        sa.select(
            nights.c.night, CASES.c.case_id, *(sa.literal(int(own == side)).label(own) for own in SIDES)
        )
        .join(CASES, CASES.c.entry == nights.c[side])
        .where(IS_FLAGGED)
        for side in SIDES
    ]
    flags = sa.union_all(*sides).subquery()
    either = [sa.func.max(flags.c[side]).label(side) for side in SIDES]
    cases = sa.select(flags.c.night, flags.c.case_id, *either).group_by(flags.c.night, flags.c.case_id).cte()
    both = sa.select(cases.c.night, sa.func.sum(cases.c.one * cases.c.other)).group_by(cases.c.night)
    flagged = {side: cases.c[side] for side in SIDES} | {
        "one alone": cases.c.one - cases.c.other,
        "other alone": cases.c.other - cases.c.one,
    }
    ever = [sa.func.max(flag).label(name) for name, flag in flagged.items()]
    patients = sa.select(cases.c.case_id, *ever).group_by(cases.c.case_id).subquery()
    verdicts = last_verdicts(REVIEWS.c.series.in_(series))
    counts = [sa.func.count().filter(patients.c[name] == 1).label(name) for name in flagged]
    joined = sa.select(verdicts.c.verdict, *counts).join(patients, patients.c.case_id == verdicts.c.case_id)
    rows = connection.execute(joined.group_by(verdicts.c.verdict)).mappings().all()
    shares = {name: reviews.judged_share({row["verdict"]: row[name] for row in rows}) for name in flagged}
    return dict(connection.execute(both).all()), shares


def _agreement(pairs: Pairs) -> tuple[float | None, float | None]:
    """Share of units on which both say the same, and Cohen's kappa."""
    n = sum(ours.units for ours, _, _ in pairs)
    if not n:
        return None, None
    a, b = (sum(night.cases for night in side) for side in list(zip(*pairs, strict=True))[:2])
    same = 1 - (a + b - 2 * sum(n_both for *_, n_both in pairs)) / n
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
        **_per_night(nights),
        ppv=ppv,
        only=sum(night.cases - n_both for night, _, n_both in pairs),
        only_ppv=only_ppv,
    )
