"""Two models, or two series, beside each other on the nights that both scored."""

from __future__ import annotations

from screening.documents.shape import document


@document
class JudgedShare:
    """Share with the condition among those judged, with its 95 % interval; None where nobody was."""

    found: int
    judged: int
    value: float | None
    low: float | None
    high: float | None


@document
class Flagging:
    """What one of the two flagged.

    `model` is that of these nights, or all where one took another's place between them. `only` counts flags
    of cases that the other did not flag on the same night, and `only_ppv` is of these patients;
    `waiting_per_night` counts those new or ongoing.
    """

    series: str
    model: str
    shadow: bool
    cases_per_night: float | None
    waiting_per_night: float | None
    minutes_per_night: float | None
    ppv: JudgedShare
    only: int
    only_ppv: JudgedShare


@document
class NightsBeside:
    """How far two agree.

    `agreement` is the share of rows (patients, where rows come in groups) on which both say the same, `kappa`
    what of it chance does not explain (Cohen 1960); both are over the nights on which both scored the same
    table, and None where there are none. A patient counts on each night.
    """

    nights: int
    first: str | None
    last: str | None
    other_tables: int
    both: int
    neither: int
    agreement: float | None
    kappa: float | None
    one: Flagging
    other: Flagging
