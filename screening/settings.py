"""Groups of options that commands, NIGHT.toml and Python functions share."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NewType, TypeAlias

from screening.clock.zone import HourOrColumn, ZoneName
from screening.contract.choices import Unlabelled
from screening.errors import UsageError
from screening.option_groups import Keyword, Option, OptionGroup, documented
from screening.schemas.figures import GridName
from screening.spelling import names_from, series_name

if TYPE_CHECKING:
    from screening.cluster import Cluster
    from screening.contract.contract import Contract
else:
    # `screen --help` lists these fields, and waits for no numerical package.
    Cluster = NewType("Cluster", object)
    Contract = NewType("Contract", object)

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

Progress: TypeAlias = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Report no progress."""


def bytes_from(text: str) -> int:
    """Read a size: `512M`, `2G`, a number of bytes."""
    number = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = 1
    if number[-1:] in _UNITS:
        unit = _UNITS[number[-1]]
        number = number[:-1]
    try:
        size = int(float(number) * unit)
    except (ValueError, OverflowError):
        size = 0
    if size < 1 << 20:
        raise UsageError(
            f"`memory` {text}: give a size of 1M or more, such as 512M or 2G",
            parameters=["memory"],
        )
    return size


def params_from(texts: Sequence[str]) -> dict[str, object]:
    """Read `name=value` pairs; a value is text if it is not a number, true or false."""
    params: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"`params` {text}: write it as name=value", parameters=["params"]
            )
        try:
            params[name.strip()] = json.loads(value)
        except ValueError:
            params[name.strip()] = value.strip()
    return params


def recipes_from(text: str) -> list[str]:
    """Read names of recipes, separated by commas; `none` is the empty list."""
    return [] if text.strip() == "none" else names_from(text)


def series_from(text: str) -> str:
    """Read the name of a series."""
    try:
        return series_name(text)
    except ValueError as error:
        raise UsageError(f"`series` {text}: {error}", parameters=["series"]) from None


def names_from_all(texts: Sequence[str]) -> list[str]:
    """Read names from several texts with commas between them."""
    return [name for text in texts for name in names_from(text)]


out_option = partial(Option, flags=("--out", "-o"), panel="Output")
"""Declare what a command writes, with a help and a metavar."""

# Options of several groups, commands, or keys of NIGHT.toml.
Label: TypeAlias = Annotated[
    str | None,
    Option(
        "Column of the outcome.",
        metavar="COLUMN",
        flags=("--label", "-l"),
        panel="Data",
    ),
]
ContractFile: TypeAlias = Annotated[
    str | Path | Contract | None,
    Option(
        "Contract written by `screen init`, then edited.",
        metavar="FILE",
        flags=("--contract", "-c"),
        panel="Data",
        takes=Path,
    ),
]
Date: TypeAlias = Annotated[
    str | None,
    Option(
        "Night of the run; by default today.",
        metavar="YYYY-MM-DD",
        flags=("--date", "-d"),
    ),
]
Series: TypeAlias = Annotated[
    str | None,
    Option(
        "With --ledger: series of the night; by default the contract's.",
        metavar="NAME",
        panel="Ledger",
        takes=str,
        read=series_from,
    ),
]
Replace: TypeAlias = Annotated[
    str | None,
    Option(
        "Enter a scored night again, for this reason, such as a corrected table.",
        metavar="REASON",
    ),
]
AcceptDelivery: TypeAlias = Annotated[
    str | None,
    Option(
        "Accept a table that does not look like tonight's, for this reason.",
        metavar="REASON",
    ),
]
Jobs: TypeAlias = Annotated[
    int,
    Option("Cores to use; -1 for all.", metavar="N", flags=("--jobs", "-j")),
]
ClusterAddress: TypeAlias = Annotated[
    str | Cluster | None,
    Option(
        "Use a dask cluster, or N local processes.",
        metavar="ADDRESS|local:N",
        takes=str,
    ),
]
Hour: TypeAlias = Annotated[
    HourOrColumn | None,
    Option(
        "Hour at which the table was taken, such as 06:00, or a column with this time; "
        "by default the contract's, else the time of its file.",
        metavar="HOUR",
    ),
]
TimeZone: TypeAlias = Annotated[
    ZoneName | None,
    Option(
        "Time zone of times without one, such as Europe/Berlin; by default the "
        "contract's, else the host's.",
        metavar="ZONE",
    ),
]
TrueLabel: TypeAlias = Annotated[
    str | None,
    Option(
        "Column of true labels, for evaluation; never written.",
        metavar="COLUMN",
        flags=("--label", "-l"),
        panel="Data",
    ),
]
Templates: TypeAlias = Annotated[
    Path | None,
    Option(
        "Folder of your own templates (docs/templates.md).",
        metavar="DIR",
        panel="Output",
    ),
]
# Options that are also keys of NIGHT.toml, where a path may be a pattern.
LEDGER = Option(
    "Ledger: a SQLite file or postgresql+psycopg://...",
    metavar="URL",
    panel="Ledger",
    envvar="SCREEN_LEDGER",
)
REFUSED_CELLS = Option(
    "CSV of every refused or out-of-bounds cell: id, column, reason.",
    metavar="FILE",
    panel="Output",
    takes=Path,
)
DatabaseTable: TypeAlias = Annotated[
    str | None,
    Option("Database only: table or view.", metavar="NAME", panel="Data"),
]
QueryFile: TypeAlias = Annotated[
    Path | None,
    Option("Database only: file with a SELECT.", metavar="FILE.sql", panel="Data"),
]
PublicKeyFile: TypeAlias = Annotated[
    Path | None,
    Option("Refuse a model not signed by this Ed25519 key (PEM).", metavar="PUB"),
]
PublishFolder: TypeAlias = Annotated[
    Path | None,
    Option(
        "Copy the page to this folder as DATE.html, then as latest.html.",
        metavar="DIR",
        panel="Output",
    ),
]
PageMode: TypeAlias = Annotated[
    str | None,
    Option(
        "With --publish: file mode of the copies, such as 0640.",
        metavar="MODE",
        panel="Output",
    ),
]
PageGroup: TypeAlias = Annotated[
    str | None,
    Option("With --publish: file group of the copies.", metavar="NAME", panel="Output"),
]


@documented
@dataclass(frozen=True, kw_only=True)
class DatabaseOptions(OptionGroup):
    """A table or a query of a database."""

    table: DatabaseTable = None
    query: QueryFile = None


@documented
@dataclass(frozen=True, kw_only=True)
class PublishOptions(OptionGroup):
    """A copy of the page for its readers."""

    publish: PublishFolder = None
    mode: PageMode = None
    group: PageGroup = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.publish is None and (self.mode or self.group):
            raise UsageError(
                "`mode` and `group` belong to the published copy; give `publish` too",
                parameters=["mode", "group", "publish"],
            )


@documented
@dataclass(frozen=True, kw_only=True)
class ExportOptions(OptionGroup):
    """Options of single forms of an export: each form takes some of them."""

    out: Annotated[
        Path | None,
        out_option(
            "File to write, or a directory for omop, nifti and dicom-seg.",
            metavar="FILE",
        ),
    ] = None
    url: Annotated[
        str | None, Option("For table: URL of the database.", metavar="URL")
    ] = None
    table: Annotated[
        str | None, Option("For table: name of the table.", metavar="NAME")
    ] = None
    id_system: Annotated[
        str | None, Option("For fhir: system of the identifiers.", metavar="URI")
    ] = None
    definition: Annotated[
        int | None,
        Option(
            "For omop: cohort_definition_id of the first class; by default 1.",
            metavar="N",
        ),
    ] = None
    reference: Annotated[
        Path | None,
        Option(
            "For dicom-seg: folder with the DICOM series of each patient in "
            "DIR/PATIENT.",
            metavar="DIR",
        ),
    ] = None
    since: Annotated[
        Path | None,
        Option(
            "For csv, fhir and omop: the previous export in this format, or its run "
            "directory. Marks what is new, changed and ended.",
            metavar="EARLIER",
        ),
    ] = None


@documented
@dataclass(frozen=True, kw_only=True)
class TableOptions(OptionGroup):
    """The roles of a table's columns, and the contract that they go before.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from screening import TableOptions, read_cohort
    >>> past = files("screening.sample_cohorts") / "nosocomial_past.csv"
    >>> roles = TableOptions(label="infected", id="patient_id", drop="admission_date")
    >>> read_cohort(past, table=roles).n_rows
    683
    """

    label: Label = None
    positive: Annotated[
        str | Sequence[str] | None,
        Option(
            "Label values of cases, each a class of its own; A+B is one class. Put "
            "values that contain a comma in double quotes.",
            metavar="A,B",
            panel="Data",
            takes=list[str],
            read=names_from_all,
        ),
    ] = None
    unlabelled: Annotated[
        Unlabelled | None,
        Option(
            "Rows with a blank label: refuse, count as no, or leave out.", panel="Data"
        ),
    ] = None
    leave_out: Annotated[
        str | Sequence[str] | None,
        Option(
            "Label value whose rows are left out of training; repeatable.",
            metavar="CLASS",
            panel="Data",
            takes=list[str],
        ),
    ] = None
    id: Annotated[
        str | None,
        Option("Column that identifies a row.", metavar="COLUMN", panel="Data"),
    ] = None
    group: Annotated[
        str | None,
        Option(
            "Column that groups rows, such as the patient: a group is never split over "
            "folds.",
            metavar="COLUMN",
            panel="Data",
        ),
    ] = None
    time: Annotated[
        str | None,
        Option("Column with the row's date.", metavar="COLUMN", panel="Data"),
    ] = None
    score: Annotated[
        str | None,
        Option(
            "Column of a score made elsewhere, for the recipe `given`.",
            metavar="COLUMN",
            panel="Data",
        ),
    ] = None
    drop: Annotated[
        str | Sequence[str],
        Option("Columns to leave out.", metavar="A,B", panel="Data", takes=str),
    ] = ()
    neighbourhood: Annotated[
        int | None,
        Option(
            "For voxels: add features of the cube around each voxel, with this side "
            "length, such as 3.",
            metavar="NUMBER",
            panel="Data",
        ),
    ] = None
    contract: ContractFile = None
    keep: Annotated[
        Collection[str],
        Keyword(
            "Columns that are features whatever they contain, such as those of a "
            "points table."
        ),
    ] = ()


@documented
@dataclass(frozen=True, kw_only=True)
class Search(OptionGroup):
    """Settings of a recipe: those that are fixed, and those that compete.

    Examples
    --------
    >>> from screening import Search
    >>> Search(search=20, grid="paper").grid
    'paper'
    >>> Search(params={"C": 10.0}).params
    {'C': 10.0}
    """

    params: Annotated[
        dict[str, object] | None,
        Option(
            "Fix a parameter of the recipe.",
            metavar="NAME=VALUE",
            flags=("--param",),
            panel="Method",
            takes=list[str],
            read=params_from,
        ),
    ] = None
    search: Annotated[
        int | None,
        Option(
            "Number of settings to compare on held-out rows.",
            metavar="N",
            panel="Method",
            min=1,
        ),
    ] = None
    grid: Annotated[
        GridName,
        Option("Grid of settings: the recipe's, or that of its paper.", panel="Method"),
    ] = "recipe"


def as_search(search: Search | int | None) -> Search | None:
    """Return a search; a number is that of the settings that compete."""
    if search is None or isinstance(search, Search):
        return search
    return Search(search=search)


@documented
@dataclass(frozen=True, kw_only=True)
class Validation(OptionGroup):
    """How rows are held out, and what the held-out scores are compared with.

    There are fewer folds if there are fewer groups, or fewer rows of the rarer class.

    Examples
    --------
    >>> from screening import Validation
    >>> Validation(folds=10, repeats=1).folds
    10
    >>> Validation(beside=()).beside
    ()
    """

    independent: Annotated[
        bool, Option("Treat every row as a different patient.", panel="Data")
    ] = False
    folds: Annotated[
        int,
        Option(
            "Number of folds; each row is held out once.",
            metavar="N",
            panel="Validation",
            min=2,
        ),
    ] = 5
    repeats: Annotated[
        int | None,
        Option(
            "Repeats of cross-validation (3 by default for fast models).",
            metavar="N",
            panel="Validation",
            min=1,
            shows_default=False,
        ),
    ] = None
    max_rows: Annotated[
        int | None,
        Option(
            "Use a random sample of this many rows.", metavar="N", panel="Data", min=1
        ),
    ] = None
    seed: Annotated[
        int,
        Option("Random seed; the same seed gives the same bytes.", metavar="N", min=0),
    ] = 0
    lesions: Annotated[
        bool,
        Option(
            "For voxels: choose the threshold by lesion, on smoothed maps.",
            panel="Rule",
        ),
    ] = False
    contamination: Annotated[
        float | None,
        Option(
            "For one-class recipes without known cases: expected share of unrecognised "
            "cases in COHORT.",
            metavar="SHARE",
            panel="Rule",
        ),
    ] = None
    beside: Annotated[
        Sequence[str] | None,
        Option(
            "Methods to compare with on the same folds; `none` for no comparison.",
            metavar="A,B",
            panel="Validation",
            takes=str,
            read=recipes_from,
        ),
    ] = None
    forward: Annotated[
        bool,
        Keyword(
            "Also train on the earlier rows alone and test on the later ones, if the "
            "contract names a time column."
        ),
    ] = True
    refuse: Annotated[
        bool,
        Keyword(
            "False returns a model that would be refused by a `PromiseError`. If there "
            "are too few cases for the rule, that model promises the sensitivity that "
            "they allow."
        ),
    ] = True


@documented
@dataclass(frozen=True, kw_only=True)
class Resources(OptionGroup):
    """Cores, memory and other machines; no result depends on them.

    Examples
    --------
    >>> from screening import Resources
    >>> Resources(jobs=4, memory=2 << 30).jobs
    4
    >>> Resources(cluster="local:4").cluster
    'local:4'
    """

    jobs: Jobs = -1
    cluster: ClusterAddress = None
    memory: Annotated[
        int | None,
        Option(
            "Memory for kernel matrices, such as 512M or 2G.",
            metavar="SIZE",
            unit="bytes",
            takes=str,
            read=bytes_from,
        ),
    ] = None
    progress: Annotated[
        Progress,
        Keyword("Called with the work done and the total work."),
    ] = field(default=silent, repr=False)
    kept: Annotated[
        Path | None,
        Keyword(
            "Private folder of finished folds, from which a training that was killed "
            "resumes."
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jobs != -1 and self.jobs < 1:
            raise UsageError(
                f"`jobs` {self.jobs}: give a number of cores, or -1 for all",
                parameters=["jobs"],
            )

    @property
    def workers(self) -> Cluster | None:
        """The connected workers."""
        assert not isinstance(self.cluster, str), "open_cluster connects them first"
        return self.cluster


@documented
@dataclass(frozen=True, kw_only=True)
class NightOptions(OptionGroup):
    """One night: its date and table, its series in the ledger, and its files.

    Examples
    --------
    >>> from screening import NightOptions
    >>> NightOptions(date="2026-03-01", series="ward-7").series
    'ward-7'
    >>> NightOptions(hour="06:00").shadow
    False
    """

    label: TrueLabel = None
    date: Date = None
    hour: Hour = None
    time_zone: TimeZone = None
    series: Series = None
    shadow: Annotated[
        bool,
        Option(
            "With --ledger: score in shadow beside the series' champion; the night is "
            "recorded without a page."
        ),
    ] = False
    force: Annotated[
        bool, Option("With --ledger: enter a night again with another table or model.")
    ] = False
    replace: Replace = None
    accept_delivery: AcceptDelivery = None
    refused: Annotated[str | Path | None, REFUSED_CELLS] = None
    allow_future: Annotated[
        bool, Option("For tests: accept a --date after tomorrow.")
    ] = False
    templates: Templates = None
    published: Annotated[
        bool,
        Keyword(
            "Readers see a copy of the page in another place, so that copy names "
            "the model's page without a link."
        ),
    ] = False
    batch_rows: Annotated[
        int | None,
        Keyword("Rows in memory at a time; the scores do not depend on it."),
    ] = None

    @property
    def may_replace(self) -> bool:
        """True if a scored night may be entered again: `replace` is the reason."""
        return self.force or self.replace is not None
