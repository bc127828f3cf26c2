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
from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from screening.errors import EventsError
from screening.features.events import (
    WITHDRAWN,
    Session,
    Span,
    sql_text,
)
from screening.features.faults import Faults
from screening.features.sources.long import file_label
from screening.features.sources.sql import OF_PEOPLE, UNION, timed
from screening.features.spec import Source, ends_in

ENDINGS = (".ndjson", ".ndjson.gz", ".jsonl", ".jsonl.gz")
# Lines that are handed to DuckDB at a time.
BATCH_LINES = 4096
LINE_SCHEMA = pa.schema(
    [("file", pa.string()), ("line", pa.int64()), ("written", pa.binary())]
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
TYPES = tuple(
    "Patient Encounter Observation Condition MedicationAdministration Procedure "
    "Medication Location".split()
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
"""Classes of encounters that are not stays; each becomes an event `ActCode/AMB`."""

MACROS = """
CREATE OR REPLACE TEMP MACRO fhir_id(reference) AS
  regexp_extract(reference, '([^/:]+?)(/_history/[^/]*)?$', 1);
CREATE OR REPLACE TEMP MACRO fhir_concept(concept) AS
  coalesce(concept.text, concept.coding[1].display, concept.coding[1].code);
"""

READ = """
-- {name}_line has the lines of all files, as they are written, with file and number.
CREATE OR REPLACE TEMP TABLE {name}_resource AS
SELECT file, line, is_json, r, r.resourceType AS type,
  coalesce(r.id, file || ' ' || line) AS id,
  fhir_id(coalesce(r.subject.reference, r.patient.reference)) AS subject,
  fhir_id(coalesce(r.encounter.reference, r.context.reference)) AS encounter,
  utc_of(r.meta.lastUpdated, {zone}) AS updated
FROM (SELECT file, line, is_json,
        from_json(CASE WHEN is_json THEN json ELSE 'null' END, {structure}) AS r
      FROM (SELECT *, coalesce(json_valid(json), false) AS is_json
            FROM (SELECT *, TRY(decode(written)) AS json FROM {name}_line)))
WHERE NOT is_json OR r.resourceType IN {types};
"""

ENCOUNTERS = """
CREATE OR REPLACE TEMP VIEW {name}_newest AS
SELECT * FROM {name}_resource
QUALIFY row_number() OVER (PARTITION BY type, id
  ORDER BY updated DESC NULLS LAST, r::VARCHAR) = 1;

CREATE OR REPLACE TEMP TABLE {name}_encounter AS
SELECT *, fhir_id(r.partOf.reference) AS parent,
  coalesce(r.class.code IN {not_stays}, false) AS is_visit,
  event_time(r.period.start, {zone}) AS start,
  end_time(r.period."end", r.period.start, {zone}) AS stop
FROM {name}_newest WHERE type = 'Encounter';

-- The stay of an encounter that is part of another one is that of the other, unless
-- the other is not a stay, or was over for a day: some write a readmission so. Those
-- that are part of each other in a circle are a stay each.
CREATE OR REPLACE TEMP TABLE {name}_stay AS
WITH RECURSIVE up(id, stay, height) AS (
  SELECT id, id, 0 FROM {name}_encounter
  UNION
  SELECT up.id, parent.id, height + 1
  FROM up JOIN {name}_encounter part ON part.id = up.stay
  JOIN {name}_encounter parent ON parent.id = part.parent AND NOT parent.is_visit
    AND coalesce(part.start <= parent.stop + INTERVAL 1 DAY, true)
  WHERE height < 9)
SELECT id, CASE WHEN max(height) < 9 THEN arg_max(stay, height) ELSE id END AS stay
FROM up GROUP BY id;
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
    coalesce(o.r.issued, o.r.recordedDate) AS stated,
    coalesce(o.r.status, '') IN ('entered-in-error', 'cancelled')
      OR coalesce(o.r.verificationStatus.coding[1].code, '')
        IN ('entered-in-error', 'refuted') AS is_withdrawn,
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
             is_compared := v.valueQuantity.comparator IS NOT NULL))
         END AS items
  FROM {name}_resource o
  LEFT JOIN {name}_stay stay ON stay.id = o.encounter
  LEFT JOIN {name}_encounter within ON within.id = o.encounter
  LEFT JOIN {name}_newest medication ON medication.type = 'Medication'
    AND medication.id = fhir_id(o.r.medicationReference.reference)
  WHERE o.type IN ('Observation', 'Condition', 'MedicationAdministration', 'Procedure')
    AND coalesce(o.r.status, '') NOT IN ('registered', 'not-done', 'preparation')
    AND o.r.dataAbsentReason IS NULL
)
SELECT *, CASE WHEN updated > min(updated) OVER (PARTITION BY type, id)
         OR is_withdrawn OR r.status IN ('amended', 'corrected')
       THEN greatest(utc_of(stated, {zone}), updated)
       ELSE coalesce(known_at(stated, {zone}), updated) END AS entered
FROM timed;
"""

# The end of its encounter, for a diagnosis without a date: it is coded then.
EVENTS = """
CREATE OR REPLACE TEMP TABLE {name}_coded AS
WITH each AS (
  SELECT file, line, type, id, subject, stay, written, is_withdrawn, item,
    event_time(coalesce(r.effectivePeriod."end", r.performedPeriod."end"), {zone})
      < event_time(coalesce(r.effectivePeriod.start, r.performedPeriod.start), {zone})
      AS is_negative,
    CASE WHEN entered IS NULL AND type = 'Condition' AND encounter IS NOT NULL
      THEN coalesce(encounter_stop, TIMESTAMP '9999-01-01') ELSE entered END AS entered,
    unnest(CASE WHEN len(item.concept.coding) > 0
      THEN list_transform(item.concept.coding, lambda c:
        coalesce(coalesce({systems}[c.system], c.system) || '/', '') || c.code)
      ELSE [item.concept.text] END) AS code
  FROM (SELECT *, unnest(items) AS item FROM {name}_result)
)
SELECT file, line, type, id, subject, stay, written, entered, code,
  event_time(written, {zone}) AS time,
  greatest(day_over(written, {zone}), entered) AS known_since,
  CASE WHEN NOT is_withdrawn THEN item.value END AS value,
  CASE WHEN NOT is_withdrawn THEN item.unit END AS unit,
  CASE WHEN is_withdrawn THEN {withdrawn} ELSE item.text END AS text,
  item.is_compared AS is_compared,
  CASE WHEN len(list_distinct(list_transform(item.concept.coding, lambda c: c.system)))
         > 1 THEN 'TWO_SYSTEMS'
       WHEN is_negative THEN 'NEGATIVE_DURATION' END AS wrong
FROM each;

CREATE OR REPLACE TEMP VIEW {name}_rooted AS
SELECT e.*, s.stay, s.stay <> e.id AS is_part
FROM {name}_encounter e JOIN {name}_stay s USING (id)
WHERE coalesce(r.status, '') NOT IN ('planned', 'cancelled', 'entered-in-error');

CREATE OR REPLACE TEMP VIEW {name}_born AS
SELECT file, line, id AS subject, r.gender AS sex,
  r.birthDate IS NOT NULL AS has_birth, utc_of_local(try_cast(
    CASE length(r.birthDate) WHEN 4 THEN r.birthDate || '-07-01'
      WHEN 7 THEN r.birthDate || '-15' ELSE r.birthDate END AS TIMESTAMP), {zone})
  AS birth
FROM {name}_newest WHERE type = 'Patient';
"""

KINDS = (
    *OF_PEOPLE,
    """SELECT id AS subject, 'DEATH' AS code, r.deceasedDateTime AS written,
  file, line
FROM {name}_newest WHERE type = 'Patient' AND r.deceasedDateTime IS NOT NULL""",
    """SELECT link.id AS subject, 'MERGED' AS code, link.survivor AS text,
  min(updated) AS instant, arg_min(file, (updated, file, line)) AS file,
  arg_min(line, (updated, file, line)) AS line
FROM (SELECT file, line, updated, fhir_id(l.other.reference) AS other,
        CASE l.type WHEN 'replaced-by' THEN {{'id': id, 'survivor': other}}
          WHEN 'replaces' THEN {{'id': other, 'survivor': id}} END AS link
      FROM (SELECT *, unnest(r.link) AS l FROM {name}_resource WHERE type = 'Patient'))
WHERE link IS NOT NULL GROUP BY link""",
    """SELECT subject, stay, r.period.start AS written, file, line,
  CASE WHEN is_visit THEN 'ActCode/' || r.class.code ELSE 'ADMISSION' END AS code,
  CASE WHEN stop IS NULL AND r.status = 'finished' THEN 'NO_END' END AS wrong
FROM {name}_rooted WHERE NOT is_part""",
    """SELECT e.subject, e.stay, e.file, e.line, 'TRANSFER' AS code,
  coalesce(e.l.period.start, e.r.period.start) AS written,
  coalesce(e.l.location.display, named.r.name, fhir_id(e.l.location.reference)) AS text
FROM (SELECT *, unnest(r.location) AS l FROM {name}_rooted WHERE NOT is_visit) e
LEFT JOIN {name}_newest named ON named.type = 'Location'
  AND named.id = fhir_id(e.l.location.reference)
WHERE coalesce(e.l.status, '') NOT IN ('planned', 'reserved')""",
    # A part of a stay that names no place is a ward by its provider.
    """SELECT subject, stay, r.period.start AS written, file, line,
  'TRANSFER' AS code,
  coalesce(r.serviceProvider.display, fhir_id(r.serviceProvider.reference)) AS text
FROM {name}_rooted
WHERE is_part AND NOT is_visit AND coalesce(len(r.location), 0) = 0
  AND r.serviceProvider IS NOT NULL""",
    # A stay from the emergency room on ends with its last part, which may be open.
    """SELECT subject, stay, r.period."end" AS written, stop AS instant, file, line,
  'DISCHARGE' AS code,
  coalesce(r.hospitalization.dischargeDisposition.coding[1].code,
           r.hospitalization.dischargeDisposition.text) AS text
FROM (SELECT *, max(stop) FILTER (NOT is_part) OVER (PARTITION BY stay) AS whole_stop
      FROM {name}_rooted WHERE NOT is_visit)
WHERE NOT is_part OR stop IS NOT NULL OR start >= whole_stop
QUALIFY stop IS NOT NULL AND row_number() OVER (
  PARTITION BY stay ORDER BY stop DESC NULLS FIRST, is_part, id) = 1""",
    """SELECT subject, stay, written, entered, code, value, unit, text, file, line,
  is_compared, wrong
FROM {name}_coded""",
    # A later version with another code or time takes the place of the result before it.
    """SELECT DISTINCT old.subject, old.stay, old.code, old.time AS instant,
  new.known_since AS entered, {withdrawn} AS text
FROM {name}_coded old JOIN {name}_coded new
  ON new.type = old.type AND new.id = old.id AND new.known_since > old.known_since
WHERE old.time IS NOT NULL AND old.code IS NOT NULL AND new.time IS NOT NULL
  AND new.code IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM {name}_coded same
  WHERE same.type = old.type AND same.id = old.id
    AND same.known_since = new.known_since AND same.code = old.code
    AND same.time = old.time AND same.subject = old.subject
    AND same.stay IS NOT DISTINCT FROM old.stay)""",
)
"""Events of each kind, with the columns that they have."""


def select_events(
    source: Source,
    name: str,
    session: Session,
    span: Span,
) -> str:
    """Read the resources once; return the SELECT of their events.

    Raises
    ------
    UsageError
        No file of resources was found.
    EventsError
        A line is not JSON.
    """
    files = source.files(ENDINGS, span)
    zone = sql_text(source.zone)
    systems = [f"{sql_text(url)}: {sql_text(word)}" for url, word in SYSTEMS.items()]
    blanks = {
        "name": name,
        "zone": zone,
        "structure": sql_text(json.dumps(STRUCTURE)),
        "types": TYPES,
        "systems": f"MAP {{{', '.join(systems)}}}",
        "not_stays": NOT_STAYS,
        "withdrawn": sql_text(WITHDRAWN),
    }
    session.run(MACROS)
    lines = pa.RecordBatchReader.from_batches(LINE_SCHEMA, _batches(files))
    session.connection.register(f"{name}_line", lines)
    session.run(READ.format(**blanks))
    session.connection.unregister(f"{name}_line")
    wrong = Faults()
    places = f"FROM {name}_resource WHERE NOT is_json"
    wrong.add(session.connection, f"SELECT 'NOT_JSON' AS kind, file, line {places}")
    if wrong.counts:
        raise EventsError([*wrong.sentences()])
    for step in (ENCOUNTERS, RESULTS, EVENTS):
        session.run(step.format(**blanks))
    union = UNION.join(KINDS).format(**blanks)
    events = timed(union, zone)
    session.run(f"CREATE OR REPLACE TEMP TABLE {name}_events AS {events}")
    return f"""SELECT * FROM {name}_events
WHERE span_start IS NULL OR time IS NULL OR time BETWEEN span_start AND span_end"""


def _batches(files: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the lines of files with their numbers."""
    for path in files:
        label = file_label(path)
        numbered = _numbered_lines(path)
        while lines := list(islice(numbered, BATCH_LINES)):
            numbers, written = zip(*lines, strict=True)
            yield pa.record_batch(
                [[label] * len(lines), numbers, written], schema=LINE_SCHEMA
            )


def _numbered_lines(path: str) -> Iterator[tuple[int, bytes | None]]:
    """Yield lines that are not empty with their numbers.

    One that a damaged archive ends in is None.
    """
    number = 0
    opened = gzip.open if ends_in(path, [".gz"]) else open
    with opened(path, "rb") as file:
        try:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.removeprefix(BOM_UTF8)
        except (OSError, EOFError, zlib.error):
            yield number + 1, None
