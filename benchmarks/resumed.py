"""A CSV that a benchmark fills piece by piece: a piece that is in it is not run
again.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd


def run_missing(
    out: Path,
    columns: Sequence[str],
    by: Sequence[str],
    pieces: Iterable[tuple[Any, ...]],
    rows_of: Callable[..., Iterable[Mapping[str, object]]],
    finished: Callable[[pd.DataFrame], pd.Series] | None = None,
) -> None:
    """Append `rows_of(*piece)` for every piece that is not there, each as soon as it is
    run.

    The first values of a piece are those of the columns `by`. It is there where a row
    has them; with `finished`, where one of the rows that this picks has them.
    """
    if not out.exists():
        out.write_text(",".join(columns) + "\n")
    rows = pd.read_csv(out, low_memory=False)
    rows = rows if finished is None else rows[finished(rows)]
    known = {
        tuple(map(str, key)) for key in rows[[*by]].itertuples(index=False, name=None)
    }
    for piece in pieces:
        if tuple(map(str, piece[: len(by)])) not in known:
            found = list(rows_of(*piece))
            with out.open("a", newline="") as file:
                csv.DictWriter(file, columns).writerows(found)
