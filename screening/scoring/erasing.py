"""Patients leave a run directory: its tables, its document and its page name them no more; counts stay."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from screening.cohort.id_hash import kept_lot
from screening.documents.drift import without_unit
from screening.files import digest_of
from screening.scoring.spreadsheet import as_written
from screening.storage.sealing import written

TABLES = ("scores.parquet", "flagged.csv")
LISTED = ("cases", "near_misses", "groups")
NAMES = ("id", "group")


def names_in(folder: Path, document: Mapping[str, Any], name: str | None) -> bool:
    """Whether a run names the patient, or anybody where no name is given."""
    return without(document, name) != document or any(
        not _others(batch, name).all() for batch in _batches(folder / "scores.parquet")
    )


def rewrite(source: Path, folder: Path, document: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """Write tables and document of a run without a patient, or without anybody, into another folder.

    Parameters
    ----------
    source, folder : Path
        The run, and where it is to be written.
    document : mapping
        Its `run.json`.
    name : str, optional
        Id of a row, or of the group that rows belong to.

    Returns
    -------
    dict
        The document as it is sealed now.
    """
    rewrite_scores(source / "scores.parquet", folder / "scores.parquet", name)
    if (source / "flagged.csv").exists():
        _rewrite_flagged(source / "flagged.csv", folder / "flagged.csv", name)
    fewer = without(document, name)
    if fewer.get("outputs") is not None:
        there = [path for path in map(folder.joinpath, TABLES) if path.exists()]
        fewer["outputs"] = {path.name: digest_of(path) for path in sorted(there)}
    fewer, text = written(fewer)
    (folder / "run.json").write_bytes(text)
    return fewer


def without(document: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """The run's document in which a patient, or nobody at all, is named."""
    fewer, gone = dict(document), set[str]()

    def goes(*names: object) -> bool:
        mine = [str(each) for each in names if each is not None and name in (None, str(each))]
        gone.update(mine[-1:])
        return bool(mine)

    for part in LISTED:
        if document.get(part):
            listed = document[part]
            fewer[part] = [each for each in listed if not goes(*(each.get(key) for key in NAMES))]
    fewer["sample"] = [each for each in document["sample"] if not goes(each)]
    if document.get("since"):
        left = [each for each in document["since"]["gone"] if not goes(each)]
        fewer["since"] = document["since"] | {"gone": left}
    if document.get("voxels"):
        shown = [each for each in document["voxels"]["patients"] if not goes(each["group"])]
        fewer["voxels"] = document["voxels"] | {"patients": shown}
    if document.get("geometries"):
        fewer["geometries"] = [each for each in document["geometries"] if not goes(each["group"])]
    drift = document.get("drift")
    if drift:
        lot = None if name is None else kept_lot(name, document["model"]["digest"])
        fewer["drift"] = without_unit(drift, lot)
    if not gone:
        return fewer
    if document.get("groups"):
        # A run that does not say how many patients it had counts those it lists.
        hit = sum(bool(each["flagged"]) for each in document["groups"])
        fewer["groups_total"] = _known(document.get("groups_total"), len(document["groups"]))
        fewer["groups_flagged"] = _known(document.get("groups_flagged"), hit)
    fewer["cases_shown"] = len(fewer["cases"])
    fewer["cases_explained"] = sum(each.get("contributions") is not None for each in fewer["cases"])
    fewer["erased"] = document.get("erased", 0) + len(gone)
    return fewer


def rewrite_scores(source: Path, target: Path, name: str | None) -> None:
    """Copy a table of rows by `id`, and `group` where it has one, without a patient or without anybody."""
    with pq.ParquetWriter(target, pq.read_schema(source)) as table:
        for batch in _batches(source):
            table.write_batch(batch.filter(pa.array(_others(batch, name))))


def _batches(source: Path) -> Any:
    with pq.ParquetFile(source) as table:
        yield from table.iter_batches()


def _others(batch: pa.RecordBatch, name: str | None) -> np.ndarray:
    """Which rows are not of the patient, shape (n_rows,)."""
    others = np.full(batch.num_rows, name is not None)
    for column in NAMES:
        if column in batch.schema.names:
            others &= batch.column(column).to_numpy(zero_copy_only=False) != name
    return others


def _rewrite_flagged(source: Path, target: Path, name: str | None) -> None:
    with (
        source.open(encoding="utf-8", newline="") as old,
        target.open("w", encoding="utf-8", newline="") as new,
    ):
        lines, table = csv.reader(old), csv.writer(new)
        head = next(lines, [])
        table.writerow(head)
        places = [head.index(column) for column in NAMES if column in head]
        for line in lines:
            if name is not None and name not in [as_written(line[place]) for place in places]:
                table.writerow(line)


def _known(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
