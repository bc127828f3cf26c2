"""Perez-Ortiz et al., Table 1: eight sets, SMOTE in the empirical feature space against SMOTE and none.

    python benchmarks/papers/perez_ortiz.py --reps 3
    python benchmarks/papers/perez_ortiz.py --fast

Stratified 10-fold cross-validation, Gaussian kernel, C and gamma in 10^-3 ... 10^3 by nested stratified
5-fold cross-validation on the G-mean, tuned for each method by itself; columns are standardised.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from sets import encoded, k_folds, load, rates, skip_unless_there, table, tuned

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


def run(name: str, train: np.ndarray, test: np.ndarray, powers: list[float], seed: int) -> dict:
    """Accuracy, G-mean and minimum sensitivity by method on one fold."""
    x, y, z, truth = encoded(load(name), train, test, "standard")
    grid = [{"C": c, "gamma": gamma} for c, gamma in product(powers, powers)]

    def judged(recipe: str, setting: dict) -> tuple[float, float, float]:
        g_mean, *both = rates(truth, build(recipe, **setting).fit(x, y).decision_function(z))
        share = np.mean(truth)
        return both[0] * share + both[1] * (1 - share), g_mean, min(both)

    settings, found = {}, {}
    for label, recipe in METHODS.items():
        try:
            build(recipe)
        except RecipeError:
            continue
        settings[label] = tuned(recipe, x, y, grid, 5, seed)
        found[label] = judged(recipe, settings[label])
    for label, recipe in BESIDE.items():
        found[label] = judged(recipe, settings["SVC"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reps", type=int, default=1, help="repetitions of the 10-fold cross-validation")
    parser.add_argument("--fast", action="store_true", help="one repetition, every second power of ten")
    parser.add_argument("--sets", nargs="+", choices=list(PAPER), default=list(PAPER))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    skip_unless_there()

    reps, powers = (1, POWERS[::2]) if given.fast else (given.reps, POWERS)
    jobs = [
        (name, train, test)
        for name in given.sets
        for rep in range(reps)
        for train, test in k_folds(load(name).y, 10, given.seed + rep)
    ]
    results = Parallel(n_jobs=given.jobs, verbose=1)(
        delayed(run)(name, train, test, powers, given.seed) for name, train, test in jobs
    )

    rows = []
    for name in given.sets:
        mine = [found for (job, *_), found in zip(jobs, results, strict=True) if job == name]
        for label in mine[0]:
            figures = np.array([found[label] for found in mine])
            column = list(METHODS).index(label) if label in METHODS else None
            paper = "" if column is None else f"{PAPER[name][column]:.1f}"
            mean, sd = figures.mean(axis=0), figures.std(axis=0)
            off = "" if column is None else f"{mean[1] - PAPER[name][column]:+.1f}"
            rows.append(
                [name, label, paper, f"{mean[1]:.1f} ± {sd[1]:.1f}", off, f"{mean[0]:.1f}", f"{mean[2]:.1f}"]
            )
    print(f"\n10-fold cross-validation, {reps} repetition(s), grid {len(powers)} x {len(powers)}\n")
    print(table(["set", "method", "paper G", "ours G", "difference", "accuracy", "min. sensitivity"], rows))


if __name__ == "__main__":
    main()
