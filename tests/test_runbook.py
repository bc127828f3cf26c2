"""Every command line of the runbook does what is said beside it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from commands import screen
from flow_cohorts import patients, written

from screening.store.loading import load_model

RUNBOOK = Path(__file__).parents[1] / "docs" / "runbook.md"
BLOCKS = re.findall(r"```sh\n(.*?)```", RUNBOOK.read_text(encoding="utf-8"), re.DOTALL)
QUICK = ["--search", "1", "--folds", "3", "--repeats", "1", "--jobs", "1", "--beside", "none"]


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs sqlite3")
def test_the_runbook_can_be_followed_from_top_to_bottom(tmp_path):
    place, backup = tmp_path / "lib", tmp_path / "backups"
    (place / "in").mkdir(parents=True)
    backup.mkdir()
    past = [written(patients(), tmp_path / "past.csv"), "--label", "ill", "--id", "patient"]
    rule = ["--recipe", "logistic", "--max-flag-rate", 0.3]
    screen("train", *past, *rule, *QUICK, "--out", place / "model")
    screen("approve", place / "model", "--by", "A. Weber", "--reason", "a trial")
    night = written(patients(60, seed=7), place / "in/2026-03-01.csv")
    where = ["--ledger", place / "screening.db", "--series", "ward-7"]
    out = ["--date", "2026-03-01", "--out", place / "runs/2026-03-01"]
    screen("score", place / "model", night, *where, *out)
    (tmp_path / "id.txt").write_text("00700003\n")
    shown = {
        "/var/lib/screening": place, "/var/backups/screening": backup, "/root/id.txt": tmp_path / "id.txt",
        "/tmp/trial": tmp_path / "trial", "python3 ": f"{sys.executable} ",
    }  # fmt: skip
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def follow(blocks: list[str]) -> None:
        for block in blocks:
            for written_there, here in shown.items():
                block = block.replace(written_there, str(here))
            followed = ["sh", "-euc", block]
            environment = os.environ | {"PATH": path}
            done = subprocess.run(followed, capture_output=True, text=True, env=environment, cwd=tmp_path)
            assert done.returncode == 0, block + done.stderr

    back = next(number for number, block in enumerate(BLOCKS) if "model.back" in block)
    follow(BLOCKS[:back])
    # What is gone back from.
    screen("threshold", place / "model", "--g-mean", "--reason", "a trial", *where)
    before = load_model(place / "model").id
    follow(BLOCKS[back:])

    assert (tmp_path / "trial/report.html").exists()
    assert load_model(place / "model.back").id != before
    assert (backup / "by-python.db").read_bytes()[:15] == b"SQLite format 3"
    assert "00700003" not in set(pd.read_parquet(place / "runs/2026-03-01/scores.parquet")["id"])
