"""What a cohort's table must look like: the roles of its columns and the type of every feature."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from screening.cohort.contract_text import contract_toml
from screening.errors import CohortError, UsageError
from screening.files import read_bounded

FORMAT = 1
MOST_BYTES = 16 << 20


def _texts(value: Any) -> Any:
    """A bare value becomes a list of one, a number its text, so `positive = 1` reads well."""
    items = [value] if isinstance(value, str | int | float) else value
    if not isinstance(items, list | tuple):
        return items
    return [str(item) if type(item) in (int, float) else item for item in items]


def _name(value: Any) -> Any:
    return None if value == "" else value


Texts = Annotated[list[str], BeforeValidator(_texts)]
Name = Annotated[str | None, BeforeValidator(_name)]


class Feature(BaseModel):
    """One feature column: its type, its ranges and what is done where it is missing.

    Attributes
    ----------
    type : {"number", "ordinal", "category", "boolean"}
    unit : str, optional
        Unit of the values, for display only.
    usual : (low, high), optional
        Range shown to the reader beside a value; nothing is refused for it.
    plausible : (low, high), optional
        Values outside are violations.
    categories : list of str, optional
        Known texts; for an ordinal feature their order. Where given, any other text is a violation.
    missing : {"impute", "indicator", "refuse", "category"}
        Median or most frequent value; the same and an extra 0/1 column; a violation; a level of its own.
    missing_values : list of str
        Texts that mean missing, such as "NA". An empty cell always does.
    censored : {"refuse", "limit", "half"}
        "<5" is refused, read as 5, or read as 2.5; ">90" is refused or read as 90.
    normalise : "within_group", optional
        Subtract the mean of the row's group and divide by its standard deviation.
    available : {"before", "after"}
        Whether the value is known before the outcome; one that is not is left out of every model.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["number", "ordinal", "category", "boolean"]
    unit: str | None = None
    usual: tuple[float, float] | None = None
    plausible: tuple[float, float] | None = None
    categories: Annotated[list[str] | None, BeforeValidator(_texts)] = None
    missing: Literal["impute", "indicator", "refuse", "category"] = "impute"
    missing_values: Texts = []
    censored: Literal["refuse", "limit", "half"] = "refuse"
    normalise: Literal["within_group"] | None = None
    available: Literal["before", "after"] = "before"
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
        if self.normalise and not numeric:
            raise ValueError('`normalise` is for type "number"')
        if self.censored != "refuse" and not numeric:
            raise ValueError('`censored` is for type "number"')
        return self

    def shown(self, value: Any) -> str:
        """A typed value of this feature as a reader would write it; "missing" where there is none."""
        if value is None or value != value:
            return "missing"
        if self.type == "ordinal" and self.categories:
            return self.categories[min(max(round(float(value)), 0), len(self.categories) - 1)]
        if self.type == "boolean":
            return "yes" if float(value) >= 0.5 else "no"
        return f"{float(value):.6g}" if self.type == "number" else str(value)


class Contract(BaseModel):
    """Roles and features of a cohort; in TOML under `[cohort]`, and one `[features.NAME]` each.

    Attributes
    ----------
    id, group, label, time : str, optional
        Columns: the row's identity, what must not be split, the outcome, the date.
    positive : list of str
        Label texts that count as positive.
    subgroup, coordinates, drop : list of str
        Columns for reporting by subgroup, voxel coordinates (x, y, z), columns that are not read.
    on_violation : {"stop", "refuse_rows"}
        Stop at any violation, or leave the offending rows out and count them.
    features : dict of Feature
        In the order of the encoded columns. Empty: inferred from the table.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    title: str | None = None
    intended_use: str | None = None
    id: Name = None
    group: Name = None
    label: Name = None
    positive: Texts = []
    time: Name = None
    subgroup: Texts = []
    coordinates: Texts = []
    drop: Texts = []
    on_violation: Literal["stop", "refuse_rows"] = "stop"
    prevalence: Annotated[float, Field(gt=0, lt=1)] | None = None
    minutes_per_review: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    capacity: Annotated[int, Field(gt=0)] | None = None
    features: dict[str, Feature] = {}

    @model_validator(mode="after")
    def _roles_agree(self) -> Contract:
        roles = {"id": self.id, "label": self.label, "group": self.group, "time": self.time}
        taken: dict[str, str] = {}
        for role, column in roles.items():
            if not column:
                continue
            if column in taken and {role, taken[column]} != {"id", "group"}:
                raise ValueError(f"column '{column}' is both {taken[column]} and {role}; give each its own")
            taken[column] = role
            if column in self.features:
                raise ValueError(f"column '{column}' is the {role} and a feature; remove it from [features]")
        for column in self.drop:
            if column in taken or column in self.features:
                raise ValueError(f"column '{column}' is dropped and used; remove it from `drop` or elsewhere")
        if self.coordinates and len(set(self.coordinates)) != 3:
            raise ValueError("`coordinates` must name three columns, x, y, z")
        normalised = [name for name, feature in self.features.items() if feature.normalise]
        if normalised and not self.group:
            raise ValueError(f"`normalise` of '{normalised[0]}' needs `group` under [cohort]")
        return self

    @classmethod
    def load(cls, path: str | Path) -> Contract:
        """Read a contract from a TOML file.

        Raises
        ------
        UsageError
            There is no such file.
        CohortError
            The file is no TOML or breaks the rules of a contract; every fault is named.
        """
        path = Path(path)
        try:
            content = tomllib.loads(read_bounded(path, MOST_BYTES, UsageError).decode("utf-8-sig"))
        except RecursionError:
            raise CohortError(f"{path.name}: tables are nested too deeply for a contract") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise CohortError(
                f"{path.name}: not a TOML file in UTF-8 ({error}); correct that line"
            ) from error
        return cls.from_dict(content, place=path.name)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], place: str = "contract") -> Contract:
        """Build a contract from the nested form of `to_dict` or of the TOML file."""
        known = ("format", "cohort", "features", "feature_order")
        faults = [
            f"{place}: unknown key '{key}'; known are [cohort], [features.NAME] and format"
            for key in content
            if key not in known
        ]
        roles, features = content.get("cohort", {}), content.get("features", {})
        for key, value in (("cohort", roles), ("features", features)):
            if not isinstance(value, Mapping):
                faults.append(f"{place}: '{key}' must be a table, [{key}]")
        order = content.get("feature_order", [])
        if not isinstance(order, list) or not all(isinstance(name, str) for name in order):
            faults.append(f"{place}: 'feature_order' must be a list of names")
        number = content.get("format", FORMAT)
        if number != FORMAT:
            faults.append(f"{place}: format {number} is not known here; this version reads format {FORMAT}")
        if faults:
            raise CohortError(faults)
        for key in ("features", "format"):
            if key in roles:
                raise CohortError(f"{place}: unknown key cohort.{key}; it stands outside [cohort]")
        ordered = {name: features[name] for name in [*(one for one in order if one in features), *features]}
        try:
            return cls(**roles, features=ordered)
        except ValidationError as error:
            raise CohortError([_fault(place, dict(item)) for item in error.errors()]) from error
        except TypeError as error:
            raise CohortError(f"{place}: keys of [cohort] must be names") from error

    def to_dict(self) -> dict[str, Any]:
        """The nested form, ready for JSON; `feature_order` keeps the order where keys are sorted."""
        plain = self.model_dump(mode="json")
        features = plain.pop("features")
        number = plain.pop("format")
        return {"format": number, "cohort": plain, "features": features, "feature_order": [*features]}

    def to_toml(self, notes: Sequence[str] = ()) -> str:
        """The contract as a TOML text that `load` reads back; `notes` become comments at its head."""
        return contract_toml(self.model_dump(mode="json", exclude_defaults=True), notes)

    def with_roles(self, **roles: Any) -> Contract:
        """The same contract with other roles (values that are None or empty are left as they are)."""
        content = self.to_dict()
        content["cohort"].update({role: value for role, value in roles.items() if value})
        return Contract.from_dict(content)

    def columns(self) -> list[str]:
        """Columns a table must have, each once; the label is not among them."""
        roles = [self.id, self.group, self.time, *self.subgroup, *self.coordinates]
        return list(dict.fromkeys([*(name for name in roles if name), *self.features]))


def _fault(place: str, item: dict[str, Any]) -> str:
    location = [str(part) for part in item["loc"]]
    key = ".".join(location) if location[:1] == ["features"] else ".".join(["cohort", *location])
    if item["type"] == "extra_forbidden":
        model: type[BaseModel] = Feature if location[:1] == ["features"] else Contract
        known = ", ".join(name for name in model.model_fields if name not in ("features", "format"))
        return f"{place}: unknown key {key}; known: {known}"
    message = item["msg"].removeprefix("Value error, ")
    return f"{place}: {key.removesuffix('cohort.')}: {message}"
