"""Thirty nights of three wards by the runbook's commands, with a fault on 27 of them.

    python benchmarks/thirty_nights.py --place sqlite
    python benchmarks/thirty_nights.py --place postgresql

Three wards of a made hospital share one model and one NIGHT.toml, which names tables of
outcomes, merged numbers and a folder of verdicts. From the fourth night on each night
has a fault of another kind. Of each is asked: is it named the same night, with the exit
code that is documented and in words that fit? Then a person does what the words ask
for, such as delivering the right table, and types the printed command as it stands in
bash, in a folder whose name a shell would act on. Is the night then what was promised,
and the fault no longer named? Every count of `run`, `status`, `history` and `outcomes`
is compared with the books of `made_hospital.py`. On PostgreSQL the ledger is a database
of a server that the script starts. At the end the ledger is backed up, restored
elsewhere, and compared. Printed as markdown: a line a fault, then the counts; the
script fails if a fault is not named, a remedy does not mend, or a count differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from made_hospital import ZONE, Books, Hospital, Night, Stay, Trial, screen, values

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from ledger_places import database, server

NIGHTS = 30
WARDS = {"ward-a": 56, "ward-b": 44, "ward-c": 30}
# A shell that takes it as anything but a name makes a file.
FOLDER = "county $(touch pwned) 'hospital' & touch pwned #"
CONTRACT = f"""
[cohort]
label = "septic"
positive = "yes"
id = "patient"
time_zone = "{ZONE}"
hour = "06:00"

[outcome]
within = "72h"
time = "infected_at"
until = "discharged_at"
again = "7d"
as_of = "complete_to"
"""
SITE = """
[site]
title = "County hospital"
{ledger}
runs = "runs"
publish = "pages"
verdicts = "inbox"
merged = "merged.csv"
jobs = 1
catch_up = 3
"""
SECTION = """
[series."{ward}"]
model = "models/sepsis"  # of all wards
cohort = "in/{{series}}/{{date}}.csv"
outcomes = "events.csv"
"""
TRAIN = "--recipe logistic --search 1 --beside none --max-flag-rate 0.2 --jobs 1"
KNOWN = ("--known-before", "crp,temperature")
WHO = ("--by", "A. Physician", "--reason", "it is known")


@dataclass(frozen=True)
class Said:
    """What a command said of a night, and the commands that it printed.

    Parameters
    ----------
    code : int
    words : str
    remedies : list of str
    status : str
        Of the ward's night, "" without an overview.
    """

    code: int
    words: str
    remedies: list[str]
    status: str


@dataclass
class Site(Trial):
    """The site, its books, and what was delivered and typed."""

    place: str = ""
    day: date = date.min
    right: dict[str, pd.DataFrame] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    n_inbox: int = 0
    n_typed: int = 0
    kept: dict[str, bytes] = field(default_factory=dict)

    @property
    def ledger(self) -> tuple[str, str]:
        """Words of a command that name the ledger."""
        return "--ledger", self.place

    @property
    def file(self) -> Path:
        """The site's file."""
        return self.folder / "NIGHT.toml"

    def table(self, ward: str) -> Path:
        """Return the place of tonight's table."""
        return self.folder / "in" / ward / f"{self.day}.csv"

    def run_of(self, ward: str, day: date) -> Path:
        """Return the run directory of a night."""
        return self.folder / "runs" / ward / str(day)

    # What happens every day.

    def deliver(self) -> None:
        """Write the right tables of tonight: of each ward, of outcomes, of merges."""
        self.day = self.hospital.day
        now = datetime(self.day.year, self.day.month, self.day.day, 6)
        for ward in WARDS:
            stays = {
                person.number: person.stays[-1]
                for person in self.hospital.present
                if person.stays[-1].ward == ward
            }
            is_ill = [
                any(
                    timedelta(0) < event.time - now < timedelta(hours=72)
                    for event in stay.events
                )
                for stay in stays.values()
            ]
            table = values(self.rng, np.array(is_ill))
            table.insert(0, "patient", list(stays))
            self.right[ward] = table
            self.deliver_right(ward)
        self.write_outcomes()
        self.write_merges()

    def deliver_right(self, ward: str) -> None:
        """Write the table of a ward as it should be."""
        place = self.table(ward)
        place.parent.mkdir(parents=True, exist_ok=True)
        self.right[ward].to_csv(place, index=False)

    def outcomes_table(self) -> pd.DataFrame:
        """Return the table of outcomes of noon."""
        columns = ["patient", "visit", "infected_at", "discharged_at"]
        lines = pd.DataFrame(self.hospital.lines(self.day), columns=columns, dtype=str)
        return lines.drop(columns="visit").assign(complete_to=f"{self.day} 12:00")

    def write_outcomes(self) -> None:
        """Write the table of outcomes as it should be."""
        self.outcomes_table().to_csv(self.folder / "events.csv", index=False)

    def write_merges(self) -> None:
        """Write what is new in the merged numbers, and enter it into the books."""
        undone = [(old, "", self.day) for old in self.hospital.undone()]
        undone = [one for one in undone if one[0] in self.books.merges]
        self.n_undone += len(undone)
        self.hospital.mistake()
        known = self.books.merges
        due = [
            one
            for one in self.hospital.merges
            if one[2] <= self.day and known.get(one[0]) != one[1:]
        ]
        lines = pd.DataFrame([*undone, *due], columns=["old", "new", "since"])
        lines.to_csv(self.folder / "merged.csv", index=False)
        for one in [*undone, *due]:
            self.books.merge(*one)

    def stays_of(self, table: Path) -> dict[str, Stay]:
        """Return the stays of the patients whom a delivered table names."""
        stays = {person.number: person.stays[-1] for person in self.hospital.people}
        ids = pd.read_csv(table, dtype=str)["patient"]
        return {number: stays[number] for number in ids}

    def enter(self, answer: dict[str, Any]) -> None:
        """Enter into the books what a run published, or what replaced a night."""
        for line in [*answer["caught_up"], *answer["series"]]:
            if line["status"] not in ("published", "unchanged") or line["shadow"]:
                continue
            ward, day = line["series"], date.fromisoformat(line["night"])
            run = self.run_of(ward, day)
            known = {night.day: night for night in self.books.nights[ward]}
            entry = json.loads((run / "run.json").read_text())["ledger"]["entry"]
            if day in known and self.entries[ward, day] == entry:
                continue
            scored = pd.read_parquet(run / "scores.parquet")
            flagged = set(scored.loc[scored["flagged"], "id"])
            stays = self.stays_of(self.folder / "in" / ward / f"{day}.csv")
            night = Night(day, stays, flagged, run=run)
            if day in known:
                self.books.replace(ward, night)
                self.n_corrected += 1
            else:
                self.books.enter(ward, night)
            self.entries[ward, day] = entry

    entries: dict[tuple[str, date], int] = field(default_factory=dict)

    def run(self, ward: str) -> Said:
        """Run the night in this process; return what is said of a ward."""
        words = ("run", self.file, "--date", self.day, "--json")
        ended = invoked(*words)
        return self.heard(ended.exit_code, ended.stdout, ended.stderr, ward)

    def heard(self, code: int, stdout: str, stderr: str, ward: str) -> Said:
        """Enter what a run answered; return what it said of a ward."""
        answer = json.loads(stdout) if stdout.startswith("{") else {}
        self.answer = answer
        if "series" not in answer:
            return Said(code, stderr, printed(stderr), "")
        self.enter(answer)
        lines = [
            line
            for line in [*answer["caught_up"], *answer["series"]]
            if line["series"] == ward
        ]
        words = [line["said"] or "" for line in lines]
        reasons = [reason for line in lines for reason in line["attention"]]
        reasons += answer["attention"]
        words += [f"{reason['code']}: {reason['words']}" for reason in reasons]
        words += [file["refused"] or "" for file in answer["verdicts"]]
        words += [file["refused"] or "" for file in answer["outcomes"]]
        failed = [line for line in lines if line["status"] == "failed"] or lines[-1:]
        remedies = [command for line in failed for command in line["remedies"]]
        status = failed[0]["status"] if failed else ""
        return Said(code, " ".join(words), remedies, status)

    def type(self, command: str, codes: tuple[int, ...] = (0,)) -> str:
        """Type a printed command in bash, as a person would; return what it printed."""
        ended = in_bash(written_out(command), self.folder)
        self.n_typed += 1
        if ended.returncode not in codes:
            raise Unmended(f"`{command}` ended with {ended.returncode}: {ended.stderr}")
        return ended.stdout + ended.stderr

    def enter_verdicts(
        self, run: Path, run_id: str, initials: str, words: dict[str, str]
    ) -> None:
        """Put a file of verdicts into the site's folder, as the page saves it."""
        verdicts = [{"id": name, "verdict": word} for name, word in words.items()]
        content = {"format": 1, "run_id": run_id, "initials": initials}
        self.n_inbox += 1
        path = self.folder / "inbox" / f"{self.n_inbox:05d}.json"
        path.write_text(json.dumps(content | {"verdicts": verdicts}))

    # What is compared.

    def compare_run(self, is_faulty: bool) -> None:
        """Compare the overview of tonight with the books."""
        as_of = datetime(self.day.year, self.day.month, self.day.day, 12)
        own = {
            ward: self.books.outcomes(
                ward, self.hospital.people, self.day, as_of, is_reach_stated=True
            )
            for ward in WARDS
            if self.books.nights[ward]
        }
        lines = {line["series"]: line for line in self.answer["series"]}
        for ward in WARDS:
            night = self.books.nights[ward][-1]
            if night.day != self.day:
                continue
            where = f"{self.day} {ward}"
            for key, count in (
                ("scored", len(night.stay_of)),
                ("flagged", len(night.flagged)),
            ):
                self.compare(f"run {key}", where, lines[ward][key], count)
        for table in self.answer["outcomes"]:
            where = f"{self.day} {table['series']}"
            counts = own[table["series"]]
            # What was entered before the night was mended is not new a second time.
            keys = () if is_faulty else ("new", "corrected", "withdrawn", "unknown")
            for key in keys:
                self.compare(f"run outcomes {key}", where, table[key], counts[key])
            patients = table["table"]["patients"]
            self.compare(
                "run outcomes patients", where, patients, counts["table.patients"]
            )
        history = screen("history", *self.ledger, "--json")
        for series in history["series"]:
            where = f"{self.day} {series['series']}"
            for key, count in own[series["series"]].items():
                if key in (
                    "new",
                    "corrected",
                    "withdrawn",
                    "unknown",
                    "table.patients",
                ):
                    continue
                found = series["outcomes"]
                for name in key.split("."):
                    found = found[name]
                self.compare(f"history outcomes {key}", where, found, count)

    def compare_pages(self) -> None:
        """Compare the published pages with those of the runs, and the newest."""
        for ward in WARDS:
            nights = self.books.nights[ward]
            pages = self.folder / "pages" / ward
            for night in nights:
                own = (night.run / "report.html").read_bytes()
                page = (pages / f"{night.day}.html").read_bytes()
                self.compare("pages", f"{ward} {night.day}", page == own, True)
            latest = (pages / "latest.html").read_bytes()
            own = (nights[-1].run / "report.html").read_bytes()
            self.compare("latest pages", ward, latest == own, True)


class Unmended(Exception):
    """A remedy that was typed did not do what was promised."""


def invoked(*words: object) -> Any:
    """Run a command in this process; return its result."""
    from typer.testing import CliRunner

    from screening.cli import app

    return CliRunner().invoke(app, [str(word) for word in words])


def in_bash(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line in bash, in a folder."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def written_out(command: str) -> str:
    """Return a printed command with words in place of those in capitals."""
    for word, text in (("WHY", "it is meant"), ("NAME", "A. Physician")):
        command = command.replace(f" {word}", f" '{text}'")
    return command


def printed(text: str) -> list[str]:
    """Return the commands that an error prints."""
    return re.findall(r"screen [a-z]+ .*?(?=$|, (?:or|and) |; )", text, re.MULTILINE)


# --- How each fault comes about. ---


def changed(
    change: Callable[[pd.DataFrame], pd.DataFrame],
) -> Callable[[Site, str], None]:
    """Return what delivers a changed table."""

    def plant(site: Site, ward: str) -> None:
        change(site.right[ward].copy()).to_csv(site.table(ward), index=False)

    return plant


def no_table(site: Site, ward: str) -> None:
    """Deliver nothing."""
    site.table(ward).unlink()


def table_of_yesterday(site: Site, ward: str) -> None:
    """Deliver last night's table again."""
    yesterday = site.table(ward).with_name(f"{site.day - timedelta(days=1)}.csv")
    shutil.copy(yesterday, site.table(ward))


def table_of_another_ward(site: Site, ward: str) -> None:
    """Deliver the table of the first ward."""
    shutil.copy(site.table("ward-a"), site.table(ward))


def cut_in_last_cell(site: Site, ward: str) -> None:
    """Cut the file within its last cell."""
    place = site.table(ward)
    place.write_bytes(place.read_bytes()[:-2])


def exponents(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with ids as a spreadsheet writes large numbers."""
    ids = table["patient"].astype(float).map("{:.4E}".format)
    return table.assign(patient=ids)


def in_fahrenheit(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with temperatures in another unit."""
    return table.assign(temperature=(table["temperature"] * 1.8 + 32).round(1))


def exchanged(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the values of two columns exchanged."""
    return table.assign(crp=table["temperature"], temperature=table["crp"])


def slipped_point(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a value of which the decimal point is lost."""
    table.loc[3, "crp"] = 8_250_000.0
    return table


def edited(change: Callable[[str, str], str]) -> Callable[[Site, str], None]:
    """Return what changes the text of NIGHT.toml."""

    def plant(site: Site, ward: str) -> None:
        text = site.file.read_text()
        site.kept["NIGHT.toml"] = text.encode()
        site.file.write_text(change(text, ward))

    return plant


def without_section(text: str, ward: str) -> str:
    """Return NIGHT.toml without the section of a ward."""
    return text.replace(SECTION.format(ward=ward), "")


def misspelt(text: str, ward: str) -> str:
    """Return NIGHT.toml with a slip in the name of a ward."""
    return text.replace(f'"{ward}"', f'"{ward.replace("ward", "wrad")}"')


def model_damaged(site: Site, ward: str) -> None:
    """Change a digit in the model."""
    place = site.folder / "models" / "sepsis" / "model.json"
    site.kept[str(place)] = place.read_bytes()
    text = place.read_text()
    at = text.index("0.1")
    place.write_text(text[:at] + "0.2" + text[at + 3 :])


def list_altered(site: Site, ward: str) -> None:
    """Write into last night's list of flagged cases."""
    place = site.books.nights[ward][-1].run / "flagged.csv"
    place.write_bytes(place.read_bytes() + b"7,a note of mine\n")


def run_directory_lost(site: Site, ward: str) -> None:
    """Lose last night's run directory, while verdicts on it wait."""
    shutil.rmtree(site.books.nights[ward][-1].run)


def verdicts_with(**more: object) -> Callable[[Site, str], None]:
    """Return what puts a file of verdicts into the folder, with other keys."""

    def plant(site: Site, ward: str) -> None:
        run_id = site.books.nights[ward][-1].document["run_id"]
        content = {"format": 1, "run_id": run_id, "initials": "ab", "verdicts": []}
        place = site.folder / "inbox" / "00000.json"
        place.write_text(json.dumps(content | more))

    return plant


def verdict_before_night(site: Site, ward: str) -> None:
    """Put a verdict into the folder that was given a month before its night."""
    night = site.books.nights[ward][-1]
    given = f"{night.day - timedelta(days=30)}T08:00:00Z"
    (name, *_) = sorted(night.flagged)
    verdict = {"id": name, "verdict": "confirmed", "given": given}
    verdicts_with(verdicts=[verdict])(site, ward)


def outcomes_with(
    change: Callable[[pd.DataFrame, Site], pd.DataFrame],
) -> Callable[[Site, str], None]:
    """Return what writes another table of outcomes."""

    def plant(site: Site, ward: str) -> None:
        table = change(site.outcomes_table(), site)
        table.to_csv(site.folder / "events.csv", index=False)

    return plant


def half_of_ids(table: pd.DataFrame, site: Site) -> pd.DataFrame:
    """Return the outcomes with every other id without its zeros."""
    ids = table["patient"].copy()
    ids.iloc[::2] = ids.iloc[::2].str.lstrip("0")
    return table.assign(patient=ids)


def circle(site: Site, ward: str) -> None:
    """Write merged numbers that go round in a circle."""
    place = site.folder / "merged.csv"
    site.kept[str(place)] = place.read_bytes()
    one, other = list(site.right[ward]["patient"])[:2]
    lines = [(one, other, site.day), (other, one, site.day)]
    pd.DataFrame(lines, columns=["old", "new", "since"]).to_csv(place, index=False)


def threshold_of_one(site: Site, ward: str) -> None:
    """Change the threshold of the shared model for one ward."""
    model = site.folder / "models" / "sepsis"
    change = ("--max-flag-rate", "0.15", "--reason", "fewer flags")
    ended = invoked("threshold", model, *change, *site.ledger, "--series", "ward-a")
    told = ended.stderr.partition("somebody approves it: ")[2].splitlines()[0]
    site.kept["approve"] = told.encode()


def promoted(site: Site, ward: str) -> None:
    """Promote a challenger of one ward without telling NIGHT.toml."""
    place = site.folder / "models" / "challenger"
    shutil.copytree(site.folder / "models" / "sepsis", place)
    change = ("--max-flag-rate", "0.25", "--reason", "more flags")
    # To the ledger the copy is the model of each ward still, which keep theirs.
    screen("threshold", place, *change, *site.ledger)
    screen("approve", place, *WHO, *KNOWN, *site.ledger, "--series", ward)
    yesterday = site.day - timedelta(days=1)
    table = site.table(ward).with_name(f"{yesterday}.csv")
    words = (table, "--date", yesterday, "--series", ward, *site.ledger, "--shadow")
    screen("score", place, *words, "--out", site.folder / "shadow", "--jobs", "1")
    where = (*site.ledger, "--series", ward, "--reason", "more flags")
    screen("promote", place, *where)


def ledger_elsewhere(site: Site, ward: str) -> None:
    """Look for the ledger in a place where it is not."""
    if "://" in site.place:
        os.environ["SCREEN_LEDGER"] = site.place.replace("/site?", "/empty?")
    else:
        edited(lambda text, _: text.replace("screening.db", "elsewhere.db"))(site, ward)


# --- How a night itself can go wrong. ---


def killed(site: Site, ward: str) -> Said:
    """Kill the run and all its children in the middle."""
    words = ("-m", "screening", "run", site.file, "--date", site.day, "--json")
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=site.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    is_there = site.run_of("ward-a", site.day) / "run.json"
    end = time.monotonic() + 60
    while not is_there.exists() and time.monotonic() < end:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    words = ("status", "--site", site.file, "--night", site.day)
    status = invoked(*words)
    return Said(status.exit_code, status.stdout + status.stderr, [], "")


def disk_full(site: Site, ward: str) -> Said:
    """Run the night where no file can grow beyond 48 kB, as on a full disk."""
    command = f"ulimit -f 48; screen run NIGHT.toml --date {site.day} --json"
    ended = in_bash(command, site.folder)
    return site.heard(ended.returncode, ended.stdout, ended.stderr, ward)


def two_at_once(site: Site, ward: str) -> Said:
    """Start the night twice at once."""
    command = f"screen run NIGHT.toml --date {site.day} --json"
    both = f"({command} >first 2>first.err; echo $? >first.rc) & "
    both += f"({command} >second 2>second.err; echo $? >second.rc); wait"
    in_bash(both, site.folder)
    ends = {}
    for name in ("first", "second"):
        texts = [
            (site.folder / f"{name}{end}").read_text() for end in ("", ".err", ".rc")
        ]
        ends[int(texts[2])] = texts[:2]
    if set(ends) != {0, 75}:
        return Said(max(ends), f"the two ended with {sorted(ends)}", [], "")
    site.heard(0, *ends[0], ward)
    return Said(75, ends[75][1], [], "")


# --- What a person does by hand, as the words ask. ---


def right_table(site: Site, ward: str, said: Said) -> None:
    """Deliver the right table."""
    site.deliver_right(ward)


def right_table_of_one(site: Site, ward: str, said: Said) -> None:
    """Deliver the right table; the other ward's was its own, which is accepted."""
    site.deliver_right(ward)
    for line in site.answer["series"]:
        codes = {reason["code"] for reason in line["attention"]}
        if line["series"] != ward and "table_of_another_series" in codes:
            accept = [each for each in line["remedies"] if "--accept" in each]
            site.type(accept[0])


def nothing(site: Site, ward: str, said: Said) -> None:
    """Do nothing but type what is printed."""


def restored(site: Site, ward: str, said: Said) -> None:
    """Put a file back as it was, from its backup."""
    for name, content in site.kept.items():
        (site.folder / name).write_bytes(content)
    site.kept.clear()


def list_moved(site: Site, ward: str, said: Said) -> None:
    """Move the altered list away."""
    place = re.search(r"(/.*flagged\.csv) has been changed", said.words)[1]
    Path(place).rename(site.folder / "my list.csv")


def ledger_back(site: Site, ward: str, said: Said) -> None:
    """Name the ledger's place again."""
    if "://" in site.place:
        os.environ["SCREEN_LEDGER"] = site.place
    restored(site, ward, said)


def right_outcomes(site: Site, ward: str, said: Said) -> None:
    """Write the right table of outcomes, and enter it at once."""
    site.write_outcomes()
    screen("outcomes", "--site", site.file)


def right_verdicts(site: Site, ward: str, said: Said) -> None:
    """Save the verdicts again, as the page does, and read them at once."""
    verdicts_with()(site, ward)
    screen("review", "--site", site.file)


def approve_too(site: Site, ward: str, said: Said) -> None:
    """Type what `threshold` printed: the approval that it took away."""
    site.type(site.kept.pop("approve").decode().replace("COLUMNS", "crp,temperature"))


@dataclass(frozen=True)
class Fault:
    """A fault, what is to be said of it, and how it is mended.

    Parameters
    ----------
    name : str
    ward : str
        Of which something is to be said.
    plant : callable, optional
        Brings it about before the night is run.
    words : str
        Pattern of what is said.
    code : int
        Exit code of the run.
    by_hand : callable
        What the words ask a person to do.
    typed : str, optional
        Words of the printed command that is typed; None if none is printed.
    typed_codes : tuple of int
        Exit codes of the typed command.
    night : callable, optional
        Runs the night in another way.
    status : str
        Of the ward's night in the end.
    """

    name: str
    ward: str
    plant: Callable[[Site, str], None] | None
    words: str
    code: int
    by_hand: Callable[[Site, str, Said], None]
    typed: str | None
    typed_codes: tuple[int, ...] = (0,)
    night: Callable[[Site, str], Said] | None = None
    status: str = "unchanged"


REPLACE, AGAIN, GIVE_UP = "--replace", "screen run", "--give-up"
FAULTS = [
    Fault(
        "half a table",
        "ward-a",
        changed(lambda t: t[: len(t) // 2]),
        "not_whole",
        0,
        right_table,
        REPLACE,
    ),
    Fault(
        "a table that comes late", "ward-b", no_table, "no file", 2, right_table, AGAIN
    ),
    Fault(
        "a table that never comes",
        "ward-c",
        no_table,
        "no file",
        2,
        nothing,
        GIVE_UP,
        (0, 5),
        status="given up",
    ),
    Fault(
        "last night's table again",
        "ward-a",
        table_of_yesterday,
        "byte for byte",
        3,
        right_table,
        AGAIN,
    ),
    Fault(
        "another ward's table",
        "ward-b",
        table_of_another_ward,
        "not_whole.*patients|byte for byte",
        0,
        right_table_of_one,
        REPLACE,
    ),
    Fault(
        "a renamed column",
        "ward-c",
        changed(lambda t: t.rename(columns={"crp": "c_reactive"})),
        "crp",
        3,
        right_table,
        AGAIN,
    ),
    Fault(
        "two columns exchanged",
        "ward-a",
        changed(exchanged),
        "outside_range: temperature",
        0,
        right_table,
        REPLACE,
    ),
    Fault(
        "temperature in F",
        "ward-b",
        changed(in_fahrenheit),
        "temperature.*F",
        3,
        right_table,
        AGAIN,
    ),
    Fault(
        "ids without zeros",
        "ward-c",
        changed(lambda t: t.assign(patient=t["patient"].str.lstrip("0"))),
        "zeros",
        3,
        right_table,
        AGAIN,
    ),
    Fault(
        "ids with exponents",
        "ward-a",
        changed(exponents),
        "id|patient",
        3,
        right_table,
        AGAIN,
    ),
    Fault(
        "a file cut in its last cell",
        "ward-b",
        cut_in_last_cell,
        "line_end_missing",
        0,
        right_table,
        REPLACE,
    ),
    Fault(
        "a value without its point",
        "ward-c",
        changed(slipped_point),
        "values_out_of_bounds.*crp",
        0,
        right_table,
        REPLACE,
    ),
    Fault(
        "a section lost from NIGHT.toml",
        "ward-c",
        edited(without_section),
        "is not in NIGHT.toml",
        5,
        restored,
        None,
    ),
    Fault(
        "a misspelt series",
        "wrad-b",
        edited(lambda text, _: misspelt(text, "ward-b")),
        "slip",
        2,
        restored,
        None,
    ),
    Fault(
        "a damaged model",
        "ward-a",
        model_damaged,
        "model.json.*(digest|damaged|written)",
        4,
        restored,
        AGAIN,
    ),
    Fault(
        "an altered list of flagged cases",
        "ward-b",
        list_altered,
        "has been changed",
        2,
        list_moved,
        AGAIN,
    ),
    Fault(
        "a run killed in the middle",
        "ward-c",
        None,
        "night|missing|no run",
        5,
        nothing,
        None,
        night=killed,
    ),
    Fault(
        "a full disk",
        "ward-a",
        None,
        "too large|space|disk",
        2,
        nothing,
        AGAIN,
        night=disk_full,
    ),
    Fault(
        "two runs at once",
        "ward-b",
        None,
        "another|writing",
        75,
        nothing,
        None,
        night=two_at_once,
    ),
    Fault(
        "verdicts with a key that nobody knows",
        "ward-a",
        verdicts_with(verdicts=[{"id": "1", "verdikt": "confirmed"}]),
        "verdict",
        0,
        right_verdicts,
        None,
    ),
    Fault(
        "a verdict before its night",
        "ward-b",
        verdict_before_night,
        "before its night",
        0,
        right_verdicts,
        None,
    ),
    Fault(
        "outcomes with half of the ids otherwise",
        "ward-a",
        outcomes_with(half_of_ids),
        "zeros|written",
        0,
        right_outcomes,
        None,
    ),
    Fault(
        "outcomes without their column",
        "ward-b",
        outcomes_with(lambda t, _: t.rename(columns={"infected_at": "infection"})),
        "infected_at",
        0,
        right_outcomes,
        None,
    ),
    Fault(
        "a threshold for one ward of a shared model",
        "ward-b",
        threshold_of_one,
        "entered for other series",
        2,
        approve_too,
        "screen promote",
    ),
    Fault(
        "a promotion that NIGHT.toml does not know",
        "ward-c",
        promoted,
        "was promoted",
        2,
        nothing,
        "screen promote",
    ),
    Fault(
        "merged numbers in a circle",
        "ward-a",
        circle,
        "merges_refused.*circle",
        0,
        restored,
        None,
    ),
    Fault(
        "a ledger that is not where it was",
        "ward-a",
        ledger_elsewhere,
        "is not there|is empty",
        4,
        ledger_back,
        None,
    ),
]


@dataclass
class Result:
    """What became of a fault."""

    fault: Fault
    night: int
    said: Said
    is_named: bool
    unmended: str = ""


def trial_of(fault: Fault, site: Site, number: int) -> Result:
    """Bring a fault about, run the night, mend it; return what became of it."""
    if fault.plant is not None:
        fault.plant(site, fault.ward)
    said = (
        site.run(fault.ward) if fault.night is None else fault.night(site, fault.ward)
    )
    is_named = said.code == fault.code and bool(
        re.search(fault.words, said.words, re.IGNORECASE | re.DOTALL)
    )
    result = Result(fault, number, said, is_named)
    try:
        mend(site, fault, said)
    except Unmended as error:
        result.unmended = str(error)
        site.run(fault.ward)
    return result


def mend(site: Site, fault: Fault, said: Said) -> None:
    """Do what is asked for, type the printed command, and look at the night."""
    fault.by_hand(site, fault.ward, said)
    # Where nothing could be written, there is no overview to print commands.
    if fault.typed is not None and said.status:
        commands = [each for each in said.remedies if fault.typed in each]
        if not commands:
            raise Unmended(f"no command with {fault.typed} is printed: {said.remedies}")
        site.type(commands[0], fault.typed_codes)
    ward = fault.ward.replace("wrad", "ward")
    # Every command of the site's night once more: what was refused with it is scored.
    site.run(ward)
    after = site.run(ward)
    if after.code != 0 or after.status != fault.status:
        raise Unmended(f"the night is {after.status} ({after.code}): {after.words}")
    if re.search(fault.words, after.words, re.IGNORECASE | re.DOTALL):
        raise Unmended(f"it is still said: {after.words}")


# --- The thirty nights. ---


def laid(folder: Path, place: str, seed: int) -> Site:
    """Make a site before its first night, by the site's commands."""
    for name in ("models", "in", "inbox"):
        (folder / name).mkdir(parents=True)
    rng = np.random.default_rng(seed)
    is_ill = rng.random(600) < 0.2
    past = values(rng, is_ill)
    past.insert(0, "patient", [f"00{90000 + number}" for number in range(600)])
    past["septic"] = np.where(is_ill, "yes", "no")
    past.to_csv(folder / "past.csv", index=False)
    (folder / "cohort.toml").write_text(CONTRACT)
    first = datetime.now(UTC).date() - timedelta(days=NIGHTS + 1)
    hospital = Hospital(seed, first, WARDS)
    model = folder / "models" / "sepsis"
    site = Site(folder, model, model, hospital, rng, Books(WARDS), place=place)
    key = "" if "://" in place else 'ledger = "screening.db"'
    sections = [SECTION.format(ward=ward) for ward in WARDS]
    site.file.write_text(SITE.format(ledger=key) + "".join(sections))
    site.type(
        f"screen train past.csv --contract cohort.toml {TRAIN} --out models/sepsis"
    )
    screen("approve", model, *WHO, *KNOWN)
    return site


def nights(site: Site, n_nights: int, chosen: list[Fault]) -> list[Result]:
    """Run the nights; return what became of the faults."""
    results = []
    begin = n_nights - len(chosen)
    for number in range(n_nights):
        site.deliver()
        fault = chosen[number - begin] if number >= begin else None
        if fault is None:
            said = site.run("ward-a")
            if said.code:
                raise SystemExit(f"night {number + 1}: {said}")
        else:
            result = trial_of(fault, site, number + 1)
            results.append(result)
            print(line_of(result), flush=True)
        site.compare_run(fault is not None)
        site.look()
        for ward in WARDS:
            night = site.books.nights[ward][-1]
            if night.day == site.day:
                site.review(night)
        if number < n_nights - 1:
            site.hospital.go_on()
    screen("review", "--site", site.file)
    site.look()
    site.compare_pages()
    return results


def line_of(result: Result) -> str:
    """Return the line of the table of a fault."""
    fault = result.fault
    words = " ".join(result.said.words.split()).replace("|", "/")
    named = "yes" if result.is_named else f"**no**, {result.said.code}: {words[:600]}"
    mended = result.unmended.replace("\n", " ") or "yes"
    typed = f"`{fault.typed}`" if fault.typed else "by hand"
    return (
        f"| {result.night} | {fault.name} | {result.said.code} | {named} | {typed} | "
        f"{mended} |"
    )


def restored_elsewhere(site: Site, empty: str) -> None:
    """Back the ledger up, restore it elsewhere, and compare the histories."""
    kept = site.folder / "kept"
    before = screen("history", *site.ledger, "--verify", "--json")
    site.type(f"screen ledger backup {quoted(site.place)} --to kept")
    (backup,) = kept.iterdir()
    site.type(f"screen ledger restore {quoted(empty)} --from {quoted(str(backup))}")
    after = screen("history", "--ledger", empty, "--json")
    for key in ("runs", "series"):
        site.compare(f"restored {key}", "", after[key], before[key])


def quoted(word: str) -> str:
    """Return a word as bash takes it."""
    return "'" + word.replace("'", "'\\''") + "'"


@contextmanager
def places(kind: str, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the ledger's place, one to restore it to, and one without nights."""
    if kind == "sqlite":
        yield str(folder / "screening.db"), str(folder / "again.db"), ""
        return
    for socket in server():
        yield tuple(database(socket, name) for name in ("site", "again", "empty"))


def main() -> None:
    """Run the nights, compare, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--place", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", default="", help="pattern of their names")
    options = parser.parse_args()
    chosen = [each for each in FAULTS if re.search(options.faults, each.name)]
    n_nights = NIGHTS - len(FAULTS) + len(chosen)
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / FOLDER
        with places(options.place, folder) as (place, again, _):
            if "://" in place:
                os.environ["SCREEN_LEDGER"] = place
            site = laid(folder, place, options.seed)
            print(
                "| night | fault | exit | named | typed | mended |",
                "|---" * 6 + "|",
                sep="\n",
            )
            results = nights(site, n_nights, chosen)
            restored_elsewhere(site, again)
        ran = list(Path(top).rglob("pwned"))
    n_unnamed = sum(not result.is_named for result in results)
    n_unmended = sum(bool(result.unmended) for result in results)
    counts: Counter[str] = Counter()
    different: Counter[str] = Counter()
    for what, number in site.compared.items():
        kind = (
            " ".join(what.split()[:2])
            if what.startswith(("history", "run"))
            else what.split()[0]
        )
        counts[kind] += number
        different[kind] += site.different[what]
    print("\n| counts of | compared | different |\n|---|---|---|")
    for kind, number in counts.items():
        print(f"| {kind} | {number:,} | {different[kind]} |")
    print(f"| all | {counts.total():,} | {different.total()} |\n")
    for line in site.told[:20]:
        print(f"- {line}")
    print(
        f"{len(results)} faults on {n_nights} nights: {n_unnamed} not named, "
        f"{n_unmended} not mended; {site.n_typed} commands typed; what a name would "
        f"have run: {len(ran)}"
    )
    if n_unnamed or n_unmended or different.total() or ran:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
