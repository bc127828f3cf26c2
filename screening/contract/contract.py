"""The contract of a cohort: the roles of its columns and the type of every feature."""

from __future__ import annotations

import csv
import datetime
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

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

from screening.clock.zone import HourOrColumn, ZoneName, hours_from, is_hour
from screening.contract.choices import OnUnitChange, OnUnseen, Unlabelled
from screening.errors import MAX_FAULTS_SHOWN, CohortError, UsageError
from screening.files import read_bounded, read_toml
from screening.io.date_formats import DateNumbers, DateOrder
from screening.spelling import did_you_mean, series_name

FORMAT = 1
# Columns of a voxel's position, as images have them.
AXES = ("x", "y", "z")
MAX_BYTES = 16 << 20
TOML_HEADER = (
    "Review every line. To set a key after a #, remove the #. All keys: "
    "docs/contract.md."
)
# Keys that every written contract shows; those not set follow a #, with this value.
SHOWN_KEYS = {
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
    "score": "",
    "show": [],
    "drop": [],
    "prevalence": 0.1,
    "minutes_per_review": 0.1,
    "capacity": 5,
}


def _list_of_texts(value: object) -> list[object]:
    """Convert to a list of texts, so that `positive = 1` is valid."""
    items = value if isinstance(value, list | tuple) else [value]
    return [str(item) if type(item) in (int, float) else item for item in items]


def _check_range(bounds: tuple[float, float]) -> tuple[float, float]:
    """Check bounds; ValueError unless they are finite and in order."""
    lower, upper = bounds
    if not math.isfinite(lower) or not math.isfinite(upper) or lower > upper:
        raise ValueError("write two finite numbers, the lower first")
    return bounds


def _check_categories(categories: list[str]) -> list[str]:
    """Check categories; ValueError if one is empty, padded or repeated."""
    are_distinct = len(set(categories)) == len(categories)
    are_trimmed = all(text and text == text.strip() for text in categories)
    if not categories or not are_distinct or not are_trimmed:
        raise ValueError(
            "`categories` must be distinct texts, not empty, and without leading or "
            "trailing spaces"
        )
    return categories


def _none_if_empty(value: object) -> object:
    """Return None for an empty text, so that `group = ""` names no column."""
    return None if value == "" else value


Texts = Annotated[list[str], BeforeValidator(_list_of_texts)]
EMPTY_IS_NONE = BeforeValidator(_none_if_empty)
Name = Annotated[str | None, EMPTY_IS_NONE]
Range = Annotated[tuple[float, float], AfterValidator(_check_range)]
# Keys that only features of some types may have.
TYPES_OF_KEY = {
    "reference": ("number",),
    "reference_source": ("number",),
    "seen": ("number",),
    "plausible": ("number",),
    "normalise": ("number",),
    "censored": ("number",),
    "categories": ("ordinal", "category"),
    "labels": ("category",),
}
# Values of `missing` that only features of one type may have.
TYPE_OF_MISSING = {"category": "category", "no": "boolean"}


CLOSED = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True
)
"""Configuration of the parts of a contract; their keys are documented beside them."""


class Feature(BaseModel):
    """A feature column: its type, its ranges and the treatment of missing cells."""

    model_config = CLOSED

    type: Literal["number", "ordinal", "category", "boolean"]
    """Type of the cells; ordinal texts have an order. More than 30 categories, such as
    codes, are grouped by common prefixes."""
    unit: str | None = None
    """Unit of the values; shown, and used to detect other units."""
    reference: Range | None = None
    """Reference range. Values outside are marked H or L, and never refused."""
    reference_source: str | None = None
    """Source of the reference range, with its year; shown with the range."""
    seen: Range | None = None
    """Range in past patients, written by `screen init`; shown if there is no reference
    range."""
    plausible: Range | None = None
    """Range of possible values, by default wider than the training range. A value
    outside is a violation in training. In scoring, the row is listed and scored without
    the value."""
    categories: (
        Annotated[
            list[str],
            BeforeValidator(_list_of_texts),
            AfterValidator(_check_categories),
        ]
        | None
    ) = None
    """Known texts, ordinal ones in their order. 2.0 is read as 2 if only 2 is listed.
    Any other text is a violation in training; in scoring, `on_unseen` decides. Messages
    quote only texts that occur in five rows or more."""
    labels: dict[str, str] | None = None
    """Meanings of codes, shown next to them; or a CSV file next to the contract with
    two columns, code and meaning."""
    missing: Literal["impute", "indicator", "refuse", "leave_out", "category", "no"] = (
        "impute"
    )
    """Missing cells: median or most frequent value; the same with an extra 0/1 column;
    a violation; the row is left out and counted; a category of its own; or "no", for a
    box that is ticked or left blank."""
    missing_values: Texts = []
    """Texts that mean missing, such as "NA", besides the empty cell."""
    censored: Literal["refuse", "limit", "half"] = "refuse"
    """"<5" is refused, read as 5, or read as 2.5; ">90" is refused or read as 90."""
    normalise: Literal["within_group", "within_group_robust"] | None = None
    """Subtract the mean of the group and divide by its standard deviation. Robust: use
    the median and 1.4826 times the median absolute deviation."""
    available: Literal["before", "after", "unknown"] | None = None
    """Whether the value is available when the night's table is taken, before the
    outcome; approval requires an answer if it is "unknown", or if the ranking rests on
    the column. "after" excludes the column from every model."""
    on_unseen: OnUnseen | None = None
    """As under `[cohort]`, for this feature only."""
    on_unit_change: OnUnitChange | None = None
    """As under `[cohort]`, for this feature only."""
    title: str | None = None
    """Name of the column on pages; by default its name with spaces."""
    description: str | None = None
    """Description of the column on pages."""

    @model_validator(mode="after")
    def _check_keys_fit_type(self) -> Feature:
        """Raise ValueError for a key that the feature's type does not have."""
        for key, types in TYPES_OF_KEY.items():
            is_set = getattr(self, key) != type(self).model_fields[key].default
            if is_set and self.type not in types:
                raise ValueError(
                    f"`{key}` is for type {' and '.join(types)}; remove it, or set "
                    "another type"
                )
        if self.type == "ordinal" and self.categories is None:
            raise ValueError(
                "an ordinal feature needs `categories`, from lowest to highest"
            )
        required_type = TYPE_OF_MISSING.get(self.missing, self.type)
        if self.type != required_type:
            raise ValueError(
                f'`missing = "{self.missing}"` is for type {required_type}'
            )
        return self

    @property
    def is_needed(self) -> bool:
        """True if a row without the value has no score."""
        return self.missing in ("refuse", "leave_out")

    def format_value(self, value: float | str | None) -> str:
        """Format a parsed value as readers write it; "missing" for None and NaN."""
        if value is None or value != value:
            return "missing"
        if self.type == "ordinal" and self.categories:
            level = round(float(value))
            highest = len(self.categories) - 1
            return self.categories[min(max(level, 0), highest)]
        if self.type == "boolean":
            return "yes" if float(value) >= 0.5 else "no"
        if self.type == "number":
            return f"{float(value):.6g}"
        labels = self.labels or {}
        return f"{value} {labels.get(str(value), '')}".rstrip()


def _parse_day(value: Any) -> datetime.date | None:
    """Parse a date; ValueError for a time of day or a number of seconds."""
    if value is None or type(value) is datetime.date:
        return value
    try:
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError("write a day as YYYY-MM-DD") from None


SeriesName = Annotated[str, AfterValidator(series_name)]
Hours = Annotated[float, BeforeValidator(hours_from), Field(ge=0, allow_inf_nan=False)]


class OutcomeDefinition(BaseModel):
    """Outcome of a patient: which events count for a night, and when."""

    model_config = CLOSED

    within: Hours
    """Window from the hour of the night, such as "72h" or "3d", both ends included. A
    row with an event in the window is a case. Other rows are non-cases once the window
    is over."""
    after: Hours = 0.0
    """Start of the window. Rows of patients with an earlier event are no longer at risk
    and are excluded."""
    by: Literal["patient", "stay"] = "patient"
    """Whether an outcome belongs to the patient (`group`, or `id` without one) or to
    the stay (`id`)."""
    again: Hours | None = None
    """Time after an event until a patient is at risk again, such as "30d"; by default
    never. Not with `by = "stay"`."""
    events: Literal["any", "first"] = "any"
    """Events of a patient or stay that count."""
    known_without_time: Literal["leave_out", "case"] = "leave_out"
    """If a case has no known time ("yes" in the column `time`), its rows without an
    event in their window are left out, or the last of them is a case."""
    id: Name = None
    """Column of the outcome table with the ids used in the nights' tables, by default
    the group or id of the cohort."""
    time: Name = None
    """Column of the outcome table with the time of the event: blank for none, "yes" for
    a case without a time. A date alone means noon."""
    until: Name = None
    """Column of the outcome table with the end of the stay. A stay that ended before
    its window is left out, unless it had an event."""
    event: Name = None
    """Column of the outcome table with the name of the event or, for several classes,
    of the class."""
    cases: Texts = []
    """Names in the column `event` that count; by default all."""
    as_of: Name = None
    """Column of the outcome table with the time up to which it is complete, or "file"
    for the time of its file; by default estimated from its last event."""

    @model_validator(mode="after")
    def _check_order(self) -> OutcomeDefinition:
        """Raise ValueError for keys that cannot go together."""
        if self.within <= self.after:
            raise ValueError("`within` must be longer than `after`")
        if self.cases and not self.event:
            raise ValueError(
                "`cases` are values of a column; name that column as `event`"
            )
        if self.by == "stay" and self.again is not None:
            raise ValueError(
                '`again` needs `by = "patient"`: a stay with an event is not at '
                "risk again"
            )
        return self


class ScorePerUnit(BaseModel):
    """Several rows of one unit, such as a stay that is scored every hour."""

    model_config = CLOSED

    per: str
    """Column that identifies the unit; it must also be the `id`. One row of each unit
    is used, with all its columns."""
    take: Literal["max", "last", "first"] = "max"
    """Row that is used: the most suspicious by the score (the last of equal ones), or
    the last or first by `time`, else by the order of the table. A row without a score
    is used only if the unit has no other."""


ScoreKind: TypeAlias = Literal["probability", "percent", "points"]
SCORE_RANGES: Mapping[ScoreKind, tuple[float, float]] = {
    "probability": (0.0, 1.0),
    "percent": (0.0, 100.0),
    "points": (0.0, math.inf),
}
"""Least and greatest value of each kind of score."""


class Contract(BaseModel):
    """Roles and features of a cohort.

    In TOML, features are under `[features.NAME]`, the outcome under `[outcome]`, the
    choice of several scores under `[score]`, everything else under `[cohort]`.
    """

    model_config = CLOSED

    title: str | None = None
    """Title of every page."""
    intended_use: str | None = None
    """Purpose and population, shown on the pages of the model and its nights."""
    series: Annotated[SeriesName | None, EMPTY_IS_NONE] = None
    """Name under which the ledger links the nights, such as ward-7.sepsis."""
    id: Name = None
    """Column that identifies a row; by default the row number."""
    group: Name = None
    """Column that groups rows, such as the patient: a group is never split over folds.
    """
    group_stem: bool = False
    """If the names in `group` also number a patient's rows, as voice_07_1 does,
    use only their stem."""
    fill_down: Texts = []
    """Columns filled only in a patient's first row. Blank cells below take its
    value."""
    label: Name = None
    """Column of the outcome; read for training and evaluation only."""
    positive: Texts = []
    """Labels to find, each a class; "A+B" joins A and B into one."""
    negative: Texts = []
    """Labels that are not positive, although rare or similar to a positive one."""
    leave_out: Texts = []
    """Labels whose rows are left out of training."""
    unlabelled: Unlabelled = "refuse"
    """Row with a blank label in training: a violation; a row without the condition, for
    a box that is ticked or left blank; or left out and counted."""
    time: Name = None
    """Column of the row's date."""
    date_order: DateOrder | None = None
    """Order of day and month in dates such as 01/02/2024; not needed if dates begin
    with the year."""
    date_numbers: DateNumbers | None = None
    """Unit and origin of dates that are numbers; not needed for dates such as
    20240131."""
    time_zone: Annotated[ZoneName | None, EMPTY_IS_NONE] = None
    """Time zone of times without one, such as Europe/Berlin; by default that of the
    host. All other times are converted to it."""
    hour: Annotated[HourOrColumn | None, EMPTY_IS_NONE] = None
    """Hour at which a night's table is taken, such as 06:00, or a column with this
    time. By default the time of the table's file if it has the night's date, otherwise
    midnight. Outcome windows start at this hour."""
    subgroup: Texts = []
    """Columns by which results are also reported."""
    coordinates: Texts = []
    """Columns of the position of a voxel: x, y, z."""
    neighbourhood: Annotated[int, Field(ge=3, le=15)] | None = None
    """Side of the cube around a voxel, within the mask. Mean, standard deviation and
    gradient of every channel in it become features."""
    display: Texts = []
    """Columns shown for each patient on the page and in flagged.csv, such as ward, bed
    and name. The page filters by the first. Not used in training unless listed under
    features."""
    score: Name = None
    """Column with a score made elsewhere, for example by the record system. Only the
    recipe `given` uses it."""
    higher: Literal["worse", "better"] = "worse"
    """Whether a higher `score` is more or less suspicious."""
    kind: ScoreKind | None = None
    """Possible values of the `score`: probability (0 to 1), percentage (0 to 100), or
    points (0 or more). By default inferred from past scores; if no kind fits, any
    number is accepted."""
    show: Texts = []
    """Other features to show for each patient, with percentiles, if the model is a
    `score` or a table of points."""
    drop: Texts = []
    """Columns that are not read."""
    id_is_person: bool = False
    """True if each `id` is a person, not a stay or a sample. The export to OMOP needs
    it if there is no `group`."""
    on_violation: Literal["stop", "refuse_rows"] = "stop"
    """At a violation: stop, or leave the row out and count it."""
    on_unseen: OnUnseen = "unknown"
    """Category that training did not see: it is scored as unknown, the row is left
    out, or the run stops."""
    on_unit_change: OnUnitChange = "stop"
    """Units that differ from training: the run stops, or the page reports them."""
    suppress: PositiveInt = 5
    """Smallest number of rows or patients shown in tables by subgroup or outcome."""
    prevalence: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Expected share of cases in scoring, if it differs from the training table."""
    minutes_per_review: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Minutes per review, for the workload on the page."""
    capacity: PositiveInt | None = None
    """Number of reviews possible per night, not counting the random audit. If more
    cases wait, the page mentions it; if chance does not explain the excess, it is a
    reason for attention."""
    review_sample: NonNegativeInt = 5
    """Number of cases without a verdict in each night's random audit (needs a
    ledger)."""
    known_days: NonNegativeInt = 30
    """Days for which a confirmed case counts as known when flagged again."""
    verdicts_need: list[Literal["site", "initials"]] = []
    """What a verdict must state about its reviewer. Unless `screen review` gets
    the reviewer's `--token`, initials are always needed."""
    actions: Texts = []
    """What may be done for a flagged case, such as "cultures taken". Reviewers choose
    one with their verdict, and `screen outcomes` counts the cases by it."""
    files_per_night: PositiveInt | None = None
    """Number of files of a night, such as one per ward. Not checked in training."""
    rows_per_night: (
        Annotated[tuple[NonNegativeInt, int], AfterValidator(_check_range)] | None
    ) = None
    """Range of a night's number of rows, such as [60, 120]. Not checked in training."""
    review_by: Annotated[datetime.date | None, BeforeValidator(_parse_day)] = None
    """Day from which every night requests a review of the model, by default two years
    after training."""
    outcome: OutcomeDefinition | None = None
    """What became of a patient."""
    per_unit: ScorePerUnit | None = None
    """Which of several scores of a unit counts."""
    features: dict[str, Feature] = {}
    """In the order of the encoded columns. Empty: inferred from the table."""

    @model_validator(mode="after")
    def _check_roles(self) -> Contract:
        """Raise ValueError for a column or label that is named twice."""
        role_of_column = self._columns_with_one_role()
        if self.hour_column in self.features:
            raise ValueError(
                f"column '{self.hour_column}' is both the `hour` and a feature; "
                "remove it from [features]"
            )
        for column in self.drop:
            uses = (role_of_column, self.features, self.display)
            if any(column in use for use in uses):
                raise ValueError(
                    f"column '{column}' is both dropped and used; remove it from "
                    "`drop`, or from where it is used"
                )
        if self.label in self.display:
            raise ValueError(
                f"column '{self.label}' is both the label and displayed; remove it "
                "from `display`"
            )
        left_out = sorted({*self.positive, *self.negative} & set(self.leave_out))
        if left_out:
            raise ValueError(
                f"label '{left_out[0]}' is both in `leave_out` and in `positive` or "
                "`negative`; name it once"
            )
        in_both = sorted(set(self.positive) & set(self.negative))
        if in_both:
            raise ValueError(
                f"label '{in_both[0]}' is both `positive` and `negative`; name it once"
            )
        return self

    @model_validator(mode="after")
    def _check_score(self) -> Contract:
        """Raise ValueError for a score or shown column that is not a feature."""
        if not self.features:
            return self
        for name in filter(None, (self.score, *self.show)):
            if name not in self.features:
                raise ValueError(
                    f"`score` or `show` names '{name}', which is not under [features]"
                )
        if self.score and self.features[self.score].type != "number":
            raise ValueError(f"`score`: '{self.score}' must be of type number")
        return self

    @model_validator(mode="after")
    def _check_per_unit(self) -> Contract:
        """Raise ValueError if one row of each unit cannot be taken."""
        if self.per_unit is None:
            return self
        if self.id != self.per_unit.per:
            raise ValueError(
                f"[score] takes one row per '{self.per_unit.per}', which identifies "
                f'that row; set `id = "{self.per_unit.per}"`, and the patient as '
                "`group`"
            )
        if self.coordinates:
            raise ValueError(
                "[score] takes one row of a patient, but images have "
                "many; remove [score] or `coordinates`"
            )
        return self

    @model_validator(mode="after")
    def _check_voxels(self) -> Contract:
        """Raise ValueError for keys that do not make a grid of voxels."""
        if self.neighbourhood and self.neighbourhood % 2 == 0:
            raise ValueError(
                "`neighbourhood` is even; give the side of a cube around a voxel, "
                "an odd number such as 3"
            )
        if self.coordinates and len(set(self.coordinates)) != 3:
            raise ValueError("`coordinates` must name three columns, x, y, z")
        for name, feature in self.features.items():
            if feature.normalise and not self.group:
                raise ValueError(
                    f"`normalise` of '{name}' needs `group` under [cohort]"
                )
        return self

    def _columns_with_one_role(self) -> dict[str, str]:
        """Return the role of each column; raise ValueError where one has two roles.

        A column may be id and group at once; it may be no feature.
        """
        columns = {
            "id": self.id,
            "label": self.label,
            "group": self.group,
            "time": self.time,
        }
        role_of_column: dict[str, str] = {}
        for role, column in columns.items():
            if not column:
                continue
            other = role_of_column.get(column)
            if other and {role, other} != {"id", "group"}:
                raise ValueError(
                    f"column '{column}' is both {other} and {role}; name another "
                    "column for one of them"
                )
            if column in self.features:
                raise ValueError(
                    f"column '{column}' is both the {role} and a feature; remove it "
                    "from [features]"
                )
            role_of_column[column] = role
        return role_of_column

    @classmethod
    def load(cls, path: str | Path, roles: Mapping[str, Any] | None = None) -> Self:
        """Read a contract from a TOML file; `roles` as for `from_dict`.

        Raises
        ------
        UsageError
            The file, or a file of labels that it names, does not exist.
        CohortError
            Names every fault of the contract.
        """
        path = Path(path)
        content = read_toml(path, MAX_BYTES, CohortError)
        features = content.get("features")
        if isinstance(features, dict):
            for feature in features.values():
                if isinstance(feature, dict) and isinstance(feature.get("labels"), str):
                    feature["labels"] = _read_labels(path.parent / feature["labels"])
        return cls.from_dict(content, path.name, roles)

    @classmethod
    def from_dict(
        cls,
        content: Mapping[str, Any],
        source: str = "contract",
        roles: Mapping[str, Any] | None = None,
    ) -> Self:
        """Build a contract from the nested form of `to_dict` or of the TOML file.

        Parameters
        ----------
        content : mapping
        source : str
            Begins the message of each fault.
        roles : mapping, optional
            Keys of `[cohort]` that replace those of the content, unless they are None
            or empty; `drop` is added to its own. Their columns are not features.
        """
        stated = {
            role: value
            for role, value in (roles or {}).items()
            if value not in (None, "", [], ())
        }
        try:
            nested = _Nested.model_validate(content)
            cohort = nested.cohort | stated
            if "drop" in stated:
                own = _list_of_texts(nested.cohort.get("drop", []))
                cohort["drop"] = [*own, *stated["drop"]]
            if nested.outcome is not None:
                cohort["outcome"] = nested.outcome
            if nested.score is not None:
                cohort["per_unit"] = nested.score
            cohort["features"] = nested.features_without(stated)
            return cls.model_validate(cohort)
        except ValidationError as error:
            raise CohortError(_faults(source, error)) from error

    def to_dict(self) -> dict[str, Any]:
        """Return the nested form, ready for JSON.

        `feature_order` keeps the order of the features where keys are sorted.
        """
        cohort = self.model_dump(mode="json")
        features = cohort.pop("features")
        if self.per_unit is None:
            del cohort["per_unit"]
        return {
            "format": FORMAT,
            "cohort": cohort,
            "features": features,
            "feature_order": [*features],
        }

    def to_toml(self, notes: Sequence[str] = ()) -> str:
        """Return TOML for `load`, with `notes` as comments at its end."""
        stated = self.model_dump(mode="json", exclude_defaults=True)
        tables = {
            "outcome": stated.pop("outcome", None),
            "score": stated.pop("per_unit", None),
        }
        for name, feature in stated.pop("features", {}).items():
            tables[f"features.{tomlkit.key(name).as_string()}"] = feature
        lines = [f"# {TOML_HEADER}", "", f"format = {FORMAT}", "", "[cohort]"]
        for name, field in Contract.model_fields.items():
            comment = _first_clause(field.description or "")
            if name in stated:
                lines.append(f"{name} = {toml_text(stated[name])}  # {comment}")
            elif name in SHOWN_KEYS:
                lines.append(f"# {name} = {toml_text(SHOWN_KEYS[name])}  # {comment}")
        for title, table in tables.items():
            if table:
                lines += ["", f"[{title}]"]
                lines += [f"{key} = {toml_text(value)}" for key, value in table.items()]
        if notes:
            lines += ["", "# What was guessed, inferred and dropped:"]
            lines += [f"# - {_printable_line(note)}" for note in notes]
        return "\n".join(lines) + "\n"

    def with_roles(self, **roles: Any) -> Self:
        """Return the contract with these roles, as `from_dict` sets them."""
        return self.from_dict(self.to_dict(), roles=roles)

    def with_features(self, features: Mapping[str, Feature], **keys: Any) -> Contract:
        """Return the contract with these features alone, itself if nothing changes.

        `keys`: others that change, as valid as those of a contract. A score, or a
        column to show, that is not among the features is left out.
        """
        show = keys.get("show", self.show)
        changes = {
            **keys,
            "features": dict(features),
            "score": self.score if self.score in features else None,
            "show": [name for name in show if name in features],
        }
        if changes == {key: getattr(self, key) for key in changes}:
            return self
        return self.model_copy(update=changes)

    def policy(self, key: Literal["on_unseen", "on_unit_change"], name: str) -> str:
        """Return a policy for feature `name`: its own, or the contract's."""
        return getattr(self.features[name], key) or getattr(self, key)

    def of_place(self, time_zone: str | None, hour: str | None) -> Contract:
        """Return the contract with the time zone and hour of a place, where stated."""
        if time_zone is None and hour is None:
            return self
        return self.with_roles(time_zone=time_zone, hour=hour)

    @property
    def hour_column(self) -> str | None:
        """Column of the night's hour; None where an hour or none is set."""
        return None if self.hour is None or is_hour(self.hour) else self.hour

    def columns(self) -> list[str]:
        """Return the columns that a table must have, each once.

        The label and columns that are only displayed are not among them.
        """
        roles = [self.id, self.group, self.time, *self.subgroup, *self.coordinates]
        names = [name for name in roles if name]
        return list(dict.fromkeys([*names, *self.features]))


def _read_labels(file: Path) -> dict[str, str]:
    """Read the meaning of each code in a CSV file of two columns."""
    content = read_bounded(file, MAX_BYTES, UsageError)
    lines = content.decode("utf-8-sig", errors="replace").splitlines()
    meanings = {}
    for row in csv.reader(lines):
        if len(row) >= 2:
            code, meaning, *_ = row
            meanings[code.strip()] = meaning.strip()
    return meanings


def _first_clause(text: str) -> str:
    """Return a text up to its first full stop, semicolon or colon, on one line."""
    return re.split(r"[.;:](?: |$)", " ".join(text.split()))[0]


def _printable_line(text: str) -> str:
    """Return a text on one line, without control characters."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())


def _check_format(number: int) -> int:
    """Check the number of a format; ValueError if this version cannot read it."""
    if number != FORMAT:
        raise ValueError(
            f"format {number} is unknown; this version reads format {FORMAT}"
        )
    return number


class _Nested(BaseModel):
    """Structure of the TOML file and of `Contract.to_dict`."""

    model_config = ConfigDict(extra="forbid")

    format: Annotated[int, AfterValidator(_check_format)] = FORMAT
    cohort: dict[str, Any] = {}
    features: dict[str, Any] = {}
    outcome: dict[str, Any] | None = None
    score: dict[str, Any] | None = None
    feature_order: list[str] = []

    def features_without(self, roles: Mapping[str, Any]) -> dict[str, Any]:
        """Return the features in their order, without the columns of some roles."""
        columns = {roles.get(role) for role in ("label", "id", "group", "time")}
        columns.update(roles.get("drop", ()))
        names = dict.fromkeys([*self.feature_order, *self.features])
        return {
            name: self.features[name]
            for name in names
            if name in self.features and name not in columns
        }


class Draft(Contract):
    """A contract with keys that may still be set, before it is completed."""

    model_config = ConfigDict(frozen=False)

    def completed(self) -> Contract:
        """Return the contract, with every key checked."""
        return Contract.from_dict(self.to_dict())


def _faults(source: str, error: ValidationError) -> list[str]:
    """Describe what a contract breaks; misplaced keys of one table are one fault."""
    faults: list[str] = []
    misplaced: dict[str, list[str]] = {}
    n_more = 0
    for item in error.errors():
        if _is_misplaced(item):
            feature = str(item["loc"][1])
            misplaced.setdefault(feature, []).append(f"`{item['loc'][2]}`")
        elif len(faults) < MAX_FAULTS_SHOWN:
            faults.append(_fault(source, error.title, item))
        else:
            n_more += 1
    for feature, keys in misplaced.items():
        faults.append(
            f"{source}: [features.{feature}] has {', '.join(keys)}, which belong "
            "under [cohort]; move these lines above the first [features...] table"
        )
    if n_more:
        faults.append(f"{source}: and {n_more:,} more")
    return faults


def _is_misplaced(item: ErrorDetails) -> bool:
    """Return True for a key of [cohort] in the table of a feature."""
    in_feature = len(item["loc"]) == 3 and item["loc"][0] == "features"
    unknown = item["type"] == "extra_forbidden"
    return in_feature and unknown and item["loc"][2] in Contract.model_fields


def _fault(source: str, model_name: str, item: ErrorDetails) -> str:
    """Describe one error of pydantic: the source, the key and a remedy."""
    location = [str(part) for part in item["loc"]]
    if model_name == _Nested.__name__:
        keys = ["[cohort]", "[features.NAME]", "[outcome]", "[score]", "format"]
    elif location[:1] == ["features"]:
        keys = list(Feature.model_fields)
    elif location[:1] == ["outcome"]:
        keys = list(OutcomeDefinition.model_fields)
    elif location[:1] == ["per_unit"]:
        keys = list(ScorePerUnit.model_fields)
        location[0] = "score"
    else:
        keys = list(Contract.model_fields)
        location = ["cohort", *location]
    key = ".".join(location)
    if item["type"] == "extra_forbidden":
        hint = did_you_mean(location[-1], keys) or f"; known: {', '.join(keys)}"
        return f"{source}: unknown key {key}{hint}"
    return f"{source}: {key}: {item['msg'].removeprefix('Value error, ')}"


def toml_text(value: object) -> str:
    """Return a value in TOML, with a table on one line."""
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        table.update(value)
        return table.as_string()
    return tomlkit.item(value).as_string()
