"""Is what the ledger says of a ward true where patients stay? Stationary and falling
wards, as markdown.

    python benchmarks/wards_with_stays.py --times 100 --out wards.csv
    python benchmarks/wards_with_stays.py --out wards.csv --table
    python benchmarks/wards_with_stays.py --direct 1500

No model is trained: scores come from known distributions, the threshold and what is
promised from a sample of past patients by `choose`, and everything else goes through
the ledger, in a file of its own: nights, verdicts and `history`, looked at every
`EVERY` nights. A history that is in the CSV is not run again. `--direct` draws the same
wards without a ledger and takes the same intervals: so many more that each line's
coverage is known.
"""

from __future__ import annotations

import argparse
import datetime
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from resumed import run_missing
from scipy.special import ndtri
from scipy.stats import norm

from screening.ledger.database import Ledger, open_ledger
from screening.ledger.entries import Night
from screening.ledger.history import history
from screening.ledger.nights import open_night
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.metrics.intervals import anytime_level, ratio_interval
from screening.metrics.operating_point import choose
from screening.metrics.reviews import ANYTIME_WIDENING, Sample, pooled
from screening.schemas.figures import MinSensitivity, OperatingPoint
from screening.schemas.history import HistoryDocument, SensitivityAndPpv

BEDS, ILL, APART, OWN, PAST = 60, 0.15, 2.0, 0.8, 700
"""Beds, share of the admitted with the condition, how much higher they score, how much
of a score's variance is the patient's own, and how many past patients the promise is
from."""

TOP, AUDIT, EVERY = 5, 5, 7
"""Cases read from the top of the list, size of both random audits, and nights from one
look to the next."""

STAYS = {"1": (1, 1), "1 to 14": (1, 14), "14": (14, 14)}
REVIEWS = ("audit", "top", "part", "late")
"""The random audit only; five from the top as well; so on six nights of ten; so, but up
to a week later."""


@dataclass
class Ward:
    """Patients in beds: who they are, whether they have the condition, and what of
    their score stays.
    """

    rng: np.random.Generator
    stay: tuple[int, int]
    beds: int = BEDS

    def __post_init__(self) -> None:
        self.left = np.zeros(self.beds, int)
        self.ill, self.own, self.name = (
            np.zeros(self.beds, bool),
            np.zeros(self.beds),
            np.zeros(self.beds, int),
        )
        self.admitted = 0
        for _ in range(2 * self.stay[1]):
            self.night()

    def night(self, apart: float = APART) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Names, truth and scores of a night; then the day's discharges and
        admissions.
        """
        new = np.flatnonzero(self.left == 0)
        self.left[new] = self.rng.integers(self.stay[0], self.stay[1] + 1, len(new))
        self.ill[new] = self.rng.random(len(new)) < ILL
        self.own[new] = self.rng.normal(size=len(new)) * OWN**0.5
        self.name[new] = self.admitted + np.arange(len(new))
        self.admitted += len(new)
        self.left -= 1
        scores = (
            self.own
            + apart * self.ill
            + self.rng.normal(size=self.beds) * (1 - OWN) ** 0.5
        )
        return [f"P{name:06d}" for name in self.name], self.ill.copy(), scores


def promise(rng: np.random.Generator, past: int) -> OperatingPoint:
    """The operating point of a training on past patients, a night's row of each."""
    ill = rng.random(past) < ILL
    return choose(rng.normal(size=past) + APART * ill, ill, MinSensitivity(0.8))


def truth(threshold: float, apart: float = APART) -> dict[str, float]:
    """Sensitivity and PPV of all flagged in the long run."""
    hit, false = norm.sf(threshold - apart), norm.sf(threshold)
    return {
        "sensitivity": float(hit),
        "ppv": float(ILL * hit / (ILL * hit + (1 - ILL) * false)),
    }


def apart_for(threshold: float, ppv: float) -> float:
    """How much higher those with the condition score where the PPV is this one."""
    hit = ppv * (1 - ILL) * norm.sf(threshold) / (ILL * (1 - ppv))
    return float(threshold - norm.isf(min(hit, 1.0)))


def patients_needed(past: int, fall: float) -> int | None:
    """Independent patients by which half of all histories say that the PPV fell; None
    where none do.
    """
    points = [promise(np.random.default_rng(seed), past) for seed in range(20)]
    ppv = float(np.mean([truth(point.threshold)["ppv"] for point in points])) - fall
    reach = ANYTIME_WIDENING * float(
        np.mean(
            [
                point["ppv"].value_and_interval[0] - point["ppv"].value_and_interval[1]
                for point in points
            ]
        )
    )
    for size in np.geomspace(10, 1e5, 500):
        quantile = ndtri(0.5 + anytime_level(size) / 2)
        if np.hypot(reach, quantile * (ppv * (1 - ppv) / size) ** 0.5) < fall:
            return round(size)
    return None


def nights_of(
    ledger: Ledger,
    rng: np.random.Generator,
    ward: Ward,
    point: OperatingPoint,
    review: str,
    nights: int,
    apart: float,
) -> Iterator[HistoryDocument]:
    """Enter nights and their verdicts, and look at the history now and then."""
    promised = SensitivityAndPpv(
        sensitivity=point["sensitivity"], ppv=point["ppv"]
    ).to_dict()
    facts = {
        "run_id": "r",
        "model": "m" * 64,
        "recipe": "svm",
        "thresholds": {"yes": point.threshold},
        "title": None,
        "minutes_per_review": None,
        "capacity": None,
        "promised": promised,
        "drift": None,
        "series": "ward-7",
        "read": ward.beds,
        "scored": ward.beds,
        "refused": 0,
        "draw": AUDIT,
        "question": {
            "label": "ill",
            "positive": ["yes"],
            "id": "patient",
            "group": None,
        },
    }
    due: list[tuple[int, str, list[Verdict]]] = []
    for number in range(nights):
        date = str(datetime.date(2025, 1, 1) + datetime.timedelta(days=number))
        names, ill, scores = ward.night(apart)
        order = np.argsort(-scores)
        flagged = [names[i] for i in order if scores[i] >= point.threshold]
        rest = [names[i] for i in order if scores[i] < point.threshold]
        sampled = tuple(rest[i] for i in rng.permutation(len(rest))[:AUDIT])
        key = f"{rng.integers(2**62):064x}"
        counted = {
            "flagged": len(flagged),
            "unflagged": {"cases": len(rest)},
            "key": key,
            "night": date,
        }
        with open_night(ledger, Night.from_dict(facts | counted), flagged) as tonight:
            tonight.enter(sampled=sampled)
            cases = tonight.known(flagged)
        has_it = dict(zip(names, ill, strict=True))
        waiting = [name for name in flagged if cases[name].state in ("new", "pending")]
        top = [] if review == "audit" else waiting[:TOP]
        asked = (
            []
            if review == "part" and rng.random() < 0.4
            else [*{*top, *tonight.drawn, *sampled}]
        )
        day = number + (int(rng.integers(0, 8)) if review == "late" else 0)
        due.append(
            (
                day,
                key,
                [
                    Verdict(name, "confirmed" if has_it[name] else "ruled out")
                    for name in asked
                ],
            )
        )
        for _, of_key, verdicts in [one for one in due if one[0] <= number]:
            record_verdicts(ledger, of_key, verdicts)
        due = [one for one in due if one[0] > number]
        if (number + 1) % EVERY == 0 or number + 1 == nights:
            yield HistoryDocument.from_dict(history(ledger))


def one_history(
    stay: str, review: str, fall: float, nights: int, past: int, seed: int
) -> Iterator[dict[str, object]]:
    """What the history says at its end, and whether and when a figure was below its
    estimate.
    """
    rng = np.random.default_rng([seed, nights, *stay.encode(), *review.encode()])
    point = promise(rng, past)
    apart = (
        apart_for(point.threshold, truth(point.threshold)["ppv"] - fall)
        if fall
        else APART
    )
    right, first = truth(point.threshold, apart), {}
    with (
        tempfile.TemporaryDirectory() as folder,
        open_ledger(Path(folder) / "ledger.db", make=True) as ledger,
    ):
        for told in nights_of(
            ledger, rng, Ward(rng, STAYS[stay]), point, review, nights, apart
        ):
            series = told.series[0]
            for name in series.forward.below if series.forward else ():
                first.setdefault(name, series.nights)
    assert series.forward is not None
    line: dict[str, object] = dict(
        zip(KEYS, (stay, review, fall, nights, past, seed), strict=True)
    )
    for name, exact in right.items():
        seen, stated = getattr(series.forward.seen, name), point[name].value
        line |= {
            name: exact,
            f"{name}_promised": stated,
            f"{name}_below": first.get(name, ""),
        }
        line |= {
            f"{name}_{end}": getattr(seen, end) for end in ("value", "low", "high")
        }
    yield line


def direct(stay: str, nights: int, top: bool, seed: int) -> tuple[bool, bool]:
    """Whether the last intervals of PPV and sensitivity hold the truth, in a history
    without a ledger.
    """
    rng = np.random.default_rng([seed, nights, *stay.encode()])
    point = promise(rng, PAST)
    right, ward = truth(point.threshold), Ward(rng, STAYS[stay])
    answered: set[str] = set()  # has a verdict in the unbroken row of nights
    confirmed: set[str] = set()  # in any row: known from then on
    samples: list[tuple[Sample, Sample]] = []
    for _ in range(nights):
        names, ill, scores = ward.night()
        order = np.argsort(-scores)
        flagged, rest = np.split(order, [np.count_nonzero(scores >= point.threshold)])
        waiting = [i for i in flagged if names[i] not in answered | confirmed]
        audits = [rng.permutation(part)[:AUDIT].tolist() for part in (waiting, rest)]
        asked = {*audits[0], *(waiting[:TOP] if top else ())}
        if len(asked) == len(waiting):
            audits[0] = waiting
        known = [(names[i], 1.0, bool(ill[i])) for i in flagged if i not in waiting]
        drawn = [
            [(names[i], len(part) / len(audit), bool(ill[i])) for i in audit]
            for part, audit in zip((waiting, rest), audits, strict=True)
        ]
        samples.append(
            (Sample(1, len(flagged), known + drawn[0]), Sample(1, len(rest), drawn[1]))
        )
        read = {names[i] for i in asked}
        answered = {names[i] for i in flagged} & (answered | read)
        confirmed |= {names[i] for i in asked if ill[i]}
    of_flagged, of_rest = (pooled(part) for part in zip(*samples, strict=True))
    found, missed = of_flagged.per_night(), of_rest.per_night()
    low, high = (
        1 / (1 + end)
        for end in reversed(
            ratio_interval(missed.value_and_interval, found.value_and_interval)
        )
    )
    ppv = of_flagged.share()
    return ppv.low <= right["ppv"] <= ppv.high, low <= right["sensitivity"] <= high


def coverage(times: int) -> None:
    """Print how often the intervals of `direct` hold, by line."""
    print(
        "| stay | review | nights | histories | PPV held, % | sensitivity held, % |",
        "|---" * 6 + "|",
        sep="\n",
    )
    lines = [(stay, 60, top) for stay in STAYS for top in (False, True)]
    for stay, nights, top in [*lines, ("1 to 14", 20, True)]:
        held = 100 * np.mean(
            [direct(stay, nights, top, seed) for seed in range(times)], axis=0
        )
        print(
            f"| {stay} | {'top' if top else 'audit'} | {nights} | {times} | {held[0]:.1f} | {held[1]:.1f} |",
            flush=True,
        )


def looked_at_after_each(paths: int = 4000, most: int = 5000) -> None:
    """In the limit of many patients: how often a figure is ever below its estimate
    where nothing changed.

    Brownian motion of the nights' figure beside one error of the estimate, in
    deviations of a patient.
    """
    rng, sizes = (
        np.random.default_rng(0),
        np.unique(np.geomspace(4, most, 3000).astype(int)),
    )
    steps = rng.normal(size=(paths, len(sizes))) * np.diff(sizes, prepend=0) ** 0.5
    seen, stated = np.cumsum(steps, axis=1) / sizes, rng.normal(size=(paths, 1))
    reach = (
        np.array([ndtri(0.5 + anytime_level(size) / 2) for size in sizes]) / sizes**0.5
    )
    for error in (0, 0.02, 0.05, 0.1, 0.2):
        ever = (
            stated * error + seen
            > np.hypot(ANYTIME_WIDENING * norm.ppf(0.975) * error, reach)
        ).any(axis=1)
        print(
            f"An estimate known to {error} of a patient's deviation: {100 * ever.mean():.1f} %"
        )


FIGURES = ("sensitivity", "ppv")
COLUMNS = (
    "stay",
    "review",
    "fall",
    "nights",
    "past",
    "seed",
    *(
        f"{name}{end}"
        for name in FIGURES
        for end in ("", "_promised", "_below", "_value", "_low", "_high")
    ),
)
KEYS = COLUMNS[:6]


def pieces(times: int) -> list[tuple[str, str, float, int, int, int]]:
    """Stationary wards of every kind; a third as many long histories, of them wards
    whose PPV fell.
    """
    short = [(stay, review, 0.0, 60, PAST) for stay in STAYS for review in REVIEWS]
    short += [("1 to 14", "top", 0.0, 20, PAST)]
    long = [
        ("1 to 14", "top", fall, 180, past)
        for fall, past in ((0.0, PAST), (0.1, PAST), (0.1, 3000))
    ]
    kinds = [
        (seed, kind)
        for seed in range(times)
        for kind in [*short, *(long if 3 * seed < times else [])]
    ]
    return [(*kind, seed) for seed, kind in kinds]


def table(place: Path) -> None:
    """Print what the CSV adds up to."""
    lines = pd.read_csv(place, dtype={"stay": str})
    heads = [
        "stay",
        "review",
        "fall",
        "nights",
        "past",
        "histories",
        "PPV: error",
        "held, %",
    ]
    heads += [
        "said below, %",
        "median night",
        "sensitivity: error",
        "held, %",
        "said below, %",
        "median night",
    ]
    print(f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", sep="\n")
    for kind, mine in lines.groupby(list(KEYS[:5]), sort=False):
        cells = [*kind, len(mine)]
        for name in ("ppv", "sensitivity"):
            held = (mine[f"{name}_low"] <= mine[name]) & (
                mine[name] <= mine[f"{name}_high"]
            )
            when = mine[f"{name}_below"].dropna()
            cells += [
                f"{(mine[f'{name}_value'] - mine[name]).mean():+.3f}",
                f"{100 * held.mean():.1f}",
            ]
            cells += [
                f"{100 * len(when) / len(mine):.1f}",
                f"{when.median():.0f}" if len(when) else "",
            ]
        print(f"| {' | '.join(map(str, cells))} |")


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("wards.csv"))
    parser.add_argument("--table", action="store_true")
    parser.add_argument(
        "--looks", action="store_true", help="the limit of many patients only"
    )
    parser.add_argument(
        "--direct", type=int, help="so many histories a line without a ledger"
    )
    asked = parser.parse_args()
    if asked.direct:
        return coverage(asked.direct)
    if asked.looks:
        return looked_at_after_each()
    for past in (PAST, 3000):
        print(
            f"A fall of ten points needs {patients_needed(past, 0.1)} patients where {past} promised."
        )
    if not asked.table:
        run_missing(asked.out, COLUMNS, KEYS, pieces(asked.times), one_history)
    table(asked.out)


if __name__ == "__main__":
    main()
