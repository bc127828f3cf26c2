"""Commands that follow a night in the test of all pairs, and those without a pair."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from commands import invoked

from faults.combined import NIGHT, OPTIONS, TRAINING, written
from screening.cli.ledger import Action
from screening.scoring.exports import FORMS
from screening.store.serialization import read_document

# Done; usage, contract and model refused; done, but wants attention.
DOCUMENTED = {0, 2, 3, 4, 5}
LATER = "2026-03-02"
SERIES = "ward"
SITE = """
[site]
ledger = "site.db"
runs = "runs"
jobs = 1

[series.ward]
model = "model"
cohort = "{table}"
"""


def run(*words: object, allowed: set[int] = DOCUMENTED) -> int:
    """Run a command; its exit code is a documented one, and it ends in no traceback."""
    result = invoked(*words)
    cause = result.exception
    is_exit = cause is None or isinstance(cause, SystemExit)
    assert is_exit, f"{' '.join(map(str, words))}: {cause!r}"
    assert result.exit_code in allowed, result.stderr
    assert "Traceback" not in result.stderr
    return result.exit_code


@dataclass(frozen=True)
class Scored:
    """A night that was scored, and what it was made of.

    Parameters
    ----------
    folder : Path
        Holds `model`, the run `run` and the ledger `ledger.db`.
    roles : list of str
        Options that name the roles of the past cohort's columns.
    table : DataFrame
        The night.
    past, night, other : Path
        Tables: the past cohort, the night, and a cohort of another place.
    """

    folder: Path
    roles: list[str]
    table: pd.DataFrame
    past: Path
    night: Path
    other: Path

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def directory(self) -> Path:
        return self.folder / "run"

    @property
    def ledger(self) -> tuple[object, ...]:
        return ("--ledger", self.folder / "ledger.db")

    @property
    def first(self) -> str:
        """The first patient of the night, or one that nobody knows."""
        return next(iter(self.table.id), "P200000")

    def table_of(self, name: str, **columns: list[str]) -> Path:
        """Write a small table."""
        return written(pd.DataFrame(columns), self.folder, name, ".csv")


def follow_export(form: str, scored: Scored) -> None:
    source = scored.model if form == "model-card" else scored.directory
    out = ("--out", scored.folder / f"out.{form}")
    run("export", source, "--to", form, *out, *OPTIONS.get(form, ()), *scored.ledger)


def follow_check(scored: Scored) -> None:
    run("check", scored.night, "--model", scored.model)


def follow_init(scored: Scored) -> None:
    """What `init` wrote fits the table that it read."""
    contract = scored.folder / "guessed.toml"
    code = run("init", scored.past, "--out", contract, "--yes", "--label", "label")
    allowed = {0} if code == 0 else DOCUMENTED
    run("check", scored.past, "--contract", contract, allowed=allowed)


def follow_compare(scored: Scored) -> None:
    options = ("--recipes", "logistic", *TRAINING, "--out", scored.folder / "compared")
    run("compare", scored.past, *scored.roles, *options)


def follow_explain(scored: Scored) -> None:
    out = ("--out", scored.folder / "case.html")
    run("explain", scored.directory, scored.first, *out, *scored.ledger)


def follow_report(scored: Scored) -> None:
    """A page is drawn again to the same bytes."""
    page = scored.directory / "report.html"
    before = page.read_bytes()
    run("report", scored.directory, allowed={0})
    assert page.read_bytes() == before


def verdicts_on(scored: Scored, words: tuple[str, ...]) -> None:
    """Give a verdict on each listed or drawn patient, one word after the other."""
    document = read_document(scored.directory, "run")
    listed = [case["id"] for case in document["cases"]]
    names = [*listed, *(case["id"] for case in document["sample"])]
    lines = [
        {"id": name, "verdict": words[number % len(words)]}
        for number, name in enumerate(dict.fromkeys(names))
    ]
    content = {
        "format": 1,
        "run_id": document["run_id"],
        "initials": "ab",
        "verdicts": lines,
    }
    path = scored.folder / "verdicts.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    run("review", scored.directory, path, *scored.ledger)


def follow_review(scored: Scored) -> None:
    verdicts_on(scored, ("confirmed", "ruled out", "unsure"))


def follow_retrain(scored: Scored) -> None:
    verdicts_on(scored, ("ruled out", "confirmed"))
    tables = scored.night.parent / scored.night.name.replace(NIGHT, "{date}")
    options = ("--nights", tables, "--out", scored.folder / "next", "--jobs", "1")
    run("retrain", SERIES, scored.model, scored.past, *options, *scored.ledger)


def follow_outcomes(scored: Scored) -> None:
    names = list(scored.table.id[::7])
    path = scored.table_of("events", id=names, at=["2026-03-01 10:00"] * len(names))
    columns = ("--id", "id", "--time", "at", "--within", "72h")
    run("outcomes", path, *columns, *scored.ledger, "--as-of", "2026-03-09")


def follow_history(scored: Scored) -> None:
    out = ("--out", scored.folder / "history.html")
    run("history", "--verify", *out, *scored.ledger)


def follow_validate(scored: Scored, *more: str) -> None:
    out = ("--out", scored.folder / "elsewhere")
    run("validate", scored.model, scored.other, "--label", "label", *out, *more)


def follow_recalibrate(scored: Scored) -> None:
    follow_validate(scored, "--recalibrate")


def follow_threshold(scored: Scored) -> None:
    rule = ("--max-flag-rate", "0.2", "--reason", "capacity")
    run("threshold", scored.model, *rule, *scored.ledger, "--series", SERIES)


def follow_approve(scored: Scored) -> None:
    answers = ("--by", "Dr. A", "--reason", "tried")
    run("approve", scored.model, *answers, *scored.ledger, "--series", SERIES)


def score_later(scored: Scored, model: Path, out: str, *more: str) -> int:
    night = ("--date", LATER, "--jobs", "1", "--series", SERIES)
    place = ("--out", scored.folder / out)
    return run("score", model, scored.past, *place, *night, *more, *scored.ledger)


def follow_score(scored: Scored) -> None:
    score_later(scored, scored.model, "again")


def follow_promote(scored: Scored) -> None:
    challenger = scored.folder / "challenger"
    shutil.copytree(scored.model, challenger)
    run("threshold", challenger, "--max-flag-rate", "0.3", "--reason", "wider")
    score_later(scored, challenger, "shadow", "--shadow")
    run("promote", challenger, "--series", SERIES, "--reason", "new", *scored.ledger)


def follow_run(scored: Scored) -> None:
    site = scored.folder / "NIGHT.toml"
    site.write_text(SITE.format(table=scored.night.name))
    run("run", site, "--date", NIGHT)


def follow_retire(scored: Scored) -> None:
    run("retire", SERIES, "--reason", "closed", *scored.ledger)


def follow_status(scored: Scored) -> None:
    metrics = ("--metrics", scored.folder / "metrics.prom")
    run("status", "--night", NIGHT, "--artefacts", *metrics, *scored.ledger)


def follow_forget(scored: Scored) -> None:
    run("forget", scored.first, "--reason", "asked", *scored.ledger)


def follow_purge(scored: Scored) -> None:
    run("purge", "--older-than", "1d", "--runs", scored.folder, *scored.ledger)


def follow_backup(scored: Scored) -> None:
    folder = scored.folder / "backups"
    place = scored.folder / "ledger.db"
    run("ledger", "backup", place, "--to", folder, allowed={0})
    (backup,) = folder.glob("*.db")
    run("ledger", "restore", place, "--from", backup, allowed={0})


def follow_rebuild(scored: Scored) -> None:
    run("ledger", "rebuild", scored.folder / "ledger.db", allowed={0})


def follow_accept(scored: Scored) -> None:
    options = ("--runs", scored.folder, "--reason", "tried")
    run("ledger", "accept", scored.folder / "ledger.db", *options)


def follow_moved(scored: Scored) -> None:
    options = ("--from", scored.directory, "--reason", "tried")
    run("ledger", "moved", scored.folder / "ledger.db", *options)


def follow_merge(scored: Scored) -> None:
    """Merged, the night after and its history stand, and so do they undone."""
    merge = {"old": [scored.first], "since": ["2026-03-01"]}
    path = scored.table_of("merged", new=["NEW-1"], **merge)
    run("ledger", "merge", path, *scored.ledger, allowed={0})
    score_later(scored, scored.model, "again")
    run("history", *scored.ledger, allowed={0, 5})
    path = scored.table_of("undone", new=[""], **merge)
    run("ledger", "merge", path, *scored.ledger, allowed={0})


# Forms that need images, which the tables of pairs are not.
OF_IMAGES = ("nifti", "dicom-seg")
# What follows a night, by its name; its first word is a command.
FOLLOWING: dict[str, Callable[[Scored], None]] = {
    "check": follow_check,
    "init": follow_init,
    "compare": follow_compare,
    "explain": follow_explain,
    "report": follow_report,
    "review": follow_review,
    "retrain": follow_retrain,
    "outcomes": follow_outcomes,
    "history": follow_history,
    "validate": follow_validate,
    "validate recalibrate": follow_recalibrate,
    "threshold": follow_threshold,
    "approve": follow_approve,
    "score": follow_score,
    "promote": follow_promote,
    "run": follow_run,
    "retire": follow_retire,
    "status": follow_status,
    "forget": follow_forget,
    "purge": follow_purge,
    "ledger backup": follow_backup,
    "ledger restore": follow_backup,
    "ledger rebuild": follow_rebuild,
    "ledger accept": follow_accept,
    "ledger moved": follow_moved,
    "ledger merge": follow_merge,
    **{
        f"export {form}": partial(follow_export, form)
        for form in FORMS
        if form not in OF_IMAGES
    },
}
# Commands of every case.
IN_EVERY_CASE = {"train", "score"}
# Commands that are in no pair, and why.
UNPAIRED = {
    "demo": "it takes no table and no option that changes what it does",
    "recipes": "it reads the shipped files alone",
    "schema": "it prints a constant",
    "features": "it reads events, and no table of patients",
    "serve": "it shows what other commands wrote until it is stopped",
}
ACTIONS = [f"ledger {action.value}" for action in Action]
