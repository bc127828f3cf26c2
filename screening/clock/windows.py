"""The window of a night, and the truth of its rows by the events around it.

All times are instants (datetime64[us] in UTC), so that a window is elapsed time: a day
of 23 or 25 hours moves its end on the clock and not its length.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from screening.errors import UsageError

HOUR = pd.Timedelta(hours=1)
TRUTHS = ("past", "case", "unknown", "censored", "open", "none")
REASONS = {
    "past": "an event before the window",
    "case": "an event in the window",
    "unknown": "a case known without a time",
    "censored": "the stay ended before the window did",
    "open": "the window is not over, or its outcomes are not known yet",
    "none": "no event in the window",
}
CASE_WITHOUT_TIME = "a case known without a time, in its last night"
NOT_OVER = "; the window is not over, so no rate includes the row"


@dataclass(frozen=True)
class Window:
    """When an outcome counts for a night, in hours from the instant of the night.

    Parameters
    ----------
    within : float
        An event later than this belongs to no row of the night.
    after : float
        Rows of patients with an event before this are no longer at risk.
    again : float, optional
        Hours after an event from which a patient is at risk again; never by default.
    case_without_time : bool
        A case known without a time is one of the last night of its patient or stay.
        By default its rows are left out.
    only_first : bool
        Only the first event of a patient or stay counts.

    Raises
    ------
    UsageError
        The window ends before it begins.
    """

    within: float
    after: float = 0.0
    again: float | None = None
    case_without_time: bool = False
    only_first: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.after < self.within:
            raise UsageError(
                f"outcomes cannot count from {self.after:g} to {self.within:g} hours "
                "after a night; make `within` longer than `after`",
                parameters=["within", "after"],
            )


@dataclass(frozen=True)
class Known:
    """What is known of the patients, or stays.

    Parameters
    ----------
    events : DataFrame
        One row per event: `unit` (the patient or stay), `time` (datetime64), and its
        `name` if events have names.
    without_time : DataFrame, optional
        One row per case that is known without a time: `unit` and `name`.
    ends : DataFrame, optional
        One row per stay: `unit`, `time` of its end.
    is_of_stays : bool
        A unit is a stay. A patient who is still there after its end is in another stay.
    """

    events: pd.DataFrame
    without_time: pd.DataFrame | None = None
    ends: pd.DataFrame | None = None
    is_of_stays: bool = False

    @property
    def units_without_time(self) -> list[str]:
        """Patients, or stays, known as cases without a time."""
        return [] if self.without_time is None else self.without_time["unit"].to_list()

    def of_names(self, names: Collection[str]) -> Known:
        """Return what is known by the events of some names alone."""
        without_time = self.without_time
        if without_time is not None:
            without_time = without_time[without_time["name"].isin(names)]
        events = self.events[self.events["name"].isin(names)]
        return replace(self, events=events, without_time=without_time)


def with_truth(
    rows: pd.DataFrame, known: Known, window: Window, complete: pd.Timestamp
) -> pd.DataFrame:
    """Return rows with their true labels and events.

    Parameters
    ----------
    rows : DataFrame
        One row per scored row: `night` (datetime64, its day), `at` (datetime64, the
        instant of the night), `unit` (the patient or stay), and others.
    known : Known
    window : Window
    complete : Timestamp
        Outcomes are complete up to this instant.

    Returns
    -------
    DataFrame
        The rows in order of their nights, with `event`, the time of the first event
        at risk or NaT, `earlier`, that of the last event before the window, and
        `truth`: one of `TRUTHS`. `is_over`: the window has passed.
        Rates are of "case" and "none" of windows that are over: of others only cases
        are known. `reason` is a key of the truth in words.
    """
    # pandas joins texts of one type alone.
    rows = rows.astype({"unit": object})
    rows = rows.sort_values(["at", "night"], kind="stable", ignore_index=True)
    rows["start"] = (rows["at"] + window.after * HOUR).astype("datetime64[us]")
    events = _in_order(known.events)
    if window.only_first:
        events = events.drop_duplicates("unit")
    following = _joined(rows, events, "start", "event", "forward")
    before = _joined(rows, events, "start", "event", "backward", exact=False)
    last = before["event"]
    end = (following["at"] + window.within * HOUR).astype("datetime64[us]")
    is_past = last.notna()
    if window.again is not None:
        at_risk_again = last + window.again * HOUR
        is_past &= following["start"] < at_risk_again
    is_case = following["event"] <= end
    is_unknown = following["unit"].isin(known.units_without_time)
    is_case_without_time = is_unknown & False
    if window.case_without_time:
        is_last = ~following["unit"].duplicated(keep="last")
        is_case_without_time = is_unknown & is_last & ~is_past & ~is_case
    stay_end = _ends_of(following, known)
    is_censored = (stay_end < end).fillna(False)
    is_over = end <= complete
    truth = np.select(
        [
            is_past,
            is_case | is_case_without_time,
            is_unknown,
            is_censored,
            ~is_over,
        ],
        ["past", "case", "unknown", "censored", "open"],
        "none",
    )
    # The time of a case is that of its event in the window alone.
    reason = pd.Series(truth, index=following.index).map(REASONS)
    reason = reason.mask(is_case_without_time, CASE_WITHOUT_TIME)
    reason = reason.mask((truth == "case") & ~is_over, reason + NOT_OVER)
    event = following["event"].mask(is_case_without_time)
    return following.assign(
        event=event, earlier=last, truth=truth, is_over=is_over, reason=reason
    )


def _in_order(events: pd.DataFrame) -> pd.DataFrame:
    """Return `unit` and `event` of each event once, in the order of time."""
    event = events["time"].astype("datetime64[us]")
    unit = events["unit"].astype(object)
    lines = pd.DataFrame({"unit": unit, "event": event}).dropna()
    return lines.drop_duplicates().sort_values("event", ignore_index=True)


def _joined(
    rows: pd.DataFrame,
    lines: pd.DataFrame,
    left_on: str,
    right_on: str,
    direction: Literal["backward", "forward"],
    exact: bool = True,
) -> pd.DataFrame:
    """Return rows, each with the nearest line of its unit in one direction.

    `exact`: a line at the same time counts.
    """
    return pd.merge_asof(
        rows,
        lines[["unit", right_on]],
        left_on=left_on,
        right_on=right_on,
        by="unit",
        direction=direction,
        allow_exact_matches=exact,
    )


def _ends_of(rows: pd.DataFrame, known: Known) -> pd.Series:
    """Return the end of the stay of each row; NaT where it is not known.

    Of several stays of a patient it is the first that ended after the night began. If
    all ended before, the patient is in a stay whose end is not known yet.
    """
    ends = known.ends
    if ends is None or not len(ends):
        return pd.Series(pd.NaT, index=rows.index, dtype="datetime64[us]")
    lines = _in_order(ends).rename(columns={"event": "end"})
    later = _joined(rows, lines, "at", "end", "forward")["end"]
    if not known.is_of_stays:
        return later
    return later.fillna(rows["unit"].map(lines.groupby("unit")["end"].last()))
