"""Perez-Ortiz et al., Table 1: eight sets, SMOTE in the empirical feature space against
SMOTE and none.

    python benchmarks/papers/perez_ortiz.py --reps 3 --kept folds.csv
    python benchmarks/papers/perez_ortiz.py --fast

Stratified 10-fold cross-validation, Gaussian kernel, C and gamma in 10^-3 ... 10^3 by
nested stratified 5-fold cross-validation on the G-mean, tuned for each method by
itself; columns are standardised. --kept names a file of finished test folds: a run that
was stopped goes on with it.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from sets import (
    TestFold,
    encoded,
    k_folds,
    load,
    rates,
    repeated,
    run_folds,
    skip_unless_there,
    table,
    tuned,
)

from screening import build
from screening.errors import RecipeError

PAPER = {  # G-mean of E-SMOTE, SMOTE, none
    "colic": (81.03, 79.29, 79.15),
    "breast": (64.72, 62.76, 44.29),
    "haberman": (60.59, 61.68, 45.10),
    "ecoli1": (86.43, 86.03, 81.51),
    "spectfheart": (77.63, 75.16, 58.26),
    "glass0146vs2": (64.47, 49.99, 16.05),
    "cleveland0vs4": (96.44, 93.18, 72.96),
    "yeast2vs8": (67.12, 55.05, 65.25),
}
METHODS = {"E-SMOTE + SVC": "e_smote_svm", "SMOTE + SVC": "smote_svm", "SVC": "svm"}
BESIDE = {
    "SVC, tuned threshold": "svm_moved_boundary",
    "SVC, unequal costs": "svm_weighted",
}  # settings of SVC
POWERS = [1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3]


def run(fold: TestFold, powers: list[float], seed: int) -> list[dict]:
    """G-mean, minimum sensitivity and accuracy by method on one fold."""
    x, y, z, truth = encoded(load(fold.name), fold.train, fold.test, "standard")
    grid = [{"C": c, "gamma": gamma} for c, gamma in product(powers, powers)]

    def judged(label: str, recipe: str, setting: dict) -> dict:
        g_mean, *both = rates(
            truth, build(recipe, **setting).fit(x, y).decision_function(z)
        )
        share = np.mean(truth)
        accuracy = both[0] * share + both[1] * (1 - share)
        figures = {
            "g_mean": g_mean,
            "minimum_sensitivity": min(both),
            "accuracy": accuracy,
        }
        return {"method": label, **setting, **figures}

    settings, found = {}, []
    for label, recipe in METHODS.items():
        try:
            build(recipe)
        except RecipeError:
            continue
        settings[label] = tuned(recipe, x, y, grid, 5, seed)
        found.append(judged(label, recipe, settings[label]))
    return found + [
        judged(label, recipe, settings["SVC"]) for label, recipe in BESIDE.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--reps",
        type=int,
        default=1,
        help="repetitions of the 10-fold cross-validation",
    )
    parser.add_argument(
        "--fast", action="store_true", help="one repetition, every second power of ten"
    )
    parser.add_argument("--sets", nargs="+", choices=list(PAPER), default=list(PAPER))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--kept", type=Path, help="file of finished test folds, read and appended to"
    )
    given = parser.parse_args()
    skip_unless_there()

    reps, powers = (1, POWERS[::2]) if given.fast else (given.reps, POWERS)
    folds = [
        TestFold(name, rep, fold, *rows)
        for name in given.sets
        for rep in range(reps)
        for fold, rows in enumerate(k_folds(load(name).y, 10, given.seed + rep))
    ]
    protocol = f"10-fold cross-validation, grid {len(powers)} x {len(powers)}"
    found = run_folds(
        partial(run, powers=powers, seed=given.seed),
        folds,
        f"{protocol}, seed {given.seed}",
        given.jobs,
        given.kept,
    )

    columns = list(METHODS)
    labels = list(found["method"].unique())
    rows = []
    for name in given.sets:
        mine = found[found["set"] == name]
        cells = [
            repeated(
                mine[mine["method"] == label],
                PAPER[name][columns.index(label)] if label in columns else None,
            )
            for label in labels
        ]
        rows.append([name, *cells])
    print(
        f"\n{protocol}, {reps} repetition(s): paper / ours ± standard deviation of the repetitions' means\n"
    )
    print(table(["G-mean", *labels], rows))


if __name__ == "__main__":
    main()
