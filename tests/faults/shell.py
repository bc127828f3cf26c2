"""Printed commands are typed: in a shell in the long run, else in this process."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from faults.amounts import LONG
from screening.cli import app

PROGRAM = Path(sys.executable).with_name("screen")
# Names that a shell would act on, were they not quoted.
HOSTILE = "ward $(touch pwned) `touch pwned` ; touch pwned & 'x' \"y\" #"
# What a person writes for the words in capitals.
WORDS = {
    "WHY": "it is meant",
    "NAME": "Dr. Weber",
    "COLUMNS": "fever,crp,ward",
    "DATE": "2026-03-31",
}


def in_shell(
    command: str, folder: Path, code: int | None = 0, **words: str
) -> subprocess.CompletedProcess:
    """Type a printed command in bash, with words in place of those in capitals."""
    for placeholder, word in words.items():
        command = command.replace(f" {placeholder}", f" {shlex.quote(word)}")
    path = f"{PROGRAM.parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path, "PWD": str(folder)},
        capture_output=True,
        text=True,
    )
    assert code in (None, ended.returncode), ended.stderr
    return ended


def typed(command: str, folder: Path, codes: tuple[int, ...], **words: str) -> str:
    """Type a printed command; return its answer."""
    if LONG:
        ended = in_shell(command, folder, None, **WORDS | words)
        assert ended.returncode in codes, ended.stderr
        return ended.stdout
    told = [(WORDS | words).get(word, word) for word in shlex.split(command)[1:]]
    result = CliRunner().invoke(app, told)
    assert result.exit_code in codes, result.stderr
    return result.stdout
