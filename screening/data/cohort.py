"""The parsed rows of a cohort."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from screening.clock.conversion import local_times
from screening.clock.zone import clock_of
from screening.contract.contract import Contract, ScoreKind
from screening.data.labels import positive_classes
from screening.errors import UsageError
from screening.io.columns import Columns, count_values, frame_of
from screening.io.readers import Source
from screening.schemas.base import Reason

NO_LABEL = "this cohort was read without a label; name its column with `label`"
# The fields with one value a row.
ROW_FIELDS = (
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
    "out_of_bounds",
    "hour",
    "weight",
    "copy_of",
    "fold",
)


@dataclass(frozen=True)
class Cohort:
    """Parsed rows of a cohort, in the order of the table.

    Attributes
    ----------
    values : dict of str to ndarray
        Features in the order of the contract, each of shape (n_rows,). Numbers are
        float64; ordinal features float64 codes from 0; booleans float64 0 or 1;
        categories text. Missing is NaN, or None for text. Normalised where the contract
        says so.
    id : ndarray of str, shape (n_rows,)
        Row numbers where the contract names no id.
    group, label : ndarray of str, shape (n_rows,), or None
        A missing label is "".
    time : ndarray of datetime64[us], shape (n_rows,), or None
        Instants, in UTC; `days` has the days of the contract's clock.
    coordinates : ndarray of float, shape (n_rows, 3), or None
    subgroups : dict of str to ndarray, or None
    raw : dict of str to ndarray, or None
        Values of the normalised features before normalisation.
    rows : ndarray of int, shape (n_rows,)
        Row numbers in the table; 1 is the first data row of the first file.
    contract : Contract
    source : Source
    notes : list of str
        What was detected or inferred.
    refused : dict of str to int
        Number of rows left out, by reason.
    display : dict of str to ndarray, or None
        Columns shown beside a patient on the page; read for scoring only.
    out_of_bounds : ndarray of object, shape (n_rows,), or None
        A tuple of `OddCell` for a row with cells out of bounds, which are missing among
        its values, and None for any other row; tested for scoring only.
    hour : ndarray of datetime64[us], shape (n_rows,), or None
        Instants at which the table was taken, where the contract names their column;
        read for scoring only.
    weight : ndarray of float, shape (n_rows,), or None
        How much each row counts while machines are fitted; all alike where None.
    copy_of : ndarray of int, shape (n_rows,), or None
        A number that all copies of a row share: they are in one fold. None if rows have
        no copies.
    fold : ndarray of int, shape (n_rows,), or None
        Number of the caller's fold for each row, from 0; None to split the rows.
    guesses : list of str
        Notes on the columns that were guessed to have a role.
    doubts : list of Reason
        Unconfirmed guesses that change what a model finds.
    score_kind : {"probability", "percent", "points"} or None
        What the contract's score is by its values, if the contract does not state it.
    """

    values: Columns
    id: np.ndarray
    group: np.ndarray | None
    label: np.ndarray | None
    time: np.ndarray | None
    coordinates: np.ndarray | None
    subgroups: Columns | None
    raw: Columns | None
    rows: np.ndarray
    contract: Contract
    source: Source = field(default_factory=partial(Source, ()))
    notes: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    display: Columns | None = None
    out_of_bounds: np.ndarray | None = None
    hour: np.ndarray | None = None
    weight: np.ndarray | None = None
    copy_of: np.ndarray | None = None
    fold: np.ndarray | None = None
    guesses: list[str] = field(default_factory=list)
    doubts: list[Reason] = field(default_factory=list)
    score_kind: ScoreKind | None = None

    def __repr__(self) -> str:
        # Ids and values belong in no log.
        return f"<Cohort: {self.n_rows} rows, {len(self.names)} features>"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.id)

    @property
    def days(self) -> np.ndarray | None:
        """Rows' days by the contract's clock, None without times."""
        if self.time is None:
            return None
        clock = clock_of(self.contract.time_zone)
        return local_times(self.time, clock).astype("datetime64[D]")

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return list(self.values)

    @cached_property
    def features(self) -> pd.DataFrame:
        """Features as a frame of shape (n_rows, n_features)."""
        return frame_of(self.values)

    @property
    def measured(self) -> Columns:
        """Features before any normalisation within the group."""
        return {**self.values, **(self.raw or {})}

    def take(self, indices: ArrayLike) -> Cohort:
        """Take the rows at `indices` (positions or a boolean mask) as a cohort."""
        selected = np.asarray(indices)
        if selected.dtype == bool and selected.all():
            return self
        return _map_rows(lambda values: values[selected], self)

    def with_features(self, contract: Contract) -> Cohort:
        """Return the rows with the features of a contract that may have fewer."""
        if contract is self.contract:
            return self
        values = {name: self.values[name] for name in contract.features}
        raw = None
        if self.raw is not None:
            raw = {name: cells for name, cells in self.raw.items() if name in values}
        return replace(self, contract=contract, values=values, raw=raw)

    @property
    def labels(self) -> np.ndarray:
        """Label texts, shape (n_rows,); raise UsageError without a label."""
        if self.label is None:
            raise UsageError(NO_LABEL, parameters=["label"])
        return self.label

    @cached_property
    def n_by_label(self) -> Mapping[str, int]:
        """Number of rows with each label text; raise UsageError without a label."""
        counts = count_values(self.labels)
        counts.pop("", None)
        return counts

    @property
    def classes(self) -> list[str]:
        """Sorted texts of the label; raise UsageError without a label."""
        return sorted(self.n_by_label)

    @cached_property
    def positives(self) -> dict[str, tuple[str, ...]]:
        """Positive classes that the contract names, each with its label texts.

        If it names none, the likely case of two.
        """
        return self.classes_named(self.contract.positive)

    def classes_named(self, names: str | Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return classes by their names, such as "A+B", each with its label texts.

        Without names it is the likely case of two classes.
        """
        each = [names] if isinstance(names, str) else names
        return positive_classes(self.n_by_label, each, self.contract)

    def y(self, positive: str | Sequence[str] | None = None) -> np.ndarray:
        """Return 1 for rows of a positive class, else 0; shape (n_rows,).

        Parameters
        ----------
        positive : str or sequence of str, optional
            Names of the classes; by default as for `positives`.
        """
        classes = self.classes_named(positive) if positive else self.positives
        labels = list(chain.from_iterable(classes.values()))
        return np.isin(self.labels, labels).astype(np.int64)


def concatenate(batches: Sequence[Cohort]) -> Cohort:
    """Return consecutive batches as one cohort."""
    if len(batches) == 1:
        return batches[0]
    return _map_rows(lambda *arrays: np.concatenate(arrays), *batches)


def _map_rows(
    function: Callable[..., np.ndarray], first: Cohort, *others: Cohort
) -> Cohort:
    """Return a cohort with `function` applied to the row fields of all."""
    fields: dict[str, Any] = {}
    for name in ROW_FIELDS:
        value = getattr(first, name)
        values = [value, *(getattr(cohort, name) for cohort in others)]
        if isinstance(value, Mapping):
            joined = {}
            for column in value:
                joined[column] = function(*(columns[column] for columns in values))
            fields[name] = joined
        elif value is not None:
            fields[name] = function(*values)
    return replace(first, **fields)
