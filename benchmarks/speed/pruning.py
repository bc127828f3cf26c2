"""Pruning of majority support vectors against refitting scikit-learn's SVC for every
candidate.

    python benchmarks/speed/pruning.py --removals 48 --repeats 5

Both sides remove, 48 times, the majority support vector without which J over all
training rows is largest, on the kernel matrix made once. Many candidates tie to a row,
so both solve to a tolerance at which ties are told from differences.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.svm import SVC
from timing import HEADER, Comparison, compare

from screening.estimators.remedies import Pruning
from screening.estimators.training import Training, solve_two_class
from screening.kernels import Gaussian

COST, GAMMA, TOL = 1.0, 0.5, 1e-4


def made_rows(n_negative: int, n_positive: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping clouds, the larger one wider."""
    rng = np.random.default_rng(0)
    negative = rng.normal(size=(n_negative, 3)) * 1.2
    positive = rng.normal(size=(n_positive, 3)) + np.array([2.2, 0.0, 0.0])
    return np.vstack([negative, positive]), np.repeat([-1, 1], [n_negative, n_positive])


def by_scikit(gram: np.ndarray, labels: np.ndarray, removals: int) -> list[int]:
    """Row numbers in the order of their removal."""

    def fitted(rows: np.ndarray) -> tuple[SVC, np.ndarray]:
        machine = SVC(C=COST, kernel="precomputed", tol=TOL).fit(
            gram[np.ix_(rows, rows)], labels[rows]
        )
        return machine, rows

    def worth(machine: SVC, rows: np.ndarray) -> float:
        used = rows[machine.support_]
        right = (gram[:, used] @ machine.dual_coef_[0] + machine.intercept_[0] > 0) == (
            labels > 0
        )
        n_wrong = (~right[labels < 0]).sum()
        return float(
            right[labels > 0].mean() / (max(n_wrong, 0.5) / (labels < 0).sum())
        )

    machine, _ = fitted(np.arange(len(labels)))
    minority = np.flatnonzero(labels > 0)
    left = np.sort(machine.support_[labels[machine.support_] < 0])
    removed = []
    for _ in range(removals):
        worths = [
            worth(*fitted(np.sort(np.r_[minority, left[left != row]]))) for row in left
        ]
        at = int(np.argmax(worths))
        removed.append(int(left[at]))
        left = np.delete(left, at)
    return removed


def pruning(n_negative: int, removals: int, repeats: int) -> Comparison:
    """The same set has to be removed."""
    x, labels = made_rows(n_negative)
    gram = Gaussian(GAMMA)(x, x)
    ones = np.ones(len(x))
    training = Training(gram, labels.astype(np.int8), ones, COST * ones, TOL)
    vectors = int(np.sum(solve_two_class(training).weights[labels < 0, 0] != 0))

    def ours() -> list[int]:
        dual = Pruning(n_remove=removals).solve(training, solve_two_class)
        return dual.noted["pruning_path"][:, 0].astype(int).tolist()

    def agreement(ours: list[int], theirs: list[int]) -> str:
        same = "same set removed" if set(ours) == set(theirs) else "NOT the same set"
        in_turn = sum(a == b for a, b in zip(ours, theirs, strict=True))
        return f"{same}, {in_turn} of {len(ours)} in the same turn"

    return compare(
        f"pruning, {removals} removals from {vectors}, 100 positives, {len(x)} rows",
        "refitting SVC precomputed",
        ours,
        lambda: by_scikit(gram, labels, removals),
        agreement,
        30,
        repeats,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--negatives", type=int, default=198)
    parser.add_argument("--removals", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    print(HEADER)
    print(pruning(asked.negatives, asked.removals, asked.repeats).row(), flush=True)


if __name__ == "__main__":
    main()
