"""Can a kernel width be chosen without a case? Criteria that ask for no label.

    python benchmarks/label_free.py --splits 3 --out label_free.csv
    python benchmarks/label_free.py --out label_free.csv --table

A one-class machine is trained on the rows without the condition of two thirds of a
table, with each of some gammas, for two kernels and three nu. The criteria see these
rows alone:

- likelihood: mean held-out log kernel sum, normalised as a density;
- stability: rank correlation of the held-out scores of two machines that have no
  training row in common;
- volume: share of uniform rows accepted where nine tenths of held-out rows are;
- permuted: AUROC of rows whose columns were permuted independently, against held-out
  rows;
- mean: the setting with the best mean rank by these four;
- Silverman: gamma of his rule of thumb; quantile: 1 / the 1 % quantile of distances.

The table has AUROC and the share of cases found at one tenth flagged (`one_class.py`)
of the setting that each criterion chooses, of fixed settings, and of the best setting
in hindsight. "hidden" has 5 % of unknown cases among the rows learned from.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from one_class import TASKS, cohort_of, figures
from resumed import run_missing
from scipy.stats import spearmanr
from sets import random_splits, skip_unless_there, table

from screening import OneClassSVM
from screening.data.cohort import Cohort
from screening.data.encoding import ONE_CLASS_MIN_BINARY_SCALE, Encoder
from screening.kernels import KERNELS, input_distances
from screening.metrics.ranking import area_under_roc

MULTIPLES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
NUS = (0.1, 0.5, 0.8)
HIDDEN = {"clean": 0.0, "hidden": 0.05}
ACCEPTED = 0.9
FOLDS = 5
MAX_ROWS = 700
CRITERIA = {"likelihood": 1, "stability": 1, "volume": -1, "permuted": 1}
COLUMNS = (
    "set",
    "seed",
    "past",
    "kernel",
    "gamma",
    "nu",
    "auroc",
    "found",
    *CRITERIA,
)


@dataclass(frozen=True)
class Setting:
    """A machine on rows x, and the criteria that see these rows alone."""

    x: np.ndarray
    kernel: str
    gamma: float
    nu: float
    rng_seed: int

    def fit(self, rows: np.ndarray) -> OneClassSVM:
        """Return the machine on some rows."""
        machine = OneClassSVM(
            self.kernel, gamma=self.gamma, nu=self.nu, score_scale="log"
        )
        return machine.fit(self.x[rows])

    def log_sums(self, machine: OneClassSVM, x: np.ndarray) -> np.ndarray:
        """Return the logarithm of the kernel sum of weights that add up to 1."""
        return machine.log_ratio(x) + np.log(machine.offset_)

    @cached_property
    def _random(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Folds, rows with permuted columns, and uniform rows."""
        rng = np.random.default_rng(self.rng_seed)
        fold = rng.permutation(len(self.x)) % FOLDS
        permuted = np.column_stack([rng.permutation(column) for column in self.x.T])
        low = self.x.min(axis=0)
        high = self.x.max(axis=0)
        return fold, permuted, rng.uniform(low, high, size=self.x.shape)

    def criteria(self) -> dict[str, float]:
        """Return the value of each of `CRITERIA`."""
        fold, permuted, uniform = self._random
        n_rows, n_columns = self.x.shape
        held_out = np.empty(n_rows)
        of_permuted = np.empty(n_rows)
        of_uniform = np.empty(n_rows)
        for number in range(FOLDS):
            test = fold == number
            machine = self.fit(~test)
            held_out[test] = self.log_sums(machine, self.x[test])
            of_permuted[test] = self.log_sums(machine, permuted[test])
            of_uniform[test] = self.log_sums(machine, uniform[test])
        threshold = np.quantile(held_out, 1 - ACCEPTED)
        is_permuted = np.repeat([False, True], n_rows)
        scores = -np.concatenate([held_out, of_permuted])
        # A Gaussian density has gamma to the power n / 2, a Laplacian one to n.
        exponent = n_columns / KERNELS[self.kernel].norm
        return {
            "likelihood": float(held_out.mean() + exponent * np.log(self.gamma)),
            "stability": self._stability(fold),
            "volume": float(np.mean(of_uniform > threshold)),
            "permuted": area_under_roc(scores, is_permuted),
        }

    def _stability(self, fold: np.ndarray) -> float:
        """Return the rank correlation of two machines on rows that neither saw."""
        first = self.fit(fold < 2)
        second = self.fit((fold == 2) | (fold == 3))
        unseen = self.x[fold == 4]
        return float(
            spearmanr(first.log_ratio(unseen), second.log_ratio(unseen)).statistic
        )


def gammas(x: np.ndarray, kernel: str) -> dict[str, float]:
    """Return the gammas to try: multiples of "scale", Silverman's, a quantile's."""
    n_rows, n_columns = x.shape
    kind = KERNELS[kernel]
    by_name = {f"scale*{m:g}": kind(f"scale*{m:g}").resolve(x) for m in MULTIPLES}
    exponent = 1 / (n_columns + 4)
    width = (4 / (n_columns + 2) / n_rows) ** exponent
    width *= np.sqrt(x.var(axis=0).mean())
    by_name["Silverman"] = 1 / (2 * width**2)
    if kind.norm == 1:
        by_name["Silverman"] = 1 / width
    distances = input_distances(x, x, kind.norm)[np.triu_indices(n_rows, 1)]
    quantile = np.quantile(distances, 0.01)
    if quantile > 0:
        by_name["quantile"] = 1 / quantile
    return by_name


def learned_and_new(name: str, seed: int, hidden: float) -> tuple[Cohort, Cohort]:
    """Return rows to learn from, with a share of hidden cases, and the other third."""
    whole = cohort_of(name)
    rng = np.random.default_rng(seed)
    case_codes = (whole.labels == "yes").astype(int)
    old, new = next(random_splits(case_codes, 1 / 3, 1, seed))
    usual = rng.permutation(old[case_codes[old] == 0])[:MAX_ROWS]
    cases = rng.permutation(old[case_codes[old] == 1])
    n_hidden = round(hidden / (1 - hidden) * len(usual))
    rows = np.concatenate([usual, cases[:n_hidden]])
    return whole.take(rows), whole.take(new)


def split(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each setting on one split."""
    for past, hidden in HIDDEN.items():
        learned, new = learned_and_new(name, seed, hidden)
        encoder = Encoder(learned.contract.features, ONE_CLASS_MIN_BINARY_SCALE).fit(
            learned.values
        )
        x = encoder.transform(learned.values)
        unseen = encoder.transform(new.values)
        is_case = new.labels == "yes"
        for kernel in KERNELS:
            for gamma_name, gamma in gammas(x, kernel).items():
                for nu in NUS:
                    setting = Setting(x, kernel, gamma, nu, seed)
                    machine = setting.fit(np.arange(len(x)))
                    shown = figures(-machine.log_ratio(unseen), is_case)
                    row = {
                        "set": name,
                        "seed": seed,
                        "past": past,
                        "kernel": kernel,
                        "gamma": gamma_name,
                        "nu": nu,
                        "auroc": shown["auroc"],
                        "found": shown["found"],
                    }
                    yield row | setting.criteria()


def chosen(rows: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """Yield the row that each criterion chooses among the settings of one split."""
    for name in ("Silverman", "quantile", "scale", "scale*3", "scale*10"):
        wanted = "scale*1" if name == "scale" else name
        for nu in NUS:
            of_name = rows[(rows["gamma"] == wanted) & (rows["nu"] == nu)]
            if len(of_name):
                yield f"{name}, nu {nu:g}", of_name.iloc[0]
    settings = rows[rows["gamma"].str.startswith("scale")]
    ranks = pd.DataFrame(
        {name: (sign * settings[name]).rank() for name, sign in CRITERIA.items()}
    )
    for name in CRITERIA:
        yield name, settings.loc[ranks[name].idxmax()]
    yield "mean of the four", settings.loc[ranks.mean(axis=1).idxmax()]
    yield "best in hindsight", settings.loc[settings["auroc"].idxmax()]


def show(rows: pd.DataFrame) -> None:
    """Print the means over tables of what each criterion chooses."""
    choices = []
    for (name, _, past, kernel), of_split in rows.groupby(
        ["set", "seed", "past", "kernel"]
    ):
        for criterion, row in chosen(of_split):
            choices.append(
                {
                    "set": name,
                    "past": past,
                    "kernel": kernel,
                    "criterion": criterion,
                    "auroc": row["auroc"],
                    "found": row["found"],
                }
            )
    frame = pd.DataFrame(choices)
    keys = ["kernel", "criterion", "past"]
    by_set = frame.groupby([*keys, "set"])[["auroc", "found"]].mean()
    means = by_set.groupby(keys, sort=False).mean().unstack("past")
    lines = []
    for (kernel, criterion), row in means.iterrows():
        lines.append([kernel, criterion, *[f"{value:.1f}" for value in row]])
    head = [f"{figure}, {past}" for figure, past in means.columns]
    print(table(["kernel", "criterion", *head], lines))


def main() -> None:
    """Run what is missing and print the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--splits", type=int, default=3)
    options.add_argument("--sets", nargs="+", default=list(TASKS))
    options.add_argument("--out", type=Path, default=Path("label_free.csv"))
    options.add_argument("--table", action="store_true", help="print the CSV alone")
    asked = options.parse_args()
    if not asked.table:
        skip_unless_there()
        pieces = [(name, seed) for seed in range(asked.splits) for name in asked.sets]
        run_missing(asked.out, COLUMNS, ("set", "seed"), pieces, split)
    show(pd.read_csv(asked.out))


if __name__ == "__main__":
    main()
