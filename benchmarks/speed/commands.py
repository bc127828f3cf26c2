"""Processor seconds of a whole command, in turn with an earlier version of this repository.

    git worktree add /tmp/before 27220f4
    python benchmarks/speed/commands.py --before /tmp/before --pairs 5
    python benchmarks/speed/commands.py --before /tmp/before --work score

One thread of BLAS; caches of byte code and compiled loops are warm: each side runs once before it is timed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parents[2]
BESIDE = ("models", "templates", "sample_cohorts")


def linked(root: Path) -> Path:
    """The folder, where an earlier version finds its own recipes and templates inside its package."""
    for name in BESIDE:
        inside = root / "screening" / name
        if root != HERE and not inside.exists():
            inside.symlink_to(root / name)
    return root


def seconds(root: Path, words: list[str]) -> float:
    """Of the processor, user and system, of `python -m screening` as it is in a folder."""
    around = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    around |= {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "screening", *words]
    subprocess.run(command, check=True, cwd=root, capture_output=True, env=around)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a line a pair and their median."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--before", type=Path, required=True, help="folder of the earlier version")
    asked.add_argument("--work", choices=["train", "score"], default="train")
    asked.add_argument("--recipe", default="svm_weighted")
    asked.add_argument("--pairs", type=int, default=5)
    given = asked.parse_args()
    sides = [linked(given.before.resolve()), HERE]
    with tempfile.TemporaryDirectory() as place:

        def words(root: Path, work: str, number: int) -> list[str]:
            here, samples = Path(place) / root.name, root / "sample_cohorts"
            if work == "score":
                night = str(samples / "nosocomial_night.csv")
                return ["score", f"{here}-0", night, "--out", f"{here}-run-{number}"]
            past, contract = (str(samples / name) for name in ("nosocomial_past.csv", "nosocomial.toml"))
            how = ["--contract", contract, "--recipe", given.recipe]
            return ["train", past, *how, "--out", f"{here}-{number}"]

        for root in sides:
            seconds(root, words(root, "train", 0))
            seconds(root, words(root, given.work, 1))
        spent = []
        print(f"| {given.work}, {given.recipe} | before, s | now, s | ratio |\n|---|---|---|---|")
        for pair in range(2, given.pairs + 2):
            spent.append([seconds(root, words(root, given.work, pair)) for root in sides])
            before, now = spent[-1]
            print(f"| {pair - 1} | {before:.2f} | {now:.2f} | {now / before:.2f} |", flush=True)
        both = np.array(spent)
        ratio = np.median(both[:, 1] / both[:, 0])
        print(f"| median | {np.median(both[:, 0]):.2f} | {np.median(both[:, 1]):.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
