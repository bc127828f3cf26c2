"""What a reader of documents sees of the contract in them; the contract's own type reads and checks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from screening.documents.shape import read
from screening.documents.tables import Table

T = TypeVar("T")


@dataclass(frozen=True)
class Stated:
    """What the contract says of the cohort as a whole; None where it says nothing."""

    title: str | None = None
    intended_use: str | None = None
    group: str | None = None
    subgroup: Sequence[str] = ()
    coordinates: Sequence[str] = ()
    prevalence: float | None = None
    minutes_per_review: float | None = None
    capacity: int | None = None
    review_by: str | None = None


@dataclass(frozen=True)
class Declared:
    """What the contract says of a feature."""

    type: str | None = None
    unit: str | None = None
    usual: Sequence[float] | None = None
    categories: Sequence[str] | None = None
    normalise: str | None = None
    description: str | None = None

    @property
    def on_other_scale(self) -> bool:
        """Whether a range learned in training cannot stand beside the raw value: normalised in the group."""
        return bool(self.normalise) and not self.usual


def seen(declared: type[T], stored: Table) -> T:
    """Those keys of a stored table that `declared` has, whatever else is in it.

    Raises
    ------
    ModelError
        Naming a key of a wrong type.
    """
    names = {field.name for field in fields(declared)}  # type: ignore[arg-type]
    known = {name: value for name, value in stored.items() if name in names}
    return read(declared, known, "the contract")
