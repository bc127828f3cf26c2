"""The rows of a cohort once they are typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from screening.contract.contract import Contract
from screening.data.labels import positive_classes
from screening.errors import UsageError
from screening.io.columns import Columns, frame_of
from screening.io.readers import Source

# The fields that hold a value a row.
ROWWISE = (
    "values",
    "id",
    "group",
    "label",
    "time",
    "coordinates",
    "subgroups",
    "raw",
    "rows",
    "display",
)


@dataclass(frozen=True)
class Cohort:
    """Typed rows of a cohort, in the order of the table; every array has shape (n_rows,) or (n_rows, ...)."""

    # The features in contract order. number: float64; ordinal: float64 codes from 0; boolean: float64 0/1;
    # category: text. Missing: NaN, or None for text. Normalised where the contract says so.
    values: Columns
    id: np.ndarray  # text; the row number where the contract names no id
    group: np.ndarray | None  # text
    label: np.ndarray | None  # text, "" where it is missing
    time: np.ndarray | None  # datetime64[us]
    coordinates: np.ndarray | None  # shape (n_rows, 3)
    subgroups: Columns | None
    raw: Columns | None  # values before normalisation of the normalised features
    rows: (
        np.ndarray
    )  # row numbers in the table, 1 being the first data row of the first file
    contract: Contract
    source: Source
    notes: list[str] = field(default_factory=list)  # what was detected or inferred
    refused: dict[str, int] = field(default_factory=dict)  # rows left out, by reason
    display: Columns | None = (
        None  # what stands beside a patient on the page; read for scoring only
    )

    def __repr__(self) -> str:
        return f"<Cohort: {self.n_rows} rows, {len(self.names)} features>"  # ids and values belong in no log

    @property
    def n_rows(self) -> int:
        return len(self.id)

    @property
    def names(self) -> list[str]:
        return list(self.values)

    @cached_property
    def features(self) -> pd.DataFrame:
        """The features as a frame, shape (n_rows, n_features)."""
        return frame_of(self.values)

    @property
    def measured(self) -> Columns:
        """The features as their reader knows them: before any normalisation within the group."""
        return {**self.values, **(self.raw or {})}

    def take(self, indices: ArrayLike) -> Cohort:
        """The rows at `indices` (positions or a boolean mask) as a cohort of their own."""
        kept = np.asarray(indices)
        return (
            self
            if kept.dtype == bool and kept.all()
            else _rowwise(lambda values: values[kept], self)
        )

    @property
    def classes(self) -> list[str]:
        """Sorted texts of the label, missing ones apart; UsageError where it was read without one."""
        return sorted({text for text in labels_of(self) if text})

    def positives(
        self, positive: str | Sequence[str] | None = None
    ) -> dict[str, tuple[str, ...]]:
        """The positive classes, each with its labels: those named, the contract's, or the likely case."""
        named = (
            [positive]
            if isinstance(positive, str)
            else list(positive or self.contract.positive)
        )
        counts = Counter(text for text in labels_of(self).tolist() if text)
        return positive_classes(counts, named, self.contract)

    def y(self, positive: str | Sequence[str] | None = None) -> np.ndarray:
        """0/1 per row, shape (n_rows,), 1 where the label is of one of `positives(positive)`."""
        labels = [
            label for labels in self.positives(positive).values() for label in labels
        ]
        return np.isin(labels_of(self), labels).astype(np.int64)


def labels_of(cohort: Cohort) -> np.ndarray:
    """The cohort's label text, shape (n_rows,); UsageError where it was read without one."""
    if cohort.label is None:
        raise UsageError(
            "this cohort was read without a label; name its column with --label"
        )
    return cohort.label


def joined(batches: Sequence[Cohort]) -> Cohort:
    """One cohort of consecutive batches."""
    return (
        batches[0]
        if len(batches) == 1
        else _rowwise(lambda *parts: np.concatenate(parts), *batches)
    )


def _rowwise(
    change: Callable[..., np.ndarray], first: Cohort, *others: Cohort
) -> Cohort:
    """The first cohort with what is made of every array that holds a value a row."""
    rows: dict[str, Any] = {}
    for name in ROWWISE:
        parts = [getattr(cohort, name) for cohort in (first, *others)]
        if isinstance(parts[0], Mapping):
            rows[name] = {
                column: change(*(part[column] for part in parts)) for column in parts[0]
            }
        elif parts[0] is not None:
            rows[name] = change(*parts)
    return replace(first, **rows)
