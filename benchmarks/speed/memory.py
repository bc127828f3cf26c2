"""Peak memory of `screen score` as rows grow, and as more of them are flagged.

    python benchmarks/speed/memory.py --rows 1000000 10000000 --flagged 0.06 0.39

Each night is scored in a process of its own; the digest tells whether two versions
write the same list.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path

import pandas as pd
from folds import CONTRACT, TRAINED, night, table_of, written

from screening import MaxFlagRate, load_recipe, read_cohort, train
from screening.store.model import save_model


def model(folder: Path, share: float) -> Path:
    """A model whose threshold flags about so many rows."""
    past: pd.DataFrame = table_of(0, TRAINED, 0, True).to_pandas()
    (folder / "c.toml").write_text(CONTRACT.format(more='id = "id"\n'))
    cohort = read_cohort(past, folder / "c.toml", need_label=True)
    rule = MaxFlagRate(share)
    save_model(
        train(cohort, load_recipe("svm_weighted"), rule=rule, search=4, beside=()),
        folder / f"m{share}",
    )
    return folder / f"m{share}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000]
    )
    parser.add_argument("--flagged", type=float, nargs="+", default=[0.06, 0.39])
    asked = parser.parse_args()
    print("| rows | flagged | peak MB | processor s | clock s | flagged.csv |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = [model(folder, share) for share in asked.flagged]
        for n_rows in asked.rows:
            rows = written(folder / "night.parquet", n_rows, 0)
            for trained in models:
                run = folder / f"run{n_rows}{trained.name}"
                used = night(trained, rows, run)
                flagged = (
                    json.loads((run / "run.json").read_text())["counts"]["flagged"]
                    / n_rows
                )
                digest = hashlib.sha256((run / "flagged.csv").read_bytes()).hexdigest()[
                    :12
                ]
                print(
                    f"| {n_rows} | {flagged:.0%} | {used.peak:.0f} | {used.processor:.0f} | {used.clock:.0f} "
                    f"| `{digest}` |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
