"""What the nights add up to: workload, what reviews found and what was missed, and drift."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeVar

import sqlalchemy as sa

from screening.ledger import trail, verifying
from screening.ledger.control import RECENT_NIGHTS, control_charts, drift_over
from screening.ledger.database import CASES, REVIEWS, RUNS, TRAIL, WAITING, Ledger
from screening.ledger.kinds import NightFacts, nights_at
from screening.ledger.model_registry import find_series
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
from screening.ledger.verdicts import in_order
from screening.schemas.history import (
    HistoryDocument,
    NightRun,
    Promotion,
    Retirement,
    Retraining,
    SeriesFacts,
    ThresholdChange,
    Trail,
    Workload,
)
from screening.spelling import shown_series

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
        last = {(run.series, run.night): run.entry for run in runs}
        recent: dict[str, Sequence[int]] = {}
        for (name, _), entry in last.items():
            recent[name] = [*recent.get(name, ()), entry][-RECENT_NIGHTS:]
        facts = nights_at(connection, [run.entry for run in runs], [*chain(*recent.values())])
        in_force = set(last.values())
        verdicts = in_order(connection, *([] if one is None else [REVIEWS.c.series == one]))
        flagged = _flagged(connection, one, sorted(in_force))
        changes = _changes(connection, one, "threshold", ThresholdChange)
        promotions = _changes(connection, one, "promote", Promotion)
        retrainings = _changes(connection, one, "retrain", Retraining)
        retirements = _changes(connection, one, "retire", Retirement)
        # By the entries that erased: to look for what is gone all parts would have to be read.
        claimed = verifying.claims(connection).values()
        erased = sum(len(places) for some in claimed for places, _ in some)
    reviews, of_series = defaultdict(list), defaultdict(list)
    for verdict in verdicts:
        reviews[verdict.key].append(verdict)
    nights = []
    for run in runs:
        night = _night(run, facts[run.entry], reviews[run.key], run.entry in in_force)
        nights.append(night)
        if night.in_force:
            cases, unflagged = flagged[run.entry], unflagged_sample(night, reviews[run.key])
            of_series[run.series].append((night, facts[run.entry], cases, unflagged))
    document = HistoryDocument(
        runs=nights,
        series=[
            _series(used, [one for one in verdicts if one.series == name], changes, promotions)
            for name, used in of_series.items()
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


def _night(run: sa.Row[Any], facts: NightFacts, reviews: Sequence[sa.Row[Any]], in_force: bool) -> NightRun:
    words = [review.verdict for review in reviews if review.flagged]
    return NightRun(
        night=run.night,
        run_id=facts.run_id,
        revision=run.revision,
        series=shown_series(run.series),
        question=facts.question,
        title=facts.title,
        model=facts.model[:12],
        recipe=facts.recipe,
        thresholds=facts.thresholds,
        recorded=run.recorded,
        in_force=in_force,
        **vars(facts.rows),
        **vars(facts.counts),
        flag_rate=facts.rows.flagged / facts.rows.scored if facts.rows.scored else None,
        minutes=facts.minutes,
        capacity=facts.capacity,
        verdicts=tally(words),
        ppv=of_judged(words),
        sample=tally(review.verdict for review in reviews if not review.flagged),
        unflagged=facts.unflagged,
        missing=facts.missing,
        drift=facts.drift and facts.drift.replace(who=(), cell=()),
        attention=facts.attention,
    )


def _series(
    used: Sequence[tuple[NightRun, NightFacts, Sequence[sa.Row[Any]], Sample]],
    verdicts: Sequence[sa.Row[Any]],
    changes: Sequence[ThresholdChange],
    promotions: Sequence[Promotion],
) -> SeriesFacts:
    """What the nights in force add up to; of each its run, facts, flagged cases and unflagged sample."""
    nights, facts, cases, unflagged = zip(*used, strict=True)
    last = nights[-1]
    # A patient flagged on five nights is one patient: counted by the last word on them.
    words = {one.case_id: one.verdict for one in verdicts if one.flagged}.values()
    recent = [one.drift for one in facts if one.model[:12] == last.model]
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
            waiting_per_night=mean_of(night.new + night.pending for night in nights),
            minutes_per_night=mean_of(night.minutes for night in nights),
        ),
        misses=misses(pooled(unflagged)),
        drift=drift_over(recent[-RECENT_NIGHTS:]),
        control=control_charts(nights, changes, [one for one in promotions if one.series == last.series]),
        forward=forward_nights(nights, flagged, unflagged, facts[-1].promised),
        review_by=facts[-1].review_by,
    )
