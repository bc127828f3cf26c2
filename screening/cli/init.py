"""`screen init`: a contract proposed for a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from screening.cli import options
from screening.cli.console import print_answer, printable
from screening.cli.groups import Without
from screening.cli.waiting import stop_waiting
from screening.errors import UsageError
from screening.option_groups import Option
from screening.settings import DatabaseOptions, TableOptions, out_option
from screening.spelling import did_you_mean

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
        out_option(
            "Contract to write (TOML).",
            metavar="FILE",
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
