"""Shares of cases, of others and of all rows that a threshold flags."""

from __future__ import annotations

import numpy as np

from screening.metrics.figures.base import figure
from screening.metrics.judged_rows import JudgedRows
from screening.schemas.base import Estimate


@figure(
    title="Sensitivity",
    help="Share of the cases that is flagged.",
    form="share",
    needs=("cases",),
    tables=("subgroups", "night", "outcomes"),
    place=10,
)
def sensitivity(rows: JudgedRows) -> Estimate:
    """Return the share of cases that is flagged."""
    return rows.sensitivity


@figure(
    title="Specificity",
    help="Share of the others that is not flagged.",
    form="share",
    needs=("others",),
    tables=("subgroups", "night", "outcomes"),
    place=20,
)
def specificity(rows: JudgedRows) -> Estimate:
    """Return the share of others that is not flagged."""
    return rows.specificity


@figure(
    title="PPV",
    help="Share of the flagged rows that are cases.",
    form="share",
    tables=("subgroups", "outcomes"),
    place=30,
)
def ppv(rows: JudgedRows) -> Estimate:
    """Return the share of flagged rows that are cases."""
    return rows.share(rows.positive, rows.flagged)


@figure(
    title="NPV",
    help="Share of the unflagged rows that are no cases.",
    form="share",
    tables=("subgroups",),
    place=40,
)
def npv(rows: JudgedRows) -> Estimate:
    """Return the share of unflagged rows that are others."""
    return rows.share(~rows.positive, ~rows.flagged)


@figure(
    title="Flagged",
    help="Share of all rows that is flagged.",
    form="share",
    better=None,
    needs=("rows",),
    tables=("subgroups", "night"),
    place=90,
)
def flag_rate(rows: JudgedRows) -> Estimate:
    """Return the share of rows that is flagged."""
    return rows.share(rows.flagged, np.ones(len(rows.scores), dtype=bool))
