"""Ratios over scikit-learn that may not fall: kernel sums and fits, in one process.

    python benchmarks/speed/floors.py

Both sides run in turn on one core, and the least seconds of processor of several runs
are compared, so the ratio depends little on the machine and on what else it does. A
floor is three quarters of the ratio in docs/benchmarks.md. Exit code 1 if one is
missed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from fence_loops import labelled, normal
from sklearn.svm import SVC, OneClassSVM

from screening import build
from screening.kernels import Gaussian
from screening.kernels.pairwise import weighted_sum

REPEATS = 9


@dataclass(frozen=True)
class Floor:
    """A work that both do, and how many times as fast it must be here.

    Parameters
    ----------
    work : str
    least : float
    ours, theirs : callable
    """

    work: str
    least: float
    ours: Callable[[], object]
    theirs: Callable[[], object]

    def ratio(self) -> float:
        """Measure theirs / ours, after one run of each."""
        self.ours()
        self.theirs()
        seconds = [
            (seconds_of(self.ours), seconds_of(self.theirs)) for _ in range(REPEATS)
        ]
        ours, theirs = np.min(seconds, axis=0)
        return float(theirs / ours)


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of processor of one run."""
    start = time.process_time()
    work()
    return time.process_time() - start


def kernel_sums(n_features: int, least: float) -> Floor:
    """Decisions of a machine of 2,600 support vectors on 2,000 rows."""
    gamma = 1 / n_features
    x = normal(2_600, n_features)
    labels = np.random.default_rng(1).integers(0, 2, 2_600)
    svc = SVC(gamma=gamma, C=1.0).fit(x, labels)
    rows = normal(2_000, n_features, 2)
    kernel = Gaussian(gamma)
    weights = svc.dual_coef_[0]
    return Floor(
        f"kernel sums, d = {n_features}",
        least,
        lambda: weighted_sum(kernel, rows, svc.support_vectors_, weights),
        lambda: svc.decision_function(rows),
    )


def fit(least: float) -> Floor:
    """A fit of two classes, 3,000 rows of ten numbers."""
    x, y = labelled(3_000, 10)
    ours = build("svm", C=10.0, gamma=0.05)
    theirs = SVC(C=10.0, gamma=0.05)
    return Floor("fit svm", least, lambda: ours.fit(x, y), lambda: theirs.fit(x, y))


def fit_one_class(least: float) -> Floor:
    """A fit of one class, 6,000 rows of ten numbers."""
    x = normal(6_000, 10)
    ours = build("one_class", nu=0.1, gamma=0.1)
    theirs = OneClassSVM(nu=0.1, gamma=0.1)
    return Floor("fit one_class", least, lambda: ours.fit(x), lambda: theirs.fit(x))


def main() -> None:
    """Print a line a work; exit 1 where a ratio is below its floor."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    floors = [
        kernel_sums(3, 38.0),
        kernel_sums(10, 29.0),
        kernel_sums(49, 13.0),
        fit(2.7),
        fit_one_class(5.2),
    ]
    missed = []
    print("| work | times as fast as scikit-learn | floor |\n|---|---|---|")
    for floor in floors:
        ratio = floor.ratio()
        print(f"| {floor.work} | {ratio:.1f} | {floor.least:g} |", flush=True)
        if ratio < floor.least:
            missed.append(floor.work)
    if missed:
        sys.exit(f"below the floor: {', '.join(missed)}")


if __name__ == "__main__":
    main()
