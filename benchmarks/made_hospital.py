"""A made hospital whose truth is known: is every count of the ledger that of its books?

    python benchmarks/made_hospital.py --nights 90

Three wards share a model and a ledger. Patients are readmitted, move between wards, and
are merged where they have two numbers; summer time begins half-way. Events are entered
days late, some by their date alone, some with a zone; some are corrected or taken back.
Thrice the ids are written otherwise: that must be refused, and then the right table
enters. The books are dictionaries of plain Python in `Books`, which knows of the tool
only who was flagged. Printed are the counts of `status`, `history` and `outcomes` that
were compared; the script fails if one differs.
"""

from __future__ import annotations

import argparse
import json
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

ZONE = "Europe/Berlin"
SUMMER_TIME = date(2026, 3, 29)
WARDS = {"ward-a": 24, "ward-b": 20, "ward-c": 16}
WITHIN, AGAIN, KNOWN_DAYS = timedelta(hours=72), timedelta(days=7), 30
LEAVES, MOVES, RETURNS, RENUMBERED = 0.18, 0.05, 0.3, 0.02
GETS_EVENT, REVIEWED = 0.3, 0.4
TRUTHS = ("past", "unknown", "censored", "open")
STATES = ("new", "pending", "ruled_out", "known")
WORDS = ("confirmed", "ruled out", "unsure", "known")
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
    ward: str | None
    events: list[Event] = field(default_factory=list)
    end: datetime | None = None

    def stated_end(self, day: date) -> datetime | None:
        """Return the end that the table of a day states."""
        return self.end if self.end and self.end.date() < day else None


@dataclass
class Person:
    """A person, whose last stay is the present one."""

    stays: list[Stay]

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
    words: dict[str, str] = field(default_factory=dict)

    @property
    def hour(self) -> datetime:
        """The instant at which the table was taken."""
        at_six = datetime(self.day.year, self.day.month, self.day.day, 6)
        return instant(at_six)


def instant(local: datetime) -> datetime:
    """Return the instant of a time on the hospital's clock."""
    return local.replace(tzinfo=ZoneInfo(ZONE)).astimezone(UTC)


class Books:
    """Independent bookkeeping of all wards."""

    def __init__(self) -> None:
        self.nights: dict[str, list[Night]] = {ward: [] for ward in WARDS}
        self.merges: dict[str, tuple[str, date]] = {}
        self.recorded: dict[str, dict[str, frozenset]] = {ward: {} for ward in WARDS}

    def merge(self, old: str, new: str, since: date) -> None:
        """Take two numbers as one patient from a day on."""
        self.merges[old] = (new, since)
        for facts in self.recorded.values():
            if old in facts:
                facts[new] = facts.pop(old) | facts.get(new, frozenset())

    def patient(self, number: str, day: date | None = None) -> str:
        """Return the number of a patient, on a night or by all that is known now."""
        new, since = self.merges.get(number, (number, None))
        return number if day and since and since > day else new

    def enter(self, ward: str, night: Night) -> None:
        """Enter a night, and count its cases by state."""
        before = self.nights[ward]
        last: dict[str, int] = {}
        for number, length in before[-1].streak.items() if before else ():
            patient = self.patient(number, night.day)
            last[patient] = max(length, last.get(patient, 0))
        judged = {}
        for earlier in before:
            for number, word in earlier.words.items():
                judged[self.patient(number, night.day)] = (earlier.day, word)
        counts = Counter(read=len(night.stay_of), flagged=len(night.flagged))
        for number in night.flagged:
            patient = self.patient(number, night.day)
            n_before = last.pop(patient, 0)
            night.streak[number] = n_before + 1
            begins = before[-n_before].day if n_before else night.day
            given, word = judged.get(patient, (date.min, ""))
            in_row = n_before > 0 and given >= begins
            is_recent = given >= night.day - timedelta(days=KNOWN_DAYS)
            if word in ("confirmed", "known") and (in_row or is_recent):
                counts["known"] += 1
            elif word == "ruled out" and in_row:
                counts["ruled_out"] += 1
            else:
                counts["pending" if n_before else "new"] += 1
        counts["no_longer_flagged"] = len(last)
        counts["cases"] = sum(counts[state] for state in STATES)
        keys = ("read", "flagged", "cases", *STATES, "no_longer_flagged")
        night.counts = {key: counts[key] for key in keys}
        before.append(night)

    def outcomes(
        self, ward: str, people: list[Person], as_of: datetime
    ) -> dict[str, Any]:
        """Return the counts of a ward by what a day's table of outcomes states."""
        day = as_of.date()
        facts: dict[str, set] = {}
        events: dict[str, set[datetime]] = {}
        without_time: set[str] = set()
        for stay in (stay for person in people for stay in person.stays):
            unit = self.patient(stay.number)
            of_unit = facts.setdefault(unit, set())
            if end := stay.stated_end(day):
                of_unit.add(("until", end))
            for event in stay.events:
                time = event.stated(day)
                if time is None:
                    continue
                if event.writing == "yes":
                    of_unit.add(("yes", None))
                    without_time.add(unit)
                    continue
                if event.writing == "date":
                    time = time.replace(hour=12, minute=0)
                of_unit.add((event.writing == "date", time))
                events.setdefault(unit, set()).add(instant(time))
        counts = self._entered(ward, {name: frozenset(facts[name]) for name in facts})
        judged = self._judged(ward, events, without_time, as_of)
        return counts | judged

    def _entered(self, ward: str, facts: dict[str, frozenset]) -> dict[str, int]:
        """Return the patients whose outcomes are new, corrected or of nobody."""
        nights = self.nights[ward]
        scored = {self.patient(one) for night in nights for one in night.stay_of}
        recorded = self.recorded[ward]
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
        recorded |= {name: facts[name] for name in facts if name in scored}
        return {**counts, "table.patients": len(facts)}

    def _judged(
        self,
        ward: str,
        events: dict[str, set[datetime]],
        without_time: set[str],
        as_of: datetime,
    ) -> dict[str, Any]:
        """Return the counts of rows by their truth, and the lead times."""
        counts: Counter[str] = Counter()
        patients = set()
        followed: dict[tuple[str, datetime], list[tuple[int, bool]]] = {}
        flags: dict[str, set[int]] = {}
        nights = self.nights[ward]
        for place, night in enumerate(nights):
            start, end = night.hour, night.hour + WITHIN
            for number, stay in night.stay_of.items():
                unit = self.patient(number)
                is_flagged = number in night.flagged
                times = sorted(events.get(unit, ()))
                before = [time for time in times if time < start]
                inside = [time for time in times if start <= time <= end]
                left = stay.stated_end(as_of.date())
                if before and start < before[-1] + AGAIN:
                    counts["past"] += 1
                    continue
                if is_flagged:
                    flags.setdefault(unit, set()).add(place)
                if inside:
                    line = (place, is_flagged)
                    followed.setdefault((unit, inside[0]), []).append(line)
                elif unit in without_time:
                    counts["unknown"] += 1
                    continue
                elif left and instant(left) < end:
                    counts["censored"] += 1
                    continue
                if end > instant(as_of):
                    counts["open"] += 1
                    continue
                patients.add(unit)
                counts["rows"] += 1
                counts["cases"] += bool(inside)
                counts["flagged"] += is_flagged
                counts["true_positive"] += is_flagged and bool(inside)
        unbroken, first = [], []
        for (unit, event), lines in followed.items():
            flagged = [place for place, is_flagged in lines if is_flagged]
            if flagged:
                first.append(event - nights[flagged[0]].hour)
            if lines[-1][1]:
                place = lines[-1][0]
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
    """Beds of three wards, and everybody who was ever in them."""

    def __init__(self, seed: int, first: date):
        self.random = random.Random(seed)
        self.day = first
        self.n_numbers = 0
        # Some patients of the table of outcomes lie where nothing is screened.
        self.people = [Person([self.stay(None)]) for _ in range(10)]
        self.present: list[Person] = []
        self.merges: list[tuple[str, str, date]] = []
        self.move_in()

    def stay(self, ward: str | None, number: str | None = None) -> Stay:
        """Return a new stay, which may bring an event."""
        if number is None:
            self.n_numbers += 1
            number = f"00{10000 + 13 * self.n_numbers}"
        stay = Stay(number, ward)
        if self.random.random() < GETS_EVENT:
            stay.events.append(self.event())
        return stay

    def event(self) -> Event:
        """Return an event of the next days, with how it will be entered."""
        hours = self.random.randint(-12 * 60, 9 * 24 * 60)
        midnight = datetime(self.day.year, self.day.month, self.day.day)
        time = midnight + timedelta(minutes=hours)
        if time.date() == SUMMER_TIME and time.hour == 2:
            time += timedelta(hours=1)
        writing = self.random.choice(WRITINGS)
        entered = time.date() + timedelta(days=self.random.randint(2, 6))
        event = Event(time, entered, writing)
        if self.random.random() < 0.3:
            event.corrected = entered + timedelta(days=self.random.randint(1, 5))
            is_moved = self.random.random() < 0.6
            event.right = time - timedelta(hours=24) if is_moved else None
            if event.right and event.right.date() == SUMMER_TIME:
                event.right -= timedelta(hours=24)
        return event

    def move_in(self) -> None:
        """Fill the beds, with people who were here before and with new ones."""
        for ward, n_beds in WARDS.items():
            n_free = n_beds - sum(one.stays[-1].ward == ward for one in self.present)
            for _ in range(n_free):
                gone = [one for one in self.people if one.stays[-1].end is not None]
                if gone and self.random.random() < RETURNS:
                    person = self.random.choice(gone)
                    # One of four who return is given a second number by mistake.
                    is_known = self.random.random() < 0.75
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

    def go_on(self) -> None:
        """Let a day pass: people leave, move, get another number, and come."""
        self.day += timedelta(days=1)
        for person in list(self.present):
            stay = person.stays[-1]
            if self.random.random() < LEAVES:
                stay.end = datetime(self.day.year, self.day.month, self.day.day, 4, 30)
                self.present.remove(person)
            elif self.random.random() < MOVES:
                stay.ward = self.random.choice(list(WARDS))
            elif self.random.random() < RENUMBERED:
                old = person.number
                self.n_numbers += 1
                stay.number = f"00{10000 + 13 * self.n_numbers}"
                self.note_merge(old, person.number)
        self.move_in()

    def lines(self, day: date) -> list[tuple[str, str, str]]:
        """Return the table of outcomes of a day: patient, time, end of the stay."""
        lines = []
        for stay in (stay for person in self.people for stay in person.stays):
            end = stay.stated_end(day)
            until = f"{end:%Y-%m-%d %H:%M}" if end else ""
            texts = []
            for event in stay.events:
                if time := event.stated(day):
                    texts.append(as_written(time, event.writing))
            lines += [(stay.number, text, until) for text in texts or [""]]
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


def make_model(folder: Path) -> Path:
    """Train the model of all wards on past patients."""
    rng = np.random.default_rng(1)
    is_ill = rng.random(600) < 0.2
    past = values(rng, is_ill)
    past.insert(0, "patient", [f"00{90000 + number}" for number in range(600)])
    past["septic"] = np.where(is_ill, "yes", "no")
    outcome = OutcomeDefinition(
        within="72h", time="infected_at", until="discharged_at", again="7d"
    )
    contract = Contract(
        label="septic", id="patient", time_zone=ZONE, hour="06:00", outcome=outcome
    )
    how = {"search": 1, "beside": (), "jobs": 1}
    model = train(past, "logistic", contract=contract, rule=MaxFlagRate(0.25), **how)
    save_model(model, folder / "model")
    return folder / "model"


@dataclass
class Trial:
    """The hospital, its books, and the ledger of the tool in a folder."""

    folder: Path
    model: Path
    hospital: Hospital
    rng: np.random.Generator
    books: Books = field(default_factory=Books)
    compared: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    n_refused: int = 0

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

    def score(self, ward: str, spoilt: str | None) -> None:
        """Deliver and score tonight's table, and review some of its cases."""
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
        path = self.folder / f"{ward}.csv"
        run = self.folder / f"{ward} {day}"
        words = ("score", self.model, path, "--out", run, "--date", day, *self.ledger)
        words += ("--series", ward, "--jobs", "1")
        if spoilt is not None:
            rewritten(table["patient"], spoilt, table).to_csv(path, index=False)
            screen(*words, codes=[3])
            self.n_refused += 1
        table.to_csv(path, index=False)
        screen(*words)
        scored = pd.read_parquet(run / "scores.parquet", columns=["id", "flagged"])
        flagged = set(scored.loc[scored["flagged"], "id"])
        night = Night(day, dict(stay_of), flagged)
        self.books.enter(ward, night)

    def review(self, ward: str, night: Night) -> None:
        """Enter verdicts on some cases of a night, perhaps days later."""
        words = {
            number: self.hospital.random.choice(WORDS)
            for number in sorted(night.flagged)
            if self.hospital.random.random() < REVIEWED
        }
        run = self.folder / f"{ward} {night.day}"
        run_id = json.loads((run / "run.json").read_text(encoding="utf-8"))["run_id"]
        verdicts = [{"id": name, "verdict": word} for name, word in words.items()]
        content = {"format": 1, "run_id": run_id, "initials": "ab"}
        path = self.folder / "verdicts.json"
        path.write_text(json.dumps(content | {"verdicts": verdicts}))
        screen("review", run, path, *self.ledger)
        night.words |= words

    def merge(self) -> None:
        """Enter the merges that are old enough to be known."""
        due = [one for one in self.hospital.merges if one[2] <= self.hospital.day]
        is_entered = self.books.merges.get
        due = [one for one in due if is_entered(one[0]) != (one[1], one[2])]
        if not due:
            return
        path = self.folder / "merged.csv"
        lines = pd.DataFrame(due, columns=["old", "new", "since"])
        lines.to_csv(path, index=False)
        screen("ledger", "merge", path, *self.ledger)
        for one in due:
            self.books.merge(*one)

    def outcomes(self, spoilt: str | None) -> None:
        """Enter the table of outcomes of noon in every ward, and compare."""
        day = self.hospital.day
        as_of = datetime(day.year, day.month, day.day, 12)
        lines = self.hospital.lines(day)
        table = pd.DataFrame(
            lines, columns=["patient", "infected_at", "discharged_at"], dtype=str
        )
        path = self.folder / "events.csv"
        until = f"{as_of:%Y-%m-%dT%H:%M}"
        for ward in WARDS:
            words = ("outcomes", path, "--series", ward, *self.ledger, "--json")
            words += ("--as-of", until, "--reach", until)
            if spoilt is not None:
                lying = list(self.books.nights[ward][-1].stay_of)
                ids = table["patient"].where(table["patient"].isin(lying))
                rewritten(ids, spoilt, table).to_csv(path, index=False)
                screen(*words, codes=[3])
                self.n_refused += 1
                spoilt = None
            table.to_csv(path, index=False)
            answer = screen(*words)
            own = self.books.outcomes(ward, self.hospital.people, as_of)
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
            where = f"{day} {run['series']} {run['night']}"
            for key, value in night.counts.items():
                self.compare(f"history {key}", where, run[key], value)
            words = Counter(night.words.values())
            for word in WORDS:
                found = run["verdicts"][word.replace(" ", "_")]
                self.compare(f"history verdicts {word}", where, found, words[word])
        for series in history["series"]:
            n_nights = len(self.books.nights[series["series"]])
            self.compare("history nights", str(day), series["nights"], n_nights)


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
        first = SUMMER_TIME - timedelta(days=options.nights // 2)
        hospital = Hospital(options.seed, first)
        rng = np.random.default_rng(options.seed)
        trial = Trial(folder, make_model(folder), hospital, rng)
        spoilt = {(4, "ward-a"): "zeros lost", (6, "ward-b"): "hyphen"}
        for number in range(options.nights):
            trial.merge()
            for ward in WARDS:
                trial.score(ward, spoilt.get((number, ward)))
                nights = trial.books.nights[ward]
                # Verdicts of one ward come two nights later.
                late = 2 if ward == "ward-c" else 0
                if number >= late:
                    trial.review(ward, nights[-1 - late])
            is_last = number == options.nights - 1
            if number % 9 == 8 or is_last:
                trial.outcomes("blank" if number == 8 else None)
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
        f"{len(trial.books.merges)} merged numbers; {trial.n_refused} tables with other "
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
