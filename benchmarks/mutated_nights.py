"""Five hundred nights as an export may spoil them: a page or exit 3, never anything
else.

A page counts where it, `run.json` and `--json` give the same reasons.

python benchmarks/mutated_nights.py --nights 500
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from html import unescape
from pathlib import Path

from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from flow_cohorts import patients, written
from test_mutated_nights import mutated

from screening import read_cohort, save_model, train
from screening.cli import app


def agree(printed: str, run: Path) -> bool:
    """Whether the answer, `run.json` and the page give the same reasons."""
    kept = json.loads((run / "run.json").read_text(encoding="utf-8"))["attention"]
    page = unescape((run / "report.html").read_text(encoding="utf-8"))
    said = json.loads(printed)["attention"] == kept and all(
        reason["words"] in page for reason in kept
    )
    return said and ("ATTENTION</strong>" in page) == bool(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description="A page or exit 3, every time.")
    parser.add_argument("--nights", type=int, default=500)
    asked = parser.parse_args()
    found: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        past = written(patients(400), place / "past.csv")
        cohort = read_cohort(
            past, label="ill", positive="yes", id="patient", need_label=True
        )
        save_model(
            train(cohort, "logistic", search=1, jobs=1, beside=()), place / "model"
        )
        for number in range(asked.nights):
            name, column, night = mutated(number)
            source, run = (
                written(night, place / f"{number}.csv"),
                place / f"run {number}",
            )
            words = [
                "score",
                str(place / "model"),
                str(source),
                "--out",
                str(run),
                "--json",
            ]
            answer = CliRunner().invoke(app, words)
            page = (run / "report.html").exists()
            named = any(word in answer.output for word in ("column", "no data rows"))
            outcome = (
                "page"
                if answer.exit_code == 0 and page and agree(answer.stdout, run)
                else "other"
            )
            if answer.exit_code == 3 and not page and named:
                outcome = "exit 3"
            found[name, outcome] += 1
            if outcome == "other":
                print(
                    f"night {number}, {name} {column}: exit {answer.exit_code}: {answer.exception!r}"
                )
    print("| night | page | exit 3 | other |\n|---|---|---|---|")
    for name in dict.fromkeys(name for name, _ in found):
        print(
            f"| {name} | {found[name, 'page']} | {found[name, 'exit 3']} | {found[name, 'other']} |"
        )


if __name__ == "__main__":
    main()
