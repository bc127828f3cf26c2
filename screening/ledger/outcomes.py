"""Enter what became of the patients of past nights, and judge the nights by it.

An entry states outcomes that are new or corrected since the entries before, up to when
outcomes are complete, and the figures of all nights in force by everything known then.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

import numpy as np
import pandas as pd
import pyarrow as pa
import sqlalchemy as sa

from screening.clock.instants import ONE_DAY, times_of_texts
from screening.clock.reach import Reach, reach_of_events, reach_of_table
from screening.clock.windows import HOUR, Known, Window, with_truth
from screening.clock.zone import Clock, clock_of
from screening.data.outcome_table import (
    OutcomeColumns,
    OutcomeTable,
    fault_of_rows,
    read_outcomes,
)
from screening.errors import CohortError, ModelError, UsageError
from screening.io.arrow_files import parquet_file
from screening.io.opening import Readable
from screening.ledger import register, trail
from screening.ledger.current_runs import current_runs
from screening.ledger.database import ARTEFACTS, REVIEWS, TRAIL, Ledger
from screening.ledger.entries import (
    Outcomes,
    append,
    facts_in,
    nights_at,
)
from screening.ledger.merging import Merges, merges_of
from screening.ledger.model_registry import Judged, LastWord, find_series, judged
from screening.ledger.outcome_entries import (
    last_figures,
    outcome_entries,
    outcome_numbers,
)
from screening.ledger.outcome_ids import (
    TableIds,
    compared_with_earlier,
)
from screening.ledger.trail import Part
from screening.ledger.verdicts import ordered_verdicts
from screening.metrics.outcomes import (
    figures_of_class,
    missed_cases,
    outcome_figures,
    texts_of_class,
)
from screening.schemas.base import Estimate
from screening.schemas.history import (
    OutcomeFigures,
    PatientsOfTable,
    SensitivityAndPpv,
)
from screening.schemas.model import CohortDeclaration
from screening.schemas.run import RunDocument
from screening.store.model import SUBGROUP
from screening.store.serialization import read_run

# A table may take so many cases away, however few there are.
FEWEST_WITHDRAWN = 2
# What the trail states for a case without a time, and before the end of a stay.
WITHOUT_TIME = "yes"
UNTIL = "until:"
# Names in a part of an entry.
PORTION = 1000
COLUMNS = ("id", "group", "score", "flagged", "chance", "predicted")
# Of subgroups and of classes.
MORE_COLUMNS = (SUBGROUP, "score_")


class Entered(NamedTuple):
    """Result of an entry of outcomes.

    Parameters
    ----------
    figures : OutcomeFigures
    new, corrected : int
        Patients, or stays, whose outcomes were not stated before, or otherwise.
    withdrawn : int
        Of the corrected ones, those that were cases before and are none now.
    unknown : int
        Patients, or stays, of the table that no night scored; they are not entered.
    other : int
        Events that are none of those asked for; they are not entered.
    missed : DataFrame
        A line an event whose patient was not flagged on the last night before: `night`,
        `patient`, `score`, `event`.
    rows : DataFrame
        A line a row of the nights: `night`, `taken_at`, `patient`, `stay`, `score`,
        `flagged`, `truth`, `event` and `reason`, times as texts with their offset.
    """

    figures: OutcomeFigures
    new: int
    corrected: int
    withdrawn: int
    unknown: int
    other: int
    missed: pd.DataFrame
    rows: pd.DataFrame


class GivenOutcome(TypedDict, total=False):
    """Arguments that override `[outcome]` of the contract; hours are numbers."""

    id: str | None
    time: str | None
    event: str | None
    until: str | None
    within: float | None
    after: float | None
    by: str | None
    again: float | None
    events: str | None
    known_without_time: str | None


def enter_outcomes(
    ledger: Ledger,
    series: str,
    source: Readable,
    *,
    as_of: str | None = None,
    time_zone: str | None = None,
    date_order: str | None = None,
    reach: str | None = None,
    accept_delivery: str | None = None,
    **given: Unpack[GivenOutcome],
) -> Entered:
    """Enter a series' table of outcomes, and judge its nights by all that are known.

    Of a patient whom an earlier table named, this one's lines replace the earlier ones.

    Parameters
    ----------
    ledger : Ledger
    series : str
        Its name, or the first digits of its key.
    source : path, URL, Database, or a pandas, polars or Arrow table
        A line an event.
    as_of : str, optional
        Time or date (its beginning) up to which the outcomes are said to be complete;
        now by default. No event may be later.
    time_zone : str, optional
        Zone of times that state none; by default the contract's, else the host's.
    date_order : {"dmy", "mdy"}, optional
        Order of dates that do not begin with the year; by default the contract's.
    reach : str, optional
        Time up to which the table is complete, if the contract states no `as_of`; by
        default judged by the rate of its events (see `clock.reach`).
    accept_delivery : str, optional
        Why the table is right although it takes most cases away, or its ids do not
        look like those of the nights; the trail keeps it.
    **given
        Before what the contract states under `[outcome]` (see
        `contract.OutcomeDefinition`).

    Returns
    -------
    Entered

    Raises
    ------
    UsageError
        The series has no night, or window or columns are not stated.
    CohortError
        The table cannot be read, has events after `as_of`, or takes most cases away;
        its ids are those of the nights but for the writing, or nobody was scored.
    """
    with ledger.reading() as connection:
        key = find_series(connection, series)
        merges = merges_of(connection)
        nights = _read_nights(connection, key).merged(merges)
        recorded = _known_outcomes(connection, key, merges)
        verdicts = _verdicts(connection, key, merges)
        last = last_figures(connection, key)
        tables = _earlier_tables(connection, key)
    asked = nights.asked(given, time_zone, date_order)
    clock = asked.clock
    until = read_moment("as_of", as_of, clock)
    table = read_outcomes(source, asked.columns, clock, asked.date_order)
    _refuse_later_events(table, asked.columns.time, as_of, until, clock)
    is_other = _is_other_event(table.lines, nights, asked)
    # A patient of other events alone had none of those asked for.
    lines = table.lines.assign(
        unit=table.lines["unit"].map(merges.patient),
        time=table.lines["time"].mask(is_other),
        is_known=table.lines["is_known"] & ~is_other,
    )
    rows = nights.rows_by(asked.by, clock)
    _refuse_before_nights(rows, until)
    stated_now = _by_unit(lines, clock)
    units = set(rows["unit"])
    ids = TableIds(
        asked.columns.unit, lines["unit"].tolist(), nights.compared_whole[asked.by]
    )
    rewritten = tables.checked(ids, units, key, accept_delivery)
    of_scored = {name: events for name, events in stated_now.items() if name in units}
    changed = {
        name: events
        for name, events in of_scored.items()
        if recorded.get(name) != events
    }
    n_withdrawn = _count_withdrawn(recorded, changed, accept_delivery)
    known = _known(recorded | changed, clock, asked.by)
    before = None if last is None else last.complete
    table_reach = _reach_of(table, rows, known, asked, before, until, reach)
    complete = pd.Timestamp(table_reach.until)
    truths = with_truth(rows, known, asked.window, complete)
    figures = outcome_figures(
        truths,
        asked.window,
        clock.text(until),
        nights.promised,
        verdicts,
        nights.subgroups,
        nights.stated.suppress,
    )
    figures = _with_classes(figures, nights, truths, known, asked, complete)
    n_unknown = len(stated_now) - len(of_scored)
    figures = figures.replace(
        table=tables.compared(len(stated_now), n_unknown, accept_delivery),
        unread=nights.n_unread,
        by=asked.by,
        time_zone=clock.name,
        is_zone_of_host=clock.is_of_host,
        hours=nights.hours,
        complete=clock.text(table_reach.until) or None,
        reach=table_reach.reason,
        at_noon=int(known.events["is_day"].sum()),
        twice=table.n_twice,
    )
    facts = Outcomes(
        series=key,
        night=clock.text(until)[:10],
        figures=figures,
        accepted=accept_delivery,
    )
    with ledger.writing() as connection:
        append(
            connection,
            ledger.clock(),
            facts,
            _parts(changed),
            _accepted_parts(rewritten, accept_delivery),
        )
    n_new = sum(name not in recorded for name in changed)
    return Entered(
        figures=figures,
        new=n_new,
        corrected=len(changed) - n_new,
        withdrawn=n_withdrawn,
        unknown=n_unknown,
        other=int(is_other.sum()),
        missed=_missed_lines(truths, clock),
        rows=_lines_of_rows(truths, clock),
    )


def read_moment(parameter: str, text: str | None, clock: Clock) -> np.datetime64:
    """Return an instant that a person typed, now by default; a date is its beginning.

    Raises
    ------
    UsageError
        The text is not a time.
    """
    if text is None:
        return np.datetime64(clock.now().astimezone(datetime.UTC).replace(tzinfo=None))
    moment: np.datetime64 = times_of_texts([text], None, clock).utc[0]
    if np.isnat(moment):
        raise UsageError(
            f"`{parameter}` {text}: write YYYY-MM-DD, or a time such as "
            "2026-03-10T06:00",
            parameters=[parameter],
        )
    return moment


def _refuse_before_nights(rows: pd.DataFrame, until: np.datetime64) -> None:
    """Raise UsageError if outcomes are known up to a time before every night."""
    if pd.Timestamp(until) < rows["at"].min():
        raise UsageError(
            "`as_of` lies before the first night of the series, so nothing is known of "
            "it; correct the date",
            parameters=["as_of"],
        )


def _refuse_later_events(
    table: OutcomeTable,
    column: str,
    as_of: str | None,
    until: np.datetime64,
    clock: Clock,
) -> None:
    """Raise CohortError, naming the rows, for events after the time they are known.

    A date of `as_of` is meant to its end, and so is today.
    """
    end = clock.local(np.array([until])).astype("datetime64[D]") + ONE_DAY
    is_day = as_of is None or times_of_texts([as_of], None, clock).is_day[0]
    latest = clock.instants_of_days(end)[0] if is_day else until
    lines = table.lines
    rows = lines.loc[lines["time"] > latest, "row"]
    if len(rows):
        raise CohortError(
            fault_of_rows(
                column,
                rows.tolist(),
                f"an event after {clock.text(until)[:10]}, up to when outcomes are "
                "known; correct the cells, their `date_order`, or `as_of`",
            ),
            parameters=["date_order", "as_of"],
        )


def _count_withdrawn(
    recorded: Mapping[str, tuple[str, ...]],
    changed: Mapping[str, tuple[str, ...]],
    accepted: str | None,
) -> int:
    """Return how many patients, or stays, were cases before and are none now.

    CohortError if these are more than half of all cases, unless that was accepted.
    """
    cases = {name for name, events in recorded.items() if _is_case(events)}
    withdrawn = [name for name in cases & set(changed) if not _is_case(changed[name])]
    n_withdrawn = len(withdrawn)
    is_most = n_withdrawn >= FEWEST_WITHDRAWN and 2 * n_withdrawn > len(cases)
    if is_most and accepted is None:
        raise CohortError(
            f"the table takes {n_withdrawn} of {len(cases)} cases away that earlier "
            "tables stated; correct it, or say why it is right with `accept_delivery`",
            parameters=["accept_delivery"],
        )
    return n_withdrawn


def _is_case(events: Sequence[str]) -> bool:
    """Return True if facts of the trail state an event, and not an end alone."""
    return any(not event.startswith(UNTIL) for event in events)


def _reach_of(
    table: OutcomeTable,
    rows: pd.DataFrame,
    known: Known,
    asked: _Asked,
    before: str | None,
    until: np.datetime64,
    reach: str | None,
) -> Reach:
    """Return up to when outcomes are complete.

    `before`: up to when they were, by the tables entered earlier.
    """
    # Events of people whom nobody scored say how far a table reaches, too.
    events = pd.concat([table.lines, known.events])[["unit", "time"]]
    times = events.dropna().drop_duplicates()["time"].to_numpy()
    first_night = rows["at"].min().to_datetime64()
    last_window = (rows["at"].max() + asked.window.within * HOUR).to_datetime64()
    judged = reach_of_events(times, first_night, last_window, until)
    stated = table.complete
    if reach is not None:
        stated = read_moment("reach", reach, asked.clock)
    earlier = None
    if before is not None:
        earlier = read_moment("complete", before, asked.clock)
    return reach_of_table(len(table.lines), judged, stated, earlier, until)


def _missed_lines(rows: pd.DataFrame, clock: Clock) -> pd.DataFrame:
    """Return a line an event whose patient was not flagged on the night before."""
    missed = missed_cases(rows)[["night", "patient", "score", "event"]]
    night = missed["night"].dt.strftime("%Y-%m-%d")
    return missed.assign(night=night, event=missed["event"].map(clock.text))


def _lines_of_rows(rows: pd.DataFrame, clock: Clock) -> pd.DataFrame:
    """Return every row with its truth, the event that decides it, and the reason."""
    event = rows["event"].where(rows["truth"] == "case")
    event = event.mask(rows["truth"] == "past", rows["earlier"])
    return pd.DataFrame(
        {
            "night": rows["night"].dt.strftime("%Y-%m-%d"),
            "taken_at": rows["at"].map(clock.text),
            "patient": rows["patient"],
            "stay": rows["id"],
            "score": rows["score"],
            "flagged": rows["flagged"].map({True: "yes", False: "no"}),
            "truth": rows["truth"],
            "event": event.map(clock.text),
            "reason": rows["reason"],
        }
    )


def _with_classes(
    figures: OutcomeFigures,
    nights: _Nights,
    rows: pd.DataFrame,
    known: Known,
    asked: _Asked,
    complete: pd.Timestamp,
) -> OutcomeFigures:
    """Return the figures with those of each class, of a model of several."""
    if not nights.classes:
        return figures
    by_class = [
        figures_of_class(rows, known, name, asked.window, complete)
        for name in nights.classes
    ]
    return figures.replace(by_class=by_class, auroc=Estimate())


def _is_other_event(
    lines: pd.DataFrame, nights: _Nights, asked: _Asked
) -> pd.Series[bool]:
    """Return a mask of the lines whose event is none of those asked for."""
    events = set(asked.cases)
    if not events:
        events.update(*map(texts_of_class, nights.classes))
    if not events:
        return pd.Series(False, index=lines.index)
    is_event = lines["time"].notna() | lines["is_known"]
    return is_event & ~lines["name"].isin(events)


def judged_by_outcomes(ledger: Ledger, series: str, model: str) -> Judged:
    """Return for every case what became of it or, where that is open, its last verdict.

    Of a patient the last night counts whose window is over, flagged or not; without
    outcomes it is as `model_registry.judged` returns it. UsageError unless `model` is
    the digest of the champion.
    """
    by_verdict = judged(ledger, series, model)
    key = by_verdict.series
    with ledger.reading() as connection:
        figures = last_figures(connection, key)
        if figures is None:
            return by_verdict
        merges = merges_of(connection)
        nights = _read_nights(connection, key).merged(merges)
        recorded = _known_outcomes(connection, key, merges)
        runs = connection.execute(current_runs(key)).all()
        stated_at = nights_at(connection, [run.entry for run in runs])
    table_of = {run.night: stated_at[run.entry].table or "" for run in runs}
    window = Window(
        figures.within_hours,
        figures.after_hours,
        again=figures.again_hours,
        case_without_time=figures.known_without_time == "case",
        only_first=figures.events == "first",
    )
    clock = clock_of(figures.time_zone or nights.stated.time_zone)
    complete = read_moment("complete", figures.complete or figures.as_of, clock)
    rows = with_truth(
        nights.rows_by(figures.by, clock),
        _known(recorded, clock, figures.by),
        window,
        pd.Timestamp(complete),
    )
    is_known = rows["truth"].isin(["case", "none"]) & rows["is_over"]
    last = rows[is_known].groupby("patient").tail(1)
    verdicts = {merges.patient(word.case_id): word for word in by_verdict.words}
    last_words = []
    for patient, case_id, night, truth, was_flagged in zip(
        last["patient"],
        last["case_id"],
        last["night"].dt.strftime("%Y-%m-%d"),
        last["truth"],
        last["flagged"],
        strict=True,
    ):
        word = "confirmed" if truth == "case" else "ruled out"
        verdict = verdicts.pop(patient, None)
        is_contradicted = (
            verdict is not None
            and verdict.verdict in ("confirmed", "ruled out")
            and verdict.verdict != word
        )
        last_words.append(
            LastWord(
                case_id,
                night,
                word,
                table_of[night],
                by_outcome=True,
                was_flagged=bool(was_flagged),
                is_contradicted=is_contradicted,
            )
        )
    last_words += verdicts.values()
    in_order = sorted(last_words, key=lambda word: (word.night, word.case_id))
    return Judged(key, tuple(in_order), merges)


@dataclass(frozen=True)
class _Asked:
    """What counts as an outcome, how the table is read, and by which clock.

    Parameters
    ----------
    columns : OutcomeColumns
    cases : sequence of str
        Names of the events that count; empty for all.
    window : Window
    by : {"patient", "stay"}
    clock : Clock
    date_order : {"dmy", "mdy"} or None
    """

    columns: OutcomeColumns
    cases: Sequence[str]
    window: Window
    by: Literal["patient", "stay"]
    clock: Clock
    date_order: str | None


@dataclass(frozen=True)
class _Nights:
    """Rows of the nights in force whose run directories are there.

    Parameters
    ----------
    rows : DataFrame
        `night`, `taken_at` (text or None), `id`, `patient`, `score`, `flagged`,
        `chance`, `model`, the columns of subgroups and, of several classes, `score_`
        and `flagged_` of each.
    stated : CohortDeclaration
        What the contract of the last night's model states.
    promised : SensitivityAndPpv or None
        Estimates of validation of the last night's model.
    n_unread : int
        Nights whose run directory is gone.
    classes : list of str
        Watched classes of the last night's model, if it watches several.
    hours : dict of str to int
        Number of nights by what their hour is known from.
    compared_whole : dict of str to bool
        By "patient" and "stay", whether reduced forms say nothing of the ids.
    """

    rows: pd.DataFrame
    stated: CohortDeclaration
    promised: SensitivityAndPpv | None
    n_unread: int
    classes: list[str]
    hours: dict[str, int] = field(default_factory=dict)
    compared_whole: dict[str, bool] = field(
        default_factory=lambda: {"patient": False, "stay": False}
    )

    def merged(self, merges: Merges) -> _Nights:
        """Return them with patients by the numbers by which they are known now."""
        if not merges:
            return self
        patient = self.rows["patient"].map(merges.patient)
        return replace(self, rows=self.rows.assign(patient=patient))

    def rows_by(self, by: str, clock: Clock) -> pd.DataFrame:
        """Return the rows with the instant `at` of their night, and their `unit`.

        A night that does not tell its hour begins at midnight. `by` is "patient" or
        "stay".
        """
        unit = self.rows["id" if by == "stay" else "patient"].astype(str)
        midnight = clock.instants_of_days(self.rows["night"].to_numpy())
        taken_at = pd.to_datetime(self.rows["taken_at"], utc=True, format="ISO8601")
        taken = taken_at.dt.tz_localize(None).to_numpy("datetime64[us]")
        at = np.where(np.isnat(taken), midnight, taken)
        return self.rows.assign(at=at, unit=unit)

    @property
    def subgroups(self) -> dict[str, str]:
        """Columns of subgroups by their titles, as far as the nights kept them."""
        columns = {name: SUBGROUP + name for name in self.stated.subgroup}
        return {name: column for name, column in columns.items() if column in self.rows}

    def asked(
        self, given: GivenOutcome, time_zone: str | None, date_order: str | None
    ) -> _Asked:
        """Return what is given, and otherwise what the contract states.

        UsageError for what neither says.
        """
        stated = self.stated.outcome
        chosen: dict[str, Any] = {} if stated is None else stated.to_dict()
        chosen |= {key: value for key, value in given.items() if value is not None}
        by = chosen.get("by", "patient")
        within = chosen.get("within")
        if within is None:
            raise UsageError(
                "within how many hours of a night does an outcome count? Give `within`,"
                " or [outcome] in the contract",
                parameters=["within"],
            )
        if by == "stay" and chosen.get("again") is not None:
            raise UsageError(
                "`again` is for outcomes by patient: a stay with an event is not at "
                "risk again",
                parameters=["again"],
            )
        return _Asked(
            columns=self._columns(chosen, by),
            cases=chosen.get("cases", ()),
            window=Window(
                within,
                chosen.get("after", 0.0),
                again=chosen.get("again"),
                case_without_time=chosen.get("known_without_time") == "case",
                only_first=chosen.get("events") == "first",
            ),
            by=by,
            clock=clock_of(time_zone or self.stated.time_zone),
            date_order=date_order or self.stated.date_order,
        )

    def _columns(self, chosen: Mapping[str, Any], by: str) -> OutcomeColumns:
        """Return the columns of the table of outcomes; UsageError for unknown ones."""
        of_patient = self.stated.group or self.stated.id
        id = chosen.get("id") or (self.stated.id if by == "stay" else of_patient)
        time = chosen.get("time")
        event = chosen.get("event")
        if id is None or time is None:
            raise UsageError(
                "which columns of the table hold the id and the time of an event? Give "
                "`id` and `time`, or [outcome] in the contract",
                parameters=["id", "time"],
            )
        if self.classes and event is None:
            raise UsageError(
                f"the model tells {', '.join(self.classes)} apart: which column of the "
                "table names the event? Give `event`, or [outcome] in the contract",
                parameters=["event"],
            )
        return OutcomeColumns(id, time, event, chosen.get("until"), chosen.get("as_of"))


def _read_nights(connection: sa.Connection, series: str) -> _Nights:
    runs = connection.execute(current_runs(series)).all()
    artefacts = register.current_artefacts(connection, ARTEFACTS.c.what == "run")
    place_of = {artefact.key: artefact.place for artefact in artefacts}
    stated_at = nights_at(connection, [run.entry for run in runs])
    tables = []
    hours: Counter[str] = Counter()
    directory = None
    last_read = 0
    for run in runs:
        place = place_of.get(run.key)
        table = None if place is None else _read_rows(place)
        if table is None:
            continue
        directory = place
        night = stated_at[run.entry]
        # Midnight is that of the clock by which outcomes are read.
        is_known = night.taken_from not in (None, "midnight")
        table = table.assign(
            night=pd.Timestamp(run.night),
            taken_at=night.taken_at if is_known else None,
            model=run.model,
        )
        tables.append(table)
        hours[night.taken_from or "midnight"] += 1
        last_read = run.entry
    if directory is None:
        raise UsageError(
            "no night of this series can be read: its run directories are gone"
        )
    run_document = read_run(directory)
    training = run_document.model.training
    shapes = {"patient": training.group_ids or training.ids, "stay": training.ids}
    return _Nights(
        rows=pd.concat(tables, ignore_index=True),
        stated=run_document.model.stated,
        promised=stated_at[last_read].promised,
        n_unread=len(runs) - len(tables),
        classes=[*_thresholds_of_classes(run_document)],
        hours=dict(hours),
        compared_whole={
            by: shape is not None and shape.compared_whole
            for by, shape in shapes.items()
        },
    )


def _read_rows(directory: Path) -> pd.DataFrame | None:
    """Return the scored rows of a run; None if its directory is gone."""
    path = directory / "scores.parquet"
    if not path.exists():
        return None
    try:
        with parquet_file(path) as table:
            names = [
                name
                for name in table.schema_arrow.names
                if name in COLUMNS or name.startswith(MORE_COLUMNS)
            ]
            rows = table.read(columns=names).to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise ModelError(
            f"{path} cannot be read ({type(error).__name__}): restore it from the "
            "backup, or score that night again with `replace`",
            parameters=["replace"],
        ) from None
    if "predicted" in rows:
        run = read_run(directory)
        for name, threshold in _thresholds_of_classes(run).items():
            rows[f"flagged_{name}"] = rows[f"score_{name}"] >= threshold
    if "chance" not in rows:
        rows["chance"] = np.nan
    patient = rows["group"] if "group" in rows else rows["id"]
    rows["patient"] = patient.astype(str)
    # By its number of that night, whatever it was merged into since.
    rows["case_id"] = rows["patient"]
    return rows


def _thresholds_of_classes(run: RunDocument) -> dict[str, float]:
    """Return the threshold of each watched class; empty where one is watched."""
    points = run.model.operating_points
    if len(points) == 1:
        return {}
    return {point.label: point.threshold for point in points}


def _by_unit(lines: pd.DataFrame, clock: Clock) -> dict[str, tuple[str, ...]]:
    """Return the facts of the trail on each patient, or stay, sorted."""
    facts: dict[str, set[str]] = {str(unit): set() for unit in lines["unit"]}
    events = lines.assign(text=_moment_texts(lines["time"], lines["is_day"], clock))
    events["text"] = events["text"].mask(lines["is_known"], WITHOUT_TIME)
    for unit, text, name in zip(
        events["unit"], events["text"], events["name"], strict=True
    ):
        if text:
            facts[str(unit)].add(f"{text}\t{name}".removesuffix("\t"))
    ends = _moment_texts(lines["end"], lines["end_is_day"], clock)
    for unit, text in zip(lines["unit"], ends, strict=True):
        if text:
            facts[str(unit)].add(UNTIL + text)
    return {name: tuple(sorted(texts)) for name, texts in facts.items()}


def _moment_texts(
    moments: pd.Series, are_days: pd.Series[bool], clock: Clock
) -> pd.Series[str]:
    """Return instants in UTC, or dates alone, as the trail states them; "" for none.

    A date stays the same if another time zone is stated later.
    """
    instants = moments.map(lambda moment: f"{moment.isoformat()}Z", na_action="ignore")
    days = moments.map(lambda moment: clock.text(moment)[:10], na_action="ignore")
    return instants.astype(object).mask(are_days, days).fillna("")


def _known(
    outcomes: Mapping[str, tuple[str, ...]],
    clock: Clock,
    by: Literal["patient", "stay"],
) -> Known:
    """Return what the facts of the trail state; those without a zone are local."""
    events = []
    without_time = []
    ends = []
    for unit, facts in outcomes.items():
        for fact in facts:
            time, _, name = fact.removeprefix(UNTIL).partition("\t")
            if fact.startswith(UNTIL):
                ends.append((unit, time, name))
            elif time == WITHOUT_TIME:
                without_time.append((unit, None, name))
            else:
                events.append((unit, time, name))
    return Known(
        events=_stated(events, clock),
        without_time=_stated(without_time, clock),
        ends=_stated(ends, clock),
        is_of_stays=by == "stay",
    )


def _stated(facts: Sequence[tuple[str, str | None, str]], clock: Clock) -> pd.DataFrame:
    """Return facts as lines: `unit`, `time`, `is_day` (a date alone), and `name`."""
    lines = pd.DataFrame(facts, columns=["unit", "text", "name"], dtype=object)
    times = times_of_texts(lines["text"].to_list(), None, clock)
    return lines.assign(time=times.at_noon(clock), is_day=times.is_day)


def _parts(outcomes: Mapping[str, tuple[str, ...]]) -> Iterator[Part]:
    """Yield parts with the patients, and the times of each one's events as facts."""
    items = iter(outcomes.items())
    while portion := list(islice(items, PORTION)):
        yield Part(
            "outcomes",
            facts=[list(times) for _, times in portion],
            names=[name for name, _ in portion],
        )


def _accepted_parts(names: Iterable[str], reason: str | None) -> Iterator[Part]:
    """Yield the ids of a table that were accepted, as hashes."""
    if reason is not None:
        yield Part("patients", names=[*names])


class _EarlierTables(NamedTuple):
    """Tables of outcomes that were entered before.

    Parameters
    ----------
    accepted : set of str
        Names by hashes of ids that are others but for the writing.
    counted : list of PatientsOfTable
    """

    accepted: set[str]
    counted: list[PatientsOfTable]

    def checked(
        self, ids: TableIds, patients: Set[str], series: str, accepted: str | None
    ) -> list[str]:
        """Return names of ids that are others but for the writing, if accepted.

        CohortError for such ids, for digits with an exponent, and if no patient of the
        table was scored.
        """
        ids.refuse_exponents()
        rewritten = ids.rewritten(patients, self.accepted, series)
        if accepted is None:
            ids.refuse_rewritten([*rewritten])
            names = set(ids.names)
            if names and patients.isdisjoint(names):
                ids.refuse_strangers(len(names))
        return [*dict.fromkeys(rewritten.values())]

    def compared(
        self, patients: int, unknown: int, accepted: str | None
    ) -> PatientsOfTable:
        """Return the unknown patients of a table beside those of earlier ones."""
        table = compared_with_earlier(patients, unknown, self.counted)
        if accepted is None:
            return table
        return table.replace(grown=False, accepted=True)


def _earlier_tables(connection: sa.Connection, series: str) -> _EarlierTables:
    """Return what the tables of outcomes entered before tell of the next one."""
    accepted: set[str] = set()
    counted = []
    numbers = sa.select(outcome_numbers(series).c.number)
    for entry in trail.entries(connection, TRAIL.c.number.in_(numbers)):
        facts, parts = facts_in(entry)
        assert isinstance(facts, Outcomes), "they were chosen by their kind"
        if facts.figures.table is not None:
            counted.append(facts.figures.table)
        for part in parts:
            if part.what == "patients":
                accepted.update(part.names)
    return _EarlierTables(accepted, counted)


def _known_outcomes(
    connection: sa.Connection, series: str, merges: Merges
) -> dict[str, tuple[str, ...]]:
    """Return the times of each patient's events, as the last entry on each has them.

    What was entered on several numbers before they were merged counts together, until
    a later entry states the patient's events anew.
    """
    before: dict[str, tuple[str, ...]] = {}
    since: dict[str, tuple[str, ...]] = {}
    numbers = sa.select(outcome_numbers(series).c.number)
    for number, _, parts in outcome_entries(connection, TRAIL.c.number.in_(numbers)):
        for part in parts:
            for name, times in zip(part.names, part.facts, strict=True):
                if number > merges.entry(name):
                    since[merges.patient(name)] = tuple(times)
                else:
                    before[name] = tuple(times)
    outcomes: dict[str, tuple[str, ...]] = {}
    for name, times in before.items():
        patient = merges.patient(name)
        together = {*outcomes.get(patient, ()), *times}
        outcomes[patient] = tuple(sorted(together))
    return outcomes | since


def _verdicts(
    connection: sa.Connection, series: str, merges: Merges
) -> dict[tuple[str, str], str]:
    """Return the current verdict by night and patient."""
    rows = ordered_verdicts(connection, REVIEWS.c.series == series)
    return {(row.night, merges.patient(row.case_id)): row.verdict for row in rows}
