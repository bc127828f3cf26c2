"""Scored rows as cases, with the reasons for their scores.

A reason is what a feature's value changes in the score, compared with its median.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from screening.data.cohort import Cohort, concatenate
from screening.data.stream import CohortStream
from screening.errors import UsageError
from screening.io.opening import Readable
from screening.io.queries import Database
from screening.schemas.base import Estimate
from screening.schemas.model import ModelDocument
from screening.schemas.run import Case, Contribution
from screening.scoring.reference_distribution import among_past, rarity_range
from screening.scoring.rows import Rows, refuse_altered
from screening.store.model import (
    CHANCES,
    DISPLAY,
    OUT_OF_BOUNDS,
    Model,
    score_batch,
)
from screening.store.serialization import read_document

MAX_REASONS = 5
# Changed rows are scored so many at a time, of all features together: that bounds the
# memory and needs few sweeps of the support vectors.
BLOCK_ROWS = 2048


def cases_of(model: Model, rows: pa.Table) -> list[Case]:
    """Return a case for each row of the night's table, with the range of its rarity."""
    lowest, highest_p = rarity_range(rows["p_value"].to_numpy(), len(model.calibration))
    cases = []
    for row, low, high in zip(rows.to_pylist(), lowest, highest_p, strict=True):
        chance = None
        if row.get("chance") is not None:
            chance = Estimate(*(row[name] for name in CHANCES))
        case = Case(
            id=row["id"],
            group=row.get("group"),
            row=row["row"],
            score=row["score"],
            p_value=Estimate(row["p_value"], low, high),
            label=row["class"],
            display=displayed_texts(row),
            out_of_bounds=row.get(OUT_OF_BOUNDS),
            chance=chance,
            beyond=_beyond(model, row),
        )
        cases.append(case)
    return cases


def _beyond(model: Model, row: Mapping[str, Any]) -> Literal["above", "below"] | None:
    """Return on which side of all held-out scores a row's score is; None if within."""
    calibration = model.facts.validation.calibration.get(row["class"])
    platt = None if calibration is None else calibration.platt
    if platt is None or platt.range is None:
        return None
    lowest, highest_score = platt.range
    score = row["score"]
    if len(model.watched) > 1:
        # It is the excess over the threshold of its class.
        score += model.thresholds[model.watched.index(row["class"])]
    if score > highest_score:
        return "above"
    return "below" if score < lowest else None


def displayed_texts(row: Mapping[str, str | None]) -> dict[str, str | None] | None:
    """Return the texts that the contract shows beside a row; None if it has none."""
    texts = {
        name.removeprefix(DISPLAY): text
        for name, text in row.items()
        if name.startswith(DISPLAY)
    }
    return texts or None


def highest(scores: np.ndarray, size: int) -> np.ndarray:
    """Return the positions of the `size` highest scores, the highest first.

    Equal scores are in their order.
    """
    among = np.arange(len(scores))
    if len(scores) > size:
        among = np.flatnonzero(scores >= np.partition(scores, -size)[-size])
    return among[np.argsort(-scores[among], kind="stable")][:size]


@dataclass(frozen=True)
class TopRows:
    """The scored rows with the highest scores; those of consecutive rows add up.

    Parameters
    ----------
    size : int
        Largest number of rows.
    rows : pyarrow.Table
        As in `scores.parquet`, the highest score first.
    """

    size: int
    rows: pa.Table

    @classmethod
    def of(cls, size: int, rows: pa.Table) -> TopRows:
        """Return the highest of some rows."""
        return cls(size, rows.take(highest(rows["score"].to_numpy(), size)))

    def __add__(self, other: TopRows) -> TopRows:
        return TopRows.of(self.size, pa.concat_tables([self.rows, other.rows]))


@dataclass(frozen=True)
class TopCases:
    """The rows with the highest scores and all their values.

    Those of consecutive rows add up.

    Parameters
    ----------
    size : int
        Largest number of rows.
    kept : tuple of (Cohort, pyarrow.Table)
        The rows as they were read and as they were scored, the highest score first;
        rows of equal scores in the order of the table. Empty if there are none.
    """

    size: int
    kept: tuple[tuple[Cohort, pa.Table], ...] = ()

    @classmethod
    def of(
        cls, size: int, batch: Cohort, rows: pa.Table, among: np.ndarray
    ) -> TopCases:
        """Return the highest of some rows of a batch, by their positions `among`."""
        if not len(among):
            return cls(size)
        order = among[highest(rows["score"].to_numpy()[among], size)]
        return cls(size, ((batch.take(order), rows.take(order)),))

    def __add__(self, other: TopCases) -> TopCases:
        if not (self.kept and other.kept):
            return self if self.kept else other
        cohorts, tables = zip(*self.kept, *other.kept, strict=True)
        cohort = concatenate(cohorts)
        rows = pa.concat_tables(tables)
        return TopCases.of(self.size, cohort, rows, np.arange(rows.num_rows))

    def explained(self, model: Model) -> list[Case]:
        """Return the rows as cases with their reasons, the highest score first."""
        cases: list[Case] = []
        for cohort, rows in self.kept:
            cases += explained(model, cohort, rows)
        return cases


def changes(model: Model, cohort: Cohort, columns: np.ndarray) -> np.ndarray:
    """Return what each feature's value adds to a score, beside the training median.

    Parameters
    ----------
    model : Model
    cohort : Cohort
    columns : ndarray of int, shape (n_rows,)
        Watched class that each row is explained for.

    Returns
    -------
    changes : ndarray of shape (n_rows, n_features)
        Score of the row, less its score with the feature at the median, or at the most
        frequent category.
    """
    encoder = model.encoder
    names = list(cohort.contract.features)
    encoded = encoder.transform(cohort.values)
    typical = encoder.typical_row()
    scores = model.scores(encoded)[np.arange(len(encoded)), columns]
    feature_of = np.array([names.index(name) for name in encoder.columns])
    # In many rows a feature is already the median: these need no second score.
    differ = np.zeros((len(encoded), len(names)), dtype=bool)
    row, column = np.nonzero(encoded != typical)
    differ[row, feature_of[column]] = True
    rows, features = np.nonzero(differ)
    result = np.zeros(differ.shape)
    for start in range(0, len(rows), BLOCK_ROWS):
        at = rows[start : start + BLOCK_ROWS]
        changed_feature = features[start : start + BLOCK_ROWS]
        is_changed = feature_of == changed_feature[:, None]
        changed = np.where(is_changed, typical, encoded[at])
        without = model.scores(changed)[np.arange(len(at)), columns[at]]
        result[at, changed_feature] = scores[at] - without
    return result


def votes(
    model: Model, cohort: Cohort, columns: np.ndarray
) -> list[dict[str, bool]] | None:
    """Return which members of a blend would flag each row; None for other models."""
    by_member = getattr(model.ensemble, "by_member", None)
    if by_member is None:
        return None
    scores = by_member(model.encoder.transform(cohort.values))[
        :, :, model.watched_columns
    ]
    votes_of_rows = []
    for row, column in enumerate(columns):
        watched = model.watched[column]
        votes_of_row = {}
        for number, member in enumerate(model.facts.blend):
            threshold = member.classes[watched].threshold
            votes_of_row[member.recipe] = bool(scores[row, number, column] >= threshold)
        votes_of_rows.append(votes_of_row)
    return votes_of_rows


def explained(
    model: Model, cohort: Cohort, rows: pa.Table, most: int | None = MAX_REASONS
) -> list[Case]:
    """Return rows as cases with the features that change their scores most.

    Parameters
    ----------
    model : Model
    cohort : Cohort
        The rows as they were read.
    rows : pyarrow.Table
        The same rows of the night's table.
    most : int or None
        Largest number of features a row; None for all that change the score.
    """
    columns = pc.index_in(rows["class"], pa.array(model.watched)).to_numpy()
    change = changes(model, cohort, columns)
    voted = votes(model, cohort, columns)
    names = list(cohort.contract.features)
    missing = np.column_stack([pd.isna(cohort.measured[name]) for name in names])
    if model.recipe.machine == "given":
        # A score does not explain itself.
        most = 0
    cases = []
    for row, case in enumerate(cases_of(model, rows)):
        sizes = np.abs(change[row])
        largest = np.argsort(-sizes, kind="stable")[:most]
        largest = largest[sizes[largest] > 0]
        explained_share = None
        if largest.size:
            explained_share = float(sizes[largest].sum()) / float(sizes.sum())
        change_by: dict[str, float | None] = {}
        for j in largest:
            change_by[names[j]] = float(change[row, j])
        for name in cohort.contract.show:
            change_by.setdefault(name, None)
        contributions = [
            _contribution(model, cohort, name, row, amount)
            for name, amount in change_by.items()
        ]
        votes_of_row = None if voted is None else voted[row]
        case = case.replace(
            contributions=contributions,
            explained=explained_share,
            missing=[names[j] for j in np.flatnonzero(missing[row])],
            votes=votes_of_row,
        )
        cases.append(case)
    return cases


def _contribution(
    model: Model, cohort: Cohort, name: str, row: int, change: float | None
) -> Contribution:
    """Return what a row's value changes, and where it lies among past ones.

    `change` is None for a value that is shown and no part of the score.
    """
    value = cohort.measured[name][[row]].tolist()[0]
    direction = "shown"
    if change:
        direction = "raises" if change > 0 else "lowers"
    training = model.facts.training
    fact = next(feature for feature in training.features if feature.name == name)
    past = None
    if training.profile:
        past = training.profile.features.get(name)
    lower, alike = among_past(past, value)
    return Contribution(
        feature=name,
        value=cohort.contract.features[name].format_value(value),
        unit=fact.unit,
        direction=direction,
        change=change or 0.0,
        reference=fact.reference,
        seen=fact.seen,
        lower=lower,
        alike=alike,
    )


def explain(
    run: str | Path,
    name: str,
    model: Model | None = None,
    cohort: Readable | None = None,
) -> dict[str, Any]:
    """Explain the score of one row of a run.

    Parameters
    ----------
    run : str or Path
        Run directory.
    name : str
        The row's id, or the id of a group: then its row with the highest score.
    model : Model, optional
        The run's own: with `cohort` every row can be explained, by all its values.
    cohort : path, Database, or a pandas, polars or Arrow table, optional
        The table of the run.

    Returns
    -------
    dict
        `run`, the run's document, and `case`, as in `run.json`, with its state
        `flagged`.

    Raises
    ------
    UsageError
        If no row has this id, its reasons were not kept, or model or table are not
        those of the run.
    ModelError
        The run's rows are missing or damaged.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from tempfile import mkdtemp
    >>> from screening import explain, score, train
    >>> samples = files("screening.sample_cohorts")
    >>> past = samples / "nosocomial_past.csv"
    >>> contract = samples / "nosocomial.toml"
    >>> model = train(past, "logistic", contract=contract, search=1, beside=())
    >>> run = score(model, samples / "nosocomial_night.csv", mkdtemp())
    >>> first = run.document["cases"][0]["id"]
    >>> explain(run.directory, first)["case"]["flagged"]
    True
    """
    if (model is None) != (cohort is None):
        raise UsageError(
            "`model` and `cohort` belong together, because reasons are computed from "
            "both; give both",
            parameters=["model", "cohort"],
        )
    document = read_document(run, "run")
    scores = Path(run) / "scores.parquet"
    refuse_altered(scores, (document["outputs"] or {}).get(scores.name, ""))
    named = Rows(scores).named(name, ["row", "score", "flagged"])
    row = max(named, key=lambda scored: scored["score"], default=None)
    case = None
    if row is not None:
        case = _listed_cases(document).get(row["row"])
    if model is not None and cohort is not None:
        case = _completed(_worked_out(document, name, model, cohort), case)
    if case is None or case.get("contributions") is None:
        raise UsageError(
            _why_unexplained(document, row, case), parameters=["model", "cohort"]
        )
    return {"run": document, "case": case}


def _completed(
    case: dict[str, Any], listed: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a case with what only the run knows of its row, such as its rank."""
    if listed is None or listed["row"] != case["row"]:
        return case
    return {key: listed[key] if value is None else value for key, value in case.items()}


def _listed_cases(document: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the cases of a run's document by their row, with their state."""
    listed = {
        case["row"]: case | {"flagged": False} for case in document["near_misses"]
    }
    for case in document["cases"]:
        listed[case["row"]] = case | {"flagged": True}
    return listed


def _why_unexplained(
    document: Mapping[str, Any],
    row: Mapping[str, Any] | None,
    case: Mapping[str, Any] | None,
) -> str:
    """Return why a run has no reasons of a row, and the remedy."""
    if row is None:
        erased = ", and some have since been erased" if document.get("erased") else ""
        return (
            "no row of this run has this id; ids are compared as text, and "
            f"{document['counts']['scored']} rows were scored{erased}"
        )
    if case is not None:
        why = (
            f"this case is number {case['rank']} of {document['cases_total']} flagged, "
            f"and reasons were kept for the first {document['cases_explained']} only"
        )
    elif row["flagged"]:
        why = f"this row was flagged, but the page names {document['cases_shown']} only"
    else:
        why = (
            "this row was scored and not flagged, and reasons are kept for the nearest "
            "misses only"
        )
    return f"{why}; give `model` and `cohort` of this run, to compute its reasons again"


def _worked_out(
    document: dict[str, Any], name: str, model: Model, cohort: Readable
) -> dict[str, Any]:
    """Return the case of a row by all its values; UsageError for other inputs."""
    of_run = document["model"]
    for part in ("arrays_sha256", "validation_sha256"):
        if model.sealed[part] != of_run.get(part):
            raise UsageError(
                f"`model` is model {model.id}, but the run was scored by "
                f"{of_run['id']}; give that model",
                parameters=["model"],
            )
    # With the threshold that it had: another may have been chosen since.
    facts = {
        key: value for key, value in of_run.items() if key in ModelDocument.model_fields
    }
    model = replace(model, document=facts)
    if isinstance(cohort, Database):
        cohort = cohort.of_night(document["date"])
    stream = model.opened(cohort)
    digests = [file.sha256 for file in stream.source.files]
    if digests != [file["sha256"] for file in document["input"]["files"]]:
        raise UsageError(
            "`cohort` is not the table of this run: the SHA-256 differs; give the "
            "table that was scored",
            parameters=["cohort"],
        )
    return explained_row(model, stream, name)


def explained_row(model: Model, stream: CohortStream, name: str) -> dict[str, Any]:
    """Return one row of a table as `run.json` has cases, with all its reasons.

    Parameters
    ----------
    model : Model
    stream : CohortStream
    name : str
        Id of the row, or of its group: then its row with the highest score is meant.

    Raises
    ------
    UsageError
        If no row has this id.
    """
    named = _rows_named(model, stream, name)
    best = max(named, key=attrgetter("is_id", "score"), default=None)
    if best is None:
        raise UsageError(
            "no row of this table has this id; ids are compared as text, and "
            f"{stream.n_rows} rows were read"
        )
    (case,) = explained(model, best.cohort, best.row, most=None)
    return case.to_dict() | {"flagged": best.row["flagged"][0].as_py()}


class _NamedRow(NamedTuple):
    """A scored row, found by its id or else by its group."""

    is_id: bool
    score: float
    cohort: Cohort
    row: pa.Table


def _rows_named(model: Model, stream: CohortStream, name: str) -> Iterator[_NamedRow]:
    """Yield of each batch the row of this id, or of this group, that scores highest."""
    for batch in stream:
        mask = batch.id == name
        is_id = bool(mask.any())
        if not is_id and batch.group is not None:
            mask = batch.group == name
        if not mask.any():
            continue
        # As a whole: a voxel's score is that of the clusters around it.
        table = score_batch(model, batch).rows.filter(pa.array(mask))
        at = int(np.argmax(table["score"].to_numpy()))
        row = table.slice(at, 1)
        score = row["score"][0].as_py()
        yield _NamedRow(is_id, score, batch.take(mask).take([at]), row)
