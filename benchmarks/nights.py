"""Thirty nights on the sample ward: a ledger, verdicts from the labels, and a drift that sets in on night 21.

    python benchmarks/nights.py --out nights

Writes the runs, the ledger and `history.html`; prints one line a night, and whether the trail holds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

SAMPLES = Path(__file__).parents[1] / "sample_cohorts"
FIRST, NIGHTS, DRIFT_FROM, PATIENTS = datetime.date(2026, 1, 1), 30, 20, 120
STAY = 0.6
HOTTER = {"crp": (2.0, 20.0, 480.0), "leucocytes": (1.3, 1.5, 60.0), "temperature_max": (1.0, 0.6, 41.5)}
"""What later nights measure: times, plus, at most."""


def screen(*words: object) -> dict:
    """Run one command of the tool and read its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "screening", *map(str, words), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def ward(rng: np.random.Generator, pool: pd.DataFrame) -> list[pd.DataFrame]:
    """Patients of every night: most stay for the next, some are replaced; later ones run hotter."""
    nights, inside = [], rng.choice(len(pool), PATIENTS, replace=False)
    for night in range(NIGHTS):
        table = pool.iloc[inside].copy()
        if night >= DRIFT_FROM:
            for column, (times, plus, most) in HOTTER.items():
                table[column] = [
                    text and f"{min(times * float(text) + plus, most):.1f}" for text in table[column]
                ]
        nights.append(table)
        outside = np.setdiff1d(np.arange(len(pool)), inside)
        stay = inside[rng.random(PATIENTS) < STAY]
        inside = np.concatenate([stay, rng.choice(outside, PATIENTS - len(stay), replace=False)])
    return nights


def main() -> None:
    """Score, review and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True)
    model, ledger = out / "model", f"sqlite:///{(out / 'screening.db').resolve()}"
    contract = ("--contract", SAMPLES / "nosocomial.toml")
    screen("train", SAMPLES / "nosocomial_past.csv", *contract, "--recipe", "svm_weighted", "--out", model)
    pool = pd.read_csv(SAMPLES / "nosocomial_night_labelled.csv", dtype=str, keep_default_na=False)
    rng = np.random.default_rng(0)
    for night, table in enumerate(ward(rng, pool)):
        date = FIRST + datetime.timedelta(days=night)
        place, run = out / f"{date}.csv", out / f"{date}"
        table.drop(columns="infected").to_csv(place, index=False)
        told = screen("score", model, place, "--out", run, "--date", date, "--ledger", ledger)
        if night % 10 == 0:
            again = screen("score", model, place, "--out", run, "--date", date, "--ledger", ledger)
            assert told["run_id"] == again["run_id"] and told["counts"] == again["counts"]
        ill = dict(zip(table["patient_id"], table["infected"] == "yes", strict=True))
        facts = json.loads((run / "run.json").read_text())
        listed = [case["id"] for case in facts["cases"]] + list(facts["sample"])
        verdicts = [
            {"id": name, "verdict": "confirmed" if ill[name] else "not"}
            for name in listed
            if rng.random() < 0.8
        ]
        (out / "verdicts.json").write_text(
            json.dumps({"format": 1, "run_id": facts["run_id"], "verdicts": verdicts})
        )
        screen("review", run, out / "verdicts.json", "--ledger", ledger)
        counts = facts["counts"]
        print(
            date,
            {key: counts[key] for key in ("scored", "flagged", "new", "ongoing", "reviewed", "resolved")},
        )
    told = screen("history", "--ledger", ledger, "--verify", "--out", out / "history.html")
    print(len(told["runs"]), "nights in the ledger; the trail holds")


if __name__ == "__main__":
    main()
