"""The `screen` command: the only place that prints, exits or knows typer.

A command is a function in the module of its name, except for those that share most of
their code: `forget` and `purge` (privacy), `threshold` and `approve` (revisions),
`promote` and `retire` (promote). What computes is imported within these functions:
`--help`, and commands that need little of it, do not wait for it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple, NoReturn

import typer

from screening.cli.boundary import Command, Commands, bounded, exits, offers
from screening.cli.check import check_command
from screening.cli.compare import compare_command
from screening.cli.demo import demo_command
from screening.cli.explain import explain_command
from screening.cli.export import export_command
from screening.cli.features import features_command
from screening.cli.groups import with_groups
from screening.cli.history import history_command
from screening.cli.init import init_command
from screening.cli.ledger import ledger_command
from screening.cli.logs import LogFormat, log_to_stderr
from screening.cli.options import COMPLETIONS
from screening.cli.outcomes import outcomes_command
from screening.cli.privacy import forget_command, purge_command
from screening.cli.promote import promote_command, retire_command
from screening.cli.recipes import recipes_command
from screening.cli.report import report_command
from screening.cli.retrain import retrain_command
from screening.cli.review import review_command
from screening.cli.revisions import approve_command, threshold_command
from screening.cli.run import run_command
from screening.cli.schema import schema_command
from screening.cli.score import score_command
from screening.cli.serve import serve_command
from screening.cli.status import status_command
from screening.cli.train import train_command
from screening.cli.validate import validate_command
from screening.cli.waiting import shown_work

# Options in groups for people, plain lines for programs.
_is_read_by_person = sys.stdout is not None and sys.stdout.isatty()
_markup: Literal["rich"] | None = "rich" if _is_read_by_person else None
app = typer.Typer(
    cls=Commands,
    name="screen",
    no_args_is_help=True,
    rich_markup_mode=_markup,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: screen demo --out demo",
)


class CommandEntry(NamedTuple):
    """A command.

    `example` ends its help; `work` is what a terminal shows while a user waits.
    """

    function: Callable[..., None]
    example: str
    work: str


COMMANDS = {
    "demo": CommandEntry(
        demo_command,
        "screen demo --out demo",
        "Running the whole job on the sample cohorts",
    ),
    "recipes": CommandEntry(
        recipes_command,
        "screen recipes one_class_conformal",
        "Reading the recipes",
    ),
    "init": CommandEntry(
        init_command,
        "screen init past.csv --out cohort.toml",
        "Reading the table",
    ),
    "check": CommandEntry(
        check_command,
        "screen check tonight.csv --model trained/infection",
        "Checking the table",
    ),
    "features": CommandEntry(
        features_command,
        "screen features spec.toml --past 2024-01-01..2025-12-31 --out past.parquet",
        "Making the table of features",
    ),
    "train": CommandEntry(
        train_command,
        "screen train past.csv --contract cohort.toml --label infected --out"
        " trained/infection",
        "Preparing the training",
    ),
    "compare": CommandEntry(
        compare_command,
        "screen compare past.csv --contract cohort.toml --recipes all,auto --out"
        " compared",
        "Preparing the comparison",
    ),
    "score": CommandEntry(
        score_command,
        "screen score trained/infection tonight.csv --out runs/2026-03-01 --ledger"
        " screening.db",
        "Reading the model and the table",
    ),
    "run": CommandEntry(
        run_command,
        "screen run NIGHT.toml --date 2026-03-01",
        "Scoring the night of every series",
    ),
    "explain": CommandEntry(
        explain_command,
        "screen explain runs/2026-03-01 00123",
        "Explaining the case",
    ),
    "export": CommandEntry(
        export_command,
        "screen export runs/2026-03-01 --to fhir --out flagged.json",
        "Writing the export",
    ),
    "report": CommandEntry(
        report_command,
        "screen report runs/2026-03-01",
        "Drawing the report",
    ),
    "review": CommandEntry(
        review_command,
        "screen review runs/2026-03-01 verdicts.json --ledger screening.db",
        "Entering the verdicts",
    ),
    "serve": CommandEntry(
        serve_command,
        "screen serve NIGHT.toml",
        "Showing the published pages",
    ),
    "outcomes": CommandEntry(
        outcomes_command,
        "screen outcomes events.csv --time infected_at --within 72h --series"
        " ward-7 --ledger screening.db",
        "Joining the outcomes with the nights",
    ),
    "history": CommandEntry(
        history_command,
        "screen history --ledger screening.db --out history.html",
        "Reading the nights of the ledger",
    ),
    "validate": CommandEntry(
        validate_command,
        "screen validate trained/infection other_hospital.csv --out validated",
        "Scoring and evaluating the cohort",
    ),
    "threshold": CommandEntry(
        threshold_command,
        'screen threshold trained/infection --max-flag-rate 0.1 --reason "ten'
        ' reviews a night"',
        "Evaluating the model at the new threshold",
    ),
    "approve": CommandEntry(
        approve_command,
        'screen approve trained/infection --by "Dr. A. Weber" --known-before'
        " crp,temperature",
        "Writing the approved model",
    ),
    "retrain": CommandEntry(
        retrain_command,
        "screen retrain ward-7 trained/infection past.csv --nights 'in/{date}.csv'"
        " --out trained/next",
        "Reading the past cohort and the tables of the nights",
    ),
    "promote": CommandEntry(
        promote_command,
        'screen promote trained/challenger --series ward-7 --reason "finds more"'
        " --ledger screening.db",
        "Comparing the nights of both models",
    ),
    "retire": CommandEntry(
        retire_command,
        'screen retire ward-7 --reason "the ward has closed" --ledger screening.db',
        "Entering the end of the series",
    ),
    "ledger": CommandEntry(
        ledger_command,
        "screen ledger backup screening.db --to backups --keep 14",
        "Working on the ledger",
    ),
    "schema": CommandEntry(schema_command, "screen schema run", "Writing the schema"),
    "status": CommandEntry(
        status_command,
        "screen status --night today --ledger screening.db",
        "Reading the ledger",
    ),
    "forget": CommandEntry(
        forget_command,
        "screen forget - --ledger screening.db --runs runs --models trained < id.txt",
        "Erasing the patient from every file",
    ),
    "purge": CommandEntry(
        purge_command,
        "screen purge --older-than 3y --ledger screening.db --runs runs",
        "Erasing old nights from every file",
    ),
}
for name, entry in COMMANDS.items():
    register = app.command(name, cls=Command, epilog=f"Example: {entry.example}")
    register(exits()(with_groups(entry.function, COMPLETIONS)))


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        from screening.registry import plugin_members

        typer.echo(f"screening {version('screening')}")
        for plugin, members in plugin_members().items():
            typer.echo(f"plug-in {plugin}: {', '.join(members)}")
        raise typer.Exit


@app.callback()
def screen(
    context: typer.Context,
    log: Annotated[
        LogFormat, typer.Option(help="Format of the log lines on stderr.")
    ] = LogFormat.text,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Show the version and the plug-ins, and exit.",
        ),
    ] = False,
) -> None:
    """Nightly screening for rare conditions with conformally rescaled kernel machines.

    A model is trained on a hospital's own past cohort; every row of a new cohort is
    scored, and one page shows which patients to review and why, how certain the model
    is, and what the threshold costs.
    """
    log_to_stderr(log)
    name = context.invoked_subcommand or ""
    if name in COMMANDS:
        (hints,) = [each for each in app.registered_commands if each.name == name]
        assert hints.callback is not None
        offers(inspect.signature(hints.callback).parameters)
        if log is LogFormat.text:
            context.with_resource(shown_work(COMMANDS[name].work))


def main() -> NoReturn:
    """Run the `screen` command."""
    # A process runs one command, and typer would make the options of all of them.
    arguments = sys.argv[3:] if sys.argv[1:2] == ["--log"] else sys.argv[1:]
    named = [
        command
        for command in app.registered_commands
        if [command.name] == arguments[:1]
    ]
    app.registered_commands = named or app.registered_commands
    bounded(app)
