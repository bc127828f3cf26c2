"""The SQL of the engine, one statement per step.

Every text is read with the tables that the steps before have made:

- `lines`: the events of all sources, as they are;
- `moves`: admissions, transfers, discharges, births, deaths, sex;
- `early`: stays that end before they begin;
- `nights`: the nights, each with its hour and the hour of the day before;
- `merge_spans`, `merge_chains`, `merges`: the current id of a subject, from an
  instant until another;
- `stays`, `candidates`, `rows`: stays, their nights, the nights that are in;
- `events`: the lines of the codes of the spec that a window can reach;
- `picked`: the lines that count for a feature of a row, in the version known then;
- `made`: the features of a row.

No aggregate depends on the order of lines: sums are ordered, `last` has a total order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from screening.features import events
from screening.features.events import WITHDRAWN, Hours, has_code, sql_literal, sql_text
from screening.features.spec import Feature, Outcome, Spec, Static, Take
from screening.io.connections import duckdb_quoted

_ALWAYS = sql_literal(events.ALWAYS)
_FOREVER = sql_literal(events.FOREVER)
IS_VALID = f"text IS DISTINCT FROM '{WITHDRAWN}'"


_TIME = f"coalesce(time, {_ALWAYS})"
_KNOWN = f"coalesce(known_since, time, {_ALWAYS})"
_IS_READ = f"""{_TIME} <= $last AND {_KNOWN} <= $last
  AND ($since IS NULL OR time >= $since) AND $condition"""

# The lines of a kind that are known at an instant; `n` is how many lines say the same.
# Of -0 and 0, which are the same, the sum is 0.
LINES_READ = f"""CREATE OR REPLACE TEMP TABLE $table AS
SELECT subject, stay, code, {_TIME} AS time, {_KNOWN} AS known,
  value + CAST(0 AS DOUBLE) AS value, unit, text,
  bool_and(known_since IS NOT NULL) AS is_dated, count(*) AS n
FROM lines($since, $until) l
WHERE {_IS_READ}
GROUP BY ALL"""

# The places of those that repeat another one.
LINES_REPEATED = f"""SELECT file, line FROM lines($since, $until) l
WHERE file IS NOT NULL AND {_IS_READ}
QUALIFY row_number() OVER (PARTITION BY subject, stay, code, {_TIME}, {_KNOWN}, value,
  unit, text ORDER BY file, line) > 1"""

MOVES = has_code(events.RESERVED_CODES)


# The id into which a subject was merged, from an instant until another; before, its
# own.
MERGE_SPANS = f"""CREATE OR REPLACE TEMP TABLE merge_spans AS
WITH spans AS (
  SELECT subject, max(survivor) AS survivor, since,
    coalesce(lead(since) OVER (PARTITION BY subject ORDER BY since), {_FOREVER})
      AS until
  FROM (SELECT subject, CASE WHEN {IS_VALID} THEN text ELSE subject END AS survivor,
          greatest(time, known) AS since
        FROM moves WHERE code = 'MERGED' AND text IS NOT NULL)
  GROUP BY subject, since
)
SELECT * FROM spans
UNION ALL SELECT subject, subject, {_ALWAYS}, min(since) FROM spans GROUP BY subject"""

# The id into which that was merged in turn, until an id occurs again: then it is a
# circle.
MERGE_CHAINS = """CREATE OR REPLACE TEMP TABLE merge_chains AS
WITH RECURSIVE chains AS (
  SELECT subject AS alias, survivor, since, until, [subject] AS passed
  FROM merge_spans WHERE survivor <> subject
  UNION ALL
  SELECT c.alias, s.survivor, greatest(c.since, s.since), least(c.until, s.until),
    list_append(c.passed, c.survivor)
  FROM chains c JOIN merge_spans s
    ON s.subject = c.survivor AND s.since < c.until AND c.since < s.until
  WHERE s.survivor <> s.subject AND NOT list_contains(c.passed, c.survivor)
)
SELECT *, list_contains(passed, survivor) AS is_circle FROM chains"""

# The ends of chains: ids that were not merged into another.
MERGES = """CREATE OR REPLACE TEMP TABLE merges AS
SELECT c.alias, c.survivor, greatest(c.since, s.since) AS since,
  least(c.until, s.until) AS until
FROM merge_chains c LEFT JOIN merge_spans s
  ON s.subject = c.survivor AND s.since < c.until AND c.since < s.until
WHERE s.subject IS NULL OR s.survivor = s.subject"""

# Stays that end before they begin.
EARLY = """CREATE OR REPLACE TEMP TABLE early AS
SELECT subject, stay, min(time) FILTER (code = 'ADMISSION') AS begins
FROM moves WHERE stay IS NOT NULL GROUP BY subject, stay
HAVING min(time) FILTER (code = 'DISCHARGE') < begins"""
EARLY_LINES = """SELECT 'NEGATIVE_DURATION' AS kind, file, line
FROM lines(NULL, NULL) l JOIN early e USING (subject, stay)
WHERE l.code = 'DISCHARGE' AND l.time < e.begins"""

CIRCLES = """SELECT 'MERGE_CIRCLE' AS kind, file, line FROM lines(NULL, NULL)
WHERE code = 'MERGED' AND subject IN (SELECT alias FROM merge_chains WHERE is_circle)"""

# A stay without an id is one of its admission. It is over with the subject's next one.
STAYS = f"""CREATE OR REPLACE TEMP TABLE stays AS
WITH admitted AS (
  SELECT subject, stay, CASE WHEN stay IS NULL THEN time END AS own,
    min(time) AS begins
  FROM moves WHERE code = 'ADMISSION' GROUP BY ALL
)
SELECT a.subject, a.stay, a.own, a.begins,
  coalesce(a.stay, a.subject || strftime(a.own, '@%Y-%m-%dT%H:%M:%S')) AS id,
  CASE WHEN bool_or(d.text = '{WITHDRAWN}') IS NOT TRUE
       THEN min(greatest(d.time, d.known)) END AS over
FROM admitted a LEFT JOIN moves d
  ON d.code = 'DISCHARGE' AND d.subject = a.subject
  AND d.stay IS NOT DISTINCT FROM a.stay AND (a.own IS NULL OR d.time >= a.own)
GROUP BY ALL"""

CANDIDATES = f"""CREATE OR REPLACE TEMP TABLE candidates AS
WITH nights_of_stay AS (
  SELECT s.subject, s.stay, s.own, s.id, n.night, n.hour, n.before
  FROM stays s JOIN nights n
    ON n.hour >= s.begins AND s.begins >= n.hour - $longest
    AND (s.over IS NULL OR n.hour < s.over)
), known AS (
  SELECT c.*, m.code, m.time, m.known, m.text
  FROM nights_of_stay c JOIN moves m
    ON m.subject = c.subject AND m.stay IS NOT DISTINCT FROM c.stay
    AND m.time <= c.hour AND m.known <= c.hour
    AND (c.own IS NULL OR m.time >= c.own)
  WHERE m.code IN ('ADMISSION', 'TRANSFER', 'DISCHARGE')
  QUALIFY m.known = max(m.known) OVER (
    PARTITION BY c.subject, c.id, c.night, m.code, m.time)
), state AS (
  SELECT subject, stay, own, id, night, hour, before,
    min(time) FILTER (code = 'ADMISSION') AS admission,
    max(time) FILTER (code = 'ADMISSION') AS newest,
    max(time) FILTER (code = 'DISCHARGE') AS discharge,
    arg_max(text, (time, known, text)) FILTER (code <> 'DISCHARGE') AS ward
  FROM known WHERE {IS_VALID} GROUP BY ALL
)
SELECT row_number() OVER (ORDER BY s.hour, s.id, s.subject) AS row,
  s.subject, s.stay, s.id, s.night, s.hour, s.before, s.admission, s.ward,
  coalesce(g.survivor, s.subject) AS "group"
FROM state s LEFT JOIN merges g
  ON g.alias = s.subject AND g.since <= s.hour AND s.hour < g.until
WHERE s.admission IS NOT NULL AND (s.own IS NULL OR s.newest = s.own)
  AND s.discharge IS NULL"""

# The subjects with events of a row: the survivor, and ids merged into it.
PEOPLE = """CREATE OR REPLACE TEMP TABLE people AS
SELECT row, "group" AS subject FROM candidates
UNION
SELECT c.row, g.alias FROM candidates c JOIN merges g
  ON g.survivor = c."group" AND g.since <= c.hour AND c.hour < g.until"""

PERSONS = f"""CREATE OR REPLACE TEMP TABLE persons AS
WITH known AS (
  SELECT c.row, m.code, m.time, m.known, m.text
  FROM candidates c JOIN people p USING (row) JOIN moves m
    ON m.subject = p.subject AND m.time <= c.hour AND m.known <= c.hour
  WHERE m.code IN ('BIRTH', 'SEX', 'DEATH')
  QUALIFY m.known = max(m.known) OVER (
    PARTITION BY c.row, m.subject, m.stay, m.code, m.time)
)
SELECT row, arg_max(time, (known, time)) FILTER (code = 'BIRTH') AS birth,
  arg_max(text, (time, known, text)) FILTER (code = 'SEX') AS sex,
  count_if(code = 'DEATH') > 0 AS is_dead
FROM known WHERE {IS_VALID} GROUP BY row"""


JUDGED = """CREATE OR REPLACE TEMP TABLE judged AS
WITH days AS (
  SELECT c.row, CAST(timezone($zone, timezone('UTC', p.birth)) AS DATE) AS born,
    CAST(timezone($zone, timezone('UTC', c.hour)) AS DATE) AS today
  FROM candidates c LEFT JOIN persons p USING (row)
), ages AS (
  SELECT row, year(today) - year(born) - CASE
    WHEN (month(today), day(today)) < (month(born), day(born)) THEN 1 ELSE 0 END AS age
  FROM days
)
SELECT c.*, a.age, p.sex, epoch_us(c.hour) - epoch_us(c.admission) AS us_in,
  CASE WHEN p.is_dead THEN 'died'
       WHEN NOT coalesce(list_contains($wards, c.ward), $wards IS NULL) THEN 'ward'
       WHEN $by_age AND age IS NULL THEN 'age not known'
       WHEN age < $least OR age > $most THEN 'age'
       WHEN c.admission > c.hour - $hours_in THEN 'hours in'
       WHEN $at_risk AND r.row IS NOT NULL THEN 'not at risk' END AS reason
FROM candidates c LEFT JOIN persons p USING (row) LEFT JOIN ages a USING (row)
LEFT JOIN not_at_risk r USING (row)"""

# Of the past one night of a stay, if not all. The group is what is known now, so that
# folds do not split a patient. Of several rows of a stay each has its own id, also on
# the page of a night.
ROWS = """CREATE OR REPLACE TEMP TABLE rows AS
SELECT j.* RENAME (id AS stay_id), coalesce(g.survivor, j."group") AS person,
  CASE WHEN $every THEN j.id || strftime(j.night, ' %Y-%m-%d') ELSE j.id END AS id
FROM judged j LEFT JOIN merges_now g ON g.alias = j."group"
WHERE j.reason IS NULL
QUALIFY $is_all OR row_number() OVER (PARTITION BY j.subject, j.id ORDER BY
  CASE WHEN $is_drawn
       THEN md5($key || j.id || strftime(j.night, '|%Y-%m-%d')) END, j.hour) = 1"""


def is_of_outcome(outcome: Outcome) -> str:
    """Return the condition of lines that may be an outcome.

    A corrected value that no longer counts is among them: it takes the place of one
    that did.
    """
    codes = list(outcome.patterns)
    codes += ["DEATH"] * outcome.death
    codes += ["ADMISSION", "TRANSFER"] * bool(outcome.ward)
    return has_code(codes)


OUTCOMES = f"""CREATE OR REPLACE TEMP TABLE outcomes AS
WITH numbers AS (
  SELECT o.*, CASE WHEN $unit IS NULL THEN o.value
                   ELSE o.value * u.factor + u.shift END AS x
  FROM outcome_lines o
  LEFT JOIN units u ON u.feature = '' AND u.unit IS NOT DISTINCT FROM o.unit
)
SELECT subject, stay, time, known, code, text, CASE WHEN {IS_VALID} THEN
    CASE WHEN code IN ('ADMISSION', 'TRANSFER') THEN list_contains($ward, text)
         WHEN code = 'DEATH' THEN true
         ELSE ($above IS NULL OR x > $above) AND ($below IS NULL OR x < $below)
    END END AS counts
FROM numbers"""

NOT_AT_RISK = """CREATE OR REPLACE TEMP TABLE not_at_risk AS
WITH known AS (
  SELECT c.row, o.counts
  FROM candidates c JOIN people p USING (row) JOIN outcomes o
    ON o.subject = p.subject AND o.time <= c.hour AND o.known <= c.hour
    AND o.time >= c.admission
  QUALIFY o.known = max(o.known) OVER (
    PARTITION BY c.row, o.subject, o.stay, o.code, o.time)
)
SELECT DISTINCT row FROM known WHERE counts"""

# What is known now, whatever was known at the hour: of the past alone.
MERGES_NOW = f"""CREATE OR REPLACE TEMP VIEW merges_now AS
SELECT alias, survivor FROM merges WHERE until = {_FOREVER}"""

NOW = f"""CREATE OR REPLACE TEMP TABLE now AS
SELECT coalesce(g.survivor, m.subject) AS person, m.subject, m.stay, m.code, m.time
FROM (SELECT * FROM moves
      QUALIFY known = max(known) OVER (PARTITION BY subject, stay, code, time)) m
LEFT JOIN merges_now g ON g.alias = m.subject
WHERE {IS_VALID}"""

FOLLOWED = """CREATE OR REPLACE TEMP TABLE followed AS
SELECT r.row, r.person, r.stay, r.id, r.stay_id, r.night, r.hour, r.admission,
  min(n.time) FILTER (n.code = 'ADMISSION' AND n.time > r.admission
    AND (n.stay IS NULL OR n.stay IS DISTINCT FROM r.stay)) AS next,
  min(n.time) FILTER (n.code = 'DEATH'
    OR (n.code = 'DISCHARGE' AND n.time >= r.admission AND n.subject = r.subject
        AND n.stay IS NOT DISTINCT FROM r.stay)) AS ends
FROM rows r LEFT JOIN now n USING (person)
GROUP BY ALL"""

COUNTED = """CREATE OR REPLACE TEMP TABLE counted AS
SELECT DISTINCT coalesce(g.survivor, o.subject) AS person, o.time
FROM (SELECT * FROM outcomes
      QUALIFY known = max(known) OVER (PARTITION BY subject, stay, code, time)) o
LEFT JOIN merges_now g ON g.alias = o.subject
WHERE o.counts"""

OUTCOMES_OF_ROWS = """SELECT f.row AS unit, c.time
FROM followed f JOIN counted c ON c.person = f.person
  AND c.time >= f.admission AND (f.next IS NULL OR c.time < f.next)
ORDER BY ALL"""

OUTCOME_TABLE = """WITH stays_followed AS (
  SELECT $id AS id, person, min(admission) AS admission, max(next) AS next,
    max(ends) AS ends
  FROM followed GROUP BY ALL
)
SELECT f.id, timezone('UTC', c.time) AS time, timezone('UTC', f.ends) AS until,
  timezone('UTC', $complete) AS as_of
FROM stays_followed f LEFT JOIN counted c ON c.person = f.person
  AND c.time >= f.admission AND (f.next IS NULL OR c.time < f.next)
ORDER BY ALL"""

# Features with a line that does not state since when it was known.
UNDATED = """SELECT DISTINCT feature FROM events JOIN feature_codes USING (code)
WHERE NOT is_dated ORDER BY ALL"""
UNDATED_MOVES = """SELECT DISTINCT code FROM moves
WHERE NOT is_dated AND code IN ('ADMISSION', 'TRANSFER') ORDER BY ALL"""

NEWEST = """SELECT greatest(
  (SELECT max(time) FROM moves), (SELECT max(time) FROM outcomes))"""


def stays_reached(windows: Sequence[float | None]) -> str:
    """Return the statement of the times from which on a stay's rows need events.

    Parameters
    ----------
    windows : sequence of float or None
        Hours; None is the whole stay. The one at place n gives `since_n`; `since` is
        the earliest.
    """
    starts = [
        f"min(r.before - {sql_literal(Hours(hours))})"
        if hours is not None
        else "min(r.admission)"
        for hours in windows
    ]
    columns = ", ".join(f"{start} AS since_{n}" for n, start in enumerate(starts))
    return f"""CREATE OR REPLACE TEMP TABLE reached AS
SELECT p.subject, r.stay_id, max(r.hour) AS until, {columns},
  least({", ".join(starts)}) AS since
FROM rows r JOIN people p USING (row) GROUP BY ALL"""


def is_of_features(codes: Sequence[Sequence[str]]) -> str:
    """Return the condition of lines that a feature can need.

    Parameters
    ----------
    codes : sequence of sequence of str
        Codes by the window in which they are read, as in `stays_reached`.
    """
    reached = " OR ".join(
        f"(l.time >= r.since_{n} AND {has_code(patterns)})"
        for n, patterns in enumerate(codes)
    )
    every = [code for patterns in codes for code in patterns]
    return f"""{has_code(every)} AND EXISTS (
  SELECT 1 FROM reached r WHERE r.subject = l.subject AND l.time <= r.until
    AND coalesce(l.known_since, l.time) <= r.until AND ({reached}))"""


def codes_of_features(features: dict[str, tuple[str, ...]]) -> str:
    """Return the statement of the codes that occur, by the features that take them."""
    selects = [
        f"SELECT {sql_text(name)} AS feature, code FROM codes "
        f"WHERE {has_code(patterns)}"
        for name, patterns in features.items()
    ]
    union = "\nUNION ALL ".join(selects)
    return f"""CREATE OR REPLACE TEMP TABLE feature_codes AS
WITH codes AS (SELECT DISTINCT code FROM events)
{union}"""


# For each feature of a row the lines in its window, in the version known at the hour.
PICKED = f"""CREATE OR REPLACE TEMP TABLE picked AS
WITH hours AS (
  SELECT row, hour AS at, admission, false AS is_before FROM part
  UNION ALL SELECT row, before, admission, true FROM part
), known AS (
  SELECT h.row, h.is_before, h.at, f.feature, f.unit AS wanted, e.time, e.known,
    e.value, e.unit, e.text
  FROM hours h JOIN people p USING (row) JOIN events e ON e.subject = p.subject
  JOIN feature_codes c USING (code) JOIN features f USING (feature)
  WHERE e.time <= h.at AND e.known <= h.at AND (f.take = 'change' OR NOT h.is_before)
    AND CASE WHEN f.reach IS NULL THEN e.time >= h.admission
             ELSE e.time > h.at - f.reach END
  QUALIFY e.known = max(e.known) OVER (
    PARTITION BY h.row, h.is_before, f.feature, e.subject, e.stay, e.code, e.time)
)
SELECT k.row, k.feature, k.is_before, k.time, k.known, k.text,
  CASE WHEN wanted IS NULL THEN value
       ELSE finite(value * u.factor + u.shift) END AS value,
  (epoch_us(k.time) - epoch_us(k.at)) / 3600000000.0 AS x
FROM known k
LEFT JOIN units u ON u.feature = k.feature AND u.unit IS NOT DISTINCT FROM k.unit
WHERE {IS_VALID}"""


def _sum(term: str) -> str:
    return f"fsum({term} ORDER BY x, value) {{has_value}}"


_N = "count(*) {has_value}"
_LAST = "arg_max({value}, (time, known, {value}))"
TAKES: Mapping[Take, str] = {
    "last": f"{_LAST} {{has_value}}",
    "first": "arg_min({value}, (time, known, {value})) {has_value}",
    "min": "min(value) {has_value}",
    "max": "max(value) {has_value}",
    "mean": f"finite(fsum(value ORDER BY value) {{has_value}} / {_N})",
    "sum": "finite(fsum(value ORDER BY value) {has_value})",
    "count": "count(*) FILTER ({mine})",
    "any": "count(*) FILTER ({mine}) > 0",
    "hours_since": "-max(x) FILTER ({mine})",
    "slope": (
        "CASE WHEN count(DISTINCT x) {has_value} > 1 THEN "
        f"finite(({_N} * {_sum('x * value')} - {_sum('x')} * {_sum('value')})"
        f" / ({_N} * {_sum('x * x')} - {_sum('x')} * {_sum('x')})) END"
    ),
    "change": (
        f"finite({_LAST} FILTER ({{mine}} AND value IS NOT NULL AND NOT is_before)"
        f" - {_LAST} FILTER ({{mine}} AND value IS NOT NULL AND is_before))"
    ),
}
"""What is taken of the lines picked for a row, as an aggregate of SQL."""


def _aggregate(name: str, feature: Feature) -> str:
    """Return the expression of one feature over the lines picked for a row."""
    mine = f"feature = {sql_text(name)}"
    value = "text" if feature.text else "value"
    has_value = f"FILTER ({mine} AND {value} IS NOT NULL)"
    return TAKES[feature.take].format(mine=mine, value=value, has_value=has_value)


STATIC: dict[Static, str] = {
    "age": "r.age",
    "sex": "r.sex",
    "ward": "r.ward",
    "days_in_hospital": "r.us_in / 86400000000.0",
}
# What a feature is where a row has no line of it.
EMPTY = {"count": "0", "any": "false"}


def table_made(spec: Spec) -> str:
    """Return the SELECT of the table: one row per stay, in a total order."""
    columns = ["r.id", 'r.person AS "group"', "timezone('UTC', r.hour) AS time"]
    for name, feature in spec.features.items():
        quoted = duckdb_quoted(name)
        cell = f"m.{quoted}"
        if not isinstance(feature, Feature):
            cell = STATIC[feature]
        elif feature.take in EMPTY:
            cell = f"coalesce({cell}, {EMPTY[feature.take]})"
        columns.append(f"{cell} AS {quoted}")
    listed = ",\n  ".join(columns)
    return f"""SELECT {listed}, r.row
FROM rows r LEFT JOIN made m USING (row)
ORDER BY r.hour, r.id, r.subject"""


def features_made(features: dict[str, Feature]) -> str:
    """Return the SELECT of the features that are made of events, by row."""
    columns = [
        f"{_aggregate(name, feature)} AS {duckdb_quoted(name)}"
        for name, feature in features.items()
    ]
    listed = ",\n  ".join(["row", *columns])
    return f"SELECT {listed}\nFROM picked GROUP BY row"
