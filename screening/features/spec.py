"""The spec of features in TOML: its sources, its rows, and what is counted."""

from __future__ import annotations

import csv
import datetime
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from screening.clock.zone import ZoneName, is_hour
from screening.contract.contract import Hours
from screening.errors import UsageError, list_faults
from screening.features.events import Span
from screening.files import is_hidden, read_toml
from screening.spelling import did_you_mean

MAX_BYTES = 4 << 20

Static = Literal["age", "sex", "days_in_hospital", "ward"]
Take = Literal[
    "last",
    "first",
    "min",
    "max",
    "mean",
    "sum",
    "count",
    "any",
    "hours_since",
    "slope",
    "change",
]
WHOLE_STAY = "stay"
DATE_OF_FILE = re.compile(r"\d{4}-\d\d-\d\d")
ONE_DAY = datetime.timedelta(days=1)
# Columns of every table that are not features; `row` while it is made.
ROLES = ("id", "group", "time", "label", "row")


def _from_folder(path: str, info: ValidationInfo) -> str:
    """Return a path or glob relative to the folder of the spec; a URL unchanged."""
    folder: Path = info.context or Path()
    if "://" in path:
        return path
    return str(folder / Path(path).expanduser())


def _check_hour(hour: str) -> str:
    """Check an hour of the day; ValueError for another text."""
    if not is_hour(hour):
        raise ValueError("write an hour of the day, such as 06:00")
    return hour


def _list_of_texts(value: object) -> object:
    """Convert a text to a list, so that `codes = "A"` is valid."""
    return [value] if isinstance(value, str) else value


def _ages(text: object) -> tuple[int | None, int | None]:
    """Return the least and the greatest age of a range, None for no limit."""
    parts = str(text).split("..")
    if len(parts) != 2 or not all(not part or part.isdecimal() for part in parts):
        raise ValueError('write a range of years such as "18..", "..80" or "18..80"')
    least, most = (int(part) if part else None for part in parts)
    return least, most


def _window(value: object) -> object:
    """Return the whole stay as None, which has no hours."""
    return None if value == WHOLE_STAY else value


Place = Annotated[str, Field(min_length=1), AfterValidator(_from_folder)]
Texts = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_list_of_texts)
]
Ages = Annotated[tuple[int | None, int | None], BeforeValidator(_ages)]
WindowHours = Annotated[Hours | None, BeforeValidator(_window)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Table):
    """Where events are read from: a table `[[source]]`.

    Parameters
    ----------
    format : {"long", "meds", "omop", "fhir"}
    path : str
        A file, a glob or a directory, relative to the spec; for OMOP also the URL of a
        database.
    columns : dict
        Of a long table: names of its columns by those of `EVENT_COLUMNS`.
    codes : dict
        The source's codes for `RESERVED_CODES`; `X*` is every code that begins with X.
    zone : str, optional
        Time zone of times that state none; that of the spec if absent.
    queries : dict
        Of OMOP in a database: a file of SQL by the name of the table that it gives.
    by_day : bool
        A file with a date in its path has the events of that day, or those that became
        known on it: it is opened only if they can be needed.
    """

    format: Literal["long", "meds", "omop", "fhir"]
    path: Place
    columns: dict[str, str] = {}
    codes: dict[str, Texts] = {}
    zone: ZoneName = "UTC"
    queries: dict[str, Place] = {}
    by_day: bool = False

    def files(self, endings: Sequence[str], span: Span) -> list[str]:
        """Return the files of the source that may be needed, sorted by name.

        Parameters
        ----------
        endings : sequence of str
            Endings of the files that count in a directory, such as ".parquet".
        span : Span
            With `by_day`, times of the events that are needed.

        Raises
        ------
        UsageError
            No file was found.
        """
        names = [name for name in files_of(self.path) if ends_in(name, endings)]
        if self.by_day:
            names = [name for name in names if _is_near(name, span)]
        if not names:
            raise UsageError(
                f"source {self.path}: no file has a name that ends in "
                f"{' or '.join(endings)}; correct `path`"
            )
        return names


class Coded(_Table):
    """Which events count, by their codes.

    Parameters
    ----------
    codes : str or list of str
        `X*` is every code that begins with X.
    value_set : str, optional
        A CSV file whose first column has codes, with or without a header `code`.
    unit : str, optional
        Unit that values are converted to.
    quantity : str, optional
        What is measured, such as creatinine, where the feature's name does not say it.
    """

    codes: Texts = ()
    value_set: Place | None = None
    unit: str | None = None
    quantity: str | None = None

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """The codes, and those of the file of a value set."""
        if self.value_set is None:
            return self.codes
        return tuple(dict.fromkeys([*self.codes, *_codes_of_file(self.value_set)]))


class Feature(Coded):
    """A column that is made of events before the hour: a key of `[features]`.

    Parameters
    ----------
    window : str
        How far before the hour, such as "24h" or "365d", or "stay".
    take : str
        What is taken of the events; see `Take`.
    text : bool
        Take the text and not the value, for "last" and "first".
    """

    window: WindowHours
    take: Take
    text: bool = False

    @model_validator(mode="after")
    def _check_feature(self) -> Feature:
        if not self.codes and self.value_set is None:
            raise ValueError("give `codes` or `value_set`")
        if self.text and self.take not in ("last", "first"):
            raise ValueError('`text` needs take = "last" or "first"')
        if self.window == 0:
            raise ValueError("`window` must be longer than 0 hours")
        return self


def _kind_of_feature(value: object) -> str:
    """Return whether a feature is a word or a table, so that one fault is named."""
    return "word" if isinstance(value, str) else "table"


AnyFeature = Annotated[
    Annotated[Static, Tag("word")] | Annotated[Feature, Tag("table")],
    Discriminator(_kind_of_feature),
]


class Stays(_Table):
    """Stays that are rows: the table `[stays]`.

    Parameters
    ----------
    wards : list of str, optional
    age : str, optional
        Range of years, both ends in, such as "18..".
    hours_in : str
        At least so long since admission.
    longest : str, optional
        No stay is longer, such as "180d": earlier admissions are not looked for.
    row : {"first", "every", "drawn"}
        Which nights of a stay are rows of the past.
    seed : int
        Of the night that is drawn.
    """

    wards: Texts | None = None
    age: Ages | None = None
    hours_in: Hours = 0.0
    longest: Hours | None = None
    row: Literal["first", "every", "drawn"] = "first"
    seed: int = 0


class Outcome(Coded):
    """What becomes of a stay, and when it counts: the table `[outcome]`.

    Parameters
    ----------
    death : bool
        Death counts.
    ward : str or list of str
        A transfer to one of these counts.
    above, below : float, optional
        Limits of the value that counts, themselves out.
    within, after : str
        End and start of the window after the hour, as in the contract's `[outcome]`.
    at_risk : bool
        A stay with an earlier outcome is no longer a row.
    complete : date, optional
        Day up to which outcomes are known; by default the newest event.
    """

    death: bool = False
    ward: Texts = ()
    above: float | None = None
    below: float | None = None
    within: Hours
    after: Hours = 0.0
    at_risk: bool = True
    complete: datetime.date | None = None

    @model_validator(mode="after")
    def _check_outcome(self) -> Outcome:
        if not (self.codes or self.value_set or self.death or self.ward):
            raise ValueError("give `codes`, `value_set`, `death` or `ward`")
        if self.within <= self.after:
            raise ValueError("`within` must be longer than `after`")
        return self


class Spec(_Table):
    """The whole file.

    Parameters
    ----------
    hour : str
        Hour of the night, such as 06:00.
    zone : str
        Its time zone, such as Europe/Berlin.
    source : list of Source
    stays : Stays
    features : dict
        By the name of the column, a `Feature` or one of `Static`.
    outcome : Outcome, optional
    """

    hour: Annotated[str, AfterValidator(_check_hour)]
    zone: ZoneName
    source: Annotated[tuple[Source, ...], Field(min_length=1)]
    stays: Stays = Stays()
    features: dict[Annotated[str, Field(min_length=1)], AnyFeature] = {}
    outcome: Outcome | None = None

    @model_validator(mode="after")
    def _check_names(self) -> Spec:
        for name in self.features:
            if name.casefold() in ROLES:
                raise ValueError(
                    f"features.{name}: this name is already used; give another"
                )
        if len({name.casefold() for name in self.features}) != len(self.features):
            raise ValueError(
                "the names of two features differ only in capitals; rename one"
            )
        return self

    @model_validator(mode="after")
    def _check_by_day(self) -> Spec:
        if self.stays.longest is None and any(one.by_day for one in self.source):
            raise ValueError(
                "source.by_day: give [stays] longest too, such as "
                '"180d", so that files of earlier days need not be opened'
            )
        return self

    @property
    def of_events(self) -> dict[str, Feature]:
        """Features that are made of events."""
        return {
            name: feature
            for name, feature in self.features.items()
            if isinstance(feature, Feature)
        }


def read_spec(path: Path) -> Spec:
    """Read a spec of features.

    Raises
    ------
    UsageError
        The file cannot be read or has faults; all of them are named.
    """
    content = read_toml(path, MAX_BYTES, UsageError)
    sources = content.get("source")
    for source in sources if isinstance(sources, list) else ():
        if isinstance(source, dict) and "zone" in content:
            source.setdefault("zone", content["zone"])
    try:
        return Spec.model_validate(content, context=path.resolve().parent)
    except ValidationError as error:
        faults = list(dict.fromkeys(map(_fault, error.errors())))
    raise UsageError(list_faults(f"{path.name} has errors:", faults))


def _fault(error: Mapping[str, Any]) -> str:
    """Return a fault of the spec by its key."""
    parts = [part for part in error["loc"] if part not in ("word", "table", "[key]")]
    key = ".".join(map(str, parts))
    sentence = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        known = {**Source.model_fields, **Feature.model_fields, **Outcome.model_fields}
        known |= {**Stays.model_fields, **Spec.model_fields}
        sentence = f"unknown key{did_you_mean(str(parts[-1]), known)}"
    return f"{key}: {sentence}" if key else sentence


def files_of(path: str) -> list[str]:
    """Return a file, those of a glob, or those of a directory that are not hidden."""
    top = Path(path)
    if not top.is_dir():
        return [path] if top.is_file() else sorted(glob(path, recursive=True))
    files = [file for file in top.rglob("*") if not is_hidden(file, top)]
    return sorted(str(file) for file in files if file.is_file())


def ends_in(path: str, endings: Sequence[str]) -> bool:
    """Return True if a path ends in one of some endings, in small letters or not."""
    return path.lower().endswith(tuple(endings))


def _is_near(path: str, span: Span) -> bool:
    """Return True unless the last date in a path is more than a day outside a span."""
    dates = DATE_OF_FILE.findall(path)
    if not dates:
        return True
    try:
        day = datetime.date.fromisoformat(dates[-1])
    except ValueError:
        return True
    first, last = span.since.date(), span.until.date()
    return first <= day + ONE_DAY and day - ONE_DAY <= last


def _codes_of_file(path: str) -> list[str]:
    """Return the codes of a value set, without the header `code`."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = file.readlines()
        delimiter = ";" if lines and "," not in lines[0] else ","
        rows = [row[0].strip() for row in csv.reader(lines, delimiter=delimiter) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise UsageError(
            f"value_set {path}: this is not a CSV file in UTF-8; correct the path"
        ) from None
    codes = [code for code in rows if code]
    if codes and codes[0].casefold() == "code":
        codes = codes[1:]
    if not codes:
        raise UsageError(f"value_set {path}: the file contains no codes")
    return codes
