"""How well do machines rank that have seen no case? Beside detectors of other packages.

    python benchmarks/one_class.py --splits 6 --out one_class.csv
    python benchmarks/one_class.py --recipes one_class:24 --out searched.csv
    python benchmarks/one_class.py --out one_class.csv --table

Seven clinical two-class tasks of the UCI sets in ../shared/data (`TASKS`), at random
two thirds to one third. Every method learns from the rows without the condition alone,
of the two thirds, encoded as the recipe `one_class` encodes them. A recipe is its five
fold machines at its own parameters; `one_class:24` chooses among 24 settings by the
held-out ranking of the cases in the two thirds, which is what a past with cases allows.
Isolation forest, local outlier factor, nearest neighbours and Mahalanobis distance are
scikit-learn's. ECOD is PyOD's and is left out where it is not installed
(`pip install --no-deps pyod`).

AUROC is of the third that was left out. "Found" is the share of its cases that are
flagged where a tenth of its other rows is, rows that tie there by share. "Ties" is how
many of these other rows tie there, as a share of that tenth. "Flagged" is the share of
other rows over the threshold that `--max-flag-rate 0.1` sets on held-out rows. A split
that is in the CSV is not run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from promise import SETS, as_read, trained
from resumed import run_missing
from sklearn.covariance import EmpiricalCovariance
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_curve
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

sys.path.insert(0, str(Path(__file__).parent / "papers"))
from sets import UCI, random_splits, skip_unless_there, table

from screening.data.cohort import Cohort
from screening.errors import ScreenError
from screening.metrics.ranking import area_under_roc

FLAGGED = 0.1
TASKS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "sick_euthyroid": ("sick_euthyroid", ("sick-euthyroid",), ()),
    "new_thyroid": SETS["new_thyroid"],
    "cleveland": SETS["cleveland"],
    "breast": SETS["breast"],
    "colic_died": SETS["colic_died"],
    "haberman": SETS["haberman"],
    "mammographic": SETS["mammographic"],
}
RECIPES = ("one_class", "one_class_conformal")
COLUMNS = (
    "set",
    "seed",
    "method",
    "auroc",
    "found",
    "ties",
    "flagged",
    "setting",
    "why",
)
Scores = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
"""Returns scores of new rows, higher for more suspicious, from usual rows and a
seed."""


def isolation_forest(usual: np.ndarray, new: np.ndarray, seed: int) -> np.ndarray:
    """Return scores of 300 trees."""
    forest = IsolationForest(n_estimators=300, random_state=seed).fit(usual)
    return -forest.score_samples(new)


def local_outlier_factor(usual: np.ndarray, new: np.ndarray, seed: int) -> np.ndarray:
    """Return scores of scikit-learn's defaults."""
    return -LocalOutlierFactor(novelty=True).fit(usual).score_samples(new)


def nearest_neighbours(usual: np.ndarray, new: np.ndarray, seed: int) -> np.ndarray:
    """Return the mean distance to the five nearest usual rows."""
    distances, _ = NearestNeighbors(n_neighbors=5).fit(usual).kneighbors(new)
    return distances.mean(axis=1)


def mahalanobis(usual: np.ndarray, new: np.ndarray, seed: int) -> np.ndarray:
    """Return squared Mahalanobis distances to the mean of the usual rows."""
    return EmpiricalCovariance().fit(usual).mahalanobis(new)


def ecod(usual: np.ndarray, new: np.ndarray, seed: int) -> np.ndarray:
    """Return scores of PyOD's ECOD; RuntimeError without PyOD."""
    try:
        from pyod.models.ecod import ECOD
    except ImportError as error:
        raise RuntimeError(f"needs {error.name}") from None
    return ECOD().fit(usual).decision_function(new)


DETECTORS: dict[str, Scores] = {
    "isolation forest": isolation_forest,
    "local outlier factor": local_outlier_factor,
    "nearest neighbours": nearest_neighbours,
    "Mahalanobis": mahalanobis,
    "ECOD": ecod,
}


@cache
def cohort_of(name: str) -> Cohort:
    """Return a task as `screen train` would read it, its label yes or no."""
    file, positive, _ = TASKS[name]
    frame = pd.read_csv(UCI / f"{file}.csv", dtype={"label": str})
    is_case = frame["label"].isin(positive)
    return as_read(frame.assign(label=np.where(is_case, "yes", "no")))


def figures(scores: np.ndarray, is_case: np.ndarray) -> dict[str, float]:
    """Return AUROC, cases found and ties where a tenth of the other rows is flagged."""
    false, hit, _ = roc_curve(is_case, scores, drop_intermediate=False)
    usual = np.sort(scores[~is_case])
    n_wanted = FLAGGED * len(usual)
    at_rule = usual[len(usual) - max(1, round(n_wanted))]
    return {
        "auroc": 100 * area_under_roc(scores, is_case),
        "found": 100 * float(np.interp(FLAGGED, false, hit)),
        "ties": 100 * (np.sum(usual == at_rule) - 1) / n_wanted,
    }


def share_flagged(held_out: np.ndarray, usual: np.ndarray) -> float:
    """Return the share of usual rows over the threshold of a tenth of held-out rows."""
    rank = int(np.ceil((1 - FLAGGED) * (len(held_out) + 1)))
    threshold = np.sort(held_out)[min(rank, len(held_out)) - 1]
    return 100 * float(np.mean(usual > threshold))


def recipe_row(past: Cohort, new: Cohort, method: str, seed: int) -> dict[str, Any]:
    """Return the figures of a recipe at its own parameters, or of a search."""
    name, _, search = method.partition(":")
    n_settings = int(search) if search else 1
    try:
        model = trained(past, name, repeats=1, search=n_settings, seed=seed)
    except ScreenError as refusal:
        return {"why": str(refusal)[:120]}
    is_case = new.labels == "yes"
    scores = model.scores(new)
    held_out = model.held_out.decisions[0, :, 0]
    usual = model.held_out.encoded.target == 0
    flagged = share_flagged(held_out[usual], scores[~is_case])
    setting = model.held_out.search.chosen
    return figures(scores, is_case) | {"flagged": flagged, "setting": setting}


def split(
    name: str, seed: int, recipes: Sequence[str], detectors: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each method on one split."""
    whole = cohort_of(name)
    case_codes = (whole.labels == "yes").astype(int)
    old, test = next(random_splits(case_codes, 1 / 3, 1, seed))
    past = whole.take(old)
    new = whole.take(test)
    for method in recipes:
        row = recipe_row(past, new, method, seed)
        yield {"set": name, "seed": seed, "method": method} | row
    if not detectors:
        return
    like = trained(past, "one_class", repeats=1, search=1, seed=seed).held_out
    usual = like.encoded.x[like.encoded.target == 0]
    x = like.encoder.transform(new.values)
    is_case = new.labels == "yes"
    for method in detectors:
        try:
            row = figures(DETECTORS[method](usual, x, seed), is_case)
        except RuntimeError as missing:
            row = {"why": str(missing)}
        yield {"set": name, "seed": seed, "method": method} | row


def show(rows: pd.DataFrame) -> None:
    """Print AUROC by set, and the means of all figures."""
    names = [name for name in TASKS if name in set(rows["set"])]
    lines = []
    for method, of_method in rows.groupby("method", sort=False):
        by_set = of_method.groupby("set")[["auroc", "found", "ties", "flagged"]].mean()
        means = by_set.mean()
        cells = [f"{by_set['auroc'].get(name, np.nan):.1f}" for name in names]
        cells += [f"{means[figure]:.1f}" for figure in by_set]
        cells.append(int(of_method["auroc"].isna().sum()))
        lines.append([f"`{method}`", *cells])
    head = ["method", *names, "mean AUROC", "found", "ties", "flagged", "no figure"]
    print(table(head, lines))


def main() -> None:
    """Run what is missing and print the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--splits", type=int, default=4)
    options.add_argument("--sets", nargs="+", default=list(TASKS))
    options.add_argument("--recipes", nargs="*", default=list(RECIPES))
    options.add_argument("--detectors", nargs="*", default=list(DETECTORS))
    options.add_argument("--out", type=Path, default=Path("one_class.csv"))
    options.add_argument("--table", action="store_true", help="print the CSV alone")
    asked = options.parse_args()
    if not asked.table:
        skip_unless_there()

        def rows_of(name: str, seed: int) -> list[Mapping[str, Any]]:
            return list(split(name, seed, asked.recipes, asked.detectors))

        pieces = [(name, seed) for seed in range(asked.splits) for name in asked.sets]
        run_missing(asked.out, COLUMNS, ("set", "seed"), pieces, rows_of)
    show(pd.read_csv(asked.out))


if __name__ == "__main__":
    main()
