"""How far a table of outcomes reaches: up to when it states every event.

An export may have ended long before it is read. Without a check, every window since
would be over without an event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from screening.clock.conversion import NAT

# A gap as long or longer after the last event would occur with this chance, if events
# had gone on at their rate.
MAX_CHANCE_OF_GAP = 0.01
# Fewest days with an event by which a rate can be judged.
MIN_DAYS = 5
DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class Reach:
    """Up to when outcomes are complete.

    Parameters
    ----------
    until : datetime64
        The instant; NaT if the outcomes of no time are known.
    reason : str, optional
        Why that is before the time up to which they were said to be complete.
    """

    until: np.datetime64
    reason: str | None = None


def reach_of_events(
    events: np.ndarray,
    first_night: np.datetime64,
    last_window: np.datetime64,
    as_of: np.datetime64,
) -> Reach:
    """Judge by the rate of events how far a table reaches.

    With events at a steady rate r a day over the nights, a gap of g days without one
    has the chance exp(-r g). Below `MAX_CHANCE_OF_GAP` the table ends at its last
    event.

    Parameters
    ----------
    events : ndarray of datetime64
        Instants of all events of the table, of scored patients or not.
    first_night : datetime64
        Instant of the first night; earlier events do not count for the rate.
    last_window : datetime64
        End of the last night's window; no event is expected later, because no patient
        has been scored since.
    as_of : datetime64
        Outcomes are said to be complete up to here.

    Returns
    -------
    Reach
        Of the end of the table, or `as_of` if nothing speaks against it.
    """
    of_nights = np.sort(events[(events >= first_night) & (events <= as_of)])
    n_days = len(np.unique(of_nights.astype("datetime64[D]")))
    if n_days < MIN_DAYS:
        return Reach(as_of)
    last = of_nights[-1]
    rate = (len(of_nights) - 1) / ((last - of_nights[0]) / DAY)
    gap = (min(as_of, last_window) - last) / DAY
    if gap <= 0 or math.exp(-rate * gap) >= MAX_CHANCE_OF_GAP:
        return Reach(as_of)
    reason = (
        f"the last event is {(as_of - last) / DAY:.0f} days earlier, although "
        f"there were {rate:.2g} events a day until then"
    )
    return Reach(last, reason)


def reach_of_table(
    n_lines: int,
    judged: Reach,
    stated: np.datetime64 | None,
    before: np.datetime64 | None,
    as_of: np.datetime64,
) -> Reach:
    """Return how far a table reaches.

    Parameters
    ----------
    n_lines : int
        A table without lines states nothing.
    judged : Reach
        By the rate of events.
    stated : datetime64, optional
        What the table itself, its file or a person states; it is not judged.
    before : datetime64, optional
        Up to when outcomes were complete before this table.
    as_of : datetime64
    """
    if not n_lines:
        until = NAT if before is None else min(before, as_of)
        return Reach(until, "the table has no lines, so no window is closed")
    if stated is None:
        return judged
    if stated < as_of:
        return Reach(stated, "the table gives outcomes only up to then")
    return Reach(as_of)
