"""Log lines say when and of which night and name no patient; a terminal gets a table
and a bar, no more.
"""

import json
import os
import pty
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from commands import screen
from flow_cohorts import night_of_patients, written

from screening.cli.logs import KEYS

ALWAYS = ["time", "level", "logger", "event"]


@pytest.fixture(scope="module")
def desk(logistic_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    (folder / "m").symlink_to(logistic_model)
    written(night_of_patients(60, seed=1), folder / "tonight.csv")
    return folder


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def night(desk, out, *words: object, code: int = 0):
    known = [
        "--ledger",
        out / "l.db",
        "--series",
        "ward-7",
        "--date",
        "2026-03-01",
        "--out",
        out / "run",
    ]
    return screen(
        "--log", "json", "score", desk / "m", *words, *known, "--json", code=code
    )


@pytest.mark.parametrize(
    "words",
    [
        ["scoer"],
        ["score"],
        ["score", "--out"],
        ["score", "m", "c", "--otu", "x"],
    ],
)
def test_a_mistyped_command_is_a_line_too(words):
    refused = screen("--log=json", *words, code=2)
    (line,) = lines(refused.stderr)
    assert line["level"] == "error"
    assert line["exit_code"] == 2


def test_a_night_is_one_line_with_its_series_night_and_run(desk, tmp_path):
    """Or, where it failed, with its exit code; lines have declared keys only, and no
    patient.
    """
    table = night_of_patients(60, seed=1)
    raised = table.assign(crp="raised")
    short = table.drop(columns="crp")
    scored = night(desk, tmp_path, desk / "tonight.csv")
    answers = [scored.stderr]
    for name, broken in {"short": short, "raised": raised}.items():
        answers.append(
            night(
                desk, tmp_path, written(broken, tmp_path / f"{name}.csv"), code=3
            ).stderr
        )

    done, failed, _ = (lines(answer)[-1] for answer in answers)
    assert done["series"] == "ward-7"
    assert done["night"] == "2026-03-01"
    assert done["level"] == "info"
    assert done["run"] == json.loads(scored.stdout)["run_id"]
    assert done["peak_mb"] > 10
    assert failed["series"] == "ward-7"
    assert failed["night"] == "2026-03-01"
    assert failed["level"] == "error"
    assert failed["exit_code"] == 3
    assert "crp" in failed["event"]
    for line in lines("".join(answers)):
        assert [*line][:4] == ALWAYS
        assert set(line) <= set(KEYS)
    printed = "".join(answers)
    for name in [*table["patient"], "raised"]:
        assert name not in printed


def program(code: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_bug_is_a_line_that_names_its_place_and_not_its_message():
    ended = program(
        "from screening.cli.logs import LogFormat, log_to_stderr\n"
        "log_to_stderr(LogFormat.json)\nraise KeyError('patient 00123')"
    )

    (line,) = lines(ended.stderr)
    assert line["level"] == "critical"
    assert line["exit_code"] == 1
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
HIDE = "\x1b[?25l"
SHOW = "\x1b[?25h"


def on_a_terminal(code: str) -> str:
    """What a terminal of sixty columns gets of a program."""
    leader, follower = pty.openpty()
    known = os.environ | {"TERM": "xterm", "COLUMNS": "60"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=follower, stderr=follower, env=known
    ):
        os.close(follower)
        told = b""
        try:
            while more := os.read(leader, 1 << 16):
                told += more
        except OSError:  # the other end is closed
            pass
    os.close(leader)
    return told.decode()


def test_progress_bar_terminal():
    """A bar on a terminal has the time left and gives the cursor back.

    Also where the command fails; without a terminal there is none.
    """
    with ThreadPoolExecutor() as pool:
        whole_run = pool.submit(on_a_terminal, LONG.format(at_the_end=""))
        failed_run = pool.submit(
            on_a_terminal, LONG.format(at_the_end="assert done < 15")
        )
        without = program(LONG.format(at_the_end=""))
    whole = whole_run.result()
    failed = failed_run.result()

    assert "Training [all]" in whole
    assert "100%" in whole
    assert re.search(r"0:\d\d:(0[1-9]|[1-5]\d)", whole)
    assert "AssertionError" in failed
    for shown in (whole, failed):
        assert shown.rfind(SHOW) > shown.rfind(HIDE) >= 0
    assert without.stdout == ""
    assert without.stderr == ""


SILENT = """
import time
from screening.cli import waiting
from screening.cli.console import bar, print_answer
from screening.cli.logs import LogFormat, log_to_stderr, note
waiting.PATIENCE = waiting.INTERVAL = 0.1
log_to_stderr(LogFormat.text)
with waiting.shown_work("Judging the model"):
    time.sleep(1)
    note("beware")
    time.sleep(0.3)
    with bar("Training") as progress:
        time.sleep(1.5)
    print_answer({"out": "m"}, False)
    time.sleep(0.3)
"""


def test_silent_command_terminal():
    """A command without a word names its work and the seconds on a terminal.

    A bar without progress is drawn too. Notes and answers have lines of their own.
    """
    with ThreadPoolExecutor() as pool:
        terminal_run = pool.submit(on_a_terminal, SILENT)
        without = program(SILENT)
    told = terminal_run.result()
    shown = [line.rpartition("\x1b[K")[2] for line in told.split("\r\n")]

    assert "\x1b[KJudging the model: 1 s" in told
    assert "screen: beware" in shown
    assert "Training" in told.partition("beware")[2]
    assert re.sub(r"\x1b\[[01]m", "", told).rstrip().endswith("out  m")
    assert without.stderr == "screen: beware\n"


def test_answer_folded_and_escaped():
    """An answer on a terminal is folded within its column and steers nothing.

    Elsewhere it is a line a value.
    """
    shown = re.sub(r"\x1b\[[01]m", "", on_a_terminal(ANSWER))
    first, second, *rest = [line.rstrip() for line in shown.split("\r\n")]
    assert [first, second] == ["out    m", "notes  [b] \\u202e"]
    assert len(rest) > 2
    assert all(line.startswith("       w") for line in rest if line)
    assert (
        program(ANSWER).stdout == f"out    m\nnotes  [b] \\u202e\n       {'w ' * 60}\n"
    )
