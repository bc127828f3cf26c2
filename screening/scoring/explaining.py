"""Rows as `run.json` names them, and why they scored so: what each value changes against the median."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.data.cohort import Cohort, concatenate
from screening.data.stream import CohortStream
from screening.errors import UsageError
from screening.io.columns import absent
from screening.io.opening import Readable
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

SHOWN = 5
# Changed rows are scored so many at a time, all features together: a sweep has its price, and so has memory.
BLOCK = 2048


def cases_of(model: Model, rows: pa.Table) -> list[Case]:
    """One case a row of the night's table, each with the range of its rarity."""
    ranges = rarity_range(rows["p_value"].to_numpy(), len(model.calibration))
    return [
        Case(
            id=row["id"],
            group=row.get("group"),
            row=row["row"],
            score=row["score"],
            p_value=Estimate(row["p_value"], low, high),
            label=row["class"],
            display=displayed(row),
            out_of_bounds=row.get(OUT_OF_BOUNDS),
            chance=None
            if row.get("chance") is None
            else Estimate(*(row[name] for name in CHANCES)),
        )
        for row, low, high in zip(rows.to_pylist(), *ranges, strict=True)
    ]


def displayed(row: Mapping[str, str | None]) -> dict[str, str | None] | None:
    """What the contract wants shown beside a row; None where it wants nothing."""
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
class Top:
    """The rows with the highest scores, with all their values; of consecutive rows they add up.

    Parameters
    ----------
    size : int
        Largest number of rows.
    kept : tuple of (Cohort, pyarrow.Table)
        The rows as they were read and as they were scored, the highest score first;
        rows of equal scores in the order of the table. Empty if there is none.
    """

    size: int
    kept: tuple[tuple[Cohort, pa.Table], ...] = ()

    @classmethod
    def of(cls, size: int, batch: Cohort, rows: pa.Table, among: np.ndarray) -> Top:
        """Return the highest of some rows of a batch, by their positions `among`."""
        if not len(among):
            return cls(size)
        order = among[highest(rows["score"].to_numpy()[among], size)]
        return cls(size, ((batch.take(order), rows.take(order)),))

    def __add__(self, other: Top) -> Top:
        if not (self.kept and other.kept):
            return self if self.kept else other
        cohorts, tables = zip(*self.kept, *other.kept, strict=True)
        cohort = concatenate(cohorts)
        rows = pa.concat_tables(tables)
        return Top.of(self.size, cohort, rows, np.arange(rows.num_rows))

    def explained(self, model: Model) -> list[Case]:
        """As cases with their reasons, the highest score first."""
        return [
            case
            for cohort, rows in self.kept
            for case in explained(model, cohort, rows)
        ]


def changes(model: Model, cohort: Cohort, columns: np.ndarray) -> np.ndarray:
    """How much each feature's value raises the score over the training median in its place.

    Shape (n_rows, n_features): score(row) - score(row with the feature at the median or most frequent
    category). `columns`, shape (n_rows,): which watched class each row is explained for.
    """
    encoder, names = model.encoder, list(cohort.contract.features)
    encoded, typical = encoder.transform(cohort), encoder.typical_row()
    own = model.scores(encoded)[np.arange(len(encoded)), columns]
    feature_of = np.array([names.index(name) for name in encoder.columns])
    # Of most features many rows hold the median already: those need no second score.
    differ = np.zeros((len(encoded), len(names)), dtype=bool)
    row, column = np.nonzero(encoded != typical)
    differ[row, feature_of[column]] = True
    rows, features = np.nonzero(differ)
    result = np.zeros(differ.shape)
    for start in range(0, len(rows), BLOCK):
        at, j = rows[start : start + BLOCK], features[start : start + BLOCK]
        changed = np.where(feature_of == j[:, None], typical, encoded[at])
        result[at, j] = own[at] - model.scores(changed)[np.arange(len(at)), columns[at]]
    return result


def votes(
    model: Model, cohort: Cohort, columns: np.ndarray
) -> list[dict[str, bool]] | None:
    """Which members of a blend would flag each row alone, by name; None where the model is no blend."""
    by_member = getattr(model.ensemble, "by_member", None)
    if by_member is None:
        return None
    scores = by_member(model.encoder.transform(cohort))[:, :, model.watched_columns]
    return [
        {
            member.recipe: bool(
                score >= member.classes[model.watched[column]].threshold
            )
            for member, score in zip(
                model.facts.blend, scores[row, :, column], strict=True
            )
        }
        for row, column in enumerate(columns)
    ]


def explained(
    model: Model, cohort: Cohort, rows: pa.Table, most: int | None = SHOWN
) -> list[Case]:
    """Rows as cases with the features that change their score most, the largest change first.

    `rows`: of the night's table. `most`: at most so many features a row; None: all that change the score.
    """
    columns = pc.index_in(rows["class"], pa.array(model.watched)).to_numpy()
    contract, training = cohort.contract, model.facts.training
    names, past = (
        list(contract.features),
        training.profile.features if training.profile else {},
    )
    facts = {feature.name: feature for feature in training.features}
    change, voted = changes(model, cohort, columns), votes(model, cohort, columns)
    measured = [cohort.measured[name] for name in names]
    missing = np.column_stack([absent(values) for values in measured])
    cases = []
    for row, case in enumerate(cases_of(model, rows)):
        sizes = np.abs(change[row])
        largest = [j for j in np.argsort(-sizes, kind="stable")[:most] if sizes[j]]
        contributions = []
        for j in largest:
            fact, value = facts[names[j]], measured[j][[row]].tolist()[0]
            lower, alike = among_past(past.get(fact.name), value)
            contributions.append(
                Contribution(
                    feature=fact.name,
                    value=contract.features[fact.name].format_value(value),
                    unit=fact.unit,
                    direction="raises" if change[row, j] > 0 else "lowers",
                    change=float(change[row, j]),
                    reference=fact.reference,
                    seen=fact.seen,
                    lower=lower,
                    alike=alike,
                )
            )
        cases.append(
            case.replace(
                contributions=contributions,
                explained=float(sizes[largest].sum()) / float(sizes.sum())
                if largest
                else None,
                missing=[names[j] for j in np.flatnonzero(missing[row])],
                votes=None if voted is None else voted[row],
            )
        )
    return cases


def explain(
    run: str | Path,
    name: str,
    model: Model | None = None,
    cohort: Readable | None = None,
) -> dict[str, Any]:
    """What a run knows of one row, and why its score is what it is.

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
        `run`, the run's document, and `case`, as in `run.json`, and whether it is `flagged`.

    Raises
    ------
    UsageError
        No row has this id, its reasons were not kept, or model or table are not those of the run.
    ModelError
        The run's rows are missing or damaged.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from tempfile import mkdtemp
    >>> from screening import explain, score, train
    >>> samples = files("screening.sample_cohorts")
    >>> past = samples / "nosocomial_past.csv"
    >>> model = train(past, "logistic", contract=samples / "nosocomial.toml", search=1, beside=())
    >>> run = score(model, samples / "nosocomial_night.csv", mkdtemp())
    >>> first = run.document["cases"][0]["id"]
    >>> explain(run.directory, first)["case"]["flagged"]
    True
    """
    if (model is None) != (cohort is None):
        raise UsageError(
            "--model and --cohort belong together: reasons are worked out from both"
        )
    document = read_document(run, "run")
    scores = Path(run) / "scores.parquet"
    refuse_altered(scores, (document["outputs"] or {}).get(scores.name, ""))
    named = Rows(scores).named(name, ["row", "score", "flagged"])
    row = max(named, key=lambda one: one["score"], default=None)
    listed = {
        case["row"]: case | {"flagged": False} for case in document["near_misses"]
    }
    listed |= {case["row"]: case | {"flagged": True} for case in document["cases"]}
    case = None if row is None else listed.get(row["row"])
    if model is not None and cohort is not None:
        row_alone = _worked_out(document, name, model, cohort)
        if case is not None and case["row"] == row_alone["row"]:
            # What only the run knows of it, such as its rank.
            row_alone |= {
                key: case[key] for key, value in row_alone.items() if value is None
            }
        case = row_alone
    if case is not None and case.get("contributions") is not None:
        return {"run": document, "case": case}
    if row is None:
        erased = ", of which some were erased since" if document.get("erased") else ""
        raise UsageError(
            f"no row of this run has this id; ids are compared as text, and {document['counts']['scored']} "
            f"rows were scored{erased}"
        )
    if case is not None:
        why = (
            f"this case is number {case['rank']} of {document['cases_total']} flagged, and reasons were kept "
            f"for the first {document['cases_explained']} only"
        )
    elif row["flagged"]:
        why = f"this row was flagged, but the page names {document['cases_shown']} only"
    else:
        why = "this row was scored and not flagged, and reasons are kept for the nearest misses only"
    raise UsageError(
        f"{why}; give --model and --cohort, the ones of this run, to work its reasons out again"
    )


def _worked_out(
    document: dict[str, Any], name: str, model: Model, cohort: Readable
) -> dict[str, Any]:
    then, now = document["model"], model.sealed
    if any(
        now[part] != then.get(part) for part in ("arrays_sha256", "validation_sha256")
    ):
        raise UsageError(
            f"--model is model {model.id}, but the run was scored by {then['id']}; give that one"
        )
    # With the threshold that it had: another may have been chosen since.
    facts = {
        key: value for key, value in then.items() if key in ModelDocument.model_fields
    }
    model = replace(model, document=facts)
    stream = model.opened(cohort, gated=False)
    digests = [file.sha256 for file in stream.source.files]
    if digests != [file["sha256"] for file in document["input"]["files"]]:
        raise UsageError(
            "--cohort is not the table of this run: its SHA-256 differs; give the one it was given"
        )
    return explained_row(model, stream, name)


def explained_row(model: Model, stream: CohortStream, name: str) -> dict[str, Any]:
    """One row of a table by all its values, named by its id or that of its group, as `run.json` has cases.

    Raises UsageError: no row has this id.
    """
    named = list[tuple[bool, float, dict[str, Any]]]()
    for batch in stream:
        mask = batch.id == name
        by_id = bool(mask.any())
        if not by_id and batch.group is not None:
            mask = batch.group == name
        if mask.any():
            # As a whole: a voxel's score is that of the clusters around it.
            table = score_batch(model, batch).rows.filter(pa.array(mask))
            at = int(np.argmax(table["score"].to_numpy()))
            highest = table.slice(at, 1).to_pylist()[0]
            (case,) = explained(
                model, batch.take(mask).take([at]), table.slice(at, 1), most=None
            )
            named.append(
                (
                    by_id,
                    highest["score"],
                    case.to_dict() | {"flagged": highest["flagged"]},
                )
            )
    if not named:
        raise UsageError(
            f"no row of this table has this id; ids are compared as text, and {stream.n_rows} rows were read"
        )
    return max(named, key=lambda row: row[:2])[2]
