"""The flagged rows of a finished run, read back once every digest agrees."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from screening.documents.run import RunDocument
from screening.documents.shape import read
from screening.errors import ModelError, UsageError
from screening.files import digest_of, read_bounded
from screening.scoring.flags import COLUMNS, as_written
from screening.storage.serialization import as_stored, read_document

MOST_BYTES = 1 << 30
Cell = str | int | float | bool | None
NUMBERS = {"rank": int, "score": float, "p_value": float, "nights": int, "chance": float, "chance_low": float,
           "chance_high": float}  # fmt: skip


@dataclass(frozen=True)
class FlaggedRow:
    """One flagged row: what every run says of it, and by their names what this run says besides."""

    rank: int
    id: str
    group: str
    watched: str
    score: float
    p_value: float
    further: Mapping[str, Cell]

    @property
    def subject(self) -> str:
        """Who is meant: the patient where rows come in patients, else the row."""
        return self.group or self.id

    def cells(self) -> list[Cell]:
        """The values by the names of `FlaggedRows.columns`, behind those of the run."""
        stated: list[Cell] = [self.rank, self.id, self.group, self.watched, self.score, self.p_value]
        return [*stated, *self.further.values()]


@dataclass(frozen=True)
class FlaggedRows:
    """The flagged rows of a run, the highest score first."""

    run: RunDocument
    further: Sequence[str]
    rows: Sequence[FlaggedRow]

    @property
    def columns(self) -> list[str]:
        """Names for a table: nights lie one below the other in it, so each row says whose it is."""
        return ["run_id", "date", *COLUMNS, *self.further]

    def table(self) -> Iterator[list[Cell]]:
        """Rows by the names of `columns`."""
        return ([self.run.run_id, self.run.date, *row.cells()] for row in self.rows)


def read_flagged(directory: str | Path) -> FlaggedRows:
    """Read the flagged rows of a run directory.

    Raises UsageError: it is a shadow run. Raises ModelError: a digest does not agree, or the run is of a
    version that noted none.
    """
    folder = Path(directory)
    stored = read_document(folder, "run")
    with as_stored(folder / "run.json"):
        run = read(RunDocument, stored, "run.json")
    if not run.outputs:
        raise ModelError(f"{folder} was written by a version that noted no digests; score the night again")
    for name, digest in run.outputs.items():
        path = folder / name
        if not path.is_file() or digest_of(path) != digest:
            raise ModelError(
                f"{path} is missing or damaged: its digest does not match; score the night again"
            )
    if "flagged.csv" not in run.outputs:
        raise UsageError(f"{folder} is a shadow run; nothing of it is handed on")
    content = read_bounded(folder / "flagged.csv", MOST_BYTES, ModelError).decode("utf-8")
    table = csv.DictReader(io.StringIO(content, newline=""))
    further = [name for name in table.fieldnames or () if name not in COLUMNS]
    with as_stored(folder / "flagged.csv"):
        return FlaggedRows(run, further, [_row(cells, further) for cells in table])


def _row(cells: Mapping[str, str], further: Sequence[str]) -> FlaggedRow:
    return FlaggedRow(
        rank=int(cells["rank"]),
        id=as_written(cells["id"]),
        group=as_written(cells["group"]),
        watched=as_written(cells["class"]),
        score=float(cells["score"]),
        p_value=float(cells["p_value"]),
        further={name: _cell(name, cells[name] or "") for name in further},
    )


def _cell(name: str, text: str) -> Cell:
    if name == "drawn":
        return text == "yes"
    if name in NUMBERS:
        return NUMBERS[name](text) if text else None
    return as_written(text)
