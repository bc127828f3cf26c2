"""Sources of events, one module each; `reading` makes the one long table of them.

A module has a function `select_events(source, name, session, span)`. It returns what
`sql.timed` makes of its SELECT, for the body of a table macro: of at least the times
from `span_start` to `span_end`, of all where these are NULL. Lines without a subject,
time or code are among them.

No event outside of `span` is needed, so that files without any may be left closed. It
may create views and temporary tables whose names begin with `name`, such as `source_1`.
What ends the run it raises, as `UsageError` or `EventsError`. Times without a zone are
in `source.zone`.
"""
