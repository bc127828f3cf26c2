"""Does the gate of deliveries cry wolf, and does it sleep? Simulated wards, as a
markdown table.

    python benchmarks/delivery.py --wards 200

Wards of 5 to 100 beds with stays of 3 to 12 days in the mean, fewer admissions on
weekends and more discharges on Fridays, busy and quiet weeks, one in ten growing by
half; and tables of a day's admissions, where nobody stays. In half of them a row's time
is its admission, in the others the day of the table. A night in a hundred is not
delivered. Every night goes through `examine`; on five nights of each ward, drawn by lot
after the fifth, the same table comes wrong, too; the nights after know nothing of it.
On the second to fifth night half of the table comes.
"""

from __future__ import annotations

import argparse
import datetime
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from screening.monitoring.delivery import MIN_NIGHTS, Finding, examine, still_there
from screening.schemas.run import Delivery

BEDS, STAY = (5, 101), (3.0, 12.0)
ADMITTED = np.array([1.15, 1.15, 1.1, 1.1, 1.1, 0.7, 0.6])
LEAVE = np.array([1, 1, 1, 1, 1.4, 0.7, 0.5])
MOST, SPOILED = 500, 5
FIRST_NIGHTS = "half of it, nights 2 to 5"
# Smallest wards of a group of sizes, in beds.
SIZES = (5, 10, 16, 20, 30, 50)
FIRST = datetime.date(2026, 1, 5)
Patients = Sequence[tuple[int, datetime.date]]
"""Hash and day of admission of each."""


@dataclass
class Ward:
    """A ward, or with `stay` of 0 the table of a day's admissions."""

    rng: np.random.Generator
    stays: bool

    def __post_init__(self) -> None:
        rng = self.rng
        self.beds, self.stay = (
            int(rng.integers(*BEDS)),
            rng.uniform(*STAY) if self.stays else 0.0,
        )
        self.daily = rng.uniform(0.7, 1.05) * self.beds / (self.stay or 1.0)
        self.growing, self.snapshot = rng.random() < 0.1, rng.random() < 0.5
        self.first = FIRST + datetime.timedelta(days=int(rng.integers(7)))

    def nights(self, n: int, before: int = 60) -> Iterator[tuple[str, Patients]]:
        """Dates and patients of the nights that were delivered."""
        here: list[tuple[int, datetime.date]] = []
        busy = 0.0
        for number in range(-before, n):
            day = self.first + datetime.timedelta(days=number)
            busy = 0.8 * busy + self.rng.normal(0, 0.1)
            grown = 1 + 0.5 * max(number, 0) / n * self.growing
            leave = min(0.9, LEAVE[day.weekday()] / self.stay) if self.stays else 1.0
            here = [one for one in here if self.rng.random() >= leave]
            new = self.rng.poisson(
                self.daily * ADMITTED[day.weekday()] * np.exp(busy) * grown
            )
            free = int(self.beds * grown) - len(here) if self.stays else new
            here += [
                (int(self.rng.integers(2**32)), day) for _ in range(min(new, free))
            ]
            if number >= 0 and here and self.rng.random() > 0.01:
                yield str(day), list(here)


class Series:
    """What the ledger would have of the nights."""

    def __init__(self, snapshot: bool):
        self.snapshot = snapshot
        self.past: dict[str, Delivery] = {}
        self.patients: dict[str, list[int]] = {}

    def examined(
        self, night: str, patients: Patients, of: str
    ) -> tuple[Delivery, list[Finding]]:
        """A night held against those before; the rows' day is that of the table
        `of`.
        """
        hashes = sorted(one for one, _ in patients)[:MOST]
        last = next(
            (day for day in reversed(self.past) if self.past[day].measure), None
        )
        before, still = (
            (None, None)
            if last is None
            else still_there(self.patients[last], hashes, MOST)
        )
        days = [of] if self.snapshot else [str(day) for _, day in patients]
        told = Delivery(
            rows=len(patients),
            units=len(patients),
            earlier=last,
            before=before,
            still=still,
            oldest=min(days),
            newest=max(days),
        )
        return examine(night, told, self.past)

    def add(self, night: str, patients: Patients) -> tuple[Delivery, list[Finding]]:
        found = self.examined(night, patients, night)
        self.past[night] = found[0]
        self.patients[night] = sorted(one for one, _ in patients)[:MOST]
        return found


def spoiled(
    rng: np.random.Generator, tonight: Patients, last: Patients, other: Patients
) -> dict[str, Patients]:
    """The ways in which a table comes wrong as a whole."""
    mixed = [*tonight[: len(tonight) // 2], *other[: (len(tonight) + 1) // 2]]
    some = [tonight[i] for i in rng.permutation(len(tonight))]
    return {
        "half of it": some[: len(some) // 2],
        "the first half": tonight[: len(tonight) // 2],
        "three quarters": some[: 3 * len(some) // 4],
        "last night's rows, in another file": last,
        "another ward's": other,
        "another ward's, one has moved there": [*last[:1], *other],
        "half of it another ward's": mixed,
        "twice the rows": [*tonight, *other[: len(tonight)]],
    }


def count(counts: Counter, findings: list[Finding], beds: int) -> None:
    """Count a table that came wrong, and whether it was named and stopped."""
    sure, any_ = any(one.sure for one in findings), bool(findings)
    counts.update(["n", *["stop"] * sure, *["named"] * any_])
    if beds < 20:
        counts.update(["n small", *["small"] * any_])
    size = max(least for least in SIZES if least <= beds)
    counts.update([f"n {size}", *[str(size)] * any_])


def simulated(
    wards: int, n_nights: int, stays: bool, seed: int
) -> tuple[Counter, dict[str, Counter], int]:
    """False alarms by code over all nights; by what is wrong how often it was named,
    and stopped; nights.
    """
    alarms, named, looks = Counter(), defaultdict(Counter), 0
    for number in range(wards):
        rng = np.random.default_rng([seed, number])
        first_nights = np.random.default_rng([seed, number, 1])
        ward, other = Ward(rng, stays), Ward(rng, stays)
        series, elsewhere = Series(ward.snapshot), dict(other.nights(n_nights))
        spoil, last = {*rng.integers(MIN_NIGHTS + 1, n_nights, SPOILED).tolist()}, []
        for place, (night, patients) in enumerate(ward.nights(n_nights)):
            if 0 < place < MIN_NIGHTS and len(patients) > 1:
                half = first_nights.permutation(len(patients))[: len(patients) // 2]
                some = [patients[i] for i in half]
                found = series.examined(night, some, night)
                count(named[FIRST_NIGHTS], found[1], ward.beds)
                if place > 1 and night in elsewhere:
                    other_table = [*last[:1], *elsewhere[night]]
                    found = series.examined(night, other_table, night)
                    count(named["another ward's, nights 3 to 5"], found[1], ward.beds)
            if place in spoil and night in elsewhere:
                of = list(series.past)[-1]
                for what, wrong in spoiled(
                    rng, patients, last, elsewhere[night]
                ).items():
                    if not wrong:  # half of one row
                        continue
                    found = series.examined(
                        night, wrong, of if wrong is last else night
                    )
                    count(named[what], found[1], ward.beds)
            found = series.add(night, patients)
            looks += 1
            alarms.update([*found[0].found, *["any"] * bool(found[1])])
            last = patients
    return alarms, named, looks


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Does the gate of deliveries cry wolf, and does it sleep?"
    )
    parser.add_argument("--wards", type=int, default=200)
    parser.add_argument("--nights", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for stays, words in ((True, "wards with stays"), (False, "a day's admissions")):
        alarms, named, looks = simulated(asked.wards, asked.nights, stays, asked.seed)
        shares = ", ".join(
            f"{code} {100 * n / looks:.2f}" for code, n in alarms.most_common()
        )
        print(
            f"\n{words}: {looks} nights without a fault, per cent with a finding: {shares or 'none'}\n"
        )
        print(
            "| the table is | named, % | stopped, % | named under 20 beds, % |\n|---|---|---|---|"
        )
        for what, n in named.items():
            small = 100 * n["small"] / max(n["n small"], 1)
            print(
                f"| {what} | {100 * n['named'] / n['n']:.1f} | {100 * n['stop'] / n['n']:.1f} | {small:.1f} |"
            )
        first = named[FIRST_NIGHTS]
        by_size = [
            f"{size} {100 * first[str(size)] / max(first[f'n {size}'], 1):.0f}"
            for size in SIZES
        ]
        print(f"\n{FIRST_NIGHTS}: named, % (beds from) {', '.join(by_size)}")


if __name__ == "__main__":
    main()
