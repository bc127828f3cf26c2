"""What it costs that the folds are the model: whole nights beside those of one machine
fitted on all rows.

    python benchmarks/speed/folds.py --rows 10000000 --voxels 1000000

Both are models, written, loaded and used by `screen score` in a process of its own:
seconds of processor (user and system) and on the clock, and peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from screening import MaxFlagRate, build, load_recipe, read_cohort, train
from screening.estimators.ensembles import FoldEnsemble
from screening.store.model import Model, save_model

FEATURES, TRAINED, BLOCK = 6, 1000, 500_000
CONTRACT = """format = 1
[cohort]
label = "ill"
{more}
""" + "".join(f'[features.x{k}]\ntype = "number"\n' for k in range(FEATURES))


class Night(NamedTuple):
    """What one `screen score` took."""

    processor: float
    clock: float
    peak: float


def table_of(start: int, n_rows: int, voxels: int, labelled: bool) -> pa.Table:
    """Rows as a hospital sends them; with `voxels` each patient has so many, on a
    grid.
    """
    rng = np.random.default_rng([start, labelled])
    x = rng.normal(size=(n_rows, FEATURES)).astype(np.float32)
    number = np.arange(start, start + n_rows)
    columns: dict[str, object] = {"id": np.char.mod("%08d", number)}
    if voxels:
        edge = round(voxels ** (1 / 3))
        within = number % voxels
        columns |= {"patient": np.char.mod("p%05d", number // voxels)}
        columns |= {
            "x": within % edge,
            "y": within // edge % edge,
            "z": within // edge**2,
        }
    columns |= {f"x{k}": x[:, k] for k in range(FEATURES)}
    if labelled:
        ill = x[:, 0] + x[:, 1] ** 2 + rng.normal(scale=0.7, size=n_rows) > 3.0
        columns["ill"] = np.where(ill, "yes", "no")
    return pa.table(columns)


def written(path: Path, n_rows: int, voxels: int) -> Path:
    """A night of so many rows, written piece by piece."""
    first = table_of(0, min(n_rows, BLOCK), voxels, False)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for start in range(BLOCK, n_rows, BLOCK):
            writer.write_table(
                table_of(start, min(BLOCK, n_rows - start), voxels, False)
            )
    return path


def models(folder: Path, recipe: str, voxels: int) -> tuple[Path, Path, str]:
    """Today's model, the same with one machine fitted on all rows, and the support
    vectors of both.
    """
    past: pd.DataFrame = table_of(0, TRAINED, voxels, True).to_pandas()
    more = (
        'id = "id"\n'
        if not voxels
        else 'group = "patient"\ncoordinates = ["x", "y", "z"]\n'
    )
    (folder / "c.toml").write_text(CONTRACT.format(more=more))
    cohort = read_cohort(
        past.drop(columns="id") if voxels else past, folder / "c.toml", need_label=True
    )
    rule = MaxFlagRate(0.02)
    today = train(cohort, load_recipe(recipe), rule=rule, search=4, beside=())
    encoded = today.encoder.transform(cohort.values)
    alone = build(recipe, **today.document["recipe"]["parameters"]).fit(
        encoded, cohort.label == "yes"
    )
    single = FoldEnsemble([alone], today.ensemble.kind, 1)
    facts = today.document | {"validation": today.document["validation"] | {"folds": 1}}
    one: Model = replace(today, document=facts, ensemble=single)
    save_model(today, folder / "today")
    save_model(one, folder / "one")
    counts = f"{len(today.ensemble.union[0])}, {len(alone.support_)}"
    return folder / "today", folder / "one", counts


def night(model: Path, rows: Path, out: Path) -> Night:
    """Run one and wait for it."""
    clock = time.perf_counter()
    call = [
        sys.executable,
        "-m",
        "screening",
        "--log",
        "json",
        "score",
        str(model),
        str(rows),
    ]
    log = out.with_suffix(".log")
    places = (1, os.devnull), (2, str(log))
    told = [
        (os.POSIX_SPAWN_OPEN, number, to, os.O_WRONLY | os.O_CREAT, 0o600)
        for number, to in places
    ]
    call += ["--date", "2026-03-01", "--out", str(out)]
    process = os.posix_spawn(sys.executable, call, os.environ, file_actions=told)
    _, status, used = os.wait4(process, 0)
    if status:
        raise SystemExit(
            f"screen score of {rows} ended with {os.waitstatus_to_exitcode(status)}"
        )
    # The peak that wait4 reports is at least that of this process, which trained the
    # models.
    peak = json.loads(log.read_text().splitlines()[-1])["peak_mb"]
    return Night(used.ru_utime + used.ru_stime, time.perf_counter() - clock, peak)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--voxels", type=int, default=1_000_000)
    parser.add_argument("--recipes", default="svm_weighted,williams")
    asked = parser.parse_args()
    print(
        "| night | recipe | support vectors: folds, one | processor s | ratio | clock s | peak MB |"
    )
    print("|---|---|---|---|---|---|---|")
    for what, n_rows, voxels in (
        ("rows", asked.rows, 0),
        ("voxels", asked.voxels, 1000),
    ):
        for recipe in asked.recipes.split(",") if n_rows else ():
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                today, one, counts = models(folder, recipe, voxels)
                rows = written(folder / "night.parquet", n_rows, voxels)
                ours, theirs = (
                    night(today, rows, folder / "a"),
                    night(one, rows, folder / "b"),
                )
            print(
                f"| {n_rows} {what} | `{recipe}` | {counts} | {ours.processor:.1f}, {theirs.processor:.1f} | "
                f"{ours.processor / theirs.processor:.2f} | {ours.clock:.0f}, {theirs.clock:.0f} | "
                f"{ours.peak:.0f}, {theirs.peak:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
