"""`screen demo`: the whole job on sample cohorts."""

from __future__ import annotations

import shutil
from itertools import chain
from pathlib import Path
from typing import Annotated, NamedTuple

from screening.cli import options
from screening.cli.console import bar, print_answer
from screening.settings import Resources, Validation, out_option
from screening.spelling import command_line


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
        out_option(
            "Directory to write models and runs in.",
            metavar="DIR",
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
