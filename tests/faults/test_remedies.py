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


@pytest.fixture
def wards(site) -> Path:
    """The site with two more wards that share the model, each with two nights."""
    second = SITE.partition("[series.icu]")[2]
    more = [f"\n[series.{name}]{second.replace('in/', f'{name}/')}" for name in "bc"]
    site.write_text(SITE + "".join(more))
    for number, name in enumerate("bc", start=1):
        (site.parent / name).mkdir()
        for day in (1, 2):
            table = night_of_patients(60, seed=20 * number + day)
            written(table, site.parent / f"{name}/2026-03-0{day}.csv")
    screen("run", site, "--date", "2026-03-01")
    return site


def statuses(site: Path, day: int, code: int = 0) -> list[str]:
    """Return the status of each series on a night."""
    overview = as_json("run", site, "--date", f"2026-03-0{day}", code=code)
    return [line["status"] for line in overview["series"]]


def test_threshold_for_all_series(wards):
    """With all series named, no night is refused."""
    folder = wards.parent
    change = ("--max-flag-rate", "0.2", "--reason", "fewer flags")
    where = ("--ledger", folder / "l.db", "--series", "icu,b,c")

    told = screen("threshold", folder / "m", *change, *where)

    assert "stays with the model" not in told.stderr
    assert statuses(wards, 2) == ["published"] * 3


def test_threshold_for_one_series_mended(wards):
    """Who else uses the model is said, and the printed command gives them the change
    too; history says that their threshold changed.
    """
    folder = wards.parent
    change = ("--max-flag-rate", "0.2", "--reason", "fewer flags")
    where = ("--ledger", folder / "l.db", "--series", "icu")
    told = screen("threshold", folder / "m", *change, *where)
    command = told.stderr.partition("gets the change too: ")[2].splitlines()[0]

    in_shell(command, folder, WHY="of all wards")

    assert "series b, c stays with the model as it was" in told.stderr
    assert statuses(wards, 2) == ["published"] * 3
    history = as_json("history", "--ledger", folder / "l.db", "--verify")
    changed = {each["series"] for each in history["threshold_changes"]}
    assert changed >= {"b", "c"}
    assert history["promotions"] == []


def test_series_stopped_by_a_threshold(wards):
    """A refused night prints the one command that mends every ward it stopped, and no
    other night is lost.
    """
    folder = wards.parent
    change = ("--max-flag-rate", "0.2", "--reason", "fewer flags")
    where = ("--ledger", folder / "l.db", "--series", "icu")
    screen("threshold", folder / "m", *change, *where)
    overview = as_json("run", wards, "--date", "2026-03-02", code=2)
    first, second, third = overview["series"]

    in_shell(second["remedies"][0], folder, WHY="of all wards")

    assert first["status"] == "published"
    assert "entered for other series" in second["said"]
    assert second["remedies"][0] == third["remedies"][0]
    assert statuses(wards, 2) == ["unchanged", "published", "published"]
    # The same command again changes nothing.
    in_shell(second["remedies"][0], folder, WHY="of all wards")
    assert not list(folder.rglob("pwned"))


@pytest.fixture
def challenged(site) -> Path:
    """The site with a challenger in shadow, its first night scored as a draft."""
    folder = site.parent
    subprocess.run(["cp", "-a", folder / "m", folder / "next"], check=True)
    screen("threshold", folder / "next", "--max-flag-rate", "0.1", "--reason", "fewer")
    shadow = 'catch_up = 0\nshadow = ["next"]  # since March\n'
    site.write_text(SITE.replace("catch_up = 0\n", shadow))
    line_of(site, 1)
    return site


def approve(model: Path, *where: object) -> None:
    """Approve a model that was a draft."""
    known = ("--known-before", "fever,crp,ward", "--reason", "it is known")
    screen("approve", model, "--by", "Dr. Weber", *known, *where)


@pytest.mark.parametrize("is_told", [True, False])
def test_promotion_writes_the_site(challenged, is_told):
    """A model that was in shadow as a draft is promoted after its approval, whether or
    not the ledger was told, and the next night runs.
    """
    folder = challenged.parent
    ledger = ["--ledger", folder / "l.db", "--series", "icu"] if is_told else []
    approve(folder / "next", *ledger)
    words = ("promote", folder / "next", "--site", challenged, "--series", "icu")

    answer = as_json(*words, "--reason", "fewer flags")

    assert answer["beside"]["nights"] == 1
    text = challenged.read_text()
    assert 'model = "next"' in text
    assert "shadow = []  # since March" in text
    line = line_of(challenged, 2)
    assert line["status"] == "published"
    assert line["model"] == answer["champion"]


def test_promotion_without_the_site(challenged):
    """Until NIGHT.toml names the new champion, the refused night prints what writes
    it.
    """
    folder = challenged.parent
    approve(folder / "next")
    where = ("--ledger", folder / "l.db", "--series", "icu", "--reason", "fewer")
    answer = as_json("promote", folder / "next", *where)
    assert "under [series." in answer["next"]
    command, again, _ = line_of(challenged, 2, code=2)["remedies"]

    in_shell(command, folder, WHY="fewer flags")
    in_shell(again, folder)

    assert line_of(challenged, 2)["status"] == "unchanged"
    assert not list(folder.rglob("pwned"))


def test_promotion_line_is_read(challenged):
    """The printed line names the model, whatever its path holds."""
    folder = challenged.parent
    approve(folder / "next")
    where = ("--ledger", folder / "l.db", "--series", "icu", "--reason", "fewer")
    answer = as_json("promote", folder / "next", *where)
    line = answer["next"].partition("write ")[2].partition(" under")[0]

    text = challenged.read_text().replace('model = "m"', line)
    challenged.write_text(text.replace('shadow = ["next"]', ""))

    assert line_of(challenged, 2)["status"] == "published"
