"""A site whose commands are killed at any moment: once they ran again, does everything
agree?

    python benchmarks/killed_nights.py --kills 200 --out k.csv [--ledger postgresql]

Three wards, five nights, and between them every command that writes: `run`, `review`,
`retrain`, `approve`, `explain`, `export`, `forget`, `threshold`, `promote`, `retire`
and `purge`. Each is killed with all its children, at a moment drawn from the time that
it takes, and the same command is run again, which must end with exit 0. Then the trail
is followed and the tables are compared with it, every run directory, published page and
export is compared with the register, each night has one run in force, and the patients
forgotten or purged are looked for in every file. A line a kill; what is in the CSV is
not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from ledger_places import schema, server

from screening.ledger.database import open_ledger
from screening.ledger.history import history
from screening.ledger.register import current_artefacts, state_of
from screening.store.serialization import read_document

WARDS = ("ward-a", "ward-b", "ward-c")
NIGHTS = 5
COMMANDS = (
    "run",
    "review",
    "retrain",
    "approve",
    "explain",
    "export",
    "forget",
    "threshold",
    "promote",
    "retire",
    "purge",
)
KNOWN = ["--known-before", "fever,crp"]
TRAIN = [
    "--label",
    "ill",
    "--positive",
    "yes",
    "--id",
    "patient",
    "--recipe",
    "logistic",
    "--search",
    "1",
]
TRAIN += ["--folds", "3", "--repeats", "1", "--beside", "none", "--jobs", "1"]


def patients(n_rows: int, seed: int) -> pd.DataFrame:
    """Rows of which a fifth are ill."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n_rows) < 0.2
    names = [f"Zx{seed:05d}{i:04d}" for i in range(n_rows)]
    columns = {"fever": rng.normal(37 + ill, 0.5), "crp": rng.gamma(2 + 3 * ill, 5.0)}
    return pd.DataFrame(
        {"patient": names, **columns, "ill": np.where(ill, "yes", "no")}
    )


def screen(folder: Path, *words: object, after: float | None = None) -> float:
    """Run a command, kill it with all its children after some seconds; seconds that it
    took.
    """
    began = time.monotonic()
    command = [sys.executable, "-m", "screening", *map(str, words)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=folder, start_new_session=True, **quiet)
    try:
        _, said = process.communicate(timeout=after)
        if process.returncode and after is None:
            raise RuntimeError(
                f"{words} ended with {process.returncode}: {said.decode()[-2000:]}"
            )
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return time.monotonic() - began


def laid(folder: Path, ledger: str) -> None:
    """A site before its first night."""
    patients(150, 0).to_csv(folder / "past.csv", index=False)
    for model, rate in (("m", 0.3), ("m2", 0.2)):
        screen(
            folder, "train", "past.csv", *TRAIN, "--max-flag-rate", rate, "--out", model
        )
        screen(folder, "approve", model, "--by", "A", "--reason", "tried", *KNOWN)
    site = [f'[site]\nledger = "{ledger}"\npublish = "pages"\njobs = 2\n']
    for ward in WARDS:
        model = (
            'model = "champion"\nshadow = ["m2"]' if ward == WARDS[0] else 'model = "m"'
        )
        site.append(f'[series.{ward}]\n{model}\ncohort = "in/{ward}/{{date}}.csv"\n')
    (folder / "NIGHT.toml").write_text("\n".join(site))
    (folder / "champion").symlink_to("m")


def write_tables(
    folder: Path, night: int, seed: int, forgotten: Collection[str]
) -> None:
    """Write tonight's table of every ward, mostly with last night's patients."""
    for at, ward in enumerate(WARDS, start=1):
        place = folder / "in" / ward / f"2026-03-{night:02d}.csv"
        place.parent.mkdir(parents=True, exist_ok=True)
        stay = patients(40, 100 * seed + 10 * at)[night:]
        tonight = pd.concat([stay, patients(10, 100 * seed + 10 * at + night)])
        tonight = tonight[~tonight["patient"].isin(forgotten)]
        tonight.drop(columns="ill").to_csv(place, index=False)


def write_verdicts(folder: Path, run: Path) -> None:
    """Write the file that the page of a run saves, with two verdicts."""
    document = read_document(run, "run")
    verdicts = []
    for case in document["cases"][:2]:
        verdicts.append({"id": case["id"], "verdict": "confirmed", "note": case["id"]})
    content = {
        "format": 1,
        "run_id": document["run_id"],
        "site": "w",
        "initials": "ab",
        "verdicts": verdicts,
    }
    (folder / "v.json").write_text(json.dumps(content))


def commands(
    folder: Path, night: int, seed: int, ledger: str, forgotten: list[str]
) -> Iterator[list[object]]:
    """Yield the commands of a night, each after the one before has ended well."""
    date = f"2026-03-{night:02d}"
    first, *_, third = WARDS
    run = folder / "runs" / first / date
    where = ["--ledger", ledger]
    because = ["--reason", "tried enough"]
    places = [*where, "--runs", "runs", "--pages", "pages"]
    write_tables(folder, night, seed, forgotten)
    yield ["run", "NIGHT.toml", "--date", date]
    write_verdicts(folder, run)
    yield ["review", run, "v.json", *where]
    (folder / "v.json").unlink()
    if night % 2 == 1:
        learn = [first, "champion", "past.csv", "--nights", "in/{series}/{date}.csv"]
        again = f"retrained{night}"
        yield ["retrain", *learn, "--out", again, "--jobs", "1", *where]
        yield ["approve", again, "--by", "A", *because, *KNOWN, *where]
    case = read_document(run, "run")["cases"][0]["id"]
    yield ["explain", run, case, "--out", f"pages/cases/{date}.html", *where]
    form = ("csv", "fhir", "xlsx")[night % 3]
    yield ["export", run, "--to", form, "--out", f"pages/exports/{date}", *where]
    if night in (2, 4):
        forgotten.append(case)
        yield ["forget", forgotten[-1], *places, "--models", "."]
    if night == 2:
        choice = ["--max-flag-rate", 0.25, *because, *where]
        yield ["threshold", "m", *choice]
    if night == 3:
        yield ["promote", "m2", "--series", first, *where, *because]
        (folder / "champion").unlink()
        (folder / "champion").symlink_to("m2")
        site = (folder / "NIGHT.toml").read_text()
        (folder / "NIGHT.toml").write_text(site.replace('shadow = ["m2"]\n', ""))
    if night == NIGHTS:
        yield ["retire", third, *where, *because]
        yield ["purge", "--older-than", "1d", *places]


def faults(
    folder: Path, ledger: str, night: int, gone: Collection[str]
) -> Iterator[str]:
    """Yield what does not agree; `gone`: texts that no file may hold any more."""
    with open_ledger(str(folder / ledger) if "://" not in ledger else ledger) as book:
        document = history(book, verify=True)
        with book.reading() as connection:
            artefacts = current_artefacts(connection)
    for artefact in artefacts:
        state = state_of(artefact)
        if state != "as written":
            yield f"{artefact.what} {artefact.place.name} {state}"
    registered = {artefact.place for artefact in artefacts}
    for path in (folder / "runs").rglob("run.json"):
        if path.parent.resolve() not in registered:
            yield f"run {path.parent.name} is not registered"
    for path in [
        *folder.rglob("pages/ward-*/2026-*.html"),
        *folder.glob("pages/exports/*"),
        *folder.glob("pages/cases/*"),
    ]:
        if path.resolve() not in registered:
            yield f"{path.name} is not registered"
    in_force = []
    for run in document["runs"]:
        if run["in_force"]:
            in_force.append((run["series"], run["night"]))
    if len(in_force) != len(set(in_force)) or len(in_force) != night * len(WARDS):
        yield f"{len(in_force)} nights in force"
    for path in files_of(folder):
        content = path.read_bytes()
        for text in gone:
            if text.encode() in content:
                yield f"{path.relative_to(folder)} names who was erased"
    for path in folder.rglob(".*"):
        if "pycache" not in str(path):
            yield f"{path.name} was left"


def files_of(folder: Path) -> Iterator[Path]:
    """Yield the files that the commands wrote."""
    for path in folder.rglob("*"):
        is_input = path.name == "past.csv" or path.is_relative_to(folder / "in")
        if path.is_file() and not is_input:
            yield path


def site_with_kills(ledger: str, seed: int) -> Iterator[dict[str, object]]:
    """Yield a line a kill: five nights of a new site, each command killed and run
    again.

    A site ends early if a command does not end well when it is run again.
    """
    rng = np.random.default_rng(seed)
    forgotten: list[str] = []
    usual = dict.fromkeys(COMMANDS, 3.0)
    usual["run"] = 6.0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        laid(folder, ledger)
        for night in range(1, NIGHTS + 1):
            for words in commands(folder, night, seed, ledger, forgotten):
                name = str(words[0])
                after = float(rng.uniform(0.1, 1.0) * usual[name])
                screen(folder, *words, after=after)
                kill = {"site": seed, "night": night, "command": name}
                kill["after"] = round(after, 2)
                try:
                    usual[name] = screen(folder, *words)
                except RuntimeError as error:
                    yield kill | {"faults": str(error)}
                    return
                if name == "purge":
                    # All ids of a site's nights begin so. Purging leaves models, and
                    # those that were retrained hold patients of these nights.
                    gone = [f"Zx{seed:03d}"]
                    for model in folder.glob("retrained*"):
                        shutil.rmtree(model)
                else:
                    gone = forgotten
                yield kill | {"faults": "; ".join(faults(folder, ledger, night, gone))}


@contextmanager
def ledgers(kind: str) -> Iterator[Callable[[int], str]]:
    """Yield what gives the ledger of a site: a file, or a schema of a server."""
    if kind == "sqlite":
        yield lambda seed: "l.db"
        return
    for socket in server():
        yield partial(_schema_of_site, socket)


def _schema_of_site(socket: str, seed: int) -> str:
    return schema(socket, f"site{seed}")


def main() -> None:
    """Kill until there are as many as wanted, and count those that left a fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("killed.csv"))
    parser.add_argument("--ledger", choices=["sqlite", "postgresql"], default="sqlite")
    options = parser.parse_args()
    kills = []
    if options.out.exists():
        kills = pd.read_csv(options.out).fillna("").to_dict("records")
    seed = max((kill["site"] for kill in kills), default=0)
    with ledgers(options.ledger) as ledger_of:
        while len(kills) < options.kills:
            seed += 1
            for kill in site_with_kills(ledger_of(seed), seed):
                kills.append(kill)
                pd.DataFrame(kills).to_csv(options.out, index=False)
    table = pd.DataFrame(kills)
    table["fault"] = table["faults"] != ""
    counts = table.groupby("command")["fault"].agg(["size", "sum"])
    print(counts.rename(columns={"size": "kills", "sum": "with a fault"}))
    print(f"{len(table)} kills, {table['fault'].sum()} with a fault")


if __name__ == "__main__":
    main()
