"""What sources have in common: the SQL of times, texts and numbers, and of people."""

from __future__ import annotations

# A time of day that exists twice is the first of both, as `clock.conversion` takes it:
# in the offset of three hours before. `typeof` is known before a query runs, so that
# nothing of another type is computed.
MACROS = """
-- A number, or a time: "infinity" is neither.
CREATE OR REPLACE TEMP MACRO finite(value) AS
  CASE WHEN isfinite(value) THEN value END;
CREATE OR REPLACE TEMP MACRO in_earlier_offset(t, zone) AS
  timezone(zone, t - INTERVAL 3 HOUR) + INTERVAL 3 HOUR;
CREATE OR REPLACE TEMP MACRO utc_of_local(t, zone) AS
  CASE WHEN zone = 'UTC' THEN t
       WHEN timezone(zone, in_earlier_offset(t, zone)) = t
       THEN timezone('UTC', in_earlier_offset(t, zone))
       ELSE timezone('UTC', timezone(zone, t)) END;
CREATE OR REPLACE TEMP MACRO has_zone(written) AS
  CASE WHEN starts_with(typeof(written), 'TIMESTAMP')
       THEN regexp_matches(typeof(written), 'TIMESTAMPTZ|WITH TIME ZONE')
       ELSE regexp_matches(CAST(written AS VARCHAR),
         '\\d[T ]\\d.*([A-Za-z].*|[+-]\\d\\d(:?\\d\\d)?)$') END;
CREATE OR REPLACE TEMP MACRO utc_of(written, zone) AS
  CASE WHEN has_zone(written)
       THEN timezone('UTC', finite(try_cast(written AS TIMESTAMPTZ)))
       ELSE utc_of_local(finite(try_cast(written AS TIMESTAMP)), zone) END;
CREATE OR REPLACE TEMP MACRO day_of(written) AS
  CASE WHEN starts_with(typeof(written), 'TIMESTAMP') THEN NULL::DATE
       WHEN length(CAST(written AS VARCHAR)) > 10 THEN NULL
       WHEN regexp_full_match(CAST(written AS VARCHAR), '\\d{4}')
         THEN try_cast(CAST(written AS VARCHAR) || '-12-31' AS DATE)
       WHEN regexp_full_match(CAST(written AS VARCHAR), '\\d{4}-\\d\\d')
         THEN last_day(try_cast(CAST(written AS VARCHAR) || '-01' AS DATE))
       WHEN regexp_full_match(CAST(written AS VARCHAR), '\\d{4}-\\d\\d-\\d\\d')
         THEN try_cast(written AS DATE) END;
CREATE OR REPLACE TEMP MACRO event_time(written, zone) AS
  coalesce(utc_of_local(day_of(written) + INTERVAL 12 HOUR, zone),
           utc_of(written, zone));
CREATE OR REPLACE TEMP MACRO day_over(written, zone) AS
  utc_of_local(day_of(written) + INTERVAL 24 HOUR, zone);
-- An end that is a day alone, that of the beginning, is not before it.
CREATE OR REPLACE TEMP MACRO end_time(ends, starts, zone) AS
  greatest(event_time(ends, zone), CASE
    WHEN day_over(ends, zone) >= event_time(starts, zone)
    THEN event_time(starts, zone) END);
CREATE OR REPLACE TEMP MACRO known_at(written, zone) AS
  coalesce(day_over(written, zone), utc_of(written, zone));
-- A whole number has no point, also where a column has fractions or gaps.
CREATE OR REPLACE TEMP MACRO text_of(cell) AS
  CASE WHEN typeof(cell) IN ('DOUBLE', 'FLOAT')
       THEN nullif(regexp_replace(CAST(cell AS VARCHAR), '\\.0$', ''), 'nan')
       ELSE nullif(trim(CAST(cell AS VARCHAR)), '') END;
-- Of a FLOAT the decimal that was written, and not the binary number next to it.
CREATE OR REPLACE TEMP MACRO number_of(cell) AS
  CASE WHEN typeof(cell) = 'FLOAT'
       THEN finite(try_cast(CAST(cell AS VARCHAR) AS DOUBLE))
       ELSE finite(try_cast(cell AS DOUBLE)) END;
-- A unit may follow the number, as in "<5 mg/L".
CREATE OR REPLACE TEMP MACRO has_comparator(written) AS
  regexp_matches(written, '^\\s*[<>≤≥~]=?\\s*[0-9.,]+(\\s*[^0-9.,\\s]\\S*)?\\s*$');
"""
"""Macros of the engine's connection, in whose SQL every source writes its times.

`utc_of(written, zone)` is the instant of a text, a date or a timestamp; a date alone
is the beginning of its day. A text that is not a time gives NULL.

`event_time` is the same for events: one known by its date alone is at 12:00 of that
day, of a month or year at that of its last day. It is known once the day is over, at
`day_over(written, zone)`, which is NULL for what has a time. `known_at` is the instant
from which on something is known that was entered then; `end_time` that of the end of
what begins at another time.

`text_of` and `number_of` are a cell's text and finite number, NULL if it has none.
"""

OF_PEOPLE = (
    """SELECT subject, 'BIRTH' AS code, birth AS instant, file, line
FROM {name}_born WHERE has_birth""",
    """SELECT subject, 'SEX' AS code, birth AS instant, sex AS text, file, line
FROM {name}_born WHERE sex IS NOT NULL""",
)
"""Births and sexes of the people of a view `{name}_born`."""

UNION = "\nUNION ALL BY NAME\n"
"""What joins events of several kinds; each names the columns that it has."""


def timed(select: str, zone: str) -> str:
    """Return the SELECT of events with their times, of events as they are written.

    Parameters
    ----------
    select : str
        SELECT, or several between `UNION`, of the columns `file`, `line`, `subject`,
        `stay`, `code`, `value`, `unit`, `text`, `is_compared` and `wrong`, and of

        - `written`: the time, as a text, date or timestamp;
        - `instant`: the time in UTC, where it is not what is written;
        - `entered`: since when it is known, in UTC, if that is stated.

        `file` and `line` are the place of the event; `is_compared` is true for a
        number with a comparator, and `wrong` is the name of a `FaultKind`.
    zone : str
        Literal of the zone of times that state none.
    """
    # Step by step: a macro writes out what it is given wherever it names it. If the
    # column has times and not texts, `has_time` is by the column itself, so that the
    # file's statistics say what is not to be read.
    return f"""SELECT file, line, subject, stay, time,
  greatest(utc_of_local(day + INTERVAL 24 HOUR, {zone}), entered) AS known_since, code,
  value, unit, text, CASE WHEN day IS NULL THEN local END AS local_time,
  CASE WHEN typeof(written) = 'VARCHAR' THEN time IS NOT NULL
       ELSE coalesce(isfinite(try_cast(written AS TIMESTAMP)), false) END AS has_time,
  coalesce(is_compared, false) AS is_compared, wrong
FROM (SELECT *, coalesce(instant, zoned, utc_of_local(local, {zone})) AS time
FROM (SELECT *, CASE WHEN is_zoned
    THEN timezone('UTC', finite(try_cast(written AS TIMESTAMPTZ))) END AS zoned,
  CASE WHEN day IS NOT NULL THEN day + INTERVAL 12 HOUR
       WHEN NOT is_zoned THEN finite(try_cast(written AS TIMESTAMP)) END AS local
FROM (SELECT *, day_of(written) AS day, has_zone(written) AS is_zoned
FROM ({select}))))"""
