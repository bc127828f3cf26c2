"""Processor seconds and peak memory of whole commands on the sample ward, medians.

python benchmarks/speed/commands.py --repeats 5
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SAMPLES = Path(__file__).parents[2] / "sample_cohorts"


def command(*words: object) -> tuple[float, float]:
    """Seconds of the processor and peak GB of a command."""
    child = subprocess.Popen(
        [sys.executable, "-m", "screening", *map(str, words)], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, words
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def main() -> None:
    """Print a line a command; each runs once before it is measured, which fills the
    caches.
    """
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    print("| command | processor s | GB |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        past, night = SAMPLES / "nosocomial_past.csv", SAMPLES / "nosocomial_night.csv"
        how = ["--contract", SAMPLES / "nosocomial.toml", "--recipe", "svm_weighted"]
        for words in (
            ["--help"],
            ["train", past, *how, "--out", f"{folder}/model"],
            ["score", f"{folder}/model", night, "--out", f"{folder}/run"],
        ):
            seconds, peak = np.median(
                [command(*words) for _ in range(asked.repeats + 1)][1:], axis=0
            )
            print(f"| {words[0]} | {seconds:.2f} | {peak:.2f} |", flush=True)


if __name__ == "__main__":
    main()
