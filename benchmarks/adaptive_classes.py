"""Adaptive machines of several classes beside the usual methods, on new rows.

    python benchmarks/adaptive_classes.py --out adaptive_classes.csv
    python benchmarks/adaptive_classes.py --out adaptive_classes.csv --table

Six UCI sets in ../shared/data; classes of fewer than `FEWEST` rows are left out, and of
large sets `MOST` rows are drawn. A method is tuned on two thirds of the rows as
`screen train` does, and judged on the others. Mean recall and G (the mean over classes
of sqrt(sensitivity x specificity)) are of the class that a model names, the one with
the highest chance; "own" figures are of the class with the largest decision, which is
the machine's own boundary. AUROC is one class against the rest, a mean over classes.
The CSV says which setting was chosen and whether a factor was declined; a split that is
in the CSV is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from promise import trained
from resumed import run_missing
from sets import random_splits, skip_unless_there, table
from several_classes import cohort_of
from sklearn.ensemble import RandomForestClassifier

from screening.metrics.calibration import likeliest
from screening.metrics.ranking import area_under_roc

SETS = ("glass", "ecoli", "new_thyroid", "car", "segment_full2310", "yeast")
PLAIN = ("one_vs_rest", "one_vs_rest_laplacian", "one_vs_one")
ADAPTIVE = (
    "shao_weighted",
    "shao_local",
    "williams_multiclass",
    "amari_wu_multiclass",
    "act_one_per_class",
)
FOREST = "random forest, 500 trees"
BOOSTING = "histogram_boosting"
# Settings of the boosting that compete, which has one by default.
BOOSTING_SEARCH = 12
FIGURES = ("recall", "g", "auroc", "own_recall", "own_g")
COLUMNS = ("set", "seed", "method", *FIGURES, "tried", "declined", "chosen", "seconds")


def figures(
    decisions: np.ndarray, named: np.ndarray, target: np.ndarray
) -> dict[str, float]:
    """Return the figures of one method, in percent.

    Parameters
    ----------
    decisions : ndarray of shape (n_rows, n_classes)
    named : int ndarray of shape (n_rows,)
        Class with the highest chance.
    target : int ndarray of shape (n_rows,)
    """
    areas = []
    for code in np.unique(target):
        areas.append(area_under_roc(decisions[:, code], target == code))
    recall, g_mean = recall_and_g(named, target)
    own_recall, own_g_mean = recall_and_g(decisions.argmax(axis=1), target)
    return {
        "recall": recall,
        "g": g_mean,
        "auroc": 100 * float(np.mean(areas)),
        "own_recall": own_recall,
        "own_g": own_g_mean,
    }


def recall_and_g(predicted: np.ndarray, target: np.ndarray) -> tuple[float, float]:
    """Return mean recall and mean G over the classes, in percent."""
    recalls = []
    g_means = []
    for code in np.unique(target):
        positive = target == code
        sensitivity = np.mean(predicted[positive] == code)
        specificity = np.mean(predicted[~positive] != code)
        recalls.append(sensitivity)
        g_means.append(np.sqrt(sensitivity * specificity))
    return 100 * float(np.mean(recalls)), 100 * float(np.mean(g_means))


def split(name: str, seed: int) -> Iterator[dict[str, object]]:
    """Yield a row for every method on one split."""
    whole = cohort_of(name)
    old, new = next(random_splits(whole.labels, 1 / 3, 1, seed))
    past = whole.take(old)
    later = whole.take(new)
    for method in (*PLAIN, *ADAPTIVE, BOOSTING):
        search = BOOSTING_SEARCH if method == BOOSTING else None
        began = time.process_time()
        model = trained(past, method, repeats=1, search=search, seed=seed)
        seconds = time.process_time() - began
        held_out = model.held_out
        target = model.study.task.target(later.labels)
        x = held_out.encoder.transform(later.values)
        decisions = held_out.ensemble.decisions(x)
        predicted = likeliest(held_out.class_chances, decisions)
        chosen = held_out.search.chosen
        declined = chosen["passes"] == 0 if "passes" in chosen else ""
        yield {
            "set": name,
            "seed": seed,
            "method": method,
            **figures(decisions, predicted, target),
            "tried": held_out.search.n_candidates,
            "declined": declined,
            "chosen": json.dumps(dict(chosen)),
            "seconds": round(seconds, 1),
        }
    rows = held_out.encoded
    forest = RandomForestClassifier(500, random_state=seed).fit(rows.x, rows.target)
    chances = forest.predict_proba(x)
    yield {
        "set": name,
        "seed": seed,
        "method": FOREST,
        **figures(chances, chances.argmax(axis=1), target),
        "tried": 1,
    }


def summary(rows: pd.DataFrame) -> str:
    """Return Markdown: figures of each method by set, and means over the sets."""
    shown = ["recall", "g", "auroc"]
    lines = []
    for method in dict.fromkeys(rows["method"]):
        of_method = rows[rows["method"] == method]
        by_set = of_method.groupby("set")[list(FIGURES)].mean()
        cells = []
        for name in SETS:
            cells.append(_joined(by_set.loc[name, shown]))
        mean = by_set.mean()
        cells += [_joined(mean[shown]), _joined(mean[["own_recall", "own_g"]])]
        declined = of_method["declined"].astype(str)
        n_declined = int((declined == "True").sum())
        n_factors = int(declined.isin(["True", "False"]).sum())
        cells.append(f"{n_declined} of {n_factors}" if n_factors else "")
        cells.append(f"{of_method['seconds'].sum():.0f}")
        lines.append([f"`{method}`", *cells])
    last = ["mean", "own boundary", "factor declined", "seconds"]
    return table(["mean recall / G / AUROC", *SETS, *last], lines)


def _joined(values: pd.Series) -> str:
    return " / ".join([f"{value:.1f}" for value in values])


def main() -> None:
    """Run the missing splits, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--out", type=Path, default=Path("adaptive_classes.csv"))
    parser.add_argument(
        "--table", action="store_true", help="only print what the CSV holds"
    )
    options = parser.parse_args()
    skip_unless_there()
    n_splits = 0 if options.table else options.splits
    pieces = []
    for seed in range(n_splits):
        for name in options.sets:
            pieces.append((name, seed))
    run_missing(options.out, COLUMNS, ("set", "seed"), pieces, split)
    print(summary(pd.read_csv(options.out)))


if __name__ == "__main__":
    main()
