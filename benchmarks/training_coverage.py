"""Do the printed 95 % intervals hold the truth? Train on a part of a large table, look
at all the rest.

    python benchmarks/training_coverage.py --cohorts 40 --out coverage.csv
    python benchmarks/training_coverage.py --tables patients --rows 500 \\
        --cohorts 100 --out coverage.csv
    python benchmarks/training_coverage.py --out coverage.csv --table

A cohort is drawn at random (again if it has fewer than 30 positives); svm_weighted,
logistic and one_class_conformal are trained as `screen train` does, on the same folds.
The truth is what the stored machines do to all other rows, 20,000 at most. Tables:
abalone (15 rings or more), sick_euthyroid, voxels of one MRI volume (10 in 100 lesion),
made rows with 20,000 fresh ones, the same of three columns that are mostly 0, so that
many rows are equal, and made patients of 5 to 20 rows with an effect of their own
(`--rows` counts rows; the truth is 1,500 new patients).

Other rows are a sample too, where the table is small: an interval counts as holding if
it does when widened, in quadrature, by 1.96 standard errors of the truth; what is won
by that is shown (`plain` leaves it away). Of p-values the share at or below 0.05 among
new negatives is recorded: among new patients, where rows come in patients, each by the
highest of its negative rows, as calibration has them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from promise import UCI, VOXELS, Trained, as_read, made, trained
from resumed import run_missing
from sets import skip_unless_there, table

from screening.data.cohort import Cohort
from screening.errors import ScreenError
from screening.metrics.calibration import group_maxima, p_values
from screening.metrics.groups import group_codes
from screening.metrics.operating_point import overall
from screening.metrics.paired import area_difference, share_difference
from screening.metrics.predictive_intervals import predictive, variance_inflation
from screening.metrics.ranking import delong, half_width, placements
from screening.model_selection.scores import HeldOutScores

LEAST, FRESH, NEW_PATIENTS, ALPHA = 30, 20_000, 1500, 0.05
# Settings tried; fewer than its own 48 for the dear one.
RECIPES = {"svm_weighted": None, "logistic": None, "one_class_conformal": 12}
TABLES = ("abalone", "euthyroid", "voxels", "made", "coarse", "patients")
RATES = ("sensitivity", "specificity", "ppv", "npv", "flag_rate")
FIGURES = (*RATES, "auroc", "auroc difference", "specificity difference")


@cache
def whole(name: str) -> Cohort:
    """A large table."""
    if name == "abalone":
        frame = pd.read_csv(UCI / "abalone.csv")
        return as_read(frame.assign(label=np.where(frame["label"] >= 15, "yes", "no")))
    if name == "euthyroid":
        frame = pd.read_csv(UCI / "sick_euthyroid.csv", dtype={"label": str}).drop(
            columns="TBG"
        )
        return as_read(
            frame.assign(label=np.where(frame["label"] == "negative", "no", "yes"))
        )
    frame = pd.read_parquet(VOXELS, columns=["flair", "t1", "t1post", "t2", "label"])
    lesion = frame["label"].astype(float).to_numpy() == 1
    frame = frame.assign(label=np.where(lesion, "yes", "no"))
    return as_read(
        pd.concat(
            [frame[lesion], frame[~lesion].sample(9 * lesion.sum(), random_state=0)]
        )
    )


def coarse(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return rows of three columns that are 0 in 80 of 100 others, 50 of 100
    positives.
    """
    ill = rng.random(n) < 0.15
    x = rng.integers(1, 4, (n, 3))
    x[rng.random((n, 3)) < np.where(ill, 0.5, 0.8)[:, None]] = 0
    frame = pd.DataFrame(x, columns=["v0", "v1", "v2"])
    return frame.assign(label=np.where(ill, "yes", "no"))


def patients(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Patients of 5 to 20 rows; where a row lies, and how many are cases, is partly the
    patient's.
    """
    sizes = rng.integers(5, 21, n)
    own = np.repeat(np.arange(n), sizes)
    ill = rng.random(len(own)) < rng.beta(0.5, 3, n)[own]
    x = rng.normal(size=(len(own), 6)) + 0.7 * rng.normal(size=(n, 6))[own]
    x[ill, :3] += 1.2 + 0.5 * rng.normal(size=(n, 3))[own][ill]
    frame = pd.DataFrame(x, columns=[f"v{j}" for j in range(6)])
    return frame.assign(
        patient=[f"p{number}" for number in own], label=np.where(ill, "yes", "no")
    )


DRAWN = {"made": made, "coarse": coarse}


def drawn(name: str, rows: int, rng: np.random.Generator) -> tuple[Cohort, Cohort]:
    """A cohort, and the rows that tell the truth."""
    while True:
        if name in DRAWN:
            past = as_read(DRAWN[name](rows, rng))
            new = as_read(DRAWN[name](FRESH, rng))
        elif name == "patients":
            n = round(rows / 12.5)
            both = as_read(patients(n + NEW_PATIENTS, rng), group="patient")
            first = np.isin(both.group, [f"p{number}" for number in range(n)])
            past, new = both.take(first), both.take(~first)
        else:
            order = rng.permutation(whole(name).n_rows)
            past, new = (
                whole(name).take(part)
                for part in (order[:rows], order[rows : rows + FRESH])
            )
        if (past.labels == "yes").sum() >= LEAST:
            return past, new


def of_rates(
    flagged: np.ndarray, ill: np.ndarray, codes: np.ndarray | None
) -> dict[str, tuple[float, float]]:
    """Every rate of new rows, with its standard error."""
    hit, false, share = flagged[ill].mean(), flagged[~ill].mean(), ill.mean()
    true = {"sensitivity": hit, "specificity": 1 - false} | predictive(
        share, hit, false
    )
    among = {
        "sensitivity": (flagged, ill),
        "specificity": (~flagged, ~ill),
        "ppv": (ill, flagged),
        "npv": (~ill, ~flagged),
        "flag_rate": (flagged, np.ones(len(ill), bool)),
    }
    return {
        figure: (float(true[figure]), error(*among[figure], codes)) for figure in RATES
    }


def error(events: np.ndarray, of: np.ndarray, codes: np.ndarray | None) -> float:
    """Standard error of a mean of some rows, by group where there are any."""
    pull = np.where(of, events - events[of].mean(), 0.0) / of.sum()
    return float(
        np.sqrt(
            np.square(pull if codes is None else np.bincount(codes, weights=pull)).sum()
        )
    )


def printed(
    validation: HeldOutScores, model: Trained, new: Cohort
) -> Iterator[dict[str, Any]]:
    """Each figure with its interval, and the truth with its standard error."""
    point = validation.operating_point(0, model.rule, model.seed)
    held, y, groups = (
        validation.scores[:, 0],
        validation.watched[:, 0],
        validation.groups,
    )
    scores, ill, codes = (
        model.scores(new),
        new.labels == "yes",
        group_codes(new.group),
    )
    for figure, (true, se) in of_rates(scores >= point.threshold, ill, codes).items():
        yield of(figure, *point[figure].value_and_interval, true, se)
    area = delong(
        held,
        y,
        codes=group_codes(groups),
        variance_inflation=variance_inflation(validation.n_settings),
    )
    true, pull = placements(scores, ill)
    se = half_width(pull, ill, codes) / 1.96
    yield of("auroc", *area.value_and_interval, true, se)
    thresholds = np.array([point.threshold])
    clear, new_scores = ~ill, overall(scores[:, None], thresholds)
    tested = (
        new_scores[clear]
        if codes is None
        else group_maxima(new_scores[clear], codes[clear])
    )
    p = p_values(validation.calibration(thresholds), tested)
    yield of("p", None, None, None, float(np.mean(p <= ALPHA)), 0.0)


def of(
    figure: str, value: Any, low: Any, high: Any, true: float, se: float
) -> dict[str, Any]:
    return {
        "figure": figure,
        "value": value,
        "low": low,
        "high": high,
        "true": true,
        "se": se,
    }


def differences(
    one: tuple[HeldOutScores, Trained],
    other: tuple[HeldOutScores, Trained],
    new: Cohort,
) -> Iterator[dict[str, Any]]:
    """What is printed of two methods on the same folds, and the truth."""
    (held, y), (beside, _) = (
        (each.scores[:, 0], each.watched[:, 0]) for each, _ in (one, other)
    )
    groups, ill, codes = one[0].groups, new.labels == "yes", group_codes(new.group)
    points = [
        each.operating_point(0, model.rule, model.seed).threshold
        for each, model in (one, other)
    ]
    scores = [model.scores(new) for _, model in (one, other)]
    (area, pull), (area2, pull2) = (placements(each, ill) for each in scores)
    most = max(each.n_settings for each, _ in (one, other))
    inflation = variance_inflation(most)
    found = area_difference(held, beside, y, groups, variance_inflation=inflation)
    se = half_width(pull - pull2, ill, codes) / 1.96
    yield of("auroc difference", found.value, found.low, found.high, area - area2, se)
    clear, clear2 = held < points[0], beside < points[1]
    mine = None if groups is None else groups[~y]
    found = share_difference(clear[~y], clear2[~y], one[0].fold[~y], mine)
    moved = (scores[0] < points[0]).astype(float) - (scores[1] < points[1])
    true, se = float(moved[~ill].mean()), error(moved, ~ill, codes)
    yield of("specificity difference", found.value, found.low, found.high, true, se)


def cohort(
    name: str, rows: int, seed: int, repeats: Sequence[int], recipes: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """All figures of one cohort."""
    past, new = drawn(name, rows, np.random.default_rng([seed, rows]))
    told: dict[str, Any] = {"table": name, "rows": rows, "seed": seed}
    models: dict[str, Trained] = {}
    for recipe in recipes:
        search = RECIPES.get(recipe)
        try:
            models[recipe] = trained(
                past, recipe, repeats=max(repeats), search=search, seed=seed
            )
            models[recipe].checked()
        except ScreenError as refusal:
            models.pop(recipe, None)
            yield told | {"recipe": recipe, "figure": "refused", "why": str(refusal)}
    for number in repeats:
        known = {name: model.repeated(number) for name, model in models.items()}
        pairs = {name: (model.validation(), model) for name, model in known.items()}
        for recipe, pair in pairs.items():
            for found in printed(*pair, new):
                yield told | {"recipe": recipe, "repeats": number} | found
            for other in list(pairs)[list(pairs).index(recipe) + 1 :]:
                for found in differences(pair, pairs[other], new):
                    yield (
                        told
                        | {"recipe": f"{recipe} - {other}", "repeats": number}
                        | found
                    )
    yield told | {"figure": "done"}


COLUMNS = (
    "table",
    "rows",
    "seed",
    "recipe",
    "repeats",
    "figure",
    "value",
    "low",
    "high",
    "true",
    "se",
    "why",
)


def run(
    tables: Sequence[str],
    rows: int,
    cohorts: int,
    repeats: Sequence[int],
    recipes: Sequence[str],
    out: Path,
) -> None:
    """Append what is missing to the CSV, cohort by cohort."""
    pieces = [
        (name, rows, seed, repeats, recipes)
        for seed in range(cohorts)
        for name in tables
    ]
    keys = ("table", "rows", "seed")
    run_missing(
        out, COLUMNS, keys, pieces, cohort, lambda known: known["figure"] == "done"
    )


def holds(part: pd.DataFrame, plain: bool = False) -> pd.Series:
    """Whether each interval holds the truth."""
    reach = 0.0 if plain else 1.96 * part["se"]
    down = np.hypot((part["value"] - part["low"]).clip(lower=0), reach)
    up = np.hypot((part["high"] - part["value"]).clip(lower=0), reach)
    return (part["true"] >= part["value"] - down - 1e-12) & (
        part["true"] <= part["value"] + up + 1e-12
    )


def summarised(found: pd.DataFrame, by: Sequence[str], plain: bool) -> str:
    """Coverage of every figure, and the p-values' share."""
    lines = []
    for key, part in found.groupby(list(by), sort=False):
        cells = [len(part[part["figure"] == "sensitivity"])]
        for figure in FIGURES:
            own = part[part["figure"] == figure]
            cells.append(f"{100 * holds(own, plain).mean():.1f}" if len(own) else "")
        p = part.loc[part["figure"] == "p", "true"]
        lines.append([*key, *cells, f"{p.mean():.3f}" if len(p) else ""])
    return table([*by, "trainings", *FIGURES, "P(p <= .05)"], lines)


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--cohorts", type=int, default=40)
    parser.add_argument("--repeats", type=int, nargs="+", default=(1, 3))
    parser.add_argument("--recipes", nargs="+", default=tuple(RECIPES))
    parser.add_argument("--out", type=Path, default=Path("coverage.csv"))
    parser.add_argument(
        "--table", action="store_true", help="print the tables of a CSV and run nothing"
    )
    parser.add_argument(
        "--plain", action="store_true", help="take the truth as known exactly"
    )
    asked = parser.parse_args()
    if not asked.table:
        skip_unless_there()
        tables = [name for name in asked.tables if name != "voxels" or VOXELS.exists()]
        run(
            tables,
            asked.rows,
            asked.cohorts,
            asked.repeats,
            asked.recipes,
            asked.out,
        )
    found = pd.read_csv(asked.out, low_memory=False)
    refused = int((found["figure"] == "refused").sum())
    found = found[found["repeats"].notna()].astype({"repeats": int})
    for by in (("table", "rows", "repeats"), ("recipe", "rows", "repeats")):
        print(summarised(found, by, asked.plain) + "\n")
    print(f"{refused} trainings refused")


if __name__ == "__main__":
    main()
