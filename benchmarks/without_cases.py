"""Is the share of flags kept where no case was seen?

    python benchmarks/without_cases.py --recipe one_class --splits 6 --out without.csv
    python benchmarks/without_cases.py --out without.csv --table

Trained on some rows without the condition, shown by the other ones. Tables are those of
the UCI sets in ../shared/data without the rows of one class, and the sample ward
without infections. No label is given. The interval holds if the share of the other rows
that is flagged lies within it, as far as their number tells.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from resumed import run_missing

from screening import MaxFlagRate, train
from screening.errors import ScreenError
from screening.model_selection.scores import held_out_scores

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
# Table, its file, and the label of rows that are left out.
TABLES = {
    "euthyroid": ("uci/sick_euthyroid.csv", "sick-euthyroid"),
    "yeast": ("uci/yeast.csv", "ME2"),
    "abalone": ("uci/abalone.csv", "19"),
    "segment": ("uci/segment_full2310.csv", "BRICKFACE"),
    "mammographic": ("uci/mammographic_mass.csv", "1"),
    "car": ("uci/car.csv", "good"),
    "adult": ("large/adult.csv.gz", ">50K"),
}
SIZES = (100, 300, 900)
RATES = (0.02, 0.05, 0.1, 0.2)
MAX_ROWS = 6_000
MIN_OTHER_ROWS = 150
KEY = ("table", "rows", "split")
COLUMNS = (*KEY, "rate", "promised", "low", "high", "share", "others", "refused")


@cache
def normal_rows(name: str) -> pd.DataFrame:
    """Return the rows of a table without the condition, without their label."""
    if name == "ward":
        ward = pd.read_csv(ROOT / "sample_cohorts" / "nosocomial_past.csv")
        rows = ward[ward["infected"] == "no"]
        return rows.drop(columns=["infected", "patient_id", "admission_date"])
    file, rare = TABLES[name]
    table = pd.read_csv(DATA / file)
    rows = table[table["label"].astype(str) != rare].drop(columns="label")
    return rows.sample(min(len(rows), MAX_ROWS), random_state=0)


def outcomes(
    name: str, n_rows: int, split: int, recipe: str
) -> Iterator[dict[str, object]]:
    """Yield what was promised and seen at each rate; the reason where training
    refuses.
    """
    table = normal_rows(name)
    order = np.random.default_rng(split).permutation(len(table))
    past = table.iloc[order[:n_rows]].reset_index(drop=True)
    others = table.iloc[order[n_rows:]].reset_index(drop=True)
    piece = {"table": name, "rows": n_rows, "split": split}
    try:
        model = train(past, recipe, rule=MaxFlagRate(0.05), jobs=1, independent=True)
    except ScreenError as error:
        yield piece | {"refused": str(error)[:200]}
        return
    scores = model.score_frame(others)["score"]
    selector = held_out_scores(model).selector(0, 0)
    for rate in RATES:
        # Under so few rows no rank keeps the rate.
        if rate * (n_rows + 1) < 1:
            continue
        point = selector.point(MaxFlagRate(rate))
        promised, low, high = point["flag_rate"].value_and_interval
        yield piece | {
            "rate": rate,
            "promised": promised,
            "low": low,
            "high": high,
            "share": float((scores >= point.threshold).mean()),
            "others": len(others),
        }


def summary(rows: pd.DataFrame) -> str:
    """Return the table of docs/choosing.md."""
    kept = rows[rows["rate"].notna()]
    error = (kept["high"] - kept["low"]) / (2 * 1.96)
    chance = kept["promised"] * (1 - kept["promised"]) / kept["others"]
    z = (kept["share"] - kept["promised"]) / np.sqrt(error**2 + chance)
    lines = ["| promised | seen |", "|---|---|"]
    for rate, share in kept.groupby("rate")["share"].mean().items():
        lines.append(f"| {rate:.0%} | {share:.1%} |")
    n_trained = rows.groupby(list(KEY)).ngroups
    lines.append(f"| interval holds | {(z.abs() < 1.96).mean():.0%} |")
    lines.append(f"| trainings, refused | {n_trained}, {rows['rate'].isna().sum()} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing in the CSV, and print the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--recipe", default="one_class")
    options.add_argument("--splits", type=int, default=6)
    options.add_argument("--out", type=Path, default=Path("without.csv"))
    options.add_argument(
        "--table", action="store_true", help="print what the CSV holds and run nothing"
    )
    arguments = options.parse_args()
    if not arguments.table:
        names = ["ward"]
        if DATA.is_dir():
            names += TABLES
        else:
            print("public tables skipped: ../shared/data is not beside the repository")
        pieces = []
        for name in names:
            for n_rows in SIZES:
                if len(normal_rows(name)) >= n_rows + MIN_OTHER_ROWS:
                    splits = range(arguments.splits)
                    pieces += [
                        (name, n_rows, split, arguments.recipe) for split in splits
                    ]
        run_missing(arguments.out, COLUMNS, KEY, pieces, outcomes)
    print(summary(pd.read_csv(arguments.out)))


if __name__ == "__main__":
    main()
