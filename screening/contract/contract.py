"""What a cohort's table must look like: the roles of its columns and the type of every feature."""

from __future__ import annotations

import csv
import datetime
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tomlkit
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from screening.errors import CohortError, UsageError
from screening.files import read_bounded, read_toml
from screening.spelling import did_you_mean, series_name

FORMAT = 1
# Columns of a voxel's place, as images have them.
AXES = ("x", "y", "z")
MOST_BYTES = 16 << 20
HEAD = "Review every line. To set a key behind a #, take the # away. All keys: docs/contract.md."
# The keys that every contract names, and what stands there of one that is not set.
ON_TOP = {
    "title": "",
    "intended_use": "",
    "series": "",
    "id": "",
    "group": "",
    "label": "",
    "positive": [],
    "time": "",
    "subgroup": [],
    "display": [],
    "drop": [],
    "prevalence": 0.1,
    "minutes_per_review": 0.1,
    "capacity": 5,
}


def _texts(value: object) -> object:
    """A bare value becomes a list of one, a number its text, so `positive = 1` reads well."""
    items = value if isinstance(value, list | tuple) else [value]
    return [str(item) if type(item) in (int, float) else item for item in items]


def _lower_first(bounds: tuple[float, float]) -> tuple[float, float]:
    if not all(map(math.isfinite, bounds)) or bounds[0] > bounds[1]:
        raise ValueError("write two finite numbers, the lower first")
    return bounds


def _categories(texts: list[str]) -> list[str]:
    if (
        not texts
        or len(set(texts)) != len(texts)
        or any(not text or text != text.strip() for text in texts)
    ):
        raise ValueError(
            "`categories` must name texts, none twice, none empty or with spaces at an end"
        )
    return texts


Texts = Annotated[list[str], BeforeValidator(_texts)]
Name = Annotated[
    str | None, BeforeValidator(lambda value: None if value == "" else value)
]
Range = Annotated[tuple[float, float], AfterValidator(_lower_first)]
OnUnseen = Literal["unknown", "refuse_row", "stop"]
OnUnitChange = Literal["stop", "attention"]
# Of keys that not every feature may have, the types that may.
MEANT_FOR = {
    **dict.fromkeys(
        ("reference", "seen", "plausible", "normalise", "censored"), ("number",)
    ),
    "categories": ("ordinal", "category"),
    "labels": ("category",),
}
MISSING_OF = {"category": "category", "no": "boolean"}


class Feature(BaseModel):
    """One feature column: its type, its ranges and what is done where it is missing."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    type: Literal["number", "ordinal", "category", "boolean"]
    """How the cells are read; an ordinal feature is one of texts that have an order. A category of more than
    30 values, such as a code, is learned from by the beginnings that many of them share."""
    unit: str | None = None
    """Unit of the values; shown; the conversions that a night is tested for follow from it."""
    reference: Range | None = None
    """Reference range of a laboratory or a clinic; a value outside is marked H or L, and none is refused."""
    seen: Range | None = None
    """Range in past patients, as `screen init` finds it; shown where there is no reference range."""
    plausible: Range | None = None
    """Values outside are violations."""
    categories: (
        Annotated[list[str], BeforeValidator(_texts), AfterValidator(_categories)]
        | None
    ) = None
    """Known texts; for an ordinal feature their order. Where given, any other text is a violation in a table
    to train on; in one to score `on_unseen` decides."""
    labels: dict[str, str] | None = None
    """What the codes of a category mean, shown beside them; or the name of a CSV file beside the contract, of
    two columns, code and words."""
    missing: Literal["impute", "indicator", "refuse", "category", "no"] = "impute"
    """Median or most frequent value; the same and an extra 0/1 column; a violation; a level of its own; of a
    boolean that is ticked or left blank, no."""
    missing_values: Texts = []
    """Texts that mean missing, such as "NA". An empty cell always does."""
    censored: Literal["refuse", "limit", "half"] = "refuse"
    """"<5" is refused, read as 5, or read as 2.5; ">90" is refused or read as 90."""
    normalise: Literal["within_group", "within_group_robust"] | None = None
    """Subtract the mean of the row's group and divide by its standard deviation; or the median, and divide by
    1.4826 times the median distance from it, which a lesion or an artefact hardly moves."""
    available: Literal["before", "after"] = "before"
    """Whether the value is known before the outcome; one that is not is left out of every model."""
    on_unseen: OnUnseen | None = None
    """As in `Contract`, for this feature alone."""
    on_unit_change: OnUnitChange | None = None
    """As in `Contract`, for this feature alone."""
    title: str | None = None
    """Name of the column on the page; its own name with spaces where absent."""
    description: str | None = None
    """What the column is, in words for the page."""

    @model_validator(mode="after")
    def _fits_its_type(self) -> Feature:
        for key, types in MEANT_FOR.items():
            if (
                self.type not in types
                and getattr(self, key) != type(self).model_fields[key].default
            ):
                raise ValueError(
                    f"`{key}` is for type {' and '.join(types)}; remove it, or set another type"
                )
        if self.type == "ordinal" and self.categories is None:
            raise ValueError(
                "an ordinal feature needs `categories`, from lowest to highest"
            )
        if self.missing in ("category", "no") and self.type != MISSING_OF[self.missing]:
            raise ValueError(
                f'`missing = "{self.missing}"` is for type {MISSING_OF[self.missing]}'
            )
        return self

    def shown(self, value: float | str | None) -> str:
        """A typed value of this feature as a reader would write it; "missing" where there is none."""
        if value is None or value != value:
            return "missing"
        if self.type == "ordinal" and self.categories:
            return self.categories[
                min(max(round(float(value)), 0), len(self.categories) - 1)
            ]
        if self.type == "boolean":
            return "yes" if float(value) >= 0.5 else "no"
        if self.type == "number":
            return f"{float(value):.6g}"
        return f"{value} {(self.labels or {}).get(str(value), '')}".rstrip()


def _day(value: Any) -> datetime.date | None:
    """A day only: neither a time of day nor a number of seconds."""
    try:
        return (
            value
            if type(value) in (datetime.date, type(None))
            else datetime.date.fromisoformat(value)
        )
    except (TypeError, ValueError):
        raise ValueError("write a day as YYYY-MM-DD") from None


class Contract(BaseModel):
    """Roles and features of a cohort; in TOML under `[cohort]`, and one `[features.NAME]` each."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    title: str | None = None
    """What stands at the head of every page."""
    intended_use: str | None = None
    """Purpose and population; it stands below the title."""
    series: Annotated[
        str | None, AfterValidator(lambda name: series_name(name) if name else None)
    ] = None
    """Name under which the ledger has this screen's nights follow each other, such as ward-7.sepsis."""
    id: Name = None
    """Column that names a row; without one, rows are known by their numbers."""
    group: Name = None
    """Column whose rows are never split over folds, such as the patient."""
    group_stem: bool = False
    """Names in `group` count a patient's rows, as voice_07_1 and voice_07_2 do: their stem is the patient."""
    fill_down: Texts = []
    """Columns that stand in a patient's first row only, as merged cells do: blanks below have its value."""
    label: Name = None
    """Column of the outcome; read for training and evaluation only."""
    positive: Texts = []
    """Label texts to find, each a class of its own; "A+B" joins A and B into one."""
    negative: Texts = []
    """Rare label texts, or ones like another, that are meant as they stand and are not positive."""
    time: Name = None
    """Column of the row's date."""
    date_order: Literal["dmy", "mdy"] | None = None
    """Whether day or month leads in dates such as 01/02/2024; those that begin with the year need none."""
    subgroup: Texts = []
    """Columns whose values the figures are also given by."""
    coordinates: Texts = []
    """Columns of a voxel's place: x, y, z."""
    neighbourhood: Annotated[int, Field(ge=3, le=15)] | None = None
    """Side of the cube around a voxel, such as 3: mean, standard deviation and gradient of every channel in
    it become features, within the mask."""
    display: Texts = []
    """Columns shown beside a patient on the page and in flagged.csv, such as ward, bed and name; the page
    filters by the first. Read when a night is scored, never learned from unless listed under features."""
    drop: Texts = []
    """Columns that are not read."""
    on_violation: Literal["stop", "refuse_rows"] = "stop"
    """Stop at any violation, or leave the offending rows out and count them."""
    on_unseen: OnUnseen = "unknown"
    """A row to score whose category training never saw is scored as unknown, left out, or stops the run."""
    on_unit_change: OnUnitChange = "stop"
    """A column in other units than the model's stops the run, or is said on its page."""
    prevalence: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of cases expected at scoring, where it is not that of the training table."""
    minutes_per_review: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Minutes that one review takes, for the workload on the page."""
    capacity: PositiveInt | None = None
    """Reviews that a night has room for; more flagged than that is said at the head of the page."""
    review_sample: NonNegativeInt = 5
    """Size of each night's random audit of flagged cases without a verdict (needs a ledger)."""
    known_days: NonNegativeInt = 30
    """How long a confirmed case is known when it is flagged again."""
    verdicts_need: list[Literal["site", "initials"]] = []
    """What a verdict must say of its reviewer; one without it is refused."""
    files_per_night: PositiveInt | None = None
    """Files that a night's table comes in, such as one a ward; not held against the table to train on."""
    rows_per_night: (
        Annotated[tuple[NonNegativeInt, int], AfterValidator(_lower_first)] | None
    ) = None
    """Rows that a night's table has, such as [60, 120]; not held against the table to train on."""
    review_by: Annotated[datetime.date | None, BeforeValidator(_day)] = None
    """Day from which on every night asks for a review of the model; two years after training without it."""
    features: dict[str, Feature] = {}
    """In the order of the encoded columns. Empty: inferred from the table."""

    @model_validator(mode="after")
    def _roles_agree(self) -> Contract:
        roles = {
            "id": self.id,
            "label": self.label,
            "group": self.group,
            "time": self.time,
        }
        taken: dict[str, str] = {}
        for role, column in roles.items():
            if not column:
                continue
            if column in taken and {role, taken[column]} != {"id", "group"}:
                raise ValueError(
                    f"column '{column}' is both {taken[column]} and {role}; give each its own"
                )
            taken[column] = role
            if column in self.features:
                raise ValueError(
                    f"column '{column}' is the {role} and a feature; remove it from [features]"
                )
        for column in self.drop:
            if column in taken or column in self.features or column in self.display:
                raise ValueError(
                    f"column '{column}' is dropped and used; remove it from `drop` or elsewhere"
                )
        if self.label in self.display:
            raise ValueError(
                f"column '{self.label}' is the label and displayed; remove it from `display`"
            )
        both = sorted({*self.positive} & {*self.negative})
        if both:
            raise ValueError(
                f"label '{both[0]}' is both `positive` and `negative`; name it once"
            )
        if (self.neighbourhood or 1) % 2 == 0:
            raise ValueError(
                "`neighbourhood`: the side of a cube around a voxel is odd, such as 3"
            )
        if self.coordinates and len(set(self.coordinates)) != 3:
            raise ValueError("`coordinates` must name three columns, x, y, z")
        normalised = [
            name for name, feature in self.features.items() if feature.normalise
        ]
        if normalised and not self.group:
            raise ValueError(
                f"`normalise` of '{normalised[0]}' needs `group` under [cohort]"
            )
        return self

    @classmethod
    def load(cls, path: str | Path) -> Contract:
        """Read a TOML file; UsageError where there is none, CohortError with every fault."""
        path = Path(path)
        content = read_toml(path, MOST_BYTES, CohortError)
        features = content.get("features")
        for feature in features.values() if isinstance(features, dict) else ():
            if isinstance(feature, dict) and isinstance(feature.get("labels"), str):
                table = read_bounded(
                    path.parent / feature["labels"], MOST_BYTES, UsageError
                )
                rows = csv.reader(
                    table.decode("utf-8-sig", errors="replace").splitlines()
                )
                feature["labels"] = {
                    row[0].strip(): row[1].strip() for row in rows if len(row) >= 2
                }
        return cls.from_dict(content, place=path.name)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], place: str = "contract") -> Contract:
        """Build a contract from the nested form of `to_dict` or of the TOML file."""
        try:
            nested = _Nested.model_validate(content)
            names = [
                *filter(nested.features.__contains__, nested.feature_order),
                *nested.features,
            ]
            features = {name: nested.features[name] for name in names}
            return cls.model_validate({**nested.cohort, "features": features})
        except ValidationError as error:
            raise CohortError(_faults(place, error)) from error

    def to_dict(self) -> dict[str, Any]:
        """The nested form, ready for JSON; `feature_order` keeps the order where keys are sorted."""
        plain = self.model_dump(mode="json")
        features = plain.pop("features")
        return {
            "format": FORMAT,
            "cohort": plain,
            "features": features,
            "feature_order": [*features],
        }

    def to_toml(self, notes: Sequence[str] = ()) -> str:
        """A TOML text that `load` reads back, roles that matter on top, `notes` as comments at the end."""
        stated = self.model_dump(mode="json", exclude_defaults=True)
        lines = [f"# {HEAD}", "", f"format = {FORMAT}", "", "[cohort]"]
        for name, field in Contract.model_fields.items():
            meaning = re.split(
                r"[.;:](?: |$)", " ".join((field.description or "").split())
            )[0]
            if name in stated and name != "features":
                lines.append(f"{name} = {toml_text(stated[name])}  # {meaning}")
            elif name in ON_TOP:
                lines.append(f"# {name} = {toml_text(ON_TOP[name])}  # {meaning}")
        for name, values in stated.get("features", {}).items():
            lines += ["", f"[features.{tomlkit.key(name).as_string()}]"]
            lines += [f"{key} = {toml_text(value)}" for key, value in values.items()]
        if notes:
            printable = (
                "".join(char if char.isprintable() else " " for char in note)
                for note in notes
            )
            lines += ["", "# What was guessed, inferred and dropped:"]
            lines += [f"# - {' '.join(note.split())}" for note in printable]
        return "\n".join(lines) + "\n"

    def with_roles(self, **roles: str | Sequence[str] | int | None) -> Contract:
        """The same contract with the roles that are given here, whose columns are no features then."""
        given: dict[str, Any] = {role: value for role, value in roles.items() if value}
        if not given:
            return self
        content = self.to_dict()
        taken = {
            *given.get("drop", ()),
            *(given.get(role) for role in ("label", "id", "group")),
        }
        features = {
            name: feature
            for name, feature in content["features"].items()
            if name not in taken
        }
        stated = {"cohort": content["cohort"] | given, "features": features}
        return Contract.from_dict(content | stated)

    def policy(self, key: Literal["on_unseen", "on_unit_change"], name: str) -> str:
        """What is done with feature `name` where the case of that key comes."""
        return getattr(self.features[name], key) or getattr(self, key)

    def columns(self) -> list[str]:
        """Columns a table must have, each once; neither the label nor those only displayed are among them."""
        roles = [self.id, self.group, self.time, *self.subgroup, *self.coordinates]
        return list(dict.fromkeys([*(name for name in roles if name), *self.features]))


def _format(number: int) -> int:
    if number != FORMAT:
        raise ValueError(
            f"format {number} is not known here; this version reads format {FORMAT}"
        )
    return number


class _Nested(BaseModel):
    """The form of the TOML file and of `Contract.to_dict`."""

    model_config = ConfigDict(extra="forbid")

    format: Annotated[int, AfterValidator(_format)] = FORMAT
    cohort: dict[str, Any] = {}
    features: dict[str, Any] = {}
    feature_order: list[str] = []


def _faults(place: str, error: ValidationError) -> list[str]:
    """Describe what a contract breaks; misplaced keys of one table are one fault."""
    faults = []
    misplaced: dict[str, list[str]] = {}
    for item in error.errors():
        if _is_misplaced(item):
            feature = str(item["loc"][1])
            misplaced.setdefault(feature, []).append(f"`{item['loc'][2]}`")
        else:
            faults.append(_fault(place, error.title, item))
    for feature, keys in misplaced.items():
        faults.append(
            f"{place}: under [features.{feature}] stand {', '.join(keys)}, which belong "
            "under [cohort]; move these lines above the first [features...] table"
        )
    return faults


def _is_misplaced(item: ErrorDetails) -> bool:
    """Return True for a key of [cohort] that stands in the table of a feature."""
    in_feature = len(item["loc"]) == 3 and item["loc"][0] == "features"
    unknown = item["type"] == "extra_forbidden"
    return in_feature and unknown and item["loc"][2] in Contract.model_fields


def _fault(place: str, title: str, item: ErrorDetails) -> str:
    location, keys = (
        [str(part) for part in item["loc"]],
        ["[cohort]", "[features.NAME]", "format"],
    )
    if title == Contract.__name__:
        of_feature = location[:1] == ["features"]
        keys = [*(Feature if of_feature else Contract).model_fields]
        location = location if of_feature else ["cohort", *location]
    key = ".".join(location)
    if item["type"] == "extra_forbidden":
        hint = did_you_mean(location[-1], keys) or f"; known: {', '.join(keys)}"
        return f"{place}: unknown key {key}{hint}"
    return f"{place}: {key}: {item['msg'].removeprefix('Value error, ')}"


def toml_text(value: object) -> str:
    """A value as TOML has it, a table within its line."""
    if isinstance(value, Mapping):
        within = tomlkit.inline_table()
        within.update(value)
        return within.as_string()
    return tomlkit.item(value).as_string()
