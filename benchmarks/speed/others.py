"""Ours beside PyOD, imbalanced-learn and scikit-learn's GridSearchCV, as their users
call them.

    python benchmarks/speed/others.py

PyOD is no dependency: ``pip install pyod`` for its lines, which are skipped without it.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from imblearn.ensemble import BalancedRandomForestClassifier, EasyEnsembleClassifier
from imblearn.over_sampling import SMOTE
from imblearn.pipeline import make_pipeline as with_resampling
from joblib import Parallel, delayed
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from timing import HEADER, Comparison, compare
from training import TOL, apart, made_rows

from screening import OneClassSVM, build, load_recipe, read_cohort
from screening.kernels import Gaussian
from screening.model_selection.fold_fits import EncodedRows
from screening.model_selection.search import criterion
from screening.model_selection.task import infer_task
from screening.threads import limit_threads

FEATURES, GAMMA, NU, COST = 8, 1 / 8, 0.1, 1.0
JOBS = 2
GRID = {"C": [0.1, 1.0, 10.0, 100.0, 1000.0], "gamma": [0.01, 0.03, 0.1, 0.3, 1.0]}


def pyod(n: int, repeats: int) -> Comparison:
    """One-class: fit, and the scores of the training rows, which PyOD's fit makes
    anyway.
    """
    from pyod.models.ocsvm import OCSVM

    x, _ = made_rows(n, FEATURES)
    detector = OCSVM(nu=NU, gamma=GAMMA, tol=TOL, contamination=NU)
    machine = OneClassSVM(Gaussian(GAMMA), nu=NU, tol=TOL)

    def agreement(ours: np.ndarray, theirs: np.ndarray) -> str:
        # libsvm's alphas sum to nu n, ours to 1.
        return f"{apart(NU * n * ours, theirs)}; rank correlation {spearmanr(ours, theirs)[0]:.6f}"

    return compare(
        f"one-class, n = {n}, {FEATURES} features, fit and scores",
        "PyOD's OCSVM",
        lambda: -machine.fit(x).decision_function(x),
        lambda: detector.fit(x).decision_scores_,
        agreement,
        1,
        repeats,
    )


def smote(n: int, repeats: int) -> Comparison:
    """SMOTE rows, a machine on them, decisions at as many new rows."""
    x, y, z, _ = halves(n)
    machine = build("smote_svm", C=COST, gamma=GAMMA, seed=0)
    theirs = with_resampling(
        SMOTE(k_neighbors=5, random_state=0),
        SVC(C=COST, gamma=GAMMA, tol=TOL, cache_size=2000),
    )
    return compare(
        f"SMOTE and two-class, n = {n}, {FEATURES} features, fit and scores",
        "imbalanced-learn's SMOTE, SVC",
        lambda: machine.fit(x, y).decision_function(z),
        lambda: theirs.fit(x, y).decision_function(z),
        apart,
        1,
        repeats,
    )


def halves(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows to learn from and as many to score, with their labels."""
    x, y = made_rows(2 * n, FEATURES)
    return x[:n], y[:n], x[n:], y[n:]


def grid_search(n: int, repeats: int, jobs: int) -> Comparison:
    """C and gamma over five folds, AUROC of each: ours as a search of ``screen train``
    goes through them.
    """
    x, y = made_rows(n, FEATURES)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(x, y))
    recipe = load_recipe("svm")
    candidates = [
        dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "past.parquet"
        table = pd.DataFrame(x, columns=[f"x{j}" for j in range(FEATURES)])
        table.assign(ill=np.where(y == 1, "yes", "no")).to_parquet(path, index=False)
        cohort = read_cohort(path, label="ill", positive="yes")
    task, _ = infer_task(cohort, several=False)

    def ours() -> np.ndarray:
        encoded = EncodedRows.of(cohort, recipe, task.target(cohort.labels), 1)

        def in_fold(train: np.ndarray, test: np.ndarray) -> list[float]:
            held_out = np.ascontiguousarray(encoded.x[test])
            with limit_threads(1):
                _, decided = encoded.fit_settings(train, candidates, held_out)
            return [criterion("auroc", each, y[test]) for each in decided]

        at_once = (delayed(in_fold)(*fold) for fold in folds)
        return np.mean(Parallel(jobs, prefer="threads")(at_once), axis=0)

    def theirs() -> np.ndarray:
        machine = make_pipeline(StandardScaler(), SVC(tol=TOL))
        grid = {f"svc__{name}": values for name, values in GRID.items()}
        search = GridSearchCV(
            machine, grid, scoring="roc_auc", cv=folds, n_jobs=jobs, refit=False
        )
        return search.fit(x, y).cv_results_["mean_test_score"]

    def agreement(ours: np.ndarray, theirs: np.ndarray) -> str:
        same = "same" if ours.argmax() == theirs.argmax() else "another"
        return f"AUROC within {np.abs(ours - theirs).max():.1e}, {same} choice"

    return compare(
        f"{len(candidates)} settings of C and gamma, 5 folds, n = {n}, {FEATURES} features",
        f"GridSearchCV over SVC, {jobs} process{'es' * (jobs > 1)}",
        ours,
        theirs,
        agreement,
        1,
        repeats,
    )


def beside_ensembles(n: int, repeats: int) -> None:
    """What a user of imbalanced-learn might take instead: its time and what it gains,
    in turn with ours.
    """
    x, y, z, of_z = halves(n)
    ways: dict[str, Any] = {
        "our `svm`": build("svm", C=COST, gamma=GAMMA),
        "our `svm_weighted`": build("svm_weighted", C=COST, gamma=GAMMA),
        "our `smote_svm`": build("smote_svm", C=COST, gamma=GAMMA, seed=0),
        "BalancedRandomForestClassifier": BalancedRandomForestClassifier(
            random_state=0, n_jobs=JOBS
        ),
        "EasyEnsembleClassifier": EasyEnsembleClassifier(random_state=0, n_jobs=JOBS),
    }
    seconds = np.empty((repeats + 1, len(ways)))
    auroc = {}
    for turn in seconds:
        for column, (name, estimator) in enumerate(ways.items()):
            start = time.perf_counter()
            scores = scored(estimator.fit(x, y), z)
            turn[column] = time.perf_counter() - start
            auroc[name] = roc_auc_score(of_z, scores)
    print(
        f"\n| n = {n}, {FEATURES} features | fit and scores (range) | AUROC |\n|---|---|---|"
    )
    for name, spent in zip(ways, seconds[1:].T, strict=True):
        times = f"{np.median(spent):.3g} s ({spent.min():.3g} to {spent.max():.3g})"
        print(f"| {name} | {times} | {auroc[name]:.3f} |", flush=True)


def scored(estimator: Any, z: np.ndarray) -> np.ndarray:
    """Higher for positive; a forest has probabilities alone."""
    if hasattr(estimator, "decision_function"):
        return estimator.decision_function(z)
    return estimator.predict_proba(z)[:, 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[3000, 10_000], help="of one class"
    )
    parser.add_argument(
        "--labelled", type=int, default=3000, help="rows of two classes"
    )
    parser.add_argument(
        "--searched", type=int, default=1000, help="rows of the grid search"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--jobs", type=int, default=JOBS, help="threads or processes of the grid search"
    )
    asked = parser.parse_args()
    works: list[Callable[[], Comparison]] = []
    if importlib.util.find_spec("pyod") is None:
        print("skipped: PyOD is not installed (pip install pyod)")
    else:
        works += [lambda n=n: pyod(n, asked.repeats) for n in asked.rows]
    works += [
        lambda: smote(asked.labelled, asked.repeats),
        lambda: grid_search(asked.searched, asked.repeats, asked.jobs),
    ]
    print(HEADER)
    for work in works:
        print(work().row(), flush=True)
    beside_ensembles(asked.labelled, asked.repeats)


if __name__ == "__main__":
    main()
