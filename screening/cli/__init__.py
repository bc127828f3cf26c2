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
from typing import Annotated, Literal, NoReturn

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
from screening.cli.waiting import WORK, shown_work

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

COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo_command,
    "recipes": recipes_command,
    "init": init_command,
    "check": check_command,
    "features": features_command,
    "train": train_command,
    "compare": compare_command,
    "score": score_command,
    "run": run_command,
    "explain": explain_command,
    "export": export_command,
    "report": report_command,
    "review": review_command,
    "serve": serve_command,
    "outcomes": outcomes_command,
    "history": history_command,
    "validate": validate_command,
    "threshold": threshold_command,
    "approve": approve_command,
    "retrain": retrain_command,
    "promote": promote_command,
    "retire": retire_command,
    "ledger": ledger_command,
    "schema": schema_command,
    "status": status_command,
    "forget": forget_command,
    "purge": purge_command,
}
EXAMPLES: dict[str, str] = {
    "demo": "screen demo --out demo",
    "recipes": "screen recipes one_class_conformal",
    "init": "screen init past.csv --out cohort.toml",
    "check": "screen check tonight.csv --model trained/infection",
    "features": (
        "screen features spec.toml --past 2024-01-01..2025-12-31 --out past.parquet"
    ),
    "train": (
        "screen train past.csv --contract cohort.toml --label infected --out"
        " trained/infection"
    ),
    "compare": (
        "screen compare past.csv --contract cohort.toml --recipes all,auto --out"
        " compared"
    ),
    "score": (
        "screen score trained/infection tonight.csv --out runs/2026-03-01 --ledger"
        " screening.db"
    ),
    "run": "screen run NIGHT.toml --date 2026-03-01",
    "explain": "screen explain runs/2026-03-01 00123",
    "export": "screen export runs/2026-03-01 --to fhir --out flagged.json",
    "report": "screen report runs/2026-03-01",
    "review": "screen review runs/2026-03-01 verdicts.json --ledger screening.db",
    "serve": "screen serve NIGHT.toml",
    "outcomes": (
        "screen outcomes events.csv --time infected_at --within 72h --series ward-7"
        " --ledger screening.db"
    ),
    "history": "screen history --ledger screening.db --out history.html",
    "validate": "screen validate trained/infection other_hospital.csv --out validated",
    "threshold": (
        'screen threshold trained/infection --max-flag-rate 0.1 --reason "ten reviews a'
        ' night"'
    ),
    "approve": (
        'screen approve trained/infection --by "Dr. A. Weber" --known-before'
        " crp,temperature"
    ),
    "retrain": (
        "screen retrain ward-7 trained/infection past.csv --nights 'in/{date}.csv'"
        " --out trained/next"
    ),
    "promote": (
        'screen promote trained/challenger --series ward-7 --reason "finds more"'
        " --ledger screening.db"
    ),
    "retire": (
        'screen retire ward-7 --reason "the ward has closed" --ledger screening.db'
    ),
    "ledger": "screen ledger backup screening.db --to backups --keep 14",
    "schema": "screen schema run",
    "status": "screen status --night today --ledger screening.db",
    "forget": (
        "screen forget - --ledger screening.db --runs runs --models trained < id.txt"
    ),
    "purge": "screen purge --older-than 3y --ledger screening.db --runs runs",
}
for name, command in COMMANDS.items():
    register = app.command(name, cls=Command, epilog=f"Example: {EXAMPLES[name]}")
    register(exits()(with_groups(command, COMPLETIONS)))


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
    work = WORK.get(name)
    if work is not None and log is LogFormat.text:
        context.with_resource(shown_work(work))


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
