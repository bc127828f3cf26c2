"""One hospital in four formats gives the same tables, those of a slow reference."""

import importlib
from functools import cache
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

pytest.importorskip("duckdb")

import duckdb
from features_reference import reference_night, reference_past

from screening import Features

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
FORMATS = ("long", "meds", "omop", "fhir")
SOURCES = {
    "long": 'format = "long"\npath = "long/*.parquet"\nzone = "UTC"',
    "meds": """format = "meds"
path = "meds/data"
zone = "UTC"
columns = { stay = "stay_id", known_since = "known_since", unit = "unit" }
codes = { BIRTH = "MEDS_BIRTH", DEATH = "MEDS_DEATH" }""",
    "omop": """format = "omop"
path = "omop"
zone = "UTC"
columns = { known_since = "known_since" }
codes = { MERGED = "Hospital/merged-into" }""",
    "fhir": 'format = "fhir"\npath = "fhir"',
}
CREATININE = 'codes = ["LOINC/2160-0", "LOINC/14682-9"], unit = "umol/L"'
FEATURES = f"""
age = "age"
sex = "sex"
ward = "ward"
days_in = "days_in_hospital"
creatinine = {{ {CREATININE}, window = "48h", take = "last" }}
creatinine_first = {{ {CREATININE}, window = "stay", take = "first" }}
creatinine_change = {{ {CREATININE}, window = "48h", take = "change" }}
creatinine_slope = {{ {CREATININE}, window = "7d", take = "slope" }}
glucose_mean = {{ codes = "LOINC/2345-7", window = "72h", take = "mean", unit = "mmol/L" }}
glucose_any_unit = {{ codes = "LOINC/2345-7", window = "72h", take = "sum" }}
temperature = {{ codes = "LOINC/8310-5", window = "24h", take = "max", unit = "Cel" }}
pressure_slope = {{ codes = "LOINC/8480-6", window = "stay", take = "slope", unit = "mmHg" }}
heart_rate = {{ codes = "LOINC/8867-4", window = "24h", take = "min" }}
potassium = {{ codes = "LOINC/2823-3", window = "24h", take = "last" }}
results = {{ codes = "LOINC/*", window = "24h", take = "count" }}
drugs = {{ codes = "RxNorm/*", window = "stay", take = "count" }}
furosemide = {{ codes = "RxNorm/4603", window = "48h", take = "sum" }}
imaging = {{ codes = "SNOMED/241541005", window = "stay", take = "any" }}
imaged = {{ codes = "SNOMED/241541005", window = "365d", take = "hours_since" }}
diabetes = {{ codes = "SNOMED/44054006", window = "365d", take = "any" }}
culture = {{ codes = "LOINC/600-7", window = "stay", take = "last", text = true }}
"""
# The nights in which the clock goes back and forward, those on which two patients are
# merged, and others.
NIGHTS = ("2023-10-29", "2023-03-26")
PAST = ("2023-08-20", "2023-09-10")


@pytest.fixture(scope="module")
def made():
    """Return the module that makes a hospital."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("made_hospital_events")


@pytest.fixture(scope="module")
def hospital(made, tmp_path_factory):
    """Return the events, and the folder with the hospital and a spec a format."""
    events = made.make_events(patients=150, years=0.85, seed=3, rate=0.2)
    folder = tmp_path_factory.mktemp("hospital")
    made.write_hospital(events, folder)
    for name in FORMATS:
        write_spec(folder / f"{name}.toml", name)
    return events, folder


def write_spec(path, name, stays=""):
    path.write_text(
        f"""hour = "06:00"
zone = "Europe/Berlin"
[[source]]
{SOURCES[name]}
[stays]
{stays}
[features]
{FEATURES}
[outcome]
codes = "SNOMED/14669001"
within = "48h"
""",
        encoding="utf-8",
    )


def merge_nights(events):
    """Return the nights before and after the merges."""
    days = events.loc[events["code"] == "MERGED", "time"].dt.normalize()
    shifted = [days, days + pd.Timedelta(days=1)]
    return sorted({str(day.date()) for part in shifted for day in part})


def written(table):
    """Return a table as the bytes of an Arrow file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def assert_same_cells(table, expected):
    pd.testing.assert_frame_equal(
        table.astype(object).where(table.notna(), None),
        expected.astype(object).where(expected.notna(), None),
        check_exact=True,
    )


@pytest.fixture(scope="module")
def night_of(hospital):
    """Return what makes a night of a format, each once."""
    return cache(lambda name, night: features_of(hospital, name).make_night(night))


@pytest.fixture(scope="module")
def past_of(hospital):
    """Return what makes the past of a format, each once."""
    return cache(lambda name: features_of(hospital, name).make_past(*PAST).table)


def features_of(hospital, name):
    return Features(hospital[1] / f"{name}.toml", threads=1)


def test_nights_equal_reference(hospital, night_of):
    """The long table's nights are those of the reference, to the last bit."""
    events, folder = hospital

    for night in (*NIGHTS, *merge_nights(events)[:2]):
        table = night_of("long", night).table.to_pandas()
        assert len(table) > 0
        assert_same_cells(table, reference_night(events, folder / "long.toml", night))


def test_past_equals_reference(hospital, past_of):
    """The past is that of the reference: rows, groups, labels and features."""
    events, folder = hospital

    table = past_of("long").to_pandas()

    assert set(table["label"]) == {0, 1}
    assert_same_cells(table, reference_past(events, folder / "long.toml", *PAST))


@pytest.mark.parametrize("name", FORMATS[1:])
def test_formats_equal(hospital, night_of, past_of, name):
    """MEDS, OMOP and FHIR give the bytes that the long table gives, for nights and for
    the past.
    """
    for night in (NIGHTS[0], merge_nights(hospital[0])[0]):
        long, other = (written(night_of(one, night).table) for one in ("long", name))
        assert long == other
    assert past_of("long").num_rows > 5
    assert written(past_of("long")) == written(past_of(name))


@pytest.mark.parametrize("name", FORMATS)
def test_printed_sql_is_the_whole_way(hospital, night_of, name):
    """The statements alone, in a new DuckDB, make the night's table from the files."""
    made = night_of(name, NIGHTS[0])
    (query,) = [sql for sql in made.statements if sql.startswith("SELECT r.id")]

    with duckdb.connect() as connection:
        if name == "fhir":
            connection.register("source_1_line", lines_of(hospital[1] / "fhir"))
        connection.execute(";\n\n".join(made.statements)).fetchall()
        table = connection.sql(query).to_arrow_table()

    assert written(table.drop_columns(["row"])) == written(made.table)


def lines_of(folder):
    """Return the lines of a folder's files, as a table."""
    lines = [
        (path.name, number, line)
        for path in sorted(folder.iterdir())
        for number, line in enumerate(path.read_bytes().splitlines(), 1)
    ]
    columns = zip(*lines, strict=True)
    return pa.table(dict(zip(("file", "line", "written"), columns, strict=True)))
