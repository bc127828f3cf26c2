"""Options that several commands take, and what their text means."""

from __future__ import annotations

import datetime
import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from glob import escape, glob
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from screening.cli import logs
from screening.errors import UsageError
from screening.option_groups import Option, option_of
from screening.registry import plugin_names
from screening.schemas.figures import RULE_TYPES, Rule, rule_named
from screening.settings import LEDGER, DatabaseOptions, Templates, series_from
from screening.spelling import DIGITS, did_you_mean, names_from

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

    from screening.io.queries import Database
    from screening.ledger.database import Ledger


def recipes_like(incomplete: str) -> list[str]:
    """Return the installed recipes with this prefix."""
    shipped = (Path(file.name) for file in files("screening.models").iterdir())
    names = [path.stem for path in shipped if path.suffix == ".toml"]
    names += plugin_names("recipe")
    return sorted(name for name in names if name.startswith(incomplete))


def models_like(incomplete: str) -> list[str]:
    """Return the model directories that begin so, and directories above some."""
    folders = [Path(match) for match in glob(f"{escape(incomplete)}*/")]
    models = [str(folder) for folder in folders if (folder / "model.json").exists()]
    for folder in folders:
        models += [str(file.parent) for file in folder.glob("*/model.json")]
    return sorted(models)


def series_like(incomplete: str) -> list[str]:
    """Return the series of the ledger of SCREEN_LEDGER, or of `screening.db`."""
    from screening.errors import ScreenError
    from screening.ledger.database import open_ledger
    from screening.ledger.model_registry import every_series

    try:
        with (
            open_ledger(os.environ.get("SCREEN_LEDGER", "screening.db")) as ledger,
            ledger.reading() as rows,
        ):
            return [name for name in every_series(rows) if name.startswith(incomplete)]
    except (ScreenError, OSError):
        return []


# Options that a shell completes, by the name of their parameter.
COMPLETIONS = {"series": series_like, "recipe": recipes_like}

_source = typer.Argument(
    metavar="COHORT",
    envvar="SCREEN_COHORT",
    help=(
        "CSV, Parquet or Excel file, directory of such files, glob, NIfTI folder, or "
        "database URL."
    ),
)
CohortPlace = Annotated[str, _source]
OptionalPlace = Annotated[str | None, _source]


def source_of(cohort: str, database: DatabaseOptions) -> str | Database:
    """Return the files that COHORT names, or a database with --table or --query."""
    if database.table is None and database.query is None:
        return cohort
    from screening.io.queries import Database

    if "://" not in cohort:
        raise UsageError(
            "--table and --query need a database; give COHORT as a URL, such as "
            "duckdb:///FILE"
        )
    return Database(cohort, database.table, database.query)


@dataclass(frozen=True, kw_only=True)
class CohortOptions(DatabaseOptions):
    """COHORT, or a table or query of the database that it names."""

    cohort: CohortPlace

    @property
    def readable(self) -> str | Database:
        """The table: a path, or a query of a database."""
        return source_of(self.cohort, self)


AsJson = Annotated[
    bool, Option("Print one JSON object on stdout.", flags=("--json",), panel="Output")
]
RecipeName = Annotated[
    str,
    Option(
        "Method; `screen recipes` lists all.",
        metavar="NAME|FILE",
        flags=("--recipe", "-r"),
        panel="Method",
    ),
]


def _model_there(folder: Path) -> Path:
    """Refuse a place where nothing lies, and name the model that was probably meant."""
    if not folder.exists():
        near = folder.parent.glob("*/model.json") if folder.parent.is_dir() else ()
        names = [file.parent.name for file in near]
        raise typer.BadParameter(
            f"model {folder} does not exist{did_you_mean(folder.name, names)}"
        )
    return folder


_model = partial(
    typer.Argument, metavar="MODEL", callback=_model_there, autocompletion=models_like
)
ModelFolder = Annotated[Path, _model(help="Model directory written by `screen train`.")]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run directory written by `screen score`.")
]
RewrittenModel = Annotated[Path, _model(help="Model directory, which is rewritten.")]
PageFile = Annotated[
    Path | None,
    Option("Page to write (HTML).", metavar="FILE", flags=("--out", "-o")),
]


@dataclass(frozen=True)
class ContractKeys:
    """Keys of `[cohort]` beside the roles of columns."""

    capacity: Annotated[
        int | None,
        Option("Possible reviews per night.", metavar="NUMBER", panel="Data", min=1),
    ] = None
    set: Annotated[
        list[str] | None,
        Option(
            "Set a key of [cohort], such as capacity=12 or display=ward,bed; "
            "repeatable.",
            metavar="KEY=VALUE",
            panel="Data",
        ),
    ] = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings, by key."""
        from screening.contract.settings import parse_settings

        settings = parse_settings(self.set or ())
        if self.capacity is not None:
            settings["capacity"] = self.capacity
        return settings


@dataclass(frozen=True)
class RuleOptions:
    """The rule of a threshold, at most one of `RULE_TYPES`, and its numbers."""

    min_sensitivity: Annotated[
        float | None,
        Option(
            "RULE: find at least this share of the cases (0.9 without a rule).",
            metavar="SHARE",
            panel="Rule",
        ),
    ] = None
    max_flag_rate: Annotated[
        float | None,
        Option(
            "RULE: flag at most this share of the rows, such as 0.05.",
            metavar="SHARE",
            panel="Rule",
        ),
    ] = None
    miss_cost: Annotated[
        float | None,
        Option(
            "RULE: a missed case costs as much as this number of reviews, such as 20.",
            metavar="NUMBER",
            panel="Rule",
        ),
    ] = None
    g_mean: Annotated[
        bool, Option("RULE: largest sqrt(sensitivity x specificity).", panel="Rule")
    ] = False
    threshold: Annotated[
        float | None,
        Option("RULE: use this score as the threshold.", metavar="SCORE", panel="Rule"),
    ] = None
    confidence: Annotated[
        float | None,
        Option(
            "With a RULE: reach the target with this confidence, such as 0.95.",
            metavar="SHARE",
            panel="Rule",
        ),
    ] = None
    prevalence: Annotated[
        float | None,
        Option(
            "With a RULE: expected share of cases when scoring, such as 0.01, for "
            "PPV and NPV.",
            metavar="SHARE",
            panel="Rule",
        ),
    ] = None

    def rule(self, *, required: bool = False) -> Rule:
        """Return the stated rule; sensitivity 0.9 without one.

        More than one is a `UsageError`; so is none if one is `required`.
        """
        values = {name: getattr(self, name) for name in RULE_TYPES}
        rules = {
            name: value
            for name, value in values.items()
            if value is not None and value is not False
        }
        if len(rules) > 1:
            raise UsageError(
                f"{', '.join(map(option_of, rules))} exclude each other; give one rule"
            )
        if required and not rules:
            raise UsageError(
                "choose the threshold by one of these rules: "
                f"{', '.join(map(option_of, RULE_TYPES))}"
            )
        name, value = next(iter(rules.items()), ("min_sensitivity", 0.9))
        if value is True:
            value = None
        try:
            return rule_named(
                name,
                value=value,
                confidence=self.confidence,
                prevalence=self.prevalence,
            )
        except ValueError as error:
            raise UsageError(str(error)) from None


Sign = Annotated[
    Path | None,
    Option(
        "Sign the model with this Ed25519 key (PEM).", metavar="KEY", panel="Output"
    ),
]

LedgerMaybe = Annotated[str | None, LEDGER]
LedgerHere = Annotated[str, LEDGER]


def id_from(argument: bytes) -> str:
    """Return an id as a table of the same bytes has it.

    The encoding is UTF-8, else cp1252, else latin-1.
    """
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return argument.decode(encoding)
    return argument.decode("latin-1")


def series_keys(book: Ledger, text: str | None) -> list[str]:
    """Return the keys of series by their names, with commas between them.

    One without a name is given by the digits that messages show for it.
    """
    from screening.ledger.model_registry import find_series

    keys = []
    for name in names_from(text):
        if DIGITS.fullmatch(name):
            with book.reading() as connection:
                keys.append(find_series(connection, name))
        else:
            keys.append(series_from(name))
    return keys


PromotedSeries = Annotated[
    str | None,
    Option(
        "Series that get the new champion; by default the contract's.",
        metavar="A,B",
        panel="Ledger",
    ),
]
RevisedSeries = Annotated[
    str | None,
    Option(
        "With --ledger: series that get the change; by default the contract's, "
        "else all that use MODEL.",
        metavar="A,B",
        panel="Ledger",
    ),
]
SeriesAsked = Annotated[
    str | None,
    Option("Only this series; by default all.", metavar="NAME", panel="Ledger"),
]


@dataclass(frozen=True)
class RevisionOptions:
    """Options of a revised model: its ledger, signature and templates."""

    ledger: LedgerMaybe = None
    series: RevisedSeries = None
    sign: Sign = None
    templates: Templates = None


def day_from(option: str, text: str | None) -> datetime.date | None:
    """Read a day written as YYYY-MM-DD."""
    try:
        return None if text is None else datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text}: write the day as YYYY-MM-DD") from None


def reason_from(option: str, text: str | None) -> str | None:
    """Return a reason; UsageError for one without words."""
    if text is not None and not text.strip():
        raise UsageError(
            f"{option}: give the reason in a few words, which are recorded"
        )
    return text


# Parameters that the recorded command leaves out, so that the same training gives the
# same bytes: they have no effect on the model or, as the nights that a retraining
# learns from, are recorded by their digests.
NOT_RECORDED = frozenset(
    (
        "out",
        "templates",
        "jobs",
        "as_json",
        "force",
        "sign",
        "cluster",
        "ledger",
        "nights",
        "accept_delivery",
    )
)


def command_of(context: typer.Context) -> str:
    """Return the command as it was typed, files by name only, for a model's record."""
    arguments = context.command_path.split()
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        unstated: tuple[Any, ...] = (None, [], (), False, parameter.default)
        if parameter.name not in NOT_RECORDED and value not in unstated:
            arguments += _words_of(parameter, value)
    return shlex.join(arguments)


def _words_of(parameter: Any, value: Any) -> Iterator[str]:
    """Yield a parameter of click as it was typed, files by name only."""
    # Newer typers have a click of their own, so that its type cannot be named.
    if value is True:
        yield parameter.opts[0]
        return
    items = value if isinstance(value, (list, tuple)) else [value]
    for item in items:
        if parameter.param_type_name == "argument":
            yield _name_of(str(item))
            continue
        yield parameter.opts[0]
        yield Path(item).name if _is_path(parameter, item) else str(item)


def _is_path(parameter: object, value: object) -> bool:
    """Return whether an option takes a path; older typers hand it out as text."""
    kind = getattr(parameter, "type", None)
    return isinstance(value, Path) or getattr(kind, "name", None) == "path"


def signer_from(key: Path | None) -> Ed25519PrivateKey | None:
    """Return the key to sign with, if there is one."""
    from screening.store.signing import private_key

    return None if key is None else private_key(key)


def public_key_from(key: Path | None) -> Ed25519PublicKey | None:
    """Return the key to verify a signature with, if there is one."""
    from screening.store.signing import public_key

    return None if key is None else public_key(key)


def say_unsigned(model: Path, signer: Ed25519PrivateKey | None) -> None:
    """Say that the model to be replaced was signed, and its successor will not be."""
    from screening.store.signing import is_signed

    if signer is None and is_signed(model):
        message = "the model was signed, but the new one is not; give --sign to sign it"
        logs.note(message)


def _name_of(place: str) -> str:
    """Return the name of a file, or a URL without its secrets."""
    if "://" not in place:
        return Path(place).name
    from screening.io.connections import redacted_url

    return redacted_url(place)
