"""The engine: the spec's table for some nights, by DuckDB."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from screening.clock.night import hour_of_night
from screening.clock.zone import Clock
from screening.errors import EventsError
from screening.features import queries
from screening.features.events import (
    A_LIFE,
    ALWAYS,
    FOREVER,
    Hours,
    Session,
    Span,
    Sql,
    open_session,
    sql_literal,
    with_values,
)
from screening.features.faults import Faults
from screening.features.reading import read_source
from screening.features.sources.long import read_error
from screening.features.spec import Coded, Spec
from screening.features.units import conversion
from screening.io.database import ARROW_READERS

if TYPE_CHECKING:
    import duckdb

# Name of the outcome among the features.
OUTCOME = ""
# Rows whose events are looked at together; a bound on memory.
PART_ROWS = 50_000
ONE_DAY = datetime.timedelta(days=1)


@dataclass
class Engine:
    """One run: a session, its nights, and the faults of the sources.

    Parameters
    ----------
    spec : Spec
    session : Session
    nights : sequence of date
    is_past : bool
        Choose rows of the past; else every stay that is in is a row.
    faults : Faults
    repeated : list of str
        Queries of the places of lines that repeat another one.
    """

    spec: Spec
    session: Session
    nights: Sequence[datetime.date]
    is_past: bool
    faults: Faults = field(default_factory=Faults)
    repeated: list[str] = field(default_factory=list)

    @property
    def last(self) -> datetime.datetime:
        """Last instant that is read for a feature."""
        return self.hour(self.nights[-1])

    @property
    def end(self) -> datetime.datetime:
        """Last instant that is read.

        Stays end, and patients are merged, after the last night of the past.
        """
        return FOREVER if self.is_past else self.last

    @property
    def span(self) -> Span:
        """Times of events that can be needed."""
        longest = self.spec.stays.longest
        if longest is None:
            return Span(ALWAYS, self.end)
        windows = [one.window or 0.0 for one in self.spec.of_events.values()]
        window = datetime.timedelta(hours=min(max([longest, *windows]), A_LIFE))
        return Span(self.hour(self.nights[0] - ONE_DAY) - window, self.end)

    def hour(self, night: datetime.date) -> datetime.datetime:
        """Return the instant of a night's hour, in UTC, without a zone."""
        clock = Clock(self.spec.zone)
        found = hour_of_night(night.isoformat(), clock, self.spec.hour, (), None)
        return cast(datetime.datetime, found.at.item())

    def run(self, sql: str, **values: object) -> duckdb.DuckDBPyConnection:
        """Run a statement, and keep it with its values written out."""
        return self.session.run(sql, **values)

    def insert(
        self, table: str, columns: str, rows: Sequence[Sequence[object]]
    ) -> None:
        """Make a small table of rows that Python knows."""
        self.run(f"CREATE OR REPLACE TEMP TABLE {table} ({columns})")
        if rows:
            values = [f"({', '.join(map(sql_literal, row))})" for row in rows]
            listed = ",\n  ".join(values)
            self.run(f"INSERT INTO {table} VALUES\n  {listed}")

    def read_sources(self) -> None:
        """Make the macro of the lines of all sources."""
        names = []
        for number, source in enumerate(self.spec.source, 1):
            names.append(f"source_{number}")
            read_source(source, names[-1], self.session, self.faults, self.span)
        union = "\nUNION ALL\n".join(
            f"SELECT * FROM {name}(span_start, span_end)" for name in names
        )
        self.run(
            "CREATE OR REPLACE TEMP MACRO lines(span_start, span_end) AS TABLE\n"
            f"{union}"
        )

    def read_lines(
        self,
        table: str,
        condition: str,
        since: datetime.datetime | None,
        last: datetime.datetime,
    ) -> None:
        """Make a table of the lines with a condition that are known at an instant.

        Parameters
        ----------
        table, condition : str
        since : datetime or None
            None for all times, and lines without one.
        last : datetime
        """
        values = {
            "since": since,
            "until": None if since is None else last,
            "last": last,
            "condition": Sql(condition),
            "table": Sql(table),
        }
        self.run(queries.LINES_READ, **values)
        if self.run(f"SELECT 1 FROM {table} WHERE n > 1 LIMIT 1").fetchall():
            self.repeated.append(with_values(queries.LINES_REPEATED, values))

    def count_repeated(self) -> None:
        """Count the lines that were read and repeat another one."""
        if self.repeated:
            union = "\nUNION ALL\n".join(f"({query})" for query in self.repeated)
            query = f"SELECT 'REPEATED' AS kind, file, line FROM ({union})"
            self.faults.add(self.session.connection, query)

    def find_rows(self) -> None:
        """Make `rows`: the stays that are in, at their nights."""
        hours = [
            (night, self.hour(night), self.hour(night - ONE_DAY))
            for night in self.nights
        ]
        self.insert("nights", "night DATE, hour TIMESTAMP, before TIMESTAMP", hours)
        self.read_lines("moves", queries.MOVES, None, self.end)
        self.run(queries.EARLY)
        self._add_faults("early", queries.EARLY_LINES)
        self.run(queries.MERGE_SPANS)
        self.run(queries.MERGE_CHAINS)
        self._add_faults("merge_chains WHERE is_circle", queries.CIRCLES)
        self.run(queries.MERGES)
        self.run(queries.MERGES_NOW)
        self.run(queries.STAYS)
        longest = self.spec.stays.longest
        self.run(queries.CANDIDATES, longest=Hours(longest or A_LIFE))
        self.run(queries.PEOPLE)
        self.run(queries.PERSONS)
        self._find_outcomes()
        stays = self.spec.stays
        least, most = stays.age or (None, None)
        self.run(
            queries.JUDGED,
            zone=self.spec.zone,
            wards=stays.wards,
            by_age=stays.age is not None,
            least=least,
            most=most,
            hours_in=Hours(stays.hours_in),
            at_risk=self.spec.outcome is not None and self.spec.outcome.at_risk,
        )
        self.run(
            queries.ROWS,
            every=stays.row == "every",
            is_all=stays.row == "every" or not self.is_past,
            is_drawn=stays.row == "drawn",
            key=f"{stays.seed}|",
        )
        self._refuse_repeated()
        if self.is_past and self.spec.outcome is not None:
            for statement in (queries.NOW, queries.FOLLOWED, queries.COUNTED):
                self.run(statement)

    def _add_faults(self, table: str, places: str) -> None:
        """Count the faults that a query finds, if a table has a row of them."""
        if self.run(f"SELECT 1 FROM {table} LIMIT 1").fetchall():
            self.faults.add(self.session.connection, places)

    def _find_outcomes(self) -> None:
        """Make `outcomes`, and `not_at_risk`: the candidates that had one before."""
        outcome = self.spec.outcome
        if outcome is None:
            self.run("CREATE OR REPLACE TEMP TABLE not_at_risk (row BIGINT)")
            return
        condition = queries.is_of_outcome(outcome)
        ((since,),) = self.run("SELECT min(admission) FROM candidates").fetchall()
        self.read_lines("outcome_lines", condition, since or self.last, self.end)
        self._convert(
            {OUTCOME: outcome}, "SELECT '' AS feature, unit FROM outcome_lines"
        )
        self.run(
            queries.OUTCOMES,
            unit=outcome.unit,
            ward=outcome.ward,
            above=outcome.above,
            below=outcome.below,
        )
        self.run(queries.NOT_AT_RISK)

    def _refuse_repeated(self) -> None:
        """Raise EventsError where two rows have one id."""
        query = (
            "SELECT count(*) FROM (SELECT id, hour FROM rows GROUP BY ALL "
            "HAVING count(*) > 1)"
        )
        ((count,),) = self.run(query).fetchall()
        if count:
            raise EventsError(
                f"{count:,} ids of stays belong to several patients; make the ids of "
                "stays unique in the source"
            )

    def make_features(self) -> None:
        """Make `made`: the features of every row that are made of events."""
        features = self.spec.of_events
        if not features:
            self.run("CREATE OR REPLACE TEMP TABLE made (row BIGINT)")
            return
        codes: dict[float | None, list[str]] = {}
        for one in features.values():
            codes.setdefault(one.window, []).extend(one.patterns)
        self.run(queries.stays_reached([*codes]))
        condition = queries.is_of_features([*codes.values()])
        ((since,),) = self.run("SELECT min(since) FROM reached").fetchall()
        self.read_lines("events", condition, since or self.last, self.last)
        self.run(
            queries.codes_of_features(
                {name: feature.patterns for name, feature in features.items()}
            )
        )
        self.insert(
            "features",
            "feature VARCHAR, take VARCHAR, reach INTERVAL, unit VARCHAR",
            [
                (name, one.take, one.window and Hours(one.window), one.unit)
                for name, one in features.items()
            ],
        )
        self._convert(
            features, "SELECT feature, unit FROM events JOIN feature_codes USING (code)"
        )
        ((n_rows,),) = self.run("SELECT coalesce(max(row), 0) FROM rows").fetchall()
        for start in range(0, max(n_rows, 1), PART_ROWS):
            self.run(
                "CREATE OR REPLACE TEMP TABLE part AS SELECT * FROM rows "
                f"WHERE row > {start} AND row <= {start + PART_ROWS}"
            )
            self.run(queries.PICKED)
            select = queries.features_made(features)
            if start:
                self.run(f"INSERT INTO made\n{select}")
            else:
                self.run(f"CREATE OR REPLACE TEMP TABLE made AS\n{select}")

    def _convert(self, wanted: dict[str, Any], met: str) -> None:
        """Make `units`: how the units that were met are converted to those wanted."""
        counted = f"SELECT feature, unit, count(*) AS n FROM ({met})"
        lines = self.run(f"{counted} GROUP BY ALL ORDER BY ALL").fetchall()
        rows = []
        for name, unit, count in lines:
            feature: Coded = wanted[name]
            if feature.unit is None:
                continue
            found = conversion(feature, name, unit)
            rows.append((name, unit, count, *(found or (None, None))))
        columns = "feature VARCHAR, unit VARCHAR, n BIGINT, factor DOUBLE, shift DOUBLE"
        self.insert("units", columns, rows)

    def arrow(self, sql: str, **values: object) -> pa.Table:
        """Return the answer to a SELECT."""
        relation = self.session.connection.sql(self.session.written(sql, values))
        reader = next(name for name in ARROW_READERS if name in dir(relation))
        return getattr(relation, reader)().read_all()

    def table(self) -> pa.Table:
        """Return the table, and behind its columns the number `row` of each row."""
        return self.arrow(queries.table_made(self.spec))

    def undated(self) -> list[str]:
        """Return the features that may know more in the past than the night did."""
        names = []
        if self.spec.of_events:
            names = [name for (name,) in self.run(queries.UNDATED).fetchall()]
        if self.run(queries.UNDATED_MOVES).fetchall():
            # Where a patient lies, and since when.
            of_moves = ("ward", "days_in_hospital")
            features = self.spec.features.items()
            names += [name for name, word in features if word in of_moves]
        return names

    def counts_of_rows(self) -> dict[str, int]:
        """Return how many stays at a night are in, and how many are not, by reason."""
        counted = self.run(
            "SELECT coalesce(reason, 'in'), count(*) FROM judged GROUP BY 1 ORDER BY 1"
        )
        return dict(counted.fetchall())


@contextmanager
def engine_opened(
    spec: Spec,
    nights: Sequence[datetime.date],
    is_past: bool = True,
    threads: int | None = None,
) -> Iterator[Engine]:
    """Open an engine on the sources of a spec.

    Raises
    ------
    EventsError
        A source cannot be read. The message does not quote its content.
    """
    with open_session(threads) as session:
        import duckdb

        try:
            engine = Engine(spec, session, nights, is_past)
            engine.read_sources()
            yield engine
        except duckdb.OutOfMemoryException as error:
            raise MemoryError(error) from None
        except duckdb.Error as error:
            of_files = (
                duckdb.DataError,
                duckdb.InvalidInputException,
                duckdb.IOException,
            )
            # What is wrong within a Parquet file has no kind of its own.
            if type(error) is not duckdb.Error and not isinstance(error, of_files):
                raise
            raise read_error(error, [source.path for source in spec.source]) from None
