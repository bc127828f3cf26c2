"""Measure a night and a past of `screen features` on the events of a large hospital.

    python benchmarks/speed/features.py --events 100000000 --out made
    python benchmarks/speed/features.py --out made --zone Europe/Berlin
    python benchmarks/speed/features.py --out made --format omop

Stays last five days on average, and each has a thousand events: a file of Parquet for
each day, and one for admissions, transfers, discharges, births and sexes. The spec has
forty features. `--zone` takes its times as those of another zone, and `--format omop`
writes the events as the tables of OMOP CDM 5.4. Seconds and the largest resident memory
are those of a process each; `--profile` prints where a night's seconds go.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from datetime import date, timedelta
from pathlib import Path

import duckdb

FIRST_DAY = date(2023, 1, 1)
N_DAYS = 1096
EVENTS_A_STAY = 1000
# Mean, so that every stay of one to nine days has a day's share of its events.
DAYS_A_STAY = 5
EVENTS_A_DAY = EVENTS_A_STAY // DAYS_A_STAY
N_CODES = 60
TAKES = ("last", "min", "max", "mean", "count", "slope", "change", "first", "sum")
WINDOWS = ("24h", "72h", "stay")

DRAW = "CREATE MACRO draw(key, n) AS (hash(key) % n)::BIGINT"
STAYS = f"""CREATE OR REPLACE TABLE stays AS
SELECT 'P' || draw(n, $n * 2 // 3) AS subject, 'S' || n AS stay,
  TIMESTAMP '{FIRST_DAY}' + to_seconds(draw((n, 1), {N_DAYS - 10} * 86400)) AS begins,
  begins + to_seconds(86400 + draw((n, 2), 8 * 86400)) AS ends,
  ['3A', '3B', 'ICU', '5C'] AS wards
FROM range($n) numbers(n)"""
MOVES = """SELECT subject, stay, begins AS time, begins AS known_since,
  'ADMISSION' AS code, NULL::DOUBLE AS value, NULL::VARCHAR AS unit,
  wards[1 + draw(stay, 4)] AS text FROM stays
UNION ALL SELECT subject, stay, begins + (ends - begins) / 2, begins + (ends - begins) / 2,
  'TRANSFER', NULL, NULL, wards[1 + draw((stay, 3), 4)] FROM stays
UNION ALL SELECT subject, stay, ends, ends, 'DISCHARGE', NULL, NULL, NULL FROM stays
UNION ALL SELECT DISTINCT subject, NULL, TIMESTAMP '1920-01-01'
  + to_seconds(86400 * draw(subject, 30000)), NULL, 'BIRTH', NULL, NULL, NULL FROM stays
UNION ALL SELECT DISTINCT subject, NULL, NULL, NULL, 'SEX', NULL, NULL,
  ['female', 'male'][1 + draw((subject, 1), 2)] FROM stays"""
DAY = f"""SELECT subject, stay, time,
  time + to_seconds(draw((stay, n, 1), 7200)) AS known_since,
  'LAB/' || draw((stay, n, $day, 2), {N_CODES}) AS code,
  1 + draw((stay, n, $day, 3), 10000) / 100 AS value, 'mg/dL' AS unit,
  NULL::VARCHAR AS text
FROM (SELECT subject, stay, n, begins, ends,
    $day + to_microseconds(draw((stay, n, $day), 86400000000)) AS time
  FROM stays, range({EVENTS_A_DAY}) numbers(n)
  WHERE begins < $day + INTERVAL 1 DAY AND ends >= $day)
WHERE time BETWEEN begins AND ends ORDER BY time"""
SOURCES = {
    "long": """[[source]]
format = "long"
path = "stays.parquet"

[[source]]
format = "long"
path = "events"
by_day = true""",
    "omop": """[[source]]
format = "omop"
path = "omop"
by_day = true
columns = { known_since = "known_since" }""",
}
# Tables of OMOP, by their files, of the stays; of each day its measurements.
OMOP = {
    "person": """SELECT subject[2:]::BIGINT AS person_id, 8532 AS gender_concept_id,
  year(time) AS year_of_birth, month(time) AS month_of_birth, day(time) AS day_of_birth
FROM '{folder}/stays.parquet' WHERE code = 'BIRTH'""",
    "visit_occurrence": """SELECT stay[2:]::BIGINT AS visit_occurrence_id,
  subject[2:]::BIGINT AS person_id, 9201 AS visit_concept_id,
  min(time)::DATE AS visit_start_date, min(time) AS visit_start_datetime,
  max(time)::DATE AS visit_end_date, max(time) AS visit_end_datetime
FROM '{folder}/stays.parquet' WHERE stay IS NOT NULL GROUP BY ALL""",
    "concept": f"""SELECT 1000 + n AS concept_id, 'LAB' AS vocabulary_id,
  n::VARCHAR AS concept_code, 'Test ' || n AS concept_name
FROM range({N_CODES}) numbers(n)""",
}
MEASUREMENTS = """SELECT subject[2:]::BIGINT AS person_id,
  stay[2:]::BIGINT AS visit_occurrence_id,
  1000 + code[5:]::BIGINT AS measurement_concept_id, time::DATE AS measurement_date,
  time AS measurement_datetime, value AS value_as_number, unit AS unit_source_value,
  known_since
FROM '{file}'"""
SPEC = """hour = "06:00"
zone = "{zone}"

{source}

[stays]
longest = "30d"

[features]
{features}
age = "age"
sex = "sex"
ward = "ward"

[outcome]
codes = "LAB/7"
above = 99
within = "48h"
"""


def make_hospital(folder: Path, n_events: int) -> None:
    """Write a hospital's events."""
    if (folder / "events").is_dir():
        return
    (folder / "events").mkdir(parents=True)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(DRAW)
    n_stays = n_events // EVENTS_A_STAY
    connection.execute(STAYS.replace("$n", str(n_stays)))
    copied = "COPY ({}) TO '{}' (FORMAT parquet)"
    connection.execute(copied.format(MOVES, folder / "stays.parquet"))
    for number in range(N_DAYS):
        day = FIRST_DAY + timedelta(days=number)
        select = DAY.replace("$day", f"TIMESTAMP '{day}'")
        file = folder / "events" / f"{day}.parquet"
        connection.execute(copied.format(select, file))


def write_omop(folder: Path) -> None:
    """Write the events as tables of OMOP."""
    omop = folder / "omop"
    if omop.is_dir():
        return
    (omop / "measurement").mkdir(parents=True)
    connection = duckdb.connect()
    copied = "COPY ({}) TO '{}' (FORMAT parquet)"
    for table, select in OMOP.items():
        query = select.format(folder=folder)
        connection.execute(copied.format(query, omop / f"{table}.parquet"))
    for file in (folder / "events").iterdir():
        query = MEASUREMENTS.format(file=file)
        connection.execute(copied.format(query, omop / "measurement" / file.name))


def write_spec(folder: Path, kind: str, zone: str) -> Path:
    """Write the spec of forty features; return it."""
    spec = folder / "spec.toml"
    features = "\n".join(
        f'f{number} = {{ codes = "LAB/{number}", window = "{WINDOWS[number % 3]}", '
        f'take = "{TAKES[number % len(TAKES)]}" }}'
        for number in range(40)
    )
    text = SPEC.format(zone=zone, source=SOURCES[kind], features=features)
    spec.write_text(text, encoding="utf-8")
    return spec


def measure(spec: Path, nights: tuple[str, ...], threads: int) -> tuple[float, float]:
    """Return seconds and the largest resident memory in GB of a table's making."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_made, (spec, nights, threads))


def _made(spec: Path, nights: tuple[str, ...], threads: int) -> tuple[float, float]:
    from screening import Features

    features = Features(spec, threads=threads)
    begin = time.perf_counter()
    if len(nights) == 1:
        made = features.make_night(*nights, covered=False)
    else:
        made = features.make_past(*nights, covered=False)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"  {made.table.num_rows:,} rows, {dict(made.rows)}")
    return seconds, peak


def profile(spec: Path, nights: tuple[str, ...], threads: int) -> None:
    """Print the seconds of each statement of a table's making."""
    from screening.features.engine import Engine
    from screening.features.table import Features

    run = Engine.run

    def timed(engine: Engine, sql: str, **values: object) -> duckdb.DuckDBPyConnection:
        begin = time.perf_counter()
        answer = run(engine, sql, **values)
        seconds = time.perf_counter() - begin
        print(
            f"  {seconds:6.2f} s  {' '.join(engine.session.statements[-1].split())[:90]}"
        )
        return answer

    Engine.run = timed  # type: ignore[method-assign]
    features = Features(spec, threads=threads)
    if len(nights) == 1:
        features.make_night(*nights, covered=False)
    else:
        features.make_past(*nights, covered=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--format", choices=tuple(SOURCES), default="long")
    parser.add_argument("--zone", default="UTC")
    parser.add_argument("--profile", choices=("night", "past"))
    parser.add_argument("--no-past", action="store_true")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    make_hospital(arguments.out, arguments.events)
    if arguments.format == "omop":
        write_omop(arguments.out)
    spec = write_spec(arguments.out, arguments.format, arguments.zone)
    print(f"hospital: {time.perf_counter() - begin:.0f} s")
    night = (str(FIRST_DAY + timedelta(days=N_DAYS // 2)),)
    past = (str(FIRST_DAY), str(FIRST_DAY + timedelta(days=N_DAYS - 1)))
    if arguments.profile:
        profile(spec, past if arguments.profile == "past" else night, arguments.threads)
        return
    for name, nights in {"night": night, "past": past}.items():
        if name == "past" and arguments.no_past:
            continue
        seconds, peak = measure(spec, nights, arguments.threads)
        print(f"{name}: {seconds:.1f} s, {peak:.1f} GB")


if __name__ == "__main__":
    main()
