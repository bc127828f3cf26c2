"""Would members with other settings make a better blend, or one in less time?

    python benchmarks/member_scores.py --splits 1 --out member_scores
    python benchmarks/member_settings.py --scores member_scores --tables pima actg

Trees are fitted to the kept folds with today's settings and with each other one, and
blended as `auto` does with the kept scores of the other members. Processor time is
that of the members that a setting concerns, beside today's. Categories are one column
for each level here, and not one for all.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from blend_rules import FEWEST_NEW_CASES

from screening import build
from screening.estimators.ensembles import Pooling
from screening.metrics.ranking import area_under_roc, average_precision
from screening.model_selection.held_out import FOREST, FOREST_BASELINES

BOOSTING = "histogram_boosting"
TODAY: dict[str, Mapping[str, Any]] = {
    BOOSTING: {},
    **dict.fromkeys(FOREST_BASELINES, FOREST),
}


def forests(n_trees: int) -> dict[str, Mapping[str, Any]]:
    """Return the setting in which both forests have so many trees in a fold."""
    return {name: {"n_estimators": n_trees} for name in FOREST_BASELINES}


SETTINGS: dict[str, Mapping[str, Mapping[str, Any]]] = {
    "boosting: 200 trees at rate 0.05": {
        BOOSTING: {"n_rounds": 200, "learning_rate": 0.05}
    },
    "boosting: 200 trees": {BOOSTING: {"n_rounds": 200}},
    "boosting: depth 2": {BOOSTING: {"max_depth": 2, "max_leaf_nodes": 4}},
    "boosting: depth 4": {BOOSTING: {"max_depth": 4, "max_leaf_nodes": 16}},
    "boosting: depth 6": {BOOSTING: {"max_depth": 6, "max_leaf_nodes": 31}},
    "boosting: a third of the columns": {BOOSTING: {"max_features": 0.3}},
    "boosting: leaves shrunk less": {BOOSTING: {"l2_regularization": 4.0}},
    "forests of 100 trees": forests(100),
    "forests of 60 trees": forests(60),
    "forests of 30 trees": forests(30),
}
FIGURES = ("auroc", "average precision")


@dataclass(frozen=True)
class Fit:
    """Decisions of a member on rows held out and on new ones, and processor time."""

    held_out: np.ndarray
    new: np.ndarray
    seconds: float


def fit_member(
    kept: Mapping[str, np.ndarray], name: str, setting: Mapping[str, Any]
) -> Fit:
    """Fit a member on each kept fold."""
    target, fold = kept["target"], kept["fold"]
    rows, new_rows = kept["rows"].astype(float), kept["new_rows"].astype(float)
    held_out = np.zeros(len(target))
    decisions = []
    began = time.process_time()
    for number in range(int(fold.max()) + 1):
        past = fold != number
        machine = build(name, **setting).fit(rows[past], target[past])
        held_out[~past] = machine.decision_function(rows[~past])
        decisions.append(machine.decision_function(new_rows))
    seconds = time.process_time() - began
    return Fit(held_out, np.mean(decisions, axis=0), seconds)


def judged(file: Path) -> list[dict[str, object]]:
    """Return figures of the blend by each setting minus today's, in points."""
    with np.load(file) as arrays:
        kept = dict(arrays)
    ill = kept["new_target"]
    if ill.sum() < FEWEST_NEW_CASES:
        return []
    used = [not name.startswith("one_class") for name in kept["members"]]
    members = list(kept["members"][used])

    def figures(fits: Mapping[str, Fit]) -> list[float]:
        held_out, new = kept["held_out"][:, used], kept["new"][:, used]
        for name, fit in fits.items():
            held_out[:, members.index(name)] = fit.held_out
            new[:, members.index(name)] = fit.new
        pooling = Pooling.of(held_out[:, :, None], kept["target"][:, None])
        scores = pooling.pooled(new[:, :, None])[:, 0]
        return [
            100 * figure(scores, ill) for figure in (area_under_roc, average_precision)
        ]

    today = {name: fit_member(kept, name, setting) for name, setting in TODAY.items()}
    base = figures(today)
    found = []
    for title, setting in SETTINGS.items():
        other = {name: fit_member(kept, name, setting[name]) for name in setting}
        gaps = np.subtract(figures(today | other), base)
        seconds = [sum(fits[name].seconds for name in other) for fits in (other, today)]
        row = {"table": file.stem, "setting": title, "time": seconds[0] / seconds[1]}
        found.append(row | dict(zip(FIGURES, gaps, strict=True)))
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
    print(f"{rows['table'].nunique()} tables")
    for title, of_setting in rows.groupby("setting", sort=False):
        gaps = [of_setting[name] for name in FIGURES]
        cells = [f"{gap.mean():+.2f} ± {gap.sem():.2f}" for gap in gaps]
        print(title, *cells, f"{of_setting['time'].median():.1f}", sep=" | ")


if __name__ == "__main__":
    main()
