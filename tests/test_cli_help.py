"""What the commands say of themselves, what they wait for, and what the text of an option means."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from commands import screen

from screening.cli import EXAMPLES, demo, options
from screening.errors import UsageError

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HEAVY = ("pandas", "pyarrow", "sklearn", "scipy", "numba", "dask", "distributed")


def test_the_documents_show_the_help_that_is_printed():
    written = runpy.run_path(str(ROOT / "docs" / "commands.py"))

    assert written["commands"]() == (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert written["readme"](README) == README


@pytest.mark.parametrize("command", EXAMPLES, ids=lambda command: command.__name__)
def test_help_shows_one_example_that_the_command_understands(command):
    shown = screen(command.__name__, "--help").stdout
    example = EXAMPLES[command].split()

    assert f"Example: {EXAMPLES[command]}" in " ".join(shown.split())
    assert example[:2] == ["screen", command.__name__]
    assert {word for word in example if word.startswith("--")} <= set(shown.split())


def test_help_is_quick_for_it_waits_for_no_numerical_package():
    code = "import sys\nfrom screening.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    command = [sys.executable, "-c", code, "--help"]

    answer = subprocess.run(command, capture_output=True, text=True, check=True)

    assert set(answer.stdout.split()) & set(HEAVY) == set()


def test_python_m_screening_is_the_same_command():
    answer = subprocess.run(
        [sys.executable, "-m", "screening", "--version"], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"screening \d+\.\d+\.\d+\n", answer.stdout)


def test_the_shell_completes_the_name_of_a_command():
    ask = {"_SCREEN_COMPLETE": "complete_bash", "COMP_WORDS": "screen sc", "COMP_CWORD": "1"}
    code = "import sys; sys.argv[0] = 'screen'; from screening.cli import main; main()"
    answer = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | ask, capture_output=True, text=True, check=False
    )
    assert "score" in answer.stdout.split()


def test_the_demo_writes_every_report_and_says_where(tmp_path, monkeypatch):
    job = demo.__globals__["JOBS"][0]._replace(recipe="logistic", max_rows=150)
    monkeypatch.setitem(demo.__globals__, "JOBS", (job,))
    places = json.loads(screen("demo", "--out", tmp_path / "demo", "--json").stdout)["reports"]

    assert len(places) == 2
    pages = [Path(place).read_text(encoding="utf-8").lower() for place in places]
    assert [page[:15] for page in pages] == ["<!doctype html>"] * 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("C=10", 10),
        ("C=1e-3", 0.001),
        ("class_weight=balanced", "balanced"),
        ("normalise=true", True),
        ("g=a=b", "a=b"),
    ],
)
def test_a_parameter_is_a_number_or_a_truth_where_it_looks_like_one(text, value):
    (read,) = options.parameters_from([text]).values()
    assert read == value
    assert type(read) is type(value)


def test_a_parameter_without_a_name_is_refused():
    with pytest.raises(UsageError, match="name=value"):
        options.parameters_from(["=3"])
