"""Shao's full grid, 9 C x 8 sigma x 10 Q over 5 folds, against the same by
scikit-learn.

    python benchmarks/speed/grid.py --rows 600 --share 10

Ours goes through all candidates of a fold one after another, as a search does; theirs
fits each candidate by itself, as GridSearchCV would, on every ``--share``-th candidate,
and its time is multiplied.
"""

from __future__ import annotations

import argparse
import time
from itertools import product

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from timing import HEADER, Comparison

from screening import load_recipe
from screening.kernels import kernel_cache
from screening.model_selection.fold_fits import EncodedRows


def made_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping Gaussians in two dimensions, one in six of the rarest, as the
    paper simulates.
    """
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [n // 6, n // 3, n - n // 6 - n // 3])
    middle = np.array([[0.0, 0.0], [1.5, 0.5], [0.0, 1.5]])
    return rng.normal(size=(n, 2)) + middle[codes], codes


def our_decisions(
    x: np.ndarray, codes: np.ndarray, z: np.ndarray, grid: list[dict]
) -> list[np.ndarray]:
    """Decisions at z of every candidate, as ``screen train`` goes through them."""
    rows = EncodedRows(
        load_recipe("shao_local"), 3, kernel_cache.Distances(x), codes, None
    )
    return rows.fit_settings(np.arange(len(x)), grid, z)[1]


def one_vs_rest(gram: np.ndarray, codes: np.ndarray, cost: float) -> list[SVC]:
    """A machine a class on a matrix handed over."""
    return [
        SVC(C=cost, kernel="precomputed").fit(gram, codes == m)
        for m in range(codes.max() + 1)
    ]


def decisions(machines: list[SVC], gram: np.ndarray) -> np.ndarray:
    """Theirs, one column a class."""
    columns = [
        gram[:, each.support_] @ each.dual_coef_[0] + each.intercept_[0]
        for each in machines
    ]
    return np.column_stack(columns)


def their_decisions(
    x: np.ndarray, codes: np.ndarray, z: np.ndarray, C: float, sigma: float, Q: float
) -> np.ndarray:
    """First pass, the factor of eq. 21, second pass."""
    gamma = 1.0 / (2.0 * sigma**2)
    own, across = rbf_kernel(x, gamma=gamma), rbf_kernel(z, x, gamma=gamma)
    first = one_vs_rest(own, codes, C)
    shares = 1.0 / np.square(np.bincount(codes).astype(float))
    largest = np.sqrt(np.square(x[:, None] - x).sum(axis=2).max())
    reach = Q * largest * shares / shares.sum()

    def factor(gram: np.ndarray) -> np.ndarray:
        f = decisions(first, gram)
        rates = np.empty_like(f)
        for m, machine in enumerate(first):
            foreign = machine.support_[codes[machine.support_] != m]
            apart = np.maximum(2.0 - 2.0 * gram[:, foreign], 0.0)
            near = apart < reach[m]
            rates[:, m] = (apart * near).sum(axis=1) / np.maximum(near.sum(axis=1), 1)
        best = f.argmax(axis=1)[:, None]
        return np.exp(-np.take_along_axis(rates * np.abs(f), best, axis=1)[:, 0])

    c, there = factor(own), factor(across)
    second = one_vs_rest(c[:, None] * own * c, codes, C)
    return decisions(second, there[:, None] * across * c)


def grid_of(n: int, share: int) -> Comparison:
    """Fold after fold, both sides in turn, in seconds of the processor."""
    x, codes = made_rows(n)
    paper = load_recipe("shao_local").search.paper
    grid = [
        dict(zip(paper, values, strict=True)) for values in product(*paper.values())
    ]
    some = np.random.default_rng(0).permutation(len(grid))[: len(grid) // share]
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(x, codes))
    seconds, apart = [], []
    our_decisions(x[::10], codes[::10], x, grid[:1])
    for train, test in folds:
        start = time.process_time()
        ours = our_decisions(x[train], codes[train], x[test], grid)
        middle = time.process_time()
        theirs = [
            their_decisions(x[train], codes[train], x[test], **grid[at]) for at in some
        ]
        seconds.append(
            (middle - start, (time.process_time() - middle) * len(grid) / len(some))
        )
        apart += [
            np.mean(a.argmax(axis=1) == ours[at].argmax(axis=1))
            for a, at in zip(theirs, some, strict=True)
        ]
    return Comparison(
        f"Shao's grid, {len(grid)} candidates, a fold of five, n = {n}",
        f"scikit-learn, from one candidate in {share}",
        *np.array(seconds).T,
        20,
        f"the same class on {100 * np.mean(apart):.2f} % of held-out rows",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--share", type=int, default=10)
    asked = parser.parse_args()
    print(HEADER)
    print(grid_of(asked.rows, asked.share).row(), flush=True)


if __name__ == "__main__":
    main()
