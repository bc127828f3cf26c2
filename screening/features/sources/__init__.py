"""Sources of events, one module each: `select_events` gives the one long table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from screening.features.events import Span
from screening.features.sources import fhir, long, omop
from screening.features.spec import Source

if TYPE_CHECKING:
    import duckdb

SelectEvents: TypeAlias = Callable[
    [Source, str, "duckdb.DuckDBPyConnection", Span], str
]
"""Function `select_events(source, name, connection, span)` of a module here.

It returns a SELECT of the columns of `EVENT_COLUMNS` and of

- `file`, `line`: where the event stands;
- `has_time`: `time` is not missing;
- `local_time`: the time of day that a line says without its zone, else NULL;
- `is_compared`: the value is a number with a comparator;
- `wrong`: the name of a `FaultKind` that the source finds, else NULL.

Lines without a subject, time or code are among them. The SELECT is the body of a table
macro: of at least the times from `span_start` to `span_end`, of all where these are
NULL.
No event outside of `span` is needed, so that files without any may be left closed. It
may create views and temporary tables whose names begin with `name`, such as `source_1`.
What ends the run it raises, as `UsageError` or `EventsError`. Times without a zone are
in `source.zone`.
"""

SOURCES: Mapping[str, SelectEvents] = {
    "fhir": fhir.select_events,
    "long": long.select_events,
    "meds": long.select_events,
    "omop": omop.select_events,
}
"""By the format of a source, the function that reads it."""
