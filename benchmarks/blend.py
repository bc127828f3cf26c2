"""Does the blend pay? Its rule beside others, its members and a large forest, on rows
nobody trained on.

    python benchmarks/blend.py --splits 6 --out blend.csv
    python benchmarks/blend.py --out blend.csv --table

Two-class tasks of the UCI sets in ../shared/data, at random two thirds to one third.
Everything is tuned on the two thirds as `screen train` does (five folds, one matrix of
held-out scores). Rules and members stand on the same decisions: a member alone is its
five fold machines at the setting that the blend uses, so differences are paired to the
last tree. The forests of 500 trees are scikit-learn's, fitted to all of the two thirds:
as it makes them unasked, and with the weights and leaves of our recipe. Choosing one
member is what `auto` was before it was a blend. `SETS` were seen while the tool was
built. A split that is in the CSV is not run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from promise import RARE, SETS, trained, uci
from resumed import run_missing
from sklearn.ensemble import RandomForestClassifier

sys.path.insert(0, str(Path(__file__).parent / "papers"))
from sets import random_splits, skip_unless_there, table

from screening.estimators.ensembles import Pooling
from screening.metrics.paired import false_alarms_at
from screening.metrics.ranking import area_under_roc, average_precision

FIGURES = ("auroc", "average_precision", "g_mean", "specificity_at")
COLUMNS = ("set", "seed", "method", *FIGURES)
AUTO = "with boosting, standardised, weighted"
AFFINE = ("slopes", "intercepts")
CHOSEN = "the best member by held-out AUROC"
FORESTS: dict[str, dict[str, object]] = {
    "500 trees, scikit-learn's defaults": {},
    "500 trees, weighted": {
        "min_samples_leaf": 3,
        "class_weight": "balanced_subsample",
    },
}

# One rank among few positives is noise: the specificity at a sensitivity is averaged
# around it.
AROUND = np.linspace(0.85, 0.95, 11)
# Of rows held out, and of new ones, (n_rows,) each.
Decisions = tuple[np.ndarray, np.ndarray]


def figures(scores: np.ndarray, ill: np.ndarray, threshold: float) -> dict[str, float]:
    """In percent: ranking, G-mean at a threshold from held-out scores, specificity near
    sensitivity .9.
    """
    flagged = scores >= threshold
    return {
        "auroc": 100 * area_under_roc(scores, ill),
        "average_precision": 100 * average_precision(scores, ill),
        "g_mean": 100
        * float(np.sqrt(flagged[ill].mean() * (1 - flagged[~ill].mean()))),
        "specificity_at": 100
        * float(np.mean(1 - false_alarms_at(scores, ill, AROUND))),
    }


def best_threshold(scores: np.ndarray, ill: np.ndarray) -> float:
    """The score with the largest G-mean on held-out rows."""
    values = np.unique(scores)
    hits, clear = (
        (scores[side] >= values[:, None]).mean(axis=1) for side in (ill, ~ill)
    )
    return float(values[np.argmax(hits * (1 - clear))])


def rules(
    members: Mapping[str, Decisions], past: np.ndarray
) -> Iterator[tuple[str, Decisions]]:
    """The blend by every rule, of the same decisions."""
    for left_out in ("histogram_boosting", ""):
        used = [each for name, each in members.items() if name != left_out]
        held, new = (
            np.stack(each, axis=1)[:, :, None] for each in zip(*used, strict=True)
        )
        alike, weighted = Pooling.of(held, None), Pooling.of(held, past[:, None])
        alone = [Pooling.of(held[:, [m]], past[:, None]) for m in range(len(used))]
        slopes, intercepts = (
            np.concatenate([getattr(each, part) for each in alone]) for part in AFFINE
        )
        for name, pooling in {
            "standardised": alike,
            "standardised, weighted": weighted,
            "log odds": Pooling(slopes, intercepts, alike.weights),
            "log odds, weighted": Pooling(slopes, intercepts, weighted.weights),
        }.items():
            scores = pooling.pooled(held)[:, 0], pooling.pooled(new)[:, 0]
            yield f"{'without' if left_out else 'with'} boosting, {name}", scores


def split(name: str, seed: int) -> Iterator[dict[str, object]]:
    """Every method on one split."""
    whole = uci(name)
    old, new = next(random_splits((whole.labels == "yes").astype(int), 1 / 3, 1, seed))
    blend = trained(whole.take(old), "auto", repeats=1, search=None, seed=seed).held_out
    x = blend.encoder.transform(whole.take(new).values)
    ill, past = whole.take(new).labels == "yes", blend.encoded.target == 1
    methods: dict[str, Decisions] = {
        part.recipe.name: (
            part.decisions.mean(axis=0)[:, 0],
            part.ensemble.decisions(x)[:, 0],
        )
        for part in blend.members
    }
    best = max(methods, key=lambda member: area_under_roc(methods[member][0], past))
    methods |= dict(rules(methods, past)) | {CHOSEN: methods[best]}
    for method, how in FORESTS.items():
        forest = RandomForestClassifier(500, oob_score=True, random_state=seed, **how)
        forest.fit(blend.encoded.x, past)
        methods[method] = (
            forest.oob_decision_function_[:, 1],
            forest.predict_proba(x)[:, 1],
        )
    for method, (held, scores) in methods.items():
        found = figures(scores, ill, best_threshold(held, past))
        yield {"set": name, "seed": seed, "method": method} | found


def summarised(rows: pd.DataFrame) -> str:
    """`auto` minus each method: mean over tasks with its standard error, and the tasks
    furthest behind.
    """
    means = rows.groupby(["set", "method"])[list(FIGURES)].mean().unstack("method")
    lines = []
    for method in dict.fromkeys(rows["method"]):
        gaps = {
            figure: means[figure][AUTO] - means[figure][method] for figure in FIGURES
        }
        if method != AUTO:
            cells = [f"{gap.mean():+.2f} ± {gap.sem():.2f}" for gap in gaps.values()]
            behind = [
                f"{gaps[figure].min():+.1f} ({gaps[figure].idxmin()})"
                for figure in FIGURES[:2]
            ]
            lines.append([method, *cells, *behind])
    heads = [
        "`auto` minus",
        "AUROC",
        "average precision",
        "G-mean",
        "specificity at .9",
        "furthest behind, AUROC",
        "furthest behind, average precision",
    ]
    tasks, splits = rows["set"].nunique(), rows.groupby("set")["seed"].nunique().min()
    return f"{table(heads, lines)}\n\n{tasks} tasks, {splits} splits or more each"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--sets", nargs="+", default=[*SETS, *RARE])
    parser.add_argument("--out", type=Path, default=Path("blend.csv"))
    parser.add_argument(
        "--table", action="store_true", help="only print what the CSV holds"
    )
    asked = parser.parse_args()
    skip_unless_there()
    pieces = [
        (name, seed)
        for seed in range(0 if asked.table else asked.splits)
        for name in asked.sets
    ]
    run_missing(asked.out, COLUMNS, ("set", "seed"), pieces, split)
    rows = pd.read_csv(asked.out)
    for sets in (SETS, RARE):
        print(summarised(rows[rows["set"].isin(sets)]), end="\n\n")


if __name__ == "__main__":
    main()
