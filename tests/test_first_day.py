"""A newcomer's own table, with an export's quirks, reaches a page in three commands, or
one message.
"""

import datetime
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from commands import LOGISTIC
from flow_cohorts import patients
from typer.testing import CliRunner
from written_files import page_in

from screening.cli import app

N_ROWS = 120
Table = pd.DataFrame


def csv(
    sep: str = ",", encoding: str = "utf-8", head: str = ""
) -> Callable[[Table, Path], object]:
    """Write every cell as the text it is."""

    def write(table: pd.DataFrame, path: Path) -> None:
        text = head + table.to_csv(index=False, sep=sep)
        path.write_bytes(text.encode(encoding))

    return write


def excel(table: Table, path: Path) -> None:
    pytest.importorskip("openpyxl")
    table.to_excel(path, index=False)


def files(
    folder: Path, change=lambda table: table, write=None, ending=".csv", label="ill"
):
    """A past with its labels and a night without."""
    past = folder / f"past{ending}"
    night = folder / f"tonight{ending}"
    whole = change(patients(N_ROWS, share=0.3))
    write = write or csv()
    write(whole, past)
    unlabelled = whole.head(25).drop(columns=label, errors="ignore")
    write(unlabelled, night)
    return past, night


def three_commands(folder: Path, past: Path, night: Path):
    """Run `init`, `check`, `train` and `score` up to the first that refuses; give back
    the last answer.
    """
    contract = folder / "cohort.toml"
    model = folder / "model"
    for words in (
        ["init", past, "--out", contract],
        ["check", past, "--contract", contract],
        ["train", past, "--contract", contract, *LOGISTIC, "--out", model],
        ["score", model, night, "--out", folder / "run"],
    ):
        answer = CliRunner().invoke(app, [str(word) for word in words])
        if answer.exit_code:
            break
    return answer


PAGES = {
    "plain": {},
    "sep= line and byte-order mark": {"write": csv(";", "utf-8-sig", "sep=;\n")},
    "a tick or nothing": {
        "change": lambda t: t.assign(catheter=["x", "", ""] * (N_ROWS // 3))
    },
    "empty, constant and nameless columns": {
        "change": lambda t: t.assign(**{"empty": "", "site": "A", "": "left over"})
    },
    "no id": {"change": lambda t: t.drop(columns="patient")},
    "several rows a patient": {
        "change": lambda t: t.assign(patient=[f"P{i // 2}" for i in range(N_ROWS)])
    },
    "label of zero and one": {
        "change": lambda t: t.assign(outcome=(t.pop("ill") == "yes").astype(int)),
        "label": "outcome",
    },
    "names with spaces, quotes and brackets": {
        "change": lambda t: t.rename(
            columns={"fever": 'temp. "max" [°C]', "crp": "CRP, mg/l = x"}
        )
    },
    "times of day and durations": {
        "change": lambda t: t.assign(
            time=[datetime.time(i % 24) for i in range(N_ROWS)],
            stay=pd.to_timedelta(t["crp"], "h"),
        ),
        "write": lambda t, path: t.to_parquet(path),
        "ending": ".parquet",
    },
    "Excel workbook": {"write": excel, "ending": ".xlsx"},
}
# Each names the column (or the file, where no column can be told) and what to do about
# it.
MESSAGES = {
    "a label of one class": (
        {"change": lambda t: t.assign(ill="no")},
        "without a label; name its column with --label",
    ),
    "a label that is ticked": (
        {"change": lambda t: t.replace({"ill": {"yes": "x", "no": ""}})},
        r"column 'ill', rows .*no label; fill",
    ),
    "no column called like a label": (
        {"change": lambda t: t.rename(columns={"ill": "zz"}), "label": "zz"},
        "--label",
    ),
}


@pytest.mark.parametrize("quirk", PAGES.values(), ids=PAGES.keys())
def test_a_quirky_table_reaches_a_page_in_three_commands(tmp_path, quirk):
    answer = three_commands(tmp_path, *files(tmp_path, **quirk))
    assert answer.exit_code == 0, answer.stderr
    assert page_in(tmp_path / "run").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(("quirk", "words"), MESSAGES.values(), ids=MESSAGES.keys())
def test_first_day_unreadable(tmp_path, quirk, words):
    """What cannot be read ends in one message that names column and remedy."""
    answer = three_commands(tmp_path, *files(tmp_path, **quirk))
    assert answer.exit_code in (2, 3)
    assert re.search(words, answer.stderr), answer.stderr
    assert not (tmp_path / "run").exists()
