"""A folder with two small tables, a model, a run and a ledger, made once and copied for
every attack.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from commands import screen, verdict_file
from flow_cohorts import patients, written

from screening.store.serialization import read_document

QUICK = (
    "--recipe",
    "logistic",
    "--search",
    "1",
    "--folds",
    "2",
    "--repeats",
    "1",
    "--beside",
    "none",
)
ROLES = ("--label", "ill", "--id", "patient", "--max-flag-rate", "0.3", "--jobs", "1")


def train(folder: Path, *more: object) -> tuple[object, ...]:
    """The words of a quick training in a folder."""
    return ("train", folder / "past.csv", *QUICK, *ROLES, *more)


def laid(folder: Path) -> Path:
    """Lay the desk: past.csv, tonight.csv, model, run (in screening.db), verdicts.json,
    compared.
    """
    written(patients(120), folder / "past.csv")
    written(patients(40, seed=7), folder / "tonight.csv")
    screen(*train(folder), "--out", folder / "model")
    night = ("--date", "2026-03-01", "--ledger", folder / "screening.db")
    screen(
        "score",
        folder / "model",
        folder / "tonight.csv",
        "--out",
        folder / "run",
        *night,
    )
    run = read_document(folder / "run", "run")
    first_two = run["cases"][:2]
    judged = [{"id": case["id"], "verdict": "ruled out"} for case in first_two]
    verdict_file(folder / "run", judged)
    return folder


def copied(desk: Path, folder: Path) -> Path:
    """Copy the desk to work on, with a ledger that takes entries at its new place."""
    copy = Path(shutil.copytree(desk, folder))
    moved = ["ledger", "moved", copy / "screening.db", "--reason", "a desk of its own"]
    screen(*moved)
    return copy


def content(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, but for locks: a lock that could not be removed is one
    of `leftovers`.
    """
    paths = [path for path in folder.rglob("[!.]*") if path.is_file()]
    contents = {}
    for path in sorted(paths):
        contents[str(path.relative_to(folder))] = path.read_bytes()
    return contents


def leftovers(folder: Path) -> list[str]:
    """Names of what was begun and not removed, at any depth."""
    hidden = (
        name
        for _, folders, files in os.walk(folder)
        for name in (*folders, *files)
        if name[0] == "."
    )
    # Finished folds of a comparison wait there on purpose.
    return sorted(name for name in hidden if not name.endswith(".fits"))
