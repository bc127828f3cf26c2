"""What is printed is typed: printed commands go through a shell as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import LOGISTIC, WHO, as_json, screen
from flow_cohorts import night_of_patients, patients, written

from screening.spelling import SERVER_LEDGER, command_line

PROGRAM = Path(sys.executable).with_name("screen")
# Names that a shell would act on, were they not quoted.
HOSTILE = "ward $(touch pwned) `touch pwned` ; touch pwned & 'x' \"y\" #"
SITE = """
[site]
ledger = "l.db"
runs = "runs"
jobs = 1

[series.icu]
model = "m"
cohort = "in/{date}.csv"
catch_up = 0
"""


def in_shell(
    command: str, folder: Path, code: int = 0, **words: str
) -> subprocess.CompletedProcess:
    """Type a printed command in bash, with words in place of those in capitals."""
    for placeholder, word in words.items():
        command = command.replace(f" {placeholder}", f" '{word}'")
    path = f"{PROGRAM.parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path, "PWD": str(folder)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == code, ended.stderr
    return ended


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model that is trained once for all cases."""
    folder = tmp_path_factory.mktemp("model")
    past = written(patients(), folder / "past.csv")
    words = (*WHO, "--positive", "yes", *LOGISTIC, "--max-flag-rate", "0.3")
    screen("train", past, *words, "--out", folder / "m")
    return folder / "m"


@pytest.fixture
def site(model, tmp_path) -> Path:
    """NIGHT.toml of a site in a folder with a hostile name, and three tables."""
    folder = tmp_path / HOSTILE
    (folder / "in").mkdir(parents=True)
    subprocess.run(["cp", "-a", model, folder / "m"], check=True)
    for day in (1, 2, 3):
        table = night_of_patients(60, seed=day)
        written(table, folder / f"in/2026-03-0{day}.csv")
    (folder / "NIGHT.toml").write_text(SITE)
    return folder / "NIGHT.toml"


def line_of(file: Path, day: int, code: int = 0) -> dict:
    """Return the overview's line of the series on a night."""
    (line,) = as_json("run", file, "--date", f"2026-03-0{day}", code=code)["series"]
    return line


def test_command_line_hostile(tmp_path):
    """Whatever a name holds, the shell hands it on as it is, and runs nothing of it."""
    command = command_line("retire", HOSTILE, "--ledger", SERVER_LEDGER, Path("-x"))
    printed = command.replace("screen ", "printf '%s\\n' ", 1)

    ended = subprocess.run(
        ["bash", "-c", printed],
        cwd=tmp_path,
        env={"SCREEN_LEDGER": "a b", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )

    assert ended.stdout.splitlines() == ["retire", HOSTILE, "--ledger", "a b", "./-x"]
    assert list(tmp_path.iterdir()) == []


def test_missing_table_given_up(site):
    """The night of a table that never came is given up by the printed command."""
    line = line_of(site, 8, code=2)
    again, give_up = line["remedies"]

    in_shell(again, site.parent, code=2)
    # The entry is made; that no later night came is said too.
    in_shell(give_up, site.parent, code=5, WHY="the export is gone")

    assert line_of(site, 8)["status"] == "given up"
    assert not list(site.parent.rglob("pwned"))


def test_missing_table_came(site):
    """Once the table is there, the first printed command scores it."""
    again, _ = line_of(site, 8, code=2)["remedies"]
    written(night_of_patients(60, seed=8), site.parent / "in/2026-03-08.csv")

    in_shell(again, site.parent)

    assert line_of(site, 8)["status"] == "unchanged"


def test_changed_table_replaced(site):
    """Another table of a scored night replaces it by the printed command."""
    line_of(site, 1)
    written(night_of_patients(60, seed=9), site.parent / "in/2026-03-01.csv")
    (replace,) = line_of(site, 1, code=2)["remedies"]

    in_shell(replace, site.parent, WHY="a corrected table")

    assert line_of(site, 1)["status"] == "unchanged"


def test_table_of_another_night_accepted(site):
    """A table that is yesterday's by its bytes is accepted by the printed command."""
    line_of(site, 1)
    table = site.parent / "in/2026-03-01.csv"
    (site.parent / "in/2026-03-02.csv").write_bytes(table.read_bytes())
    _, accept, _ = line_of(site, 2, code=3)["remedies"]

    in_shell(accept, site.parent, WHY="nothing has changed")

    assert line_of(site, 2)["status"] == "unchanged"


def test_threshold_takes_approval_away(site):
    """The answer says that the model is a draft again, and the printed command approves
    it.
    """
    folder = site.parent
    known = ("--known-before", "fever,crp,ward", "--reason", "it is known")
    screen("approve", folder / "m", "--by", "Dr. Weber", *known)
    why = ("--reason", "fewer flags")

    told = screen("threshold", folder / "m", "--max-flag-rate", "0.1", *why)

    approve = told.stderr.partition("somebody approves it: ")[2].splitlines()[0]
    more = " --known-before fever,crp,ward --reason 'it is known'"
    in_shell(approve + more, folder, NAME="Dr. Weber")
    line_of(site, 1)
    assert line_of(site, 1)["approval"]["by"] == "Dr. Weber"


def test_threshold_for_one_of_two_series(site):
    """Who else uses the model is said; with both named, no night is refused."""
    second = SITE.partition("[series.icu]")[2].replace("in/", "b/")
    site.write_text(f"{SITE}\n[series.ward]{second}")
    folder = site.parent
    (folder / "b").mkdir()
    for day in (1, 2):
        table = night_of_patients(60, seed=20 + day)
        written(table, folder / f"b/2026-03-0{day}.csv")
    screen("run", site, "--date", "2026-03-01")
    change = ("threshold", folder / "m", "--max-flag-rate", "0.2")
    words = ("--reason", "fewer flags", "--ledger", folder / "l.db")

    screen(*change, *words, "--series", "icu,ward")

    screen("run", site, "--date", "2026-03-02")
    told = screen(
        *("threshold", folder / "m", "--max-flag-rate", "0.1", *words),
        *("--series", "icu"),
    )
    assert "series ward stays with the model as it was" in told.stderr
    assert "--series icu,ward" in told.stderr
