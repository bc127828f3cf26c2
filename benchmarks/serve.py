"""How fast `screen serve` answers at seven in the morning, on one core.

    python benchmarks/serve.py [--readers 30] [--wards 40] [--seconds 60]

Each reader opens the page of one ward after the other, saves a word on every page and
asks for the words of others, as the page's script does. The service has one core, and
the readers have another. The inbox holds what the mornings of a year have left in
`done`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from letterbox import IDS, LOGIN, NIGHT, Served, lay_site, words_of

from screening.serve.server import serve as serve_site
from screening.site.site import read_network

# Seconds that a reader looks at a page.
LOOK = 2.0
MORNINGS = 365
# A reader judges every so many pages.
SAVERS = 4


def lay(folder: Path, n_readers: int, n_wards: int) -> Path:
    """Write a site whose readers see every ward; return its NIGHT.toml."""
    readers = "".join(f'reader{n} = ["*"]\n' for n in range(n_readers))
    table = f'\n[serve]\naddress = "unix:{folder}/s"\nlogin = "{LOGIN}"\n'
    wards = tuple(f"ward-{n}" for n in range(n_wards))
    file = lay_site(folder, f"{table}[serve.readers]\n{readers}", wards)
    done = folder / "inbox" / "done"
    done.mkdir()
    for number in range(MORNINGS * n_wards):
        day, ward = divmod(number, n_wards)
        (done / f"verdicts-ward-{ward}-2024-{day:05d}-{number:012x}.json").touch()
    return file


def serve_on_core(file: Path, core: int) -> None:
    """Answer requests, on one core."""
    os.sched_setaffinity(0, {core})
    serve_site(read_network(file, needs_ledger=False), str)


class Readers:
    """Readers in threads, and the seconds of each answer by its kind."""

    def __init__(self, box: Served, n_readers: int, n_wards: int, until: float):
        self.box = box
        self.n_readers = n_readers
        self.n_wards = n_wards
        self.until = until
        self.taken: dict[str, list[float]] = {"page": [], "words": [], "save": []}

    def read(self, number: int) -> None:
        """Read and judge the pages of all wards in turn, as one reader."""
        reader = f"reader{number}"
        turn = number
        # They do not all begin at once.
        time.sleep(LOOK * number / self.n_readers)
        while time.monotonic() < self.until:
            ward = f"ward-{turn % self.n_wards}"
            page = f"/{ward}/{NIGHT}.html"
            body = words_of(IDS[turn % 50 :][:1])
            self.time("page", partial(self.box.ask, page, reader))
            self.time("words", partial(self.box.words, reader, ward))
            if (turn - number) % SAVERS == 0:
                self.time("save", partial(self.box.save, body, reader, ward))
            turn += 1

    def time(self, kind: str, step: Callable[[], object]) -> None:
        """Note how long a step takes; look at the page after it."""
        began = time.monotonic()
        step()
        self.taken[kind].append(time.monotonic() - began)
        time.sleep(LOOK / 3)


def shown(kind: str, seconds: list[float]) -> str:
    """Return a line on the answers of a kind."""
    p50, p95, most = np.quantile(seconds, [0.5, 0.95, 1.0]) * 1000
    return (
        f"{kind}: {len(seconds)} answers, p50 {p50:.0f} ms, p95 {p95:.0f} ms, most"
        f" {most:.0f} ms"
    )


def main() -> None:
    """Print percentiles of the seconds of an answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=30)
    parser.add_argument("--wards", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        file = lay(Path(name), given.readers, given.wards)
        box = Served(Path(name), f"{name}/s")
        process = multiprocessing.Process(target=serve_on_core, args=(file, 0))
        process.start()
        os.sched_setaffinity(0, set(range(1, os.cpu_count() or 1)) or {0})
        while not Path(name, "s").exists():
            time.sleep(0.1)
        until = time.monotonic() + given.seconds
        readers = Readers(box, given.readers, given.wards, until)
        with ThreadPoolExecutor(given.readers) as pool:
            list(pool.map(readers.read, range(given.readers)))
        process.terminate()
        process.join()
    for kind, seconds in readers.taken.items():
        print(shown(kind, seconds))
    print(shown("all", list(chain(*readers.taken.values()))))
    children = os.times()
    used = children.children_user + children.children_system
    print(f"processor of the service: {used:.0f} s")


if __name__ == "__main__":
    main()
