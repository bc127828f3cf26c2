"""Does choosing a method pay? `auto` beside the methods it chooses from, on fourteen two-class sets.

    python benchmarks/papers/auto.py --out compared
    python benchmarks/papers/auto.py --sets yeast5 ab19 --search 3 --folds 5 --out compared

One comparison over all sets, thresholds by the largest inner G-mean; `auto` chooses among kernel
machines, `auto_with_baselines` also among baselines. A run that was stopped goes on with its finished folds.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from sets import load, skip_unless_there, table

from screening.cohort import read_cohort
from screening.comparison import compare, place_of_folds, write
from screening.operating_point import Rule
from screening.recipe import load_recipe

WU_CHANG = ("seg1", "g7", "euth1", "car3", "yeast5", "ab19")
PEREZ_ORTIZ = (
    "colic", "breast", "haberman", "ecoli1", "spectfheart", "glass0146vs2", "cleveland0vs4", "yeast2vs8",
)  # fmt: skip
BASELINES = ("svm", "svm_weighted", "e_smote_svm", "logistic", "boosting", "balanced_forest", "easy_ensemble")


def cohort(name: str, folder: Path):
    """A paper's set as the cohort that a user would read."""
    found = load(name)
    place = folder / f"{name}.csv"
    found.features.assign(case=np.where(found.y == 1, "yes", "no")).to_csv(place, index=False)
    return read_cohort(str(place), label="case", positive="yes", need_label=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=[*WU_CHANG, *PEREZ_ORTIZ])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--search", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    skip_unless_there()

    auto = load_recipe("auto")
    allowed = replace(auto, name="auto_with_baselines", parameters=auto.parameters | {"baselines": True})
    with tempfile.TemporaryDirectory() as folder:
        cohorts = {name: cohort(name, Path(folder)) for name in asked.sets}
    found = compare(
        cohorts,
        [*BASELINES, auto, allowed],
        rule=Rule("g_mean"),
        folds=asked.folds,
        repeats=asked.repeats,
        search=asked.search,
        jobs=asked.jobs,
        kept=place_of_folds(asked.out),
    )
    asked.out.mkdir(parents=True, exist_ok=True)
    write(found, asked.out)
    tables = found.summary()["cohorts"]
    methods = list(next(iter(tables.values())))
    rows = [
        [name, *(f"{100 * figures[method]['g_mean']:.1f}" for method in methods)]
        for name, figures in tables.items()
    ]
    mean = [100 * np.mean([figures[method]["g_mean"] for figures in tables.values()]) for method in methods]
    print(table(["G-mean", *methods], [*rows, ["mean", *(f"{value:.1f}" for value in mean)]]))


if __name__ == "__main__":
    main()
