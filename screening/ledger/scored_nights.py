"""Rows of the nights in force, and what is asked of the outcomes of their patients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd
import pyarrow as pa
import sqlalchemy as sa

from screening.clock.conversion import next_instants_of
from screening.clock.windows import Window
from screening.clock.zone import Clock, clock_of
from screening.data.outcome_table import OutcomeColumns
from screening.errors import ModelError, UsageError
from screening.io.arrow_files import parquet_file
from screening.ledger import register
from screening.ledger.current import current_runs
from screening.ledger.database import ARTEFACTS
from screening.ledger.entries import Night, facts_at
from screening.ledger.merging import Merges
from screening.metrics.chances import chance_at_threshold
from screening.schemas.history import SensitivityAndPpv
from screening.schemas.model import CohortDeclaration
from screening.schemas.run import RunDocument
from screening.store.model import SUBGROUP
from screening.store.serialization import read_run

COLUMNS = ("id", "group", "score", "flagged", "chance", "predicted")
# Of subgroups and of classes.
MORE_COLUMNS = (SUBGROUP, "score_")


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


@dataclass(frozen=True)
class OutcomesAsked:
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
class ScoredNights:
    """Rows of the nights in force whose run directories are there.

    Parameters
    ----------
    rows : DataFrame
        `night`, `taken_at` (text or None), `id`, `patient`, `score`, `flagged`,
        `chance`, `chance_at_threshold` (NaN without one), `model`, `table` (digests of
        the night's files), the columns of subgroups and, of several classes, `score_`,
        `flagged_` and `chance_at_threshold_` of each.
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

    def rows_by(self, by: str, clock: Clock) -> pd.DataFrame:
        """Return the rows with the instant `at` of their night, and their `unit`.

        A night without an hour begins at midnight. `by` is "patient" or "stay".
        """
        unit = self.rows["id" if by == "stay" else "patient"].astype(str)
        midnight = next_instants_of(self.rows["night"].to_numpy(), clock)
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
    ) -> OutcomesAsked:
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
                "the time within which an outcome counts is missing; give `within`, "
                "or [outcome] in the contract",
                parameters=["within"],
            )
        if by == "stay" and chosen.get("again") is not None:
            raise UsageError(
                "`again` needs outcomes by patient: a stay with an event is not at "
                "risk again",
                parameters=["again"],
            )
        return OutcomesAsked(
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
                "the columns with the id and the time of an event are unknown; give "
                "`id` and `time`, or [outcome] in the contract",
                parameters=["id", "time"],
            )
        if self.classes and event is None:
            raise UsageError(
                f"the model separates {', '.join(self.classes)}, but the column with "
                "the name of the event is unknown; give `event`, or [outcome] in the "
                "contract",
                parameters=["event"],
            )
        return OutcomeColumns(id, time, event, chosen.get("until"), chosen.get("as_of"))


def read_scored_nights(
    connection: sa.Connection, series: str, merges: Merges
) -> ScoredNights:
    """Read the scored rows of a series' nights in force.

    Patients have the numbers by which they are known now. UsageError if no run
    directory is left.
    """
    runs = connection.execute(current_runs(series)).all()
    artefacts = register.current_artefacts(connection, ARTEFACTS.c.what == "run")
    place_of = {artefact.key: artefact.place for artefact in artefacts}
    stated_at = facts_at(connection, Night, [run.entry for run in runs])
    tables = []
    chance_of_model: dict[str, float] = {}
    hours: Counter[str] = Counter()
    directory = None
    last_read = 0
    for run in runs:
        place = place_of.get(run.key)
        table = None if place is None else _read_rows(place)
        if place is None or table is None:
            continue
        directory = place
        if run.model not in chance_of_model:
            chance_of_model[run.model] = _chance_of_one_class(read_run(place))
        night = stated_at[run.entry]
        chance = chance_of_model[run.model]
        tables.append(_with_night(table, run, night, chance))
        hours[night.taken_from or "midnight"] += 1
        last_read = run.entry
    if directory is None:
        raise UsageError(
            "no night of this series can be read: its run directories do not exist"
        )
    rows = pd.concat(tables, ignore_index=True)
    if merges:
        rows["patient"] = rows["patient"].map(merges.patient)
    run_document = read_run(directory)
    training = run_document.model.training
    shapes = {"patient": training.group_ids or training.ids, "stay": training.ids}
    return ScoredNights(
        rows=rows,
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


def _with_night(
    rows: pd.DataFrame, run: sa.Row[Any], night: Night, chance: float
) -> pd.DataFrame:
    """Add to the rows of a night what its run and the ledger say of it."""
    # Midnight is that of the clock by which outcomes are read.
    is_hour_known = night.taken_from not in (None, "midnight")
    return rows.assign(
        night=pd.Timestamp(run.night),
        taken_at=night.taken_at if is_hour_known else None,
        model=run.model,
        table=night.table or "",
        chance_at_threshold=chance,
    )


def _read_rows(directory: Path) -> pd.DataFrame | None:
    """Read the scored rows of a run; None if its directory is gone."""
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
            f"{path} cannot be read ({type(error).__name__}); restore it from the "
            "backup, or score that night again with `replace`",
            parameters=["replace"],
        ) from None
    if "predicted" in rows:
        run = read_run(directory)
        for name, threshold in _thresholds_of_classes(run).items():
            rows[f"flagged_{name}"] = rows[f"score_{name}"] >= threshold
            chance = _chance_at_threshold(run, name, threshold)
            rows[f"chance_at_threshold_{name}"] = chance
    if "chance" not in rows:
        rows["chance"] = np.nan
    patient = rows["group"] if "group" in rows else rows["id"]
    rows["patient"] = patient.astype(str)
    # By its number of that night, whatever it was merged into since.
    rows["case_id"] = rows["patient"]
    return rows


def _chance_of_one_class(run: RunDocument) -> float:
    """Return the calibrated chance at the threshold; NaN if several are watched."""
    first, *others = run.model.operating_points
    if others:
        return np.nan
    return _chance_at_threshold(run, first.label, first.threshold)


def _chance_at_threshold(run: RunDocument, name: str, threshold: float) -> float:
    """Return the calibrated chance at the threshold of a class; NaN without one."""
    calibration = run.model.validation.calibration.get(name)
    chance = chance_at_threshold(calibration, threshold)
    return np.nan if chance is None else chance


def _thresholds_of_classes(run: RunDocument) -> dict[str, float]:
    """Return the threshold of each watched class; empty where one is watched."""
    points = run.model.operating_points
    if len(points) == 1:
        return {}
    return {point.label: point.threshold for point in points}
