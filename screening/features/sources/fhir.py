"""Events of FHIR R4 resources, one a line, as a Bulk export or Synthea writes them.

A line is a version of its resource: exports of several nights may lie side by side. The
newest version of a patient and of an encounter counts. Of observations, conditions,
administrations and procedures every version is a line of the long table, known from
when it was issued, recorded or last updated.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import pyarrow as pa

from screening.errors import EventsError
from screening.features.events import WITHDRAWN, Span, sql_text
from screening.features.faults import MAX_PLACES
from screening.features.spec import Source

if TYPE_CHECKING:
    import duckdb

ENDINGS = (".ndjson", ".ndjson.gz", ".jsonl", ".jsonl.gz")
# Lines that are handed to DuckDB at a time.
BATCH_LINES = 4096
LINE_SCHEMA = pa.schema(
    [("file", pa.string()), ("line", pa.int64()), ("written", pa.string())]
)

_TEXT = "VARCHAR"
_REFERENCE = {"reference": _TEXT, "display": _TEXT}
_PERIOD = {"start": _TEXT, "end": _TEXT}
_CODING = {"system": _TEXT, "code": _TEXT, "display": _TEXT}
_CONCEPT = {"coding": [_CODING], "text": _TEXT}
_QUANTITY = {"value": "DOUBLE", "comparator": _TEXT, "unit": _TEXT, "code": _TEXT}
_VALUE: dict[str, Any] = {
    "code": _CONCEPT,
    "valueQuantity": _QUANTITY,
    "valueInteger": "DOUBLE",
    "valueString": _TEXT,
    "valueBoolean": _TEXT,
    "valueCodeableConcept": _CONCEPT,
}
_TEXTS = (
    "resourceType id status name gender birthDate deceasedDateTime effectiveDateTime "
    "effectiveInstant issued onsetDateTime recordedDate performedDateTime"
)
_REFERENCES = (
    "subject patient encounter context partOf serviceProvider medicationReference"
)
# What is read of a line, as `from_json` of DuckDB wants it. An element that has another
# type is missing.
STRUCTURE: dict[str, Any] = {
    **dict.fromkeys(_TEXTS.split(), _TEXT),
    **dict.fromkeys(_REFERENCES.split(), _REFERENCE),
    **dict.fromkeys(("verificationStatus", "medicationCodeableConcept"), _CONCEPT),
    **dict.fromkeys(
        ("period", "effectivePeriod", "onsetPeriod", "performedPeriod"), _PERIOD
    ),
    **_VALUE,
    "component": [_VALUE],
    "dataAbsentReason": _CONCEPT,
    "meta": {"lastUpdated": _TEXT},
    "link": [{"other": _REFERENCE, "type": _TEXT}],
    "class": {"code": _TEXT},
    "hospitalization": {"dischargeDisposition": _CONCEPT},
    "location": [{"location": _REFERENCE, "status": _TEXT, "period": _PERIOD}],
    "dosage": {"dose": _QUANTITY},
}
TYPES = (
    "Patient",
    "Encounter",
    "Observation",
    "Condition",
    "MedicationAdministration",
    "Procedure",
    "Medication",
    "Location",
)
"""Types of resources that are read; all others are skipped."""

SYSTEMS = {
    "http://loinc.org": "LOINC",
    "http://snomed.info/sct": "SNOMED",
    "http://www.nlm.nih.gov/research/umls/rxnorm": "RxNorm",
    "http://hl7.org/fhir/sid/icd-10": "ICD10",
    "http://hl7.org/fhir/sid/icd-10-cm": "ICD10CM",
    "http://hl7.org/fhir/sid/icd-9-cm": "ICD9CM",
    "http://hl7.org/fhir/sid/cvx": "CVX",
    "http://hl7.org/fhir/sid/ndc": "NDC",
    "http://www.ama-assn.org/go/cpt": "CPT4",
    "http://www.whocc.no/atc": "ATC",
    "http://fhir.de/CodeSystem/bfarm/icd-10-gm": "ICD10GM",
    "http://fhir.de/CodeSystem/bfarm/ops": "OPS",
    "http://fhir.de/CodeSystem/bfarm/atc": "ATC",
}
"""Names of code systems by their URL, as OMOP's vocabularies are called.

The code of another system is written with its URL: `http://lab.example/codes/K`.
"""

NOT_STAYS = ("AMB", "VR", "HH", "FLD", "PRENC")
"""Classes of encounters that are no stay; each becomes an event `ActCode/AMB`."""

MACROS = """
CREATE OR REPLACE TEMP MACRO fhir_id(reference) AS
  regexp_extract(reference, '([^/:]+?)(/_history/[^/]*)?$', 1);
CREATE OR REPLACE TEMP MACRO fhir_concept(concept) AS
  coalesce(concept.text, concept.coding[1].display, concept.coding[1].code);
"""

READ = """
CREATE OR REPLACE TEMP TABLE {name}_resource AS
SELECT file, line, is_json, r, r.resourceType AS type,
  coalesce(r.id, file || ' ' || line) AS id,
  fhir_id(coalesce(r.subject.reference, r.patient.reference)) AS subject,
  fhir_id(coalesce(r.encounter.reference, r.context.reference)) AS encounter,
  utc_of_text(r.meta.lastUpdated, {zone}) AS updated
FROM (SELECT file, line, is_json,
        from_json(CASE WHEN is_json THEN written ELSE 'null' END, {structure}) AS r
      FROM (SELECT *, coalesce(json_valid(written), false) AS is_json FROM {name}_line))
WHERE NOT is_json OR r.resourceType IN {types};
"""

ENCOUNTERS = """
CREATE OR REPLACE TEMP TABLE {name}_encounter AS
SELECT *, fhir_id(r.partOf.reference) AS parent,
  event_time(r.period.start, {zone}) AS start,
  -- An end that is a day alone, that of the beginning, is not before it.
  CASE WHEN day_over(r.period."end", {zone}) >= event_time(r.period.start, {zone})
    THEN greatest(event_time(r.period."end", {zone}),
                  event_time(r.period.start, {zone}))
    ELSE event_time(r.period."end", {zone}) END AS stop
FROM {name}_resource WHERE type = 'Encounter'
QUALIFY row_number() OVER (PARTITION BY id ORDER BY updated DESC NULLS LAST, r::VARCHAR)
  = 1;

-- The stay of an encounter that is part of another one is that of the other.
CREATE OR REPLACE TEMP TABLE {name}_stay AS
WITH RECURSIVE up(id, stay, height) AS (
  SELECT id, id, 0 FROM {name}_encounter
  UNION
  SELECT up.id, parent.parent, height + 1
  FROM up JOIN {name}_encounter parent ON parent.id = up.stay
  WHERE parent.parent IS NOT NULL AND height < 9)
SELECT id, arg_max(stay, height) AS stay FROM up GROUP BY id;
"""

# A panel without a value of its own, such as blood pressure, is only its components.
RESULTS = """
CREATE OR REPLACE TEMP TABLE {name}_result AS
WITH timed AS (
  SELECT o.*, coalesce(stay.stay, o.encounter) AS stay, within.stop AS encounter_stop,
    CASE o.type
      WHEN 'Observation' THEN coalesce(o.r.effectiveDateTime, o.r.effectiveInstant,
        CASE WHEN event_time(o.r.effectivePeriod."end", {zone})
               >= event_time(o.r.effectivePeriod.start, {zone})
             THEN o.r.effectivePeriod."end" END,
        o.r.effectivePeriod.start, o.r.effectivePeriod."end", o.r.issued)
      WHEN 'Condition' THEN
        coalesce(o.r.onsetDateTime, o.r.onsetPeriod.start, o.r.recordedDate)
      WHEN 'Procedure' THEN
        coalesce(o.r.performedDateTime, o.r.performedPeriod.start)
      ELSE coalesce(o.r.effectiveDateTime, o.r.effectivePeriod.start) END AS written,
    CASE o.type WHEN 'Observation' THEN o.r.issued
              WHEN 'Condition' THEN o.r.recordedDate END AS entered,
    coalesce(o.r.status, '') IN ('entered-in-error', 'cancelled')
      OR coalesce(o.r.verificationStatus.coding[1].code, '')
        IN ('entered-in-error', 'refuted') AS is_withdrawn,
    coalesce(o.r.status, '') IN ('registered', 'not-done', 'preparation')
      OR o.r.dataAbsentReason IS NOT NULL AS is_left_out,
    CASE WHEN o.type = 'MedicationAdministration' THEN [struct_pack(
           concept := coalesce(o.r.medicationCodeableConcept, medication.r.code),
           value := o.r.dosage.dose.value,
           unit := coalesce(o.r.dosage.dose.code, o.r.dosage.dose.unit),
           text := NULL::VARCHAR, is_compared := false)]
         ELSE list_transform(
           list_concat(
             CASE WHEN len(o.r.component) > 0 AND coalesce(o.r.valueQuantity::VARCHAR,
                    o.r.valueInteger::VARCHAR, o.r.valueString, o.r.valueBoolean,
                    o.r.valueCodeableConcept::VARCHAR) IS NULL
               THEN []
               ELSE [struct_pack(code := o.r.code, valueQuantity := o.r.valueQuantity,
                 valueInteger := o.r.valueInteger, valueString := o.r.valueString,
                 valueBoolean := o.r.valueBoolean,
                 valueCodeableConcept := o.r.valueCodeableConcept)] END,
             coalesce(o.r.component, [])),
           lambda v: struct_pack(
             concept := v.code,
             value := coalesce(v.valueQuantity.value, v.valueInteger),
             unit := coalesce(v.valueQuantity.code, v.valueQuantity.unit),
             text := coalesce(v.valueString, v.valueBoolean,
               fhir_concept(v.valueCodeableConcept)),
             is_compared := v.valueQuantity.comparator IS NOT NULL
               OR coalesce(has_comparator(v.valueString), false)))
         END AS items
  FROM {name}_resource o
  LEFT JOIN {name}_stay stay ON stay.id = o.encounter
  LEFT JOIN {name}_encounter within ON within.id = o.encounter
  LEFT JOIN (SELECT id, any_value(r ORDER BY updated DESC NULLS LAST, r::VARCHAR) AS r
             FROM {name}_resource WHERE type = 'Medication' GROUP BY id) medication
    ON medication.id = fhir_id(o.r.medicationReference.reference)
  WHERE o.type IN ('Observation', 'Condition', 'MedicationAdministration', 'Procedure')
)
SELECT *, event_time(written, {zone}) AS time,
  CASE WHEN updated > min(updated) OVER (PARTITION BY type, id)
         OR is_withdrawn OR r.status IN ('amended', 'corrected')
       THEN greatest(utc_of_text(entered, {zone}), updated)
       ELSE coalesce(day_over(entered, {zone}), utc_of_text(entered, {zone}), updated)
  END AS entered_at
FROM timed;
"""

# Of a diagnosis that nobody dated, the end of its encounter: it is coded then.
EVENTS = """
CREATE OR REPLACE TEMP TABLE {name}_coded AS
WITH each AS (
  SELECT file, line, type, id, subject, stay, time, local_of(written) AS local_time,
    is_withdrawn, item,
    event_time(coalesce(r.effectivePeriod."end", r.performedPeriod."end"), {zone})
      < event_time(coalesce(r.effectivePeriod.start, r.performedPeriod.start), {zone})
      AS is_negative,
    greatest(day_over(written, {zone}), CASE
      WHEN entered_at IS NULL AND type = 'Condition' AND encounter IS NOT NULL
      THEN coalesce(encounter_stop, TIMESTAMP '9999-01-01')
      ELSE entered_at END) AS known_since,
    unnest(CASE WHEN len(item.concept.coding) > 0
      THEN list_transform(item.concept.coding, lambda c:
        coalesce(coalesce({systems}[c.system], c.system) || '/', '') || c.code)
      ELSE [item.concept.text] END) AS code
  FROM (SELECT *, unnest(items) AS item FROM {name}_result WHERE NOT is_left_out)
)
SELECT file, line, type, id, subject, stay, time, local_time, known_since, code,
  CASE WHEN NOT is_withdrawn THEN item.value END AS value,
  CASE WHEN NOT is_withdrawn THEN item.unit END AS unit,
  CASE WHEN is_withdrawn THEN {withdrawn} ELSE item.text END AS text,
  item.is_compared AS is_compared,
  CASE WHEN len(list_distinct(list_transform(item.concept.coding, lambda c: c.system)))
         > 1 THEN 'TWO_SYSTEMS'
       WHEN is_negative THEN 'NEGATIVE_DURATION' END AS wrong
FROM each;
"""

# A later version with another code or time takes the place of the result before it.
SELECT = """
CREATE OR REPLACE TEMP TABLE {name}_events AS
WITH patient AS (
  SELECT * FROM {name}_resource WHERE type = 'Patient'
  QUALIFY row_number() OVER (
    PARTITION BY id ORDER BY updated DESC NULLS LAST, r::VARCHAR) = 1
), born AS (
  SELECT file, line, id, r.gender AS sex, r.deceasedDateTime AS died,
    utc_of_local(try_cast(CASE length(r.birthDate) WHEN 4 THEN r.birthDate || '-07-01'
      WHEN 7 THEN r.birthDate || '-15' ELSE r.birthDate END AS TIMESTAMP), {zone})
      AS time
  FROM patient
), link AS (
  SELECT file, line, id, updated, unnest(r.link) AS link
  FROM {name}_resource WHERE type = 'Patient'
), stay AS (
  SELECT e.*, s.stay AS root, coalesce(r.class.code IN {not_stays}, false) AS is_visit,
    s.stay <> e.id AS is_part
  FROM {name}_encounter e JOIN {name}_stay s USING (id)
  WHERE coalesce(r.status, '') NOT IN ('planned', 'cancelled', 'entered-in-error')
), place AS (
  SELECT file, line, subject, root, start, r.period.start AS written,
    unnest(r.location) AS l
  FROM stay WHERE NOT is_visit
), version AS (
  SELECT DISTINCT type, id, subject, stay, code, time, known_since,
    max(known_since) OVER (PARTITION BY type, id) AS newest
  FROM {name}_coded
  WHERE known_since IS NOT NULL AND time IS NOT NULL AND code IS NOT NULL
)
SELECT id AS subject, NULL AS stay, time, NULL::TIMESTAMP AS known_since,
  'BIRTH' AS code, NULL::DOUBLE AS value, NULL AS unit, NULL AS text, file, line,
  NULL::TIMESTAMP AS local_time, false AS is_compared, NULL AS wrong
FROM born WHERE time IS NOT NULL
UNION ALL
SELECT id, NULL, time, NULL, 'SEX', NULL, NULL, sex, file, line, NULL, false, NULL
FROM born WHERE sex IS NOT NULL
UNION ALL
SELECT id, NULL, event_time(died, {zone}), day_over(died, {zone}),
  'DEATH', NULL, NULL, NULL, file, line, local_of(died), false, NULL
FROM born WHERE event_time(died, {zone}) IS NOT NULL
UNION ALL
SELECT
  CASE WHEN link.type = 'replaced-by' THEN id ELSE fhir_id(link.other.reference) END
    AS old,
  NULL, min(updated), NULL, 'MERGED', NULL, NULL,
  CASE WHEN link.type = 'replaced-by' THEN fhir_id(link.other.reference) ELSE id END
    AS survivor,
  arg_min(file, (updated, file, line)), arg_min(line, (updated, file, line)),
  NULL, false, NULL
FROM link WHERE link.type IN ('replaced-by', 'replaces') GROUP BY old, survivor
UNION ALL
SELECT subject, root, start, day_over(r.period.start, {zone}),
  CASE WHEN is_visit THEN 'ActCode/' || r.class.code ELSE 'ADMISSION' END,
  NULL, NULL, NULL, file, line, local_of(r.period.start), false,
  CASE WHEN stop IS NULL AND r.status = 'finished' THEN 'NO_END' END
FROM stay WHERE NOT is_part
UNION ALL
SELECT subject, root, coalesce(event_time(l.period.start, {zone}), start),
  day_over(coalesce(l.period.start, written), {zone}), 'TRANSFER', NULL, NULL,
  coalesce(l.location.display, named.r.name, fhir_id(l.location.reference)),
  file, line, local_of(coalesce(l.period.start, written)), false, NULL
FROM place LEFT JOIN (
  SELECT id, any_value(r ORDER BY updated DESC NULLS LAST, r::VARCHAR) AS r
  FROM {name}_resource WHERE type = 'Location' GROUP BY id) named
  ON named.id = fhir_id(l.location.reference)
WHERE coalesce(l.status, '') NOT IN ('planned', 'reserved')
UNION ALL
SELECT subject, root, start, day_over(r.period.start, {zone}), 'TRANSFER', NULL, NULL,
  coalesce(r.serviceProvider.display, fhir_id(r.serviceProvider.reference)),
  file, line, local_of(r.period.start), false, NULL
FROM stay WHERE is_part AND NOT is_visit AND coalesce(len(r.location), 0) = 0
  AND r.serviceProvider IS NOT NULL
UNION ALL
SELECT subject, root, stop, day_over(r.period."end", {zone}), 'DISCHARGE', NULL, NULL,
  coalesce(r.hospitalization.dischargeDisposition.coding[1].code,
           r.hospitalization.dischargeDisposition.text),
  file, line, local_of(r.period."end"), false, NULL
FROM stay WHERE NOT is_visit AND NOT is_part AND stop IS NOT NULL
UNION ALL
SELECT subject, stay, time, known_since, code, value, unit, text, file, line,
  local_time, is_compared, wrong
FROM {name}_coded
UNION ALL
SELECT DISTINCT old.subject, old.stay, old.time, new.known_since, old.code, NULL, NULL,
  {withdrawn}, NULL, NULL::BIGINT, NULL, false, NULL
FROM version old JOIN (SELECT DISTINCT type, id, known_since FROM version) new
  ON new.type = old.type AND new.id = old.id AND new.known_since > old.known_since
WHERE NOT EXISTS (
  SELECT 1 FROM version same
  WHERE same.type = old.type AND same.id = old.id
    AND same.known_since = new.known_since AND same.code = old.code
    AND same.time = old.time AND same.subject = old.subject
    AND same.stay IS NOT DISTINCT FROM old.stay)
"""


def select_events(
    source: Source,
    name: str,
    connection: duckdb.DuckDBPyConnection,
    span: Span,
) -> str:
    """Read the resources once; return the SELECT of their events.

    Raises
    ------
    UsageError
        There is no file of resources.
    EventsError
        A line is not JSON.
    """
    files = source.files(ENDINGS, span)
    blanks = {
        "name": name,
        "zone": sql_text(source.zone),
        "structure": sql_text(json.dumps(STRUCTURE)),
        "types": TYPES,
        "systems": _sql_map(SYSTEMS),
        "not_stays": NOT_STAYS,
        "withdrawn": sql_text(WITHDRAWN),
    }
    connection.execute(MACROS)
    _read_resources(files, name, blanks, connection)
    for step in (ENCOUNTERS, RESULTS, EVENTS, SELECT):
        connection.execute(step.format(**blanks))
    return f"""SELECT *, time IS NOT NULL AS has_time FROM {name}_events
WHERE span_start IS NULL OR time BETWEEN span_start AND span_end"""


def _sql_map(texts: dict[str, str]) -> str:
    """Return a dict as a MAP of DuckDB's SQL."""
    entries = (f"{sql_text(key)}: {sql_text(text)}" for key, text in texts.items())
    return f"MAP {{{', '.join(entries)}}}"


def _open(path: str) -> IO[bytes]:
    opened: Any = gzip.open if path.endswith(".gz") else open
    return cast(IO[bytes], opened(path, "rb"))


def _numbered_lines(file: IO[bytes]) -> Iterator[tuple[int, str | None]]:
    """Yield lines that are not empty with their numbers.

    A line that is not UTF-8, or that a damaged archive ends in, is None.
    """
    number = 0
    try:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, _decoded(line)
    except (OSError, EOFError, zlib.error):
        yield number + 1, None


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def _batches(files: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the lines of files with their numbers; empty lines are skipped."""
    for path in files:
        file_name = Path(path).name
        with _open(path) as file:
            numbered = _numbered_lines(file)
            while lines := list(islice(numbered, BATCH_LINES)):
                numbers, written = zip(*lines, strict=True)
                yield pa.record_batch(
                    [[file_name] * len(lines), numbers, written], schema=LINE_SCHEMA
                )


def _read_resources(
    files: list[str],
    name: str,
    blanks: dict[str, Any],
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """Make the table of resources; each line is parsed once.

    Raises
    ------
    EventsError
        A line is not JSON, or not UTF-8.
    """
    reader = pa.RecordBatchReader.from_batches(LINE_SCHEMA, _batches(files))
    connection.register(f"{name}_line", reader)
    connection.execute(READ.format(**blanks))
    connection.unregister(f"{name}_line")
    wrong = connection.execute(
        f"SELECT file, line, count(*) OVER () FROM {name}_resource WHERE NOT is_json "
        f"ORDER BY file, line LIMIT {MAX_PLACES}"
    ).fetchall()
    if wrong:
        places = [
            f"{file}, line {line:,}: the line cannot be read as JSON"
            for file, line, _ in wrong
        ]
        more = wrong[0][2] - len(wrong)
        raise EventsError(
            [
                *places,
                *([f"and {more:,} more lines"] if more else []),
                "write the export again: one resource a line, in UTF-8",
            ]
        )
