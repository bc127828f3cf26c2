"""What the nights add up to: workload, what reviews found and what was missed, and drift."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import sqlalchemy as sa

from screening.documents import ScoreCounts, reasons_in
from screening.documents.history import (
    HistoryDocument,
    MissingValues,
    NightRun,
    Promotion,
    Question,
    Retirement,
    Retraining,
    SeriesFacts,
    ThresholdChange,
    Trail,
    Workload,
)
from screening.documents.run import Unflagged
from screening.documents.series import shown_series
from screening.documents.shape import plain, read
from screening.documents.tables import of
from screening.ledger import audit
from screening.ledger.audit import portions, said
from screening.ledger.control import RECENT_NIGHTS, control_charts, drift_over
from screening.ledger.database import AUDIT, CASES, RUNS, Ledger
from screening.ledger.model_registry import find_series
from screening.ledger.review_stats import (
    Drawn,
    forward_nights,
    mean_of,
    misses,
    of_flagged,
    of_judged,
    tally,
    to_date,
)
from screening.ledger.verdicts import in_order
from screening.ledger.verifying import rewritten
from screening.ledger.verifying import verify as verify_trail


def history(
    ledger: Ledger, series: str | None = None, *, verify: bool = False, printed: str | None = None
) -> dict[str, object]:
    """Every run, and what the runs of each series add up to; counts only, no patient. Shadows are left out.

    `series`: only this one, by its name; one without a name by the first digits it is shown by.
    `verify`: follow the audit trail from its beginning first.
    `printed`: with `verify`: a head printed on a report, which the trail must still hold.
    Returns, as JSON has it, `runs`, one entry a run and revision, oldest first; `series`, one entry each;
    `threshold_changes`; `promotions`; `retrainings`; `retirements`; `audit`, with the number of `erased`
    parts.
    Raises Unchained: with `verify`: naming the first entry that is not as it was written.
    """
    with ledger.reading() as connection:
        head = verify_trail(connection, printed) if verify else audit.head(connection)
        one = None if series is None else find_series(connection, series)
        chosen = sa.select(RUNS, AUDIT.c.recorded).join(AUDIT, AUDIT.c.number == RUNS.c.entry)
        chosen = chosen.where(~RUNS.c.shadow).order_by(RUNS.c.night, RUNS.c.entry)
        runs = list(connection.execute(chosen if one is None else chosen.where(RUNS.c.series == one)))
        verdicts = in_order(connection, one)
        lots = _lots(connection, None if one is None else [run.entry for run in runs])
        told = _changes(connection, one, "threshold", ThresholdChange)
        promoted = _changes(connection, one, "promote", Promotion)
        trained = _changes(connection, one, "retrain", Retraining)
        closed = _changes(connection, one, "retire", Retirement)
        # Told by the entries that erased: to look for what is gone all contents would have to be read.
        erased = sum(digest is None for digest in rewritten(connection).values())
        latest = {(run.series, run.night): run.entry for run in runs if run.published}
        units = _units(connection, runs, latest)
    by_run, by_series = defaultdict(list), defaultdict(list)
    for verdict in verdicts:
        by_run[verdict.key].append(verdict)
        by_series[shown_series(verdict.series)].append(verdict)
    nights = [
        _night(
            run,
            by_run[run.key],
            latest.get((run.series, run.night)) == run.entry,
            tuple(lots[run.entry]),
            units.get(run.entry, {}),
        )
        for run in runs
    ]
    of_series = defaultdict(list)
    for night in nights:
        of_series[night.told.series].append(night)
    document = HistoryDocument(
        runs=[night.told for night in nights],
        series=[_series(name, mine, by_series[name], told, promoted) for name, mine in of_series.items()],
        threshold_changes=told,
        promotions=promoted,
        retrainings=trained,
        retirements=closed,
        audit=Trail(entries=head.number, head=head.digest, verified=verify, erased=erased),
    )
    return plain(document)


Change = TypeVar("Change", ThresholdChange, Promotion, Retraining, Retirement)


@dataclass(frozen=True)
class _Night:
    """A run: what is told of it, and what is not since it speaks of patients."""

    told: NightRun
    drawn: Drawn
    drift: ScoreCounts | None
    promised: Mapping[str, object] | None
    review_by: str | None


def _lots(connection: sa.Connection, entries: Sequence[int] | None) -> Mapping[int, list[str]]:
    """The cases that lots marked, by the entry of their run: of these runs, or of all."""
    asked = sa.select(CASES.c.entry, CASES.c.case_id).where(CASES.c.drawn)
    parts = [asked]
    if entries is not None:
        # By their numbers: a server may read the cases of every ward to join them with one ward's runs.
        parts = [asked.where(CASES.c.entry.in_(some)) for some in portions(entries)]
    marked = defaultdict(list)
    for part in parts:
        for row in connection.execute(part):
            marked[row.entry].append(row.case_id)
    return marked


def _changes(
    connection: sa.Connection, series: str | None, action: str, declared: type[Change]
) -> list[Change]:
    """Changes of threshold or champion, in order: all, or those made for this series or for every one."""
    told = []
    for each in said(connection, action):
        whose = each.get("series")
        if series is None or whose in (None, series):
            told.append(each | ({"series": shown_series(of(str, whose))} if whose else {}))
    return [read(declared, each, "the ledger's trail") for each in told]


def _units(
    connection: sa.Connection, runs: Sequence[sa.Row[Any]], latest: Mapping[tuple[str, str], int]
) -> dict[int, dict[str, object]]:
    """Hashes and cells of the patients of each series' recent nights: drift over nights reads no others."""
    recent: defaultdict[str, list[int]] = defaultdict(list)
    for run in runs:
        if latest.get((run.series, run.night)) == run.entry:
            recent[run.series].append(run.entry)
    last = [entry for entries in recent.values() for entry in entries[-RECENT_NIGHTS:]]
    parts = {entry: audit.part_of(connection, entry, audit.PATIENTS) for entry in last}
    return {entry: of(dict, part.get("drift", {})) for entry, part in parts.items()}


def _night(
    run: sa.Row[Any],
    reviews: list[sa.Row[Any]],
    in_force: bool,
    lots: tuple[str, ...],
    units: Mapping[str, object],
) -> _Night:
    facts = json.loads(run.facts)
    rows, counts = facts["rows"], facts["counts"]
    drift = ScoreCounts.of(facts.get("drift") and facts["drift"] | units)
    told = NightRun(
        night=run.night,
        run_id=facts["run_id"],
        revision=run.revision,
        series=shown_series(run.series),
        question=Question(**facts["question"]),
        title=facts["title"],
        model=facts["model"][:12],
        recipe=facts["recipe"],
        thresholds=facts["thresholds"],
        recorded=run.recorded,
        published=run.published,
        in_force=in_force,
        **rows,
        **counts,
        flag_rate=rows["flagged"] / rows["scored"] if rows["scored"] else None,
        minutes=_times(counts["new"] + counts["ongoing"], facts["minutes_per_review"]),
        capacity=facts["capacity"],
        verdicts=tally(one.verdict for one in reviews if one.flagged),
        ppv=of_judged(one.verdict for one in reviews if one.flagged),
        sample=tally(one.verdict for one in reviews if not one.flagged),
        unflagged=Unflagged(cases=facts["unflagged"]["cases"]),
        missing=MissingValues(**facts["missing"]) if facts.get("missing") else None,
        drift=drift and replace(drift, who=(), cell=()),
        attention=reasons_in(facts["attention"]),
    )
    lotted = Drawn(run.night, counts["new"], lots)
    return _Night(told, lotted, drift, facts.get("promised"), facts.get("review_by"))


def _times(count: float, minutes: float | None) -> float | None:
    return None if minutes is None else count * minutes


def _series(
    name: str,
    nights: Sequence[_Night],
    verdicts: Sequence[sa.Row[Any]],
    changes: Sequence[ThresholdChange],
    promotions: Sequence[Promotion],
) -> SeriesFacts:
    in_force = [night for night in nights if night.told.in_force]
    used = [night.told for night in in_force]
    # A patient flagged on five nights is one patient: counted by the last word on them.
    cases = {one.case_id: one.verdict for one in verdicts if one.flagged}
    latest = [night.drift for night in in_force if night.told.model == used[-1].model]
    mine = [each for each in promotions if each.series == name]
    drawn = [night.drawn for night in in_force]
    forward = forward_nights(used, drawn, verdicts, in_force[-1].promised if in_force else None)
    return SeriesFacts(
        series=name,
        title=used[-1].title if used else None,
        question=nights[0].told.question,
        nights=len(used),
        first=used[0].night if used else None,
        last=used[-1].night if used else None,
        ppv=of_judged(cases.values()),
        ppv_flagged=of_flagged(drawn, verdicts),
        verdicts=tally(cases.values()),
        ppv_to_date=list(to_date([run.night for run in used], verdicts)),
        workload=Workload(
            cases_per_night=mean_of([run.cases for run in used]),
            waiting_per_night=mean_of([run.new + run.ongoing for run in used]),
            minutes_per_night=mean_of([run.minutes for run in used]),
        ),
        misses=misses(used),
        drift=drift_over(latest[-RECENT_NIGHTS:]),
        control=control_charts(used, changes, mine),
        forward=forward,
        review_by=in_force[-1].review_by if in_force else None,
    )
