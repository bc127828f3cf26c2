"""A site whose commands are killed at any moment: once they ran again, does everything agree?

    python benchmarks/killed_nights.py --kills 200 --out killed.csv [--ledger postgresql+psycopg://...]

Three wards, five nights, and between them verdicts, a patient forgotten and a model promoted. Every command
is killed with all its children, at a moment drawn from the time that it takes, and run again until it ends by
itself. Then the trail is followed and the tables are compared with it, every run directory and published page
is held to what the register has of it, each night has one run in force, and the patients forgotten are looked
for in every file. A line a kill; what is in the CSV is not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from screening.ledger.database import open_ledger
from screening.ledger.history import history
from screening.ledger.register import current_artefacts, state_of
from screening.store.serialization import read_document

WARDS, NIGHTS = ("ward-a", "ward-b", "ward-c"), 5
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
    """Run a command, kill it with all its children after some seconds; seconds that it took."""
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
        screen(folder, "approve", model, "--by", "A", "--reason", "tried")
    site = [f'[site]\nledger = "{ledger}"\npublish = "pages"\njobs = 2\n']
    for ward in WARDS:
        model = (
            'model = "champion"\nshadow = ["m2"]' if ward == WARDS[0] else 'model = "m"'
        )
        site.append(f'[series.{ward}]\n{model}\ncohort = "in/{ward}/{{date}}.csv"\n')
    (folder / "NIGHT.toml").write_text("\n".join(site))
    (folder / "champion").symlink_to("m")


def commands(
    folder: Path, night: int, seed: int, ledger: str, forgotten: list[str]
) -> Iterator[list[object]]:
    """What is done of a night: the run and verdicts; now and then `forget`, and once `promote`."""
    date = f"2026-03-{night:02d}"
    for at, ward in enumerate(WARDS, start=1):
        place = folder / "in" / ward / f"{date}.csv"
        place.parent.mkdir(parents=True, exist_ok=True)
        tonight = pd.concat(
            [
                patients(40, 100 * seed + 10 * at)[night:],
                patients(10, 100 * seed + 10 * at + night),
            ]
        )
        tonight[~tonight["patient"].isin(forgotten)].drop(columns="ill").to_csv(
            place, index=False
        )
    yield ["run", "NIGHT.toml", "--date", date]
    run = read_document(folder / "runs" / WARDS[0] / date, "run")
    said = [{"id": case["id"], "verdict": "confirmed"} for case in run["cases"][:2]]
    content = {
        "format": 1,
        "run_id": run["run_id"],
        "site": "w",
        "initials": "ab",
        "verdicts": said,
    }
    (folder / "v.json").write_text(json.dumps(content))
    yield ["review", folder / "runs" / WARDS[0] / date, "v.json", "--ledger", ledger]
    (folder / "v.json").unlink()
    if night in (2, 4):
        forgotten.append(run["cases"][0]["id"])
        yield [
            "forget",
            forgotten[-1],
            "--ledger",
            ledger,
            "--runs",
            "runs",
            "--models",
            ".",
        ]
    if night == 3:
        yield [
            "promote",
            "m2",
            "--series",
            WARDS[0],
            "--ledger",
            ledger,
            "--reason",
            "tried enough",
        ]
        (folder / "champion").unlink()
        (folder / "champion").symlink_to("m2")
        site = (folder / "NIGHT.toml").read_text()
        (folder / "NIGHT.toml").write_text(site.replace('shadow = ["m2"]\n', ""))


def faults(folder: Path, ledger: str, night: int, forgotten: list[str]) -> list[str]:
    """What does not agree."""
    with open_ledger(str(folder / ledger) if "://" not in ledger else ledger) as book:
        told = history(book, verify=True)
        with book.reading() as connection:
            artefacts = current_artefacts(connection)
    found = [
        f"{one.what} {one.place.name} {state}"
        for one in artefacts
        if (state := state_of(one)) != "as written"
    ]
    places = {one.place for one in artefacts}
    runs = [path.parent.resolve() for path in (folder / "runs").rglob("run.json")]
    found += [
        f"run {path.name} is not registered" for path in runs if path not in places
    ]
    pages = [
        path.resolve()
        for path in (folder / "pages").rglob("2026-*.html")
        if path.parent.name in WARDS
    ]
    found += [
        f"page {path.name} is not registered" for path in pages if path not in places
    ]
    in_force = [
        (run["series"], run["night"]) for run in told["runs"] if run["in_force"]
    ]
    if len(in_force) != len(set(in_force)) or len(in_force) != night * len(WARDS):
        found.append(f"{len(in_force)} nights in force")
    for path in folder.rglob("*"):
        if (
            path.is_file()
            and path.name != "past.csv"
            and "in" not in path.relative_to(folder).parts[:1]
        ):
            content = path.read_bytes()
            found += [
                f"{path.name} names who was forgotten"
                for name in forgotten
                if name.encode() in content
            ]
    return found + [
        f"{path.name} was left"
        for path in folder.rglob(".*")
        if "pycache" not in str(path)
    ]


def site_with_kills(ledger: str, seed: int) -> Iterator[dict[str, object]]:
    """Five nights of a new site, each command killed once and run again."""
    rng, forgotten = np.random.default_rng(seed), list[str]()
    usual = {"run": 6.0, "review": 2.0, "forget": 4.0, "promote": 3.0}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        laid(folder, ledger)
        for night in range(1, NIGHTS + 1):
            for words in commands(folder, night, seed, ledger, forgotten):
                name = str(words[0])
                after = float(rng.uniform(0.1, 1.0) * usual[name])
                screen(folder, *words, after=after)
                usual[name] = screen(folder, *words)
                wrong = "; ".join(faults(folder, ledger, night, forgotten))
                yield {
                    "site": seed,
                    "night": night,
                    "command": name,
                    "after": round(after, 2),
                    "faults": wrong,
                }


def main() -> None:
    """Kill until there are as many as are asked for, and say how many left something that does not agree."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("killed.csv"))
    parser.add_argument(
        "--ledger",
        default="l.db",
        help="a file of each site, or a server's URL for one site",
    )
    asked = parser.parse_args()
    kills = pd.read_csv(asked.out).to_dict("records") if asked.out.exists() else []
    seed = max((kill["site"] for kill in kills), default=0)
    while len(kills) < asked.kills:
        seed += 1
        for kill in site_with_kills(asked.ledger, seed):
            kills.append(kill)
            pd.DataFrame(kills).to_csv(asked.out, index=False)
    wrong = sum(
        bool(kill["faults"] and kill["faults"] == kill["faults"]) for kill in kills
    )
    print(f"{len(kills)} kills, {wrong} after which something did not agree")


if __name__ == "__main__":
    main()
