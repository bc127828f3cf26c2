"""Do figures by outcomes say what is true? Wards with stays, events that come late.

    python benchmarks/outcomes.py --wards 400

Patients of a ward lie a geometric number of nights; some get the condition on a day of
their stay or soon after. A patient's scores are alike, and nights before an event score
higher the nearer it is. Outcomes are entered months later. The truth of every row, the
rates and the lead times are counted by loops of their own, which share nothing with the
package, over one ward as large as many. Printed are how often the intervals of a ward
hold the true rate, how often a ward that keeps its promise is ever said to be below it
when it is looked at every month, and both lead times beside the true ones. The script
fails if a count or a lead time of the large ward differs from its own.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict

import numpy as np
import pandas as pd

from screening.clock.windows import Known, Window, with_truth
from screening.metrics.outcomes import outcome_figures
from screening.schemas.base import Estimate
from screening.schemas.history import SensitivityAndPpv

FIRST = pd.Timestamp("2026-01-01")
DAY = pd.Timedelta(days=1)
N_NIGHTS = 365
WITHIN = 72.0
WINDOW = Window(within=WITHIN)
THRESHOLD = 1.3
FIGURES = ("sensitivity", "specificity", "ppv", "auroc")
UNTIL = 500


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
    names = np.array([f"p{number}" for number in range(n_patients)], dtype=object)
    rows = pd.DataFrame(
        {
            "night": FIRST + night * DAY,
            "at": FIRST + night * DAY,
            "unit": names[patient],
            "patient": names[patient],
            "score": score,
            "flagged": score >= THRESHOLD,
            "chance": np.nan,
            "model": "ward",
        }
    )
    # After the event the patient is treated and scored no more as at risk.
    events = pd.DataFrame(
        {"unit": names[gets_it], "time": FIRST + event[gets_it] * DAY}
    )
    return rows[night < N_NIGHTS], events


def figures_of(rows: pd.DataFrame, events: pd.DataFrame, until: int, promised=None):
    """Return the figures that are known on a day of the year."""
    as_of = FIRST + until * DAY
    known = with_truth(
        rows[rows["night"] < as_of],
        Known(events[events["time"] < as_of]),
        WINDOW,
        as_of,
    )
    return outcome_figures(known, WINDOW, str(as_of), promised, {})


def hours_of(times: pd.Series) -> list[float]:
    """Return times as hours since the first night."""
    return ((times - FIRST) / pd.Timedelta(hours=1)).tolist()


def counted(rows: pd.DataFrame, events: pd.DataFrame) -> dict[str, object]:
    """Return counts, rates and lead times by loops over patients and nights.

    Every patient has at most one event, and outcomes of all windows are known.
    """
    event_of = dict(zip(events["unit"], hours_of(events["time"]), strict=True))
    nights_of: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    lines = zip(rows["unit"], hours_of(rows["night"]), rows["flagged"], strict=True)
    for name, hour, flagged in lines:
        nights_of[name].append((hour, bool(flagged)))
    counts: Counter[str] = Counter()
    unbroken = []
    first = []
    for name, nights in nights_of.items():
        nights.sort()
        event = event_of.get(name, float("inf"))
        in_window = []
        for hour, flagged in nights:
            if event < hour:
                counts["past"] += 1
                continue
            is_case = event <= hour + WITHIN
            counts["case" if is_case else "none", flagged] += 1
            if is_case:
                in_window.append((hour, flagged))
        if not in_window:
            continue
        flags = [hour for hour, flagged in in_window if flagged]
        if flags:
            first.append(event - flags[0])
        if not in_window[-1][1]:
            continue
        start = in_window[-1][0]
        flag_at = dict(nights)
        while flag_at.get(start - 24, False):
            start -= 24
        unbroken.append(event - start)
    found = counts["case", True]
    clear = counts["none", False]
    return {
        "past": counts["past"],
        "cases": found + counts["case", False],
        "true_positive": found,
        "sensitivity": found / (found + counts["case", False]),
        "specificity": clear / (clear + counts["none", True]),
        "ppv": found / (found + counts["none", True]),
        "detected": len(unbroken),
        "unbroken": np.quantile(unbroken, [0.25, 0.5, 0.75]),
        "flagged": len(first),
        "first": np.quantile(first, [0.25, 0.5, 0.75]),
    }


def auroc_of(rows: pd.DataFrame, events: pd.DataFrame) -> float:
    """Return the share of pairs of case and other in the right order, by counting."""
    event_of = dict(zip(events["unit"], hours_of(events["time"]), strict=True))
    ahead = np.array([event_of.get(name, np.inf) for name in rows["unit"]])
    ahead -= np.array(hours_of(rows["night"]))
    scores = rows["score"].to_numpy()
    others = np.sort(scores[ahead > WITHIN])
    cases = scores[(ahead >= 0) & (ahead <= WITHIN)]
    return float(np.searchsorted(others, cases).mean() / len(others))


def check(figures, truth: dict[str, object]) -> None:
    """Raise SystemExit where a figure differs from the independent calculation."""
    lead = figures.lead
    pairs = {
        "past": (figures.past, truth["past"]),
        "cases": (figures.cases, truth["cases"]),
        "true_positive": (figures.true_positive, truth["true_positive"]),
        "detected": (lead.detected, truth["detected"]),
        "flagged": (lead.detected + lead.flagged_earlier, truth["flagged"]),
        "unbroken": (
            (lead.low_hours, lead.median_hours, lead.high_hours),
            truth["unbroken"],
        ),
        "first": (
            (lead.first_low_hours, lead.first_median_hours, lead.first_high_hours),
            truth["first"],
        ),
    }
    for name in FIGURES:
        pairs[name] = (figures[name].value, truth[name])
    wrong = [name for name, (ours, own) in pairs.items() if not np.allclose(ours, own)]
    if wrong:
        raise SystemExit(
            f"differs from the independent calculation: {', '.join(wrong)}"
        )


def in_words(quartiles) -> str:
    """Return a median with its quartiles."""
    low, median, high = quartiles
    return f"{median:.1f} ({low:.1f} to {high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--wards", type=int, default=400)
    parser.add_argument("--beds", type=int, nargs="+", default=[10, 30])
    options = parser.parse_args()
    print(
        "| beds | wards | sensitivity | specificity | PPV | AUROC | ever below | lead "
        "from the unbroken flag, hours | from the first in the window | median off "
        "by |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for beds in options.beds:
        # The truth: one ward as large as all of them, counted independently.
        whole = ward(10_000, 100 * beds)
        truth = counted(*whole) | {"auroc": auroc_of(*whole)}
        check(figures_of(*whole, UNTIL), truth)
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
        off = []
        for seed in range(options.wards):
            rows, events = ward(seed, beds)
            figures = figures_of(rows, events, UNTIL)
            for name in FIGURES:
                low, high = figures[name].value_and_interval[1:]
                held[name] += low <= truth[name] <= high
            months = range(60, 400, 30)
            n_below += any(
                figures_of(rows, events, day, promised).below for day in months
            )
            off.append(figures.lead.median_hours - truth["unbroken"][1])
        shares = [f"{100 * held[name] / options.wards:.0f} %" for name in FIGURES]
        cells = [
            f"{beds}",
            f"{options.wards}",
            *shares,
            f"{100 * n_below / options.wards:.1f} %",
            in_words(truth["unbroken"]),
            in_words(truth["first"]),
            f"{np.median(np.abs(off)):.0f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
