"""Wu and Chang 2003, Tables 2 and 3: six UCI sets, Laplacian kernel, G-mean of methods
that rescale it.

    python benchmarks/papers/wu_chang.py --reps 3 --kept folds.csv
    python benchmarks/papers/wu_chang.py --printed --reps 10
    python benchmarks/papers/wu_chang.py --fast --sets seg1 g7

Stratified 7-fold cross-validation: the printed sensitivities are counts over 7 folds
(g7: 23 of 7 x 4), while the text speaks of ten 6:1 splits, which --splits runs. C and
gamma of the plain machine by 7-fold cross-validation on the training rows, or as
printed (--printed), then the same for all methods. Eq. 13 is printed with L1, the UCI
runs are said to be with L2: both are run, L2 where nothing is said. --kept names a file
of finished test folds: a run that was stopped goes on with it.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from pathlib import Path

from sets import (
    HERE,
    TestFold,
    encoded,
    k_folds,
    load,
    random_splits,
    rates,
    repeated,
    run_folds,
    skip_unless_there,
    table,
    tuned,
)

from screening import build
from screening.errors import RecipeError

PAPER = {  # SVM, SMOTE, CT_I, ACT_I, ACT_F
    "seg1": (98.1, 98.1, 96.2, 98.1, 98.1),
    "g7": (89.9, 91.8, 85.6, 93.7, 93.7),
    "euth1": (92.8, 92.4, 94.1, 94.4, 94.5),
    "car3": (99.0, 99.0, 99.1, 99.1, 99.9),
    "yeast5": (59.1, 69.9, 71.8, 75.6, 78.5),
    "ab19": (0.0, 0.0, 44.2, 50.9, 51.9),
}
PRINTED_GAMMA = {
    "seg1": 0.004,
    "g7": 0.003,
    "euth1": 0.08,
    "car3": 0.3,
    "yeast5": 0.5,
    "ab19": 0.086,
}
PLAIN = HERE / "laplacian_svm.toml"
METHODS = {  # label: recipe, overrides, column of the paper's table
    "SVM": (PLAIN, {}, 0),
    "SVM, tuned threshold": (HERE / "laplacian_svm_moved_boundary.toml", {}, None),
    "SVM, unequal costs": (HERE / "laplacian_svm_weighted.toml", {}, None),
    "CT_I": ("wu_amari", {}, 2),
    "ACT_I": ("act_input_space", {}, 3),
    "ACT_I, L1": ("act_input_space", {"norm": 1}, 3),
    "ACT_F": ("act_feature_space", {"distance": "feature"}, 4),
    "ACT_F, L1": ("act_feature_space", {"distance": "feature", "norm": 1}, 4),
    "ACT_F, feature distance in D": (
        "act_feature_space",
        {"distance": "feature_both"},
        None,
    ),
    "ACT_F, c normalised": (
        "act_feature_space",
        {"distance": "feature", "normalise": True},
        None,
    ),
    "CT_I, c normalised": ("wu_amari", {"normalise": True}, None),
}
GAMMAS = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
GRID = [
    {"C": c, "gamma": gamma} for c, gamma in product([1.0, 10.0, 100.0, 1000.0], GAMMAS)
]
BEST_OF = 3
LEAK = "ACT_F, best pass on the test rows (a leak)"


def available(methods: dict) -> dict:
    kept = {}
    for label, (recipe, given, column) in methods.items():
        try:
            build(recipe, **given)
        except RecipeError as error:
            print(f"left out: {label} ({error})")
        else:
            kept[label] = (recipe, given, column)
    return kept


def run(fold: TestFold, printed: bool, methods: dict, seed: int) -> list[dict]:
    """G-mean, sensitivity and specificity by method on one split."""
    x, y, z, truth = encoded(load(fold.name), fold.train, fold.test, "unit")
    setting = (
        {"C": 1000.0, "gamma": PRINTED_GAMMA[fold.name]}
        if printed
        else tuned(PLAIN, x, y, GRID, 7, seed)
    )

    def judged(label: str, recipe: object, given: dict) -> dict:
        figures = rates(
            truth, build(recipe, **setting, **given).fit(x, y).decision_function(z)
        )
        named = dict(
            zip(("g_mean", "sensitivity", "specificity"), figures, strict=True)
        )
        return {"method": label, **setting, **named}

    found = [
        judged(label, recipe, given) for label, (recipe, given, _) in methods.items()
    ]
    if (
        "ACT_F" in methods
    ):  # the paper stops its loop by the test rows; this is what such a choice can give
        tried = [
            judged(LEAK, "act_feature_space", {"distance": "feature", "passes": passes})
            for passes in range(BEST_OF + 1)
        ]
        found.append(max(tried, key=lambda row: row["g_mean"]))
    return found


def test_folds(names: list[str], splits: bool, reps: int, seed: int) -> list[TestFold]:
    folds = []
    for name in names:
        y = load(name).y
        if splits:
            drawn = random_splits(y, 1 / 7, reps, seed)
            folds += [TestFold(name, rep, 0, *rows) for rep, rows in enumerate(drawn)]
        else:
            folds += [
                TestFold(name, rep, fold, *rows)
                for rep in range(reps)
                for fold, rows in enumerate(k_folds(y, 7, seed + rep))
            ]
    return folds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reps", type=int, default=10)
    parser.add_argument(
        "--fast", action="store_true", help="one repetition, as printed, without ab19"
    )
    parser.add_argument(
        "--printed", action="store_true", help="the paper's C and gamma, not tuned"
    )
    parser.add_argument(
        "--splits", action="store_true", help="6:1 splits, one a repetition"
    )
    parser.add_argument("--sets", nargs="+", choices=list(PAPER), default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--kept", type=Path, help="file of finished test folds, read and appended to"
    )
    given = parser.parse_args()
    skip_unless_there()

    reps, printed = (1, True) if given.fast else (given.reps, given.printed)
    names = given.sets or [
        name for name in PAPER if not (given.fast and name == "ab19")
    ]
    methods = available(METHODS)
    protocol = "6:1 splits" if given.splits else "7-fold cross-validation"
    protocol += f", C and gamma {'as printed' if printed else 'by inner 7-fold cross-validation'}"
    found = run_folds(
        partial(run, printed=printed, methods=methods, seed=given.seed),
        test_folds(names, given.splits, reps, given.seed),
        f"{protocol}, seed {given.seed}",
        given.jobs,
        given.kept,
    )

    rows = []
    for label, of_method in found.groupby("method", sort=False):
        column = methods[label][2] if label in methods else 4
        cells = [
            repeated(
                of_method[of_method["set"] == name],
                None if column is None else PAPER[name][column],
            )
            for name in names
        ]
        rows.append([label, *cells])
    print(
        f"\n{protocol}, {reps} repetition(s): paper / ours ± standard deviation of the repetitions' means\n"
    )
    print(table(["G-mean", *names], rows))


if __name__ == "__main__":
    main()
