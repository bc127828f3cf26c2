"""Enter what became of the patients of past nights, and judge the nights by it.

An entry states outcomes that are new or corrected since the entries before, up to when
outcomes are complete, and the figures of all nights in force by everything known then.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import pandas as pd
import pyarrow as pa
import sqlalchemy as sa

from screening.data.outcome_table import read_outcomes
from screening.errors import ModelError, UsageError
from screening.io.arrow_files import parquet_file
from screening.io.opening import Readable
from screening.ledger import register, trail
from screening.ledger.database import ARTEFACTS, PARTS, REVIEWS, TRAIL, Ledger
from screening.ledger.entries import (
    Outcomes,
    append,
    facts_in,
    nights_at,
)
from screening.ledger.model_registry import Judged, LastWord, find_series, judged
from screening.ledger.nights import current_runs
from screening.ledger.trail import Part
from screening.ledger.verdicts import ordered_verdicts
from screening.metrics.outcomes import (
    Window,
    figures_of_class,
    missed_cases,
    outcome_figures,
    texts_of_class,
    with_truth,
)
from screening.schemas.base import Estimate, Reason
from screening.schemas.history import OutcomeFigures, SensitivityAndPpv
from screening.schemas.model import CohortDeclaration
from screening.schemas.reasons import OUTCOMES_BELOW
from screening.schemas.run import RunDocument
from screening.store.model import SUBGROUP
from screening.store.serialization import read_run

MEASURES = {"sensitivity": "Sensitivity", "ppv": "PPV"}
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
        Patients whose outcomes were not stated before, or otherwise.
    unknown : int
        Patients of the table that no night scored; they are not entered.
    other : int
        Events that are none of those asked for; they are not entered.
    missed : DataFrame
        A line an event whose patient was not flagged on the last night before: `night`,
        `patient`, `score`, `event`.
    """

    figures: OutcomeFigures
    new: int
    corrected: int
    unknown: int
    other: int
    missed: pd.DataFrame


class GivenOutcome(TypedDict, total=False):
    """Arguments that override `[outcome]` of the contract; hours are numbers."""

    id: str | None
    time: str | None
    event: str | None
    within: float | None
    after: float | None


def enter_outcomes(
    ledger: Ledger,
    series: str,
    source: Readable,
    *,
    as_of: datetime.datetime | None = None,
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
    as_of : datetime, optional
        Up to when the outcomes are complete; now by default.
    **given
        Before what the contract states: columns of the patient, of the `time` of the
        event, blank for none, and of the name of the `event`, needed of a model of
        several classes; and the window of a night in hours, `within` and `after` (see
        `metrics.outcomes.Window`).

    Returns
    -------
    Entered

    Raises
    ------
    UsageError
        The series has no night, or window or columns are not stated.
    CohortError
        The table cannot be read.
    """
    until = pd.Timestamp(as_of or datetime.datetime.now())
    with ledger.reading() as connection:
        key = find_series(connection, series)
        nights = _read_nights(connection, key)
        recorded = _known_outcomes(connection, key)
        verdicts = _verdicts(connection, key)
    columns = nights.outcome_of_contract(given)
    window = Window(columns.within, columns.after)
    table = read_outcomes(
        source, columns.id, columns.time, nights.stated.date_order, columns.event
    )
    is_other = _is_other_event(table, nights, columns)
    # A patient of other events alone had none of those asked for.
    table["time"] = table["time"].mask(is_other)
    stated_now = _by_patient(table)
    patients = set(nights.rows["patient"])
    _refuse_other_spelling(patients, stated_now, columns.id)
    of_scored = {
        name: events for name, events in stated_now.items() if name in patients
    }
    changed = {
        name: events
        for name, events in of_scored.items()
        if recorded.get(name) != events
    }
    events = _events(recorded | changed)
    rows = with_truth(nights.rows, events, window, until)
    figures = _figures_of_nights(nights, rows, events, window, until, verdicts)
    facts = Outcomes(series=key, night=until.strftime("%Y-%m-%d"), figures=figures)
    with ledger.writing() as connection:
        append(connection, ledger.clock(), facts, _parts(changed))
    n_new = sum(name not in recorded for name in changed)
    return Entered(
        figures=figures,
        new=n_new,
        corrected=len(changed) - n_new,
        unknown=len(stated_now) - len(of_scored),
        other=int(is_other.sum()),
        missed=missed_cases(rows)[["night", "patient", "score", "event"]],
    )


def _figures_of_nights(
    nights: _Nights,
    rows: pd.DataFrame,
    events: pd.DataFrame,
    window: Window,
    until: pd.Timestamp,
    verdicts: Mapping[tuple[str, str], str],
) -> OutcomeFigures:
    """Return the figures of the nights by the events that are known until a time."""
    figures = outcome_figures(
        rows,
        window,
        until,
        nights.promised,
        verdicts,
        nights.subgroups,
        nights.stated.suppress,
    )
    if nights.classes:
        by_class = [
            figures_of_class(rows, events, name, window, until)
            for name in nights.classes
        ]
        figures = figures.replace(by_class=by_class, auroc=Estimate())
    return figures.replace(unread=nights.n_unread)


def _is_other_event(
    table: pd.DataFrame, nights: _Nights, columns: _OutcomeColumns
) -> pd.Series[bool]:
    """Return a mask of the lines whose event is none of those asked for."""
    events = set(columns.cases)
    if not events:
        events.update(*map(texts_of_class, nights.classes))
    if not events:
        return pd.Series(False, index=table.index)
    return table["time"].notna() & ~table["name"].isin(events)


def last_figures(connection: sa.Connection, series: str) -> OutcomeFigures | None:
    """Return the figures of the last entry of outcomes of a series; None without."""
    numbers = _entry_numbers(series)
    newest = connection.scalar(sa.select(sa.func.max(numbers.c.number)))
    if newest is None:
        return None
    ((facts, _),) = _entries(connection, TRAIL.c.number == newest)
    return facts.figures


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
        nights = _read_nights(connection, key)
        recorded = _known_outcomes(connection, key)
        runs = connection.execute(current_runs(key)).all()
        stated_at = nights_at(connection, [run.entry for run in runs])
    table_of = {run.night: stated_at[run.entry].table or "" for run in runs}
    window = Window(figures.within_hours, figures.after_hours)
    as_of = pd.Timestamp(figures.as_of)
    rows = with_truth(nights.rows, _events(recorded), window, as_of)
    is_known = rows["truth"].isin(["case", "none"]) & rows["is_over"]
    last = rows[is_known].groupby("patient").tail(1)
    verdicts = {word.case_id: word for word in by_verdict.words}
    last_words = []
    for patient, night, truth, was_flagged in zip(
        last["patient"],
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
                patient,
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
    return Judged(key, tuple(in_order))


def _refuse_other_spelling(
    patients: Set[str], in_table: Iterable[str], id_column: str
) -> None:
    """Raise UsageError if ids of the table are those of no night, but for zeros.

    A program that read them as numbers dropped the zeros; every event would be lost.
    """
    names = set(in_table)
    if not patients.isdisjoint(names):
        return
    in_nights = {_without_zeros(name) for name in patients}
    if not in_nights.isdisjoint(map(_without_zeros, names)):
        raise UsageError(
            f"column '{id_column}' has ids that the nights have with other leading "
            "zeros: write them as text, as the nights have them"
        )


def _without_zeros(name: str) -> str:
    return name.removesuffix(".0").lstrip("0")


class _OutcomeColumns(NamedTuple):
    """Columns of a table that state outcomes, and the hours in which they count."""

    id: str
    time: str
    event: str | None
    cases: Sequence[str]
    within: float
    after: float


def reasons_of_outcomes(figures: OutcomeFigures | None) -> list[Reason]:
    """Return why nights that were judged by outcomes need attention."""
    reasons: list[Reason] = []
    if figures is None or figures.seen is None:
        return reasons
    for name in figures.below:
        seen: Estimate = getattr(figures.seen, name)
        promised: Estimate = getattr(figures.promised, name)
        reason = OUTCOMES_BELOW(
            measure=MEASURES[name],
            seen=f"{seen.value:.0%}",
            promised=f"{promised.value:.0%}",
            nights=f"{figures.seen_nights} nights",
        )
        reasons.append(reason)
    return reasons


@dataclass(frozen=True)
class _Nights:
    """Rows of the nights in force whose run directories are there.

    Parameters
    ----------
    rows : DataFrame
        `night`, `patient`, `score`, `flagged`, `chance`, `model`, the columns of
        subgroups and, of several classes, `score_` and `flagged_` of each.
    stated : CohortDeclaration
        What the contract of the last night's model states.
    promised : SensitivityAndPpv or None
        Estimates of validation of the last night's model.
    n_unread : int
        Nights whose run directory is gone.
    classes : list of str
        Watched classes of the last night's model, if it watches several.
    """

    rows: pd.DataFrame
    stated: CohortDeclaration
    promised: SensitivityAndPpv | None
    n_unread: int
    classes: list[str]

    @property
    def subgroups(self) -> dict[str, str]:
        """Columns of subgroups by their titles, as far as the nights kept them."""
        columns = {name: SUBGROUP + name for name in self.stated.subgroup}
        return {name: column for name, column in columns.items() if column in self.rows}

    def outcome_of_contract(self, given: GivenOutcome) -> _OutcomeColumns:
        """Return what is given, and otherwise what the contract states.

        UsageError for what neither says.
        """
        stated = self.stated.outcome
        chosen: dict[str, Any] = {} if stated is None else stated.to_dict()
        chosen |= {key: value for key, value in given.items() if value is not None}
        id = chosen.get("id") or self.stated.group or self.stated.id
        time = chosen.get("time")
        event = chosen.get("event")
        within = chosen.get("within")
        if within is None:
            raise UsageError(
                "within how many hours of a night does an outcome count? Give `within`,"
                " or [outcome] in the contract",
                parameters=["within"],
            )
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
        return _OutcomeColumns(
            id,
            time,
            event,
            chosen.get("cases", ()),
            within,
            chosen.get("after", 0.0),
        )


def _read_nights(connection: sa.Connection, series: str) -> _Nights:
    runs = connection.execute(current_runs(series)).all()
    artefacts = register.current_artefacts(connection, ARTEFACTS.c.what == "run")
    place_of = {artefact.key: artefact.place for artefact in artefacts}
    tables = []
    directory = None
    last_read = 0
    for run in runs:
        place = place_of.get(run.key)
        table = None if place is None else _read_rows(place)
        if table is None:
            continue
        directory = place
        tables.append(table.assign(night=pd.Timestamp(run.night), model=run.model))
        last_read = run.entry
    if directory is None:
        raise UsageError(
            "no night of this series can be read: its run directories are gone"
        )
    last = nights_at(connection, [last_read])[last_read]
    run_document = read_run(directory)
    return _Nights(
        rows=pd.concat(tables, ignore_index=True),
        stated=run_document.model.stated,
        promised=last.promised,
        n_unread=len(runs) - len(tables),
        classes=[*_thresholds_of_classes(run_document)],
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
    if "group" in rows:
        rows["id"] = rows["group"]
    if "chance" not in rows:
        rows["chance"] = np.nan
    rows["patient"] = rows["id"].astype(str)
    return rows


def _thresholds_of_classes(run: RunDocument) -> dict[str, float]:
    """Return the threshold of each watched class; empty where one is watched."""
    points = run.model.operating_points
    if len(points) == 1:
        return {}
    return {point.label: point.threshold for point in points}


def _by_patient(outcomes: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return each patient's events as the trail states them, sorted.

    An event is its time, and its name behind a tab; a blank time is no event.
    """
    events: dict[str, list[str]] = {}
    for patient, time, name in zip(
        outcomes["patient"], outcomes["time"], outcomes["name"], strict=True
    ):
        of_patient = events.setdefault(str(patient), [])
        if not pd.isna(time):
            event = f"{pd.Timestamp(time).isoformat()}\t{name}"
            of_patient.append(event.removesuffix("\t"))
    return {name: tuple(sorted(set(times))) for name, times in events.items()}


def _events(outcomes: Mapping[str, tuple[str, ...]]) -> pd.DataFrame:
    """Return the events of all patients, a line each: `patient`, `time` and `name`."""
    lines = []
    for patient, events in outcomes.items():
        for event in events:
            time, _, name = event.partition("\t")
            lines.append((patient, time, name))
    table = pd.DataFrame(lines, columns=["patient", "time", "name"], dtype=object)
    return table.assign(time=pd.to_datetime(table["time"]))


def _parts(outcomes: Mapping[str, tuple[str, ...]]) -> Iterator[Part]:
    """Yield parts with the patients, and the times of each one's events as facts."""
    items = iter(outcomes.items())
    while portion := list(islice(items, PORTION)):
        yield Part(
            "outcomes",
            facts=[list(times) for _, times in portion],
            names=[name for name, _ in portion],
        )


def _known_outcomes(
    connection: sa.Connection, series: str
) -> dict[str, tuple[str, ...]]:
    """Return the times of each patient's events, as the last entry on each has them."""
    outcomes: dict[str, tuple[str, ...]] = {}
    numbers = sa.select(_entry_numbers(series).c.number)
    for _, parts in _entries(connection, TRAIL.c.number.in_(numbers)):
        for part in parts:
            for name, times in zip(part.names, part.facts, strict=True):
                outcomes[name] = tuple(times)
    return outcomes


def _entry_numbers(series: str) -> sa.Subquery:
    """Select the `number` of each entry of outcomes of a series."""
    names_series = f'"series":{trail.plain(series)}'
    parts = PARTS.c
    return (
        sa.select(TRAIL.c.number)
        .join(PARTS, parts.entry == TRAIL.c.number)
        .where(TRAIL.c.kind == Outcomes.KIND)
        .where(parts.part == 0)
        .where(parts.facts.contains(names_series, autoescape=True))
        .subquery()
    )


def _entries(
    connection: sa.Connection, chosen: sa.ColumnElement[bool]
) -> Iterator[tuple[Outcomes, list[Part]]]:
    """Yield chosen entries of outcomes with their parts, in order."""
    for entry in trail.entries(connection, chosen):
        facts, parts = facts_in(entry)
        if not isinstance(facts, Outcomes):
            raise ModelError(f"entry {entry.number} of the audit trail is no outcome")
        of_entry = [part for part in parts if part.what == "outcomes"]
        yield facts, of_entry


def _verdicts(connection: sa.Connection, series: str) -> dict[tuple[str, str], str]:
    """Return the current verdict by night and patient."""
    rows = ordered_verdicts(connection, REVIEWS.c.series == series)
    return {(row.night, row.case_id): row.verdict for row in rows}
