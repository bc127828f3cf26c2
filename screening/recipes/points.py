"""Tables of points: a published score such as NEWS2, or one of a ward's own."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, model_validator

from screening.contract.contract import Feature
from screening.contract.parsing import TRUTHS

Points = Annotated[float, Field(allow_inf_nan=False)]


class Item(BaseModel):
    """Points for the values of one column: by cut points, or by single values.

    Parameters
    ----------
    column : str
        Name of the feature.
    up_to : list of float
        Cut points in rising order; each belongs to the interval below it.
    from : list of float
        The same, but each cut point belongs to the interval above it.
    points : list of float
        Points of the intervals, one more than there are cut points.
    values : dict of str to float
        Points of single values: of a category's texts, or of "yes" and "no".
    other : float, optional
        Points of values that `values` does not list; by default those of a missing
        value.
    missing : float, optional
        Points of a missing value, where they differ from the table's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    up_to: list[Points] = []
    from_: list[Points] = Field([], alias="from")
    points: list[Points] = []
    values: dict[str, Points] = {}
    other: Points | None = None
    missing: Points | None = None

    @model_validator(mode="after")
    def _check_one_form(self) -> Item:
        """Raise ValueError unless points go with cuts, or with single values."""
        n_forms = sum(map(bool, (self.up_to, self.from_, self.values)))
        if n_forms != 1:
            raise ValueError(
                f"{self.column}: give `points` with either `up_to` or `from`, or give "
                "`values`"
            )
        if self.values:
            return self
        cuts = self.cuts
        if sorted(set(cuts)) != cuts:
            raise ValueError(f"{self.column}: cut points must increase")
        if len(self.points) != len(cuts) + 1:
            raise ValueError(
                f"{self.column}: {len(cuts)} cut points need {len(cuts) + 1} points"
            )
        return self

    @property
    def cuts(self) -> list[float]:
        """Cut points between intervals."""
        return self.up_to or self.from_

    def points_of(
        self, values: np.ndarray, feature: Feature, missing: float
    ) -> np.ndarray:
        """Return the points of a column's values, float64 of shape (n_rows,).

        Parameters
        ----------
        values : ndarray of shape (n_rows,)
            As `Cohort.values` has them.
        feature : Feature
        missing : float
            Points of a missing value, unless the item has its own.
        """
        if self.missing is not None:
            missing = self.missing
        is_missing = pd.isna(values)
        if self.values:
            points = self._of_single_values(values, feature, missing)
        else:
            side: Literal["left", "right"] = "left" if self.up_to else "right"
            numbers = np.asarray(values, dtype=float)
            interval = np.searchsorted(self.cuts, numbers, side)
            points = np.array(self.points, dtype=float)[interval]
        return np.where(is_missing, missing, points)

    def _of_single_values(
        self, values: np.ndarray, feature: Feature, missing: float
    ) -> np.ndarray:
        """Return the points of values that are listed one by one, (n_rows,)."""
        other = missing if self.other is None else self.other
        points = np.full(len(values), other, dtype=float)
        for text, of_text in self.values.items():
            points[values == _typed(text, feature)] = of_text
        return points

    def fault(self, feature: Feature) -> str | None:
        """Return why a feature cannot have these points; None if it can."""
        if self.cuts and feature.type != "number":
            return f"{self.column} has cut points, so its type must be number"
        for text in self.values:
            try:
                _typed(text, feature)
            except (KeyError, ValueError):
                return (
                    f"{text!r} is not a value of {self.column}, of type {feature.type}"
                )
        return None


def _typed(text: str, feature: Feature) -> float | str:
    """Return a value as `Cohort.values` has it; KeyError, ValueError for no such."""
    if feature.type == "number":
        return float(text)
    if feature.type == "boolean":
        return TRUTHS[text.lower()]
    if feature.type == "ordinal":
        return float((feature.categories or []).index(text))
    return text


class PointsTable(BaseModel):
    """The [points] table of a recipe: the score is the sum of the points of its items.

    Parameters
    ----------
    missing : float or "leave_out"
        Points of a missing value; or a row with one is left out and counted.
    items : list of Item
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    missing: Points | Literal["leave_out"]
    items: Annotated[list[Item], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_columns(self) -> PointsTable:
        """Raise ValueError if a column has several items."""
        self._refuse_unlisted()
        columns = [item.column for item in self.items]
        repeated = {column for column in columns if columns.count(column) > 1}
        if repeated:
            raise ValueError(
                f"{', '.join(sorted(repeated))}: these columns occur "
                "twice; give one item per column"
            )
        return self

    def _refuse_unlisted(self) -> None:
        """Raise ValueError for values without points in rows that need all of them.

        They are not missing, so their rows are not left out, and would have no points.
        """
        if self.missing != "leave_out":
            return
        for item in self.items:
            is_stated = item.missing is not None or item.other is not None
            if item.values and not is_stated:
                raise ValueError(
                    f'{item.column}: with missing = "leave_out", give `other` for '
                    'all other values; on_unseen = "refuse_row" in the contract '
                    "leaves out rows with a new value"
                )

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the items."""
        return [item.column for item in self.items]

    @property
    def points_if_missing(self) -> float:
        """Points of a missing value, where rows with one are not left out."""
        return 0.0 if self.missing == "leave_out" else self.missing
