"""A million voxels on landmarks against exact training on 20,000 of them: seconds and AUROC.

    python benchmarks/speed/voxels.py ../shared/data/voxels/ms_lesion_patient26.parquet

``low_rank.py`` has the same split beside scikit-learn's low-rank features.
The volume is one patient's: every second slab of eight along y is held out, so that neighbouring voxels are
not on both sides. Exact training gets the positives up to a fifth, as ``screen train --max-rows`` would give.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from screening import TwoClassSVM
from screening.kernels import Gaussian
from screening.validation.folds import sub_sample

CHANNELS = ("flair", "t1", "t1post", "t2")


def volume(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Standardised channels (n, 4), 0 / 1 labels (n,), and the rows to learn from and to test on."""
    import pandas as pd

    table = pd.read_parquet(path)
    x = table[list(CHANNELS)].to_numpy(float)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    held_out = (table["y"].to_numpy() // 8) % 2 == 1
    return x, table["label"].to_numpy(), np.flatnonzero(~held_out), np.flatnonzero(held_out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("volume", type=Path)
    parser.add_argument("--exact", type=int, default=20_000)
    parser.add_argument("--landmarks", type=int, nargs="+", default=[2000, 4000, 8000, 16_000])
    parser.add_argument("--C", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    asked = parser.parse_args()
    if not asked.volume.exists():
        print(f"skipped: {asked.volume} is not there")
        return
    x, y, learn, test = volume(asked.volume)
    few = learn[sub_sample(y[learn], None, asked.exact, 0.2, 0)]
    print("| C | trained on | rows | fit | support vectors | scoring the rest | AUROC |")
    print("|---|---|---|---|---|---|---|")
    for cost in asked.C:
        plain = TwoClassSVM(Gaussian(1 / 4), C=cost)
        ways = [("all of them", few, plain)]
        ways += [
            (
                f"{n} landmarks",
                learn,
                TwoClassSVM(Gaussian(1 / 4), C=cost, approximation="landmarks", n_landmarks=n),
            )
            for n in asked.landmarks
        ]
        for name, rows, machine in ways:
            start = time.perf_counter()
            machine.fit(x[rows], y[rows])
            fitted = time.perf_counter()
            auroc = roc_auc_score(y[test], machine.decision_function(x[test]))
            scored = time.perf_counter()
            print(
                f"| {cost:g} | {name} | {len(rows)} | {fitted - start:.2g} s | {len(machine.support_)} | "
                f"{scored - fitted:.2g} s | {auroc:.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
