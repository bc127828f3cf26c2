"""What `--cluster` costs and gains: nights alone and by workers in turn, killed ones,
and tasks.

    python benchmarks/speed/cluster.py nights --rows 10000000
    python benchmarks/speed/cluster.py units --tasks 10000

The digest is that of scores.parquet, flagged.csv and the page together.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from folds import written
from memory import model

from screening.cluster import open_cluster
from screening.parallel import in_parallel

Struck = Callable[[subprocess.Popen[bytes], Path], None]


def run(
    trained: Path, rows: Path, out: Path, *more: str, struck: Struck | None = None
) -> tuple[float, float]:
    """Score a night; return processor and clock seconds, its workers' included."""
    words = [
        "score",
        str(trained),
        str(rows),
        "--out",
        str(out),
        "--date",
        "2026-03-01",
        *more,
    ]
    before, clock = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "screening", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if struck is not None:
        struck(process, out.with_name(f".{out.name}.fragments"))
    process.wait()
    used = getrusage(RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return processor, time.perf_counter() - clock


def digest(out: Path) -> str:
    found = hashlib.sha256()
    for name in ("scores.parquet", "flagged.csv", "report.html"):
        found.update((out / name).read_bytes())
    return found.hexdigest()[:12]


def finished(place: Path, count: int) -> None:
    """Wait until so many batches are decided on."""
    while len(list(place.glob("[!.]*.npz"))) < count:
        time.sleep(0.05)


def worker_dies(process: subprocess.Popen[bytes], place: Path) -> None:
    """Kill a worker once two batches are decided on."""
    finished(place, 2)
    children = (
        Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    )
    every = [
        int(pid)
        for task in Path(f"/proc/{process.pid}/task").iterdir()
        for pid in (task / "children").read_text().split()
    ]
    workers = [
        pid for pid in {*map(int, children), *every} if b"spawn_main" in _command(pid)
    ]
    os.kill(workers[0], signal.SIGKILL)


def driver_dies(process: subprocess.Popen[bytes], place: Path) -> None:
    """Kill the command once four batches are decided on."""
    finished(place, 4)
    process.kill()


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def nights(folder: Path, asked: argparse.Namespace) -> None:
    trained, rows = (
        model(folder, 0.06),
        written(folder / "night.parquet", asked.rows, 0),
    )
    print("| night | processor s | clock s | digest |\n|---|---|---|---|")
    for turn in range(asked.turns):
        for name, words, struck in (
            ("alone", ["--jobs", "2"], None),
            ("local:2", ["--cluster", "local:2"], None),
            ("local:2, a worker killed", ["--cluster", "local:2"], worker_dies),
            ("local:2, the command killed", ["--cluster", "local:2"], driver_dies),
            ("the same again, going on", ["--cluster", "local:2"], None),
        ):
            out = folder / (
                "killed"
                if "command" in name or "again" in name
                else f"{turn}{len(name)}"
            )
            processor, clock = run(trained, rows, out, *words, struck=struck)
            said = f"`{digest(out)}`" if out.exists() else "-"
            print(
                f"| {asked.rows} rows, {name} | {processor:.1f} | {clock:.1f} | {said} |",
                flush=True,
            )


def nothing(_: int) -> None:
    """A unit without work."""


def units(folder: Path, asked: argparse.Namespace) -> None:
    """What a task costs that does nothing."""
    start = time.perf_counter()
    with open_cluster("local:2") as cluster:
        assert cluster is not None
        print(f"start of two workers: {time.perf_counter() - start:.1f} s")
        print(
            "| tasks that do nothing | clock s | scheduler and client, processor s | ms each |"
        )
        print("|---|---|---|---|")
        for count in (100, 1000, asked.tasks):
            start, own = time.perf_counter(), time.process_time()
            sum(
                1
                for _ in in_parallel(
                    nothing, [(i,) for i in range(count)], cluster=cluster
                )
            )
            seconds, own = time.perf_counter() - start, time.process_time() - own
            print(
                f"| {count} | {seconds:.2f} | {own:.2f} | {1000 * own / count:.2f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=["nights", "units"])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument(
        "--place", type=Path, help="Folder for the tables; the system's own if absent."
    )
    asked = parser.parse_args()
    print(json.dumps({"cores": os.cpu_count(), "load": os.getloadavg()}))
    with tempfile.TemporaryDirectory(dir=asked.place) as name:
        {"nights": nights, "units": units}[asked.what](Path(name), asked)


if __name__ == "__main__":
    main()
