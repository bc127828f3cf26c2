"""Do the gates cry wolf, and do they sleep? Nights of 1 to 240 rows against a training
profile.

    python benchmarks/gates.py --nights 300 --changed 100
    python benchmarks/gates.py --wards 40

Every time a table is split anew, so night and training are rows of one population; then
nothing is changed (false alarms), or one thing is. A night of the prostate cohort takes
its rows from patients that training has not. Tables: the sample cohorts, three UCI sets
in ../shared/data, and laboratory values made here (creatinine, urea, haemoglobin, and a
skewed marker with zeros), without declared units.

`--wards`: 70 nights of wards that differ from the dozen that training had by half a
standard deviation a column, with 8 to 60 beds, stays of 1 to 9 days and other
admissions on weekends; nothing drifts. Held against training as in a series' first
twenty nights, and against its own nights after them; on one night a column is changed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent / "papers"))
from flow_cohorts import columns_of
from sets import UCI

from screening import read_cohort
from screening.contract.contract import Contract
from screening.data.cohort import Cohort
from screening.io.columns import frame_of
from screening.monitoring.delivery import independent
from screening.monitoring.drift import (
    MIN_REFERENCE_NIGHTS,
    REFERENCE_NIGHTS,
    Gates,
    own_nights,
)
from screening.monitoring.profile import profile

SAMPLES = Path(__file__).parents[1] / "sample_cohorts"
SIZES = (1, 5, 10, 20, 40, 240)
TRAINED_ON = 0.6
PUBLIC = ("sick_euthyroid", "mammographic_mass", "yeast")
CODES = (
    "unit_changed",
    "missing_more",
    "unseen_category",
    "outside_range",
    "values_differ",
)
Change = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]
# By what is done to a night: the gate that should speak, and the doing.
Changes = dict[str, tuple[str, Change]]
SAME = "the same"
MADE_CHANGES = (
    ("creatinine", 88.42, "creatinine mg/dL to umol/L"),
    ("urea", 1 / 2.801, "urea mg/dL to mmol/L"),
    ("haemoglobin", 0.6206, "haemoglobin g/dL to mmol/L"),
    ("marker", 8.0, "a ward with a marker 8 times as high"),
    ("marker", 1000.0, "the marker times 1000"),
)


def tables() -> Iterator[tuple[str, Cohort]]:
    """The tables that are there, each as the flow reads it."""
    yield (
        "nosocomial",
        read_cohort(SAMPLES / "nosocomial_past.csv", SAMPLES / "nosocomial.toml"),
    )
    yield (
        "prostate",
        read_cohort(SAMPLES / "prostate_past.parquet", SAMPLES / "prostate.toml"),
    )
    if not UCI.exists():
        print(
            "public tables skipped: they are not in ../shared/data beside the repository"
        )
        return
    for name in PUBLIC:
        yield name, read_cohort(UCI / f"{name}.csv", label="label")


def laboratory(n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Values in mg/dL and g/dL, and a marker that spreads over decades."""
    return pd.DataFrame(
        {
            "creatinine": rng.lognormal(0.0, 0.35, n_rows),
            "urea": rng.lognormal(3.6, 0.5, n_rows),
            "haemoglobin": rng.normal(12.8, 1.9, n_rows).clip(5),
            "marker": rng.lognormal(1.5, 1.0, n_rows) * (rng.random(n_rows) > 0.3),
        }
    )


LABORATORY = Contract.from_dict(
    {
        "features": {
            name: {"type": "number"}
            for name in ("creatinine", "urea", "haemoglobin", "marker")
        }
    }
)


def shifted(
    by: float, night: pd.DataFrame, rng: np.random.Generator, scale: pd.Series
) -> pd.DataFrame:
    """One number of the table moved by so many of its standard deviations."""
    name = rng.choice(scale.index)
    return night.assign(**{name: night[name] + by * scale[name]})


def times(
    name: str, factor: float, night: pd.DataFrame, rng: np.random.Generator
) -> pd.DataFrame:
    """One column in other units."""
    return night.assign(**{name: night[name] * factor})


def fahrenheit(night: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The ward's temperatures."""
    return night.assign(temperature_max=1.8 * night["temperature_max"] + 32)


def more_missing(night: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """A tenth of the rows without the value of one column."""
    name = rng.choice(night.columns)
    return night.assign(**{name: night[name].mask(rng.random(len(night)) < 0.1)})


def recoded(
    names: list[str], night: pd.DataFrame, rng: np.random.Generator
) -> pd.DataFrame:
    """Every text of one category in other words."""
    name = rng.choice(names)
    return night.assign(**{name: [text and f"new {text}" for text in night[name]]})


def split(cohort: Cohort, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Places of the training rows and of those to make nights of, by whole groups where
    there are some.
    """
    if cohort.group is None:
        order = rng.permutation(cohort.n_rows)
        cut = int(TRAINED_ON * cohort.n_rows)
        return order[:cut], order[cut:]
    names = rng.permutation(np.unique(cohort.group))
    cut = int(TRAINED_ON * len(names))
    rest = np.concatenate(
        [np.flatnonzero(cohort.group == name) for name in names[cut:]]
    )
    return np.flatnonzero(np.isin(cohort.group, names[:cut])), rest


def said(
    kept: dict, contract: Contract, night: pd.DataFrame, group: np.ndarray | None
) -> set[str]:
    """The codes of the reasons a night gives; "stop" is one that stops the run."""
    gates = Gates(kept, contract)
    gates.add(gates.count(columns_of(night), np.arange(len(night)), group))
    codes = {reason.code for reason in gates.attention()}
    return codes | ({"stop"} if gates.stops() else set())


def drawn(
    cohort: Cohort | None, rng: np.random.Generator
) -> tuple[dict, Contract, pd.DataFrame, Any]:
    """A new training profile, and rows of its population to make nights of; laboratory
    values for None.
    """
    if cohort is None:
        return (
            profile(columns_of(laboratory(600, rng)), LABORATORY),
            LABORATORY,
            laboratory(max(SIZES), rng),
            None,
        )
    features = frame_of(cohort.measured)
    past, rest = split(cohort, rng)
    groups = (
        (None, None)
        if cohort.group is None
        else (cohort.group[past], cohort.group[rest])
    )
    kept = profile(columns_of(features.iloc[past]), cohort.contract, groups[0])
    return kept, cohort.contract, features.iloc[rest].reset_index(drop=True), groups[1]


def counted(
    cohort: Cohort | None, changes: Changes, nights: int, changed: int
) -> dict[str, list[Counter]]:
    """For each change and night size how often each gate spoke."""
    found = {what: [Counter() for _ in SIZES] for what in changes}
    for number in range(nights):
        rng = np.random.default_rng(number)
        kept, contract, rows, groups = drawn(cohort, rng)
        for what, (_, change) in changes.items():
            if what != SAME and number >= changed:
                continue
            for place, size in enumerate(SIZES):
                night = change(rows[:size], rng)
                codes = said(
                    kept, contract, night, None if groups is None else groups[:size]
                )
                found[what][place].update(codes | ({"any"} if codes else set()))
    return found


def changes_of(name: str, cohort: Cohort) -> Iterator[tuple[str, str, Change]]:
    """What is done to a table's nights, and the gate that should speak."""
    plain = [
        n
        for n, f in cohort.contract.features.items()
        if f.type == "number" and not f.normalise
    ]
    texts = [n for n, f in cohort.contract.features.items() if f.type == "category"]
    spread = [
        n
        for n in plain
        if cohort.features[n].value_counts(normalize=True).iloc[0] < 0.1
    ]
    scale = cohort.features[spread].std()
    if spread and cohort.group is None:
        for by, words in ((0.5, "half an sd, one column"), (1.0, "one sd, one column")):
            yield words, "any", partial(shifted, by, scale=scale)
    if name == "nosocomial":
        yield (
            "creatinine umol/L to mg/dL",
            "stop",
            partial(times, "creatinine", 1 / 88.42),
        )
        yield (
            "haemoglobin g/L to mmol/L",
            "stop",
            partial(times, "haemoglobin", 0.06206),
        )
        yield "temperature C to F", "stop", fahrenheit
    if cohort.group is None:
        yield "10 % more missing, one column", "missing_more", more_missing
    if texts:
        yield "a category recoded", "unseen_category", partial(recoded, texts)


def printed(
    table: str, cohort: Cohort | None, changes: Changes, nights: int, changed: int
) -> None:
    """Rows of the table: per cent of the nights of each size."""
    for what, by_size in counted(cohort, changes, nights, changed).items():
        gates = [changes[what][0]]
        if what == SAME:
            gates = [
                "any",
                "stop",
                *(code for code in CODES if any(each[code] for each in by_size)),
            ]
        for gate in gates:
            of = nights if what == SAME else min(changed, nights)
            cells = " | ".join(f"{100 * each[gate] / of:.1f}" for each in by_size)
            print(f"| {table} | {what} | {gate} | {cells} |", flush=True)


WARD = Contract.from_dict(
    LABORATORY.to_dict()
    | {"features": LABORATORY.to_dict()["features"] | {"kind": {"type": "category"}}}
)
APART, NIGHTS, CHANGED_ON = 0.5, 70, 40
WARD_CHANGES: dict[str, Change] = {
    "half an sd, haemoglobin": lambda night, rng: night.assign(
        haemoglobin=night["haemoglobin"] + 0.95
    ),
    "one sd, haemoglobin": lambda night, rng: night.assign(
        haemoglobin=night["haemoglobin"] + 1.9
    ),
    "urea mg/dL to mmol/L": partial(times, "urea", 1 / 2.801),
    "creatinine mg/dL to umol/L": partial(times, "creatinine", 88.42),
    "half of urea missing": lambda night, rng: night.assign(
        urea=night["urea"].mask(rng.random(len(night)) < 0.5)
    ),
    "kind recoded": lambda night, rng: recoded(["kind"], night, rng),
}


class SimulatedWard:
    """Patients whose values lie off the pool's by the ward's own shifts, and stay
    theirs while they stay.
    """

    def __init__(self, rng: np.random.Generator):
        self.rng, self.shift = rng, APART * rng.normal(size=4)
        self.mix, self.beds = rng.dirichlet([4, 4, 2]), int(rng.integers(8, 60))
        self.stay = rng.uniform(2, 9) if rng.random() < 0.75 else 1.0
        self.here = self.people(self.beds)

    def people(self, n: int, more: float = 0.0) -> pd.DataFrame:
        normal = self.rng.normal(size=(n, 4)) + self.shift + [more, 0, 0, 0]
        return pd.DataFrame(
            {
                "creatinine": np.exp(0.35 * normal[:, 0]),
                "urea": np.exp(3.6 + 0.5 * normal[:, 1]),
                "haemoglobin": 12.8 + 1.9 * normal[:, 2],
                "marker": np.exp(1.5 + normal[:, 3]) * (self.rng.random(n) > 0.3),
                "kind": self.rng.choice(
                    ["medical", "surgical", "trauma"], n, p=self.mix
                ),
            }
        )

    def night(self, number: int) -> tuple[pd.DataFrame, int]:
        """The night's table, and how many stayed from the last."""
        left = np.flatnonzero(self.rng.random(self.beds) < 1 / self.stay)
        new = self.people(len(left), 0.25 * (number % 7 > 4))
        self.here = pd.concat([self.here.drop(index=left), new], ignore_index=True)
        noise = np.exp(self.rng.normal(size=(self.beds, 3)) * [0.1, 0.15, 0.3])
        measured = self.here.assign(
            haemoglobin=self.here["haemoglobin"] + 0.5 * self.rng.normal(size=self.beds)
        )
        measured[["creatinine", "urea", "marker"]] *= noise
        return measured, self.beds - len(left)


def wards(n_wards: int) -> None:
    """Alarms of wards that differ from training: beside it, and beside their own
    nights.
    """
    looks, alarms, seen = 0, Counter[str](), Counter[tuple[str, str]]()
    for number in range(n_wards):
        rng = np.random.default_rng([3, number])
        pool = pd.concat([SimulatedWard(rng).people(60) for _ in range(12)])
        past, ward = profile(columns_of(pool), WARD), SimulatedWard(rng)
        counts: list[dict[str, Any]] = []
        stayed = 0
        for night in range(NIGHTS):
            table, still = ward.night(night)
            stayed += still
            own = None
            if len(counts) >= MIN_REFERENCE_NIGHTS:
                own = own_nights(
                    counts[-REFERENCE_NIGHTS:],
                    independent(stayed / ward.beds / (night + 1)),
                )
            gates = _fed(past, table)
            if own is not None:
                before, after = gates.attention(), gates.attention(own)
                looks += 1
                alarms.update(
                    ["training"] * bool(before) + ["own nights"] * bool(after)
                )
                if night == CHANGED_ON:
                    usual = {(one.code, one.column) for one in before}
                    for what, change in WARD_CHANGES.items():
                        changed = _fed(past, change(table, rng))
                        new = {
                            (one.code, one.column) for one in changed.attention()
                        } - usual
                        seen[what, "training"] += bool(new)
                        seen[what, "own nights"] += bool(changed.attention(own))
            counts.append(gates.counts())
    print(
        "| per cent of nights with an alarm | beside training | beside own nights |\n|---|---|---|"
    )
    sides = ("training", "own nights")
    print(
        f"| nothing, {looks} nights | {' | '.join(f'{100 * alarms[side] / looks:.1f}' for side in sides)} |"
    )
    for what in WARD_CHANGES:
        print(
            f"| {what} | {' | '.join(f'{100 * seen[what, side] / n_wards:.0f}' for side in sides)} |"
        )


def _fed(past: Any, table: pd.DataFrame) -> Gates:
    gates = Gates(past, WARD)
    gates.add(gates.count(columns_of(table), np.arange(len(table))))
    return gates


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Do the gates cry wolf, and do they sleep?"
    )
    parser.add_argument(
        "--nights", type=int, default=300, help="Nights of each size without a change."
    )
    parser.add_argument(
        "--changed", type=int, default=100, help="Nights of each size with one."
    )
    parser.add_argument(
        "--wards", type=int, default=0, help="Simulate so many wards instead."
    )
    asked = parser.parse_args()
    if asked.wards:
        wards(asked.wards)
        return
    print(f"| table | night | gate | {' | '.join(f'{size} rows' for size in SIZES)} |")
    print("|---|---|---|" + "---|" * len(SIZES))
    unchanged: Changes = {SAME: ("any", lambda night, rng: night)}
    printed(
        "laboratory",
        None,
        unchanged
        | {
            what: ("stop", partial(times, column, factor))
            for column, factor, what in MADE_CHANGES
        },
        asked.nights,
        asked.changed,
    )
    for name, cohort in tables():
        changes = {
            what: (gate, change) for what, gate, change in changes_of(name, cohort)
        }
        printed(name, cohort, unchanged | changes, asked.nights, asked.changed)


if __name__ == "__main__":
    main()
