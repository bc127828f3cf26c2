"""Sixty nights of a site by command, with faults planted: is each named the same night?

    python benchmarks/sixty_nights.py FOLDER [--user screening] [--nights 60]

As root with `--user`, every command of a night runs as that user (`runuser`), and what
root types by mistake runs as root. Four wards with stays; from the twenty-third night
on a fault a night in one of them, repaired by the commands that the overview prints.
From a night on one ward's CRP reads 1.5 times as high, later sodium of all wards lower,
and one ward has an outbreak. At the end the ledger is restored from its backup, and the
site is moved to other directories by the blocks of the runbook, where two more nights
follow. Printed as markdown: what was named when, in which words, and by which command
it was repaired; and reasons that nobody planted.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

TREE = Path(__file__).resolve().parents[1]
FIRST = datetime.date.today() - datetime.timedelta(days=61)
WARDS = {"ward-1": 57, "ward-2": 44, "ward-3": 36, "ward-4": 50}
LEAVE = 0.2
ILL = 0.12
FIRST_FAULT = 22
CRP_CHANGES, SODIUM_CHANGES, OUTBREAK = 26, 44, 38
OUTBREAK_NIGHTS = 7
ILL_IN_OUTBREAK = 0.9
SITE = """
[site]
title = "County hospital"
ledger = "{folder}/screening.db"
runs = "{folder}/runs"
publish = "{folder}/pages"
verdicts = "{folder}/inbox"
catch_up = 2
"""
SERIES = """
[series."{ward}.sepsis"]
model = "{folder}/models/sepsis"
cohort = "{folder}/in/{ward}.sepsis/{{date}}.csv"
"""


def values(rng: np.random.Generator, is_ill: np.ndarray) -> pd.DataFrame:
    """Return what is a patient's own for the whole stay."""
    n_rows = len(is_ill)
    return pd.DataFrame(
        {
            "crp": rng.normal(2.5, 0.9, n_rows) + 1.3 * is_ill,
            "lactate": rng.normal(0.3, 0.4, n_rows) + 0.5 * is_ill,
            "sodium": rng.normal(139, 3.5, n_rows),
            "temperature": rng.normal(36.9, 0.5, n_rows) + 0.7 * is_ill,
            "age": rng.integers(20, 95, n_rows).astype(float),
            "service": rng.choice(["medicine", "surgery", "cardiology"], n_rows),
        }
    )


def measured(rng: np.random.Generator, own: pd.DataFrame) -> pd.DataFrame:
    """Return what is measured tonight."""
    n_rows = len(own)
    table = own.copy()
    table["crp"] = np.exp(own["crp"] + rng.normal(0, 0.35, n_rows)).round(1)
    table["lactate"] = np.exp(own["lactate"] + rng.normal(0, 0.2, n_rows)).round(2)
    table["sodium"] = (own["sodium"] + rng.normal(0, 1.2, n_rows)).round(0)
    table["temperature"] = (own["temperature"] + rng.normal(0, 0.25, n_rows)).round(1)
    table.loc[rng.random(n_rows) < 0.08, "lactate"] = np.nan
    return table


@dataclass
class Ward:
    """Beds that a fifth of the patients leaves every night."""

    name: str
    rng: np.random.Generator
    beds: int
    admitted: int = 0
    ids: list[str] = field(default_factory=list)
    own: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __post_init__(self) -> None:
        self.admit(np.ones(self.beds, bool), ILL)

    def admit(self, is_new: np.ndarray, share_ill: float) -> None:
        """Give some beds to new patients."""
        n_new = int(is_new.sum())
        fresh = values(self.rng, self.rng.random(n_new) < share_ill)
        if not self.ids:
            self.own = fresh
            self.ids = [""] * self.beds
        else:
            self.own.loc[is_new] = fresh.set_index(self.own.index[is_new])
        for bed in np.flatnonzero(is_new):
            self.admitted += 1
            self.ids[bed] = f"{self.name[-1]}{self.admitted:06d}"

    def night(self, date: str, share_ill: float = ILL) -> pd.DataFrame:
        """Return tonight's table, after patients have left and come."""
        self.admit(self.rng.random(self.beds) < LEAVE, share_ill)
        table = measured(self.rng, self.own)
        table.insert(0, "patient", self.ids)
        hours = self.rng.integers(0, 4, self.beds)
        table.insert(1, "taken", [f"{date} 0{hour}:15" for hour in hours])
        is_there = self.rng.random(self.beds) < 0.95
        return table[is_there].reset_index(drop=True)


@dataclass(frozen=True)
class Fault:
    """A wrong delivery, or an accident.

    Parameters
    ----------
    name : str
    plant : callable
        Does it to the table's path, given the site and the night's table.
    words : str
        Pattern of what has to be said of the series.
    """

    name: str
    plant: Callable[[Site, Path, pd.DataFrame], None]
    words: str


@dataclass
class Site:
    """A site in a folder, whose commands run as a user."""

    folder: Path
    user: str | None
    night: str = ""
    yesterday: dict[str, Path] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """The site's file."""
        return self.folder / "NIGHT.toml"

    def screen(
        self, *words: object, as_root: bool = False
    ) -> subprocess.CompletedProcess:
        """Run a command as the user of the night."""
        command = [sys.executable, "-m", "screening", *map(str, words)]
        return self.execute(command, as_root=as_root)

    def execute(
        self, command: list[str], *, as_root: bool = False
    ) -> subprocess.CompletedProcess:
        """Run any command as the user of the night."""
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(TREE),
            "NUMBA_CACHE_DIR": str(self.folder / "cache"),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if self.user is not None and not as_root:
            command = ["runuser", "-u", self.user, "--", *command]
        return subprocess.run(
            command,
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def give(self, *paths: Path) -> None:
        """Give paths to the user of the night."""
        if self.user is None:
            return
        account = pwd.getpwnam(self.user)
        for path in paths:
            os.chown(path, account.pw_uid, account.pw_gid)

    def table(self, ward: str) -> Path:
        """Return the path of tonight's table of a ward."""
        return self.folder / "in" / f"{ward}.sepsis" / f"{self.night}.csv"

    def deliver(self, ward: str, table: pd.DataFrame) -> Path:
        """Write tonight's table of a ward."""
        path = self.table(ward)
        table.to_csv(path, index=False)
        self.give(path)
        return path

    def run(self, *words: str) -> dict:
        """Run the night; return the answer."""
        ended = self.screen(
            "run", self.file, "--date", self.night, "--strict", "--json", *words
        )
        if not ended.stdout:
            return {"series": [], "attention": [], "error": ended.stderr}
        return json.loads(ended.stdout)


def lines_of(answer: dict) -> dict[str, dict]:
    """Return the lines of an overview by series."""
    return {line["series"]: line for line in answer["series"]}


def words_of(line: dict) -> str:
    """Return everything that is said of a night of a series, new reasons alone."""
    reasons = [reason["words"] for reason in line["attention"] if not reason["since"]]
    return " ".join([line["said"] or "", *reasons])


def written(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable:
    """Return a plant that delivers a changed table."""

    def plant(site: Site, path: Path, table: pd.DataFrame) -> None:
        change(table.copy()).to_csv(path, index=False)

    return plant


def edited(change: Callable[[bytes], bytes]) -> Callable:
    """Return a plant that changes the bytes of the table."""

    def plant(site: Site, path: Path, table: pd.DataFrame) -> None:
        path.write_bytes(change(path.read_bytes()))

    return plant


def scaled(table: pd.DataFrame, column: str, factor: float) -> pd.DataFrame:
    """Return the table with a column multiplied."""
    table[column] = (table[column] * factor).round(3)
    return table


def some(table: pd.DataFrame, column: str, value: object, share: float) -> pd.DataFrame:
    """Return the table with a value in a share of the rows."""
    table[column] = table[column].astype(object)
    table.loc[: int(share * len(table)), column] = value
    return table


def swapped(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with sodium and temperature exchanged."""
    sodium = table["sodium"].copy()
    table["sodium"] = table["temperature"]
    table["temperature"] = sodium
    return table


def dated(table: pd.DataFrame, days: int) -> pd.DataFrame:
    """Return the table with its times so many days later."""
    moved = pd.to_datetime(table["taken"]) + pd.Timedelta(days=days)
    table["taken"] = moved.dt.strftime("%Y-%m-%d %H:%M")
    return table


def copy_of_yesterday(site: Site, path: Path, table: pd.DataFrame) -> None:
    """Deliver yesterday's file again."""
    shutil.copy(site.yesterday[path.parent.name], path)


def copy_of_other_ward(site: Site, path: Path, table: pd.DataFrame) -> None:
    """Deliver the file of another ward."""
    shutil.copy(site.table("ward-3"), path)


def unreadable(site: Site, path: Path, table: pd.DataFrame) -> None:
    """Take the right to read the table from the user."""
    if site.user is None:
        path.unlink()
        path.symlink_to("/nowhere")
        return
    os.chown(path, 0, 0)
    path.chmod(0o600)


def root_forgets(site: Site, path: Path, table: pd.DataFrame) -> None:
    """Forget a patient of last night as root, from a list that root alone can read."""
    listed = site.folder / "id.txt"
    yesterday = pd.read_csv(site.yesterday[path.parent.name], dtype=str)
    listed.write_text(f"{yesterday['patient'].iloc[0]}\n")
    listed.chmod(0o600)
    command = [sys.executable, "-m", "screening", "forget", "-"]
    command += ["--ledger", str(site.folder / "screening.db")]
    command += ["--runs", str(site.folder / "runs")]
    environment = os.environ | {"PYTHONPATH": str(TREE)}
    with listed.open() as stdin:
        ended = subprocess.run(
            command, stdin=stdin, env=environment, capture_output=True, check=False
        )
    print(f"root's forget: exit {ended.returncode}", file=sys.stderr, flush=True)


def root_takes_run(site: Site, path: Path, table: pd.DataFrame) -> None:
    """Leave yesterday's run directory to root alone."""
    yesterday = site.yesterday[path.parent.name].stem
    run = site.folder / "runs" / path.parent.name / yesterday
    if site.user is not None:
        os.chown(run, 0, 0)
    run.chmod(0)


def model_altered(site: Site, path: Path, table: pd.DataFrame) -> None:
    """Change a digit in the model."""
    model = site.folder / "models" / "sepsis" / "model.json"
    shutil.copy(model, site.folder / "model.json.saved")
    text = model.read_text()
    place = text.index("0.1")
    model.write_text(text[:place] + "0.2" + text[place + 3 :])


def wrong_verdicts(site: Site, path: Path, table: pd.DataFrame) -> None:
    """Put a file into the inbox that is none of verdicts."""
    file = site.folder / "inbox" / "holiday.json"
    file.write_text('{"photos": 3}')
    site.give(file)


def in_fahrenheit(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with temperatures in another unit."""
    return table.assign(temperature=(table["temperature"] * 1.8 + 32).round(1))


def without_zeros(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with ids as a program writes numbers."""
    return table.assign(patient=table["patient"].str[1:].astype(int))


def with_commas(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with CRP as another country writes it, and a stray mark."""
    return table.assign(crp=table["crp"].astype(str).str.replace(".", ",") + ";")


def three_wards(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with twice as many other patients."""
    others = [table.assign(patient=mark + table["patient"].str[1:]) for mark in "78"]
    return pd.concat([table, *others])


PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9
ERROR_PAGE = b"<html><body>503</body></html>\n"
FAULTS = [
    Fault("half a table", written(lambda t: t[: len(t) // 2]), "rows|patients"),
    Fault("no table", lambda site, path, table: path.unlink(), "no file"),
    Fault("an empty file", edited(lambda text: b""), "empty"),
    Fault("a head without rows", edited(lambda text: text.split(b"\n")[0]), "row"),
    Fault("cut in its last line", edited(lambda text: text[:-25]), "cut"),
    Fault("cut in its last cell", edited(lambda text: text[:-4]), "line end"),
    Fault("cut in a quoted cell", edited(lambda text: text[:-30] + b'"4'), "cut|quot"),
    Fault("yesterday's file again", copy_of_yesterday, "same|bytes|another night"),
    Fault("another ward's file", copy_of_other_ward, "ward-3|nobody|patients"),
    Fault("CRP in mg/dl", written(lambda t: scaled(t, "crp", 0.1)), "crp"),
    Fault("temperature in F", written(in_fahrenheit), "temperature"),
    Fault("999 in a tenth of CRP", written(lambda t: some(t, "crp", 999, 0.1)), "crp"),
    Fault(
        "a renamed column",
        written(lambda t: t.rename(columns={"lactate": "lactat_new"})),
        "lactat_new",
    ),
    Fault(
        "an unseen category",
        written(lambda t: some(t, "service", "trauma", 0.3)),
        "service",
    ),
    Fault(
        "lactate all missing", written(lambda t: t.assign(lactate=np.nan)), "lactate"
    ),
    Fault("ids without zeros", written(without_zeros), "id"),
    Fault("decimal commas and a mark", written(with_commas), "crp"),
    Fault("every row twice", written(lambda t: pd.concat([t, t])), "twice|more than"),
    Fault("two columns exchanged", written(swapped), "sodium|temperature"),
    Fault("times of last week", written(lambda t: dated(t, -7)), "old|newest"),
    Fault("times of next week", written(lambda t: dated(t, 7)), "future|to come|after"),
    Fault("a picture called .csv", edited(lambda text: PICTURE), "."),
    Fault("an error page called .csv", edited(lambda text: ERROR_PAGE), "web page"),
    Fault("three times the rows", written(three_wards), "rows|patients"),
    Fault(
        "words for a number",
        written(lambda t: some(t, "sodium", "haemolysed", 0.2)),
        "sodium",
    ),
    Fault("a table that may not be read", unreadable, "ermission|link"),
    Fault("root runs forget: every ward is scored", root_forgets, "^published$"),
    Fault("a run directory left to root", root_takes_run, "ermission|cannot use"),
    Fault("a model that was altered", model_altered, "digest|damaged"),
    Fault("a file of verdicts that is none", wrong_verdicts, "verdicts"),
]


def prepare(folder: Path, user: str | None) -> Site:
    """Make the folders, train a model on past patients, and write the site's file."""
    site = Site(folder, user)
    folders = [folder / name for name in ("models", "in", "inbox", "cache", "backups")]
    folders += [folder / "in" / f"{ward}.sepsis" for ward in WARDS]
    for path in (folder, *folders):
        path.mkdir(parents=True, exist_ok=True)
    site.give(folder, *folders)
    rng = np.random.default_rng(1)
    is_ill = rng.random(3000) < ILL
    past = measured(rng, values(rng, is_ill))
    past.insert(0, "patient", [f"0{number:06d}" for number in range(len(past))])
    days = pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 365, 3000), "D")
    past.insert(1, "taken", days.strftime("%Y-%m-%d 02:15"))
    past["septic"] = np.where(is_ill, "yes", "no")
    past.to_csv(folder / "past.csv", index=False)
    site.give(folder / "past.csv")
    model = folder / "models" / "sepsis"
    for command in (
        "init past.csv --label septic --time taken --out cohort.toml",
        "train past.csv --contract cohort.toml --recipe logistic --max-flag-rate 0.15 "
        f"--beside none --out {model}",
        f"approve {model} --by 'A. Physician' --reason 'a trial' "
        "--known-before crp,temperature,lactate",
    ):
        ended = site.screen(*shlex.split(command))
        if ended.returncode not in (0, 5):
            raise SystemExit(f"{command}\n{ended.stderr}")
    series = [SERIES.format(ward=ward, folder=folder) for ward in WARDS]
    site.file.write_text(SITE.format(folder=folder) + "".join(series))
    return site


def repair(site: Site, fault: Fault, ward: str, table: pd.DataFrame, line: dict) -> str:
    """Deliver the right table and type the first command that is printed."""
    path = site.table(ward)
    if path.exists() or path.is_symlink():
        path.unlink()
    site.deliver(ward, table)
    saved = site.folder / "model.json.saved"
    if saved.exists():
        shutil.copy(saved, site.folder / "models" / "sepsis" / "model.json")
        saved.unlink()
    commands = line["remedies"]
    if not commands:
        return "no command"
    command = next((words for words in commands if "--replace" in words), commands[0])
    words = shlex.split(command.replace("WHY", "'a corrected table'"))[1:]
    ended = site.screen(*words, "--json")
    answer = json.loads(ended.stdout) if ended.stdout else {"series": []}
    after = lines_of(answer).get(f"{ward}.sepsis")
    is_repaired = after is not None and after["status"] in ("published", "unchanged")
    short = " ".join(shlex.split(command)[1:2] + re.findall(r"--[\w-]+", command))
    return f"`{short}`: {'repaired' if is_repaired else 'NOT REPAIRED'}"


def main() -> None:
    """Run the nights and print what was named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--user")
    parser.add_argument("--nights", type=int, default=60)
    parser.add_argument("--faults", default="", help="pattern of their names")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if re.search(options.faults, fault.name)]
    site = prepare(options.folder.resolve(), options.user)
    wards = {
        name: Ward(name, np.random.default_rng(number), beds)
        for number, (name, beds) in enumerate(WARDS.items(), start=5)
    }
    unplanted: dict[str, int] = {}
    drift: dict[str, str] = {}
    print(
        "| night | fault | ward | named | words | repaired by |",
        "|---" * 6 + "|",
        sep="\n",
    )
    for number in range(options.nights):
        site.night = str(FIRST + datetime.timedelta(days=number))
        tables = {}
        for name, ward in wards.items():
            tables[name] = tonight(ward, site.night, number)
            site.deliver(name, tables[name])
        fault = None
        if FIRST_FAULT <= number < FIRST_FAULT + len(faults):
            fault = faults[number - FIRST_FAULT]
            fault.plant(site, site.table("ward-2"), tables["ward-2"])
        answer = site.run()
        lines = lines_of(answer)
        for name, line in lines.items():
            codes = {r["code"] for r in line["attention"] if not r["since"]}
            planted = fault is not None and name == "ward-2.sepsis"
            if number >= 3 and not planted:
                for code in codes:
                    unplanted[code] = unplanted.get(code, 0) + 1
                    drift.setdefault(
                        f"{name} {code}", f"night {number + 1}: {words_of(line)[:200]}"
                    )
        for reason in answer["attention"]:
            drift.setdefault(
                f"all {reason['code']} {reason['column']}",
                f"night {number + 1}: {reason['words']}",
            )
        if fault is not None:
            tell(site, fault, number, answer, tables["ward-2"])
        site.yesterday = {f"{name}.sepsis": site.table(name) for name in WARDS}
        if number % 7 == 6:
            backup = site.screen("ledger", "backup", "screening.db", "--to", "backups")
            if backup.returncode:
                print("backup failed:", backup.stderr, flush=True)
    print(
        "\nReasons that are no fault of ward-2's table, series-nights by code:",
        unplanted,
    )
    for key, words in drift.items():
        print(f"- {key}: {words}")
    finish(site)
    move(site, wards, options.nights)


def tonight(ward: Ward, night: str, number: int) -> pd.DataFrame:
    """Return the table of a ward, with what has changed by then."""
    is_outbreak = OUTBREAK <= number < OUTBREAK + OUTBREAK_NIGHTS
    share_ill = ILL
    if is_outbreak and ward.name == "ward-4":
        share_ill = ILL_IN_OUTBREAK
    table = ward.night(night, share_ill)
    if ward.name == "ward-1" and number >= CRP_CHANGES:
        table = scaled(table, "crp", 1.5)
    if number >= SODIUM_CHANGES:
        table["sodium"] -= 3
    return table


def tell(
    site: Site, fault: Fault, number: int, answer: dict, table: pd.DataFrame
) -> None:
    """Print what was said of a fault, and what its repair came to."""
    if "error" in answer:
        print(
            f"| {number + 1} | {fault.name} | ward-2 | NO OVERVIEW | {answer['error'][-300:]} | |",
            flush=True,
        )
        return
    line = lines_of(answer)["ward-2.sepsis"]
    caught_up = [
        late for late in answer["caught_up"] if late["series"] == line["series"]
    ]
    said = " ".join(map(words_of, [line, *caught_up]))
    said += " ".join(file["refused"] or "" for file in answer["verdicts"])
    if not said:
        said = line["status"]
    failed = [late for late in caught_up if late["status"] == "failed"]
    is_named = bool(re.search(fault.words, said, re.IGNORECASE | re.DOTALL))
    for late in failed:
        run = site.folder / "runs" / late["series"] / late["night"]
        site.give(run)
        run.chmod(0o700)
    repaired = repair(site, fault, "ward-2", table, (failed or [line])[0])
    words = " ".join(said.split())[:230].replace("|", "/")
    print(
        f"| {number + 1} | {fault.name} | {line['status']} {line['exit_code']} | "
        f"{'yes' if is_named else 'NO'} | {words} | {repaired} |",
        flush=True,
    )


def finish(site: Site) -> None:
    """Verify, restore, move, and print what each said."""
    for words in (
        ["history", "--ledger", "screening.db", "--verify"],
        ["ledger", "backup", "screening.db", "--to", "backups"],
    ):
        ended = site.screen(*words)
        print(f"- `{' '.join(words)}`: exit {ended.returncode}")
    newest = max((site.folder / "backups").glob("*.db"))
    (site.folder / "screening.db").unlink()
    for words in (
        ["ledger", "restore", "screening.db", "--from", str(newest)],
        ["status", "--site", "NIGHT.toml", "--night", site.night],
        ["history", "--ledger", "screening.db", "--verify"],
    ):
        ended = site.screen(*words)
        said = (ended.stdout + ended.stderr).strip().splitlines()[-1:]
        print(f"- `{' '.join(words)}`: exit {ended.returncode} {said}")


def blocks_of_move() -> list[str]:
    """Return the blocks of the runbook that move a site, old host and new."""
    text = (TREE / "docs" / "runbook.md").read_text(encoding="utf-8")
    section = text.partition("## Copies, and moving a site")[2].partition("\n## ")[0]
    return re.findall(r"```sh screening\n(.*?)```", section, re.DOTALL)


def paste(site: Site, block: str) -> None:
    """Paste a block as the user of the night, with the site's paths."""
    text = block.replace("/var/lib/screening", str(site.folder))
    text = text.replace("/var/backups/screening", str(site.folder.parent / "moving"))
    text = re.sub(r"^screening ", f"{sys.executable} -m screening ", text, flags=re.M)
    ended = site.execute(["sh", "-eu", "-c", text])
    last_words = (ended.stdout + ended.stderr).strip().splitlines()[-1:]
    print(
        f"- {block.count(chr(10))} commands pasted: exit {ended.returncode} {last_words}"
    )


def figures_of(site: Site) -> dict[str, object]:
    """Return the nights of every series, as the history has them."""
    figures = {}
    for ward in WARDS:
        words = ["--ledger", "screening.db", "--series", f"{ward}.sepsis", "--json"]
        answer = json.loads(site.screen("history", *words).stdout)
        figures[ward] = answer["runs"]
    return figures


def move(site: Site, wards: dict[str, Ward], n_nights: int) -> None:
    """Move the site by the runbook, go on for two nights, and compare the counts."""
    before = figures_of(site)
    new = Site(site.folder.parent / f"{site.folder.name}-moved", site.user)
    shared = site.folder.parent / "moving"
    for folder in (new.folder, shared):
        folder.mkdir()
        site.give(folder)
    at_old, at_new = blocks_of_move()
    paste(site, at_old)
    # What still looked at the old place would find nothing.
    old = site.folder.rename(site.folder.with_name(f"{site.folder.name}-old"))
    paste(new, at_new)
    text = (old / "NIGHT.toml").read_text()
    new.file.write_text(text.replace(str(site.folder), str(new.folder)))
    for name in ("inbox", "cache"):
        (new.folder / name).mkdir(exist_ok=True)
        site.give(new.folder / name)
    ended = new.screen("run", new.file, "--date", site.night)
    print(f"- `run` before the move is recorded: exit {ended.returncode}")
    reason = ["--reason", "new host"]
    ended = new.screen("ledger", "moved", "screening.db", *reason)
    print(f"- `ledger moved`: exit {ended.returncode}")
    agree = figures_of(new) == before
    print(f"- nights and counts agree after the move: {agree}")
    for number in (n_nights, n_nights + 1):
        new.night = str(FIRST + datetime.timedelta(days=number))
        for name, ward in wards.items():
            new.deliver(name, tonight(ward, new.night, number))
        answer = new.run()
        codes = [line["exit_code"] for line in answer["series"]]
        print(f"- night {number + 1}, at the new place: exit codes {codes}")
    grown = figures_of(new)
    agree = all(grown[ward][: len(before[ward])] == before[ward] for ward in WARDS)
    n_more = {ward: len(grown[ward]) - len(before[ward]) for ward in WARDS}
    print(f"- earlier nights as before: {agree}; nights more: {n_more}")
    ended = new.screen("history", "--ledger", "screening.db", "--verify")
    print(f"- `history --verify`: exit {ended.returncode}")


if __name__ == "__main__":
    main()
