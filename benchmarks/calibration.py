"""Is a printed chance true of new patients, and its band? Trained on two thirds, looked
at in the rest.

    python benchmarks/calibration.py --splits 3 --out calibration.csv
    python benchmarks/calibration.py --out calibration.csv --table

The tables are those of promise.py, each whole and drawn down to 45 cases (30 in the two
thirds), with three cheap recipes of three settings each. Four chances of the same
held-out scores: the one printed; the same cut at what its lowest and highest bin had
observed, with a bin's interval, as it was printed once; scikit-learn's logistic
regression on the score without any penalty; and the share of cases.

Slope: of the logistic regression of what new patients have on the log odds of their
chance; 1 is right, more says that chances lie too close together. A bin is a fifth of
the new patients by chance; it is covered where its cases are within the central 95 % of
the binomial for some chance between its mean bounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from promise import SETS, cohort_of, random_splits, skip_unless_there, table, trained
from resumed import run_missing
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from screening.data.cohort import Cohort
from screening.errors import ScreenError
from screening.metrics.calibration import calibrate, probability_intervals
from screening.schemas.validation import Calibration

RECIPES = ("logistic", "svm", "random_forest")
SETTINGS, FEW, BINS = 3, 45, 5
KINDS = ("printed", "cut", "plain", "share")
BANDS = ("printed", "cut")
COLUMNS = (
    "set",
    "size",
    "recipe",
    "seed",
    "cases",
    "new_cases",
    "why",
    "kind",
    "loss",
    "slope",
    "bins",
    "covered",
)


def drawn(cohort: Cohort, size: str, seed: int) -> Cohort:
    """The cohort, or so many of its rows that few cases are left, at the same share of
    cases.
    """
    ill = cohort.labels == "yes"
    if size == "whole" or ill.sum() <= FEW:
        return cohort
    rng = np.random.default_rng(seed)
    share = FEW / ill.sum()
    kept = [
        rng.choice(np.flatnonzero(side), round(share * side.sum()), replace=False)
        for side in (ill, ~ill)
    ]
    return cohort.take(np.sort(np.concatenate(kept)))


def cut(
    calibration: Calibration, chance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A chance cut at what its end bins observed, half a patient inwards, and its bin's
    interval.
    """
    bins = calibration.reliability
    ends = [
        (b.observed.value, (b.observed.value * b.size + 0.5) / (b.size + 1))
        for b in (bins[0], bins[-1])
    ]
    low, high = sorted((max(ends[0]), min(ends[1])))
    chance = np.clip(chance, low, high)
    middles = np.array([b.predicted for b in bins])
    place = np.searchsorted((middles[1:] + middles[:-1]) / 2, chance)
    bounds = (
        np.array([getattr(b.observed, end) for b in bins])[place]
        for end in ("low", "high")
    )
    return chance, *(
        limit(bound, chance)
        for limit, bound in zip((np.minimum, np.maximum), bounds, strict=True)
    )


def judged(
    chance: np.ndarray, low: np.ndarray, high: np.ndarray, ill: np.ndarray
) -> dict[str, float]:
    """Log loss, slope and bins covered of chances of new patients."""
    p = np.clip(chance, 1e-6, 1 - 1e-6)
    found: dict[str, float] = {"loss": float(-np.log(np.where(ill, p, 1 - p)).mean())}
    odds = np.log(p / (1 - p))[:, None]
    if np.ptp(odds) > 0:
        found["slope"] = float(
            LogisticRegression(C=np.inf, tol=1e-8).fit(odds, ill).coef_[0, 0]
        )
        places = np.array_split(np.argsort(chance, kind="stable"), BINS)
        held = [
            _allowed(
                int(ill[rows].sum()),
                len(rows),
                float(low[rows].mean()),
                float(high[rows].mean()),
            )
            for rows in places
        ]
        found |= {"bins": len(held), "covered": sum(held)}
    return found


def _allowed(cases: int, n: int, low: float, high: float) -> bool:
    """Whether so many cases are within the central 95 % of the binomial for a chance
    between two.
    """
    return bool(binom.ppf(0.025, n, low) <= cases <= binom.ppf(0.975, n, high))


def split(
    name: str, size: str, recipe: str, seed: int
) -> Iterator[Mapping[str, object]]:
    """What each kind of chance does on one split."""
    whole = drawn(cohort_of(name, seed), size, seed)
    old, new = next(random_splits((whole.labels == "yes").astype(int), 1 / 3, 1, seed))
    past, later = whole.take(old), whole.take(new)
    ill = later.labels == "yes"
    row: dict[str, object] = {
        "set": name,
        "size": size,
        "recipe": recipe,
        "seed": seed,
        "new_cases": ill.sum(),
    }
    try:
        model = trained(past, recipe, repeats=1, search=SETTINGS, seed=seed)
    except ScreenError as refusal:
        yield row | {"why": str(refusal)}
        return
    validation, scores = model.validation(), model.scores(later)
    held, positive = validation.scores[:, 0], validation.watched[:, 0]
    row["cases"] = int(positive.sum())
    share = float(positive.mean())
    calibration = calibrate(held, positive, validation.fold, share)
    if not calibration.earned:
        yield row | {"why": calibration.reason}
        return
    printed = probability_intervals(calibration, scores)
    spread = held.std() or 1.0
    plain = LogisticRegression(C=np.inf, tol=1e-8).fit(held[:, None] / spread, positive)
    alone = plain.predict_proba(scores[:, None] / spread)[:, 1]
    level = np.full(len(scores), share)
    kinds = {
        "printed": printed,
        "cut": cut(calibration, printed[0]),
        "plain": (alone,) * 3,
        "share": (level,) * 3,
    }
    for kind, three in kinds.items():
        yield row | {"kind": kind} | judged(*three, ill)


def summarised(rows: pd.DataFrame) -> str:
    """One line for many and for few cases, and each kind of chance."""
    known, lines = rows[rows["kind"].notna()], []
    key = ["set", "size", "recipe", "seed"]
    few = known["cases"].between(20, 47)
    for words, part in (("48 or more", known[~few]), ("20 to 47", known[few])):
        printed = part[part["kind"] == "printed"].set_index(key)["loss"]
        for kind in KINDS:
            mine = part[part["kind"] == kind].set_index(key)
            apart = (mine["loss"] - printed).groupby("set").mean()
            middle, bins = mine["slope"].quantile([0.5, 0.25, 0.75]), mine["bins"].sum()
            lines.append(
                [
                    words,
                    kind,
                    len(mine),
                    f"{mine['loss'].mean():.4f}",
                    ""
                    if kind == "printed"
                    else f"{apart.mean():+.4f} ± {1.96 * apart.sem():.4f}",
                    ""
                    if kind == "share"
                    else "{:.2f} ({:.2f} to {:.2f})".format(*middle),
                    f"{100 * mine['covered'].sum() / bins:.1f} % of {bins:.0f}"
                    if kind in BANDS
                    else "",
                ]
            )
    header = [
        "cases held out",
        "chance",
        "thirds",
        "log loss",
        "beside printed (by table)",
        "slope: median (quartiles)",
        "bins covered",
    ]
    return table(header, lines)


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("calibration.csv"))
    parser.add_argument(
        "--table", action="store_true", help="print the table of a CSV and run nothing"
    )
    asked = parser.parse_args()
    if not asked.table:
        skip_unless_there()
        pieces = [
            (name, size, recipe, seed)
            for seed in range(asked.splits)
            for name in [*SETS, "made"]
            for size in ("whole", "few")
            for recipe in RECIPES
        ]
        run_missing(
            asked.out, COLUMNS, ("set", "size", "recipe", "seed"), pieces, split
        )
    rows = pd.read_csv(asked.out)
    print(summarised(rows))
    print(rows["why"].value_counts().to_string())


if __name__ == "__main__":
    main()
