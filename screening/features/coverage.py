"""What a table of features was made of, and what a source has to make one of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import tomlkit

from screening.features.events import RESERVED_CODES, open_session, sql_text
from screening.features.faults import Faults
from screening.features.reading import read_source
from screening.features.sources import fhir, long, omop
from screening.features.spec import Source, ends_in, files_of
from screening.io.connections import duckdb_quoted

if TYPE_CHECKING:
    from screening.features.engine import Engine

# Codes of a first spec.
N_SUGGESTED = 40
# Smaller numbers of rows are not shown by ward and month.
MIN_ROWS = 5
UNITS = """SELECT feature, coalesce(unit, '') AS unit, n, factor IS NOT NULL AS is_used
FROM units WHERE feature <> '' ORDER BY ALL"""
# Elapsed hours from the time of a result to when it was known, where that is stated.
DELAYS = """SELECT feature, count(*) AS n,
  quantile_disc(epoch(known) - epoch(time), [0.5, 0.9]) AS seconds
FROM events JOIN feature_codes USING (code)
WHERE is_dated GROUP BY feature ORDER BY feature"""


@dataclass(frozen=True)
class Coverage:
    """What was counted while a table was made.

    Parameters
    ----------
    filled : list of (str, str, str, int, int)
        Feature, ward, month, rows and rows with a value; groups of fewer than five rows
        are left out.
    units : list of (str, str, int, bool)
        Feature with a unit, unit that was met, lines, and whether it was converted.
    delays : list of (str, int, float, float)
        Feature, lines, and the hours after which half and 90 % of them were known.
    codes_not_met : list of (str, str)
        Feature, and a code of it that no line has.
    """

    filled: Sequence[tuple[str, str, str, int, int]]
    units: Sequence[tuple[str, str, int, bool]]
    delays: Sequence[tuple[str, int, float, float]]
    codes_not_met: Sequence[tuple[str, str]]


def coverage_of(engine: Engine) -> Coverage:
    """Return what was counted in an engine that has made its features."""
    features = engine.spec.of_events
    if not features:
        return Coverage([], [], [], [])
    counts = ", ".join(
        f"count(m.{duckdb_quoted(name)}) AS n_{number}"
        for number, name in enumerate(features)
    )
    rows = engine.run(
        "SELECT coalesce(r.ward, '') AS ward, strftime(r.night, '%Y-%m') AS month, "
        f"count(*) AS n, {counts} FROM rows r LEFT JOIN made m USING (row) "
        f"GROUP BY ALL HAVING count(*) >= {MIN_ROWS} ORDER BY ALL"
    ).fetchall()
    filled = [
        (name, ward, month, n, filled_rows[number])
        for number, name in enumerate(features)
        for ward, month, n, *filled_rows in rows
    ]
    delays = [
        (name, n, half / 3600, most / 3600)
        for name, n, (half, most) in engine.run(DELAYS).fetchall()
    ]
    codes = [
        code
        for (code,) in engine.run(
            "SELECT DISTINCT code FROM feature_codes ORDER BY code"
        ).fetchall()
    ]
    not_met = [
        (name, pattern)
        for name, feature in features.items()
        for pattern in feature.patterns
        if not any(_is_of(code, pattern) for code in codes)
    ]
    return Coverage(filled, engine.run(UNITS).fetchall(), delays, not_met)


def _is_of(code: str, pattern: str) -> bool:
    """Return True if a code is the pattern, or begins as `X*` does."""
    if pattern.endswith("*"):
        return code.startswith(pattern[:-1])
    return code == pattern


@dataclass(frozen=True)
class Suggested:
    """A code of a source: how many stays or subjects have it, its values and unit."""

    code: str
    stays: int
    lines: int
    values: float
    unit: str | None


def format_of(path: Path) -> Literal["long", "meds", "omop", "fhir"]:
    """Return the format of a file or directory of events, by names and columns."""
    files = files_of(str(path))
    if any(ends_in(file, fhir.ENDINGS) for file in files):
        return "fhir"
    if set(omop.REQUIRED_TABLES) <= set(map(omop.table_of, files)):
        return "omop"
    tables = [file for file in files if ends_in(file, long.PARQUET_ENDINGS)]
    if any(long.COLUMNS["meds"]["value"] in _columns_of(file) for file in tables):
        return "meds"
    return "long"


def _columns_of(file: str) -> list[str]:
    """Return the columns of a Parquet file; none of one that cannot be read."""
    try:
        return list(pq.read_schema(file).names)
    except (pa.ArrowInvalid, OSError):
        return []


def suggest(source: Source) -> list[Suggested]:
    """Return the codes of a source, those that most stays have first.

    Lines without a stay count by their subject. `values` is the share of lines with a
    number, `unit` the commonest unit.
    """
    with open_session() as session:
        read_source(source, "source_1", session, Faults())
        reserved = ", ".join(map(sql_text, RESERVED_CODES))
        query = f"""SELECT code, count(DISTINCT coalesce('s' || stay, 'p' || subject)),
  count(*), count(value) / count(*),
  arg_max(unit, (n_of_unit, unit)) FILTER (unit IS NOT NULL)
FROM (SELECT *, count(*) OVER (PARTITION BY code, unit) AS n_of_unit
      FROM source_1(NULL, NULL))
WHERE code NOT IN ({reserved}) GROUP BY code ORDER BY 2 DESC, code"""
        rows = session.run(query).fetchall()
    return [Suggested(*row) for row in rows]


def first_spec(source: Mapping[str, Any], found: Sequence[Suggested]) -> str:
    """Return a first spec in TOML, with a feature for each of the commonest codes.

    Parameters
    ----------
    source : mapping
        `format` and `path` as they are to be written.
    found : sequence of Suggested
    """
    text = ['hour = "06:00"', 'zone = "UTC"  # that of the hospital', "", "[[source]]"]
    text += [
        f"{key} = {tomlkit.item(value).as_string()}" for key, value in source.items()
    ]
    text += ["", "[stays]", 'age = "18.."', "", "[features]"]
    names: dict[str, int] = {}
    for one in found[:N_SUGGESTED]:
        stem = "".join(sign if sign.isalnum() else "_" for sign in one.code.lower())
        names[stem] = names.get(stem, 0) + 1
        name = stem if names[stem] == 1 else f"{stem}_{names[stem]}"
        take = "last" if one.values >= 0.5 else "any"
        unit = ""
        if take == "last" and one.unit:
            unit = f", unit = {tomlkit.item(one.unit).as_string()}"
        code = tomlkit.item(one.code).as_string()
        text.append(
            f"{tomlkit.key(name).as_string()} = {{ codes = {code}, "
            f'window = "48h", take = "{take}"{unit} }}'
        )
    text += ['age = "age"', 'sex = "sex"', 'days_in_hospital = "days_in_hospital"']
    return "\n".join(text) + "\n"
