"""Running the tool's commands inside a test."""

from functools import cache

import typer.testing
from typer.testing import CliRunner

from screening.cli import app

# Made once for all tests: that takes longer than most commands.
typer.testing._get_command = cache(typer.testing._get_command)


def screen(*words: object, code: int = 0):
    """Run a command in this process and insist on its exit code."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.stderr + result.stdout
    return result
