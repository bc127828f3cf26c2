"""Running the tool's commands inside a test."""

import json
import re
import shlex
from collections.abc import Iterable
from functools import cache
from glob import glob
from pathlib import Path

import typer.testing
from typer.testing import CliRunner

from screening.cli import app
from screening.schemas.schemas import ANSWERS
from screening.store.serialization import read_document

WHO = ("--label", "ill", "--id", "patient")
# The columns of `flow_cohorts.patients`, which are all known at the hour of the night.
KNOWN_BEFORE = ("--known-before", "fever,crp,ward")
LOGISTIC = (
    "--recipe",
    "logistic",
    "--search",
    "1",
    "--folds",
    "3",
    "--jobs",
    "1",
    "--beside",
    "none",
)

# Made once for all tests: that takes longer than most commands.
typer.testing._get_command = cache(typer.testing._get_command)


def invoked(*words: object):
    """Run a command in this process; its result, however it ended."""
    return CliRunner().invoke(app, [str(word) for word in words])


def screen(*words: object, code: int = 0):
    """Run a command in this process; insist on its exit code, and on the schema of what
    --json prints.
    """
    result = invoked(*words)
    assert result.exit_code == code, result.stderr + result.stdout
    if "--json" in words and code in (0, 2, 5):
        answer = json.loads(result.stdout)
        command = (
            "error"
            if "error" in answer
            else next(word for word in words if word in ANSWERS)
        )
        ANSWERS[command].from_dict(answer, "the answer")
    return result


def as_json(*words: object, code: int = 0) -> dict:
    """Run a command; its answer."""
    answer = screen(*words, "--json", code=code)
    return json.loads(answer.stdout)


def commands_of(page: str) -> list[str]:
    """The lines of a document that a reader types."""
    return re.findall(r"^\$ screen (.*)$", page, flags=re.MULTILINE)


def typed(line: str):
    """Run such a line as it stands; quotes and `*` mean what they mean in a shell."""
    expanded = []
    for word in shlex.split(line):
        expanded += sorted(glob(word)) if "*" in word else [word]
    return screen(*expanded)


def verdicts_on(names: Iterable[str], word: str) -> list[dict[str, str]]:
    """The same verdict on each of some patients, as a file of verdicts has it."""
    return [{"id": name, "verdict": word} for name in names]


def verdict_file(run: Path, verdicts: list, **more: object) -> Path:
    """A file of verdicts on a night, beside its run directory."""
    content = {
        "format": 1,
        "run_id": read_document(run, "run")["run_id"],
        "initials": "ab",
        "verdicts": verdicts,
    } | more
    path = run.parent / "verdicts.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def sampled(run: dict) -> list[str]:
    """Ids of the random audit of a run's document."""
    return [one["id"] for one in run["sample"]]
