"""Sources of events, one module each: `select_events` gives the one long table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from screening.features.faults import Faults
from screening.features.sources import fhir, long, meds, omop
from screening.features.spec import Source

if TYPE_CHECKING:
    import duckdb

SelectEvents: TypeAlias = Callable[
    [Source, str, "duckdb.DuckDBPyConnection", Faults], str
]
"""Function `select_events(source, name, connection, faults)` of a module here.

It returns a SELECT of exactly the columns of `EVENT_COLUMNS`. It may create views and
temporary tables whose names begin with `name`, such as `source_1`. What is wrong in
lines it adds to `faults`; what ends the run it raises, as `UsageError` or
`CohortError`. Times without a zone are in `source.zone`, which is always set here.
"""

SOURCES: Mapping[str, SelectEvents] = {
    "fhir": fhir.select_events,
    "long": long.select_events,
    "meds": meds.select_events,
    "omop": omop.select_events,
}
"""By the format of a source, the function that reads it."""
