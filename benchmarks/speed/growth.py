"""How time grows: with rows, ours beside scikit-learn; with columns, that of `screen
init` and `check`.

python benchmarks/speed/growth.py --rows 50000 100000 --repeats 1
python benchmarks/speed/growth.py --columns 500 1000 2000 5000
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from commands import command
from sklearn.svm import SVC
from timing import HEADER, Comparison, compare
from training import COST, TOL, Solved, made_rows, passes_of, solved_apart

from screening.kernels import Gaussian
from screening.solvers import gram_within


def plain(n: int, repeats: int) -> Comparison:
    """One fit and the decision at the training rows, 3 features."""
    x, y = made_rows(n, 3)
    machine = SVC(C=COST, gamma=1 / 3, tol=TOL, cache_size=2000)

    def theirs() -> Solved:
        decision = machine.fit(x, y).decision_function(x)
        weights = np.zeros(n)
        weights[machine.support_] = machine.dual_coef_[0]
        return Solved.of(decision, weights, float(machine.intercept_[0]), True)

    return compare(
        f"two-class, n = {n}, 3 features",
        "scikit-learn",
        lambda: passes_of(gram_within(Gaussian(1 / 3), x), y, 0),
        theirs,
        solved_apart,
        1,
        repeats,
    )


WIDE_ROWS = 1700


def wide(n_columns: int) -> pd.DataFrame:
    """Patients with an outcome and so many columns: measured, counted, yes and no,
    categories.
    """
    rng = np.random.default_rng(0)
    kinds = (
        *[lambda: rng.normal(50, 10, WIDE_ROWS).round(2)] * 6,
        lambda: rng.integers(0, 2, WIDE_ROWS),
        lambda: rng.choice([*"ABCDE"], WIDE_ROWS),
        lambda: rng.choice(["yes", "no"], WIDE_ROWS),
        lambda: rng.integers(20, 90, WIDE_ROWS),
    )
    named = {"patient_id": [f"P{row:05}" for row in range(WIDE_ROWS)]}
    named["outcome"] = rng.choice(["yes", "no"], WIDE_ROWS, p=[0.1, 0.9])
    return pd.DataFrame(
        named | {f"x{at}": kinds[at % len(kinds)]() for at in range(n_columns - 2)}
    )


def columns(counts: list[int]) -> None:
    """Print a line a width."""
    print("| columns | init s | init GB | check s | check GB |\n|---|---|---|---|---|")
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            table, contract = Path(folder) / "wide.csv", Path(folder) / "wide.toml"
            wide(count).to_csv(table, index=False)
            used = (
                command("init", table, "--out", contract),
                command("check", table, "--contract", contract),
            )
        print(
            f"| {count} |"
            + "".join(f" {second:.1f} | {peak:.2f} |" for second, peak in used),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--columns", type=int, nargs="+", default=[])
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=[200, 500, 1000, 2000, 5000, 10_000, 20_000],
    )
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    if asked.columns:
        columns(asked.columns)
        return
    print(HEADER)
    for n in asked.rows:
        print(plain(n, asked.repeats).row(), flush=True)


if __name__ == "__main__":
    main()
