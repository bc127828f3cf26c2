"""Several classes: `auto` beside its members, adaptive machines and large forests, on
rows nobody trained on.

    python benchmarks/several_classes.py --splits 2 --out several_classes.csv
    python benchmarks/several_classes.py --out several_classes.csv --table

Tables of 3 to 10 classes, UCI sets in ../shared/data and scikit-learn's own, at random
two thirds to one third; classes of fewer than `FEWEST` rows are left out, and of large
tables `MOST` rows are drawn. Everything is tuned on the two thirds as `screen train`
does; what is blended anew here (`auto` with an adaptive machine) has the same held-out
scores. Against the rest: one two-class `auto` a class, where `--rest` asks for it.
Ranking is one class against the rest, a mean over classes; accuracy is of the predicted
class. A split in the CSV is not run again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from promise import trained
from resumed import run_missing
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier

sys.path.insert(0, str(Path(__file__).parent / "papers"))
from sets import UCI, random_splits, skip_unless_there, table

from screening import read_cohort
from screening.data.cohort import Cohort
from screening.metrics.calibration import fit_platt, likeliest
from screening.metrics.chances import log_odds_at
from screening.metrics.ranking import area_under_roc, average_precision
from screening.model_selection.held_out import HeldOutDecisions, blended
from screening.recipes.building import load_recipe

UCI_SETS = (
    "car",
    "cleveland_heart",
    "ecoli",
    "glass",
    "horse_colic_outcome",
    "new_thyroid",
    "segment_full2310",
    "yeast",
)
OWN_SETS = {
    "digits": datasets.load_digits,
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
}
FEWEST, MOST = 15, 900
ADAPTIVE = ("shao_weighted", "shao_local", "act_one_per_class")
REST = "one two-class auto a class"
FIGURES = ("auroc", "average_precision", "accuracy")
COLUMNS = ("set", "seed", "method", *FIGURES)
FORESTS: dict[str, dict[str, object]] = {
    "500 trees, scikit-learn's defaults": {},
    "500 trees, weighted": {
        "min_samples_leaf": 3,
        "class_weight": "balanced_subsample",
    },
}


def cohort_of(name: str) -> Cohort:
    """A table with all its classes but the smallest."""
    if name in OWN_SETS:
        found = OWN_SETS[name]()
        frame = pd.DataFrame(
            found.data, columns=[f"v{j}" for j in range(found.data.shape[1])]
        )
        frame["label"] = np.char.add("class ", found.target.astype(str))
    else:
        frame = pd.read_csv(UCI / f"{name}.csv", dtype={"label": str}).drop_duplicates()
    frame = frame[frame.groupby("label")["label"].transform("size") >= FEWEST]
    if len(frame) > MOST:
        frame = frame.sample(MOST, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "cohort.parquet"
        frame.reset_index(drop=True).to_parquet(place, index=False)
        return read_cohort(place, label="label", need_label=True)


def figures(
    scores: np.ndarray, predicted: np.ndarray, target: np.ndarray
) -> dict[str, float]:
    """In percent; `scores`, (n_rows, n_classes)."""
    own = [
        (column, target == m)
        for m, column in enumerate(scores.T)
        if (target == m).any()
    ]
    return {
        "auroc": 100
        * float(np.mean([area_under_roc(column, mine) for column, mine in own])),
        "average_precision": 100
        * float(np.mean([average_precision(column, mine) for column, mine in own])),
        "accuracy": 100 * float(np.mean(predicted == target)),
    }


def split(
    name: str, seed: int, adaptive: Sequence[str] = ADAPTIVE, rest: bool = False
) -> Iterator[dict[str, object]]:
    """Every method on one split."""
    whole = cohort_of(name)
    old, new = next(random_splits(whole.labels, 1 / 3, 1, seed))
    past, later = whole.take(old), whole.take(new)
    auto = trained(past, "auto", repeats=1, search=None, seed=seed)
    held, task = auto.held_out, auto.study.task
    target = task.target(later.labels)
    x = held.encoder.transform(later.values)
    methods: dict[str, HeldOutDecisions] = {"auto": held} | {
        part.recipe.name: part for part in held.members
    }
    for recipe in adaptive:
        other = trained(past, recipe, repeats=1, search=None, seed=seed).held_out
        methods[recipe] = other
        methods[f"auto with {recipe}"] = blended(
            load_recipe("auto"), held.encoded, [*held.members, other], ()
        )
    for method, found in methods.items():
        decisions = found.ensemble.decisions(x)
        predicted = likeliest(found.class_chances, decisions)
        yield {"set": name, "seed": seed, "method": method} | figures(
            decisions, predicted, target
        )
    for method, how in FORESTS.items():
        forest = RandomForestClassifier(500, random_state=seed, **how).fit(
            held.encoded.x, held.encoded.target
        )
        shares = forest.predict_proba(x)
        yield {"set": name, "seed": seed, "method": method} | figures(
            shares, shares.argmax(axis=1), target
        )
    if rest:
        scores = np.column_stack(
            [against_rest(past, each, later, seed) for each in task.classes]
        )
        yield {"set": name, "seed": seed, "method": REST} | figures(
            scores, scores.argmax(axis=1), target
        )


def against_rest(past: Cohort, name: str, later: Cohort, seed: int) -> np.ndarray:
    """Log odds of one class by a two-class `auto` of its own, (n_rows,)."""
    alone = replace(past, contract=past.contract.with_roles(positive=[name]))
    found = trained(alone, "auto", repeats=1, search=None, seed=seed).held_out
    held, x = found.decisions.mean(axis=0)[:, 0], found.encoder.transform(later.values)
    platt = fit_platt(held, found.encoded.target == 1, np.ones(len(held)))
    return log_odds_at(found.ensemble.decisions(x)[:, 0], platt)


def summarised(rows: pd.DataFrame) -> str:
    """`auto` minus each method: mean over tables with its standard error, and the table
    furthest behind.
    """
    means = rows.groupby(["set", "method"])[list(FIGURES)].mean().unstack("method")
    lines = []
    for method in dict.fromkeys(rows["method"]):
        if method == "auto":
            continue
        cells = []
        for figure in FIGURES:
            gap = (means[figure]["auto"] - means[figure][method]).dropna()
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            cells.append(
                f"{gap.mean():+.2f} ± {error:.2f}; {gap.min():+.1f} ({gap.idxmin()})"
            )
        lines.append([f"`{method}`", *cells])
    heads = ["`auto` minus, furthest behind", "AUROC", "average precision", "accuracy"]
    note = f"{rows['set'].nunique()} tables, {rows.groupby('set')['seed'].nunique().min()} splits or more each"
    return f"{table(heads, lines)}\n\n{note}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--sets", nargs="+", default=[*UCI_SETS, *OWN_SETS])
    parser.add_argument(
        "--adaptive",
        nargs="*",
        default=ADAPTIVE,
        help="adaptive machines; none named: none",
    )
    parser.add_argument(
        "--rest", action="store_true", help="also one two-class blend a class"
    )
    parser.add_argument("--out", type=Path, default=Path("several_classes.csv"))
    parser.add_argument(
        "--table", action="store_true", help="only print what the CSV holds"
    )
    asked = parser.parse_args()
    skip_unless_there()
    splits = range(0 if asked.table else asked.splits)
    pieces = [
        (name, seed, asked.adaptive, asked.rest)
        for seed in splits
        for name in asked.sets
    ]
    run_missing(asked.out, COLUMNS, ("set", "seed"), pieces, split)
    print(summarised(pd.read_csv(asked.out)))


if __name__ == "__main__":
    main()
