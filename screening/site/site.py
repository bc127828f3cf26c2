"""`NIGHT.toml`: the series of a site, each with its model and table, and the budget they share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    ValidationError,
    ValidationInfo,
)

from screening.errors import UsageError
from screening.files import read_toml
from screening.kernels.threads import available_cores
from screening.schemas.figures import Rule, rule_named
from screening.spelling import did_you_mean, filled, series_name
from screening.store.publishing import PageFolder, Readers, readers

MOST_BYTES = 16 << 20
Table = TypeVar("Table", bound=BaseModel)
WORDS = ("date", "series")


def _pattern(text: str) -> str:
    for word in re.findall(r"\{(.*?)\}", text):
        if word not in WORDS:
            raise ValueError(
                f"{{{word}}} is not known{did_you_mean(word, WORDS)}; there are {{date}}, {{series}}"
            )
    if not Template(text).is_valid():
        raise ValueError("after $ comes the name of an environment variable; write $$ for the character")
    return text


def _of_each_night(text: str) -> str:
    if "{date}" not in text:
        raise ValueError("must hold {date}, or each night would replace the one before")
    return text


def _from_folder(path: Path, info: ValidationInfo) -> Path:
    folder: Path = info.context or Path()
    return folder / path


Place = Annotated[Path, AfterValidator(_from_folder)]
"""A path, meant from the directory of the file."""


def _rule(agreed: object) -> Rule:
    if not isinstance(agreed, Mapping) or len(agreed) != 1:
        raise ValueError("write one rule, such as {min_sensitivity = 0.9}")
    ((name, value),) = agreed.items()
    return rule_named(name, value=value)


Pattern = Annotated[str, Field(min_length=1), AfterValidator(_pattern)]
Words = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Days = Annotated[int, Field(ge=0, le=366)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Site(_Table):
    """`[site]`: what all series share."""

    title: str = "Screening"  # At the head of the overview.
    ledger: str | None = None  # A file or a URL; `SCREEN_LEDGER` where absent, for a URL with a password.
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
    hooks: list[Words] = []  # Commands told of the night, each by its words; no shell reads them.
    hook_seconds: Annotated[float, Field(gt=0, le=3600)] = 30  # A hook that takes longer is stopped.


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
    out: Annotated[Pattern, AfterValidator(_of_each_night)] = "{series}/{date}"  # Run directory under `runs`.
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


@dataclass(frozen=True)
class Network:
    """A site and its series, every path absolute."""

    site: Site
    series: Mapping[str, SeriesPlan]
    folder: Path
    ledger: str
    readers: Readers

    @property
    def pages(self) -> PageFolder:
        """Where the overview goes."""
        return PageFolder(self.site.publish or self.site.runs / "overview", self.readers)

    def pages_of(self, name: str) -> PageFolder | None:
        """Where copies of a series' pages go."""
        return None if self.site.publish is None else PageFolder(self.pages.directory / name, self.readers)

    def cohort(self, name: str, night: str) -> str:
        """Where the table of a night lies.

        Raises UsageError: a name of the environment is not set.
        """
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
        return place if beside is None else place.with_name(f"{place.name}.shadow-{beside.name}")


def read_network(path: Path, ledger: str | None = None) -> Network:
    """Read `NIGHT.toml`.

    `ledger`: where the file names none. Raises UsageError: it cannot be read, or is not as it should be;
    every fault is named.
    """
    content, folder = read_toml(path, MOST_BYTES, UsageError), path.resolve().parent
    faults: list[str] = []
    for key in content:
        if key not in ("site", "series"):
            faults.append(f"unknown key '{key}'{did_you_mean(key, ('site', 'series'))}")
    site = _read(Site, content.get("site", {}), folder, "site", faults)
    plans = content.get("series", {})
    named = plans if isinstance(plans, dict) else {}
    if not named:
        faults.append("no series; give each its table, [series.NAME]")
    series = {
        _name(name, faults): _read(SeriesPlan, plan, folder, f"series.{name}", faults)
        for name, plan in named.items()
    }
    known = {name: plan for name, plan in series.items() if plan is not None}
    chosen = (site.ledger if site else None) or ledger
    if site is not None and not chosen:
        faults.append("site.ledger: give the ledger's file or URL here, or in SCREEN_LEDGER")
    shown = Readers()
    if site is not None:
        faults += _too_large(site, known)
        try:
            shown = readers(site.mode, site.group)
        except UsageError as error:
            faults.append(f"site.{error}")
        if site.publish is None and (site.mode or site.group):
            faults.append("site.mode and site.group are those of copies for readers; give site.publish too")
    faults += _same_place(known)
    _refuse(path, faults)
    assert site is not None, "else there are faults"
    place = str(chosen) if "://" in str(chosen) else str(folder / str(chosen))
    network = Network(site, known, folder, place, shown)
    for name, plan in known.items():
        table = os.path.normpath(folder / filled(plan.cohort, name, "{date}"))
        if f"{os.path.normpath(network.out(name, '{date}'))}/".startswith(f"{table}/"):
            faults.append(f"series.{name}.out: lies in the series' table, so a night would be read as one")
    _refuse(path, faults)
    return network


def _refuse(path: Path, faults: list[str]) -> None:
    if faults:
        head = f"{path.name} is wrong in {len(faults)} place{'s' * (len(faults) != 1)}:"
        raise UsageError("\n  ".join([head, *faults]))


def _name(text: str, faults: list[str]) -> str:
    try:
        if text.casefold().endswith(".html"):
            raise ValueError(f"pages end with .html; name the series '{text[:-5]}'")
        return series_name(text)
    except ValueError as error:
        faults.append(f"series.{text}: {error}")
        return text


def _read(kind: type[Table], content: Any, folder: Path, place: str, faults: list[str]) -> Table | None:
    try:
        return kind.model_validate(content, context=folder)
    except ValidationError as error:
        for item in error.errors():
            key = ".".join([place, *map(str, item["loc"])])
            said = item["msg"].removeprefix("Value error, ")
            if item["type"] == "extra_forbidden":
                said = "unknown key" + did_you_mean(str(item["loc"][-1]), kind.model_fields)
            faults.append(f"{key}: {said}")
        return None


def _too_large(site: Site, series: Mapping[str, SeriesPlan]) -> Iterator[str]:
    for name, plan in series.items():
        for key in ("jobs", "memory_mb"):
            own, shared = getattr(plan, key), getattr(site, key)
            if own > shared:
                yield f"series.{name}.{key}: {own} is more than the {shared} that all share"


def _same_place(series: Mapping[str, SeriesPlan]) -> Iterator[str]:
    """Two that would replace each other's nights, or a shadow that cannot be told from another."""
    places: dict[str, str] = {}
    for name, plan in series.items():
        place = filled(plan.out, name, "{date}")
        if place in places:
            yield f"series.{name}.out: the same place as series.{places[place]}; put {{series}} in it"
        places[place] = name
        if len({path.name for path in plan.shadow}) != len(plan.shadow):
            yield f"series.{name}.shadow: directories of the same name; their runs would lie in one place"
