"""Read how rare the scores of tonight's cases were on the nights before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
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
    runs: Sequence[Path | None], numbers: Mapping[str, Sequence[str]]
) -> dict[str, list[float | None]]:
    """Return the p-values of some ids (or groups) on some nights, by id.

    Parameters
    ----------
    runs : sequence of Path or None
        Run directory of each night.
    numbers : mapping of str to sequence of str
        All ids of each patient, by id: numbers may have been merged.

    Returns
    -------
    dict
        For a group, or for several ids, the p-value of the highest row. None for a
        night without a row of the id, without a valid run directory, or with very many
        rows.
    """
    every = [*dict.fromkeys(chain.from_iterable(numbers.values()))]
    nights = [_p_values_in(run, every) for run in runs]
    return {
        name: [_lowest(night, of_patient) for night in nights]
        for name, of_patient in numbers.items()
    }


def _lowest(p_values: Mapping[str, float], names: Sequence[str]) -> float | None:
    """Return the lowest p-value of some ids on a night; None if none was scored."""
    found = [p_values[name] for name in names if name in p_values]
    return min(found, default=None)


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
