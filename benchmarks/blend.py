"""Does the blend pay? `auto` beside its own members, boosting and a large forest, on rows nobody trained on.

    python benchmarks/blend.py --splits 6 --out blend.csv
    python benchmarks/blend.py --out blend.csv --table

Two-class tasks of the UCI sets in ../shared/data, at random two thirds to one third. Everything is tuned on
the two thirds as `screen train` does (five folds, one matrix of held-out scores). A member alone is its five
fold machines at the setting that the blend uses, so differences are paired to the last tree; boosting is
likewise five fold machines; the forests of 500 trees are scikit-learn's, fitted to all of the two thirds: as
it makes them unasked, and with the weights and leaves of our recipe. Choosing one member is what `auto` was
before it was a blend. The sets were seen while the tool was
built. A split that is in the CSV is not run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from promise import SETS, trained, uci
from resumed import run_missing
from sklearn.ensemble import RandomForestClassifier

sys.path.insert(0, str(Path(__file__).parent / "papers"))
from sets import random_splits, skip_unless_there, table

from screening.cohort.cohort import labels_of
from screening.statistics.ranking import auroc, average_precision
from screening.validation.held_out import HeldOut
from screening.validation.search import criterion

FIGURES = ("auroc", "average_precision", "g_mean", "specificity_at")
COLUMNS = ("set", "seed", "method", *FIGURES)
CHOSEN = "the best member by held-out AUROC"
FORESTS: dict[str, dict[str, object]] = {
    "500 trees, scikit-learn's defaults": {},
    "500 trees, weighted": {"min_samples_leaf": 3, "class_weight": "balanced_subsample"},
}


def figures(scores: np.ndarray, ill: np.ndarray, threshold: float) -> dict[str, float]:
    """In percent: ranking, G-mean at a threshold from held-out scores, specificity near sensitivity .9."""
    flagged = scores >= threshold
    return {
        "auroc": 100 * auroc(scores, ill),
        "average_precision": 100 * average_precision(scores, ill),
        "g_mean": 100 * float(np.sqrt(flagged[ill].mean() * (1 - flagged[~ill].mean()))),
        "specificity_at": 100 * criterion("min_sensitivity=0.9", scores, ill.astype(int)),
    }


def best_threshold(scores: np.ndarray, ill: np.ndarray) -> float:
    """The score with the largest G-mean on held-out rows."""
    values = np.unique(scores)
    hits, clear = ((scores[side] >= values[:, None]).mean(axis=1) for side in (ill, ~ill))
    return float(values[np.argmax(hits * (1 - clear))])


def of_folds(held_out: HeldOut, x: np.ndarray, past: np.ndarray, ill: np.ndarray) -> dict[str, float]:
    """Figures of machines of folds on new rows."""
    held = held_out.decisions.mean(axis=0)[:, 0]
    return figures(held_out.ensemble.decisions(x)[:, 0], ill, best_threshold(held, past))


def split(name: str, seed: int) -> Iterator[dict[str, object]]:
    """Every method on one split."""
    whole = uci(name)
    old, new = next(random_splits((labels_of(whole) == "yes").astype(int), 1 / 3, 1, seed))
    blend = trained(whole.take(old), "auto", repeats=1, search=None, seed=seed)
    boosting = trained(whole.take(old), "boosting", repeats=1, search=None, seed=seed)
    x = blend.held_out.encoder.transform(whole.take(new))
    ill, past = labels_of(whole.take(new)) == "yes", blend.held_out.encoded.target == 1
    methods = {"auto": blend.held_out, "boosting": boosting.held_out}
    methods |= {part.recipe.name: part for part in blend.held_out.parts}
    methods[CHOSEN] = max(
        blend.held_out.parts, key=lambda part: auroc(part.decisions.mean(axis=0)[:, 0], past)
    )
    for method, held_out in methods.items():
        yield {"set": name, "seed": seed, "method": method} | of_folds(held_out, x, past, ill)
    for method, how in FORESTS.items():
        forest = RandomForestClassifier(500, oob_score=True, random_state=seed, **how)
        forest.fit(blend.held_out.encoded.x, past)
        scores = forest.predict_proba(x)[:, 1]
        threshold = best_threshold(forest.oob_decision_function_[:, 1], past)
        yield {"set": name, "seed": seed, "method": method} | figures(scores, ill, threshold)


def summarised(rows: pd.DataFrame) -> str:
    """`auto` minus each method: mean over tasks with its standard error, and the task furthest behind."""
    means = rows.groupby(["set", "method"])[list(FIGURES)].mean().unstack("method")
    lines = []
    for method in dict.fromkeys(rows["method"]):
        if method == "auto":
            continue
        cells = []
        for figure in FIGURES:
            gap = means[figure]["auto"] - means[figure][method]
            cells.append(f"{gap.mean():+.2f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.2f}")
        gap = means["auroc"]["auto"] - means["auroc"][method]
        lines.append([f"`{method}`", *cells, f"{gap.min():+.1f} ({gap.idxmin()})"])
    heads = [
        "`auto` minus",
        "AUROC",
        "average precision",
        "G-mean",
        "specificity at .9",
        "furthest behind, AUROC",
    ]
    best = means["auroc"].drop(columns="auto").max(axis=1)
    behind = means["auroc"]["auto"] - best
    tasks, splits = rows["set"].nunique(), rows.groupby("set")["seed"].nunique().min()
    note = (
        f"{tasks} tasks, {splits} splits or more each; against the best of them on each task, in hindsight, "
        f"AUROC {behind.mean():+.2f}, worst {behind.min():+.1f}"
    )
    return f"{table(heads, lines)}\n\n{note}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--out", type=Path, default=Path("blend.csv"))
    parser.add_argument("--table", action="store_true", help="only print what the CSV holds")
    asked = parser.parse_args()
    skip_unless_there()
    pieces = [(name, seed) for seed in range(0 if asked.table else asked.splits) for name in asked.sets]
    run_missing(asked.out, COLUMNS, ("set", "seed"), pieces, split)
    print(summarised(pd.read_csv(asked.out)))


if __name__ == "__main__":
    main()
