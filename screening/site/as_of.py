"""Whether a source still gives, for a past night, the rows that the night had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from screening.errors import ModelError, UsageError
from screening.features.table import Features
from screening.io.opening import source_at
from screening.io.readers import MAX_BLOCK_CELLS, SourceFile
from screening.schemas.history import AsOf
from screening.schemas.model import FileFacts
from screening.site.site import Network
from screening.store.serialization import read_model, read_run

# The scored rows of a run directory, with their ids.
SCORES = "scores.parquet"


def table_as_of(network: Network, series: str, night: str) -> AsOf:
    """Make the table of a past night again, and compare it with the scored one.

    Parameters
    ----------
    network : Network
    series : str
        Its table is made by a spec of features, or by a query that takes the night.
    night : str
        YYYY-MM-DD.

    Returns
    -------
    AsOf
        Numbers of rows that are new or gone, and names of the columns that changed.

    Raises
    ------
    UsageError
        The night has no run, or its source knows no past.
    """
    if not network.has_nights(series):
        raise UsageError(
            f"series {series}: its source returns the current rows; use `:night` in "
            "the query, {date} in the table's name, or features"
        )
    out = network.out(series, night)
    try:
        run = read_run(out)
    except ModelError:
        raise UsageError(f"series {series} has no run for {night} in {out}") from None
    plan = network.series[series]
    id_column = read_model(plan.model).contract["cohort"]["id"]
    scored = pq.read_table(out / SCORES, columns=["id"])["id"]
    if plan.features is not None:
        made = Features(plan.features).make_night(night, covered=False).table
        stored = Path(network.cohort(series, night))
        before = pq.read_table(stored) if stored.is_file() else None
        ids = made["id"]
        changed = None if before is None else _changed(before, made)
        is_same = before is not None and made.equals(before)
    else:
        (table,) = source_at(network.source(series, night)).files
        (file,) = run.input.files
        ids = _ids(table, id_column) if id_column else scored
        changed = _changed_by_digests(file, table)
        is_same = table.sha256 == file.sha256
    new, gone = _differences(ids, scored)
    return AsOf(
        series=series,
        night=night,
        same=is_same,
        rows=len(ids),
        new=new,
        gone=gone,
        columns=changed,
    )


def _changed(before: pa.Table, now: pa.Table) -> list[str]:
    """Return the columns in which rows that both tables have differ, and lost ones."""
    names = [*dict.fromkeys([*before.column_names, *now.column_names])]
    in_both = pc.is_in(before["id"], now["id"])
    old = before.filter(in_both).sort_by("id")
    new = now.filter(pc.is_in(now["id"], before["id"])).sort_by("id")
    return [
        name
        for name in names
        if name not in old.column_names
        or name not in new.column_names
        or not old[name].combine_chunks().equals(new[name].combine_chunks())
    ]


def _changed_by_digests(file: FileFacts, table: SourceFile) -> list[str] | None:
    """Return the columns whose values have other digests; None if none were kept."""
    now = table.origin.get("columns")
    if file.columns is None or not isinstance(now, Mapping):
        return None
    names = dict.fromkeys([*file.columns, *now])
    return [name for name in names if file.columns.get(name) != now.get(name)]


def _ids(table: SourceFile, column: str) -> pa.ChunkedArray:
    """Return the ids of a table as texts."""
    batches = table.record_batches([column], MAX_BLOCK_CELLS)
    cells = [pc.cast(batch.column(0), pa.string()) for batch in batches]
    return pa.chunked_array(cells, pa.string())


def _differences(now: pa.ChunkedArray, before: pa.ChunkedArray) -> tuple[int, int]:
    """Return how many ids are new, and how many are gone."""
    ids = set(now.to_pylist())
    scored = set(before.to_pylist())
    return len(ids - scored), len(scored - ids)


def as_of_words(found: Sequence[AsOf]) -> list[str]:
    """Return what was found of each series in a sentence."""
    lines = []
    for line in found:
        if line.same:
            words = f"the same {line.rows:,} rows as on its night"
        else:
            words = (
                f"the table differs from that of its night: {line.new:,} rows are new, "
                f"{line.gone:,} are missing"
            )
            if line.columns:
                words += f"; changed columns: {', '.join(line.columns)}"
            elif line.columns is None:
                words += "; the night stored nothing to compare columns with"
        lines.append(f"{line.series}, {line.night}: {words}")
    return lines
