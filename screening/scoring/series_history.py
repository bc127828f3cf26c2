"""A night compared with those of its series: delivery, drift, and known cases."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from screening.errors import CohortError, ScreenError
from screening.identity.hashes import Patients
from screening.ledger.database import Ledger
from screening.ledger.entries import Night
from screening.ledger.nights import Tonight
from screening.ledger.past_nights import PastNights, past_nights
from screening.ledger.standing import mark_standing
from screening.metrics.usual_events import usual_events
from screening.monitoring.delivery import (
    STAY_UNKNOWN,
    Finding,
    examine,
    independent,
    share_that_stays,
    still_there,
)
from screening.monitoring.drift import (
    MIN_REFERENCE_NIGHTS,
    Gates,
    own_nights,
)
from screening.report.model_attention import review_due
from screening.report.night_attention import (
    UsualFlags,
    attention_of_night,
    drift_reason,
)
from screening.report.verdict import usefulness_of
from screening.schemas.base import Reason
from screening.schemas.figures import LabelledCounts
from screening.schemas.history import (
    CASE_COUNTS,
    MissingValues,
    Question,
    SensitivityAndPpv,
)
from screening.schemas.reasons import IDS_ARE_ROW_NUMBERS
from screening.schemas.run import (
    Case,
    Counts,
    GroupFacts,
    LastVerdict,
    LedgerFacts,
    RunDocument,
)
from screening.scoring.reference_distribution import N_REMEMBERED_UNITS, compared
from screening.scoring.rows import Rows, refuse_altered
from screening.spelling import shown_series
from screening.store.model import Model
from screening.store.serialization import read_run

Listed = TypeVar("Listed", Case, GroupFacts)
# States of a case with a verdict: it needs no review tonight.
JUDGED = ("ruled out", "known")
# The past of a table that is scored without a ledger.
NO_NIGHTS = PastNights({}, {}, {}, None, ())
# Rows of a night from which on its scores are not read again for the page.
MAX_ROWS = 200_000


def past_of(
    run: RunDocument, ledger: Ledger | None, series: str, shadow: bool
) -> PastNights:
    """Return the nights that a run is compared with; without a ledger there are none.

    `series` is the key of its series.
    """
    if ledger is None:
        return NO_NIGHTS
    table = _digests_of(run)
    return past_nights(ledger, series, run.date, run.model.digest, table, shadow=shadow)


def _digests_of(run: RunDocument) -> str:
    """Return the digests by which the ledger knows the night's table."""
    return ",".join(file.sha256[:16] for file in run.input.files)


def with_delivery(
    model: Model,
    run: RunDocument,
    past: PastNights,
    ids: Sequence[Reason],
    accepted: str | None,
) -> RunDocument:
    """Return the run with its delivery compared with the nights before.

    Parameters
    ----------
    model : Model
    run : RunDocument
    past : PastNights
    ids : sequence of Reason
        What is wrong with how tonight's ids are written.
    accepted : str or None
        Why the delivery is right although it is unlike the others.

    Raises
    ------
    CohortError
        If the table is surely not tonight's, or not of this ward.
    """
    contract = model.contract
    delivery = run.delivery
    assert delivery is not None, "the summary counts it"
    delivery = delivery.replace(accepted=accepted or past.accepted)
    if past.patients is not None and run.drift is not None:
        before, still = still_there(
            past.patients, run.drift.who, N_REMEMBERED_UNITS, past.merged
        )
        delivery = delivery.replace(
            earlier=max(past.scores), before=before, still=still
        )
    dated = delivery
    if past is NO_NIGHTS:
        # A table that is scored alone has no night for which its rows could be too old,
        # and no later night to show whether it was whole.
        dated = delivery.replace(oldest=None, newest=None, ends_in_newline=None)
    examined, findings = examine(
        run.date,
        dated,
        past.deliveries,
        n_files=len(run.input.files),
        files_expected=contract.files_per_night,
        rows_expected=contract.rows_per_night,
        ids=ids,
        same_table=past.same_table,
    )
    delivery = examined.replace(
        oldest=delivery.oldest,
        newest=delivery.newest,
        newest_at=delivery.newest_at,
        ends_in_newline=delivery.ends_in_newline,
    )
    if delivery.accepted is not None:
        return run.replace(delivery=delivery, attention=[])
    _refuse_sure(findings)
    reasons = [finding.reason for finding in findings]
    return run.replace(delivery=delivery, attention=reasons)


def _refuse_sure(findings: Sequence[Finding]) -> None:
    """Raise CohortError for findings that leave no doubt."""
    faults = [
        f"{finding.reason.words} {finding.reason.remedy}"
        for finding in findings
        if finding.sure
    ]
    if faults:
        raise CohortError(faults)


def with_drift(
    model: Model, run: RunDocument, gates: Gates | None, past: PastNights
) -> RunDocument:
    """Return the run with reasons for values and scores that have drifted.

    From `MIN_REFERENCE_NIGHTS` nights on they are compared with the series' own nights,
    and what differs from training alone is kept apart.
    """
    share = independent(share_that_stays(past.deliveries.values()))
    alarms, training = _drift_of_values(gates, past, share)
    # What a model states about its ids is true of every table.
    for reason in model.facts.attention:
        if reason.code == IDS_ARE_ROW_NUMBERS.code:
            alarms.append(reason)
    scores, scores_in_training = _drift_of_scores(run, past, share)
    return run.replace(
        attention=[*run.attention, *alarms, *scores],
        unlike_training=[*training, *scores_in_training],
    )


def _drift_of_values(
    gates: Gates | None, past: PastNights, share: float
) -> tuple[list[Reason], list[Reason]]:
    """Return reasons of columns for attention, and those of training alone.

    `share`: of a night's rows that are independent of the night before.
    """
    if gates is None:
        return [], []
    unlike_training = gates.attention()
    bins = gates.counts()["bins"]
    nights = {
        day: counts for day, counts in past.columns.items() if counts["bins"] == bins
    }
    if len(nights) < MIN_REFERENCE_NIGHTS:
        return unlike_training, []
    n_rows = sum(past.deliveries[day].rows for day in nights)
    n_units = sum(past.deliveries[day].units for day in nights)
    reference = own_nights([*nights.values()], share * n_units / n_rows)
    unlike_own_nights = gates.attention(reference)
    training_alone = [
        reason for reason in unlike_training if reason not in unlike_own_nights
    ]
    return unlike_own_nights, training_alone


def _drift_of_scores(
    run: RunDocument, past: PastNights, share: float
) -> tuple[list[Reason], list[Reason]]:
    """Return reasons of scores for attention, and those of training alone."""
    reason = drift_reason(run.drift)
    unlike_training = [] if reason is None else [reason]
    if run.drift is None or len(past.scores) < MIN_REFERENCE_NIGHTS:
        return unlike_training, []
    counted = np.sum([night.counted for night in past.scores.values()], axis=0)
    earlier = np.rint(counted * share).astype(int)
    reason = drift_reason(compared(run.drift, earlier), len(past.scores))
    unlike_own_nights = [] if reason is None else [reason]
    return unlike_own_nights, unlike_training


def night_of(
    model: Model,
    run: RunDocument,
    key: str,
    series: str,
    shadow: bool,
    replaced: str | None = None,
) -> Night:
    """Return the run's entry for the ledger.

    `replaced`: why it replaces an earlier run of the night.
    """
    contract = model.contract
    counts = run.counts
    due = review_due(run.model, model.trained)
    missing = [feature.missing for feature in run.data]
    points = run.model.operating_points
    promised = None
    # Figures on the model's page apply to a night if its rows are the patients that the
    # ledger counts. "No case was seen" always applies.
    is_by_patient = run.model.stated.group is None or points[0].n_positive == 0
    if len(points) == 1 and is_by_patient:
        promised = SensitivityAndPpv(
            sensitivity=points[0]["sensitivity"], ppv=points[0]["ppv"]
        )
    review_by = due.isoformat() if due else None
    return Night(
        key=key,
        series=series,
        night=run.date,
        shadow=shadow,
        replaced=replaced,
        taken_at=run.times.taken_at,
        taken_from=run.times.taken_from,
        question=Question.of(model.facts),
        run_id=run.run_id,
        model=model.digest,
        recipe=model.facts.recipe.name,
        thresholds=dict(zip(model.watched, model.thresholds.tolist(), strict=True)),
        title=contract.title,
        minutes_per_review=contract.minutes_per_review,
        capacity=contract.capacity,
        read=counts.read,
        scored=counts.scored,
        refused=counts.refused,
        flagged=counts.flagged,
        out_of_bounds=counts.out_of_bounds,
        unflagged=run.unflagged,
        missing=MissingValues(
            missing=round(counts.scored * sum(missing)),
            values=counts.scored * len(missing),
        ),
        labelled=_labelled_counts(run),
        expected=run.expected,
        drift=run.drift,
        table=_digests_of(run),
        delivery=run.delivery,
        promised=promised,
        review_by=review_by,
        is_draft=model.facts.approval is None,
        approval=model.facts.approval,
        verdict=usefulness_of(model.facts).words,
        known_days=contract.known_days,
        draw=contract.review_sample,
    )


def _labelled_counts(run: RunDocument) -> LabelledCounts | None:
    """Count a labelled night by label and flag; None if several classes are watched."""
    points = run.model.operating_points
    observed = run.observed(points[0].label)
    if observed is None or len(points) > 1:
        return None
    counts = {name: getattr(observed, name) for name in LabelledCounts.model_fields}
    return LabelledCounts(**counts)


def enter_night(
    tonight: Tonight,
    run: RunDocument,
    past: PastNights,
    gates: Gates | None,
    patients: Patients,
    trained: datetime.datetime | None,
) -> None:
    """Enter a night with its reasons for attention, unless the ledger has it already.

    They are found once the ledger has counted its cases.

    Parameters
    ----------
    tonight : Tonight
    run : RunDocument
    past : PastNights
    gates : Gates or None
        What they counted is kept for later nights.
    patients : Patients
        Some of the night's, to detect on later nights that ids are spelled differently.
    trained : datetime or None
        When the model was trained.
    """
    if tonight.is_entered:
        return
    reasons = attention_of_night(
        run.replace(counts=_counts(run, tonight)),
        quiet=tonight.quiet,
        usual=_usual_flags(tonight.night, past),
        recognisable=tonight.night.question.recognisable,
        trained=trained,
    )
    tonight.enter(
        mark_standing(reasons, tonight.recent_reasons()),
        [case.id for case in run.sample],
        None if gates is None else gates.counts(),
        patients,
    )


def _usual_flags(night: Night, past: PastNights) -> UsualFlags | None:
    """Return the flags to expect after the series' own nights, if there are enough."""
    if len(past.flags) < MIN_REFERENCE_NIGHTS or not night.units:
        return None
    flagged, patients = np.array([*past.flags.values()], dtype=float).T
    stay = share_that_stays(past.deliveries.values())
    low, high = usual_events(flagged, patients, night.units, worth=independent(stay))
    if stay is None:
        stay = STAY_UNKNOWN
    return UsualFlags(
        nights=len(past.flags),
        low=low,
        high=high,
        rate=float(flagged.sum() / max(patients.sum(), 1)),
        stay=stay,
    )


def _counts(run: RunDocument, tonight: Tonight) -> Counts:
    by_state = {name: getattr(tonight.night, name) for name in CASE_COUNTS}
    return run.counts.replace(**by_state)


def with_states(run: RunDocument, tonight: Tonight, rows: Rows) -> RunDocument:
    """Return the run with what the ledger knows of its cases; write it into `rows`."""
    night = tonight.night
    head = tonight.head
    groups = [group.group for group in run.groups or ()]
    if run.groups is None:
        names = [str(case.id) for case in run.cases]
    else:
        names = [str(case.group) for case in run.cases]
    known = tonight.known([*{*names, *groups}])
    flags = tonight.recent_flags(list(known))
    numbers = {name: tonight.numbers(name) for name in known}
    p_values = recent_p_values(tonight.recent_runs(), numbers)

    def with_state(listed: Listed, name: str) -> Listed:
        case = known.get(name)
        if case is None:
            return listed
        verdict = None
        if case.judged is not None:
            verdict = LastVerdict(night=case.judged, verdict=case.verdict)
        return listed.replace(
            state=case.state,
            nights=case.nights,
            last_verdict=verdict,
            drawn=case.drawn,
            recent_flags=flags[name],
            recent_p_values=[*p_values[name], listed.p_value.value],
        )

    since = tonight.since
    if since is not None:
        since = since.replace(left=_without_row(rows, since.gone, tonight.numbers))
    rows.add_history(tonight.known)
    return run.replace(
        counts=_counts(run, tonight).replace(drawn=len(tonight.drawn)),
        cases=[*map(with_state, run.cases, names)],
        groups=run.groups and [*map(with_state, run.groups, groups)],
        attention=night.attention,
        since=since,
        ledger=LedgerFacts(
            key=night.key,
            revision=night.revision,
            entry=head.number,
            head=head.digest,
            series=shown_series(night.series),
            shadow=night.shadow,
            chain=tonight.chain,
        ),
    )


def _without_row(
    rows: Rows, names: Sequence[str], numbers: Callable[[str], Sequence[str]]
) -> list[str]:
    """Return the patients without a row under any of their numbers."""
    of_patient = {name: numbers(name) for name in names}
    every = dict.fromkeys(chain.from_iterable(of_patient.values()))
    no_row = set(rows.without_row([*every]))
    return [name for name in names if no_row.issuperset(of_patient[name])]


def waiting(run: RunDocument) -> list[float]:
    """Return the scores of those to be reviewed, the highest first.

    They are flagged, and were not judged on a night before.
    """
    if run.groups is None:
        return [case.score for case in run.cases if case.state not in JUDGED]
    return [
        group.top_score
        for group in run.groups
        if group.flagged and group.state not in JUDGED
    ]


def recent_p_values(
    runs: Sequence[Path | None], numbers: Mapping[str, Sequence[str]]
) -> dict[str, list[float | None]]:
    """Return the p-values of some ids (or groups) on some nights, by id.

    Parameters
    ----------
    runs : sequence of Path or None
        Run directory of each night.
    numbers : mapping of str to sequence of str
        All ids of each patient, by id: numbers may have been merged.

    Returns
    -------
    dict
        For a group, or for several ids, the p-value of the highest row. None for a
        night without a row of the id, without a valid run directory, or with very many
        rows.
    """
    every = [*dict.fromkeys(chain.from_iterable(numbers.values()))]
    nights = [_p_values_in(run, every) for run in runs]
    return {
        name: [_lowest(night, of_patient) for night in nights]
        for name, of_patient in numbers.items()
    }


def _lowest(p_values: Mapping[str, float], names: Sequence[str]) -> float | None:
    """Return the lowest p-value of some ids on a night; None if none was scored."""
    found = [p_values[name] for name in names if name in p_values]
    return min(found, default=None)


def _p_values_in(run: Path | None, names: Sequence[str]) -> dict[str, float]:
    """Return the p-values of some ids in a run directory; none where it is unsound."""
    if run is None or not names:
        return {}
    path = run / "scores.parquet"
    try:
        document = read_run(run)
        if document.counts.scored > MAX_ROWS or not document.outputs:
            return {}
        refuse_altered(path, document.outputs[path.name])
    except (ScreenError, OSError):
        return {}
    unit = Rows(path).unit
    is_named = pc.field(unit).isin(pa.array(names, pa.string()))
    rows = pq.read_table(path, columns=[unit, "p_value"], filters=is_named)
    lowest = rows.group_by(unit).aggregate([("p_value", "min")])
    return dict(
        zip(lowest[unit].to_pylist(), lowest["p_value_min"].to_pylist(), strict=True)
    )
