"""With labels that mean nothing, does every recipe's printed AUROC interval cover one
half?

    python benchmarks/permuted.py --permutations 20 --out permuted.csv
    python benchmarks/permuted.py --recipes logistic svm_weighted --out permuted.csv
    python benchmarks/permuted.py --out permuted.csv --table

Made rows whose labels are dealt anew; trained as `screen train` does, its folds and its
search included. "The interval" is the 95 % one that `train` prints, which allows for
the settings tried. A recipe that refuses (its folds lie apart, say) promises nothing:
it is counted beside. What is in the CSV is not run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from promise import as_read, made, trained
from resumed import run_missing
from sets import table

from screening.errors import ScreenError
from screening.metrics.predictive_intervals import variance_inflation
from screening.metrics.ranking import delong
from screening.recipes.building import list_recipes

ROWS = 250
# Those told more than two classes apart are the same machines one against the rest.
RECIPES = [
    each.name
    for each in list_recipes()
    if each.persistable and each.machine != "multi_class"
]
COLUMNS = ("recipe", "seed", "auroc", "low", "high", "refused")


def permuted(recipe: str, seed: int, search: int | None) -> Iterator[dict[str, object]]:
    """AUROC with its interval on one permutation."""
    rng = np.random.default_rng(seed)
    frame = made(ROWS, rng)
    frame["label"] = rng.permutation(frame["label"].to_numpy())
    try:
        validation = trained(
            as_read(frame), recipe, repeats=1, search=search, seed=seed
        ).validation()
    except ScreenError as error:
        yield {"recipe": recipe, "seed": seed, "refused": type(error).__name__}
        return
    scores, target = validation.scores[:, 0], validation.watched[:, 0]
    area = delong(
        scores, target, variance_inflation=variance_inflation(validation.n_settings)
    )
    yield {
        "recipe": recipe,
        "seed": seed,
        "auroc": area.value,
        "low": area.low,
        "high": area.high,
    }


def summarised(rows: pd.DataFrame) -> str:
    """One line a recipe: share of intervals that hold 0.5, and where the others lie."""
    lines = []
    for recipe, every in rows.groupby("recipe", sort=False):
        part = every[every["refused"].isna()]
        above, below = (part["low"] > 0.5).sum(), (part["high"] < 0.5).sum()
        share = 100 * (1 - (above + below) / max(len(part), 1))
        mean, refused = f"{part['auroc'].mean():.3f}", len(every) - len(part)
        lines.append(
            [f"`{recipe}`", len(part), refused, mean, f"{share:.0f} %", above, below]
        )
    heads = [
        "recipe",
        "permutations",
        "refused",
        "mean AUROC",
        "interval holds 0.5",
        "above it",
        "below it",
    ]
    return table(heads, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--permutations", type=int, default=20)
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    parser.add_argument(
        "--search",
        type=int,
        help="settings tried; the recipe's own number if not given",
    )
    parser.add_argument("--out", type=Path, default=Path("permuted.csv"))
    parser.add_argument(
        "--table", action="store_true", help="only print what the CSV holds"
    )
    asked = parser.parse_args()
    pieces = [
        (recipe, seed, asked.search)
        for seed in range(0 if asked.table else asked.permutations)
        for recipe in asked.recipes
    ]
    run_missing(asked.out, COLUMNS, ("recipe", "seed"), pieces, permuted)
    print(summarised(pd.read_csv(asked.out)))


if __name__ == "__main__":
    main()
