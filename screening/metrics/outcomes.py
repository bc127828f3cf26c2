"""Figures of the rows of past nights by the outcomes of their patients.

`clock.windows` gives every row its truth. Flagged or not, every row of a window that is
over has one, so sensitivity needs no audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats import chi2

from screening.clock.windows import Known, Window, with_truth
from screening.metrics.evaluated_rows import EvaluatedRows, is_enough
from screening.metrics.figures import Figure, evaluate, figures_in
from screening.metrics.groups import codes_of
from screening.metrics.intervals import (
    design_effect,
    grouped_rate_interval,
    rate_interval,
)
from screening.metrics.reviews import ANYTIME_WIDENING, is_below
from screening.schemas.base import UNDEFINED, Estimate
from screening.schemas.history import (
    BeforeAfter,
    KnownNights,
    LeadTime,
    MonthlyRates,
    OutcomeFigures,
    OutcomesByClass,
    OutcomesByMonth,
    SensitivityAndPpv,
    SubgroupLead,
)

# Fewest events before whose quartiles of lead time are given.
MIN_EVENTS_OF_QUARTILES = 4
# Truths of rows that count in no rate.
LEFT_OUT = ("past", "unknown", "censored", "open")


def outcome_figures(
    rows: pd.DataFrame,
    window: Window,
    as_of: str,
    promised: SensitivityAndPpv | None,
    verdicts: Mapping[tuple[str, str], str],
    subgroups: Mapping[str, str] = MappingProxyType({}),
    suppress: int = 5,
    actions: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> OutcomeFigures:
    """Compute the figures of nights with known outcomes.

    Parameters
    ----------
    rows : DataFrame
        As ``clock.windows.with_truth`` returns them, with `patient`, `score`,
        `flagged`, `chance` and `chance_at_threshold` (NaN without one) and `model`; the
        model of the last night made the promise.
    window : Window
    as_of : str
        Up to when outcomes are said to be complete, for a reader.
    promised : SensitivityAndPpv, optional
        Estimates of validation.
    verdicts : mapping of (str, str) to str
        Verdicts by night (YYYY-MM-DD) and patient.
    subgroups : mapping of str to str
        Columns of `rows` for lead time by subgroup, by their titles.
    suppress : int
        Fewest events of a subgroup.
    actions : mapping of (str, str) to str
        What was done for a patient of a night, by night and patient.
    """
    events = detected_events(rows)
    with_outcome = with_known_truth(rows)
    left_out = left_out_of(rows)
    rates = rates_of(with_outcome)
    last_model = rows["model"].iloc[-1:]
    of_last = with_outcome[with_outcome["model"].isin(last_model)]
    seen = rates_of(of_last)
    # Scores of two models have no common order.
    figures = {
        **rates.figures,
        **evaluate(_evaluated(of_last), _of_all_nights(of_one_model=True)),
        **evaluate(_evaluated(with_outcome), _of_all_nights(of_one_model=False)),
    }
    by_month = [
        OutcomesByMonth(
            month=str(month),
            left_out=left_out_of(of_month),
            **vars(rates_of(with_known_truth(of_month))),
        )
        for month, of_month in rows.groupby(rows["night"].dt.strftime("%Y-%m"))
    ]
    return OutcomeFigures(
        as_of=as_of,
        within_hours=window.within,
        after_hours=window.after,
        again_hours=window.again,
        events="first" if window.only_first else "any",
        known_without_time="case" if window.case_without_time else "leave_out",
        open=left_out["open"],
        past=left_out["past"],
        left_out=left_out,
        lead=lead_time(events),
        lead_by_subgroup=lead_by_subgroup(events, subgroups, suppress),
        promised=promised,
        seen=SensitivityAndPpv(sensitivity=seen["sensitivity"], ppv=seen["ppv"]),
        seen_nights=seen.nights,
        below=below_promise(seen, promised),
        agreement=_cases_by_word(with_outcome, verdicts),
        actions=_cases_by_word(with_outcome, actions),
        by_month=by_month,
        **vars(rates) | {"figures": figures},
    )


def left_out_of(rows: pd.DataFrame) -> dict[str, int]:
    """Return the number of rows that count in no rate, by the reason.

    Of a window that is not over, a case counts as "open" too.
    """
    is_open = ~rows["truth"].isin(["past", "unknown", "censored"]) & ~rows["is_over"]
    reasons = rows["truth"].mask(is_open, "open")
    counts = reasons.value_counts()
    return {reason: int(counts.get(reason, 0)) for reason in LEFT_OUT}


def figures_of_class(
    rows: pd.DataFrame,
    known: Known,
    name: str,
    window: Window,
    complete: pd.Timestamp,
) -> OutcomesByClass:
    """Return the figures of one of several classes: of its events and its own flags.

    Parameters
    ----------
    rows : DataFrame
        `night`, `at`, `unit`, `patient`, and `score_`, `flagged_` and
        `chance_at_threshold_` of the class, NaN on nights of a model without it.
    known : Known
        Events and cases without a time have the `name` of the event, a label text of
        its class.
    name : str
        Of the class.
    window : Window
    complete : Timestamp
        Outcomes are complete up to this instant.
    """
    of_class = rows[["night", "at", "unit", "patient"]].assign(
        score=rows[f"score_{name}"],
        flagged=rows[f"flagged_{name}"],
        chance_at_threshold=rows[f"chance_at_threshold_{name}"],
    )
    of_class = of_class.dropna(subset=["score", "flagged"]).astype({"flagged": bool})
    texts = texts_of_class(name)
    of_class = with_truth(of_class, known.of_names(texts), window, complete)
    with_outcome = with_known_truth(of_class)
    rates = rates_of(with_outcome)
    areas = evaluate(_evaluated(with_outcome), _of_all_nights(of_one_model=True))
    return OutcomesByClass(
        label=name,
        lead=lead_time(detected_events(of_class)),
        **vars(rates) | {"figures": {**rates.figures, **areas}},
    )


def texts_of_class(name: str) -> set[str]:
    """Return the names of the events of a class; "A+B" joins A and B."""
    return {name, *name.split("+")}


def with_known_truth(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that count in a rate."""
    return rows[rows["truth"].isin(["case", "none"]) & rows["is_over"]]


def rates_of(rows: pd.DataFrame) -> KnownNights:
    """Compute counts and figures of rows with a known truth.

    Intervals allow for patients with several nights.
    """
    evaluated = _evaluated(rows)
    return KnownNights(
        nights=int(rows["night"].nunique()),
        rows=len(rows),
        patients=int(rows["patient"].nunique()),
        cases=int(evaluated.positive.sum()),
        flagged=int(evaluated.flagged.sum()),
        true_positive=int((evaluated.flagged & evaluated.positive).sum()),
        figures=evaluate(evaluated, figures_in("outcomes_by_month")),
    )


def _evaluated(rows: pd.DataFrame) -> EvaluatedRows:
    """Convert rows with a known truth to those of figures.

    All nights of a patient are one group. Each night has the threshold of its model.
    """
    return EvaluatedRows(
        scores=rows["score"].to_numpy(),
        positive=(rows["truth"] == "case").to_numpy(),
        groups=rows["patient"].to_numpy(),
        chance=rows["chance"].to_numpy(float) if "chance" in rows else None,
        threshold=np.nan,
        flags=rows["flagged"].to_numpy(bool),
        chance_at_threshold=_common_chance_at_threshold(rows),
        one_model="model" not in rows or rows["model"].nunique() <= 1,
        shares=SharesOfNights(),
    )


def _common_chance_at_threshold(rows: pd.DataFrame) -> float | None:
    """Return the chance at the thresholds of all nights; None where models differ."""
    if "chance_at_threshold" not in rows:
        return None
    chances = rows["chance_at_threshold"].unique()
    return float(chances[0]) if len(chances) == 1 and chances[0] > 0 else None


def undefined_areas() -> dict[str, Estimate]:
    """Return areas as they are of scores of several classes: without a common order."""
    return {figure.name: UNDEFINED for figure in _of_all_nights(of_one_model=True)}


def _of_all_nights(*, of_one_model: bool) -> list[Figure]:
    """Return the figures of all nights that need the scores of one model, or others."""
    return [
        figure
        for figure in figures_in("outcomes_overall")
        if ("one_model" in figure.needs) is of_one_model
    ]


class SharesOfNights:
    """Shares of rows of nights, with intervals by patient."""

    def rate(self, rows: EvaluatedRows, *, of_cases: bool) -> Estimate:
        """As for ``ShareMethod``."""
        among = rows.positive if of_cases else ~rows.positive
        counted = rows.flagged[among] == of_cases
        scores = rows.scores[among]
        codes = codes_of(np.asarray(rows.groups)[among])
        low, high = grouped_rate_interval(
            np.bincount(codes, counted)[:, None],
            np.bincount(codes),
            np.bincount(codes, scores >= np.median(scores)),
        )
        return Estimate(float(np.mean(counted)), float(low[0]), float(high[0]))

    def share(
        self, rows: EvaluatedRows, events: np.ndarray, among: np.ndarray
    ) -> Estimate:
        """As for ``ShareMethod``."""
        # Unlike sensitivity, it is not a share of scores above a threshold. The
        # correlation of a patient's scores does not matter, and would make the interval
        # too wide.
        events = events[among]
        codes = codes_of(np.asarray(rows.groups)[among])
        size = len(events) / design_effect(events, codes)
        freedom = max(int(codes.max()), 1)
        share = float(np.mean(events))
        low, high = rate_interval(share * size, size, freedom=freedom)
        return Estimate(share, float(low), float(high))


def detected_events(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the events of rows with how long before them patients were flagged.

    An event is detected if its patient was flagged on the last night before it. The
    unbroken row of flagged nights that ends there may begin before the window: a night
    of the series without a flag of the patient, or without a row, breaks it.

    Returns
    -------
    DataFrame
        The rows of the last night before each event, with `hours` from the first
        unbroken flag, NaN for events that were not detected, and `first_hours` from the
        first flag in the window, NaN for events without one.
    """
    nights = _one_row_a_night(rows)
    is_case = (nights["truth"] == "case") & nights["event"].notna()
    cases = nights[is_case]
    of_event = ["unit", "event"]
    last = cases.drop_duplicates(of_event, keep="last")
    is_detected = last["flagged"].astype(bool)
    hours = _hours_between(last["run_begins"], last["event"])
    flagged = cases[cases["flagged"].astype(bool)]
    first = flagged.drop_duplicates(of_event).set_index(of_event)["at"]
    keys = pd.MultiIndex.from_frame(last[of_event])
    first_flag = pd.Series(first.reindex(keys).to_numpy(), index=last.index)
    first_hours = _hours_between(first_flag, last["event"])
    return last.assign(hours=hours.where(is_detected), first_hours=first_hours)


def _one_row_a_night(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row of each patient, or stay, a night, in the order of both.

    It is flagged if one is. `run_begins` is the instant of the first of the flagged
    nights in a row that it ends.
    """
    nights = rows.sort_values(["unit", "at", "night", "flagged", "score"])
    nights = nights.drop_duplicates(["unit", "night"], keep="last")
    number = nights["night"].rank(method="dense")
    is_flagged = nights["flagged"].astype(bool) & (nights["truth"] != "past")
    goes_on = (
        (nights["unit"] == nights["unit"].shift())
        & (number == number.shift() + 1)
        & is_flagged
        & is_flagged.shift(fill_value=False)
    )
    run = (~goes_on).cumsum()
    return nights.assign(run_begins=nights.groupby(run)["at"].transform("first"))


def _hours_between(start: pd.Series, end: pd.Series) -> pd.Series:
    """Return the elapsed hours between instants, NaN where one is missing."""
    return (end - start).dt.total_seconds() / 3600


def lead_time(events: pd.DataFrame) -> LeadTime:
    """Return the lead times of events, as ``detected_events`` returns them."""
    unbroken = events["hours"].dropna().to_numpy(float)
    in_window = events["first_hours"].dropna().to_numpy(float)
    low, median, high = _median_and_quartiles(unbroken)
    first_low, first_median, first_high = _median_and_quartiles(in_window)
    return LeadTime(
        events=len(events),
        detected=len(unbroken),
        median_hours=median,
        low_hours=low,
        high_hours=high,
        flagged_earlier=len(in_window) - len(unbroken),
        first_median_hours=first_median,
        first_low_hours=first_low,
        first_high_hours=first_high,
    )


def _median_and_quartiles(hours: np.ndarray) -> list[float | None]:
    """Return lower quartile, median and upper quartile, None where there are few."""
    if len(hours) >= MIN_EVENTS_OF_QUARTILES:
        quartiles: list[float | None] = np.quantile(hours, [0.25, 0.5, 0.75]).tolist()
        return quartiles
    return [None, float(np.median(hours)) if len(hours) else None, None]


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
            if is_enough(len(of_level), suppress):
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


def below_promise(
    rates: KnownNights, promised: SensitivityAndPpv | None
) -> list[Literal["sensitivity", "ppv"]]:
    """Return the figures that lie below the promise, valid at every look."""
    if promised is None:
        return []
    below: list[Literal["sensitivity", "ppv"]] = []
    names: tuple[Literal["sensitivity"], Literal["ppv"]] = ("sensitivity", "ppv")
    for name in names:
        value, low, high = rates[name].value_and_interval
        if None in (value, low, high):
            continue
        anytime = Estimate(value, low, value + ANYTIME_WIDENING * (high - value))
        if is_below(anytime, getattr(promised, name)):
            below.append(name)
    return below


def _cases_by_word(
    rows: pd.DataFrame, words: Mapping[tuple[str, str], str]
) -> dict[str, dict[str, int]]:
    """Return by word how many of its rows turned out as cases, and as none.

    `words`: by night (YYYY-MM-DD) and patient.
    """
    counts: dict[str, dict[str, int]] = {}
    nights = rows["night"].dt.strftime("%Y-%m-%d")
    for night, patient, truth in zip(
        nights, rows["patient"], rows["truth"], strict=True
    ):
        word = words.get((night, patient))
        if word is not None:
            of_word = counts.setdefault(word, {"case": 0, "none": 0})
            of_word[truth] += 1
    return counts
