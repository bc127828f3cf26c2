"""Do figures by outcomes say what is true? Wards with stays, events that come late.

    python benchmarks/outcomes.py --wards 400

Patients of a ward lie a geometric number of nights; some get the condition on a day of
their stay or soon after. A patient's scores are alike, and nights before an event score
higher the nearer it is. Outcomes are entered months later. Truth is the mean over many
wards; printed are how often the intervals of a ward hold it, how often a ward that
keeps its promise is ever said to be below it when it is looked at every month, and how
far the median lead time is from the true one.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from screening.metrics.outcomes import Window, outcome_figures, with_truth
from screening.schemas.base import Estimate
from screening.schemas.history import SensitivityAndPpv

FIRST = pd.Timestamp("2026-01-01")
DAY = pd.Timedelta(days=1)
N_NIGHTS = 365
WINDOW = Window(within=72)
THRESHOLD = 1.3
FIGURES = ("sensitivity", "specificity", "ppv", "auroc")


def ward(seed: int, beds: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return scored rows of a year, and events."""
    rng = np.random.default_rng(seed)
    n_patients = int(beds * N_NIGHTS / 6)
    begin = rng.integers(0, N_NIGHTS, n_patients)
    stay = rng.geometric(1 / 6, n_patients)
    patient = np.repeat(np.arange(n_patients), stay)
    since = np.arange(len(patient)) - np.repeat(np.cumsum(stay) - stay, stay)
    night = begin[patient] + since
    gets_it = rng.random(n_patients) < 0.12
    event = np.where(gets_it, begin + rng.random(n_patients) * (stay + 1), np.inf)
    ahead = event[patient] - night
    is_near = (ahead > 0) & (ahead <= 6)
    score = rng.normal(scale=0.7, size=n_patients)[patient]
    score += rng.normal(scale=0.7, size=len(patient))
    score += np.where(is_near, 2.2 - 0.2 * np.where(is_near, ahead, 0), 0)
    rows = pd.DataFrame(
        {
            "night": FIRST + night * DAY,
            "patient": [f"p{number}" for number in patient],
            "score": score,
            "flagged": score >= THRESHOLD,
            "chance": np.nan,
            "model": "ward",
        }
    )
    # After the event the patient is treated and scored no more as at risk.
    events = pd.DataFrame(
        {
            "patient": [f"p{number}" for number in np.flatnonzero(gets_it)],
            "time": FIRST + event[gets_it] * DAY,
        }
    )
    return rows[night < N_NIGHTS], events


def figures_of(rows: pd.DataFrame, events: pd.DataFrame, until: int, promised=None):
    """Return the figures that are known on a day of the year."""
    as_of = FIRST + until * DAY
    known = with_truth(
        rows[rows["night"] < as_of], events[events["time"] < as_of], WINDOW, as_of
    )
    return outcome_figures(known, WINDOW, as_of, promised, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--wards", type=int, default=400)
    parser.add_argument("--beds", type=int, nargs="+", default=[10, 30])
    options = parser.parse_args()
    print(
        "| beds | wards | sensitivity | specificity | PPV | AUROC | ever below | "
        "median lead, hours: true; off by |\n|---|---|---|---|---|---|---|---|"
    )
    for beds in options.beds:
        # The truth: one ward as large as all of them.
        whole = figures_of(*ward(10_000, 100 * beds), 500)
        truth = {name: getattr(whole, name).value for name in FIGURES}
        true_lead = whole.lead.median_hours
        # As exact as a promise of validation on many past patients.
        promised = SensitivityAndPpv(
            sensitivity=Estimate(
                truth["sensitivity"],
                truth["sensitivity"] - 0.03,
                truth["sensitivity"] + 0.03,
            ),
            ppv=Estimate(truth["ppv"], truth["ppv"] - 0.03, truth["ppv"] + 0.03),
        )
        held = dict.fromkeys(FIGURES, 0)
        n_below = 0
        leads = []
        for seed in range(options.wards):
            rows, events = ward(seed, beds)
            figures = figures_of(rows, events, 500)
            for name in FIGURES:
                low, high = getattr(figures, name).value_and_interval[1:]
                held[name] += low <= truth[name] <= high
            months = range(60, 400, 30)
            n_below += any(
                figures_of(rows, events, day, promised).below for day in months
            )
            leads.append(figures.lead.median_hours)
        shares = [f"{100 * held[name] / options.wards:.0f} %" for name in FIGURES]
        off = np.median(np.abs(np.array(leads, float) - true_lead))
        cells = [
            f"{beds}",
            f"{options.wards}",
            *shares,
            f"{100 * n_below / options.wards:.1f} %",
            f"{true_lead:.0f}; {off:.0f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
