"""Landmarks beside scikit-learn's low-rank features on the same voxels: seconds and AUROC.

    python benchmarks/speed/low_rank.py ../shared/data/voxels/ms_lesion_patient26.parquet

Same split, kernel, C and class costs (the commoner class lowered until the rarer makes a fifth) on both
sides. One run each. Theirs is given float32, which halves the memory of its features; LinearSVC turns it back
and copies it twice, and is left out where that would take more than ``--memory``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from voxels import volume

from screening import TwoClassSVM
from screening.kernels import Gaussian
from screening.machines.landmarks import RARE_SHARE

GAMMA = 1 / 4
# float32 features, float64 of them, and liblinear's nodes of 16 bytes.
BYTES_A_FEATURE = 4 + 8 + 16


def ways(
    asked: argparse.Namespace, n: int, costs: dict[int, float]
) -> Iterator[tuple[str, Any | None, np.dtype]]:
    """Name, estimator (None where it would not fit the memory) and the dtype it is given."""
    C, single, double = asked.C, np.dtype(np.float32), np.dtype(np.float64)
    for few, seed in product(asked.landmarks, asked.seeds):
        machine = TwoClassSVM(Gaussian(GAMMA), C=C, approximation="landmarks", n_landmarks=few, seed=seed)
        yield f"{few} landmarks, seed {seed}", machine, double
    # 1/2 |w|^2 + C sum of losses, as their mean and a penalty; an average forgets the order of the rows.
    sgd = SGDClassifier(alpha=1 / (C * n), class_weight=costs, average=True, random_state=0)
    yield "SGDClassifier, channels alone", sgd, single
    for width in asked.components:
        features = Nystroem(gamma=GAMMA, n_components=width, random_state=0)
        yield f"Nystroem({width}), SGDClassifier", make_pipeline(features, sgd), single
        fits = n * width * BYTES_A_FEATURE <= asked.memory * 2**30
        svc = make_pipeline(features, LinearSVC(C=C, class_weight=costs, random_state=0)) if fits else None
        yield f"Nystroem({width}), LinearSVC", svc, single


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("volume", type=Path)
    parser.add_argument("--landmarks", type=int, nargs="+", default=[2000, 8000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the landmarks")
    parser.add_argument("--components", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--memory", type=float, default=8.0, help="GB that LinearSVC may take")
    asked = parser.parse_args()
    if not asked.volume.exists():
        print(f"skipped: {asked.volume} is not there")
        return
    x, y, learn, test = volume(asked.volume)
    counts = np.bincount(y[learn])
    costs = {0: counts[1] * (1 / RARE_SHARE - 1) / counts[0], 1: 1.0}
    TwoClassSVM(Gaussian(GAMMA)).fit(x[learn[::500]], y[learn[::500]]).decision_function(x[:100])  # compiles
    print(f"| trained on {len(learn)} rows by | fit | scoring the other {len(test)} | AUROC |")
    print("|---|---|---|---|")
    for name, estimator, dtype in ways(asked, len(learn), costs):
        if estimator is None:
            print(f"| {name} | left out: more than {asked.memory:g} GB | | |", flush=True)
            continue
        rows, others = x[learn].astype(dtype), x[test].astype(dtype)
        start = time.perf_counter()
        estimator.fit(rows, y[learn])
        fitted = time.perf_counter()
        decisions = estimator.decision_function(others)
        scored = time.perf_counter()
        auroc = roc_auc_score(y[test], decisions)
        print(f"| {name} | {fitted - start:.3g} s | {scored - fitted:.3g} s | {auroc:.4f} |", flush=True)


if __name__ == "__main__":
    main()
