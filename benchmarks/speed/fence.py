"""Seconds of this tree beside another's: a dozen loops and six commands.

    python benchmarks/speed/fence.py OTHER_TREE [--cores 0] [--repeats 25] [--only WORD]

Both trees run in turn, pinned to the same cores, and the least seconds of processor of
many runs are compared: a shared machine's clock is wrong by a factor of two from minute
to minute, the least of many is not. The range is that of neighbouring runs' ratios
between their quartiles. Run it before and after changing a module with compiled loops.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fence_loops import LOOPS

HERE = Path(__file__).resolve()
TREE = HERE.parents[2]
SAMPLES = TREE / "sample_cohorts"
PAST = SAMPLES / "nosocomial_past.csv"
NIGHT = SAMPLES / "nosocomial_night.csv"
# Options and keys that trees of several weeks share.
STATED = ["--label", "infected", "--id", "patient_id", "--drop", "admission_date"]
# A command takes seconds where a loop takes milliseconds.
COMMANDS_SHARE = 5
HEADER = "| work | here | other | here / other (quartiles) |\n|---|---|---|---|"


class Tree:
    """One checkout of the package, pinned to cores.

    Parameters
    ----------
    root : Path
    cores : set of int
    folder : Path
        Place of its models and runs.
    """

    def __init__(self, root: Path, cores: set[int], folder: Path):
        self.folder = folder
        self._n_outputs = 0
        self._cores = cores
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(root), str(HERE.parent)]),
            "OMP_NUM_THREADS": "1",
        }
        self._loops = self._start(
            "-c", "from fence_loops import main; main()", pipe=True
        )

    def _start(self, *words: object, pipe: bool = False) -> subprocess.Popen[str]:
        """Start Python with these words; its standard error is dropped."""
        stream = subprocess.PIPE if pipe else subprocess.DEVNULL
        child = subprocess.Popen(
            [sys.executable, *map(str, words)],
            cwd=self.folder,
            env=self._environment,
            stdin=stream,
            stdout=stream,
            stderr=None if pipe else subprocess.DEVNULL,
            text=True,
        )
        os.sched_setaffinity(child.pid, self._cores)
        return child

    def loop_seconds(self, name: str) -> float:
        """Seconds of processor of a loop; NaN where the tree cannot run it."""
        assert self._loops.stdin is not None and self._loops.stdout is not None
        self._loops.stdin.write(f"{name}\n")
        self._loops.stdin.flush()
        answer = self._loops.stdout.readline().strip()
        return np.nan if answer == "-" else float(answer)

    def train(self) -> None:
        """Train the model that the commands score with, unmeasured."""
        words = [PAST, *STATED, "--recipe", "svm_weighted", "--beside", "none"]
        self.command_seconds(["train", *words, "--jobs", "1", "--out", "{model}"])

    def command_seconds(self, words: list[object]) -> float:
        """Seconds of processor of a command, those of its processes included."""
        self._n_outputs += 1
        words = [
            str(word).format(model=self.folder / "model", out=f"out{self._n_outputs}")
            for word in words
        ]
        child = self._start("-m", "screening", *words)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"exit {child.returncode}: screen {' '.join(words)}")
        return used.ru_utime + used.ru_stime


def commands(large: Path) -> dict[str, list[object]]:
    """Six commands by what they do; `{model}` and `{out}` are filled in by a tree."""
    scored = ["--jobs", "1", "--out", "{out}"]
    trained = [PAST, *STATED, "--beside", "none", *scored]
    return {
        "train svm_weighted": ["train", *trained, "--recipe", "svm_weighted"],
        "train logistic": ["train", *trained, "--recipe", "logistic"],
        "score 240 rows": ["score", "{model}", NIGHT, *scored],
        "score 300,000 rows": ["score", "{model}", large, *scored],
        "check": ["check", NIGHT, "--model", "{model}"],
        "recipes": ["recipes"],
    }


def large_night(path: Path, n_rows: int = 300_000) -> Path:
    """Write a night of many rows: each cell is drawn from its column of the sample
    ward, because rows that repeat would be listed as possibly one patient.
    """
    import pandas as pd

    night = pd.read_csv(NIGHT, dtype=str)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {name: rng.choice(night[name], n_rows) for name in night.columns}
    )
    rows[night.columns[0]] = [f"L{number:07d}" for number in range(n_rows)]
    rows.to_parquet(path, index=False)
    return path


def row(work: str, seconds: np.ndarray) -> str:
    """One line of the table, of seconds of shape (n_repeats, 2)."""
    if np.isnan(seconds).any():
        return f"| {work} | - | - | not in both trees |"
    here, other = seconds.min(axis=0)
    low, high = np.quantile(seconds[:, 0] / seconds[:, 1], [0.25, 0.75])
    return (
        f"| {work} | {here:.4g} s | {other:.4g} s | {here / other:.2f} "
        f"({low:.2f} to {high:.2f}) |"
    )


def in_turn(
    trees: tuple[Tree, Tree],
    seconds_of: Callable[[Tree, Any], float],
    work: object,
    repeats: int,
) -> np.ndarray:
    """Seconds of both trees in turn, shape (repeats, 2), after one run of each."""
    for tree in trees:
        seconds_of(tree, work)
    rows = [[seconds_of(tree, work) for tree in trees] for _ in range(repeats)]
    return np.array(rows)


def main() -> None:
    """Print a line a loop and a line a command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("other", type=Path, help="another checkout of this project")
    parser.add_argument("--cores", default="0", help="such as 0 or 0,1")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--only", default="", help="works whose name has this word")
    asked = parser.parse_args()
    if not asked.other.is_dir():
        print(f"skipped: there is no other checkout at {asked.other}")
        return
    cores = {int(core) for core in asked.cores.split(",")}
    print(HEADER, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        places = Path(folder, "here"), Path(folder, "other")
        for place in places:
            place.mkdir()
        roots = TREE, asked.other.resolve()
        trees = (
            Tree(roots[0], cores, places[0]),
            Tree(roots[1], cores, places[1]),
        )
        for name in LOOPS:
            if asked.only in name:
                seconds = in_turn(trees, Tree.loop_seconds, name, asked.repeats)
                print(row(name, seconds), flush=True)
        works = commands(large_night(Path(folder, "large.parquet")))
        works = {name: words for name, words in works.items() if asked.only in name}
        repeats = -(-asked.repeats // COMMANDS_SHARE)
        if works:
            for tree in trees:
                tree.train()
        for name, words in works.items():
            seconds = in_turn(trees, Tree.command_seconds, words, repeats)
            print(row(f"`{name}`", seconds), flush=True)


if __name__ == "__main__":
    main()
