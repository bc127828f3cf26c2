"""Scoring a forest by our loop against scikit-learn's `predict_proba`, on as many
threads.

python benchmarks/speed/forests.py --trained 10000 --repeats 5
"""

from __future__ import annotations

import argparse
import zlib

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from timing import HEADER, Comparison, compare

from screening.estimators.forests import Trees
from screening.threads import available_cores

FEATURES = 30


def forest_of(n_rows: int) -> RandomForestClassifier:
    """A forest as the recipe `random_forest` grows it, on made-up rows, one in seven
    positive.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, FEATURES))
    y = x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=n_rows) > 1.8
    forest = RandomForestClassifier(
        100,
        min_samples_leaf=3,
        class_weight="balanced_subsample",
        random_state=0,
        n_jobs=available_cores(),
    )
    return forest.fit(x, y)


def scoring(
    forest: RandomForestClassifier, n_rows: int, wanted: float, repeats: int
) -> Comparison:
    """Probabilities of many rows."""
    trees = Trees.of(forest.estimators_)
    x = np.random.default_rng(1).normal(size=(n_rows, FEATURES)).astype(np.float32)
    stored = b"".join(
        values.tobytes() for values in (trees.feature, trees.threshold, trees.value)
    )
    size = len(zlib.compress(stored)) / 1e6
    return compare(
        f"{n_rows} rows through {trees.n_trees} trees of {len(trees.feature)} nodes, {size:.2f} MB stored",
        f"predict_proba, n_jobs={forest.n_jobs}",
        lambda: trees.sums(x) / trees.n_trees,
        lambda: forest.predict_proba(x),
        lambda ours, theirs: f"within {np.abs(ours[:, -1] - theirs[:, -1]).max():.0e}",
        wanted,
        repeats,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--trained", type=int, default=10_000, help="rows the forest grows on"
    )
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    forest = forest_of(asked.trained)
    print(HEADER)
    for n_rows, wanted in ((200, 5.0), (200_000, 1.0)):
        print(scoring(forest, n_rows, wanted, asked.repeats).row(), flush=True)


if __name__ == "__main__":
    main()
