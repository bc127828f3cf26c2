"""Why one row of a run was flagged or not: from what the run kept, or worked out again from the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from screening.data.stream import CohortStream
from screening.errors import UsageError
from screening.io.opening import Readable
from screening.scoring.cases import explained
from screening.store.model import Model, score_batch
from screening.store.serialization import read_document

REMEDY = "give --model and --cohort, the ones of this run, to work its reasons out again"


def explain(
    run: str | Path, name: str, model: Model | None = None, cohort: Readable | None = None
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
    document = read_document(run, "run")
    if (model is None) != (cohort is None):
        raise UsageError("--model and --cohort belong together: reasons are worked out from both")
    case = _kept(document, name)
    if model is not None and cohort is not None:
        found = _worked_out(document, name, model, cohort)
        if case is not None and case["row"] == found["row"]:
            # What only the run knows of it, such as its rank.
            found |= {key: case[key] for key, value in found.items() if value is None}
        return {"run": document, "case": found}
    if case is None:
        raise UsageError(_unknown(Path(run), name, document))
    if case.get("contributions") is None:
        raise UsageError(
            f"this case is number {case['rank']} of {document['cases_total']} flagged, and reasons were kept "
            f"for the first {document['cases_explained']} only; {REMEDY}"
        )
    return {"run": document, "case": case}


def _kept(document: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The row of this id among those that the page names, else the first row of the group of this id."""
    listed = [case | {"flagged": True} for case in document["cases"]]
    listed += [case | {"flagged": False} for case in document["near_misses"]]
    for unit in ("id", "group"):
        for case in listed:
            if case[unit] == name:
                return case
    return None


def _unknown(run: Path, name: str, document: dict[str, Any]) -> str:
    try:
        units = [unit for unit in ("id", "group") if unit in pq.read_schema(run / "scores.parquet").names]
        rows = [
            pq.read_table(run / "scores.parquet", columns=["flagged"], filters=pc.field(unit) == name)
            for unit in units
        ]
    except OSError:
        return f"the page of this run names no row of this id; {REMEDY}"
    flagged = [each["flagged"] for each in rows if each.num_rows]
    if not flagged:
        scored = f"{document['counts']['scored']} rows were scored"
        erased = ", of which some were erased since" if document.get("erased") else ""
        return f"no row of this run has this id; ids are compared as text, and {scored}{erased}"
    if pc.any(flagged[0]).as_py():
        return f"this row was flagged, but the page names {document['cases_shown']} only; {REMEDY}"
    return f"this row was scored and not flagged, and reasons are kept for the nearest misses only; {REMEDY}"


def _as_it_was(model: Model, then: dict[str, Any]) -> Model:
    """The run's model: itself, or with the threshold it had where only another was chosen since."""
    if model.digest == then["digest"]:
        return model
    now = model.sealed
    if any(now[part] != then.get(part) for part in ("arrays_sha256", "validation_sha256")):
        raise UsageError(
            f"--model is model {model.id}, but the run was scored by {then['id']}; give that one"
        )
    return replace(model, document={key: value for key, value in then.items() if key not in ("id", "digest")})


def _worked_out(document: dict[str, Any], name: str, model: Model, cohort: Readable) -> dict[str, Any]:
    model = _as_it_was(model, document["model"])
    stream = model.opened(cohort, gated=False)
    digests = [file.sha256 for file in stream.source.files]
    if digests != [file["sha256"] for file in document["input"]["files"]]:
        raise UsageError(
            "--cohort is not the table of this run: its SHA-256 differs; give the one it was given"
        )
    return explained_row(model, stream, name)


def explained_row(model: Model, stream: CohortStream, name: str) -> dict[str, Any]:
    """One row of a table by all its values, found by its id or that of its group, as `run.json` has cases.

    Raises UsageError: no row has this id.
    """
    best: tuple[tuple[bool, float], dict[str, Any]] | None = None
    for batch in stream:
        alike = batch.id == name
        named = bool(alike.any())
        if not named and batch.group is not None:
            alike = batch.group == name
        if not alike.any():
            continue
        rows = batch.take(alike)
        if model.lesions is None:
            table = score_batch(model, rows).rows
        else:  # A voxel's score is that of the clusters around it.
            table = score_batch(model, batch).rows.filter(pa.array(alike))
        scores = table["score"].to_numpy()
        at = int(np.argmax(scores))
        if best is None or (named, scores[at]) > best[0]:
            (case,) = explained(model, rows.take([at]), table.slice(at, 1), most=None)
            best = (named, scores[at]), case.to_dict() | {"flagged": table["flagged"][at].as_py()}
    if best is None:
        raise UsageError(
            f"no row of this table has this id; ids are compared as text, and {stream.n_rows} rows were read"
        )
    return best[1]
