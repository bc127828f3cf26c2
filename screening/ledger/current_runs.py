"""The runs of a series that are in force: the last one of each night."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from screening.ledger.database import RUNS


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
