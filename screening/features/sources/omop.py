"""Events of the OMOP CDM 5.4: its tables in files, or in a database.

The CDM does not say when a row was entered. A site that has such a column names it in
the table columns of the source. Without it a diagnosis of a visit is known from the
visit's end on, when it is coded, unless it is an admission diagnosis or of the problem
list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pyarrow as pa

from screening.errors import UsageError
from screening.features.events import (
    Session,
    Span,
    sql_text,
)
from screening.features.sources.long import (
    CSV_ENDINGS,
    PARQUET_ENDINGS,
    open_files,
    renamed,
    types_of,
)
from screening.features.sources.sql import OF_PEOPLE, UNION, timed
from screening.features.spec import Source
from screening.io.database import ask_database
from screening.io.queries import Database

# Rows that a database is read in.
BLOCK_ROWS = 1 << 14


def _clinical(word: str, start: str, end: str = "", **columns: str) -> dict[str, str]:
    """Return the columns of a table of events.

    Parameters
    ----------
    word : str
        Beginning of `_concept_id` and `_source_value`.
    start, end : str
        Beginnings of `_date` and `_datetime`.
    **columns : str
        Those that other tables of events do not have.
    """
    return {
        "subject": "person_id",
        "concept": f"{word}_concept_id",
        "start_date": f"{start}_date",
        "start_time": f"{start}_datetime",
        "end_date": f"{end}_date",
        "end_time": f"{end}_datetime",
        "stay": "visit_occurrence_id",
        "source_concept": f"{word}_source_concept_id",
        "source_code": f"{word}_source_value",
        "operator": "operator_concept_id",
        "unit_concept": "unit_concept_id",
        "answer": "value_as_concept_id",
        "status": "condition_status_concept_id",
        "kind": "condition_type_concept_id",
        "value": "value_as_number",
        "unit": "unit_source_value",
        "text": "value_source_value",
    } | columns


CLINICAL: Mapping[str, Mapping[str, str]] = {
    "measurement": _clinical("measurement", "measurement"),
    "observation": _clinical("observation", "observation", text="value_as_string"),
    "condition_occurrence": _clinical("condition", "condition_start", "condition_end"),
    "drug_exposure": _clinical(
        "drug",
        "drug_exposure_start",
        "drug_exposure_end",
        value="quantity",
        unit="dose_unit_source_value",
    ),
    "procedure_occurrence": _clinical("procedure", "procedure", "procedure_end"),
}
TABLES: Mapping[str, Mapping[str, str]] = {
    "person": {
        "subject": "person_id",
        "sex": "gender_concept_id",
        "birth": "birth_datetime",
        "year": "year_of_birth",
        "month": "month_of_birth",
        "day": "day_of_birth",
    },
    "visit_occurrence": {
        "subject": "person_id",
        "visit": "visit_occurrence_id",
        "start_date": "visit_start_date",
        "start_time": "visit_start_datetime",
        "end_date": "visit_end_date",
        "end_time": "visit_end_datetime",
        "kind": "visit_concept_id",
        "disposition": "discharged_to_source_value",
    },
    "visit_detail": {
        "subject": "person_id",
        "visit": "visit_occurrence_id",
        "start_date": "visit_detail_start_date",
        "start_time": "visit_detail_start_datetime",
        "site": "care_site_id",
        "source_code": "visit_detail_source_value",
    },
    "death": {
        "subject": "person_id",
        "start_date": "death_date",
        "start_time": "death_datetime",
    },
    "concept": {
        "id": "concept_id",
        "vocabulary": "vocabulary_id",
        "code": "concept_code",
        "name": "concept_name",
    },
    "care_site": {"id": "care_site_id", "ward": "care_site_name"},
    **CLINICAL,
}
"""Columns of the CDM by table, and by the names that they have in the SQL here."""

# What a table must have; another column or table that is absent is empty.
REQUIRED_COLUMNS = "subject visit start_date concept id vocabulary code ward".split()
REQUIRED_TABLES = ("person", "visit_occurrence")

# Concepts of visits that are stays: inpatient, emergency room, both, inpatient
# hospital, observation room, intensive care, critical care; 0 is not mapped.
STAYS = (9201, 9203, 262, 8717, 581385, 32037, 581379, 0)
COMPARATORS = (4171756, 4172704, 4171754, 4171755)
ADMISSION_DIAGNOSIS, PROBLEM_LIST = 32890, 32840

# The CDM writes an unknown hour as midnight, so that midnight is the day alone.
VIEWS = """
CREATE OR REPLACE TEMP MACRO omop_time(datetime, day) AS coalesce(
  regexp_replace(datetime, '[T ]00:00(:00(\\.0*)?)?$', ''),
  regexp_replace(day, '[T ]00:00(:00(\\.0*)?)?$', ''));
CREATE OR REPLACE TEMP MACRO omop_concept(number) AS
  nullif(try_cast(number AS BIGINT), 0);
-- Read once, as tables: every kind of event is joined with them.
CREATE OR REPLACE TEMP TABLE {name}_named AS
SELECT omop_concept(id) AS id, vocabulary || '/' || code AS whole_code, code, name
FROM {name}_concept;
CREATE OR REPLACE TEMP TABLE {name}_stay AS
SELECT subject, visit, starts, ends, concept, disposition, file, line,
  concept IN {stays} AS is_stay, end_time(ends, starts, {zone}) AS stop
FROM (SELECT *, omop_time(start_time, start_date) AS starts,
        omop_time(end_time, end_date) AS ends,
        coalesce(omop_concept(kind), 0) AS concept
      FROM {name}_visit_occurrence);
-- A birth with an unknown month or day is in the middle.
CREATE OR REPLACE TEMP VIEW {name}_born AS
SELECT file, line, subject, coalesce(birth, year) IS NOT NULL AS has_birth,
  coalesce(MAP {{8507: 'male', 8532: 'female', 8521: 'other'}}[omop_concept(sex)],
    'unknown') AS sex,
  coalesce(utc_of(birth, {zone}), utc_of_local(CAST(TRY(make_date(
    try_cast(year AS INTEGER), coalesce(try_cast(month AS INTEGER), 7),
    coalesce(try_cast(day AS INTEGER), CASE WHEN month IS NULL THEN 1 ELSE 15 END)))
    AS TIMESTAMP), {zone})) AS birth
FROM {name}_person;
"""

KINDS = (
    *OF_PEOPLE,
    """SELECT subject, visit AS stay, starts AS written,
  CASE WHEN is_stay THEN 'ADMISSION'
       ELSE coalesce(c.whole_code, 'OMOP/' || concept) END AS code,
  CASE WHEN stop IS NULL AND is_stay THEN 'NO_END' END AS wrong, file, line
FROM {name}_stay LEFT JOIN {name}_named c ON c.id = concept""",
    """SELECT subject, visit AS stay, ends AS written, stop AS instant,
  'DISCHARGE' AS code, disposition AS text, file, line
FROM {name}_stay WHERE stop IS NOT NULL AND is_stay""",
    # A visit detail with a care site is a ward.
    """SELECT d.subject, d.visit AS stay,
  omop_time(d.start_time, d.start_date) AS written, 'TRANSFER' AS code,
  coalesce(s.ward, d.site, d.source_code) AS text, d.file, d.line
FROM {name}_visit_detail d LEFT JOIN {name}_care_site s ON s.id = d.site
WHERE coalesce(d.site, d.source_code) IS NOT NULL""",
    """SELECT subject, omop_time(start_time, start_date) AS written,
  'DEATH' AS code, file, line
FROM {name}_death""",
)
"""Events of tables that are not clinical, with the columns that they have."""

CODED = """SELECT l.subject, l.stay, l.written, coalesce(code.whole_code,
    'OMOP/' || l.number, 'source/' || l.source_code) AS code,
  greatest(known_at(l.entered, {zone}),
    CASE WHEN {is_coded_at_end} AND visit.visit IS NOT NULL
      THEN coalesce(visit.stop, TIMESTAMP '9999-01-01') END) AS entered,
  l.amount AS value, coalesce(unit.code, l.unit) AS unit,
  CASE WHEN l.amount IS NULL
       THEN coalesce(answer.name, 'OMOP/' || answered, l.text) END AS text,
  omop_concept(l.operator) IN {comparators} AS is_compared,
  CASE WHEN coalesce(day_over(l.ends, {zone}), event_time(l.ends, {zone}))
    < event_time(l.written, {zone}) THEN 'NEGATIVE_DURATION' END AS wrong,
  l.file, l.line
FROM (SELECT *, omop_time(start_time, start_date) AS written,
        omop_time(end_time, end_date) AS ends, try_cast(value AS DOUBLE) AS amount,
        coalesce(omop_concept(concept), omop_concept(source_concept)) AS number,
        omop_concept(answer) AS answered
      FROM {name}_{table}) l
LEFT JOIN {name}_named code ON code.id = l.number
LEFT JOIN {name}_named unit ON unit.id = omop_concept(l.unit_concept)
LEFT JOIN {name}_named answer ON answer.id = l.answered
LEFT JOIN {name}_stay visit ON visit.visit = l.stay"""

CODED_AT_END = f"""(coalesce(omop_concept(l.status), 0) <> {ADMISSION_DIAGNOSIS}
  AND coalesce(omop_concept(l.kind), 0) <> {PROBLEM_LIST})"""


def select_events(
    source: Source,
    name: str,
    session: Session,
    span: Span,
) -> str:
    """Return the SELECT of the events of the tables.

    Raises
    ------
    UsageError
        A table or column is missing, or the database cannot be reached.
    EventsError
        A file cannot be read.
    """
    if "://" in source.path:
        types = _tables_of_database(source, name, session)
    else:
        types = _tables_of_files(source, name, session, span)
    for table, found in types.items():
        types[table] = {column.lower(): kind for column, kind in found.items()}
    known = source.columns.get("known_since", "")
    _refuse_tables(source, types)
    _refuse_columns(source, types, known)
    for table, columns in TABLES.items():
        if table in CLINICAL:
            columns = {**columns, "entered": known}
        _make_view(f"{name}_{table}", columns, types.get(table, {}), session)
    zone = sql_text(source.zone)
    blanks = {
        "name": name,
        "zone": zone,
        "stays": STAYS,
        "comparators": COMPARATORS,
    }
    session.run(VIEWS.format(**blanks))
    parts = [kind.format(**blanks) for kind in KINDS]
    for table in (table for table in CLINICAL if table in types):
        is_late = table == "condition_occurrence" and known not in types[table]
        late = CODED_AT_END if is_late else "false"
        parts.append(CODED.format(**blanks, table=table, is_coded_at_end=late))
    return f"""SELECT * FROM ({timed(UNION.join(parts), zone)})
WHERE span_start IS NULL OR time IS NULL OR time BETWEEN span_start AND span_end"""


def _make_view(
    view: str,
    columns: Mapping[str, str],
    types: Mapping[str, str],
    session: Session,
) -> None:
    """Make the view of a table's columns as texts; without a row if it is absent."""
    empty = "(SELECT NULL::VARCHAR AS file, NULL::BIGINT AS line LIMIT 0)"
    table = f"{view}_read" if types else empty
    # An id that some program wrote as the text 7.0 is 7.
    texts = ", ".join(
        f"regexp_replace(text_of({name}), '\\.0$', '') AS {name}"
        if column.endswith("_id") and types.get(column) == "VARCHAR"
        else f"text_of({name}) AS {name}"
        for name, column in columns.items()
    )
    session.run(
        f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT file, line, {texts} "
        f"FROM (SELECT file, line, {renamed(columns, types)} FROM {table})"
    )


def table_of(file: str) -> str:
    """Return the table that a file is named after, else its folder's name."""
    path = Path(file)
    stem = path.name.partition(".")[0].lower()
    return stem if stem in TABLES else path.parent.name.lower()


def _tables_of_files(
    source: Source, name: str, session: Session, span: Span
) -> dict[str, dict[str, str]]:
    """Make views of files that have the name of a table, or lie in such a folder."""
    files: dict[str, list[str]] = {}
    for file in source.files((*CSV_ENDINGS, *PARQUET_ENDINGS), span):
        table = table_of(file)
        if table in TABLES:
            files.setdefault(table, []).append(file)
    opened = {}
    for table, paths in files.items():
        opened[table] = open_files(paths, f"{name}_{table}_read", session)
    return opened


def _tables_of_database(
    source: Source, name: str, session: Session
) -> dict[str, dict[str, str]]:
    """Ask the database for each table of `source.queries`; keep the rows as texts."""
    unknown = [table for table in source.queries if table not in TABLES]
    if unknown:
        raise UsageError(
            f"source.queries.{unknown[0]}: write one of {', '.join(TABLES)}"
        )
    if not source.queries:
        raise UsageError(
            "source.queries: name an SQL file for each table that is read, such as "
            'queries = { person = "person.sql" }'
        )
    opened = {}
    for table, query in source.queries.items():
        database = Database(source.path, query=query)
        (part,) = ask_database(database).files
        schema = pa.schema([(column, pa.string()) for column in part.header])
        blocks = (
            block.rename_columns(part.header).cast(schema)
            for block in part.record_batches(part.header, BLOCK_ROWS)
        )
        rows = pa.RecordBatchReader.from_batches(schema, blocks)
        view = f"{name}_{table}_read"
        session.connection.register("asked", rows)
        session.run(
            f"-- asked is the answer to {Path(query).name}.\n"
            f"CREATE OR REPLACE TEMP TABLE {view} AS SELECT *, {sql_text(table)} AS "
            "file, row_number() OVER () AS line FROM asked"
        )
        session.connection.unregister("asked")
        opened[table] = types_of(view, session)
    return opened


def _refuse_tables(source: Source, tables: Collection[str]) -> None:
    """Refuse a source without a table that it must have."""
    missing = [table for table in REQUIRED_TABLES if table not in tables]
    if CLINICAL.keys().isdisjoint(tables):
        missing.append(f"of {', '.join(CLINICAL)}")
    if missing:
        raise UsageError(
            f"source {source.path}: table {missing[0]} does not exist; correct `path`"
        )


def _refuse_columns(
    source: Source, types: Mapping[str, Mapping[str, str]], known: str
) -> None:
    """Refuse a table without a column that it must have."""
    faults = [
        f"{source.path}: table {table} has no column {column}"
        for table, found in types.items()
        for name, column in TABLES[table].items()
        if name in REQUIRED_COLUMNS and column not in found
    ]
    if known and not any(known in types[table] for table in CLINICAL if table in types):
        faults.append(
            f"{source.path}: no table has the column {known} of columns.known_since"
        )
    if faults:
        raise UsageError("\n  ".join(faults))
