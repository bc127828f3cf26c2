"""What a night brings to the ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from screening.documents import Reason
from screening.ledger import audit

Decided = Callable[[Mapping[str, int], int], Sequence[Reason]]
"""Why a night wants attention, given the counts of its cases and the nights in a row without one."""


def _nothing(counts: Mapping[str, int], quiet: int) -> Sequence[Reason]:
    return ()


def series_by(named: str | None, question: Mapping[str, object]) -> str:
    """The name of a series, or the digest of its question where it has none."""
    return named or hashlib.sha256(audit.plain(dict(question)).encode()).hexdigest()


@dataclass(frozen=True)
class NightCases:
    """What a night brings to the ledger.

    Parameters
    ----------
    key : str
        Digest of model, input, settings, series and date.
    question : mapping
        What is asked of the table: label, positive values, id and group columns.
    night : str
        YYYY-MM-DD.
    flagged : tuple of str
        Ids of flagged cases (groups where rows come in groups), each once.
    sampled : tuple of str
        Ids of those drawn at random from the rest.
    facts : mapping
        Figures for `screen history`; of patients only the hashes under `drift`.
    recognisable : bool
        Whether an id means the same patient on another night. Where no column names the rows it does not.
    known_days : int
        How long somebody confirmed stays known, counted from the night of the verdict.
    draw : int
        New cases to mark by lot for review, whatever their rank.
    attention : callable
        Decides why the night wants attention, once the ledger has told what it knows.
    named : str, optional
        Name of the series, where somebody named it.
    shadow : bool
        Scored beside the champion: nothing of it is in force.
    """

    key: str
    question: Mapping[str, object]
    night: str
    flagged: tuple[str, ...]
    sampled: tuple[str, ...]
    facts: Mapping[str, object]
    recognisable: bool = True
    known_days: int = 30
    draw: int = 5
    attention: Decided = _nothing
    named: str | None = None
    shadow: bool = False

    @property
    def series(self) -> str:
        """The key under which nights follow each other."""
        return series_by(self.named, self.question)

    @property
    def model(self) -> str:
        """Digest of the model."""
        return str(self.facts["model"])

    @property
    def beside(self) -> str | None:
        """The model where it was scored in shadow: its nights follow each other."""
        return self.model if self.shadow else None
