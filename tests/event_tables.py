"""A small made hospital as a long table of events, and a spec that reads it."""

import datetime
import json
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import default_rng

from screening.features.engine import engine_opened
from screening.features.events import EVENT_COLUMNS, open_session
from screening.features.faults import Faults
from screening.features.reading import read_source
from screening.features.spec import Source, Spec

COLUMNS = ["subject", "stay", "time", "known_since", "code", "value", "unit", "text"]
FIRST, LAST = "2024-03-20", "2024-04-10"
SPEC = """
hour = "06:00"
zone = "Europe/Berlin"

[[source]]
format = "long"
path = {path}

[stays]
age = "18.."
row = "{row}"

[features]
creatinine = {{ codes = "LAB/crea", window = "48h", take = "last", unit = "mg/dL" }}
creatinine_first = {{ codes = "LAB/crea", window = "stay", take = "first", unit = "mg/dL" }}
creatinine_change = {{ codes = "LAB/crea", window = "72h", take = "change", unit = "mg/dL" }}
crp_mean = {{ codes = "LAB/crp", window = "stay", take = "mean" }}
crp_sum = {{ codes = "LAB/crp", window = "24h", take = "sum" }}
crp_slope = {{ codes = "LAB/crp", window = "72h", take = "slope" }}
crp_min = {{ codes = "LAB/crp", window = "72h", take = "min" }}
crp_max = {{ codes = "LAB/crp", window = "72h", take = "max" }}
lab_count = {{ codes = "LAB/*", window = "24h", take = "count" }}
antibiotic = {{ codes = ["DRUG/a", "DRUG/b"], window = "stay", take = "any" }}
hours_since_antibiotic = {{ codes = "DRUG/*", window = "7d", take = "hours_since" }}
culture = {{ codes = "MIC/blood", window = "stay", take = "last", text = true }}
age = "age"
sex = "sex"
ward = "ward"
days = "days_in_hospital"

[outcome]
codes = "DX/sepsis"
within = "48h"
"""


def hospital(n_stays: int = 80, seed: int = 0) -> pd.DataFrame:
    """Return events: laboratory values in two units, late, doubled and corrected."""
    rng = default_rng(seed)
    lines: list[list[object]] = []
    start = pd.Timestamp(FIRST, tz="Europe/Berlin")
    for number in range(n_stays):
        subject, stay = f"P{number // 2:03}", f"S{number:03}"
        begins = start + pd.Timedelta(minutes=int(rng.integers(0, 14 * 1440)))
        n_days = float(rng.uniform(1, 8))
        ends = begins + pd.Timedelta(days=n_days)
        is_ill = rng.random() < 0.4

        def add(
            time, code, value=None, unit=None, text=None, delay=0.0, s=stay, p=subject
        ):
            known = time + pd.Timedelta(minutes=round(delay))
            lines.append([p, s, time, known, code, value, unit, text])

        born = pd.Timestamp("1950-01-01", tz="UTC") + pd.Timedelta(
            days=300 * (number // 2)
        )
        add(born, "BIRTH", s=None)
        add(born, "SEX", text="F" if number % 4 < 2 else "M", s=None)
        add(begins, "ADMISSION", text="3B")
        add(begins + (ends - begins) / 2, "TRANSFER", text="ICU")
        add(ends, "DISCHARGE", text="home", delay=30)
        for _ in range(int(rng.integers(3, 14))):
            time = begins + (ends - begins) * rng.random()
            value = round(float(rng.lognormal(0, 0.4)) * (2 if is_ill else 1), 3)
            delay = float(rng.exponential(120))
            if rng.random() < 0.5:
                add(time, "LAB/crea", value, "mg/dL", delay=delay)
            else:
                add(time, "LAB/crea", round(value * 88.42, 1), "umol/L", delay=delay)
            if rng.random() < 0.2:
                lines.append([*lines[-1]])
            if rng.random() < 0.2:
                add(time, "LAB/crea", value + 1, "mg/dL", delay=delay + 600)
            add(time, "LAB/crp", round(value * 30, 1), "mg/L", delay=delay)
            if rng.random() < 0.1:
                add(time, "LAB/crp", text="entered-in-error", delay=delay + 900)
        if rng.random() < 0.5:
            time = begins + (ends - begins) * rng.random()
            add(time, "DRUG/a")
            add(
                time, "MIC/blood", text="E. coli" if is_ill else "no growth", delay=2000
            )
        if is_ill:
            add(begins + (ends - begins) * rng.uniform(0.3, 1), "DX/sepsis", delay=60)
    events = pd.DataFrame(lines, columns=COLUMNS)
    for column in ("time", "known_since"):
        events[column] = pd.to_datetime(events[column], utc=True).dt.floor("s")
    return events


def written_events(events: pd.DataFrame, path: Path) -> Path:
    """Write events as CSV or Parquet, by the ending of the path."""
    if path.suffix == ".parquet":
        events.to_parquet(path, index=False)
    else:
        times = events[["time", "known_since"]].apply(
            lambda column: column.map(
                lambda time: time.isoformat() if pd.notna(time) else ""
            )
        )
        events.assign(**times).to_csv(path, index=False)
    return path


def spec_of(
    folder: Path, path: str = "events.csv", row: str = "first", more: str = ""
) -> Path:
    """Write the spec that reads events of a folder."""
    spec = folder / "spec.toml"
    text = SPEC.format(path=json.dumps(path), row=row)
    spec.write_text(text + more, encoding="utf-8")
    return spec


def small_spec(folder: Path, lines: str, features: str, more: str = "") -> Path:
    """Write a long table in CSV and a spec of a few features; return the spec."""
    header = ",".join(COLUMNS)
    (folder / "events.csv").write_text(f"{header}\n{lines}", encoding="utf-8")
    spec = folder / "spec.toml"
    head = 'hour = "06:00"\nzone = "Europe/Berlin"\n'
    source = '[[source]]\nformat = "long"\npath = "events.csv"\n'
    spec.write_text(f"{head}{source}{more}\n[features]\n{features}\n", encoding="utf-8")
    return spec


def altered_after(events: pd.DataFrame, hour: str, seed: int) -> pd.DataFrame:
    """Return events shuffled, those unknown at an hour altered or deleted."""
    rng = default_rng(seed)
    at = pd.Timestamp(hour)
    known = events["known_since"].fillna(events["time"])
    is_later = ((events["time"] > at) | (known > at)).to_numpy()
    later = events[is_later].sample(frac=0.6, random_state=seed)
    values = later["value"] * rng.uniform(0, 3, len(later))
    codes = rng.permutation(later["code"].to_numpy())
    altered = later.assign(value=values.round(2), code=codes)
    whole = pd.concat([events[~is_later], altered])
    return whole.iloc[rng.permutation(np.arange(len(whole)))]


def events_of(source: Source) -> tuple[list[tuple], list[tuple]]:
    """Return the events of a source as rows, and its faults as (kind, file, lines)."""
    faults = Faults()
    columns = ", ".join(EVENT_COLUMNS)
    with open_session(1) as session:
        read_source(source, "source_1", session, faults)
        query = f"SELECT {columns} FROM source_1(NULL, NULL) ORDER BY ALL"
        rows = session.connection.execute(query).fetchall()
    return rows, _found(faults)


def faults_of_stays(source: Source) -> list[tuple]:
    """Return the faults of a source whose stays were looked at, as `events_of` does."""
    spec = Spec(hour="06:00", zone=source.zone, source=(source,))
    with engine_opened(spec, [datetime.date(2026, 3, 3)]) as engine:
        engine.find_rows()
        return _found(engine.faults)


def _found(faults: Faults) -> list[tuple]:
    found = [(kind, file, lines) for (kind, file), lines in faults.lines.items()]
    return sorted(found, key=lambda fault: (fault[1], fault[0].name))
