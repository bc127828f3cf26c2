"""Log lines say when and of which night and name no patient; a terminal gets a table and a bar, no more."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest
from commands import screen
from flow_cohorts import patients, written

from screening.cli.logs import KEYS

ALWAYS = ["time", "level", "logger", "event"]


@pytest.fixture(scope="module")
def desk(logistic_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    (folder / "m").symlink_to(logistic_model)
    written(patients(60, seed=1).drop(columns="ill"), folder / "tonight.csv")
    return folder


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def night(desk, out, *words: object, code: int = 0):
    known = ["--ledger", out / "l.db", "--series", "ward-7", "--date", "2026-03-01", "--out", out / "run"]
    return screen("--log", "json", "score", desk / "m", *words, *known, "--json", code=code)


def test_a_night_that_succeeded_is_one_line_with_series_night_and_run(desk, tmp_path):
    answer = night(desk, tmp_path, desk / "tonight.csv")

    last = lines(answer.stderr)[-1]
    assert (last["series"], last["night"], last["level"]) == ("ward-7", "2026-03-01", "info")
    assert last["run"] == json.loads(answer.stdout)["run_id"]
    assert last["peak_mb"] > 10


def test_a_night_that_failed_is_one_line_with_its_exit_code(desk, tmp_path):
    broken = written(patients(60, seed=1).drop(columns=["ill", "crp"]), tmp_path / "broken.csv")
    last = lines(night(desk, tmp_path, broken, code=3).stderr)[-1]

    assert (last["level"], last["series"], last["night"], last["exit_code"]) == (
        "error", "ward-7", "2026-03-01", 3,
    )  # fmt: skip
    assert "crp" in last["event"]


@pytest.mark.parametrize(
    "words", [["scoer"], ["score"], ["score", "--out"], ["score", "m", "c", "--otu", "x"]]
)
def test_a_mistyped_command_is_a_line_too(words):
    (line,) = lines(screen("--log=json", *words, code=2).stderr)

    assert (line["level"], line["exit_code"]) == ("error", 2)


def test_lines_have_declared_keys_only_and_no_patient(desk, tmp_path):
    table = patients(60, seed=1).drop(columns="ill").assign(crp="raised")
    said = night(desk, tmp_path, desk / "tonight.csv").stderr
    said += night(desk, tmp_path, written(table, tmp_path / "broken.csv"), code=3).stderr

    logged = lines(said)
    assert all([*line][:4] == ALWAYS and set(line) <= set(KEYS) for line in logged)
    assert len(logged) >= 2
    assert [name for name in [*table["patient"], "raised"] if name in said] == []


def test_a_bug_is_a_line_that_names_its_place_and_not_its_message():
    code = (
        "from screening.cli.logs import LogFormat, log_to_stderr\n"
        "log_to_stderr(LogFormat.json)\n"
        "raise KeyError('patient 00123')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    (line,) = lines(ended.stderr)
    assert (line["level"], line["exit_code"]) == ("critical", 1)
    assert "KeyError" in line["event"]
    assert "00123" not in ended.stderr


LONG = """
import time
from screening.cli.console import bar
with bar("Training [all]") as progress:
    for done in range(21):
        progress(done, 20)
        time.sleep(0.1)
        {at_the_end}
"""
ANSWER = """
from screening.cli.console import print_answer
print_answer({"out": "m", "notes": ["[b] \\u202e", "w " * 60]}, False)
"""
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def on_a_terminal(code: str) -> str:
    """What a terminal of sixty columns gets of a program."""
    leader, follower = pty.openpty()
    known = os.environ | {"TERM": "xterm", "COLUMNS": "60"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=follower, stderr=follower, env=known):
        os.close(follower)
        told = b""
        try:
            while more := os.read(leader, 1 << 16):
                told += more
        except OSError:  # the other end is closed
            pass
    os.close(leader)
    return told.decode()


def test_a_bar_on_a_terminal_has_the_time_left_and_gives_the_cursor_back():
    told = on_a_terminal(LONG.format(at_the_end=""))

    assert "Training [all]" in told
    assert "100%" in told
    assert re.search(r"0:00:0[1-9]", told)
    assert told.rfind(SHOW) > told.rfind(HIDE) >= 0


def test_the_time_left_is_told_by_that_since_the_first_call():
    """Reading a large table counts, and what an earlier attempt had finished does not."""
    code = """
import time
from screening.cli.console import bar
with bar("Training") as progress:
    progress({first}, 100)
    time.sleep(1.5)
    progress(60, 100)
"""
    assert "0:00:01" in on_a_terminal(code.format(first=0))
    assert "0:00:06" in on_a_terminal(code.format(first=50))


def test_a_command_that_fails_gives_the_cursor_back():
    told = on_a_terminal(LONG.format(at_the_end="assert done < 15"))

    assert "AssertionError" in told
    assert told.rfind(SHOW) > told.rfind(HIDE) >= 0


def test_without_a_terminal_there_is_no_bar():
    done = subprocess.run([sys.executable, "-c", LONG.format(at_the_end="")], capture_output=True, check=True)

    assert (done.stdout, done.stderr) == (b"", b"")


def test_an_answer_on_a_terminal_is_folded_within_its_column_and_steers_nothing():
    told = on_a_terminal(ANSWER)
    lines = [line.rstrip() for line in told.replace("\x1b[1m", "").replace("\x1b[0m", "").split("\r\n")]

    assert lines[:2] == ["out    m", "notes  [b] \\u202e"]
    assert len(lines) > 4
    assert all(line.startswith("       w") for line in lines[2:] if line)


def test_an_answer_elsewhere_is_a_line_a_value():
    done = subprocess.run([sys.executable, "-c", ANSWER], capture_output=True, text=True, check=True)

    assert done.stdout == f"out    m\nnotes  [b] \\u202e\n       {'w ' * 60}\n"
