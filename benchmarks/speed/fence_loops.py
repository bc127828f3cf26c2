"""Loops that the fence of seconds times in one tree; a process of its own for each.

Reads names of loops from standard input, a line each, runs the loop once, and answers
with its seconds of processor. "-" is answered where the tree lacks a name.

Only names that trees of several weeks share are used, so that an older tree can be
compared. Not run by hand: benchmarks/speed/fence.py starts it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd

from screening import build, read_cohort
from screening.kernels import Gaussian, Laplacian
from screening.kernels.neighbors import neighbors
from screening.kernels.pairwise import distances, gram, weighted_sum, weighted_sums

Loop = Callable[[], object]


def normal(n_rows: int, n_features: int, seed: int = 0) -> np.ndarray:
    """Rows of standard normal values, shape (n_rows, n_features)."""
    return np.random.default_rng(seed).normal(size=(n_rows, n_features))


def labelled(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows, about one in ten of class 1, which overlaps class 0."""
    y = (np.random.default_rng(1).random(n_rows) < 0.1).astype(int)
    x = normal(n_rows, n_features)
    x[y == 1] += 2 / np.sqrt(n_features)
    return x, y


def sum_of_kernels(n_features: int, dtype: type = np.float32) -> Loop:
    """20,000 rows by 2,600 centres."""
    x, centres = normal(20_000, n_features), normal(2_600, n_features, 1)
    weights = normal(2_600, 1, 2)[:, 0]
    kernel = Gaussian(1 / n_features)
    return lambda: weighted_sum(kernel, x, centres, weights, dtype=dtype)


def decision_and_bumps() -> Loop:
    """A decision and bumps of another width, from the same distances."""
    x, centres = normal(20_000, 10), normal(2_600, 10, 1)
    weights = normal(2_600, 1, 2)
    widths = np.linspace(0.1, 1, 2_600)
    terms = [(0.1, weights), (widths, np.ones((2_600, 1)))]
    return lambda: weighted_sums(2, x, centres, terms)


def several_outputs() -> Loop:
    """Five machines that share a kernel."""
    x, centres = normal(20_000, 10), normal(2_600, 10, 1)
    terms = [(0.1, normal(2_600, 5, 2))]
    return lambda: weighted_sums(2, x, centres, terms)


def gram_matrix() -> Loop:
    """K of 4,000 rows."""
    x = normal(4_000, 10)
    return lambda: gram(Gaussian(0.1), x)


def city_block() -> Loop:
    """City-block distances of 4,000 rows."""
    x = normal(4_000, 10)
    return lambda: distances(1, x, x)


def near_centres() -> Loop:
    """Widths of adaptive bumps: the near centres of the other class."""
    x, centres = normal(4_000, 10), normal(1_000, 10, 1)
    side = np.where(np.arange(1_000) < 200, 1, -1)
    arguments = np.ones(4_000), np.ones(1_000), side, np.ones(4_000, int)
    return lambda: neighbors(Laplacian(0.1), x, centres, *arguments, None)


def fit(recipe: str, n_rows: int, n_features: int, **parameters: object) -> Loop:
    """A fit of a recipe."""
    x, y = labelled(n_rows, n_features)
    machine = build(recipe, **parameters)
    return lambda: machine.fit(x, y)


def fit_classes(recipe: str) -> Loop:
    """A fit of a recipe of several classes."""
    x, y = labelled(900, 6)
    y += (x[:, 0] > 1).astype(int)
    machine = build(recipe, C=1.0, gamma=0.1)
    return lambda: machine.fit(x, y)


def decide_by_trees() -> Loop:
    """Decisions of a forest of 100 trees on 100,000 rows."""
    x, y = labelled(3_000, 10)
    machine = build("random_forest", n_estimators=100).fit(x, y)
    rows = normal(100_000, 10, 3)
    return lambda: machine.decision_function(rows)


def read_and_encode() -> Loop:
    """30,000 rows read, checked and encoded, five numbers and a category."""
    from screening.data.encoding import Encoder

    table = pd.DataFrame(normal(30_000, 5), columns=[*"abcde"])
    table["ward"] = np.array(["icu", "surgery", "medicine"])[np.arange(30_000) % 3]
    table["infected"] = np.where(normal(30_000, 1, 4)[:, 0] > 1.3, "yes", "no")

    def run() -> object:
        cohort = read_cohort(table, label="infected", positive="yes")
        return Encoder(cohort.contract.features).fit_transform(cohort.values)

    return run


def rank_ties() -> Loop:
    """AUROC with its interval of 200,000 scores, a thousand different ones."""
    from screening.metrics.ranking import delong

    scores = np.round(normal(200_000, 1)[:, 0], 2)
    positive = normal(200_000, 1, 2)[:, 0] > 1.3
    return lambda: delong(scores, positive)


LOOPS: dict[str, Callable[[], Loop]] = {
    "kernel sums, d = 3": lambda: sum_of_kernels(3),
    "kernel sums, d = 10": lambda: sum_of_kernels(10),
    "kernel sums, d = 49": lambda: sum_of_kernels(49),
    "kernel sums in float64, d = 10": lambda: sum_of_kernels(10, np.float64),
    "decision and bumps": decision_and_bumps,
    "five outputs": several_outputs,
    "Gram matrix": gram_matrix,
    "city-block distances": city_block,
    "near centres": near_centres,
    "fit svm": lambda: fit("svm", 3_000, 10, C=10.0, gamma=0.05),
    "fit one_class": lambda: fit("one_class", 6_000, 10, nu=0.1, gamma=0.1),
    "fit williams": lambda: fit("williams", 1_000, 10, C=10.0, gamma=0.05, passes=1),
    "fit act_feature_space": lambda: fit(
        "act_feature_space", 1_000, 10, C=10.0, gamma=0.05, distance="feature"
    ),
    "fit sv_pruning": lambda: fit("sv_pruning", 300, 6, C=10.0, gamma=0.1, n_remove=5),
    "fit crammer_singer": lambda: fit_classes("crammer_singer"),
    "fit simplified_multiclass": lambda: fit_classes("simplified_multiclass"),
    "trees": decide_by_trees,
    "read and encode": read_and_encode,
    "ranks and ties": rank_ties,
}


@cache
def loop_of(name: str) -> Loop | None:
    """The loop of a name, run once; None where this tree cannot run it."""
    try:
        loop = LOOPS[name]()
        loop()
    except (ImportError, AttributeError, TypeError) as error:
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        return None
    return loop


def main() -> None:
    """Answer each name with the seconds of one run."""
    for line in sys.stdin:
        loop = loop_of(line.strip())
        if loop is None:
            print("-", flush=True)
            continue
        start = time.process_time()
        loop()
        print(time.process_time() - start, flush=True)
