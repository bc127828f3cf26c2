"""Outcomes of the rows of past nights: their truth, and figures of all of them.

An outcome is an event of a patient at a time. It decides the rows of that patient on
the nights before it: an event within a window after a night makes the row a case, and
without one the row is none once the window has passed. Flagged or not, every row of a
closed window has a truth, so sensitivity needs no audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats import chi2

from screening.errors import UsageError
from screening.metrics.calibration import observed_over_expected
from screening.metrics.intervals import (
    design_effect,
    grouped_rate_interval,
    rate_interval,
)
from screening.metrics.ranking import auroc_with_interval
from screening.metrics.reviews import ANYTIME_WIDENING, is_below
from screening.metrics.tally import group_codes
from screening.schemas.base import Estimate
from screening.schemas.history import (
    BeforeAfter,
    LeadTime,
    MonthlyRates,
    OutcomeFigures,
    OutcomeRates,
    OutcomesByClass,
    OutcomesByMonth,
    SensitivityAndPpv,
    SubgroupLead,
)

HOUR = pd.Timedelta(hours=1)
# Fewest events before whose quartiles of lead time are given.
MIN_EVENTS_OF_QUARTILES = 4


@dataclass(frozen=True)
class Window:
    """When an outcome counts for a night, in hours from the beginning of its day.

    Parameters
    ----------
    within : float
        An event later than this belongs to no row of the night.
    after : float
        Rows of patients whose event came before this are no longer at risk.

    Raises
    ------
    UsageError
        The window ends before it begins.
    """

    within: float
    after: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.after < self.within:
            raise UsageError(
                f"an outcome that counts from {self.after:g} to {self.within:g} hours "
                "after a night is none: `within` must be longer than `after`",
                parameters=["within", "after"],
            )


def with_truth(
    rows: pd.DataFrame, events: pd.DataFrame, window: Window, as_of: pd.Timestamp
) -> pd.DataFrame:
    """Return rows with what became of them.

    Parameters
    ----------
    rows : DataFrame
        A line a scored row: `night` (datetime64), `patient`, and others.
    events : DataFrame
        A line an event: `patient`, `time` (datetime64).
    window : Window
    as_of : Timestamp
        Outcomes are complete up to this time.

    Returns
    -------
    DataFrame
        The rows in order of their nights, with `event`, the time of the first event
        at risk or NaT, and `truth`: "case", "none", "open" while the window has not
        passed, or "past" for rows after an event. `is_over`: the window has passed.
        Rates are of such rows alone: of a window that is not over only cases are known.
    """
    # pandas joins texts of one type alone.
    rows = rows.astype({"patient": object})
    events = events.astype({"patient": object})
    rows = rows.sort_values("night", kind="stable", ignore_index=True)
    rows["start"] = (rows["night"] + window.after * HOUR).astype("datetime64[us]")
    events = events.drop_duplicates().sort_values("time", ignore_index=True)
    events = events.assign(event=events["time"].astype("datetime64[us]"))
    by_time = partial(
        pd.merge_asof,
        right=events[["patient", "event"]],
        left_on="start",
        right_on="event",
        by="patient",
    )
    following = by_time(rows, direction="forward")
    earlier = by_time(
        rows[["start", "patient"]], direction="backward", allow_exact_matches=False
    )
    end = following["night"] + window.within * HOUR
    is_case = following["event"] <= end
    truth = np.where(is_case, "case", "none")
    # A window that is not over may still bring an event.
    truth = np.where(~is_case & (end > as_of), "open", truth)
    truth = np.where(earlier["event"].notna(), "past", truth)
    return following.assign(truth=truth, is_over=end <= as_of)


def outcome_figures(
    rows: pd.DataFrame,
    window: Window,
    as_of: pd.Timestamp,
    promised: SensitivityAndPpv | None,
    verdicts: Mapping[tuple[str, str], str],
    subgroups: Mapping[str, str] = MappingProxyType({}),
    suppress: int = 5,
) -> OutcomeFigures:
    """Return the figures of nights whose outcomes are known.

    Parameters
    ----------
    rows : DataFrame
        As ``with_truth`` returns them, with `score`, `flagged`, `chance` (NaN where
        there is none) and `model`; the model of the last night made the promise.
    window : Window
    as_of : Timestamp
    promised : SensitivityAndPpv, optional
        Estimates of validation.
    verdicts : mapping of (str, str) to str
        The word on a patient of a night, by night (YYYY-MM-DD) and patient.
    subgroups : mapping of str to str
        Columns of `rows` by whose values lead time is given, by their titles.
    suppress : int
        Fewest events of a value of them.
    """
    events = detected_events(rows)
    with_outcome = _with_known_truth(rows)
    is_open = (rows["truth"] != "past") & ~rows["is_over"]
    rates = rates_of(with_outcome)
    last_model = rows["model"].iloc[-1:]
    of_last = with_outcome[with_outcome["model"].isin(last_model)]
    seen = rates_of(of_last)
    month_of_row = with_outcome["night"].dt.strftime("%Y-%m")
    by_month = [
        OutcomesByMonth(month=str(month), **vars(rates_of(of_month)))
        for month, of_month in with_outcome.groupby(month_of_row)
    ]
    return OutcomeFigures(
        as_of=as_of.isoformat(timespec="minutes"),
        within_hours=window.within,
        after_hours=window.after,
        open=int(is_open.sum()),
        past=int((rows["truth"] == "past").sum()),
        auroc=_auroc(of_last),
        observed_over_expected=_observed_over_expected(with_outcome),
        lead=lead_time(events),
        lead_by_subgroup=lead_by_subgroup(events, subgroups, suppress),
        promised=promised,
        seen=SensitivityAndPpv(sensitivity=seen.sensitivity, ppv=seen.ppv),
        seen_nights=seen.nights,
        below=_below(seen, promised),
        agreement=_agreement(with_outcome, verdicts),
        by_month=by_month,
        **vars(rates),
    )


def figures_of_class(
    rows: pd.DataFrame,
    events: pd.DataFrame,
    name: str,
    window: Window,
    as_of: pd.Timestamp,
) -> OutcomesByClass:
    """Return the figures of one of several classes: of its events and its own flags.

    Parameters
    ----------
    rows : DataFrame
        `night`, `patient`, and `score_` and `flagged_` of the class, NaN on nights of a
        model without it.
    events : DataFrame
        `patient`, `time`, and `name` of the event, a label text of its class.
    name : str
        Of the class.
    window : Window
    as_of : Timestamp
    """
    of_class = rows[["night", "patient"]].assign(
        score=rows[f"score_{name}"], flagged=rows[f"flagged_{name}"]
    )
    of_class = of_class.dropna().astype({"flagged": bool})
    named = events[events["name"].isin(texts_of_class(name))]
    of_class = with_truth(of_class, named[["patient", "time"]], window, as_of)
    with_outcome = _with_known_truth(of_class)
    return OutcomesByClass(
        label=name,
        auroc=_auroc(with_outcome),
        lead=lead_time(detected_events(of_class)),
        **vars(rates_of(with_outcome)),
    )


def texts_of_class(name: str) -> set[str]:
    """Return the names of events that a class stands for; "A+B" joins A and B."""
    return {name, *name.split("+")}


def _with_known_truth(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["truth"].isin(["case", "none"]) & rows["is_over"]]


def rates_of(rows: pd.DataFrame) -> OutcomeRates:
    """Return counts and rates of rows whose truth is known.

    Intervals allow for patients who lie several nights.
    """
    is_case = (rows["truth"] == "case").to_numpy()
    flagged = rows["flagged"].to_numpy(bool)
    return OutcomeRates(
        nights=int(rows["night"].nunique()),
        rows=len(rows),
        patients=int(rows["patient"].nunique()),
        cases=int(is_case.sum()),
        flagged=int(flagged.sum()),
        true_positive=int((flagged & is_case).sum()),
        sensitivity=_share(rows[is_case], flagged[is_case]),
        specificity=_share(rows[~is_case], ~flagged[~is_case]),
        ppv=_ppv(rows[flagged], is_case[flagged]),
    )


def _ppv(flagged: pd.DataFrame, is_case: np.ndarray) -> Estimate:
    """Return the share of cases among flagged rows, with its 95 % interval by patient.

    Unlike sensitivity it is no share of scores above a threshold: how alike the scores
    of a patient are says nothing of it, and would make the interval too wide.
    """
    if not len(flagged):
        return Estimate()
    codes, patients = pd.factorize(flagged["patient"])
    size = len(is_case) / design_effect(is_case, codes)
    freedom = max(len(patients) - 1, 1)
    share = float(np.mean(is_case))
    low, high = rate_interval(share * size, size, freedom=freedom)
    return Estimate(share, float(low), float(high))


def _share(rows: pd.DataFrame, counted: np.ndarray) -> Estimate:
    """Return the share of rows that is counted, with its 95 % interval by patient."""
    if not len(rows):
        return Estimate()
    score = rows["score"].to_numpy()
    by_patient = (
        pd.DataFrame(
            {
                "patient": rows["patient"].to_numpy(),
                "counted": counted,
                "above": score >= np.median(score),
                "rows": 1,
            }
        )
        .groupby("patient", sort=False)
        .sum()
    )
    low, high = grouped_rate_interval(
        by_patient[["counted"]].to_numpy(),
        by_patient["rows"].to_numpy(),
        by_patient["above"].to_numpy(),
    )
    return Estimate(float(np.mean(counted)), float(low[0]), float(high[0]))


def _auroc(rows: pd.DataFrame) -> Estimate:
    is_case = (rows["truth"] == "case").to_numpy()
    if is_case.all() or not is_case.any():
        return Estimate()
    codes = group_codes(rows["patient"].to_numpy())
    scores = rows["score"].to_numpy()
    return Estimate(*auroc_with_interval(scores, is_case, codes, 1.0))


def _observed_over_expected(rows: pd.DataFrame) -> Estimate:
    is_case = (rows["truth"] == "case").to_numpy(float)
    chance = rows["chance"].to_numpy(float)
    codes = group_codes(rows["patient"].to_numpy())
    return observed_over_expected(chance, is_case, np.ones(len(rows)), codes)


def detected_events(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the events of rows with how long before them patients were flagged.

    An event is detected if the patient was flagged on the last night before it; the
    time counts from the first night of the unbroken flags that end there.

    Returns
    -------
    DataFrame
        The rows of the last night before each event, with `hours`, NaN for those that
        were not detected.
    """
    of_event = ["patient", "event"]
    of_run = [*of_event, "n_breaks"]
    cases = rows[rows["truth"] == "case"].sort_values([*of_event, "night"])
    is_flagged = cases["flagged"].astype(bool)
    by_event = cases.groupby(of_event, sort=False)
    # Of the flags up to a night only those after the last break are unbroken.
    n_breaks = (~is_flagged).groupby(by_event.ngroup()).cumsum()
    cases = cases.assign(n_breaks=n_breaks)
    last = cases.groupby(of_event, sort=False).tail(1)
    unbroken = cases[is_flagged].groupby(of_run, sort=False)
    first = unbroken["night"].min().rename("first_flag").reset_index()
    last = last.merge(first, "left", of_run)
    is_detected = last["flagged"].astype(bool)
    before_event = last["event"] - last["first_flag"]
    hours = before_event.dt.total_seconds() / 3600
    return last.assign(hours=hours.where(is_detected))


def lead_time(events: pd.DataFrame) -> LeadTime:
    """Return the lead times of events, as ``detected_events`` returns them."""
    hours = events["hours"].dropna().to_numpy(float)
    quartiles: list[float | None] = [None, None, None]
    if len(hours) >= MIN_EVENTS_OF_QUARTILES:
        quartiles = np.quantile(hours, [0.25, 0.5, 0.75]).tolist()
    elif len(hours):
        quartiles[1] = float(np.median(hours))
    return LeadTime(
        events=len(events),
        detected=len(hours),
        median_hours=quartiles[1],
        low_hours=quartiles[0],
        high_hours=quartiles[2],
    )


def lead_by_subgroup(
    events: pd.DataFrame, subgroups: Mapping[str, str], suppress: int
) -> list[SubgroupLead]:
    """Return the lead times of each value of some columns.

    Parameters
    ----------
    events : DataFrame
        As ``detected_events`` returns them.
    subgroups : mapping of str to str
        Columns by their titles.
    suppress : int
        Values of fewer events are left out.
    """
    leads = []
    for title, column in subgroups.items():
        for level, of_level in events.groupby(column):
            if len(of_level) >= suppress:
                lead = SubgroupLead(
                    column=title, level=str(level), **vars(lead_time(of_level))
                )
                leads.append(lead)
    return leads


def before_and_after(counts: pd.DataFrame, live: str) -> BeforeAfter:
    """Return monthly rates before and after the night on which a screen went live.

    Parameters
    ----------
    counts : DataFrame
        As ``data.monthly_counts.read_monthly_counts`` returns it.
    live : str
        YYYY-MM-DD.
    """
    month_of_live = pd.Timestamp(live).normalize().replace(day=1)
    months = [
        _rates_of_months(counts.iloc[[number]], f"{month:%Y-%m}")
        for number, month in enumerate(counts["month"])
    ]
    before = counts[counts["month"] < month_of_live]
    after = counts[counts["month"] > month_of_live]
    rates_before = _rates_of_months(before, "before") if len(before) else None
    rates_after = _rates_of_months(after, "after") if len(after) else None
    return BeforeAfter(live=live, months=months, before=rates_before, after=rates_after)


def _rates_of_months(counts: pd.DataFrame, name: str) -> MonthlyRates:
    days = int(counts["patient_days"].sum())
    n_outcomes = int(counts["outcomes"].sum())
    interventions = counts["interventions"].sum(skipna=False)
    n_interventions = None if np.isnan(interventions) else int(interventions)
    rate = Estimate()
    if n_interventions is not None:
        rate = rate_per_1000(n_interventions, days)
    return MonthlyRates(
        month=name,
        patient_days=days,
        outcomes=n_outcomes,
        interventions=n_interventions,
        outcome_rate=rate_per_1000(n_outcomes, days),
        intervention_rate=rate,
    )


def rate_per_1000(n_events: int, days: int) -> Estimate:
    """Return events per 1,000 days with the exact Poisson interval (Garwood 1936)."""
    low = 0.0
    if n_events:
        low = float(chi2.ppf(0.025, 2 * n_events)) / 2
    high = float(chi2.ppf(0.975, 2 * n_events + 2)) / 2
    rates = [1000 * number / days for number in (n_events, low, high)]
    return Estimate(*rates)


def missed_cases(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the last night before each event on which the patient was not flagged."""
    events = detected_events(rows)
    return events[events["hours"].isna()]


def _below(
    rates: OutcomeRates, promised: SensitivityAndPpv | None
) -> list[Literal["sensitivity", "ppv"]]:
    """Return the figures that lie below the promise, valid at every look."""
    if promised is None:
        return []
    below: list[Literal["sensitivity", "ppv"]] = []
    names: tuple[Literal["sensitivity"], Literal["ppv"]] = ("sensitivity", "ppv")
    for name in names:
        value, low, high = getattr(rates, name).value_and_interval
        if None in (value, low, high):
            continue
        anytime = Estimate(value, low, value + ANYTIME_WIDENING * (high - value))
        if is_below(anytime, getattr(promised, name)):
            below.append(name)
    return below


def _agreement(
    rows: pd.DataFrame, verdicts: Mapping[tuple[str, str], str]
) -> dict[str, dict[str, int]]:
    """Return by verdict how many of its rows turned out as cases, and as none."""
    counts: dict[str, dict[str, int]] = {}
    nights = rows["night"].dt.strftime("%Y-%m-%d")
    for night, patient, truth in zip(
        nights, rows["patient"], rows["truth"], strict=True
    ):
        word = verdicts.get((night, patient))
        if word is not None:
            of_word = counts.setdefault(word, {"case": 0, "none": 0})
            of_word[truth] += 1
    return counts
