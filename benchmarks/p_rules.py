"""Which rule of p-values is valid for a model that is the mean of its folds? New negatives tell.

    python benchmarks/p_rules.py --cohorts 14 --out p_rules.csv

Cohorts of 500 rows of three tables of `training_coverage.py`; 4,000 other rows at most. Three rules:

mean   rank of the model's score among all held-out scores, as `screen` has it;
cross  each fold's machine ranks the new row among the rows held out from it, and the counts are added
       (cross-conformal prediction, Vovk 2015);
lot    as mean, but the new row is scored by one machine drawn by lot, as held-out rows are: exact, and
       another answer for every lot.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import training_coverage
from promise import trained
from resumed import run_missing
from sets import skip_unless_there, table

from screening.cohort.cohort import labels_of
from screening.errors import ScreenError
from screening.statistics.p_values import p_values

TABLES = ("abalone", "euthyroid", "made")
SETTINGS = {"one_class": 12, "one_class_conformal": 12, "svm_weighted": 8, "auto": 2}
LEVELS = (0.01, 0.05, 0.1, 0.2)
COLUMNS = ("table", "seed", "recipe", "rule", *(f"at {level}" for level in LEVELS))
ROWS, FRESH, FOLDS = 500, 4000, 5


def shares(name: str, seed: int, recipe: str) -> Iterator[dict[str, object]]:
    """Share of new negatives at or below each level, by each rule; nothing of a training that was refused."""
    past, new = training_coverage.drawn(name, ROWS, np.random.default_rng([seed, ROWS]))
    new = new.take(np.flatnonzero(labels_of(new) != "yes")[:FRESH])
    told: dict[str, object] = {"table": name, "seed": seed, "recipe": recipe}
    try:
        model = trained(past, recipe, repeats=1, search=SETTINGS[recipe], seed=seed)
        model.checked()
    except ScreenError:
        yield told | {"rule": "refused"}
        return
    held, negative = model.held_out, labels_of(model.study.sample) != "yes"
    own, fold = held.decisions[0, negative, 0].astype(float), held.fold[0][negative]
    encoded = held.encoder.transform(new)
    each = np.array([held.ensemble.of_one(k, encoded)[:, 0] for k in range(FOLDS)])
    lot = np.random.default_rng(seed).integers(FOLDS, size=each.shape[1])
    calibration = np.sort(own)
    ranks = [p_values(np.sort(own[fold == k]), each[k]) * (np.sum(fold == k) + 1) - 1 for k in range(FOLDS)]
    p = {
        "mean": p_values(calibration, held.ensemble.decisions(encoded)[:, 0]),
        "cross": (1 + np.sum(ranks, axis=0)) / (len(own) + 1),
        "lot": p_values(calibration, each[lot, np.arange(each.shape[1])]),
    }
    for rule, values in p.items():
        yield told | {"rule": rule} | {f"at {level}": float(np.mean(values <= level)) for level in LEVELS}


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, default=14, help="of each table")
    parser.add_argument("--recipes", nargs="+", default=tuple(SETTINGS))
    parser.add_argument("--out", type=Path, default=Path("p_rules.csv"))
    asked = parser.parse_args()
    skip_unless_there()
    pieces = [
        (name, seed, recipe) for recipe in asked.recipes for seed in range(asked.cohorts) for name in TABLES
    ]
    run_missing(asked.out, COLUMNS, COLUMNS[:3], pieces, shares)
    found = pd.read_csv(asked.out)
    found = found[found["rule"] != "refused"]
    lines = []
    for (recipe, rule), part in found.groupby(["recipe", "rule"], sort=False):
        at = [f"{part[f'at {level}'].mean():.4f}" for level in LEVELS]
        error, rms = part["at 0.05"].sem(), np.sqrt(np.square(part["at 0.05"] - 0.05).mean())
        by_table = [f"{part.loc[part['table'] == name, 'at 0.05'].mean():.3f}" for name in TABLES]
        lines.append([recipe, rule, len(part), *at, f"{error:.4f}", f"{rms:.3f}", *by_table])
    levels = [f"P(p <= {level})" for level in LEVELS]
    print(table(["recipe", "rule", "trainings", *levels, "error at .05", "rms at .05", *TABLES], lines))


if __name__ == "__main__":
    main()
