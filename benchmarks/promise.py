"""Does the promise carry over? Train on many synthetic cohorts, measure the final model on unseen rows.

For every cohort the whole flow runs as `screen train` does (nested search, out-of-fold scores on the final
scale, threshold by rank), and the final model's true sensitivity and specificity are measured on many fresh
rows. A 95 % interval is good if it covers the truth in 92 to 98 % of cohorts, a rule if the mean true
sensitivity is at least what was asked.

    python benchmarks/promise.py --cohorts 200 --recipes svm_weighted,one_class,one_class_conformal,logistic
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from screening import read_cohort, train
from screening.cohort.cohort import Cohort

FEATURES = 6
RECIPES = "svm,svm_weighted,svm_moved_boundary,logistic,one_class,one_class_conformal"


def table(n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows whose positives (12 %) differ from the rest partly by place, partly by spread."""
    ill = rng.random(n_rows) < 0.12
    x = rng.normal(size=(n_rows, FEATURES))
    x[ill, :2] += 1.0
    x[ill, 2:4] *= 1.8
    names = [f"v{j}" for j in range(FEATURES)]
    return pd.DataFrame(x, columns=names).assign(ill=np.where(ill, "yes", "no"))


def cohort_of(rows: pd.DataFrame, folder: Path, name: str) -> Cohort:
    """The table as the flow reads it."""
    path = folder / f"{name}.parquet"
    rows.to_parquet(path)
    return read_cohort(path, label="ill", need_label=True)


def one(seed: int, recipes: list[str], n_rows: int, n_fresh: int) -> list[dict[str, float | str]]:
    """Promise and truth of every recipe on one synthetic cohort."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory() as folder:
        past = cohort_of(table(n_rows, rng), Path(folder), "past")
        fresh = cohort_of(table(n_fresh, rng), Path(folder), "fresh")
        ill = fresh.label == "yes"
        for name in recipes:
            model = train(past, name, seed=seed, jobs=1)
            point = model.operating_points[0]
            flagged = model.scores(model.encoder.transform(fresh))[:, 0] >= point["threshold"]
            sensitivity, specificity = float(flagged[ill].mean()), float(1 - flagged[~ill].mean())
            found.append(
                {
                    "recipe": name,
                    "sensitivity": sensitivity,
                    "promised": point["sensitivity"],
                    "sensitivity covered": point["sensitivity_low"]
                    <= sensitivity
                    <= point["sensitivity_high"],
                    "specificity": specificity,
                    "specificity covered": point["specificity_low"]
                    <= specificity
                    <= point["specificity_high"],
                }
            )
    return found


def main() -> None:
    """Print one line a recipe, as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, default=200)
    parser.add_argument("--recipes", default=RECIPES)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--fresh", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=-1)
    asked = parser.parse_args()
    jobs = (
        delayed(one)(seed, asked.recipes.split(","), asked.rows, asked.fresh) for seed in range(asked.cohorts)
    )
    rows = pd.DataFrame([row for rows in Parallel(n_jobs=asked.jobs)(jobs) for row in rows])
    print(f"{asked.cohorts} cohorts of {asked.rows} rows, sensitivity 0.90 asked, {asked.fresh} fresh rows\n")
    print("| recipe | true sensitivity | 95 % interval covers it | true specificity | interval covers it |")
    print("|---|---|---|---|---|")
    for name, part in rows.groupby("recipe", sort=False):
        mean = part.drop(columns="recipe").astype(float).mean()
        figures = [
            f"{mean[kind]:.3f} | {100 * mean[kind + ' covered']:.0f} %"
            for kind in ("sensitivity", "specificity")
        ]
        print(f"| `{name}` | {' | '.join(figures)} |")


if __name__ == "__main__":
    main()
