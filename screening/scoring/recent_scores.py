"""Read how rare the scores of tonight's cases were on the nights before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from screening.errors import ScreenError
from screening.scoring.rows import Rows, refuse_altered
from screening.store.serialization import read_run

# Rows of a night from which on its scores are not read again for the page.
MAX_ROWS = 200_000


def recent_p_values(
    runs: Sequence[Path | None], names: Sequence[str]
) -> dict[str, list[float | None]]:
    """Return the p-values of some ids (or groups) on some nights, by id.

    Parameters
    ----------
    runs : sequence of Path or None
        Run directory of each night.
    names : sequence of str

    Returns
    -------
    dict
        Of a group the p-value of its highest row. None for a night without a row of
        the id, without a sound run directory, or with very many rows.
    """
    nights = [_p_values_in(run, names) for run in runs]
    p_values = {}
    for name in names:
        p_values[name] = [night.get(name) for night in nights]
    return p_values


def _p_values_in(run: Path | None, names: Sequence[str]) -> dict[str, float]:
    """Return the p-values of some ids in a run directory; none where it is unsound."""
    if run is None or not names:
        return {}
    path = run / "scores.parquet"
    try:
        document = read_run(run)
        if document.counts.scored > MAX_ROWS or not document.outputs:
            return {}
        refuse_altered(path, document.outputs[path.name])
    except (ScreenError, OSError):
        return {}
    unit = Rows(path).unit
    is_named = pc.field(unit).isin(pa.array(names, pa.string()))
    rows = pq.read_table(path, columns=[unit, "p_value"], filters=is_named)
    lowest = rows.group_by(unit).aggregate([("p_value", "min")])
    return dict(
        zip(lowest[unit].to_pylist(), lowest["p_value_min"].to_pylist(), strict=True)
    )
