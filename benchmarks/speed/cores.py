"""Measure what more cores give, and the share of the time that they do not divide.

    python benchmarks/speed/cores.py --rows 10000000 --recipes svm_weighted logistic
    python benchmarks/speed/cores.py --train past.parquet --label ill --recipe auto

Each night is scored, and each model trained, by a command of its own, with 1, 2, 4, 8
and 16 jobs as far as the machine has cores; all must write the same. Of a night start
and page, which a night of two blocks takes too, are not counted in the share; of a
training the imports and the page are not. Nights stand beside scikit-learn's on the
same file.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from inspect import isgeneratorfunction
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
from folds import CONTRACT, FEATURES, TRAINED, table_of, written
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import screening.model_selection.train as train_module
import screening.report.page as page_module
import screening.scoring.score as score_module
from screening import (
    MaxFlagRate,
    load_model,
    load_recipe,
    read_cohort,
    score,
    task_queue,
    train,
)
from screening.cli import app
from screening.cli.processes import prepare_for_scoring
from screening.data import observed_ids
from screening.data.stream import CohortStream
from screening.io import readers
from screening.scoring.night_totals import BlockScorer
from screening.settings import Resources
from screening.store.model import save_model
from screening.threads import available_cores

NIGHT = "2026-03-01"
JOBS = (1, 2, 4, 8, 16)
PREDICTED_CORES = (16, 64)
# Rows of a night whose page lists as many patients as any.
SMALL_ROWS = 1 << 17
# Rows above which libsvm takes hours: its time is extrapolated from these.
SVC_ROWS = 100_000
PEERS = {
    "svm_weighted": SVC(class_weight="balanced"),
    "logistic": LogisticRegression(),
    "random_forest": RandomForestClassifier(n_jobs=-1),
    "histogram_boosting": HistGradientBoostingClassifier(),
}


@dataclass(frozen=True)
class Cost:
    """Seconds of a command, by the clock and of all its processors."""

    clock: float
    processor: float


def run_command(command: list[str]) -> Cost:
    """Run a command and wait for it; SystemExit if it fails."""
    start = time.perf_counter()
    before = os.times()
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(process.stderr)
    after = os.times()
    user = after.children_user - before.children_user
    system = after.children_system - before.children_system
    return Cost(time.perf_counter() - start, user + system)


def score_by_command(model: Path, rows: Path, out: Path, jobs: int) -> Cost:
    """Score a night by `screen score`."""
    command = [sys.executable, "-m", "screening", "score", str(model), str(rows)]
    options = ["--out", str(out), "--date", NIGHT, "--jobs", str(jobs)]
    return run_command(command + options)


@dataclass(frozen=True)
class Shares:
    """Processor seconds of a night scored in this process.

    Parameters
    ----------
    divided : float
        Reading, typing, deciding and counting pieces of the table, writing lines
        of flagged rows, sorting hashes by several threads, and digests, which
        threads make beside other work.
    rest : float
    """

    divided: float
    rest: float


@contextmanager
def measured(
    seconds: Counter[str],
    place: Any,
    name: str,
    clock: Callable[[], float] = time.thread_time,
) -> Iterator[None]:
    """Add up the processor time of a function, or of what a generator yields.

    By the clock of its own thread, or of all threads of this process.
    """
    function = getattr(place, name)

    def call(*arguments: Any, **options: Any) -> Any:
        start = clock()
        try:
            return function(*arguments, **options)
        finally:
            seconds[name] += clock() - start

    def iterate(*arguments: Any, **options: Any) -> Iterator[Any]:
        items = function(*arguments, **options)
        while True:
            start = clock()
            item = next(items, None)
            seconds[name] += clock() - start
            if item is None:
                return
            yield item

    replacement = iterate if isgeneratorfunction(function) else call
    with patch.object(place, name, replacement):
        yield


def measure_shares(model: Path, rows: Path, out: Path, jobs: int) -> Shares:
    """Score a night, and measure what this process does of it."""
    seconds: Counter[str] = Counter()
    with (
        measured(seconds, BlockScorer, "score_piece"),
        measured(seconds, CohortStream, "pieces"),
        measured(seconds, task_queue, "_run"),
        # What threads do beside other work.
        measured(seconds, readers, "digest_of"),
        measured(seconds, score_module, "flushed_digest"),
        # What several threads do.
        measured(seconds, observed_ids, "run_in_threads", time.process_time),
    ):
        start = time.process_time()
        score(load_model(model), rows, out, date=NIGHT, jobs=jobs)
        total = time.process_time() - start
    divided = sum(seconds.values())
    return Shares(divided, total - divided)


def undivided_share(model: Path, rows: Path, folder: Path) -> float:
    """Return the share of a night's time that is not divided, start and page apart.

    With two jobs this process does all that is not divided; with one, all of both.
    """
    folder.mkdir()
    small = written(folder / "small.parquet", SMALL_ROWS, 0)
    measure_shares(model, small, folder / "warm", jobs=1)
    fixed = measure_shares(model, small, folder / "fixed", jobs=1)
    alone = measure_shares(model, rows, folder / "alone", jobs=1)
    with_others = measure_shares(model, rows, folder / "with_others", jobs=2)
    growing = max(with_others.rest - fixed.rest, 0.0)
    return growing / (alone.divided + growing)


def speed_up(share: float, cores: int) -> float:
    """Return how many times as fast so many cores are, by Amdahl's law."""
    return 1 / (share + (1 - share) / cores)


def peer_cost(recipe: str, rows: Path, folder: Path) -> str:
    """Read, score and write the same file with scikit-learn; its seconds in words."""
    past = table_of(0, TRAINED, 0, True).to_pandas()
    names = [f"x{k}" for k in range(FEATURES)]
    machine = PEERS[recipe].fit(past[names], past["ill"])
    start = time.perf_counter()
    processor = time.process_time()
    night = pd.read_parquet(rows)
    n_rows = len(night)
    scored = night.head(SVC_ROWS) if recipe == "svm_weighted" else night
    if recipe == "svm_weighted":
        scores = machine.decision_function(scored[names])
    else:
        scores = machine.predict_proba(scored[names])[:, 1]
    scored.assign(score=scores)[["id", "score"]].to_parquet(folder / "peer.parquet")
    factor = n_rows / len(scored)
    clock = (time.perf_counter() - start) * factor
    return f"{clock:.1f}; {(time.process_time() - processor) * factor:.1f}"


def trained_model(recipe: str, folder: Path) -> Path:
    """Train a model that flags about 6 % of the rows."""
    contract = folder / "contract.toml"
    contract.write_text(CONTRACT.format(more='id = "id"\n'))
    past = table_of(0, TRAINED, 0, True).to_pandas()
    cohort = read_cohort(past, contract, need_label=True)
    rule = MaxFlagRate(0.06)
    model = train(cohort, load_recipe(recipe), rule=rule, search=2, beside=())
    return save_model(model, folder / recipe)


def row_of(recipe: str, rows: Path, jobs: list[int], folder: Path) -> str:
    """Return one line of the table of results."""
    model = trained_model(recipe, folder)
    costs = []
    digests = set()
    for n_jobs in jobs:
        out = folder / f"{recipe}-{n_jobs}"
        costs.append(score_by_command(model, rows, out, n_jobs))
        content = (out / "scores.parquet").read_bytes()
        digests.add(hashlib.sha256(content).hexdigest())
    if len(digests) > 1:
        raise SystemExit(f"{recipe}: the scores depend on the number of jobs")
    share = undivided_share(model, rows, folder / f"{recipe}-shares")
    predicted = [f"{speed_up(share, cores):.1f}" for cores in PREDICTED_CORES]
    cells = [
        f"`{recipe}`",
        *(f"{cost.clock:.1f}; {cost.processor:.1f}" for cost in costs),
        f"{share:.0%}",
        *predicted,
        peer_cost(recipe, rows, folder) if recipe in PEERS else "",
    ]
    return f"| {' | '.join(cells)} |"


def train_by_command(options: list[str], out: Path, jobs: int) -> Cost:
    """Train a model by `screen train`."""
    command = [sys.executable, "-m", "screening", "train", *options]
    return run_command([*command, "--jobs", str(jobs), "--out", str(out)])


def undivided_share_of_training(options: list[str], out: Path) -> float:
    """Return the share of a training's time that is no task of its lists.

    Imports and the page are not counted.
    """
    seconds: Counter[str] = Counter()
    command = [*options, "--jobs", "1", "--out", str(out)]
    with (
        measured(seconds, task_queue, "_run"),
        # What a thread does beside the fits.
        measured(seconds, train_module, "describe_table"),
        measured(seconds, page_module, "draw"),
        redirect_stdout(StringIO()),
    ):
        # What the command imports is imported by a small training.
        sample = Path("sample_cohorts")
        small = [str(sample / "nosocomial_past.csv"), "--recipe", "logistic"]
        small += ["--contract", str(sample / "nosocomial.toml"), "--jobs", "1"]
        app(["train", *small, "--out", f"{out}-small"], standalone_mode=False)
        seconds.clear()
        start = time.process_time()
        app(["train", *command], standalone_mode=False)
        whole = time.process_time() - start
    counted = whole - seconds["draw"]
    divided = seconds["_run"] + seconds["describe_table"]
    return 1 - divided / counted


def row_of_training(options: list[str], jobs: list[int], folder: Path) -> str:
    """Return one line of the table of results for a training."""
    costs = []
    digests = set()
    for n_jobs in jobs:
        out = folder / f"model-{n_jobs}"
        costs.append(train_by_command(options, out, n_jobs))
        digests.add(hashlib.sha256((out / "arrays.npz").read_bytes()).hexdigest())
    if len(digests) > 1:
        raise SystemExit("the model depends on the number of jobs")
    share = undivided_share_of_training(options, folder / "model")
    predicted = [f"{speed_up(share, cores):.1f}" for cores in PREDICTED_CORES]
    cells = [
        "training",
        *(f"{cost.clock:.1f}; {cost.processor:.1f}" for cost in costs),
        f"{share:.0%}",
        *predicted,
        "",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument(
        "--recipes", nargs="+", default=["svm_weighted", "logistic", "random_forest"]
    )
    parser.add_argument("--train", metavar="TABLE", help="measure a training instead")
    options, of_train = parser.parse_known_args()
    if of_train and not options.train:
        parser.error(f"no such option: {' '.join(of_train)}")
    n_cores = available_cores()
    jobs = [n_jobs for n_jobs in JOBS if n_jobs <= n_cores]
    names = [
        "recipe",
        *(f"{n_jobs} jobs, s" for n_jobs in jobs),
        "not divided",
        *(f"times as fast on {cores} cores" for cores in PREDICTED_CORES),
        "scikit-learn, s",
    ]
    what = options.train or f"{options.rows} rows"
    print(f"{what}, {n_cores} cores; seconds: clock; processor\n")
    print(f"| {' | '.join(names)} |\n{'|---' * len(names)}|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.train:
            print(row_of_training([options.train, *of_train], jobs, folder))
            return
        rows = written(folder / "night.parquet", options.rows, 0)
        # As a command does, so that processes are forked from a server.
        prepare_for_scoring(str(rows), Resources(jobs=2))
        for recipe in options.recipes:
            print(row_of(recipe, rows, jobs, folder), flush=True)


if __name__ == "__main__":
    main()
