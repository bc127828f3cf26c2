"""Nights of a made hospital by `features`, `train`, `run` and `outcomes` alone.

    python benchmarks/features_nights.py --patients 2000 --nights 30

The past of two years is made of events, a model is trained, and NIGHT.toml names the
spec in place of a table. Each night the events are those that were known by then, in
one of four formats (`--format`). At the end the outcomes are made of all events, by the
same spec. Of every scored row its label is compared with that of the past's table for
these nights, and each night is made again by `check --as-of`; the script fails if a
label or a night differs. Printed are the counts.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pandas as pd
from made_hospital import screen
from made_hospital_events import WRITERS, make_events

PAST = ("2023-01-02", "2024-11-30")
FIRST_NIGHT = date(2025, 2, 1)
LAST_OUTCOMES = "2025-12-31"
SOURCES = {
    "long": 'format = "long"\npath = "events/long"',
    "meds": """format = "meds"
path = "events/meds"
columns = { stay = "stay_id", known_since = "known_since", unit = "unit" }
codes = { BIRTH = "MEDS_BIRTH", DEATH = "MEDS_DEATH" }""",
    "omop": """format = "omop"
path = "events/omop"
columns = { known_since = "known_since" }
codes = { MERGED = "Hospital/merged-into" }""",
    "fhir": 'format = "fhir"\npath = "events/fhir"\nzone = "Europe/Berlin"',
}
CREATININE = 'codes = ["LOINC/2160-0", "LOINC/14682-9"], unit = "umol/L"'
SPEC = f"""hour = "06:00"
zone = "UTC"

[[source]]
{{source}}

[stays]
row = "every"

[features]
age = "age"
sex = "sex"
days_in = "days_in_hospital"
creatinine = {{{{ {CREATININE}, window = "48h", take = "last" }}}}
creatinine_change = {{{{ {CREATININE}, window = "48h", take = "change" }}}}
creatinine_slope = {{{{ {CREATININE}, window = "7d", take = "slope" }}}}
potassium = {{{{ codes = "LOINC/2823-3", window = "48h", take = "last" }}}}
pressure = {{{{ codes = "LOINC/8480-6", window = "24h", take = "min" }}}}
heart_rate = {{{{ codes = "LOINC/8867-4", window = "24h", take = "max" }}}}
furosemide = {{{{ codes = "RxNorm/4603", window = "48h", take = "sum" }}}}

[outcome]
codes = "SNOMED/14669001"
within = "48h"
complete = "{{complete}}"
"""
SITE = """[site]
ledger = "screening.db"
time_zone = "UTC"
hour = "06:00"
jobs = 1

[series.kidney]
model = "model"
features = "spec.toml"
"""


def deliver(events: pd.DataFrame, folder: Path, kind: str, night: str | None) -> None:
    """Write the events that are known at a night, and the spec that reads them."""
    known = events
    if night is not None:
        hour = pd.Timestamp(f"{night}T06:00")
        since = events["known_since"].fillna(events["time"]).fillna(pd.Timestamp.min)
        known = events[since.le(hour) & events["time"].fillna(since).le(hour)]
    place = folder / "events" / kind
    place.mkdir(parents=True, exist_ok=True)
    WRITERS[kind](known, place)
    complete = night or LAST_OUTCOMES
    spec = SPEC.format(source=SOURCES[kind], complete=complete)
    (folder / "spec.toml").write_text(spec, encoding="utf-8")


def labels_of(table: Path) -> dict[str, int]:
    """Return the labels of a past's rows by their id."""
    frame = pd.read_parquet(table, columns=["id", "label"])
    return dict(zip(frame["id"], frame["label"], strict=True))


def main() -> None:
    """Run the nights; print counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patients", type=int, default=2000)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--format", choices=WRITERS, default="long")
    parser.add_argument("--recipe", default="logistic")
    options = parser.parse_args()
    events = make_events(options.patients, 3, 0)
    nights = [str(FIRST_NIGHT + timedelta(days=day)) for day in range(options.nights)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "NIGHT.toml").write_text(SITE, encoding="utf-8")
        spec, past = folder / "spec.toml", folder / "past.parquet"
        ledger = folder / "screening.db"
        deliver(events, folder, options.format, nights[0])
        screen("features", spec, "--past", "..".join(PAST), "--out", past)
        screen(
            *("train", past, "--recipe", options.recipe, "--jobs", 1),
            *("--out", folder / "model"),
        )
        print(
            f"past: {len(labels_of(past)):,} rows, {sum(labels_of(past).values())} ill"
        )
        scored: Counter[str] = Counter()
        for night in nights:
            deliver(events, folder, options.format, night)
            # A night of attention ends with 1.
            answer = screen(
                *("run", folder / "NIGHT.toml", "--date", night, "--json"),
                codes=(0, 1),
            )
            scored.update(line["status"] for line in answer["series"])
        print(f"nights: {dict(scored)}")
        deliver(events, folder, options.format, None)
        # The first night catches up the week before it.
        before = str(FIRST_NIGHT - timedelta(days=7))
        span = f"{before}..{nights[-1]}"
        screen("features", spec, "--outcomes", span, "--out", folder / "became.parquet")
        screen(
            *("outcomes", folder / "became.parquet", "--series", "kidney"),
            *("--ledger", ledger, "--rows", folder / "rows.csv"),
            *("--as-of", LAST_OUTCOMES),
        )
        screen("features", spec, "--past", span, "--out", folder / "truth.parquet")
        compare(folder / "rows.csv", labels_of(folder / "truth.parquet"))
        for night in nights:
            answer = screen(
                "check", folder / "NIGHT.toml", "--as-of", night, "--json", codes=(0, 5)
            )
            (line,) = answer["nights"]
            if not line["same"]:
                raise SystemExit(f"{night} is not made again: {line}")
        print(f"{len(nights)} nights are made again of all events, the same")


def compare(rows: Path, truth: dict[str, int]) -> None:
    """Compare the labels of scored rows with those of the past's table."""
    frame = pd.read_csv(rows, dtype=str)
    counts = Counter(frame["truth"])
    labelled = frame[frame["truth"].isin(["case", "none"])]
    labels = (labelled["truth"] == "case").astype(int)
    found = dict(zip(labelled["stay"], labels, strict=True))
    differ = [row for row in truth if truth[row] != found.get(row)]
    # Of patients who come back, outcomes are known up to the end of the later stay.
    more = len(set(found) - set(truth))
    print(f"rows by outcome: {dict(counts)}; {len(truth):,} of the past, {more} more")
    if differ:
        raise SystemExit(f"{len(differ)} labels differ")


if __name__ == "__main__":
    main()
