"""`NIGHT.toml`: the series of a site, each with its model and table, and the budget they share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from screening.errors import UsageError
from screening.files import read_toml
from screening.kernels.threads import available_cores
from screening.schemas.figures import Rule, rule_named
from screening.spelling import did_you_mean, filled, series_name
from screening.store.pages import PageFolder, parse_readers

MOST_BYTES = 16 << 20
PLACEHOLDERS = ("date", "series")


def _pattern(text: str) -> str:
    for name in re.findall(r"\{(.*?)\}", text):
        if name not in PLACEHOLDERS:
            raise ValueError(
                f"{{{name}}} is not known{did_you_mean(name, PLACEHOLDERS)}; there are {{date}}, {{series}}"
            )
    if not Template(text).is_valid():
        raise ValueError(
            "after $ comes the name of an environment variable; write $$ for the character"
        )
    return text


def _of_each_night(text: str) -> str:
    if "{date}" not in text:
        raise ValueError("must hold {date}, or each night would replace the one before")
    return text


def _from_folder(path: Path, info: ValidationInfo) -> Path:
    folder: Path = info.context or Path()
    return folder / path


def _rule(agreed: object) -> Rule:
    if not isinstance(agreed, Mapping) or len(agreed) != 1:
        raise ValueError("write one rule, such as {min_sensitivity = 0.9}")
    return next(rule_named(name, value=value) for name, value in agreed.items())


def _name(text: str) -> str:
    if text.casefold().endswith(".html"):
        raise ValueError(f"pages end with .html; name the series '{text[:-5]}'")
    return series_name(text)


Place = Annotated[Path, AfterValidator(_from_folder)]
"""A path, meant from the directory of the file."""
Pattern = Annotated[str, Field(min_length=1), AfterValidator(_pattern)]
Words = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Days = Annotated[int, Field(ge=0, le=366)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Site(_Table):
    """`[site]`: what all series share."""

    title: str = "Screening"  # At the head of the overview.
    ledger: str | None = (
        None  # A file or a URL; `SCREEN_LEDGER` where absent, for a URL with a password.
    )
    # Under it the run directories, which only their owner can read.
    runs: Place = Field(Path("runs"), validate_default=True)
    # Copies of the pages for their readers: the overview, and a directory a series.
    publish: Place | None = None
    # mode, group: of these copies.
    mode: str | None = None
    group: str | None = None
    # jobs, memory_mb: threads and MiB that all series may take together; all cores, and 4096.
    jobs: Count = Field(default_factory=available_cores)
    memory_mb: Count = 4096
    catch_up: Days = 7  # How many nights back missed ones are caught up.
    hooks: list[
        Words
    ] = []  # Commands told of the night, each by its words; no shell reads them.
    hook_seconds: Annotated[float, Field(gt=0, le=3600)] = (
        30  # A hook that takes longer is stopped.
    )

    @model_validator(mode="after")
    def _has_readers(self) -> Site:
        if self.publish is None and (self.mode or self.group):
            raise ValueError(
                "mode and group are those of copies for readers; give publish too"
            )
        try:
            parse_readers(self.mode, self.group)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return self

    def pages(self, folder: Path) -> PageFolder:
        """A folder of pages for their readers."""
        return PageFolder(folder, parse_readers(self.mode, self.group))


class SeriesPlan(_Table):
    """`[series.NAME]`: one screen of one place."""

    model: Place  # Its champion.
    # A file, directory, glob or URL; `{date}` is the night, `{series}` the name, `$NAME` of the environment.
    cohort: Pattern
    # table, query: of a database.
    table: str | None = None
    query: Place | None = None
    label: str | None = None  # Column of true labels, to evaluate.
    shadow: list[Place] = []  # Models scored beside the champion.
    out: Annotated[Pattern, AfterValidator(_of_each_night)] = (
        "{series}/{date}"  # Run directory under `runs`.
    )
    # CSV file under `runs` of the cells that were refused or out of bounds.
    refused: Annotated[Pattern, AfterValidator(_of_each_night)] | None = None
    # The rule that the model's threshold must follow, such as {min_sensitivity = 0.9}; another is refused.
    rule: Annotated[InstanceOf[Rule], BeforeValidator(_rule)] | None = None
    # templates, require_signature: as `screen score` takes them.
    templates: Place | None = None
    require_signature: Place | None = None
    # jobs, memory_mb: what one night of it takes of the budget.
    jobs: Count = 1
    memory_mb: Count = 512
    minutes: Annotated[float, Field(gt=0)] = 60  # A night that takes longer is stopped.
    catch_up: Days | None = None  # The site's where absent.


class NightFile(_Table):
    """The file as a whole."""

    site: Site = Field({}, validate_default=True)
    series: dict[Annotated[str, AfterValidator(_name)], SeriesPlan] = {}


@dataclass(frozen=True)
class Network:
    """A site and its series, every path absolute."""

    site: Site
    series: Mapping[str, SeriesPlan]
    folder: Path
    ledger: str

    @property
    def pages(self) -> PageFolder:
        """Where the overview goes."""
        return self.site.pages(self.site.publish or self.site.runs / "overview")

    def pages_of(self, name: str) -> PageFolder | None:
        """Where copies of a series' pages go."""
        return (
            None
            if self.site.publish is None
            else self.site.pages(self.site.publish / name)
        )

    def cohort(self, name: str, night: str) -> str:
        """Where the table of a night lies; UsageError where a name of the environment is not set."""
        pattern = self.series[name].cohort
        try:
            place = filled(Template(pattern).substitute(os.environ), name, night)
        except KeyError as missing:
            raise UsageError(
                f"series.{name}.cohort: ${missing.args[0]} is not set in the environment"
            ) from None
        return place if "://" in place else str(self.folder / place)

    def has_password(self) -> bool:
        """Whether a URL of the site has one in it."""
        places = [self.ledger, *(self.cohort(name, "") for name in self.series)]
        return any(re.search("://[^/]*:.*@", place) for place in places)

    def out(self, name: str, night: str, beside: Path | None = None) -> Path:
        """The run directory of a night; a shadow's lies beside it."""
        place = self.site.runs / filled(self.series[name].out, name, night)
        return (
            place
            if beside is None
            else place.with_name(f"{place.name}.shadow-{beside.name}")
        )

    def refused(self, name: str, night: str) -> Path | None:
        """Return the file for the refused cells of a night; None without one."""
        pattern = self.series[name].refused
        return self.site.runs / filled(pattern, name, night) if pattern else None


def read_network(path: Path, ledger: str | None = None) -> Network:
    """Read `NIGHT.toml`; `ledger`: where the file names none.

    Raises UsageError: it cannot be read, or is not as it should be; every fault is named.
    """
    content, folder = read_toml(path, MOST_BYTES, UsageError), path.resolve().parent
    try:
        file = NightFile.model_validate(content, context=folder)
        chosen = file.site.ledger or ledger or ""
        network = Network(
            file.site,
            file.series,
            folder,
            chosen if "://" in chosen else str(folder / chosen),
        )
        faults = [*_conflicts(network)]
        if not chosen:
            faults.append(
                "site.ledger: give the ledger's file or URL here, or in SCREEN_LEDGER"
            )
    except ValidationError as error:
        faults = [*map(_fault, error.errors())]
    if faults:
        head = f"{path.name} is wrong in {len(faults)} place{'s' * (len(faults) != 1)}:"
        raise UsageError("\n  ".join([head, *faults]))
    return network


def _fault(error: Any) -> str:
    """A fault of a key, as pydantic has it, in a line."""
    *tables, key = [str(part) for part in error["loc"] if part != "[key]"]
    words = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        kind = NightFile if not tables else Site if tables == ["site"] else SeriesPlan
        words = f"unknown key{did_you_mean(key, kind.model_fields)}"
    return f"{'.'.join([*tables, key])}: {words}"


def _conflicts(network: Network) -> Iterator[str]:
    """What is sound by itself and cannot be together: claims beyond the site's, runs in one place."""
    if not network.series:
        yield "no series; give each its table, [series.NAME]"
    series_at: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, plan in network.series.items():
        # On macOS, and on shares of Windows servers, these are one folder.
        if names.setdefault(name.casefold(), name) != name:
            yield f"series.{name}: is series.{names[name.casefold()]} but for large and small letters"
        for key in ("jobs", "memory_mb"):
            claim, shared = getattr(plan, key), getattr(network.site, key)
            if claim > shared:
                yield f"series.{name}.{key}: {claim} is more than the {shared} that all share"
        place = os.path.normpath(network.out(name, "{date}"))
        first = series_at.setdefault(place.casefold(), name)
        if first != name and names[name.casefold()] == name:
            yield f"series.{name}.out: the same place as series.{first}; put {{series}} in it"
        if len({path.name for path in plan.shadow}) != len(plan.shadow):
            yield f"series.{name}.shadow: directories of the same name; their runs would lie in one place"
        table = os.path.normpath(network.folder / filled(plan.cohort, name, "{date}"))
        if f"{place}/".startswith(f"{table}/"):
            yield f"series.{name}.out: lies in the series' table, so a night would be read as one"
