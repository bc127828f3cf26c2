"""`screen demo`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from screening.cli.console import bar, tell
from screening.cli.options import AsJson


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
    out: Annotated[Path, typer.Option(help="Directory to write models and runs in.")],
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
    model = training.train(
        past, job.recipe, max_rows=job.max_rows, beside=job.beside, command=command,
        progress=bar(f"Training {job.name}"),
    )  # fmt: skip
    save_model(model, model_directory, render_model)
    scoring.score(
        load_model(model_directory),
        str(cohorts / job.new),
        run_directory,
        progress=bar(f"Scoring {job.name}"),
    )
