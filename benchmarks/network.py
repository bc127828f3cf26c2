"""A hospital network in one ledger, and whether what the ledger says of it adds up.

    python benchmarks/network.py --wards 40 --nights 400 [--out DIR | postgresql+psycopg://...]

Every ward has a champion and two shadows. Nights are missed and caught up, old nights
corrected, every second night judged; half-way half of the wards promote a shadow, and
the other half train a model again that is promoted thirty nights later (of few nights,
a quarter of them later); on the last night one ward is silent. The nights are written
by the ledger's own functions without scoring tables: what is tried here is the memory,
and not the machines.

The simulation counts for itself, by the rules as `docs/nightly.md` has them, and
compares: every run of every ward, its series, the status of all and the overview of the
last night (drawn from that status). Then the history of each is held to that of a
ledger of its own, without the shadows that were never promoted. Seconds are told as the
ledger grows.
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from screening.ledger.database import Ledger, open_ledger
from screening.ledger.entries import Night
from screening.ledger.history import compare_nights, history
from screening.ledger.model_registry import promote, record_retraining
from screening.ledger.nights import open_night
from screening.ledger.status import Due, series_statuses
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.report.page import render_overview
from screening.schemas.history import OverviewDocument, SeriesNight, SeriesStatus
from screening.schemas.model import TrainedOn

QUESTION = {"label": "infected", "positive": ["yes"], "id": "patient", "group": None}
FIRST = datetime.date(2023, 1, 1)
ROWS = 240
AT_RISK = 60
FLAGGED = 20
SAMPLED = 5
STAY = 5
KNOWN_DAYS = 30
MISSED = 0.02
CORRECTED = 0.01
JUDGED = 8
TRIAL = 30
SILENT = 1


def date_of(number: int) -> str:
    """The night of a number."""
    return str(FIRST + datetime.timedelta(days=number))


def model(name: str) -> str:
    """The digest of a model known by a letter."""
    return name * 64


@dataclass(frozen=True)
class Entered:
    """Something that is entered in a ledger: a night, verdicts, or another champion."""

    night: Night | None = None
    flagged: tuple[str, ...] = ()
    sampled: tuple[str, ...] = ()
    force: bool = False
    key: str = ""
    verdicts: tuple[Verdict, ...] = ()
    champion: tuple[str, str, str, str] | None = None
    learned: TrainedOn | None = None
    at: str = ""

    def into(self, ledger: Ledger) -> None:
        """Enter it, at its own time."""
        ledger.clock = lambda: self.at
        if self.night is not None:
            with open_night(
                ledger, self.night, self.flagged, force=self.force
            ) as tonight:
                if not tonight.is_entered:
                    tonight.enter(sampled=self.sampled)
        elif self.champion is not None:
            action, series, before, after = self.champion
            if self.learned is None:
                evidence = compare_nights(ledger, series, after)
                assert action == "promote" and evidence.nights > 0
                promote(ledger, series, after, "found more in shadow", evidence)
            else:
                record_retraining(ledger, series, before, after, self.learned)
        else:
            record_verdicts(ledger, self.key, self.verdicts)


@dataclass
class Ward:
    """A ward as the simulation knows it: what it entered, and what that must have come
    to.
    """

    name: str
    rng: np.random.Generator
    champion: str = "a"
    shadows: list[str] = field(default_factory=lambda: ["b", "c"])
    entered: list[Entered] = field(default_factory=list)
    # By night in force: its key, and of each case flagged for how many nights in a row.
    in_force: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)
    said: dict[tuple[str, str, str], str] = field(default_factory=dict)
    counted: list[dict[str, object]] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    changes: Counter = field(default_factory=Counter)
    today: int = 0

    def enter(self, one: Entered) -> Entered:
        """Remember what is entered, for the ledger of its own."""
        one = replace(one, at=f"{date_of(self.today)}T04:00:00+00:00")
        self.entered.append(one)
        return one

    def nights(self, number: int, last: bool) -> Iterator[Entered]:
        """What the ward enters on a night: those it missed first, as `screen run`
        does.
        """
        if last or self.rng.random() < MISSED:
            self.missed.append(number)
            return
        for late in [*self.missed, number]:
            yield from self.night(late)
        self.missed.clear()
        old = number - 9
        if date_of(old) in self.in_force and self.rng.random() < CORRECTED:
            yield from self.night(old, table="corrected")

    def night(self, number: int, table: str = "") -> Iterator[Entered]:
        """The champion's night, its shadows', and every second night the verdicts."""
        for name in [self.champion, *([] if table else self.shadows)]:
            yield self.enter(self._run(number, name, table))
        key = f"{self.name} {date_of(number)} {table or self.champion}"
        if number % 2 and not table:
            flagged = list(self.in_force[date_of(number)][1])
            names = [*flagged[:JUDGED], *self._patients(number)[-SAMPLED:]]
            words = {
                name: "confirmed" if hash_of(name) % 4 == 0 else "ruled out"
                for name in names
            }
            self.said |= {
                (date_of(number), name, key): word for name, word in words.items()
            }
            yield self.enter(
                Entered(
                    key=key,
                    verdicts=tuple(Verdict(name, word) for name, word in words.items()),
                )
            )

    def change(self, action: str, after: str) -> Iterator[Entered]:
        """Train a model again that takes a shadow's place, or promote a shadow."""
        self.changes[action] += 1
        learned = None if action == "promote" else self._learned()
        change = (action, self.name, model(self.champion), model(after))
        yield self.enter(Entered(champion=change, learned=learned))
        if action == "promote":
            self.shadows[self.shadows.index(after)], self.champion = (
                self.champion,
                after,
            )
        else:
            self.shadows[-1] = after

    def _learned(self) -> TrainedOn:
        """What a training on the verdicts so far would be told to have learned from."""
        words = Counter(
            {name: word for (_, name, _), word in sorted(self.said.items())}.values()
        )
        nights = sorted({night for night, _, _ in self.said})
        return TrainedOn(
            series=self.name,
            champion=model(self.champion),
            first=nights[0],
            last=nights[-1],
            nights=len(nights),
            confirmed=words["confirmed"],
            ruled_out=words["ruled out"],
            already=0,
            disagreeing=0,
            left_out={},
        )

    def alone(self) -> Iterator[Entered]:
        """What a ledger of the ward's own is given: all but the shadows that were never
        promoted.
        """
        taken = {model("a")} | {
            one.champion[3] for one in self.entered if one.champion is not None
        }
        return (
            one for one in self.entered if one.night is None or one.night.model in taken
        )

    def _patients(self, number: int) -> list[str]:
        return [f"{self.name}-{number // STAY}-{place:03d}" for place in range(ROWS)]

    def _run(self, number: int, name: str, table: str) -> Entered:
        names = self._patients(number)
        date = date_of(number)
        shadow = name != self.champion
        flagged = tuple(
            names[at] for at in sorted(self.rng.choice(AT_RISK, FLAGGED, replace=False))
        )
        cells = self.rng.integers(0, 20, ROWS)
        drift = {
            "unit": "row",
            "known": [50] * 20,
            "counted": np.bincount(cells, minlength=20).tolist(),
            "distance": 0.1,
            "p": 0.4,
            "higher": False,
            "who": [hash_of(each) for each in names],
            "cell": cells.tolist(),
        }
        facts = {
            "run_id": "r",
            "model": model(name),
            "recipe": "svm",
            "thresholds": {"yes": 0.5},
            "title": None,
            "minutes_per_review": 10.0,
            "capacity": 30,
            "table": table or date,
            "drift": drift,
            "read": ROWS,
            "scored": ROWS,
            "refused": 0,
            "flagged": FLAGGED,
            "series": self.name,
            "unflagged": {"cases": ROWS - FLAGGED},
            "question": QUESTION,
            "known_days": KNOWN_DAYS,
            "key": f"{self.name} {date} {table or name}",
            "night": date,
            "shadow": shadow,
        }
        one = Night.from_dict(facts)
        if not shadow:
            self._count(one, flagged)
        return Entered(
            night=one,
            flagged=flagged,
            sampled=tuple(names[-SAMPLED:]),
            force=bool(table),
        )

    def _count(self, one: Night, flagged: tuple[str, ...]) -> None:
        """What the night must come to, by the rules as the documents tell them."""
        before = sorted(night for night in self.in_force if night < one.night)
        yesterday = self.in_force[before[-1]][1] if before else {}
        recent = str(
            datetime.date.fromisoformat(one.night) - datetime.timedelta(days=KNOWN_DAYS)
        )
        last = {
            name: (night, word)
            for (night, name, _), word in sorted(self.said.items())
            if night < one.night
        }
        states: Counter = Counter()
        for name in flagged:
            row, (night, word) = yesterday.get(name, 0), last.get(name, ("", ""))
            since_first = row > 0 and night >= before[-min(row, len(before))]
            if word == "confirmed" and (since_first or night >= recent):
                states["known"] += 1
            elif row and word == "ruled out" and since_first:
                states["ruled_out"] += 1
            else:
                states["pending" if row else "new"] += 1
        self.in_force[one.night] = (
            one.key,
            {name: yesterday.get(name, 0) + 1 for name in flagged},
        )
        resolved = len(yesterday.keys() - set(flagged))
        names = ("new", "pending", "ruled_out", "known")
        counted = {name: states[name] for name in names} | {
            "cases": FLAGGED,
            "no_longer_flagged": resolved,
        }
        self.counted.append({"night": one.night, "model": one.model[:12]} | counted)

    def series(self) -> dict[str, object]:
        """What the nights in force must add up to."""
        flagged = {name for _, cases in self.in_force.values() for name in cases}
        mine = {key for key, _ in self.in_force.values()}
        by_case = {
            name: word
            for (night, name, key), word in sorted(self.said.items())
            if not name.endswith(SAMPLE)
        }
        drawn = [
            word
            for (_, name, key), word in self.said.items()
            if key in mine and name.endswith(SAMPLE)
        ]
        waiting = {
            each["night"]: each["new"] + each["pending"] for each in self.counted
        }
        return {
            "nights": len(self.in_force),
            "first": min(self.in_force),
            "last": max(self.in_force),
            "ppv": (
                sum(word == "confirmed" for word in by_case.values()),
                len(by_case),
            ),
            "all judged were flagged": set(by_case) <= flagged
            or "a night was corrected",
            "misses": (sum(word == "confirmed" for word in drawn), len(drawn)),
            "waiting": round(float(np.mean(list(waiting.values()))), 9),
        }


SAMPLE = tuple(f"-{place:03d}" for place in range(ROWS - SAMPLED, ROWS))


def hash_of(name: str) -> int:
    """A number of 31 bits of a name, the same everywhere."""
    return int.from_bytes(name.encode()[-12:], "big") * 2654435761 % (1 << 31)


def told_of(found: dict) -> dict[str, object]:
    """The figures of a series that `Ward.series` counts, as the history tells them."""
    (series,) = found["series"]
    pairs = {
        name: (series[name]["found"], series[name]["judged"])
        for name in ("ppv", "misses")
    }
    waiting = round(series["workload"]["waiting_per_night"], 9)
    return (
        {name: series[name] for name in ("nights", "first", "last")}
        | pairs
        | {"waiting": waiting}
    )


def without_places(found: dict) -> dict:
    """A history without what tells one ledger from another: places in the trail."""
    told = json.loads(json.dumps(found))
    for each in [*told["promotions"], *told["retrainings"]]:
        each.pop("entry")
    return {name: value for name, value in told.items() if name != "audit"}


def simulate(ledger: Ledger, wards: list[Ward], nights: int) -> None:
    """Enter every ward's nights as they come, and say how long a night's write
    takes.
    """
    taken: list[float] = []
    for number in range(nights):
        for place, ward in enumerate(wards):
            ops = list(_events(ward, place, number, nights))
            for one in ops:
                began = time.perf_counter()
                one.into(ledger)
                taken += [time.perf_counter() - began] if one.night else []
        if (number + 1) % max(nights // 4, 1) == 0:
            say(ledger, wards, number, taken)


def _events(ward: Ward, place: int, number: int, nights: int) -> Iterable[Entered]:
    silent = number == nights - 1 and place == SILENT
    half, ward.today = nights // 2, number
    if number == half:
        yield from ward.change(*(("promote", "b") if place % 2 else ("retrain", "d")))
    if number == half + min(TRIAL, nights // 4) and not place % 2:
        yield from ward.change("promote", "d")
    yield from ward.nights(number, silent)


def say(ledger: Ledger, wards: list[Ward], number: int, taken: list[float]) -> None:
    """One line of seconds."""
    seconds = {}
    for name, work in {
        "history of a series": lambda: history(ledger, wards[0].name),
        "status of all": lambda: series_statuses(ledger, due(number)),
    }.items():
        began = time.perf_counter()
        work()
        seconds[name] = time.perf_counter() - began
    runs = sum(one.night is not None for ward in wards for one in ward.entered)
    told = "; ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    last = taken[-500:]
    print(
        f"{number + 1} nights, {runs} runs: write median {1000 * np.median(last):.0f} ms, ",
        end="",
    )
    print(f"slowest of 500 {1000 * max(last):.0f} ms; {told}", flush=True)


def due(number: int) -> Due:
    """At nine in the morning after the night's midnight."""
    night = FIRST + datetime.timedelta(days=number)
    return Due(
        datetime.datetime.combine(night, datetime.time(9), datetime.UTC), night=night
    )


def check(ledger: Ledger, wards: list[Ward], nights: int, folder: Path) -> None:
    """Hold what the ledger says to what the simulation counted; the first difference
    ends it.
    """
    runs = cases = 0
    for ward in wards:
        found = history(ledger, ward.name)
        names = (
            "night",
            "model",
            "new",
            "pending",
            "ruled_out",
            "known",
            "cases",
            "no_longer_flagged",
        )
        told = [{name: run[name] for name in names} for run in found["runs"]]
        # The history is in order of the nights; of a night, in the order of its
        # revisions.
        due_ = [{name: one[name] for name in names} for one in ward.counted]
        assert told == sorted(due_, key=lambda one: one["night"]), ward.name
        expected = ward.series()
        assert expected.pop("all judged were flagged")
        assert told_of(found) == expected, (ward.name, told_of(found), expected)
        assert len(found["promotions"]) == ward.changes["promote"]
        assert len(found["retrainings"]) == ward.changes["retrain"]
        runs = runs + len(told)
        cases = cases + sum(run["cases"] for run in told)
    print(
        f"histories: {len(wards)} wards, {runs} runs of champions, {cases} cases: as counted"
    )

    states = series_statuses(ledger, due(nights - 1))
    silent = {ward.name for ward in wards if date_of(nights - 1) not in ward.in_force}
    assert {each.series for each in states if not each.fine} == silent and len(
        states
    ) == len(wards)
    assert all(each.counts["cases"] == FLAGGED for each in states)
    print(
        f"status: {len(states)} series, silent {', '.join(sorted(silent))}: as it was"
    )

    page = render_overview(overview(states, wards, nights))
    fine = [each for each in states if each.fine]
    for term, fact in (
        ("Series", len(wards)),
        ("Without a page", len(silent)),
        ("Rows flagged", FLAGGED * len(fine)),
    ):
        assert f"<dt>{term}</dt><dd><bdi>{fact:,}</bdi></dd>" in page, term
    print(
        f"overview: {len(wards)} series, {len(silent)} without a page, {FLAGGED * len(fine)} rows flagged"
    )

    for ward in wards:
        with open_ledger(folder / f"{ward.name}.db", make=True) as own:
            for one in ward.alone():
                one.into(own)
            assert without_places(history(own, ward.name)) == without_places(
                history(ledger, ward.name)
            )
    print(
        f"private ledgers: {len(wards)}, each with the history that its ward has in the shared one"
    )


def overview(
    states: list[SeriesStatus], wards: list[Ward], nights: int
) -> OverviewDocument:
    """The overview of the last night, from what the status knows of it."""
    lines = []
    for state, ward in zip(states, wards, strict=True):
        came = state.counts if state.fine else None
        lines.append(
            SeriesNight(
                series=ward.name,
                night=date_of(nights - 1),
                status="published" if came else "failed",
                shadow=False,
                exit_code=0 if came else 2,
                said=None if came else state.said,
                model=model(ward.champion)[:12],
                run_id=None,
                scored=came and came["scored"],
                refused=came and 0,
                flagged=came and came["flagged"],
                to_review=came and came["new"] + came["pending"],
                capacity=30,
                drift_p=None,
                attention=(),
                page=None,
                peak_mb=None,
            )
        )
    return OverviewDocument(
        title="A network",
        night=date_of(nights - 1),
        exit_code=2,
        series=lines,
        shadows=(),
        caught_up=(),
    )


def main() -> None:
    """Read the arguments, simulate, and check."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "url", nargs="?", help="An empty database; a SQLite file where absent."
    )
    parser.add_argument("--wards", type=int, default=40)
    parser.add_argument("--nights", type=int, default=400)
    parser.add_argument("--out", type=Path, help="Where the SQLite files are kept.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        wards = [
            Ward(f"w{place:02d}", np.random.default_rng([0, place]))
            for place in range(given.wards)
        ]
        with open_ledger(given.url or folder / "network.db", make=True) as ledger:
            simulate(ledger, wards, given.nights)
            check(ledger, wards, given.nights, folder)
            began = time.perf_counter()
            history(ledger, wards[0].name, verify=True)
            print(
                f"the whole trail followed from its start: {time.perf_counter() - began:.0f} s"
            )


if __name__ == "__main__":
    main()
