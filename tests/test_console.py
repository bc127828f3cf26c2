"""A terminal gets a table of the answer and a bar with the time left; elsewhere plain text and no bar."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

LONG = """
import time
from screening.cli.console import bar
with bar("Training [all]") as progress:
    for done in range(21):
        progress(done, 20)
        time.sleep(0.1)
        {at_the_end}
"""
ANSWER = (
    'from screening.cli.console import tell; tell({"out": "m", "notes": ["[b] \\u202e", "w " * 60]}, False)'
)
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


def test_a_command_that_fails_gives_the_cursor_back():
    told = on_a_terminal(LONG.format(at_the_end="assert done < 15"))

    assert "AssertionError" in told
    assert told.rfind(SHOW) > told.rfind(HIDE) >= 0


def test_work_of_less_than_a_second_draws_nothing():
    assert on_a_terminal(LONG.replace("0.1", "0").format(at_the_end="")) == ""


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


def test_what_draws_is_not_loaded_where_nothing_is_drawn():
    code = ANSWER + "\nimport sys; print('rich.table' in sys.modules, 'rich.progress' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "False False"
