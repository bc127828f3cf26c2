"""Measure where the seconds of a night go: processor time by room and by module.

    taskset --cpu-list 0 python benchmarks/speed/shares.py --rows 1000000

The stack of this process is looked at every millisecond of processor time; what has
passed since the last look is added to the innermost function of this package. A look
waits for the end of a compiled loop, whose time is then its caller's. Start, imports
and page are measured by a night of few rows and are not in the table.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from cores import NIGHT, SMALL_ROWS, trained_model
from folds import written

import screening
from screening import load_model, score

PACKAGE = Path(screening.__file__).parent
# Seconds of processor time between two looks.
INTERVAL = 0.001
# Modules below this share are one line.
LEAST_SHARE = 0.02


class Watch:
    """Processor seconds of the main thread, by module of the package."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.last = 0.0

    def __enter__(self) -> Watch:
        self.last = time.thread_time()
        self.start = time.process_time()
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        of_main = sum(self.seconds.values())
        self.seconds["other threads"] = time.process_time() - self.start - of_main

    def _look(self, _: int, frame: FrameType | None) -> None:
        now = time.thread_time()
        self.seconds[module_of(frame)] += now - self.last
        self.last = now


def module_of(frame: FrameType | None) -> str:
    """Return the module of the innermost function of this package on a stack."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        frame = frame.f_back
    return "none"


def seconds_of_night(model: Path, rows: Path, out: Path) -> Counter[str]:
    """Score a night by one process; return its processor seconds by module."""
    with Watch() as watch:
        score(load_model(model), rows, out, date=NIGHT, jobs=1)
    return watch.seconds


def lines_of(recipe: str, seconds: Counter[str], n_rows: int) -> list[str]:
    """Return the lines of the table of a recipe, seconds a million rows."""
    total = sum(seconds.values())
    millions = n_rows / 1e6
    lines = [f"| `{recipe}` | all | {total / millions:.2f} | 100 % |"]
    rest = 0.0
    for module, spent in seconds.most_common():
        if spent < LEAST_SHARE * total:
            rest += spent
            continue
        share = f"{spent / millions:.2f} | {spent / total:.0%}"
        lines.append(f"| | `{module}` | {share} |")
    return [*lines, f"| | others | {rest / millions:.2f} | {rest / total:.0%} |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--recipes", nargs="+", default=["svm_weighted", "auto"])
    asked = parser.parse_args()
    print("| recipe | module | s a million rows | share |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = written(folder / "night.parquet", asked.rows, 0)
        small = written(folder / "small.parquet", SMALL_ROWS, 0)
        for recipe in asked.recipes:
            model = trained_model(recipe, folder)
            seconds_of_night(model, small, folder / f"{recipe}-warm")
            fixed = seconds_of_night(model, small, folder / f"{recipe}-fixed")
            whole = seconds_of_night(model, rows, folder / f"{recipe}-whole")
            # What grows with the rows.
            whole.subtract(fixed)
            print("\n".join(lines_of(recipe, whole, asked.rows - SMALL_ROWS)))


if __name__ == "__main__":
    main()
