"""What is wrong with lines of a source, counted and named by file and line.

A line is never shown: neither a value nor an id is part of a fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

MAX_PLACES = 3


class FaultKind(Enum):
    """What can be wrong with a line; the run goes on but for `NOT_JSON`.

    Each has a sentence and what follows for the line, or a remedy.
    """

    NOT_JSON = (
        "the line cannot be read as JSON",
        "write the export again: one resource a line, in UTF-8",
    )
    NO_TIME = ("the time is missing or is not a time", "the line is left out")
    LOST_TIME = (
        "the local time does not exist (summer time begins)",
        "read as later by as much as clocks are put forward",
    )
    TWICE_TIME = (
        "the local time exists twice (summer time ends)",
        "read as the first of the two; export times with their zone",
    )
    NO_SUBJECT = ("the subject is missing", "the line is left out")
    NO_CODE = ("the code is missing", "the line is left out")
    NOT_A_NUMBER = ("the value is not a number", "kept as text, not as a value")
    COMPARATOR = (
        "the value is a number with a comparator, such as <5",
        "left without a value, even that of an earlier version",
    )
    TWO_SYSTEMS = (
        "the code is given in two systems",
        "the line is read once for each; name one of the two in a feature",
    )
    NEGATIVE_DURATION = ("the end is before the beginning", "the stay is left out")
    NO_END = ("the end is missing", "the stay counts as open")
    REPEATED = ("the line repeats another one", "counted once")
    OTHER_DAY = (
        "the line's day is not the day in the file's path",
        "nights that do not need the path's day skip the line; correct the path",
    )
    MERGE_CIRCLE = ("patients are merged in a circle", "the line is left out")

    def __init__(self, sentence: str, treatment: str):
        self.sentence = sentence
        self.treatment = treatment


@dataclass
class Faults:
    """Faults by kind and file: how many, and the lines of the first ones.

    Parameters
    ----------
    counts : dict from (FaultKind, str) to int
        Number of faults of a kind in a file or table.
    lines : dict from (FaultKind, str) to list of int
        Numbers of the first lines, counted from 1; of a CSV file the header is line 1.
    """

    counts: dict[tuple[FaultKind, str], int] = field(default_factory=dict)
    lines: dict[tuple[FaultKind, str], list[int]] = field(default_factory=dict)

    def add(self, connection: duckdb.DuckDBPyConnection, query: str) -> None:
        """Count the faults that a query finds, one of a kind in a line.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection
        query : str
            A SELECT of three columns: `kind`, the name of a `FaultKind`, `file` and
            `line`.
        """
        answer = connection.execute(
            f"SELECT kind, file, count(*), list_sort(min(line, {MAX_PLACES})) "
            f"FROM (SELECT DISTINCT kind, file, line FROM ({query})) "
            "GROUP BY kind, file ORDER BY kind, file"
        )
        for kind, file, count, lines in answer.fetchall():
            key = (FaultKind[kind], file)
            known = self.lines.get(key, [])
            self.counts[key] = self.counts.get(key, 0) + count
            self.lines[key] = sorted([*known, *lines])[:MAX_PLACES]

    def sentences(self) -> Iterator[str]:
        """Yield each kind of fault of each file in a sentence, by file and line."""
        for (kind, file), count in sorted(
            self.counts.items(), key=lambda item: (item[0][1], item[0][0].name)
        ):
            places = ", ".join(f"{line:,}" for line in self.lines[kind, file])
            more = ", ..." if count > len(self.lines[kind, file]) else ""
            plural = "s" if count > 1 else ""
            yield (
                f"{file}: {kind.sentence} ({count:,} line{plural}: {places}{more}); "
                f"{kind.treatment}"
            )
