"""Read the tables of outcomes that series of a site name, every night."""

from __future__ import annotations

from collections.abc import Collection

from screening.errors import ScreenError, of_system
from screening.ledger.database import Ledger
from screening.ledger.outcomes import enter_outcomes
from screening.schemas.history import OutcomesRead
from screening.site.site import Network


def outcomes_of_night(
    network: Network, ledger: Ledger, night: str, names: Collection[str]
) -> list[OutcomesRead]:
    """Enter the outcomes of series that name a table of them.

    A table that cannot be used is refused with a reason, and ends nothing.

    Parameters
    ----------
    network : Network
    ledger : Ledger
    night : str
        YYYY-MM-DD, for places that name it.
    names : collection of str
        Series.
    """
    read = []
    for name in names:
        try:
            table = network.outcomes(name, night)
            if table is None:
                continue
            entered = enter_outcomes(
                ledger, name, table, time_zone=network.site.time_zone
            )
            line = OutcomesRead(
                series=name,
                new=entered.new,
                corrected=entered.corrected,
                withdrawn=entered.withdrawn,
                unknown=entered.unknown,
                table=entered.figures.table,
            )
        except ScreenError as error:
            line = OutcomesRead(series=name, refused=str(error))
        except OSError as error:
            line = OutcomesRead(series=name, refused=str(of_system(error)))
        read.append(line)
    return read
