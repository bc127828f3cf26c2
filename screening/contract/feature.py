"""A feature column of a contract: its type, its ranges, and what is done where it is missing or strange."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator


def _texts(value: object) -> object:
    """A bare value becomes a list of one, a number its text, so `positive = 1` reads well."""
    items = [value] if isinstance(value, str | int | float) else value
    if not isinstance(items, list | tuple):
        return items
    return [str(item) if type(item) in (int, float) else item for item in items]


def _name(value: object) -> object:
    return None if value == "" else value


Texts = Annotated[list[str], BeforeValidator(_texts)]
Name = Annotated[str | None, BeforeValidator(_name)]
OnUnseen = Literal["unknown", "refuse_row", "stop"]
OnUnitChange = Literal["stop", "attention"]


class Feature(BaseModel):
    """One feature column: its type, its ranges and what is done where it is missing.

    Attributes
    ----------
    type : {"number", "ordinal", "category", "boolean"}
        How the cells are read; an ordinal feature is one of texts that have an order.
    unit : str, optional
        Unit of the values; shown, and tells which conversions a night can have gone through.
    usual : (low, high), optional
        Range shown to the reader beside a value; nothing is refused for it.
    plausible : (low, high), optional
        Values outside are violations.
    categories : list of str, optional
        Known texts; for an ordinal feature their order. Where given, any other text is a violation in a table
        to train on; in one to score `on_unseen` decides.
    missing : {"impute", "indicator", "refuse", "category", "no"}
        Median or most frequent value; the same and an extra 0/1 column; a violation; a level of its own; of
        a boolean that is ticked or left blank, no.
    missing_values : list of str
        Texts that mean missing, such as "NA". An empty cell always does.
    censored : {"refuse", "limit", "half"}
        "<5" is refused, read as 5, or read as 2.5; ">90" is refused or read as 90.
    normalise : {"within_group", "within_group_robust"}, optional
        Subtract the mean of the row's group and divide by its standard deviation; or the median, and divide
        by 1.4826 times the median distance from it, which a lesion or an artefact hardly moves.
    available : {"before", "after"}
        Whether the value is known before the outcome; one that is not is left out of every model.
    description : str, optional
        What the column is, in words for the page.
    on_unseen, on_unit_change : optional
        As in `Contract`, for this feature alone.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["number", "ordinal", "category", "boolean"]
    unit: str | None = None
    usual: tuple[float, float] | None = None
    plausible: tuple[float, float] | None = None
    categories: Annotated[list[str] | None, BeforeValidator(_texts)] = None
    missing: Literal["impute", "indicator", "refuse", "category", "no"] = "impute"
    missing_values: Texts = []
    censored: Literal["refuse", "limit", "half"] = "refuse"
    normalise: Literal["within_group", "within_group_robust"] | None = None
    available: Literal["before", "after"] = "before"
    on_unseen: OnUnseen | None = None
    on_unit_change: OnUnitChange | None = None
    description: str | None = None

    @model_validator(mode="after")
    def _fits_its_type(self) -> Feature:
        numeric = self.type == "number"
        for key in ("usual", "plausible"):
            bounds = getattr(self, key)
            if bounds is None:
                continue
            if not numeric:
                raise ValueError(f'`{key}` is for numbers only; remove it or set type = "number"')
            if not all(map(math.isfinite, bounds)) or bounds[0] > bounds[1]:
                raise ValueError(f"`{key}` must be two finite numbers, the lower first")
        if self.categories is not None:
            if self.type not in ("ordinal", "category"):
                raise ValueError('`categories` is for types "ordinal" and "category"')
            if not self.categories or len(set(self.categories)) != len(self.categories):
                raise ValueError("`categories` must name at least one text, and none twice")
            if any(text != text.strip() or not text for text in self.categories):
                raise ValueError("`categories` must not hold empty texts or spaces at an end")
        if self.type == "ordinal" and self.categories is None:
            raise ValueError("an ordinal feature needs `categories`, from lowest to highest")
        if self.missing == "category" and self.type != "category":
            raise ValueError('`missing = "category"` is for type "category"; use "indicator"')
        if self.missing == "no" and self.type != "boolean":
            raise ValueError('`missing = "no"` is for type "boolean"; use "impute" or "indicator"')
        if self.normalise and not numeric:
            raise ValueError('`normalise` is for type "number"')
        if self.censored != "refuse" and not numeric:
            raise ValueError('`censored` is for type "number"')
        return self

    def shown(self, value: float | str | None) -> str:
        """A typed value of this feature as a reader would write it; "missing" where there is none."""
        if value is None or value != value:
            return "missing"
        if self.type == "ordinal" and self.categories:
            return self.categories[min(max(round(float(value)), 0), len(self.categories) - 1)]
        if self.type == "boolean":
            return "yes" if float(value) >= 0.5 else "no"
        return f"{float(value):.6g}" if self.type == "number" else str(value)
