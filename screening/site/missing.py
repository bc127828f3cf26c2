"""Series that had nights and are no longer in NIGHT.toml.

If a section was lost or misspelled, a ward is not screened, and nothing fails, since no
command asks for its night.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import sqlalchemy as sa

from screening.ledger.database import RUNS, Ledger
from screening.ledger.location import ledger_word
from screening.ledger.model_registry import every_series, retired
from screening.schemas.history import SeriesNight, SeriesStatus
from screening.site.site import Network
from screening.spelling import DIGITS, command_line, nearest

ATTENTION = 5
LOST = (
    "it was last scored for {last}, is not in {file}, and was not retired: its "
    "patients are not screened; put its section [series.{name}] back, or retire it"
)
SLIP = (
    "{name} is new, and {missing}, which had nights, is missing from {file}. If {name} "
    "is a misspelling, correct it. If {missing} has closed, retire it. If both exist, "
    "put the section of {missing} back, or score {name} once by name"
)


def missing_series(ledger: Ledger, network: Network, night: str) -> dict[str, str]:
    """Return series that are missing in the file, with the last night of each.

    They have a published night in the last `catch_up` days, and were not retired.
    Series without a name are not in any file.
    """
    n_days = max(network.site.catch_up, 1)
    since = datetime.date.fromisoformat(night) - datetime.timedelta(days=n_days)
    nights = (
        sa.select(RUNS.c.series, sa.func.max(RUNS.c.night))
        .where(~RUNS.c.shadow, RUNS.c.night >= str(since), RUNS.c.night <= night)
        .group_by(RUNS.c.series)
        .order_by(RUNS.c.series)
    )
    with ledger.reading() as connection:
        rows = connection.execute(nights).all()
        closed = retired(connection)
    return {
        series: last
        for series, last in rows
        if series not in network.series
        and series not in closed
        and not DIGITS.fullmatch(series)
    }


def lines_of_missing(
    ledger: Ledger, network: Network, night: str, missing: Mapping[str, str]
) -> list[SeriesNight]:
    """Return a line of the overview for each missing series."""
    return [
        SeriesNight(
            series=series,
            night=night,
            status="failed",
            shadow=False,
            exit_code=ATTENTION,
            said=LOST.format(last=last, file=network.file.name, name=series),
            remedies=[retire_command(ledger, series)],
            model="",
        )
        for series, last in missing.items()
    ]


def statuses_of_missing(
    ledger: Ledger, network: Network, night: str
) -> list[SeriesStatus]:
    """Return a status, which is not fine, for each missing series."""
    statuses = []
    for series, last in missing_series(ledger, network, night).items():
        said = LOST.format(last=last, file=network.file.name, name=series)
        said += f": {retire_command(ledger, series)}"
        statuses.append(SeriesStatus(False, said, series, night=last))
    return statuses


def slips(
    ledger: Ledger, network: Network, missing: Mapping[str, str]
) -> dict[str, str]:
    """Return missing series by the new series with the most similar name."""
    with ledger.reading() as connection:
        known = set(every_series(connection))
    similar = {}
    for name in network.series:
        if name not in known:
            match = nearest(name, missing)
            if match is not None:
                similar[name] = match
    return similar


def retire_command(ledger: Ledger, series: str) -> str:
    """Return the command that closes a series."""
    with ledger.reading() as connection:
        place = ledger_word(connection)
    return command_line("retire", series, "--ledger", place, "--reason", "WHY")
