"""Commands that need no model: `screen init`, `check`, `schema` and `demo`."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from screening.cli import options
from screening.cli.console import ATTENTION, bar, print_answer, printable
from screening.cli.groups import Without
from screening.cli.waiting import stop_waiting
from screening.errors import CohortError, UsageError
from screening.option_groups import Option
from screening.registry import plugin_faults
from screening.settings import (
    ContractFile,
    DatabaseOptions,
    Resources,
    TableOptions,
    Validation,
)
from screening.spelling import command_line, did_you_mean

if TYPE_CHECKING:
    from screening.contract.contract import Contract
    from screening.data.stream import ReadOptions
    from screening.monitoring.drift import Gates

DROPPED = "dropped, "


# What `init` asks on a terminal, a role each.
QUESTIONS = {
    "label": "Outcome: column with the result",
    "positive": "Value that is a case",
    "group": "Patient: column that rows of one patient share",
    "id": "Row id: column that identifies a row",
    "time": "Date of the row",
    "capacity": "Possible reviews per night",
    "available": "Known before the outcome, or only after it",
}
NOTHING = "none"


def init_command(
    cohort: options.OptionalPlace = None,
    out: Annotated[
        Path | None,
        Option(
            "Contract to write (TOML).",
            metavar="FILE",
            flags=("--out", "-o"),
            panel="Output",
        ),
    ] = None,
    *,
    database: DatabaseOptions,
    columns: Annotated[TableOptions, Without("neighbourhood", "contract")],
    keys: options.ContractKeys,
    names: Annotated[
        Path | None,
        Option(
            "Print the most important columns of this model, with the titles "
            "and units that its pages show.",
            metavar="MODEL",
        ),
    ] = None,
    yes: Annotated[
        bool, Option("Ask nothing; accept every guess.", flags=("--yes", "-y"))
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a starter contract for COHORT, to read and edit.

    The contract has the role, type, range (`seen`) and categories of every column. In a
    terminal, init asks for each role that no option sets, and lists what it guessed and
    dropped. It refuses to write a contract that the table violates.

    After training, --names MODEL prints the titles and units of the most important
    columns, and asks for them in a terminal. Correct them in the contract's tables of
    these columns, then train again.
    """
    from screening.data.reading import starter_contract
    from screening.store.publishing import write_whole

    is_on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    asks = is_on_terminal and not yes and not as_json
    if names is not None:
        _print_names(names, asks, as_json)
        return
    if cohort is None or out is None:
        raise UsageError("give COHORT and --out, or --names MODEL")
    if out.exists():
        raise UsageError(
            f"{out} already exists, and may have been edited; give another --out"
        )
    contract, notes = starter_contract(
        options.source_of(cohort, database),
        _ask if asks else None,
        settings=keys.settings,
        **columns.stated(),
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, contract.to_toml(notes).encode())
    answer = {
        "contract": str(out),
        "features": len(contract.features),
        "outcome": contract.label,
    }
    print_answer(answer | in_lists(notes), as_json)


def _print_names(model: Path, asks: bool, as_json: bool) -> None:
    """Print lines for a contract: names and units of columns that carry the ranking.

    `asks`: each is asked for, with the model's as the default.
    """
    import tomlkit

    from screening.contract.contract import toml_text
    from screening.schemas.model import ModelDocument
    from screening.store.serialization import read_document

    document = ModelDocument.from_dict(read_document(model, "model"))
    lines: list[str] = []
    stop_waiting()
    for name in document.columns_of_ranking:
        title = document.title_of(name)
        unit = document.declared(name).unit or ""
        if asks:
            title = typer.prompt(f"{printable(name)}: title", default=title)
            answer = typer.prompt("unit", default=unit or NOTHING).strip()
            unit = "" if answer == NOTHING else answer
        lines += [
            f"[features.{tomlkit.key(name).as_string()}]",
            f"title = {toml_text(title)}",
            f"unit = {toml_text(unit)}",
            "",
        ]
    if as_json:
        print_answer({"names": lines}, as_json)
        return
    for line in lines:
        typer.echo(printable(line))


def _ask(
    role: str, guess: str | None, likely: Sequence[str], allowed: Sequence[str] | None
) -> str | None:
    """Ask until the answer is one that can be; None for none."""
    stop_waiting()
    question = QUESTIONS[role]
    if likely:
        question += f" ({', '.join(likely)})"
    while True:
        answer = typer.prompt(question, default=guess or NOTHING).strip()
        if answer == NOTHING:
            return None
        if allowed is None:
            is_valid = answer.isdecimal() and int(answer) > 0
            remedy = "a number from 1"
        else:
            is_valid = answer in allowed
            remedy = (
                f"{answer!r} is not one of these answers{did_you_mean(answer, allowed)}"
            )
        if is_valid:
            return answer
        typer.echo(f"{remedy}; or {NOTHING}")


def in_lists(notes: Sequence[str]) -> dict[str, list[str]]:
    """Return the notes on a table, and those on dropped columns apart from them."""
    dropped = [note.removeprefix(DROPPED) for note in notes if note.startswith(DROPPED)]
    return {
        "notes": [note for note in notes if not note.startswith(DROPPED)],
        "dropped": dropped,
    }


def check_command(
    cohort: options.CohortPlace,
    *,
    database: DatabaseOptions,
    contract: ContractFile = None,
    model: Annotated[
        Path | None,
        Option("Use the contract of this model directory.", metavar="MODEL"),
    ] = None,
    as_of: Annotated[
        str | None,
        Option(
            "With NIGHT.toml as COHORT: make the tables of this past night again, "
            "and compare them with those scored.",
            metavar="DATE",
        ),
    ] = None,
    series: options.SeriesAsked = None,
    as_json: options.AsJson = False,
) -> None:
    """Check COHORT against a contract; list violations by row.

    Values are never listed. With --model, also compare the values with those of
    training. Different units are a violation. Different distributions and out-of-bounds
    values give a note.

    With --as-of, COHORT is a site's NIGHT.toml. The spec or query of each series must
    give the same rows as on that night. Otherwise the exit code is 5, and the output
    names the number of new and missing rows and the columns that changed.
    """
    if as_of is not None:
        _check_as_of(Path(cohort), as_of, series, as_json)
        return
    from screening.data.reading import check_cohort

    if (model is None) == (contract is None):
        raise UsageError("give either --contract FILE or --model DIR")
    expected = contract
    gates = reading = None
    if model is not None:
        expected, gates, reading = _training_of(model)
    violations, notes = check_cohort(
        options.source_of(cohort, database), expected, options=reading
    )
    attention = gates.attention() if gates and not violations else []
    notes += map(str, plugin_faults())
    answer = {"violations": violations, "notes": notes}
    if as_json:
        reasons = list(map(vars, attention))
        print_answer(answer | {"attention": reasons}, as_json)
    if violations:
        raise CohortError(violations)
    if not as_json:
        answer["notes"] += [reason.words for reason in attention]
        print_answer(answer, as_json)


def _check_as_of(file: Path, night: str, series: str | None, as_json: bool) -> None:
    """Compare the tables of a past night, made again; exit 5 if one is another."""
    from screening.site.as_of import as_of_words, table_as_of
    from screening.site.site import read_network

    network = read_network(file, needs_ledger=False)
    names = [name for name in network.series if series in (None, name)]
    if not names:
        hint = did_you_mean(str(series), network.series)
        raise UsageError(f"{file.name} has no series '{series}'{hint}")
    found = [table_as_of(network, name, night) for name in names]
    if as_json:
        print_answer({"nights": [line.to_dict() for line in found]}, as_json)
    else:
        print_answer({"nights": as_of_words(found)}, as_json)
    if not all(line.same for line in found):
        raise typer.Exit(ATTENTION)


def _training_of(model: Path) -> tuple[Contract, Gates | None, ReadOptions]:
    """Return a model's contract, its gates, and how it reads a table."""
    from screening.contract.contract import Contract
    from screening.data.out_of_bounds import bounds_of_columns
    from screening.data.stream import ReadOptions
    from screening.monitoring.drift import Gates
    from screening.schemas.model import ModelDocument
    from screening.store.serialization import read_document

    document = read_document(model, "model")
    contract = Contract.from_dict(document["contract"])
    facts = ModelDocument.from_dict(document)
    past = facts.training.profile
    gates = None
    reading = ReadOptions(bounds=bounds_of_columns(contract, past), to_score=True)
    if past is not None:
        gates = Gates(past, contract)
        reading = replace(reading, observers=[gates])
    # Without them, no estimator is imported: that takes longer than the check.
    if facts.plugins:
        from screening.recipes.plugins import refuse_missing_plugins

        refuse_missing_plugins(document, model / "model.json")
    if contract.per_unit is not None:
        from screening.recipes.building import read_recipe
        from screening.recipes.encoders import score_of_rows

        recipe = read_recipe(document["recipe"]["text"])
        score_of = score_of_rows(recipe, contract)
        reading = replace(reading, score_of=score_of)
    return contract, gates, reading


def schema_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help=(
                "Document: model, run, comparison, validation, history or overview. "
                "With --printed: command."
            ),
        ),
    ],
    printed: Annotated[
        bool, Option("Print the schema of a command's --json output.")
    ] = False,
) -> None:
    """Print the JSON Schema of a document or of a command's output."""
    from screening.schemas.schemas import schema_of

    typer.echo(json.dumps(schema_of(name, printed), indent=1, sort_keys=True))


class Job(NamedTuple):
    """A sample cohort of the demo, and the method shown on it."""

    name: str
    cohort: str
    past: str
    new: str
    recipe: str
    max_rows: int | None = None
    beside: tuple[str, ...] | None = None


NIGHT = "nosocomial", "nosocomial_past.csv", "nosocomial_night.csv"
JOBS = (
    Job(
        "nosocomial",
        *NIGHT,
        "auto",
        beside=("svm", "logistic", "random_forest", "one_class_conformal"),
    ),
    Job("nosocomial_one_class", *NIGHT, "one_class_conformal"),
    Job(
        "prostate",
        "prostate",
        "prostate_past.parquet",
        "prostate_new.parquet",
        "shao_weighted",
        2000,
    ),
)


def demo_command(
    out: Annotated[
        Path,
        Option(
            "Directory to write models and runs in.",
            metavar="DIR",
            flags=("--out", "-o"),
            panel="Output",
        ),
    ],
    as_json: options.AsJson = False,
) -> None:
    """Train on the sample cohorts, score them, and list the reports."""
    from importlib.resources import as_file, files

    from screening.store.publishing import check_replaceable

    with as_file(files("screening.sample_cohorts")) as cohorts:
        places = {
            job: (out / f"{job.name}_model", out / f"{job.name}_run") for job in JOBS
        }
        for model, run in places.values():
            check_replaceable(model, "model")
            check_replaceable(run, "run")
        for job, (model, run) in places.items():
            _whole_job(job, cohorts, model, run)
    reports = [
        str(folder / "report.html") for folder in chain.from_iterable(places.values())
    ]
    print_answer({"reports": reports}, as_json)


def _whole_job(
    job: Job, cohorts: Path, model_directory: Path, run_directory: Path
) -> None:
    from screening.data.reading import read_cohort
    from screening.model_selection.train import train
    from screening.report import render_model
    from screening.scoring.score import score
    from screening.store.loading import load_model
    from screening.store.model import save_model

    past = read_cohort(
        str(cohorts / job.past), cohorts / f"{job.cohort}.toml", need_label=True
    )
    contract = f"{job.cohort}.toml"
    words = ["train", job.past, "--contract", contract, "--recipe", job.recipe]
    if job.beside:
        words += ["--beside", ",".join(job.beside)]
    if job.max_rows:
        words += ["--max-rows", str(job.max_rows)]
    command = command_line(*words)
    with bar(f"Training {job.name}") as progress:
        model = train(
            past,
            job.recipe,
            validation=Validation(max_rows=job.max_rows, beside=job.beside),
            resources=Resources(progress=progress),
            command=command,
        )
    save_model(model, model_directory, render_model)
    # An earlier demonstration's, of another day: the place was checked to hold nothing
    # else.
    shutil.rmtree(run_directory, ignore_errors=True)
    with bar(f"Scoring {job.name}") as progress:
        score(
            load_model(model_directory),
            str(cohorts / job.new),
            run_directory,
            resources=Resources(progress=progress),
        )
