"""A made hospital whose truth is known: is every count of the ledger that of its books?

    python benchmarks/made_hospital.py --nights 90

Four wards share a ledger; in one outcomes are judged by stay. Patients are readmitted,
move between wards, and are merged where they have two numbers; some merges are mistakes
and are undone. The clock goes back on one night and forward on another. Events are
entered days late, some by their date alone, some with a zone; some are corrected or
taken back, and one table of outcomes ended days ago. Tables of some nights are
corrected; reviewers change their minds and contradict each other. Thrice the ids are
written otherwise: that must be refused, and then the right table enters. The books are
dictionaries of plain Python in `Books`, which knows of the tool only who was flagged,
and who else was drawn for review. Printed are the counts of `status`, `history` and
`outcomes` that were compared; the script fails if one differs.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from screening import MaxFlagRate, save_model, train
from screening.cli import app
from screening.contract.contract import Contract, OutcomeDefinition

# Both changes of the clock within ninety nights, because of Ramadan.
ZONE = "Africa/Casablanca"
CLOCK_BACK, CLOCK_FORWARD = date(2026, 2, 15), date(2026, 3, 22)
WARDS = {"ward-a": 24, "ward-b": 20, "ward-c": 16, "ward-d": 14}
BY_STAY = ("ward-d",)
WITHIN, AGAIN, KNOWN_DAYS = timedelta(hours=72), timedelta(days=7), 30
LEAVES, MOVES, RETURNS, RENUMBERED = 0.18, 0.05, 0.3, 0.02
GETS_EVENT, REVIEWED = 0.3, 0.4
MIND_CHANGED, CONTRADICTED, MERGED_BY_MISTAKE = 0.1, 0.15, 0.1
TRUTHS = ("past", "unknown", "censored", "open")
STATES = ("new", "pending", "ruled_out", "known")
WORDS = ("confirmed", "ruled out", "unsure", "known")
FOUND = ("confirmed", "known")
WRITINGS = ("local",) * 6 + ("zone",) * 3 + ("date",) * 3 + ("yes",)
"""How an event is written: on the hospital's clock, in UTC, by its date alone, or as
known without a time."""


@dataclass
class Event:
    """An event as it is entered: at first perhaps wrong, later perhaps taken back."""

    time: datetime
    entered: date
    writing: str
    corrected: date | None = None
    right: datetime | None = None

    def stated(self, day: date) -> datetime | None:
        """Return the time that the table of a day states; None for no event."""
        if day < self.entered:
            return None
        is_corrected = self.corrected is not None and day >= self.corrected
        return self.right if is_corrected else self.time


@dataclass
class Stay:
    """A stay of a person under a number, with its events."""

    number: str
    visit: str
    ward: str | None
    events: list[Event] = field(default_factory=list)
    end: datetime | None = None

    def stated_end(self, day: date) -> datetime | None:
        """Return the end that the table of a day states."""
        return self.end if self.end and self.end.date() < day else None


@dataclass
class Person:
    """A person, whose last stay is the present one.

    The number of one who was merged by mistake stays until that is undone.
    """

    stays: list[Stay]
    is_mistaken: bool = False

    @property
    def number(self) -> str:
        """The number by which the hospital knows the person now."""
        return self.stays[-1].number


# --- The books: nothing below until `Hospital` is the tool's. ---


@dataclass
class Night:
    """A night of a ward: who lay there, in which stay, and who was flagged."""

    day: date
    stay_of: dict[str, Stay]
    flagged: set[str]
    streak: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    verdicts: dict[str, dict[str, str]] = field(default_factory=dict)
    replaced: Night | None = None
    run: Path = Path()

    @property
    def words(self) -> dict[str, str]:
        """The verdict on each case: the last one, or that reviewers disagree."""
        return {number: current(of) for number, of in self.verdicts.items()}

    @property
    def document(self) -> dict[str, Any]:
        """The document of the run."""
        content: dict[str, Any] = json.loads((self.run / "run.json").read_text())
        return content

    @property
    def hour(self) -> datetime:
        """The instant at which the table was taken."""
        at_six = datetime(self.day.year, self.day.month, self.day.day, 6)
        return instant(at_six)


def current(by_reviewer: dict[str, str]) -> str:
    """Return the verdict on a case by what each reviewer said last, in order."""
    words = list(by_reviewer.values())
    if "ruled out" in words and set(words) & set(FOUND):
        return "disputed"
    return words[-1]


def instant(local: datetime) -> datetime:
    """Return the instant of a time on the hospital's clock."""
    return local.replace(tzinfo=ZoneInfo(ZONE)).astimezone(UTC)


class Books:
    """Independent bookkeeping of all wards."""

    def __init__(self, wards: Iterable[str] = WARDS) -> None:
        self.nights: dict[str, list[Night]] = {ward: [] for ward in wards}
        self.merges: dict[str, tuple[str, date]] = {}
        # What was entered on each name, and the entry; merges have an entry too.
        self.entered: dict[str, dict[str, tuple[int, frozenset]]] = {
            ward: {} for ward in self.nights
        }
        self.n_entries = 0
        self.merged_at: dict[str, int] = {}

    def merge(self, old: str, new: str, since: date) -> None:
        """Take two numbers as one patient from a day on; none to undo that."""
        self.n_entries += 1
        if new:
            self.merges[old] = (new, since)
            self.merged_at[old] = self.n_entries
        else:
            del self.merges[old]

    def unit(self, ward: str, stay: Stay) -> str:
        """Return what a ward's outcomes are of: the stay or the patient."""
        return stay.visit if ward in BY_STAY else self.patient(stay.number)

    def recorded(self, ward: str) -> dict[str, frozenset]:
        """Return what is known of each patient, or stay.

        What was entered on several numbers before they were merged counts together.
        """
        of_patient: dict[str, list[tuple[int, frozenset]]] = {}
        for name, entry in self.entered[ward].items():
            of_patient.setdefault(self.patient(name), []).append(entry)
        known = {}
        for patient, entries in of_patient.items():
            merged = max(
                (
                    self.merged_at[old]
                    for old, (new, _) in self.merges.items()
                    if new == patient
                ),
                default=0,
            )
            since = [entry for entry in entries if entry[0] > merged]
            if since:
                known[patient] = max(since, key=lambda entry: entry[0])[1]
            else:
                known[patient] = frozenset().union(*(facts for _, facts in entries))
        return known

    def patient(self, number: str, day: date | None = None) -> str:
        """Return the number of a patient, on a night or by all that is known now."""
        new, since = self.merges.get(number, (number, None))
        return number if day and since and since > day else new

    def replace(self, ward: str, night: Night) -> None:
        """Enter a night again, whose table was corrected."""
        night.replaced = self.nights[ward].pop()
        self.enter(ward, night)

    def enter(self, ward: str, night: Night) -> None:
        """Enter a night, and count its cases by state."""
        before = self.nights[ward]
        last: dict[str, int] = {}
        for number, length in before[-1].streak.items() if before else ():
            patient = self.patient(number, night.day)
            last[patient] = max(length, last.get(patient, 0))
        judged = {}
        for earlier in before:
            for run in filter(None, (earlier.replaced, earlier)):
                for number, word in run.words.items():
                    judged[self.patient(number, night.day)] = (run.day, word)
        counts = Counter(read=len(night.stay_of), flagged=len(night.flagged))
        for number in night.flagged:
            patient = self.patient(number, night.day)
            n_before = last.get(patient, 0)
            night.streak[number] = n_before + 1
            begins = before[-n_before].day if n_before else night.day
            given, word = judged.get(patient, (date.min, ""))
            in_row = n_before > 0 and given >= begins
            is_recent = given >= night.day - timedelta(days=KNOWN_DAYS)
            if word in FOUND and (in_row or is_recent):
                counts["known"] += 1
            elif word == "ruled out" and in_row:
                counts["ruled_out"] += 1
            else:
                counts["pending" if n_before else "new"] += 1
        now = {self.patient(number, night.day) for number in night.flagged}
        counts["no_longer_flagged"] = sum(
            self.patient(number, night.day) not in now
            for number in (before[-1].flagged if before else ())
        )
        counts["cases"] = sum(counts[state] for state in STATES)
        keys = ("read", "flagged", "cases", *STATES, "no_longer_flagged")
        night.counts = {key: counts[key] for key in keys}
        before.append(night)

    def outcomes(
        self,
        ward: str,
        people: list[Person],
        day: date,
        as_of: datetime,
        is_reach_stated: bool,
    ) -> dict[str, Any]:
        """Return the counts of a ward by what a day's table of outcomes states."""
        facts: dict[str, set] = {}
        times: set[tuple[str, datetime]] = set()
        for stay in (stay for person in people for stay in person.stays):
            unit = self.unit(ward, stay)
            of_unit = facts.setdefault(unit, set())
            if end := stay.stated_end(day):
                of_unit.add(("until", end))
            for event in stay.events:
                time = event.stated(day)
                if time is None:
                    continue
                if event.writing == "yes":
                    of_unit.add(("yes", None))
                    continue
                if event.writing == "date":
                    time = time.replace(hour=12, minute=0)
                of_unit.add((event.writing == "date", instant(time)))
                times.add((unit, instant(time)))
        counts = self._entered(ward, {name: frozenset(facts[name]) for name in facts})
        # What an earlier table says of a patient whom this one omits still holds.
        events: dict[str, set[datetime]] = {}
        ends: dict[str, list[datetime]] = {}
        without_time: set[str] = set()
        for unit, known in self.recorded(ward).items():
            for kind, time in known:
                if kind == "until":
                    ends.setdefault(unit, []).append(instant(time))
                elif kind == "yes":
                    without_time.add(unit)
                else:
                    events.setdefault(unit, set()).add(time)
                    times.add((unit, time))
        complete = instant(as_of)
        if not is_reach_stated:
            complete = self._reach(ward, [time for _, time in times], complete)
        judged = self._judged(ward, events, ends, without_time, complete)
        return counts | judged

    def _reach(self, ward: str, events: list[datetime], as_of: datetime) -> datetime:
        """Return the last event, if the gap after it has a chance below a hundredth."""
        first = self.nights[ward][0].hour
        times = sorted(time for time in events if first <= time <= as_of)
        if len({time.date() for time in times}) < 5:
            return as_of
        a_day = (len(times) - 1) / ((times[-1] - times[0]) / timedelta(days=1))
        last_window = self.nights[ward][-1].hour + WITHIN
        gap = (min(as_of, last_window) - times[-1]) / timedelta(days=1)
        is_over = gap > 0 and math.exp(-a_day * gap) < 0.01
        return times[-1] if is_over else as_of

    def _entered(self, ward: str, facts: dict[str, frozenset]) -> dict[str, int]:
        """Return the patients whose outcomes are new, corrected or of nobody."""
        nights = self.nights[ward]
        scored = {
            self.unit(ward, stay) if ward in BY_STAY else self.patient(number)
            for night in nights
            for number, stay in night.stay_of.items()
        }
        recorded = self.recorded(ward)
        self.n_entries += 1
        counts = Counter(new=0, corrected=0, withdrawn=0, unknown=0)
        for name, of_unit in facts.items():
            if name not in scored:
                counts["unknown"] += 1
            elif name not in recorded:
                counts["new"] += 1
            elif recorded[name] != of_unit:
                counts["corrected"] += 1
                had, has = (
                    any(kind != "until" for kind, _ in of)
                    for of in (recorded[name], of_unit)
                )
                counts["withdrawn"] += had and not has
        changed = {
            name: (self.n_entries, facts[name])
            for name in facts
            if name in scored and recorded.get(name) != facts[name]
        }
        self.entered[ward] |= changed
        return {**counts, "table.patients": len(facts)}

    def _judged(
        self,
        ward: str,
        events: dict[str, set[datetime]],
        ends: dict[str, list[datetime]],
        without_time: set[str],
        complete: datetime,
    ) -> dict[str, Any]:
        """Return the counts of rows by their truth, and the lead times."""
        counts: Counter[str] = Counter()
        patients = set()
        followed: dict[tuple[str, datetime], dict[int, bool]] = {}
        flags: dict[str, set[int]] = {}
        nights = self.nights[ward]
        for place, night in enumerate(nights):
            start, end = night.hour, night.hour + WITHIN
            for number, stay in night.stay_of.items():
                patient = self.patient(number)
                unit = stay.visit if ward in BY_STAY else patient
                is_flagged = number in night.flagged
                times = sorted(events.get(unit, ()))
                before = [time for time in times if time < start]
                inside = [time for time in times if start <= time <= end]
                left = [end for end in sorted(ends.get(unit, ())) if end >= start]
                is_again = ward not in BY_STAY and before[-1:] < [start - AGAIN]
                if before and not is_again:
                    counts["past"] += 1
                    continue
                if is_flagged:
                    flags.setdefault(unit, set()).add(place)
                if inside:
                    lines = followed.setdefault((unit, inside[0]), {})
                    lines[place] = lines.get(place, False) or is_flagged
                elif unit in without_time:
                    counts["unknown"] += 1
                    continue
                elif left and left[0] < end:
                    counts["censored"] += 1
                    continue
                if end > complete:
                    counts["open"] += 1
                    continue
                patients.add(patient)
                counts["rows"] += 1
                counts["cases"] += bool(inside)
                counts["flagged"] += is_flagged
                counts["true_positive"] += is_flagged and bool(inside)
        unbroken, first = [], []
        for (unit, event), lines in followed.items():
            flagged = [place for place, is_flagged in lines.items() if is_flagged]
            if flagged:
                first.append(event - nights[flagged[0]].hour)
            place, is_flagged = list(lines.items())[-1]
            if is_flagged:
                while place - 1 in flags[unit]:
                    place -= 1
                unbroken.append(event - nights[place].hour)
        keys = ("rows", "cases", "flagged", "true_positive")
        return {
            **{key: counts[key] for key in keys},
            **{f"left_out.{key}": counts[key] for key in TRUTHS},
            "patients": len(patients),
            "lead.events": len(followed),
            "lead.detected": len(unbroken),
            "lead.flagged_earlier": len(first) - len(unbroken),
            "lead.median_hours": median_hours(unbroken),
            "lead.first_median_hours": median_hours(first),
        }


def median_hours(times: list[timedelta]) -> float | None:
    """Return a median in hours; None of nothing."""
    hours = [time / timedelta(hours=1) for time in times]
    return statistics.median(hours) if hours else None


# --- The hospital, which only knows what happens. ---


class Hospital:
    """Beds of some wards, and everybody who was ever in them."""

    def __init__(self, seed: int, first: date, wards: dict[str, int] = WARDS):
        self.random = random.Random(seed)
        self.wards = wards
        self.day = first
        self.n_numbers = 0
        self.n_visits = 0
        self.n_mistakes = 0
        # Some patients of the table of outcomes lie where nothing is screened.
        self.people = [Person([self.stay(None)]) for _ in range(10)]
        self.present: list[Person] = []
        self.merges: list[tuple[str, str, date]] = []
        # Merges that are mistakes, with the day on which they are undone.
        self.mistakes: list[tuple[Person, str, date]] = []
        self.move_in()

    def stay(self, ward: str | None, number: str | None = None) -> Stay:
        """Return a new stay, which may bring an event."""
        if number is None:
            self.n_numbers += 1
            number = f"00{10000 + 13 * self.n_numbers}"
        self.n_visits += 1
        stay = Stay(number, f"V{70000 + 7 * self.n_visits}", ward)
        if self.random.random() < GETS_EVENT:
            stay.events.append(self.event())
        return stay

    def event(self) -> Event:
        """Return an event of the next days, with how it will be entered."""
        hours = self.random.randint(-12 * 60, 9 * 24 * 60)
        midnight = datetime(self.day.year, self.day.month, self.day.day)
        time = midnight + timedelta(minutes=hours)
        writing = self.random.choice(WRITINGS)
        if time.date() == CLOCK_FORWARD and time.hour == 2:
            time += timedelta(hours=1)
        if time.date() == CLOCK_BACK and self.random.random() < 0.7:
            # The hour that exists twice. A time without a zone is the first of both.
            is_second = writing == "zone" and self.random.random() < 0.5
            time = time.replace(hour=2, fold=int(is_second))
        entered = time.date() + timedelta(days=self.random.randint(2, 6))
        event = Event(time, entered, writing)
        if self.random.random() < 0.3:
            event.corrected = entered + timedelta(days=self.random.randint(1, 5))
            is_moved = self.random.random() < 0.6
            event.right = time - timedelta(hours=24) if is_moved else None
            if event.right and event.right.date() == CLOCK_FORWARD:
                event.right -= timedelta(hours=24)
        return event

    def move_in(self) -> None:
        """Fill the beds, with people who were here before and with new ones."""
        for ward, n_beds in self.wards.items():
            n_free = n_beds - sum(one.stays[-1].ward == ward for one in self.present)
            for _ in range(n_free):
                gone = [one for one in self.people if one.stays[-1].end is not None]
                if gone and self.random.random() < RETURNS:
                    person = self.random.choice(gone)
                    # One of four who return is given a second number by mistake.
                    is_known = self.random.random() < 0.75 or person.is_mistaken
                    old = person.number
                    person.stays.append(self.stay(ward, old if is_known else None))
                    if not is_known:
                        self.note_merge(old, person.number)
                else:
                    person = Person([self.stay(ward)])
                    self.people.append(person)
                self.present.append(person)

    def note_merge(self, old: str, new: str) -> None:
        """Note two numbers of a person; the numbers merged into the old one follow."""
        self.merges = [
            (one, new if into == old else into, since)
            for one, into, since in self.merges
        ]
        since = self.day + timedelta(days=self.random.randint(0, 2))
        self.merges.append((old, new, since))

    def mistake(self) -> None:
        """Merge two persons, which is found out some days later."""
        numbers = {number for merge in self.merges for number in merge[:2]}
        free = [one for one in self.present if one.number not in numbers]
        if len(free) < 2 or self.random.random() > MERGED_BY_MISTAKE:
            return
        one, other = self.random.sample(free, 2)
        one.is_mistaken = other.is_mistaken = True
        self.merges.append((one.number, other.number, self.day))
        undone = self.day + timedelta(days=self.random.randint(2, 9))
        self.mistakes.append((one, other.number, undone))
        self.n_mistakes += 1

    def undone(self) -> list[str]:
        """Return the old numbers of mistakes that are found out today."""
        found = [one for one in self.mistakes if one[2] <= self.day]
        self.mistakes = [one for one in self.mistakes if one[2] > self.day]
        numbers = [person.number for person, _, _ in found]
        into = [number for _, number, _ in found]
        for person in self.people:
            if person.number in (*numbers, *into):
                person.is_mistaken = False
        self.merges = [one for one in self.merges if one[0] not in numbers]
        return numbers

    def go_on(self) -> None:
        """Let a day pass: people leave, move, get another number, and come."""
        self.day += timedelta(days=1)
        for person in list(self.present):
            stay = person.stays[-1]
            if self.random.random() < LEAVES:
                stay.end = datetime(self.day.year, self.day.month, self.day.day, 4, 30)
                self.present.remove(person)
            elif self.random.random() < MOVES:
                stay.ward = self.random.choice(list(self.wards))
            elif self.random.random() < RENUMBERED and not person.is_mistaken:
                old = person.number
                self.n_numbers += 1
                stay.number = f"00{10000 + 13 * self.n_numbers}"
                self.note_merge(old, person.number)
        self.move_in()

    def lines(self, day: date) -> list[tuple[str, str, str, str]]:
        """Return the table of outcomes of a day: patient, visit, time, end."""
        lines = []
        for stay in (stay for person in self.people for stay in person.stays):
            end = stay.stated_end(day)
            until = f"{end:%Y-%m-%d %H:%M}" if end else ""
            texts = []
            for event in stay.events:
                if time := event.stated(day):
                    texts.append(as_written(time, event.writing))
            names = stay.number, stay.visit
            lines += [(*names, text, until) for text in texts or [""]]
        return lines


def as_written(time: datetime, writing: str) -> str:
    """Return a time on the hospital's clock as one of its systems writes it."""
    if writing == "yes":
        return "yes"
    if writing == "date":
        return f"{time:%Y-%m-%d}"
    if writing == "zone":
        return f"{instant(time):%Y-%m-%dT%H:%M}Z"
    return f"{time:%Y-%m-%d %H:%M}"


# --- The tool. ---


def screen(*words: object, codes: Iterable[int] = (0,)) -> Any:
    """Run a command in this process; return its answer."""
    ended = CliRunner().invoke(app, [str(word) for word in words])
    if ended.exit_code not in codes:
        said = f"{' '.join(map(str, words))}: exit {ended.exit_code}\n{ended.stderr}"
        raise SystemExit(said)
    return json.loads(ended.stdout) if "--json" in words and ended.stdout else None


def values(rng: np.random.Generator, is_ill: np.ndarray) -> pd.DataFrame:
    """Return what is measured of patients."""
    crp = np.exp(rng.normal(2.3, 0.6, len(is_ill)) + 1.6 * is_ill).round(1)
    fever = (rng.normal(37, 0.4, len(is_ill)) + 0.8 * is_ill).round(1)
    return pd.DataFrame({"crp": crp, "temperature": fever})


def make_model(folder: Path, *, by_stay: bool = False) -> Path:
    """Train the model of all wards, or of those by stay, on past patients."""
    rng = np.random.default_rng(1)
    is_ill = rng.random(600) < 0.2
    past = values(rng, is_ill)
    past.insert(0, "patient", [f"00{90000 + number}" for number in range(600)])
    past["septic"] = np.where(is_ill, "yes", "no")
    columns = {"within": "72h", "time": "infected_at", "until": "discharged_at"}
    outcome = OutcomeDefinition(again="7d", **columns)
    roles = {"id": "patient"}
    if by_stay:
        past.insert(0, "visit", [f"V{60000 + number}" for number in range(600)])
        outcome = OutcomeDefinition(by="stay", id="visit", **columns)
        roles = {"id": "visit", "group": "patient"}
    contract = Contract(
        label="septic", time_zone=ZONE, hour="06:00", outcome=outcome, **roles
    )
    how = {"search": 1, "beside": (), "jobs": 1}
    model = train(past, "logistic", contract=contract, rule=MaxFlagRate(0.25), **how)
    place = folder / ("model by stay" if by_stay else "model")
    save_model(model, place)
    return place


@dataclass
class Trial:
    """The hospital, its books, and the ledger of the tool in a folder."""

    folder: Path
    model: Path
    model_by_stay: Path
    hospital: Hospital
    rng: np.random.Generator
    books: Books = field(default_factory=Books)
    compared: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    n_refused: int = 0
    n_corrected: int = 0
    n_undone: int = 0

    @property
    def ledger(self) -> tuple[str, str]:
        """Words of a command that name the ledger."""
        return "--ledger", str(self.folder / "ledger.db")

    def compare(self, what: str, where: str, ours: Any, own: Any) -> None:
        """Count a figure, and tell if it is not that of the books."""
        self.compared[what] += 1
        is_same = ours == own
        if isinstance(ours, float) and isinstance(own, float):
            is_same = abs(ours - own) < 1e-6
        if not is_same:
            self.different[what] += 1
            self.told.append(f"{where} {what}: {ours}, by the books {own}")

    def score(self, ward: str, spoilt: str | None = None, how: str = "") -> Night:
        """Deliver and score tonight's table, or a corrected one, as `how` says."""
        day = self.hospital.day
        stay_of = {
            person.number: person.stays[-1]
            for person in self.hospital.present
            if person.stays[-1].ward == ward
        }
        now = datetime(day.year, day.month, day.day, 6)
        is_ill = [
            any(timedelta(0) < event.time - now < WITHIN for event in stay.events)
            for stay in stay_of.values()
        ]
        table = values(self.rng, np.array(is_ill))
        table.insert(0, "patient", list(stay_of))
        model = self.model
        if ward in BY_STAY:
            table.insert(0, "visit", [stay.visit for stay in stay_of.values()])
            model = self.model_by_stay
        path = self.folder / f"{ward}.csv"
        run = self.folder / f"{ward} {day}{how}"
        words = ("score", model, path, "--out", run, "--date", day, *self.ledger)
        words += ("--series", ward, "--jobs", "1")
        if how:
            words += ("--replace", how)
        if spoilt is not None:
            rewritten(table["patient"], spoilt, table).to_csv(path, index=False)
            screen(*words, codes=[3])
            self.n_refused += 1
        table.to_csv(path, index=False)
        screen(*words)
        scored = pd.read_parquet(run / "scores.parquet")
        named = "group" if ward in BY_STAY else "id"
        flagged = set(scored.loc[scored["flagged"], named])
        night = Night(day, dict(stay_of), flagged, run=run)
        if how:
            self.books.replace(ward, night)
        else:
            self.books.enter(ward, night)
        return night

    def correct(self, ward: str) -> None:
        """Deliver tonight's table again; an old page is reviewed before and after."""
        before = self.books.nights[ward][-1]
        self.review(before)
        night = self.score(ward, how=" corrected")
        self.n_corrected += 1
        drawn = {one["id"] for one in night.document["sample"]}
        words = self.words_on(before.flagged - (drawn - night.flagged))
        self.enter_verdicts(night.run, before.document["run_id"], "ab", words)
        for number, word in words.items():
            run = night if number in night.flagged else before
            say(run, number, "ab", word)

    def words_on(self, numbers: Iterable[str]) -> dict[str, str]:
        """Return verdicts on some of the cases."""
        chance = self.hospital.random
        return {
            number: chance.choice(WORDS)
            for number in sorted(numbers)
            if chance.random() < REVIEWED
        }

    def enter_verdicts(
        self, run: Path, run_id: str, initials: str, words: dict[str, str]
    ) -> None:
        """Save verdicts as the page of a run does, and enter them."""
        verdicts = [{"id": name, "verdict": word} for name, word in words.items()]
        content = {"format": 1, "run_id": run_id, "initials": initials}
        path = self.folder / "verdicts.json"
        path.write_text(json.dumps(content | {"verdicts": verdicts}))
        screen("review", run, path, *self.ledger)

    def review(self, night: Night) -> None:
        """Enter verdicts on some cases of a night, perhaps days later.

        One who changes their mind may write their initials otherwise; another reviewer
        says the contrary of some.
        """
        chance = self.hospital.random
        words = self.words_on(night.flagged)
        changed = {
            name: chance.choice(WORDS)
            for name in words
            if chance.random() < MIND_CHANGED
        }
        contrary = {
            name: "confirmed" if word == "ruled out" else "ruled out"
            for name, word in (words | changed).items()
            if chance.random() < CONTRADICTED
        }
        run_id = night.document["run_id"]
        for initials, given in (("ab", words), ("A.B.", changed), ("cd", contrary)):
            self.enter_verdicts(night.run, run_id, initials, given)
            for number, word in given.items():
                say(night, number, "cd" if initials == "cd" else "ab", word)

    def merge(self) -> None:
        """Enter the merges that are old enough to be known, and undo mistakes."""
        day = self.hospital.day
        undone = [(old, "", day) for old in self.hospital.undone()]
        undone = [one for one in undone if one[0] in self.books.merges]
        self.n_undone += len(undone)
        self.hospital.mistake()
        due = [one for one in self.hospital.merges if one[2] <= self.hospital.day]
        is_entered = self.books.merges.get
        due = [one for one in due if is_entered(one[0]) != (one[1], one[2])]
        due = [*undone, *due]
        if not due:
            return
        path = self.folder / "merged.csv"
        lines = pd.DataFrame(due, columns=["old", "new", "since"])
        lines.to_csv(path, index=False)
        screen("ledger", "merge", path, *self.ledger)
        for one in due:
            self.books.merge(*one)

    def outcomes(
        self, spoilt: str | None, *, is_reach_stated: bool, days_short: int
    ) -> None:
        """Enter the table of outcomes of noon in every ward, and compare.

        `days_short`: so long ago the export ended.
        """
        day = self.hospital.day
        as_of = datetime(day.year, day.month, day.day, 12)
        ended = day - timedelta(days=days_short)
        columns = ["patient", "visit", "infected_at", "discharged_at"]
        table = pd.DataFrame(self.hospital.lines(ended), columns=columns, dtype=str)
        path = self.folder / "events.csv"
        until = f"{as_of:%Y-%m-%dT%H:%M}"
        for ward in WARDS:
            words = ("outcomes", path, "--series", ward, *self.ledger, "--json")
            words += ("--as-of", until)
            if is_reach_stated:
                words += ("--reach", until)
            if spoilt is not None:
                lying = list(self.books.nights[ward][-1].stay_of)
                ids = table["patient"].where(table["patient"].isin(lying))
                rewritten(ids, spoilt, table).to_csv(path, index=False)
                screen(*words, codes=[3])
                self.n_refused += 1
                spoilt = None
            table.to_csv(path, index=False)
            answer = screen(*words)
            own = self.books.outcomes(
                ward, self.hospital.people, ended, as_of, is_reach_stated
            )
            history = screen("history", *self.ledger, "--series", ward, "--json")
            of_history = history["series"][0]["outcomes"]
            for key, value in own.items():
                where = f"{day} {ward}"
                figures = answer if key in answer else answer["figures"]
                self.compare(f"outcomes {key}", where, looked_up(figures, key), value)
                if key not in answer:
                    found = looked_up(of_history, key)
                    self.compare(f"history outcomes {key}", where, found, value)

    def look(self) -> None:
        """Compare `status` with tonight's counts, and `history` with all nights."""
        day = self.hospital.day
        answer = screen("status", "--night", day, *self.ledger, "--json", codes=[0, 5])
        for line in answer["series"]:
            counts = self.books.nights[line["series"]][-1].counts
            for key, value in counts.items():
                where = f"{day} {line['series']}"
                self.compare(f"status {key}", where, line["counts"][key], value)
        history = screen("history", *self.ledger, "--json")
        for run in history["runs"]:
            nights = self.books.nights[run["series"]]
            night = next(one for one in nights if str(one.day) == run["night"])
            if not run["in_force"]:
                night = night.replaced
            where = f"{day} {run['series']} {run['night']}"
            for key, value in night.counts.items():
                self.compare(f"history {key}", where, run[key], value)
            words = Counter(night.words.values())
            for word in (*WORDS, "disputed"):
                found = run["verdicts"][word.replace(" ", "_")]
                self.compare(f"history verdicts {word}", where, found, words[word])
        for series in history["series"]:
            n_nights = len(self.books.nights[series["series"]])
            self.compare("history nights", str(day), series["nights"], n_nights)


def say(night: Night, number: str, reviewer: str, word: str) -> None:
    """Write a verdict into the books, as the last one of its case."""
    of_case = night.verdicts.setdefault(number, {})
    of_case.pop(reviewer, None)
    of_case[reviewer] = word


def looked_up(figures: dict[str, Any], key: str) -> Any:
    """Return a figure by the path to it."""
    for name in key.split("."):
        figures = figures[name]
    return figures


def rewritten(ids: pd.Series, writing: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with some of its ids, those given, in another writing."""
    given = ids.dropna()
    if writing == "zeros lost":
        changed = given.str.lstrip("0")
    else:
        # One row of all.
        changed = given.iloc[[len(given) // 2]]
        mark = {"hyphen": "-", "blank": " "}[writing]
        changed = changed.str[:3] + mark + changed.str[3:]
    patient = table["patient"].copy()
    patient[changed.index] = changed
    return table.assign(patient=patient)


def main() -> None:
    """Run the nights, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--nights", type=int, default=90)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        first = CLOCK_BACK - timedelta(days=min(options.nights // 2, 20))
        hospital = Hospital(options.seed, first)
        rng = np.random.default_rng(options.seed)
        models = make_model(folder), make_model(folder, by_stay=True)
        trial = Trial(folder, *models, hospital, rng)
        spoilt = {(4, "ward-a"): "zeros lost", (6, "ward-b"): "hyphen"}
        for number in range(options.nights):
            trial.merge()
            for ward in WARDS:
                trial.score(ward, spoilt.get((number, ward)))
                nights = trial.books.nights[ward]
                if number % 10 == 7 and ward in ("ward-b", "ward-d"):
                    trial.correct(ward)
                # Verdicts of one ward come two nights later.
                late = 2 if ward == "ward-c" else 0
                if number >= late:
                    trial.review(nights[-1 - late])
            is_last = number == options.nights - 1
            if number % 9 == 8 or is_last:
                trial.outcomes(
                    "blank" if number == 8 else None,
                    is_reach_stated=number % 2 == 0,
                    days_short=6 if number == 53 else 0,
                )
                trial.look()
            if not is_last:
                hospital.go_on()
        n_stays = [len(person.stays) for person in hospital.people]
    report(trial, sum(number > 1 for number in n_stays))
    if trial.different:
        raise SystemExit(1)


def report(trial: Trial, n_readmitted: int) -> None:
    """Print what was compared, and what differs."""
    print(
        f"{len(trial.hospital.people)} patients, {n_readmitted} readmitted; "
        f"{len(trial.books.merges)} merged numbers and {trial.n_undone} merges undone; "
        f"{trial.n_corrected} tables corrected; {trial.n_refused} tables with other "
        "writings of ids refused, then delivered rightly\n\n"
        "| count | compared | different |\n|---|---|---|"
    )
    for what, n_compared in trial.compared.items():
        print(f"| {what} | {n_compared} | {trial.different[what]} |")
    total = f"{trial.compared.total()} | {trial.different.total()}"
    print(f"| all | {total} |\n")
    for line in trial.told[:20]:
        print(f"- {line}")


if __name__ == "__main__":
    main()
