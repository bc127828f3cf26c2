"""Tables and documents before any model: `screen init`, `check`, `schema`; and `screen demo`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from screening.cli.console import bar, tell
from screening.cli.options import AsJson, ContractFile, Query, Source, Table, in_output, source_of
from screening.errors import CohortError, UsageError


def init(
    cohort: Source,
    out: Annotated[Path, in_output("--out", "-o", help="Contract to write (TOML).")],
    table: Table = None,
    query: Query = None,
    as_json: AsJson = False,
) -> None:
    """Infer a starter contract from COHORT, to be read and edited.

    It holds every key, explained, and the role, type, range (`seen`) and categories of every column; what was
    guessed is said. The table is read with it before it is written.
    """
    from screening.cohort.reading import starter_contract
    from screening.storage.publishing import write_whole

    if out.exists():
        raise UsageError(f"{out} exists already, and may have been edited; give another --out")
    contract, notes = starter_contract(source_of(cohort, table, query))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, contract.to_toml(notes).encode())
    tell({"contract": str(out), "features": len(contract.features), "notes": notes}, as_json)


def check(
    cohort: Source,
    table: Table = None,
    query: Query = None,
    contract: ContractFile = None,
    model: Annotated[Path | None, typer.Option(help="Use the contract of this model directory.")] = None,
    as_json: AsJson = False,
) -> None:
    """Validate COHORT; list all violations by row, never by value.

    With --model also compare its values with those the model was trained on: other units are a violation,
    other distributions a note.
    """
    from screening.cohort.reading import check_cohort
    from screening.contract.contract import Contract
    from screening.documents.model import ModelDocument
    from screening.gates.drift import Gates
    from screening.storage.serialization import read_document

    gates = None
    if model is not None and contract is None:
        document = read_document(model, "model")
        asked = Contract.from_dict(document["contract"])
        # A de-identified model has no profile.
        past = ModelDocument.from_dict(document).training.profile
        gates = Gates(past, asked) if past else None
    elif contract is not None and model is None:
        asked = Contract.load(contract)
    else:
        raise UsageError("give either --contract FILE or --model DIR")
    violations, notes = check_cohort(
        source_of(cohort, table, query), asked, gates=gates, to_score=model is not None
    )
    attention = gates.attention() if gates and not violations else []
    if as_json:
        reasons = [vars(reason) for reason in attention]
        tell({"violations": violations, "notes": notes, "attention": reasons}, as_json)
    elif not violations:
        tell({"violations": [], "notes": [*notes, *(each.words for each in attention)]}, as_json)
    if violations:
        raise CohortError(violations)


def schema(
    name: Annotated[
        str, typer.Argument(help="model, run, comparison, validation, history or overview; or a command.")
    ],
    printed: Annotated[
        bool, typer.Option("--printed", help="Of the command NAME: what it prints with --json.")
    ] = False,
) -> None:
    """Print the JSON Schema of a document, or of an answer."""
    from screening.documents.schemas import schema_of

    typer.echo(json.dumps(schema_of(name, printed), indent=1, sort_keys=True))


class Job(NamedTuple):
    """One sample cohort, the method shown on it, and where: the contract is that of `cohort`."""

    name: str
    cohort: str
    past: str
    new: str
    recipe: str
    max_rows: int | None = None
    beside: tuple[str, ...] | None = None


NIGHT = "nosocomial", "nosocomial_past.csv", "nosocomial_night.csv"
JOBS = (
    Job("nosocomial", *NIGHT, "auto", beside=("svm", "logistic", "random_forest", "one_class_conformal")),
    Job("nosocomial_one_class", *NIGHT, "one_class_conformal"),
    Job("prostate", "prostate", "prostate_past.parquet", "prostate_new.parquet", "shao_weighted", 2000),
)


def demo(
    out: Annotated[Path, in_output("--out", "-o", help="Directory to write models and runs in.")],
    as_json: AsJson = False,
) -> None:
    """Train and score the sample cohorts; say where the reports are."""
    from importlib.resources import as_file, files

    from screening.storage.publishing import check_place

    with as_file(files("screening.sample_cohorts")) as cohorts:
        places = {job: (out / f"{job.name}_model", out / f"{job.name}_run") for job in JOBS}
        for model, run in places.values():
            check_place(model, "model")
            check_place(run, "run")
        for job, (model, run) in places.items():
            _whole_job(job, cohorts, model, run)
    reports = [str(place / "report.html") for pair in places.values() for place in pair]
    tell({"reports": reports}, as_json)


def _whole_job(job: Job, cohorts: Path, model_directory: Path, run_directory: Path) -> None:
    from screening.cohort.reading import read_cohort
    from screening.page import render_model
    from screening.scoring import score as scoring
    from screening.storage.loading import load_model
    from screening.storage.model import save_model
    from screening.training import train as training

    past = read_cohort(str(cohorts / job.past), cohorts / f"{job.cohort}.toml", need_label=True)
    command = f"screen train {job.past} --contract {job.cohort}.toml --recipe {job.recipe}"
    if job.beside:
        command += f" --beside {','.join(job.beside)}"
    if job.max_rows:
        command += f" --max-rows {job.max_rows}"
    with bar(f"Training {job.name}") as progress:
        model = training.train(
            past, job.recipe, max_rows=job.max_rows, beside=job.beside, command=command, progress=progress
        )
    save_model(model, model_directory, render_model)
    # An earlier demonstration's, of another day: the place was checked to hold nothing else.
    shutil.rmtree(run_directory, ignore_errors=True)
    with bar(f"Scoring {job.name}") as progress:
        scoring.score(load_model(model_directory), str(cohorts / job.new), run_directory, progress=progress)
