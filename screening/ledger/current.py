"""Queries for what counts now: the last run of each night, and the last verdicts.

A verdict is current on a case of a run, and the last one on a patient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from screening.ledger.database import RESERVATIONS, REVIEWS, RUNS
from screening.schemas.run import HAS_IT

LATEST = ("given", "entry")
# The columns of verdicts from which the current ones are made.
_COLUMNS = (
    REVIEWS.c.entry,
    REVIEWS.c.key,
    REVIEWS.c.case_id,
    REVIEWS.c.series,
    REVIEWS.c.night,
    REVIEWS.c.flagged,
    REVIEWS.c.verdict,
    REVIEWS.c.given,
    REVIEWS.c.reviewer,
    REVIEWS.c.action,
)


def of_role(shadow_model: str | None) -> Any:
    """Return the condition that a run is the champion's, or in shadow by a model."""
    if shadow_model is None:
        return ~RUNS.c.shadow
    return RUNS.c.shadow & (RUNS.c.model == shadow_model)


def current_runs(
    series: str, shadow_model: str | None = None, *when: sa.ColumnElement[bool]
) -> sa.Select[Any]:
    """Return the last run of each night of a series, in order of nights.

    `shadow_model`: of its nights in shadow by this model instead.
    """
    runs = RUNS.c
    last = (
        sa.select(sa.func.max(runs.entry))
        .where(runs.series == series, of_role(shadow_model), *when)
        .group_by(runs.night)
    )
    return sa.select(RUNS).where(runs.entry.in_(last)).order_by(runs.night)


def reserved(connection: sa.Connection, night: str) -> list[str]:
    """Return the series whose scoring of this night began and was never entered."""
    runs = RUNS.c
    reservations = RESERVATIONS.c
    entered_since = sa.exists().where(
        runs.series == reservations.series,
        runs.night == night,
        runs.entry > reservations.entry,
    )
    open_series = sa.select(reservations.series).where(
        reservations.night == night, ~entered_since
    )
    return list(connection.scalars(open_series.distinct()))


def _last(
    rows: sa.FromClause, group_by: Sequence[str], order_by: Sequence[str]
) -> sa.Subquery:
    """Return of each group of rows the last one in an order."""
    columns = [rows.c[name] for name in group_by]
    latest = [rows.c[name].desc() for name in order_by]
    turn = sa.func.row_number().over(partition_by=columns, order_by=latest)
    numbered = sa.select(rows, turn.label("turn")).subquery()
    columns_of_rows = [numbered.c[column.name] for column in rows.c]
    return sa.select(*columns_of_rows).where(numbered.c.turn == 1).subquery()


def current_verdicts(*which: sa.ColumnElement[bool]) -> sa.Subquery:
    """Return the current verdict on each case of a run, restricted by conditions.

    Its column `run` is the last entry of the run: of two tables of a night the one
    recorded later counts.
    """
    chosen = sa.select(*_COLUMNS).where(*which).subquery()
    of_reviewers = _last(chosen, ("key", "case_id", "reviewer"), LATEST)
    side = sa.case(
        (of_reviewers.c.verdict.in_(HAS_IT), 1),
        (of_reviewers.c.verdict == "ruled out", -1),
        else_=0,
    )
    case = [of_reviewers.c.key, of_reviewers.c.case_id]
    highest = sa.func.max(side).over(partition_by=case)
    lowest = sa.func.min(side).over(partition_by=case)
    with_contrast = sa.select(
        of_reviewers, (highest - lowest).label("contrast")
    ).subquery()
    last = _last(with_contrast, ("key", "case_id"), LATEST)
    run = sa.select(sa.func.max(RUNS.c.entry)).where(RUNS.c.key == last.c.key)
    verdict = sa.case((last.c.contrast == 2, "disputed"), else_=last.c.verdict)
    return sa.select(
        last.c.key,
        last.c.case_id,
        last.c.series,
        last.c.night,
        last.c.flagged,
        verdict.label("verdict"),
        last.c.action,
        run.scalar_subquery().label("run"),
    ).subquery()


def ordered_verdicts(
    connection: sa.Connection, *which: sa.ColumnElement[bool]
) -> Sequence[sa.Row[Any]]:
    """Return the current verdicts in order of their nights and runs."""
    verdicts = current_verdicts(*which)
    in_order = (verdicts.c.night, verdicts.c.run, verdicts.c.case_id)
    return connection.execute(sa.select(verdicts).order_by(*in_order)).all()


def last_verdicts(
    *which: sa.ColumnElement[bool],
    patient_of: Callable[[sa.ColumnElement[str]], sa.ColumnElement[str]] | None = None,
) -> sa.Subquery:
    """Return the current verdict on the last night of each `patient`.

    `patient_of`: gives the patient of a case; by default the case itself.
    """
    current = current_verdicts(*which)
    patient: sa.ColumnElement[str] = current.c.case_id
    if patient_of is not None:
        patient = patient_of(patient)
    of_patients = sa.select(current, patient.label("patient")).subquery()
    return _last(of_patients, ("patient",), ("night", "run"))
