"""Read the tables of outcomes that series of a site name, every night."""

from __future__ import annotations

from collections.abc import Collection

from screening.errors import ScreenError, of_system
from screening.ledger.database import Ledger
from screening.ledger.outcomes import enter_outcomes
from screening.schemas.history import OutcomesRead
from screening.site.site import Network
from screening.spelling import command_line

ACCEPT = "--accept-delivery"


def outcomes_of_night(
    network: Network,
    ledger: Ledger,
    night: str,
    names: Collection[str],
    accept_delivery: str | None = None,
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
    accept_delivery : str, optional
        Why the tables are right, though their patients do not look like the nights'.
    """
    read = []
    for name in names:
        try:
            table = network.outcomes(name, night)
            if table is None:
                continue
            entered = enter_outcomes(
                ledger,
                name,
                table,
                time_zone=network.site.time_zone,
                accept_delivery=accept_delivery,
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
            said = str(error).replace("`accept_delivery`", ACCEPT)
            line = OutcomesRead(series=name, refused=said)
        except OSError as error:
            line = OutcomesRead(series=name, refused=str(of_system(error)))
        read.append(line.replace(remedies=_remedies(network, line)))
    return read


def _remedies(network: Network, line: OutcomesRead) -> list[str]:
    """Return the commands that settle a table that was refused, or lost patients."""
    is_of_others = line.table is not None and line.table.grown
    if line.refused is None and not is_of_others:
        return []
    again = ("outcomes", "--site", network.file, "--series", line.series)
    commands = [command_line(*again)]
    if is_of_others or ACCEPT in (line.refused or ""):
        commands.append(command_line(*again, ACCEPT, "WHY"))
    return commands
