"""What the nights add up to: workload, PPV by reviews, missed cases, and drift.

Of two models of a series, or of two series: whom both flag, whom only one, and who was right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import entries, trail, verifying
from screening.ledger.database import CASES, IS_FLAGGED, REVIEWS, RUNS, TRAIL, Ledger
from screening.ledger.model_registry import (
    NO_SHADOW,
    champions,
    every_series,
    find_series,
    in_shadow,
)
from screening.ledger.nights import current_runs
from screening.ledger.verdicts import last_verdicts, ordered_verdicts
from screening.metrics.control import RECENT_NIGHTS, control_charts, drift_over
from screening.metrics.reviews import count_verdicts, judged_share, review_figures
from screening.schemas import history as documents
from screening.schemas.history import (
    NightFigures,
    NightRun,
    NightsBeside,
    Promotion,
    ThresholdChange,
)
from screening.schemas.run import WAITING
from screening.spelling import DIGITS, shown_series

Change = TypeVar(
    "Change", ThresholdChange, Promotion, documents.Retraining, documents.Retirement
)


def history(
    ledger: Ledger,
    series: str | None = None,
    *,
    verify: bool = False,
    printed: str | None = None,
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
        head = (
            verifying.verify(connection, printed) if verify else trail.head(connection)
        )
        one = None if series is None else find_series(connection, series)
        changes = _changes(connection, one, entries.ThresholdChosen, ThresholdChange)
        promotions = _changes(connection, one, entries.Promoted, Promotion)
        meant = sa.literal(one is None) | (RUNS.c.series == one)
        names = (
            sa.select(RUNS.c.series)
            .where(~RUNS.c.shadow, meant)
            .group_by(RUNS.c.series)
        )
        by_first_night = names.order_by(
            sa.func.min(RUNS.c.night), sa.func.min(RUNS.c.entry)
        )
        runs, facts = dict[int, NightRun](), []
        for name in connection.scalars(by_first_night).all():
            of_series, sums = _series(connection, name, changes, promotions)
            runs |= of_series
            facts.append(sums)
        # What entries say: to look for what is gone all parts would have to be read.
        erasures = entries.stated(connection, entries.Erasing)
        n_erased = sum(
            len(places)
            for erasing in erasures
            for *_, places, _ in erasing.facts.erased
        )
        document = documents.HistoryDocument(
            runs=[
                run
                for _, run in sorted(
                    runs.items(), key=lambda item: (item[1].night, item[0])
                )
            ],
            series=facts,
            threshold_changes=changes,
            promotions=promotions,
            retrainings=_changes(
                connection, one, entries.Retrained, documents.Retraining
            ),
            retirements=_changes(
                connection, one, entries.Retired, documents.Retirement
            ),
            audit=documents.Trail(
                entries=head.number, head=head.digest, verified=verify, erased=n_erased
            ),
        )
    return document.to_dict()


def _changes(
    connection: sa.Connection,
    series: str | None,
    kind: type[entries.Facts],
    document: type[Change],
) -> list[Change]:
    """Changes of threshold or champion, in order: all, or those made for this series or for every one."""
    changes = []
    for change in entries.stated(connection, kind):
        values = dict(change.facts) | change._asdict()
        if series is None or values["series"] in (None, series):
            values["series"] = values["series"] and shown_series(values["series"])
            changes.append(
                document.from_dict(
                    {name: values[name] for name in document.model_fields}
                )
            )
    return changes


def _series(
    connection: sa.Connection,
    series: str,
    changes: Sequence[ThresholdChange],
    promotions: Sequence[Promotion],
) -> tuple[Mapping[int, NightRun], documents.SeriesFacts]:
    """The runs of a series by their entries, in order of their nights, and what those in force add up to."""
    chosen = sa.select(RUNS, TRAIL.c.recorded).join(
        TRAIL, TRAIL.c.number == RUNS.c.entry
    )
    chosen = chosen.where(RUNS.c.series == series, ~RUNS.c.shadow).order_by(
        RUNS.c.night, RUNS.c.entry
    )
    rows, shown = connection.execute(chosen).all(), shown_series(series)
    entered = entries.nights_at(connection, [row.entry for row in rows])
    in_force = {row.night: row.entry for row in rows}
    verdicts, on_run = (
        ordered_verdicts(connection, REVIEWS.c.series == series),
        defaultdict(list),
    )
    for verdict in verdicts:
        on_run[verdict.key].append(verdict)
    runs = {}
    for row in rows:
        night, words = entered[row.entry], on_run[row.key]
        flagged = count_verdicts(
            verdict.verdict for verdict in words if verdict.flagged
        )
        figures = {name: getattr(night, name) for name in NightFigures.model_fields}
        runs[row.entry] = NightRun(
            **figures | {"model": row.model[:12]},
            night=row.night,
            revision=row.revision,
            series=shown,
            recorded=row.recorded,
            in_force=row.entry == in_force[row.night],
            flag_rate=night.flagged / night.scored if night.scored else None,
            minutes=night.review_minutes,
            verdicts=flagged,
            ppv=judged_share(flagged),
            sample=count_verdicts(
                verdict.verdict for verdict in words if not verdict.flagged
            ),
        )
    last = list(in_force.values())
    nights, newest = [runs[entry] for entry in last], entered[last[-1]]
    # Flagged cases in the random audit, or ever judged in the series.
    reviewed = sa.select(REVIEWS.c.case_id).where(
        REVIEWS.c.series == series, REVIEWS.c.flagged
    )
    counted = (
        CASES.c.drawn | CASES.c.state.not_in(WAITING) | CASES.c.case_id.in_(reviewed)
    )
    cases = defaultdict(list)
    # By their numbers: a server may read the cases of every ward to join them with one ward's runs.
    for case in trail.rows_in(
        connection, sa.select(CASES).where(IS_FLAGGED, counted), CASES.c.entry, last
    ):
        cases[case.entry].append(case)
    recent = {
        n: entered[n] for n in last[-RECENT_NIGHTS:] if entered[n].model == newest.model
    }
    return runs, documents.SeriesFacts(
        series=shown,
        title=newest.title,
        question=nights[0].question,
        nights=len(nights),
        first=nights[0].night,
        last=nights[-1].night,
        workload=documents.Workload(**_per_night(nights)),
        drift=drift_over([*entries.scores_at(connection, recent).values()]),
        control=control_charts(
            nights, changes, [one for one in promotions if one.series == shown]
        ),
        review_by=newest.review_by,
        **review_figures(
            nights,
            [cases[entry] for entry in last],
            verdicts,
            [on_run[entered[entry].key] for entry in last],
            newest.promised,
        ),
    )


def _per_night(nights: Sequence[NightFigures]) -> dict[str, float | None]:
    """Means over nights, of what is known."""
    figures: dict[str, list[float]] = {
        "cases_per_night": [night.cases for night in nights],
        "waiting_per_night": [night.waiting for night in nights],
        "minutes_per_night": [
            night.review_minutes for night in nights if night.review_minutes is not None
        ],
    }
    return {name: fmean(values) if values else None for name, values in figures.items()}


def compare_nights(ledger: Ledger, series: str, beside: str) -> NightsBeside:
    """Compare a series' nights in force with a shadow's, by the digits of its model, or another series'."""
    with ledger.reading() as connection:
        one = find_series(connection, series)
        other, shadow = _compared_with(connection, one, beside)
        models = champions(connection)
        own = (models.get(one, ""), shadow or models.get(other, ""))
        ours, theirs = (
            current_runs(one).subquery(),
            current_runs(other, shadow).subquery(),
        )
        common = sa.select(ours.c.entry, theirs.c.entry).join(
            theirs, theirs.c.night == ours.c.night
        )
        pairs = connection.execute(common.order_by(ours.c.night)).all()
        facts = entries.nights_at(
            connection, [entry for pair in pairs for entry in pair]
        )
        words = last_verdicts(REVIEWS.c.series.in_((one, other)))
        verdicts = dict(
            connection.execute(sa.select(words.c.case_id, words.c.verdict)).all()
        )
        # By side the cases that it flagged, and those that it flagged alone on a night.
        flagged, alone, n_both = (
            (set[str](), set[str]()),
            (set[str](), set[str]()),
            list[int](),
        )
        of_night = sa.select(CASES.c.case_id).where(
            CASES.c.entry == sa.bindparam("entry"), IS_FLAGGED
        )
        for pair in pairs:
            sides = [
                set(connection.scalars(of_night, {"entry": entry})) for entry in pair
            ]
            n_both.append(len(sides[0] & sides[1]))
            for side, names in enumerate(sides):
                flagged[side].update(names)
                alone[side].update(names - sides[1 - side])

    def ppv(names: Iterable[str]) -> documents.JudgedShare:
        return judged_share(
            count_verdicts(verdicts[name] for name in names if name in verdicts)
        )

    def flagging(side: int) -> documents.Flagging:
        nights = [facts[pair[side]] for pair in pairs]
        return documents.Flagging(
            series=shown_series((one, other)[side]),
            model=", ".join(dict.fromkeys(night.model[:12] for night in nights))
            or own[side][:12],
            shadow=side == 1 and shadow is not None,
            **_per_night(nights),
            ppv=ppv(flagged[side]),
            only=sum(night.cases for night in nights) - sum(n_both),
            only_ppv=ppv(alone[side]),
        )

    same_table = []
    for (ours, theirs), n in zip(pairs, n_both, strict=True):
        if (facts[ours].table, facts[ours].units) == (
            facts[theirs].table,
            facts[theirs].units,
        ):
            same_table.append(
                (facts[ours].units, facts[ours].cases, facts[theirs].cases, n)
            )
    return NightsBeside(
        nights=len(pairs),
        first=facts[pairs[0][0]].night if pairs else None,
        last=facts[pairs[-1][0]].night if pairs else None,
        other_tables=len(pairs) - len(same_table),
        both=sum(n_both),
        **_agreement(same_table),
        one=flagging(0),
        other=flagging(1),
    )


def _compared_with(
    connection: sa.Connection, series: str, text: str
) -> tuple[str, str | None]:
    """The series that is compared with, and the model whose shadow it is."""
    shadows = (
        sa.select(RUNS.c.model).where(RUNS.c.series == series, RUNS.c.shadow).distinct()
    )
    models = [
        model
        for model in connection.scalars(shadows)
        if len(text) >= 4 and model.startswith(text)
    ]
    if len(models) > 1:
        raise UsageError(
            f"--beside {text}: several shadows begin so; give more of the digits"
        )
    if models or (draft := in_shadow(connection, series, text)):
        return series, models[0] if models else draft
    if DIGITS.fullmatch(text) and not any(
        name.startswith(text) for name in every_series(connection)
    ):
        raise UsageError(NO_SHADOW.format(text, shown_series(series)))
    other = find_series(connection, text)
    if other == series:
        raise UsageError(
            f"--beside {text}: a series beside itself; give a shadow's model or another series"
        )
    return other, None


def _agreement(nights: Sequence[tuple[int, int, int, int]]) -> dict[str, Any]:
    """Agreement, kappa and how many neither flagged, of units, flags of one, of the other and of both."""
    n, a, b, both = (sum(column) for column in zip((0, 0, 0, 0), *nights, strict=True))
    if not n:
        return {"agreement": None, "kappa": None, "neither": 0}
    same, chance = 1 - (a + b - 2 * both) / n, (a * b + (n - a) * (n - b)) / n**2
    kappa = None if chance == 1 else (same - chance) / (1 - chance)
    return {"agreement": same, "kappa": kappa, "neither": n - a - b + both}
