"""A series that NIGHT.toml lost is named every night, and a slip is asked for."""

import shlex
from functools import partial
from pathlib import Path

import pytest
from commands import as_json, screen
from flow_cohorts import night_of_patients, written
from kept import keep, put_back

FIRST = "2026-03-01"
SECOND = ("--date", "2026-03-02")
SITE = """
[site]
ledger = "l.db"
runs = "runs"
jobs = 1
"""
SERIES = """
[series.{name}]
model = "{model}"
cohort = "in/{name}-{{date}}.csv"
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory, logistic_model):
    """A site of two wards that have had their first night."""
    folder = tmp_path_factory.mktemp("missing") / "site"
    (folder / "in").mkdir(parents=True)
    for number, name in enumerate(("icu", "ward-nine", "ward-nin")):
        for day in (1, 2, 9):
            table = night_of_patients(60, seed=10 * number + day)
            written(table, folder / f"in/{name}-2026-03-0{day}.csv")
    file = write_site(folder, logistic_model, "icu", "ward-nine")
    screen("run", file, "--date", FIRST)
    return keep(folder)


def write_site(folder: Path, model: Path, *names: str) -> Path:
    """Write NIGHT.toml with these series, and return its path."""
    file = folder / "NIGHT.toml"
    tables = [SERIES.format(name=name, model=model) for name in names]
    file.write_text(SITE + "".join(tables))
    return file


@pytest.fixture
def site(kept, logistic_model):
    """A function that writes NIGHT.toml with these series, and returns its path; both
    wards have had their first night.
    """
    return partial(write_site, put_back(kept), logistic_model)


def lines_of(answer: dict) -> dict[str, dict]:
    return {line["series"]: line for line in answer["series"]}


def typed(command: str, **words: str) -> list[str]:
    """Return the words of a printed command, its placeholders filled in."""
    program, *arguments = shlex.split(command)
    assert program == "screen"
    return [words.get(word, word) for word in arguments]


def test_lost_section(site):
    """A series whose section is gone is a line of the overview and of `status --site`,
    code 5, until it is retired by the command that is printed.
    """
    file = site("icu")

    answer = as_json("run", file, *SECOND, code=5)
    due = ("status", "--site", file, "--night", "2026-03-02")
    status = as_json(*due, code=5)

    line = lines_of(answer)["ward-nine"]
    assert (line["status"], line["exit_code"]) == ("failed", 5)
    assert f"it was last scored for {FIRST}, is not in NIGHT.toml" in line["said"]
    named = {each["series"]: each["fine"] for each in status["series"]}
    assert named == {"icu": True, "ward-nine": False}
    page = Path(answer["overview"]).read_text()
    assert "put its section [series.ward-nine] back" in page
    (retire,) = line["remedies"]
    screen(*typed(retire, WHY="closed"))
    assert "ward-nine" not in lines_of(as_json("run", file, *SECOND))
    screen(*due)


def test_lost_section_put_back(site):
    """With its section back, the series is scored and nothing is missing."""
    screen("run", site("icu"), *SECOND, code=5)

    both = site("icu", "ward-nine")
    screen("run", both, *SECOND)

    screen("status", "--site", both, "--night", "2026-03-02")


def test_lost_section_long_ago(site):
    """A series that had no night within `catch_up` days is not asked for."""
    answer = as_json("run", site("icu"), "--date", "2026-03-09")

    assert lines_of(answer).keys() == {"icu"}


def test_slip_in_name(site):
    """A new series whose name is like a missing one's is not scored until somebody
    corrects the name.
    """
    file = site("icu", "ward-nin")

    answer = as_json("run", file, *SECOND, code=2)

    line = lines_of(answer)["ward-nin"]
    assert line["status"] == "failed"
    assert "ward-nin is new, and ward-nine" in line["said"]
    assert not (file.parent / "runs/ward-nin").exists()
    corrected = as_json("run", site("icu", "ward-nine"), *SECOND)
    assert lines_of(corrected)["ward-nine"]["status"] == "published"


def test_slip_in_name_of_new_ward(site):
    """Asked for by name, as the printed command does, it is scored; the missing one
    stays missing until the printed command retires it.
    """
    file = site("icu", "ward-nin")
    line = lines_of(as_json("run", file, *SECOND, code=2))["ward-nin"]
    retire, by_name = line["remedies"]

    answer = as_json(*typed(by_name), code=5)

    lines = lines_of(answer)
    assert lines["ward-nin"]["status"] == "published"
    assert lines["ward-nine"]["exit_code"] == 5
    screen(*typed(retire, WHY="closed"))
    assert "ward-nine" not in lines_of(as_json("run", file, *SECOND))
