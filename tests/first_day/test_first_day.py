"""A newcomer's own table reaches a page in three commands, or ends in one message with the remedy."""

import re
from pathlib import Path

import pytest
from tables import MESSAGES, PAGES
from typer.testing import CliRunner

from screening.cli import app

QUICK = ["--recipe", "logistic", "--search", "1", "--repeats", "1", "--beside", "none"]


def three_commands(folder: Path, past: Path, night: Path):
    """Run `init`, `check`, `train` and `score` up to the first that refuses; give back the last answer."""
    contract, model = folder / "cohort.toml", folder / "model"
    for words in (
        ["init", past, "--out", contract],
        ["check", past, "--contract", contract],
        ["train", past, "--contract", contract, *QUICK, "--out", model],
        ["score", model, night, "--out", folder / "run"],
    ):
        answer = CliRunner().invoke(app, [str(word) for word in words])
        if answer.exit_code:
            break
    return answer


@pytest.mark.parametrize("quirk", PAGES.values(), ids=PAGES.keys())
def test_a_quirky_table_reaches_a_page_in_three_commands(tmp_path, quirk):
    answer = three_commands(tmp_path, *quirk.files(tmp_path))

    assert answer.exit_code == 0, answer.stderr
    assert (tmp_path / "run" / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("quirk", MESSAGES.values(), ids=MESSAGES.keys())
def test_what_cannot_be_read_ends_in_one_message_that_names_column_and_remedy(tmp_path, quirk):
    answer = three_commands(tmp_path, *quirk.files(tmp_path))

    assert answer.exit_code in (2, 3)
    assert re.search(quirk.answer, answer.stderr), answer.stderr
    assert not (tmp_path / "run").exists()
