"""Events of the OMOP CDM 5.4: its tables in files, or in a database.

The CDM does not say when a row was entered. A site that has such a column names it in
the table columns of the source. Without it a diagnosis of a visit is known from the
visit's end on, when it is coded, unless it is an admission diagnosis or of the problem
list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from screening.errors import UsageError
from screening.features.events import Span, sql_text
from screening.features.sources.long import CSV_ENDINGS, PARQUET_ENDINGS, open_files
from screening.features.spec import Source
from screening.io.connections import duckdb_quoted
from screening.io.database import ask_database
from screening.io.queries import Database

if TYPE_CHECKING:
    import duckdb

# Rows that a database is read in.
BLOCK_ROWS = 1 << 14


@dataclass(frozen=True)
class ClinicalTable:
    """Columns of a table of events.

    Parameters
    ----------
    word : str
        Beginning of `_concept_id` and `_source_value`.
    start : str
        Beginning of `_date` and `_datetime`.
    end : str
        The same of the end, "" if the table has none.
    value, unit, text : str
        "" where there is none.
    """

    word: str
    start: str
    end: str = ""
    value: str = ""
    unit: str = ""
    text: str = ""


CLINICAL = {
    "measurement": ClinicalTable(
        "measurement",
        "measurement",
        value="value_as_number",
        unit="unit_source_value",
        text="value_source_value",
    ),
    "observation": ClinicalTable(
        "observation",
        "observation",
        value="value_as_number",
        unit="unit_source_value",
        text="value_as_string",
    ),
    "condition_occurrence": ClinicalTable(
        "condition", "condition_start", end="condition_end"
    ),
    "drug_exposure": ClinicalTable(
        "drug",
        "drug_exposure_start",
        end="drug_exposure_end",
        value="quantity",
        unit="dose_unit_source_value",
    ),
    "procedure_occurrence": ClinicalTable(
        "procedure", "procedure", end="procedure_end"
    ),
}
REQUIRED = ("person", "visit_occurrence")
OPTIONAL = ("visit_detail", "care_site", "death", "concept", *CLINICAL)
# Concepts of visits that are stays: inpatient, emergency room, both, inpatient
# hospital, observation room, intensive care, critical care; 0 is not mapped.
STAYS = (9201, 9203, 262, 8717, 581385, 32037, 581379, 0)
SEXES = "MAP {8507: 'male', 8532: 'female', 8521: 'other'}"
COMPARATORS = (4171756, 4172704, 4171754, 4171755)
ADMISSION_DIAGNOSIS, PROBLEM_LIST = 32890, 32840


@dataclass(frozen=True)
class Table:
    """A table of the source: its view, and the types of its columns.

    Parameters
    ----------
    view : str
    types : mapping from str to str
        Types of DuckDB by the name of the column in small letters.
    zone : str
        Literal of the zone of times that state none.
    """

    view: str
    types: Mapping[str, str]
    zone: str

    def text(self, column: str) -> str:
        """Return the expression of a column as text; NULL if it is absent or empty."""
        if column not in self.types:
            return "CAST(NULL AS VARCHAR)"
        return f"nullif(CAST({duckdb_quoted(column)} AS VARCHAR), '')"

    def number(self, column: str) -> str:
        """Return the expression of a column as a number; NULL if it is not one."""
        if column not in self.types:
            return "CAST(NULL AS DOUBLE)"
        return f"try_cast({duckdb_quoted(column)} AS DOUBLE)"

    def concept(self, column: str) -> str:
        """Return the expression of the number of a concept; NULL if it is 0."""
        if column not in self.types:
            return "CAST(NULL AS BIGINT)"
        return f"nullif(try_cast({duckdb_quoted(column)} AS BIGINT), 0)"

    def written(self, column: str) -> str:
        """Return the expression of a time as text, with its zone if it states one.

        By the CDM an hour that nobody knows is midnight, so that midnight is the day
        alone.
        """
        texts = []
        for name in (f"{column}_datetime", f"{column}_date"):
            kind = self.types.get(name, "")
            cell = duckdb_quoted(name)
            if kind == "TIMESTAMP WITH TIME ZONE":
                texts.append(f"strftime({cell}, '%Y-%m-%d %H:%M:%S.%fZ')")
            elif kind:
                text = f"nullif(trim(CAST({cell} AS VARCHAR)), '')"
                midnight = "'[T ]00:00(:00(\\.0*)?)?$'"
                texts.append(f"regexp_replace({text}, {midnight}, '')")
        return f"coalesce({', '.join([*texts, 'NULL'])})"


def select_events(
    source: Source,
    name: str,
    connection: duckdb.DuckDBPyConnection,
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
    tables = _open_tables(source, name, connection, span)
    known = source.columns.get("known_since", "")
    _refuse_columns(source, tables, known)
    zone = sql_text(source.zone)
    _make_visits(tables, name, zone, connection)
    parts = [_people(tables["person"], zone), _stays(tables, name)]
    if "visit_detail" in tables:
        parts.append(_wards(tables, name, zone))
    if "death" in tables:
        parts.append(_deaths(tables["death"], zone))
    coded = [
        _coded(tables[table], table, name, zone, known)
        for table in CLINICAL
        if table in tables
    ]
    union = "\nUNION ALL\n".join([*parts, *coded])
    return f"""SELECT *, time IS NOT NULL AS has_time FROM (
{union}
) WHERE span_start IS NULL OR time BETWEEN span_start AND span_end"""


def _open_tables(
    source: Source, name: str, connection: duckdb.DuckDBPyConnection, span: Span
) -> dict[str, Table]:
    """Make a view of each table that the source has, with `file` and `line`."""
    if "://" in source.path:
        found = _tables_of_database(source, name, connection)
    else:
        found = _tables_of_files(source, name, connection, span)
    missing = [table for table in REQUIRED if table not in found]
    if missing or not any(table in found for table in CLINICAL):
        raise UsageError(
            f"source {source.path}: table "
            f"{missing[0] if missing else 'of ' + ', '.join(CLINICAL)} does not "
            "exist; correct `path`"
        )
    tables = {}
    for table in found:
        view = f"{name}_{table}"
        described = connection.execute(f"DESCRIBE {view}").fetchall()
        types = {str(column).lower(): str(kind) for column, kind, *_ in described}
        tables[table] = Table(view, types, sql_text(source.zone))
    return tables


def _tables_of_files(
    source: Source, name: str, connection: duckdb.DuckDBPyConnection, span: Span
) -> list[str]:
    """Make views of files that have the name of a table, or lie in such a folder."""
    files: dict[str, list[str]] = {}
    for file in source.files((*CSV_ENDINGS, *PARQUET_ENDINGS), span):
        path = Path(file)
        stem = path.name.partition(".")[0].lower()
        table = stem if stem in (*REQUIRED, *OPTIONAL) else path.parent.name.lower()
        if table in (*REQUIRED, *OPTIONAL):
            files.setdefault(table, []).append(file)
    for table, paths in files.items():
        open_files(paths, f"{name}_{table}", connection)
    return list(files)


def _tables_of_database(
    source: Source, name: str, connection: duckdb.DuckDBPyConnection
) -> list[str]:
    """Ask the database for each table of `source.queries`; keep the rows as texts."""
    unknown = [table for table in source.queries if table not in (*REQUIRED, *OPTIONAL)]
    if unknown:
        raise UsageError(
            f"source.queries.{unknown[0]}: write one of "
            f"{', '.join((*REQUIRED, *OPTIONAL))}"
        )
    if not source.queries:
        raise UsageError(
            "source.queries: name an SQL file for each table that is read, such as "
            'queries = { person = "person.sql" }'
        )
    for table, query in source.queries.items():
        database = Database(source.path, query=query)
        (part,) = ask_database(database).files
        columns = [column.lower() for column in part.header]
        schema = pa.schema([(column, pa.string()) for column in columns])
        blocks = (
            pa.record_batch(
                [column.cast(pa.string()) for column in block.columns], schema=schema
            )
            for block in part.batches(part.header, BLOCK_ROWS)
        )
        rows = pa.RecordBatchReader.from_batches(schema, blocks)
        connection.register("asked", rows)
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {name}_{table} AS SELECT *, "
            f"{sql_text(table)} AS file, row_number() OVER () AS line FROM asked"
        )
        connection.unregister("asked")
    return list(source.queries)


def _refuse_columns(source: Source, tables: Mapping[str, Table], known: str) -> None:
    """Refuse a table without a column that it must have."""
    wanted = {
        "person": ["person_id"],
        "visit_occurrence": ["person_id", "visit_occurrence_id", "visit_start_date"],
        "visit_detail": ["person_id", "visit_occurrence_id", "visit_detail_start_date"],
        "death": ["person_id", "death_date"],
        "concept": ["concept_id", "vocabulary_id", "concept_code"],
        "care_site": ["care_site_id", "care_site_name"],
    }
    for table, columns in CLINICAL.items():
        wanted[table] = [
            "person_id",
            f"{columns.word}_concept_id",
            f"{columns.start}_date",
        ]
    missing = [
        f"{source.path}: table {table} has no column {column}"
        for table, opened in tables.items()
        for column in wanted[table]
        if column not in opened.types
    ]
    clinical = [table for table in CLINICAL if table in tables]
    if known and not any(known in tables[table].types for table in clinical):
        missing.append(
            f"{source.path}: no table has the column {known} of columns.known_since"
        )
    if missing:
        raise UsageError("\n  ".join(missing))


def _make_visits(
    tables: Mapping[str, Table],
    name: str,
    zone: str,
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """Make the view of visits: begin, end, and whether they are stays."""
    visits = tables["visit_occurrence"]
    ended = visits.text("discharged_to_source_value")
    connection.execute(
        f"""CREATE OR REPLACE TEMP VIEW {name}_visit AS
SELECT *, event_time(start_written, {zone}) AS start,
  greatest(event_time(end_written, {zone}), CASE
    WHEN day_of(end_written) IS NOT NULL AND day_over(end_written, {zone})
      >= event_time(start_written, {zone})
    THEN event_time(start_written, {zone}) END) AS stop
FROM (SELECT file, line, {visits.text("visit_occurrence_id")} AS stay,
  {visits.text("person_id")} AS subject,
  {visits.written("visit_start")} AS start_written,
  {visits.written("visit_end")} AS end_written,
  coalesce({visits.concept("visit_concept_id")}, 0) AS concept, {ended} AS disposition
FROM {visits.view})"""
    )
    concepts = tables.get("concept")
    named = (
        "SELECT 0::BIGINT AS id, '' AS code, '' AS vocabulary, '' AS name WHERE false"
    )
    if concepts:
        named = (
            f"SELECT {concepts.concept('concept_id')} AS id, concept_code AS code, "
            f"vocabulary_id AS vocabulary, {concepts.text('concept_name')} AS name "
            f"FROM {concepts.view}"
        )
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {name}_named AS {named}")


def _people(person: Table, zone: str) -> str:
    """Return the SELECT of births and sexes; half a year or month is not known."""
    year, month, day = (
        f"try_cast({person.text(f'{part}_of_birth')} AS INTEGER)"
        for part in ("year", "month", "day")
    )
    midnight = (
        f"CAST(make_date({year}, coalesce({month}, 7), coalesce({day}, "
        f"CASE WHEN {month} IS NULL THEN 1 ELSE 15 END)) AS TIMESTAMP)"
    )
    birth = (
        f"coalesce(utc_of_text({person.text('birth_datetime')}, {zone}), "
        f"utc_of_local({midnight}, {zone}))"
    )
    sex = f"coalesce({SEXES}[{person.concept('gender_concept_id')}], 'unknown')"
    who = person.text("person_id")
    return f"""SELECT {who} AS subject, NULL AS stay, {birth} AS time,
  NULL::TIMESTAMP AS known_since, 'BIRTH' AS code, NULL::DOUBLE AS value, NULL AS unit,
  NULL AS text, file, line, NULL::TIMESTAMP AS local_time, false AS is_compared,
  NULL AS wrong
FROM {person.view} WHERE {birth} IS NOT NULL
UNION ALL
SELECT {who}, NULL, {birth}, NULL, 'SEX', NULL, NULL, {sex}, file, line, NULL, false,
  NULL
FROM {person.view}"""


def _stays(tables: Mapping[str, Table], name: str) -> str:
    """Return the SELECT of admissions and discharges, and of other visits."""
    zone = tables["person"].zone
    return f"""SELECT subject, stay, start, day_over(start_written, {zone}),
  CASE WHEN concept IN {STAYS} THEN 'ADMISSION'
       ELSE coalesce(c.vocabulary || '/' || c.code, 'OMOP/' || concept) END,
  NULL, NULL, NULL, file, line, local_of(start_written), false,
  CASE WHEN stop IS NULL AND concept IN {STAYS} THEN 'NO_END' END
FROM {name}_visit LEFT JOIN {name}_named c ON c.id = concept
UNION ALL
SELECT subject, stay, stop, day_over(end_written, {zone}), 'DISCHARGE', NULL, NULL,
  disposition, file, line, local_of(end_written), false, NULL
FROM {name}_visit
WHERE stop IS NOT NULL AND concept IN {STAYS}"""


def _wards(tables: Mapping[str, Table], name: str, zone: str) -> str:
    """Return the SELECT of transfers: a visit detail with a care site is a ward."""
    detail = tables["visit_detail"]
    written = detail.written("visit_detail_start")
    site = detail.text("care_site_id")
    ward = f"coalesce({site}, {detail.text('visit_detail_source_value')})"
    join = ""
    if "care_site" in tables:
        view = tables["care_site"].view
        join = (
            f" LEFT JOIN (SELECT * EXCLUDE (file, line) FROM {view}) site "
            "ON CAST(site.care_site_id AS VARCHAR) = ward"
        )
        ward_name = "coalesce(CAST(care_site_name AS VARCHAR), ward)"
    else:
        ward_name = "ward"
    return f"""SELECT subject, stay, time, known_since, 'TRANSFER', NULL, NULL,
  {ward_name}, file, line, local_time, false, NULL
FROM (SELECT file, line, {detail.text("person_id")} AS subject,
  {detail.text("visit_occurrence_id")} AS stay, event_time({written}, {zone}) AS time,
  day_over({written}, {zone}) AS known_since, local_of({written}) AS local_time,
  {ward} AS ward
FROM {detail.view}){join}
WHERE ward IS NOT NULL"""


def _deaths(death: Table, zone: str) -> str:
    """Return the SELECT of deaths."""
    written = death.written("death")
    return f"""SELECT {death.text("person_id")}, NULL, event_time({written}, {zone}),
  day_over({written}, {zone}), 'DEATH', NULL, NULL, NULL, file, line,
  local_of({written}), false, NULL
FROM {death.view}"""


def _coded(table: Table, name: str, of_source: str, zone: str, known: str) -> str:
    """Return the SELECT of the events of a clinical table, with `file` and `line`."""
    columns = CLINICAL[name]
    word = columns.word
    entered, is_coded_at_end = "NULL::TIMESTAMP", "false"
    if known in table.types:
        entered = f"utc_of_text({table.text(known)}, {zone})"
    elif name == "condition_occurrence":
        status = table.concept("condition_status_concept_id")
        kind = table.concept("condition_type_concept_id")
        is_coded_at_end = (
            f"coalesce({status}, 0) <> {ADMISSION_DIAGNOSIS} "
            f"AND coalesce({kind}, 0) <> {PROBLEM_LIST}"
        )
    end = table.written(columns.end) if columns.end else "NULL"
    return f"""SELECT l.subject, l.stay, event_time(l.written, {zone}) AS time,
  greatest(day_over(l.written, {zone}), l.entered,
    CASE WHEN l.is_coded_at_end AND visit.stay IS NOT NULL
      THEN coalesce(visit.stop, TIMESTAMP '9999-01-01') END) AS known_since,
  coalesce(code.vocabulary || '/' || code.code, 'OMOP/' || l.concept,
    'source/' || l.source_code) AS code,
  l.number AS value,
  coalesce(named_unit.code, l.unit) AS unit,
  CASE WHEN l.number IS NULL
       THEN coalesce(answer.name, 'OMOP/' || l.answer, l.text) END AS text,
  l.file, l.line, local_of(l.written), l.is_compared
    OR (l.number IS NULL AND coalesce(has_comparator(l.text), false)),
  CASE WHEN coalesce(day_over(l.end_written, {zone}), event_time(l.end_written, {zone}))
    < event_time(l.written, {zone}) THEN 'NEGATIVE_DURATION' END
FROM (SELECT file, line, {table.text("person_id")} AS subject,
    {table.text("visit_occurrence_id")} AS stay,
    {table.written(columns.start)} AS written, {end} AS end_written,
    coalesce({table.concept(f"{word}_concept_id")},
      {table.concept(f"{word}_source_concept_id")}) AS concept,
    {table.text(f"{word}_source_value")} AS source_code,
    {table.number(columns.value)} AS number,
    coalesce({table.concept("operator_concept_id")} IN {COMPARATORS}, false)
      AS is_compared,
    {table.text(columns.text)} AS text, {table.text(columns.unit)} AS unit,
    {table.concept("unit_concept_id")} AS unit_concept,
    {table.concept("value_as_concept_id")} AS answer,
    {entered} AS entered, {is_coded_at_end} AS is_coded_at_end
  FROM {table.view}) l
LEFT JOIN {of_source}_named code ON code.id = l.concept
LEFT JOIN {of_source}_named named_unit ON named_unit.id = l.unit_concept
LEFT JOIN {of_source}_named answer ON answer.id = l.answer
LEFT JOIN {of_source}_visit visit ON visit.stay = l.stay"""
