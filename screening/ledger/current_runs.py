"""Runs that are in force, the last one of each night, and runs that only began."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from screening.ledger.database import RESERVATIONS, RUNS


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
