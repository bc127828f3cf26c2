"""The table of a spec, for a night or for the past: `Features`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from screening.clock.windows import Known, Window, with_truth
from screening.errors import UsageError
from screening.features import queries
from screening.features.coverage import Coverage, coverage_of
from screening.features.engine import ONE_DAY, Engine, engine_opened
from screening.features.events import Sql
from screening.features.spec import Outcome, Spec, read_spec

# A date before it is a typing error, such as 0024-03-01.
FIRST_YEAR = 1000


@dataclass(frozen=True)
class Made:
    """A table that was made, and what was counted in making it.

    Parameters
    ----------
    table : pa.Table
        One row per stay: id, group, time, the features, and in the past the label.
    rows : dict from str to int
        Stays at a night by reason: "in", or why they are not rows.
    faults : list of str
        Faults of the sources, by file and line.
    undated : list of str
        Features that may know more in the past than the night did: their source does
        not say since when a result was known.
    statements : list of str
        The SQL.
    coverage : Coverage, optional
    """

    table: pa.Table
    rows: Mapping[str, int]
    faults: Sequence[str]
    undated: Sequence[str]
    statements: Sequence[str]
    coverage: Coverage | None = None


class Features:
    r"""Make tables with one row a stay from events, past and night by the same words.

    Parameters
    ----------
    spec : str or Path
        A spec in TOML.
    threads : int, optional
        Threads of DuckDB; by default all cores. The table is the same for any number.

    Raises
    ------
    UsageError
        The spec has faults, or DuckDB is not installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from screening import Features
    >>> folder = Path(mkdtemp())
    >>> lines = ["subject,stay,time,code,value", "p1,s1,2026-03-01T10:00,ADMISSION,"]
    >>> lines += ["p1,s1,2026-03-01T12:00,crp,41"]
    >>> spec = ['hour = "06:00"', 'zone = "Europe/Berlin"', "[[source]]"]
    >>> spec += ['format = "long"', 'path = "events.csv"', "[features]"]
    >>> spec += ['crp = {codes = "crp", window = "24h", take = "last"}']
    >>> _ = (folder / "events.csv").write_text("\n".join(lines))
    >>> _ = (folder / "spec.toml").write_text("\n".join(spec))
    >>> Features(folder / "spec.toml").night("2026-03-02")["crp"].item()
    41.0
    """

    def __init__(self, spec: str | Path, threads: int | None = None):
        self.path = Path(spec)
        self.spec: Spec = read_spec(self.path)
        self.threads = threads

    def night(self, date: str | datetime.date) -> pd.DataFrame:
        """Return the table of a night: the stays that are in at its hour.

        Events with a time, or known_since, after the hour are not read.
        """
        return self.make_night(date, covered=False).table.to_pandas()

    def past(
        self, first: str | datetime.date, last: str | datetime.date
    ) -> pd.DataFrame:
        """Return the table of the past, from a night to another, both in.

        With an outcome in the spec it has the column `label`, 0 or 1.
        """
        return self.make_past(first, last, covered=False).table.to_pandas()

    def make_night(self, date: str | datetime.date, *, covered: bool = True) -> Made:
        """Make the table of a night, with its counts.

        Parameters
        ----------
        date : str or date
        covered : bool
            Count also what the table was made of, for its page.
        """
        return self._make([_day("night", date)], is_past=False, covered=covered)

    def make_past(
        self,
        first: str | datetime.date,
        last: str | datetime.date,
        *,
        covered: bool = True,
    ) -> Made:
        """Make the table of the past, with its counts; `covered` as of a night."""
        return self._make(_nights(first, last), is_past=True, covered=covered)

    def _make(
        self, nights: Sequence[datetime.date], *, is_past: bool, covered: bool
    ) -> Made:
        """Make the table of some nights, of the past with a label."""
        outcome = self.spec.outcome
        with engine_opened(self.spec, nights, is_past, self.threads) as engine:
            engine.find_rows()
            engine.make_features()
            table = engine.table()
            truths: dict[str, int] = {}
            if is_past and outcome is not None:
                truth = _truth_of_rows(engine, outcome)
                counts = truth["truth"].value_counts().sort_index()
                truths = {str(name): int(count) for name, count in counts.items()}
                table = _with_label(table, truth)
            coverage = coverage_of(engine) if covered else None
            table = table.drop_columns(["row"])
            return _made(engine, table, truths, engine.undated(), coverage)

    def make_outcomes(
        self, first: str | datetime.date, last: str | datetime.date
    ) -> Made:
        """Make the table for `screen outcomes`, of the stays of some nights.

        One row per outcome, with the columns id (of the stay; of the patient if every
        night is a row), time (of the outcome, missing without one), until (the end of
        the stay) and as_of (up to when outcomes are known).
        """
        outcome = self.spec.outcome
        if outcome is None:
            raise UsageError(f"{self.path.name} has no table [outcome]; add one")
        nights = _nights(first, last)
        with engine_opened(self.spec, nights, threads=self.threads) as engine:
            engine.find_rows()
            # Where every night is a row, an outcome is of the patient.
            of_patients = self.spec.stays.row == "every"
            table = engine.arrow(
                queries.OUTCOME_TABLE,
                id=Sql("person" if of_patients else "stay_id"),
                complete=_complete(engine, outcome),
            )
            return _made(engine, table, {})


def _made(
    engine: Engine,
    table: pa.Table,
    truths: dict[str, int],
    undated: Sequence[str] = (),
    coverage: Coverage | None = None,
) -> Made:
    """Return a table with its counts."""
    engine.count_repeated()
    return Made(
        table=table,
        rows=engine.counts_of_rows() | truths,
        faults=[*engine.faults.sentences()],
        undated=undated,
        statements=engine.session.statements,
        coverage=coverage,
    )


def _day(parameter: str, date: str | datetime.date) -> datetime.date:
    """Return a date; raise UsageError for another text."""
    try:
        day = datetime.date.fromisoformat(str(date))
    except ValueError:
        day = None
    if day is None or day.year < FIRST_YEAR:
        raise UsageError(
            f"`{parameter}` {date}: write YYYY-MM-DD", parameters=[parameter]
        )
    return day


def _nights(
    first: str | datetime.date, last: str | datetime.date
) -> list[datetime.date]:
    """Return the nights from one to another, both in."""
    start = _day("past", first)
    n_nights = (_day("past", last) - start).days + 1
    if n_nights < 1:
        raise UsageError(
            f"`past` {first}..{last}: the last night is before the first",
            parameters=["past"],
        )
    return [start + number * ONE_DAY for number in range(n_nights)]


def _complete(engine: Engine, outcome: Outcome) -> pd.Timestamp:
    """Return up to when outcomes are known."""
    if outcome.complete is not None:
        return pd.Timestamp(engine.hour(outcome.complete))
    ((newest,),) = engine.run(queries.NEWEST).fetchall()
    return pd.Timestamp(newest)


def _truth_of_rows(engine: Engine, outcome: Outcome) -> pd.DataFrame:
    """Return the true label of each row, by all that is known now."""
    events = engine.run(queries.OUTCOMES_OF_ROWS).df()
    rows = engine.run(
        "SELECT row AS unit, hour AS at, night, ends AS time FROM followed ORDER BY row"
    ).df()
    window = Window(
        within=outcome.within,
        after=outcome.after,
        again=None if outcome.at_risk else 0.0,
    )
    known = Known(
        events=events,
        ends=rows[["unit", "time"]].dropna(),
        is_of_stays=True,
    )
    scored = rows[["unit", "at", "night"]]
    return with_truth(scored, known, window, _complete(engine, outcome))


def _with_label(table: pa.Table, truth: pd.DataFrame) -> pa.Table:
    """Return the rows whose outcome is known, with their label behind the features."""
    label_of_row = truth.set_index("unit")["truth"].map({"case": 1, "none": 0})
    labels = label_of_row.reindex(table["row"].to_numpy())
    is_known = labels.notna().to_numpy()
    labelled = table.append_column("label", pa.array(labels.fillna(0), pa.int8()))
    return labelled.filter(pa.array(is_known))
