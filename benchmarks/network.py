"""A hospital network in one ledger: seconds of a write, of the history of a series, of the status of all.

Every ward has a champion and two shadows; half of the nights are judged. Growth is measured at several
numbers of nights. Run with the URL of an empty database, or without for a SQLite file:

    python benchmarks/network.py --wards 40 --shadows 2 --nights 100,200,400 [postgresql+psycopg://...]
"""

from __future__ import annotations

import argparse
import datetime
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from screening.ledger import (
    Due,
    NightCases,
    Verdict,
    compare_nights,
    history,
    open_ledger,
    publish_night,
    pulses,
    record_night,
    record_verdicts,
)

QUESTION = {"label": "infected", "positive": ["yes"], "id": "patient", "group": None}
FIRST = datetime.date(2023, 1, 1)
ROWS, FLAGGED, STAY = 240, 20, 5
CHAMPION = "0" * 64


def night(ward: int, number: int, model: str, rng: np.random.Generator) -> NightCases:
    """A night of a ward: patients stay five nights, twenty of them are flagged."""
    date = str(FIRST + datetime.timedelta(days=number))
    names = [f"P{ward:02d}-{number // STAY}-{place:03d}" for place in range(ROWS)]
    flagged = tuple(names[place] for place in sorted(rng.choice(60, FLAGGED, replace=False)))
    cells = rng.integers(0, 20, ROWS)
    drift = {
        "unit": "row", "known": [50] * 20, "counted": np.bincount(cells, minlength=20).tolist(),
        "distance": 0.1, "p": 0.4, "higher": False,
        "who": rng.integers(0, 2**32, ROWS).tolist(), "cell": cells.tolist(),
    }  # fmt: skip
    facts = {
        "run_id": "r", "model": model, "recipe": "svm", "thresholds": {"yes": 0.5}, "title": None,
        "minutes_per_review": 10.0, "capacity": 30, "table": date, "drift": drift,
        "rows": {"read": ROWS, "scored": ROWS, "refused": 0, "flagged": FLAGGED},
        "unflagged": {"cases": ROWS - FLAGGED},
    }  # fmt: skip
    key = f"{ward} {date} {model[:1]}"
    shadow, rest = model != CHAMPION, tuple(names[-5:])
    return NightCases(key, QUESTION, date, flagged, rest, facts, named=f"ward-{ward:02d}", shadow=shadow)


def write(ledger, one: NightCases) -> float:
    """Enter a night; return the seconds it took."""
    began = time.perf_counter()
    found = record_night(ledger, one)
    publish_night(ledger, one.key, found.revision)
    return time.perf_counter() - began


def timed(work) -> tuple[float, object]:
    """Seconds, and what came of it."""
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def measure(ledger, wards: int, shadows: int, until: list[int]) -> None:
    """Fill the ledger up to each number of nights, and time what is asked of it there."""
    rng, written = np.random.default_rng(0), 0
    for nights in until:
        times = []
        for number in range(written, nights):
            for ward in range(wards):
                for model in range(shadows + 1):
                    one = night(ward, number, str(model) * 64, rng)
                    times.append(write(ledger, one))
                    if not one.shadow and number % 2:
                        said = [Verdict(name, "not") for name in one.flagged[:8]]
                        record_verdicts(ledger, one.key, said)
        written = nights
        whole, told = timed(lambda: history(ledger, "ward-00"))
        beside, found = timed(lambda: compare_nights(ledger, "ward-00", "1" * 12))
        now = datetime.datetime.combine(FIRST, datetime.time(9), datetime.UTC)
        due = Due(now, night=FIRST + datetime.timedelta(days=nights - 1))
        status, states = timed(partial(pulses, ledger, due))
        assert len(told["runs"]) == found.nights == nights and len(states) == wards
        print(
            f"{nights:5d} nights, {wards * (shadows + 1) * nights:7d} runs: write median "
            f"{1000 * np.median(times[-500:]):.0f} ms, slowest of 500 {1000 * max(times[-500:]):.0f} ms; "
            f"history {whole:.2f} s; beside {beside:.2f} s; status of all {status:.2f} s",
            flush=True,
        )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--wards", type=int, default=40)
    parser.add_argument("--shadows", type=int, default=2)
    parser.add_argument("--nights", default="50,100")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = given.url or str(Path(folder) / "screening.db")
        with open_ledger(place, make=True) as ledger:
            measure(ledger, given.wards, given.shadows, [int(text) for text in given.nights.split(",")])
            seconds, _ = timed(lambda: history(ledger, "ward-00", verify=True))
            print(f"history of one series with --verify of all: {seconds:.1f} s")


if __name__ == "__main__":
    main()
