"""Events of the OMOP CDM: tables in files or a database, and rows that are wrong."""

import sqlite3
from pathlib import Path

import ledger_places
import pandas as pd
import pytest
import sqlalchemy as sa
from event_tables import events_of, faults_of_stays

from screening.errors import EventsError, UsageError
from screening.features.faults import FaultKind
from screening.features.spec import Source

pytest.importorskip("duckdb")

PERSON = {
    "person_id": 1,
    "gender_concept_id": 8532,
    "year_of_birth": 1950,
    "month_of_birth": 7,
    "day_of_birth": 1,
}
VISIT = {
    "visit_occurrence_id": 7,
    "person_id": 1,
    "visit_concept_id": 9201,
    "visit_start_date": "2026-03-01",
    "visit_start_datetime": "2026-03-01 09:00:00",
    "visit_end_date": "2026-03-09",
    "visit_end_datetime": "2026-03-09 11:00:00",
    "discharged_to_source_value": "home",
}
MEASUREMENT = {
    "person_id": 1,
    "visit_occurrence_id": 7,
    "measurement_concept_id": 3016723,
    "measurement_date": "2026-03-02",
    "measurement_datetime": "2026-03-02 08:00:00",
    "operator_concept_id": 0,
    "value_as_number": 1.23,
    "value_as_concept_id": 0,
    "unit_concept_id": 8840,
    "unit_source_value": "mg per dl",
    "measurement_source_value": "KREA",
    "value_source_value": None,
}
CONDITION = {
    "person_id": 1,
    "visit_occurrence_id": 7,
    "condition_concept_id": 320128,
    "condition_start_date": "2026-03-02",
    "condition_start_datetime": "2026-03-02 08:00:00",
    "condition_type_concept_id": 32817,
    "condition_status_concept_id": 0,
}
CONCEPTS = [
    (3016723, "LOINC", "2160-0", "Creatinine"),
    (8840, "UCUM", "mg/dL", "milligram per deciliter"),
    (320128, "SNOMED", "59621000", "Essential hypertension"),
    (9191, "Meas Value", "P", "Positive"),
    (9202, "Visit", "OP", "Outpatient Visit"),
]
CONCEPT_COLUMNS = ["concept_id", "vocabulary_id", "concept_code", "concept_name"]
COLUMNS = {"known_since": "known_since"}


@pytest.fixture
def read(tmp_path):
    """Return events as rows, and faults as (kind, file, lines), of tables."""

    def _read(write="parquet", source=None, **tables):
        tables = {"person": [PERSON], "visit_occurrence": [VISIT]} | tables
        for name, rows in tables.items():
            frame = pd.DataFrame(rows)
            file = tmp_path / f"{name}.{write}"
            getattr(frame, f"to_{write}")(file, index=False)
        return read_source(tmp_path, source or {})

    return _read


def read_source(path, options):
    return events_of(
        Source(format="omop", path=str(path), zone="Europe/Berlin", **options)
    )


def concepts():
    return pd.DataFrame(CONCEPTS, columns=CONCEPT_COLUMNS)


def time(text):
    return pd.Timestamp(text).to_pydatetime()


def coded(events):
    """Return the results without subject and stay."""
    return [row[2:] for row in events if "/" in row[4]]


@pytest.mark.parametrize("write", ["parquet", "csv"])
def test_all_tables(read, write):
    """Every table becomes events, with the hospital's clock in UTC, whether their
    files have types or not.
    """
    detail = {
        "person_id": 1,
        "visit_occurrence_id": 7,
        "visit_detail_start_date": "2026-03-04",
        "visit_detail_start_datetime": "2026-03-04 12:00:00",
        "care_site_id": 3,
    }
    drug = {
        "person_id": 1,
        "visit_occurrence_id": 7,
        "drug_concept_id": 0,
        "drug_exposure_start_date": "2026-03-03",
        "drug_exposure_start_datetime": "2026-03-03 10:00:00",
        "quantity": 40,
        "dose_unit_source_value": "mg",
        "drug_source_value": "furosemide",
    }
    observation = {
        "person_id": 1,
        "visit_occurrence_id": 7,
        "observation_concept_id": 99,
        "observation_date": "2026-03-03",
        "observation_datetime": "2026-03-03 11:00:00",
        "value_as_string": "never",
    }
    procedure = {
        "person_id": 1,
        "visit_occurrence_id": 7,
        "procedure_concept_id": 98,
        "procedure_date": "2026-03-05",
        "procedure_datetime": "2026-03-05 10:00:00",
    }
    death = {
        "person_id": 1,
        "death_date": "2026-03-20",
        "death_datetime": "2026-03-20 05:00:00",
    }

    events, faults = read(
        write,
        measurement=[MEASUREMENT],
        condition_occurrence=[CONDITION],
        drug_exposure=[drug],
        observation=[observation],
        procedure_occurrence=[procedure],
        visit_detail=[detail],
        care_site=[{"care_site_id": 3, "care_site_name": "ICU"}],
        death=[death],
        concept=concepts(),
    )

    birth = time("1950-06-30T23:00")
    end = time("2026-03-09T10:00")
    assert sorted(events, key=lambda row: (row[2], row[4])) == [
        ("1", None, birth, None, "BIRTH", None, None, None),
        ("1", None, birth, None, "SEX", None, None, "female"),
        ("1", "7", time("2026-03-01T08:00"), None, "ADMISSION", None, None, None),
        ("1", "7", time("2026-03-02T07:00"), None, "LOINC/2160-0", 1.23, "mg/dL", None),
        ("1", "7", time("2026-03-02T07:00"), end, "SNOMED/59621000", None, None, None),
        (
            "1",
            "7",
            time("2026-03-03T09:00"),
            None,
            "source/furosemide",
            40.0,
            "mg",
            None,
        ),
        ("1", "7", time("2026-03-03T10:00"), None, "OMOP/99", None, None, "never"),
        ("1", "7", time("2026-03-04T11:00"), None, "TRANSFER", None, None, "ICU"),
        ("1", "7", time("2026-03-05T09:00"), None, "OMOP/98", None, None, None),
        ("1", "7", end, None, "DISCHARGE", None, None, "home"),
        ("1", None, time("2026-03-20T04:00"), None, "DEATH", None, None, None),
    ]
    assert faults == []


def test_without_concepts(read):
    """Without a table of concepts their numbers are the codes."""
    events, _ = read(measurement=[MEASUREMENT])

    assert [row[2:5] for row in coded(events)] == [("OMOP/3016723", 1.23, "mg per dl")]


def test_answer_is_text(read):
    """A result that is a concept is its name."""
    positive = {**MEASUREMENT, "value_as_number": None, "value_as_concept_id": 9191}

    events, _ = read(measurement=[positive], concept=concepts())

    assert [row[3:] for row in coded(events)] == [(None, "mg/dL", "Positive")]


@pytest.mark.parametrize("midnight", [None, "2026-03-02 00:00:00"])
def test_date_alone_known_after_the_day(read, midnight):
    """A row with a date alone, or at midnight, which the CDM writes for it, is at noon
    and known once the day is over.
    """
    events, _ = read(measurement=[{**MEASUREMENT, "measurement_datetime": midnight}])

    assert [row[:2] for row in coded(events)] == [
        (time("2026-03-02T11:00"), time("2026-03-02T23:00"))
    ]


def test_known_since_column(read):
    """A column that the spec names says when a row was entered."""
    late = {**MEASUREMENT, "known_since": "2026-03-04 10:00:00"}

    events, _ = read(measurement=[late], source={"columns": COLUMNS})

    assert [row[1] for row in coded(events)] == [time("2026-03-04T09:00")]


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({}, "2026-03-09T10:00"),
        ({"condition_status_concept_id": 32890}, None),
        ({"condition_type_concept_id": 32840}, None),
        ({"visit_occurrence_id": None}, None),
    ],
)
def test_condition_known_at_discharge(read, changes, known):
    """A diagnosis is known from the discharge on, unless it is an admission diagnosis,
    of the problem list, or of no visit.
    """
    events, _ = read(condition_occurrence=[{**CONDITION, **changes}])

    assert [row[1] for row in coded(events)] == [known and time(known)]


def test_visit_kinds(read):
    """A visit that is not a stay is an event."""
    events, _ = read(
        visit_occurrence=[{**VISIT, "visit_concept_id": 9202}],
        measurement=[MEASUREMENT],
        concept=concepts(),
    )

    assert {row[4] for row in events} == {"BIRTH", "SEX", "Visit/OP", "LOINC/2160-0"}


def test_stay_ends_on_its_day(read):
    """A visit that begins and ends on one day, the end without an hour, is not
    negative.
    """
    visit = {**VISIT, "visit_start_datetime": "2026-03-01 18:00:00"}
    visit |= {"visit_end_date": "2026-03-01", "visit_end_datetime": None}

    events, faults = read(visit_occurrence=[visit], measurement=[MEASUREMENT])

    assert [row[2:4] for row in events if row[4] == "DISCHARGE"] == [
        (time("2026-03-01T17:00"), time("2026-03-01T23:00"))
    ]
    assert faults == []


def test_codes_become_reserved(read):
    """Codes that the spec names stand for what is reserved, such as a merge."""
    merged = {
        "person_id": 1,
        "observation_concept_id": 99,
        "observation_date": "2026-03-03",
        "observation_datetime": "2026-03-03 11:00:00",
        "value_as_string": "2",
    }

    events, _ = read(
        observation=[merged], source={"codes": {"MERGED": ["OMOP/99", "Local/m*"]}}
    )

    assert [(row[0], row[7]) for row in events if row[4] == "MERGED"] == [("1", "2")]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"person_id": None}, FaultKind.NO_SUBJECT),
        ({"measurement_datetime": None, "measurement_date": "soon"}, FaultKind.NO_TIME),
        (
            {"measurement_concept_id": 0, "measurement_source_value": None},
            FaultKind.NO_CODE,
        ),
        ({"operator_concept_id": 4171756}, FaultKind.COMPARATOR),
        ({"value_as_number": None, "value_source_value": ">= 5"}, FaultKind.COMPARATOR),
        ({"measurement_datetime": "2026-03-29 02:30:00"}, FaultKind.LOST_TIME),
        ({"measurement_datetime": "2026-10-25 02:30:00"}, FaultKind.TWICE_TIME),
    ],
)
def test_faults_of_rows(read, changes, kind):
    """A row that is wrong is named by file and number, and no value of it is read."""
    events, faults = read("csv", measurement=[MEASUREMENT, {**MEASUREMENT, **changes}])

    assert [row[3] for row in coded(events) if row[3] is not None][:1] == [1.23]
    assert faults == [(kind, "measurement.csv", [3])]


def test_negative_and_missing_end(read, tmp_path):
    """A stay that ends before it begins has its discharge, by which nobody is in; a
    missing end is an open stay. Both rows are named.
    """
    before = {**VISIT, "visit_end_datetime": "2026-02-01 10:00:00"}
    opened = {**VISIT, "visit_end_datetime": None, "visit_end_date": None}

    events, _ = read(
        visit_occurrence=[before, {**opened, "visit_occurrence_id": 8}],
        measurement=[MEASUREMENT],
    )

    assert [row[1] for row in events if row[4] == "DISCHARGE"] == ["7"]
    assert faults_of_stays(Source(format="omop", path=str(tmp_path))) == [
        (FaultKind.NEGATIVE_DURATION, "visit_occurrence.parquet", [1]),
        (FaultKind.NO_END, "visit_occurrence.parquet", [2]),
    ]


@pytest.mark.parametrize("write", ["parquet", "csv"])
def test_ids_with_a_point(read, write):
    """An id that was written as 7.0, beside a gap, is 7."""
    ids = {"visit_occurrence_id": 7.0, "person_id": 1.0}
    rows = [{**MEASUREMENT, **ids}, {**MEASUREMENT, "visit_occurrence_id": None}]

    events, _ = read(write, measurement=rows)

    assert {row[0] for row in events} == {"1"}
    assert [row[1] for row in events if "/" in row[4]] == ["7", None]


def test_birth_that_is_no_day(read):
    """A birth in a month that does not exist is named, and the run goes on."""
    person = {**PERSON, "birth_datetime": None, "month_of_birth": 13}

    events, faults = read(person=[person], measurement=[MEASUREMENT])

    assert "BIRTH" not in {row[4] for row in events}
    assert faults == [(FaultKind.NO_TIME, "person.parquet", [1])]


def test_missing_table(tmp_path):
    """A folder without persons is refused."""
    pd.DataFrame([MEASUREMENT]).to_csv(tmp_path / "measurement.csv", index=False)

    with pytest.raises(UsageError, match="table person does not exist"):
        read_source(tmp_path, {})


def test_missing_column(read):
    """A table without a column of the CDM is refused with both names."""
    with pytest.raises(UsageError, match="measurement has no column measurement_date"):
        read(measurement=[{"person_id": 1, "measurement_concept_id": 2}])


def test_missing_known_since(read):
    """A column for known_since that no table has is refused."""
    with pytest.raises(UsageError, match="no table has the column known_since"):
        read(measurement=[MEASUREMENT], source={"columns": COLUMNS})


def test_damaged_file(read, tmp_path):
    """A file that is not a table ends the run with its name, without its content."""
    (tmp_path / "death.parquet").write_bytes(b"secret")

    with pytest.raises(EventsError, match=r"^death") as error:
        read(measurement=[MEASUREMENT])

    assert "secret" not in str(error.value)


@pytest.mark.parametrize("suffix", ["", "2"])
def test_any_cut_of_files(read, tmp_path, suffix):
    """A table may lie in a folder of its name, in files of any cut."""
    rows = [{**MEASUREMENT, "value_as_number": value} for value in range(6)]
    whole, _ = read(measurement=rows)
    (tmp_path / "measurement.parquet").unlink()
    folder = tmp_path / "MEASUREMENT"
    folder.mkdir()
    pd.DataFrame(rows[:2]).to_parquet(folder / f"a{suffix}.parquet")
    pd.DataFrame(rows[2:]).to_csv(folder / "b.csv", index=False)

    parts, _ = read_source(tmp_path, {})

    assert parts == whole


TABLES_OF_DATABASE = {
    "person": PERSON,
    "visit_occurrence": VISIT,
    "measurement": MEASUREMENT,
}


def write_database(path):
    with sqlite3.connect(path) as connection:
        for name, row in TABLES_OF_DATABASE.items():
            pd.DataFrame([row]).to_sql(name, connection, index=False)
    return f"sqlite:///{path}"


def write_queries(folder):
    """Write a query a table; return their files by table."""
    queries = {}
    for table in ("person", "visit_occurrence", "measurement"):
        file = folder / f"{table}.sql"
        file.write_text(f"SELECT * FROM {table}", encoding="utf-8")
        queries[table] = str(file)
    return queries


def test_database_equals_files(read, tmp_path):
    """Queries of a database give what the files give."""
    expected, _ = read(measurement=[MEASUREMENT])
    url = write_database(tmp_path / "cdm.db")

    events, _ = read_source(url, {"queries": write_queries(tmp_path)})

    assert events == expected


def test_postgresql_equals_files(read, tmp_path, postgres):
    """PostgreSQL's dates and times, with a zone or without, are those of files."""
    expected, _ = read(measurement=[MEASUREMENT])
    url = ledger_places.database(postgres, "cdm")
    kinds = {"_date": "date", "_datetime": "timestamp"}
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for name, row in TABLES_OF_DATABASE.items():
            pd.DataFrame([row]).to_sql(f"{name}_text", connection, index=False)
            columns = ", ".join(
                f"CAST({column} AS {kinds[ending]}) AS {column}"
                if (ending := f"_{column.rpartition('_')[2]}") in kinds
                else column
                for column in row
            )
            connection.execute(
                sa.text(f"CREATE VIEW {name} AS SELECT {columns} FROM {name}_text")
            )
    queries = write_queries(tmp_path)
    zoned = "measurement_datetime AT TIME ZONE 'Europe/Berlin' AS measurement_datetime"
    rest = ", ".join(set(MEASUREMENT) - {"measurement_datetime"})
    Path(queries["measurement"]).write_text(f"SELECT {rest}, {zoned} FROM measurement")

    events, _ = read_source(url, {"queries": queries})

    engine.dispose()
    assert events == expected


def test_unknown_query(tmp_path):
    """A query for a table that is not read is refused."""
    url = write_database(tmp_path / "cdm.db")

    with pytest.raises(UsageError, match=r"source\.queries\.payer"):
        read_source(url, {"queries": {"payer": "payer.sql"}})


def test_database_without_queries(tmp_path):
    """A database is asked by queries alone: whole tables of it may be huge."""
    url = write_database(tmp_path / "cdm.db")

    with pytest.raises(UsageError, match=r"source\.queries"):
        read_source(url, {})
