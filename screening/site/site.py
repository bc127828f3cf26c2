"""Read `NIGHT.toml`: the series of a site, their models and tables, their budget."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
    IPvAnyAddress,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from screening.clock.zone import Clock, clock_of
from screening.errors import UsageError, list_faults
from screening.files import read_toml
from screening.io.queries import Database
from screening.ledger.verdict_file import as_compared
from screening.schemas.figures import Rule, rule_named
from screening.settings import (
    LEDGER,
    REFUSED_CELLS,
    DatabaseTable,
    Hour,
    PageGroup,
    PageMode,
    PublicKeyFile,
    PublishFolder,
    PublishOptions,
    QueryFile,
    Templates,
    TimeZone,
    TrueLabel,
)
from screening.spelling import did_you_mean, filled, series_name
from screening.store.pages import PageFolder, parse_readers

MAX_BYTES = 16 << 20
PLACEHOLDERS = ("date", "series")
EVERY = "*"
"""In the table of readers: every series."""
MAX_READER = 100
MAX_PORT = 65535


def _pattern(text: str) -> str:
    """Check the placeholders of a pattern."""
    for name in re.findall(r"\{(.*?)\}", text):
        if name not in PLACEHOLDERS:
            raise ValueError(
                f"{{{name}}} is not a placeholder{did_you_mean(name, PLACEHOLDERS)};"
                " use {date} or {series}"
            )
    if not Template(text).is_valid():
        raise ValueError(
            "write the name of an environment variable after $; for the character $ "
            "itself, write $$"
        )
    return text


def _of_each_night(text: str) -> str:
    """Check that a pattern has the date."""
    if "{date}" not in text:
        raise ValueError(
            "must contain {date}, or each night would replace the one before"
        )
    return text


def _from_folder(path: Path, info: ValidationInfo) -> Path:
    """Return a path relative to the folder of the file."""
    folder: Path = info.context or Path()
    return folder / _expanded(str(path))


def _expanded(place: str) -> Path:
    """Return a path in which `~` and variables such as `$HOME` are replaced.

    Raises
    ------
    ValueError
        A variable is not set in the environment, or the user does not exist.
    """
    try:
        return Path(Template(place).substitute(os.environ)).expanduser()
    except KeyError as missing:
        raise ValueError(f"${missing.args[0]} is not set in the environment") from None
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def _rule(agreed: object) -> Rule:
    """Return the one rule of a table."""
    if not isinstance(agreed, Mapping) or len(agreed) != 1:
        raise ValueError("write one rule, such as {min_sensitivity = 0.9}")
    ((name, value),) = agreed.items()
    return rule_named(name, value=value)


def _name(text: str) -> str:
    """Check the name of a series, which is also a folder of pages."""
    if text.casefold().endswith(".html"):
        raise ValueError(
            f"names of pages end with .html; name the series '{text[:-5]}'"
        )
    return series_name(text)


IN_FOLDER = AfterValidator(_from_folder)
Place = Annotated[Path, IN_FOLDER]
PATTERN = AfterValidator(_pattern)
Pattern = Annotated[str, Field(min_length=1), PATTERN]
Words = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Days = Annotated[int, Field(ge=0, le=366)]


def _address(text: str) -> str:
    """Check the address of a service."""
    kind, colon, rest = text.rpartition(":")
    is_path = text.startswith("unix:/")
    is_port = rest.isdecimal() and int(rest) <= MAX_PORT
    if not is_path and not (colon and kind and is_port):
        raise ValueError("write unix:/path/of/socket, or an address and its port")
    return text


def reader_name(text: str) -> str:
    """Return a reader's name in the form in which names are compared.

    ValueError if it is empty, too long, or has characters that are not seen.
    """
    name = unicodedata.normalize("NFC", text).strip()
    unseen = [char for char in name if unicodedata.category(char)[0] in "CZ"]
    if not 0 < len(name) <= MAX_READER or set(unseen) - {" "}:
        raise ValueError(f"a reader's name has 1 to {MAX_READER} visible characters")
    return name


class _Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class Site(_Table):
    """Settings that all series share: the table `[site]`."""

    title: str = "Screening"
    """Title of the overview."""
    ledger: Annotated[str | None, LEDGER] = None
    runs: Place = Field(Path("runs"), validate_default=True)
    """Folder of the run directories, which only their owner can read; without
    `publish` also that of the overview, `overview`."""
    publish: Annotated[PublishFolder, IN_FOLDER] = None
    mode: PageMode = None
    group: PageGroup = None
    jobs: Count | None = None
    """Cores that all series share; by default all."""
    memory_mb: Count = 4096
    """MiB of memory that all series share."""
    time_zone: TimeZone = None
    hour: Hour = None
    catch_up: Days = 7
    """Days before tonight whose missed nights are scored first."""
    verdicts: Place | None = None
    """Inbox: folder of the files of verdicts, which each night reads."""
    merged: Place | None = None
    """Table of patients whose numbers were merged, with columns `old`, `new` and
    `since`; each night enters what is new in it."""
    hooks: list[Words] = []
    """Commands that get the overview on stdin, each a list of words, run without a
    shell."""
    hook_seconds: Annotated[float, Field(gt=0, le=3600)] = 30
    """A hook that takes longer is stopped."""

    @model_validator(mode="after")
    def _check_readers(self) -> Site:
        try:
            PublishOptions(publish=self.publish, mode=self.mode, group=self.group)
            parse_readers(self.mode, self.group)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return self

    def pages(self, folder: Path) -> PageFolder:
        """Return a folder of pages for readers."""
        return PageFolder(folder, parse_readers(self.mode, self.group))


def _refuse_no_table(cohort: str | None, info: ValidationInfo) -> str | None:
    """Check that a table or features are given; ValueError if neither."""
    if cohort is None and info.data.get("features") is None:
        raise ValueError("give cohort, or features")
    return cohort


class SeriesPlan(_Table):
    """One screen of one place: a table `[series.NAME]`."""

    model: Place
    """Model directory of the champion."""
    features: Place | None = None
    """In place of `cohort`: a spec that makes the table from events."""
    cohort: Annotated[
        Pattern | None, AfterValidator(_refuse_no_table), Field(validate_default=True)
    ] = None
    """Table: a file, directory, glob or URL. {date} is the night, {series} the name,
    $NAME a variable of the environment, which may contain a password."""
    table: Annotated[DatabaseTable, Field(min_length=1), PATTERN] = None
    query: Annotated[QueryFile, IN_FOLDER] = None
    label: TrueLabel = None
    outcomes: Pattern | None = None
    """Table of outcomes, a pattern as `cohort`; each night reads it by `[outcome]` of
    the contract."""
    outcomes_query: Place | None = None
    """With a URL as `outcomes`: file with a SELECT."""
    shadow: list[Place] = []
    """Model directories that are scored in shadow."""
    out: Annotated[Pattern, AfterValidator(_of_each_night)] = "{series}/{date}"
    """Run directory below `runs`."""
    refused: Annotated[
        Annotated[Pattern, AfterValidator(_of_each_night)] | None, REFUSED_CELLS
    ] = None
    rule: Annotated[InstanceOf[Rule], BeforeValidator(_rule)] | None = None
    """Rule of the threshold, such as {min_sensitivity = 0.9}; a model with another rule
    is refused (exit code 4)."""
    templates: Annotated[Templates, IN_FOLDER] = None
    require_signature: Annotated[PublicKeyFile, IN_FOLDER] = None
    jobs: Count = 1
    """Cores of one night, of those that all series share."""
    memory_mb: Count = 512
    """MiB of memory of one night, of those that all series share."""
    minutes: Annotated[float, Field(gt=0)] = 60
    """A night that takes longer is stopped."""
    catch_up: Days | None = None
    """By default that of the site."""
    hour: Hour = None


class Letterbox(_Table):
    """How `screen serve` shows pages and takes verdicts: the table `[serve]`."""

    address: Annotated[str, AfterValidator(_address)] = "127.0.0.1:8750"
    """`unix:` and a path, or an address and a port; a socket that systemd provides
    comes before it."""
    login: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]{1,60}$")] | None = None
    """Header in which the hospital's login names the reader."""
    proxies: list[IPvAnyAddress] = []
    """Required over TCP: addresses that may send the login header."""
    secret: Place | None = None
    """Required over TCP: private file with the secret that these also send, in
    `X-Screening-Secret`."""
    readers: dict[Annotated[str, AfterValidator(reader_name)], Words] = {}
    """Series that each reader may see; `"*"` is all of them, and the overview."""
    keys: dict[Annotated[str, AfterValidator(_name)], Place] = {}
    """Without `login`: for each series, a private file with its secret."""
    certificate: Place | None = None
    """For TLS, which is required except on loopback."""
    certificate_key: Place | None = None
    """Private key of the certificate."""

    def may_see(self, reader: str, series: str) -> bool:
        """Return True if the table of readers shows a series to a reader."""
        return not {series, EVERY}.isdisjoint(self.readers.get(reader, ()))


class NightFile(_Table):
    """The whole file."""

    site: Site = Field({}, validate_default=True)
    serve: Letterbox | None = None
    series: dict[Annotated[str, AfterValidator(_name)], SeriesPlan] = {}


@dataclass(frozen=True)
class Network:
    """A site and its series, every path absolute."""

    site: Site
    series: Mapping[str, SeriesPlan]
    file: Path
    ledger: str
    serve: Letterbox | None = None

    @property
    def folder(self) -> Path:
        """The directory of the file; relative paths in it begin there."""
        return self.file.parent

    @property
    def clock(self) -> Clock:
        """The clock of the site, that of this host if it states no time zone."""
        return clock_of(self.site.time_zone)

    @property
    def pages(self) -> PageFolder:
        """The folder of the overview."""
        return self.site.pages(self.site.publish or self.site.runs / "overview")

    def pages_of(self, name: str) -> PageFolder | None:
        """Return the folder for copies of a series' pages, if there are copies."""
        if self.site.publish is None:
            return None
        return self.site.pages(self.site.publish / name)

    def cohort(self, name: str, night: str) -> str:
        """Return the place of a night's table.

        UsageError if a variable of the environment is not set.
        """
        plan = self.series[name]
        if plan.cohort is None:
            # Hidden: no series, and so no run, has such a name.
            folder = self.site.runs / ".features" / name
            return str(folder / f"{night or 'night'}.parquet")
        return self._place(name, "cohort", plan.cohort, night)

    def source(self, name: str, night: str) -> str | Database:
        """Return a night's table: its place, or the database that has it.

        UsageError if a variable of the environment is not set.
        """
        plan = self.series[name]
        place = self.cohort(name, night)
        if plan.table is None and plan.query is None:
            return place
        table = None
        if plan.table is not None:
            table = filled(plan.table, name, night)
        return Database(place, table, plan.query, night)

    def has_nights(self, name: str) -> bool:
        """Return True if the table of an earlier night can still be read."""
        plan = self.series[name]
        if plan.cohort is None or "{date}" in f"{plan.cohort} {plan.table or ''}":
            return True
        if plan.query is None:
            return False
        try:
            return Database(plan.cohort, None, plan.query).has_nights()
        except UsageError:
            # The night itself says that the query cannot be read.
            return False

    def is_live(self, name: str) -> bool:
        """Return True if a series has a database without earlier states."""
        plan = self.series[name]
        is_database = plan.table is not None or plan.query is not None
        return is_database and not self.has_nights(name)

    def outcomes(self, name: str, night: str) -> str | Database | None:
        """Return the table of outcomes of a series; None if it names none.

        UsageError if a variable of the environment is not set.
        """
        plan = self.series[name]
        if plan.outcomes is None:
            return None
        place = self._place(name, "outcomes", plan.outcomes, night)
        if plan.outcomes_query is None:
            return place
        return Database(place, None, plan.outcomes_query, night)

    def _place(self, name: str, key: str, pattern: str, night: str) -> str:
        """Return the place that a pattern of a series names on a night."""
        try:
            place = filled(Template(pattern).substitute(os.environ), name, night)
        except KeyError as missing:
            raise UsageError(
                f"series.{name}.{key}: ${missing.args[0]} is not set in the environment"
            ) from None
        if "://" in place:
            return place
        return str(self.folder / Path(place).expanduser())

    def has_password(self) -> bool:
        """Return True if a URL of the site has a password."""
        places = [self.ledger, *(self.cohort(name, "") for name in self.series)]
        return any(re.search("://[^/]*:.*@", place) for place in places)

    def out(self, name: str, night: str, shadow: Path | None = None) -> Path:
        """Return the run directory of a night, or that of a model in shadow."""
        place = self.site.runs / filled(self.series[name].out, name, night)
        if shadow is None:
            return place
        return place.with_name(f"{place.name}.shadow-{shadow.name}")

    def refused(self, name: str, night: str) -> Path | None:
        """Return the file for the refused cells of a night; None without one."""
        pattern = self.series[name].refused
        if not pattern:
            return None
        return self.site.runs / filled(pattern, name, night)


def read_network(
    path: Path, ledger: str | None = None, needs_ledger: bool = True
) -> Network:
    """Read `NIGHT.toml`.

    Parameters
    ----------
    path : Path
    ledger : str, optional
        The ledger if the file names none.
    needs_ledger : bool
        False for what never opens it: a file that names none is then no fault.

    Raises
    ------
    UsageError
        If the file cannot be read or has faults; all faults are named.
    """
    content = read_toml(path, MAX_BYTES, UsageError)
    folder = path.resolve().parent
    faults: list[str] = []
    try:
        file = NightFile.model_validate(content, context=folder)
    except ValidationError as error:
        faults.extend(map(_fault, error.errors()))
    else:
        place = file.site.ledger or ledger or ""
        if "://" not in place:
            place = str(folder / Path(os.path.expandvars(place)).expanduser())
        network = Network(file.site, file.series, path.resolve(), place, file.serve)
        faults.extend(_conflicts(network))
        if needs_ledger and not (file.site.ledger or ledger):
            faults.append(
                "site.ledger: give the ledger's file or URL here, or in SCREEN_LEDGER"
            )
    if faults:
        plural = "s" if len(faults) != 1 else ""
        head = f"{path.name} is wrong in {len(faults)} place{plural}:"
        raise UsageError(list_faults(head, faults))
    return network


def _fault(error: Any) -> str:
    """Return an error of pydantic in one line, with its key."""
    *tables, key = [str(part) for part in error["loc"] if part != "[key]"]
    words = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        words = f"unknown key{did_you_mean(key, _keys_of(tables))}"
    return f"{'.'.join([*tables, key])}: {words}"


def _keys_of(tables: Sequence[str]) -> Iterable[str]:
    """Return the keys of a table of the file."""
    if not tables:
        return NightFile.model_fields
    kinds: dict[str, type[_Table]] = {"site": Site, "serve": Letterbox}
    return kinds.get(tables[0], SeriesPlan).model_fields


def _conflicts(network: Network) -> Iterator[str]:
    """Yield faults of keys that are right alone and wrong together."""
    if not network.series:
        yield "no series; give each its table, [series.NAME]"
    series_at: dict[str, str] = {}
    names: dict[str, str] = {}
    for name in network.series:
        # On macOS, and on shares of Windows servers, these are one folder.
        same_name = names.setdefault(name.casefold(), name)
        if same_name != name:
            yield (f"series.{name}: differs from series.{same_name} only in capitals")
        out = os.path.normpath(network.out(name, "{date}"))
        first = series_at.setdefault(out.casefold(), name)
        if first != name and same_name == name:
            yield (
                f"series.{name}.out: the same place as series.{first}; put {{series}}"
                " in it"
            )
        yield from _conflicts_of_series(network, name)
    yield from _unknown_series(network)
    yield from _readers_alike(network)


def _readers_alike(network: Network) -> Iterator[str]:
    """Yield the readers of `[serve]` that the ledger would take for one reviewer."""
    if network.serve is None:
        return
    for one, other in pairwise(sorted(network.serve.readers, key=as_compared)):
        if as_compared(one) == as_compared(other):
            yield (
                f"serve.readers: the ledger cannot distinguish '{one}' and '{other}', "
                "because it ignores case and dots; rename one"
            )


def _unknown_series(network: Network) -> Iterator[str]:
    """Yield the series that the table `[serve]` names and the site does not have."""
    if network.serve is None:
        return
    named = {name for names in network.serve.readers.values() for name in names}
    named.update(network.serve.keys)
    for name in sorted(named - {EVERY, *network.series}):
        hint = did_you_mean(name, network.series)
        yield f"serve: series '{name}' does not exist{hint}"


def _conflicts_of_series(network: Network, name: str) -> Iterator[str]:
    """Yield the faults of a series, and its claims that exceed the site's budget."""
    plan = network.series[name]
    for key in ("jobs", "memory_mb"):
        claim = getattr(plan, key)
        budget = getattr(network.site, key)
        if budget is not None and claim > budget:
            yield (
                f"series.{name}.{key}: {claim} is more than the {budget} that all "
                "series share"
            )
    if plan.features is not None and (plan.cohort or plan.table or plan.query):
        yield f"series.{name}: give either features, or cohort, table and query"
    if plan.table is not None and plan.query is not None:
        yield f"series.{name}: table and query exclude each other; give one"
    if len({path.name for path in plan.shadow}) != len(plan.shadow):
        yield (
            f"series.{name}.shadow: two directories have the same name, so their runs "
            "would be in one place; rename one"
        )
    out = os.path.normpath(network.out(name, "{date}"))
    if plan.cohort is None:
        return
    table = os.path.normpath(network.folder / filled(plan.cohort, name, "{date}"))
    if f"{out}/".startswith(f"{table}/"):
        yield (
            f"series.{name}.out: it is inside the series' table, so a night would be "
            "read as part of it"
        )
