"""A million voxels on landmarks, exactly on 20,000 of them, and on scikit-learn's
low-rank features.

    python benchmarks/speed/voxels.py

The volume is one patient's: every second slab of eight along y is held out, so that
neighbouring voxels are not on both sides. Kernel, C and class costs (the commoner class
lowered until the rarer makes a fifth) are the same everywhere; low-rank features are
float32, which halves their memory. One run each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from screening import TwoClassSVM
from screening.estimators.landmarks import RARE_SHARE
from screening.kernels import Gaussian
from screening.model_selection.folds import sub_sample

sys.path.insert(0, str(Path(__file__).parents[1] / "papers"))
from sets import UCI, skip_unless_there

VOLUME = UCI.parent / "voxels" / "ms_lesion_patient26.parquet"
CHANNELS = ["flair", "t1", "t1post", "t2"]
GAMMA, C, EXACT = 1 / 4, 1.0, 20_000


def ways(
    y: np.ndarray, learn: np.ndarray
) -> Iterator[tuple[str, np.ndarray, Any, type]]:
    """Name, rows to learn from, estimator and the type its features have."""
    few = learn[sub_sample(y[learn], None, EXACT, RARE_SHARE, 0)]
    yield f"all of {EXACT}", few, TwoClassSVM(Gaussian(GAMMA), C=C), np.float64
    for n in (2000, 8000, 16_000):
        machine = TwoClassSVM(
            Gaussian(GAMMA), C=C, approximation="landmarks", n_landmarks=n
        )
        yield f"{n} landmarks", learn, machine, np.float64
    counts = np.bincount(y[learn])
    costs = {0: counts[1] * (1 / RARE_SHARE - 1) / counts[0], 1: 1.0}
    # 1/2 |w|^2 + C sum of losses, as their mean and a penalty; an average forgets the
    # order of the rows.
    linear = SGDClassifier(
        alpha=1 / (C * len(learn)), class_weight=costs, average=True, random_state=0
    )
    yield "channels alone, linear", learn, linear, np.float32
    for width in (300, 1000):
        features = Nystroem(gamma=GAMMA, n_components=width, random_state=0)
        yield (
            f"Nystroem({width}), linear",
            learn,
            make_pipeline(features, linear),
            np.float32,
        )


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n\n")[0]).parse_args()
    skip_unless_there(VOLUME)
    table = pd.read_parquet(VOLUME)
    x, y = table[CHANNELS].to_numpy(float), table["label"].to_numpy()
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    held_out = (table["y"].to_numpy() // 8) % 2 == 1
    learn, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    print(
        f"| trained by | rows | fit | scoring the other {len(test)} | AUROC |\n|---|---|---|---|---|"
    )
    for name, rows, machine, dtype in ways(y, learn):
        own, others = x[rows].astype(dtype), x[test].astype(dtype)
        start = time.perf_counter()
        machine.fit(own, y[rows])
        fitted = time.perf_counter()
        decisions = machine.decision_function(others)
        scored = time.perf_counter()
        auroc = roc_auc_score(y[test], decisions)
        print(
            f"| {name} | {len(rows)} | {fitted - start:.2g} s | {scored - fitted:.2g} s | {auroc:.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
