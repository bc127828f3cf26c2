"""Would the tests see a mistake? One at a time is made in a copy of the tree, and its
tests are run.

    nice python benchmarks/mutants.py --out mutants.csv [--only cohort/units]

The mistakes are in mutants.toml beside this file; the tests have to pass without any.
What was tried stands in the CSV, with the test that saw it, and is not tried again.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from resumed import run_missing

ROOT = Path(__file__).parents[1]
# Imported once: of a run of two seconds they would be most. Nothing of ours, which is
# what changes.
LARGE = [
    "numpy",
    "scipy.stats",
    "scipy.special",
    "pandas",
    "pyarrow",
    "numba",
    "sqlalchemy",
    "pytest",
]
LARGE += ["sklearn.linear_model", "sklearn.isotonic", "jinja2", "typer", "pydantic"]
COLUMNS = ("file", "old", "new", "outcome", "by", "seconds")
LOG = "pytest.log"
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)


@dataclass(frozen=True)
class Mistake:
    """A change of one file, and the test files that should fail by it; `accepted` says
    why none need to.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    accepted: str = ""

    def applied_to(self, text: str) -> str | None:
        """Return the text with the mistake made, or None unless its place is unique.

        Where the formatter breaks lines, and the comma it puts before a closing
        bracket then, make no difference.
        """
        tokens = re.findall(r"\w+|\S", self.old)
        pattern = r"\s*".join(
            (r",?\s*" if token in ")]}" else "") + re.escape(token) for token in tokens
        )
        places = list(re.finditer(pattern, text))
        if len(places) != 1:
            return None
        return text[: places[0].start()] + self.new.strip() + text[places[0].end() :]


def mistakes() -> list[Mistake]:
    """All of the list, in its order."""
    stored = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))[
        "mistakes"
    ]
    return [
        Mistake(of["file"], made[0], made[1], tuple(of["tests"]), *made[2:])
        for of in stored
        for made in of["made"]
    ]


def tried(tree: Path, limit: float, mistake: Mistake) -> Iterator[dict[str, object]]:
    """Make a mistake in the tree, run its tests, take it back: "killed", "survived",
    "old text not found".
    """
    path = tree / mistake.file
    text, began = path.read_text("utf-8"), time.monotonic()
    outcome, by = "old text not found", ""
    changed = mistake.applied_to(text)
    if changed is not None:
        try:
            _write(path, changed)
            by = failing(tree, mistake.tests, limit)
            outcome = "killed" if by else "survived"
        finally:
            _write(path, text)
    print(
        f"{outcome:9} {mistake.file}: {mistake.old!r} -> {mistake.new!r} {by}",
        flush=True,
    )
    seconds = round(time.monotonic() - began, 1)
    yield dict(
        zip(
            COLUMNS,
            (mistake.file, mistake.old, mistake.new, outcome, by, seconds),
            strict=True,
        )
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    # Python tells a stale cache by size and second alone.
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def failing(tree: Path, tests: tuple[str, ...], limit: float) -> str:
    """The first test that fails in the tree, "no end" for one that never ends; nothing
    where all pass.
    """
    log = tree / LOG
    run = multiprocessing.get_context("forkserver").Process(
        target=_run, args=(tree, tests, log)
    )
    run.start()
    run.join(limit)
    if run.is_alive():
        run.kill()
        run.join()
        return "no end"
    if run.exitcode == 0:
        return ""
    found = re.search(
        r"^(?:FAILED|ERROR) tests/(\S+)",
        log.read_text("utf-8", "replace"),
        re.MULTILINE,
    )
    return found[1] if found else f"exit {run.exitcode}"


def _run(tree: Path, tests: tuple[str, ...], log: Path) -> None:
    import pytest

    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    sys.path.insert(0, str(tree))
    with log.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    names = [f"tests/test_{name}.py" for name in tests]
    sys.exit(
        pytest.main(
            ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", *names]
        )
    )


def main() -> None:
    """Try what is missing, then count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("mutants.csv"))
    parser.add_argument(
        "--only", default="", help="mistakes in files with this in their path"
    )
    parser.add_argument(
        "--limit", type=float, default=900, help="seconds after which tests do not end"
    )
    asked = parser.parse_args()
    multiprocessing.get_context("forkserver").set_forkserver_preload(LARGE)
    wanted = [each for each in mistakes() if asked.only in each.file]
    # By lot, so that the first half an hour tells the share of all.
    random.Random(0).shuffle(wanted)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(shutil.copytree(ROOT, Path(folder) / "tree", ignore=NOT_COPIED))
        pieces = [(each.file, each.old, each) for each in wanted]
        run_missing(
            asked.out,
            COLUMNS,
            COLUMNS[:2],
            pieces,
            lambda *piece: tried(tree, asked.limit, piece[2]),
        )
    found = pd.read_csv(asked.out)
    print(found.groupby("file")["outcome"].value_counts().unstack(fill_value=0))
    print(found["outcome"].value_counts())


if __name__ == "__main__":
    main()
