"""Would boosting with other settings make a better member of the blend?

    python benchmarks/member_scores.py --splits 1 --out member_scores
    python benchmarks/boosting_settings.py --scores member_scores --tables pima actg

The member is fitted anew on the kept folds with each setting, and blended as `auto`
does with the kept scores of the others. Processor time is beside today's settings.
Categories are one column for each level here, and not one for all.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from blend_rules import FEWEST_NEW_CASES

from screening import build
from screening.estimators.ensembles import Pooling
from screening.metrics.ranking import auroc, average_precision

MEMBER = "histogram_boosting"
TODAY = "today's"
SETTINGS: dict[str, dict[str, float]] = {
    TODAY: {},
    "200 trees at rate 0.05": {"n_rounds": 200, "learning_rate": 0.05},
    "200 trees": {"n_rounds": 200},
    "depth 4": {"max_depth": 4, "max_leaf_nodes": 16},
    "depth 6": {"max_depth": 6, "max_leaf_nodes": 31},
    "a third of the columns": {"max_features": 0.3},
    "leaves shrunk less": {"l2_regularization": 4.0},
}
FIGURES = ("auroc", "average precision", "blend: auroc", "blend: average precision")


def judged(file: Path) -> list[dict[str, object]]:
    """Return figures of the member and of the blend by each setting, in percent."""
    kept = np.load(file)
    target, ill, fold = kept["target"], kept["new_target"], kept["fold"]
    if ill.sum() < FEWEST_NEW_CASES:
        return []
    rows, new_rows = kept["rows"].astype(float), kept["new_rows"].astype(float)
    used = [not name.startswith("one_class") for name in kept["members"]]
    at = list(kept["members"][used]).index(MEMBER)
    found = []
    for name, setting in SETTINGS.items():
        held, new = kept["held_out"][:, used], kept["new"][:, used]
        began = time.process_time()
        decisions = []
        for number in range(int(fold.max()) + 1):
            past = fold != number
            machine = build(MEMBER, **setting).fit(rows[past], target[past])
            held[~past, at] = machine.decision_function(rows[~past])
            decisions.append(machine.decision_function(new_rows))
        seconds = time.process_time() - began
        new[:, at] = np.mean(decisions, axis=0)
        pooling = Pooling.of(held[:, :, None], target[:, None])
        both = (new[:, at], pooling.pooled(new[:, :, None])[:, 0])
        values = [
            100 * figure(scores, ill)
            for scores in both
            for figure in (auroc, average_precision)
        ]
        row = {"table": file.stem, "setting": name, "seconds": seconds}
        found.append(row | dict(zip(FIGURES, values, strict=True)))
    return found


def main() -> None:
    """Print each setting minus today's: means over tables with standard errors."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--scores", type=Path, default=Path("member_scores"))
    parser.add_argument("--tables", nargs="+", default=["*"])
    asked = parser.parse_args()
    files = [
        file
        for table in asked.tables
        for file in sorted(asked.scores.glob(f"{table}-0.npz"))
    ]
    rows = pd.DataFrame([row for file in files for row in judged(file)])
    if rows.empty:
        print("skipped: no scores; run member_scores.py first")
        return
    by_setting = rows.pivot(index="table", columns="setting")
    print(f"{len(by_setting)} tables")
    for setting in SETTINGS:
        gaps = [by_setting[name][setting] - by_setting[name][TODAY] for name in FIGURES]
        cells = [f"{gap.mean():+.2f} ± {gap.sem():.2f}" for gap in gaps]
        times = by_setting["seconds"][setting] / by_setting["seconds"][TODAY]
        print(setting, *cells, f"{times.median():.1f}", sep=" | ")


if __name__ == "__main__":
    main()
