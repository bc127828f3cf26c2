"""`screen ledger`: back up, restore or repair a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from screening.cli import logs
from screening.cli.console import print_answer
from screening.cli.options import AsJson
from screening.cli.users import act_as_owner, open_as_owner
from screening.errors import UsageError
from screening.option_groups import Option
from screening.spelling import SERVER_LEDGER, command_line


class Action(StrEnum):
    """Actions of `screen ledger`."""

    rebuild = "rebuild"
    accept = "accept"
    moved = "moved"
    backup = "backup"
    restore = "restore"
    merge = "merge"


@dataclass(frozen=True)
class MoveOptions:
    """Options that say from where, and to where."""

    was: Annotated[
        Path | None,
        Option(
            "For restore: the backup. For moved: old place of published files; "
            "without it, the whole site was moved.",
            metavar="PLACE",
            flags=("--from",),
        ),
    ] = None
    to: Annotated[
        Path | None,
        Option(
            "For backup: its folder. With moved --from: new place of the files; "
            "without it, they are deleted.",
            metavar="PLACE",
        ),
    ] = None


def ledger_command(
    action: Annotated[
        Action,
        typer.Argument(
            metavar="ACTION",
            help="What to do: backup, restore, rebuild, accept, moved or merge.",
        ),
    ],
    place: Annotated[
        str,
        typer.Argument(
            metavar="LEDGER",
            help="Ledger: a SQLite file or a database's URL. For merge: the table of "
            "merges.",
        ),
    ],
    runs: Annotated[
        Path | None,
        Option("For accept: run directory, or a folder of them.", metavar="DIR"),
    ] = None,
    *,
    move: MoveOptions,
    ledger: Annotated[
        str, Option("For merge: the ledger.", metavar="URL", envvar="SCREEN_LEDGER")
    ] = "screening.db",
    keep: Annotated[
        int | None,
        Option(
            "For backup: keep the newest N, and remove the others.", metavar="N", min=1
        ),
    ] = None,
    reason: Annotated[
        str | None,
        Option("For accept and moved: reason, kept in the trail.", metavar="REASON"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Back up, restore or repair LEDGER.

    backup writes a dated, private and verified file, even while a night is scored.
    restore verifies a backup, replaces LEDGER by it, and keeps the old file next to it.
    rebuild derives the tables from the audit trail again. accept continues with an
    older copy of the trail than run directories have seen.

    merge FILE enters patients whose numbers were merged. FILE has the columns old, new
    and since, the day from which both are one patient. The past does not change. A
    blank new number undoes a merge.

    moved --from records the new place of published files, or that they are deleted, so
    that `forget` and `purge` reach them. moved without --from records that the whole
    site was moved. Until then LEDGER counts as a copy, and no night can be entered.
    """
    if action is Action.backup:
        answer = _back_up(place, move.to, keep)
    elif action is Action.restore:
        answer = _restore(place, move.was)
    elif action is Action.rebuild:
        answer = _rebuild(place)
    elif action is Action.merge:
        answer = _merge(place, ledger)
    elif action is Action.accept:
        answer = _accept(place, runs, reason or "")
    else:
        answer = _enter_move(place, move.was, move.to, reason or "")
    print_answer(answer, as_json)


def _rebuild(place: str) -> dict[str, object]:
    """Derive the tables again from the audit trail; return the answer."""
    from screening.ledger.verifying import rebuild

    with open_as_owner(place) as book:
        head = rebuild(book)
    return {"entries": head.number, "head": head.digest}


def _merge(table: str, ledger: str) -> dict[str, object]:
    """Enter merged numbers of patients; return the answer."""
    from screening.ledger.merge_tables import merge_numbers

    with open_as_owner(ledger) as book:
        return {"merges": merge_numbers(book, table)}


def _accept(place: str, runs: Path | None, reason: str) -> dict[str, object]:
    """Accept an older copy of the trail, or a new one; return the answer."""
    from screening.ledger.database import open_ledger
    from screening.ledger.verifying import accept

    if runs is None:
        raise UsageError("accept compares with run directories; give --runs")
    act_as_owner(place)
    # If a ledger was lost without a backup, a new one is begun.
    with open_ledger(place, make=True) as book:
        return {"accepted": accept(book, runs, reason)}


def _back_up(place: str, to: Path | None, keep: int | None) -> dict[str, object]:
    """Write a backup; return the answer."""
    from screening.ledger.backup import back_up

    act_as_owner(place)
    if to is None:
        raise UsageError("backup writes to a folder; give --to DIR")
    path, head = back_up(place, to, keep)
    return {"backup": str(path), "entries": head.number, "head": head.digest}


def _restore(place: str, was: Path | None) -> dict[str, object]:
    """Put a backup back; return the answer."""
    from screening.ledger.backup import n_entries, restore
    from screening.ledger.database import file_of

    act_as_owner(place)
    if was is None:
        raise UsageError("restore needs a backup; give --from BACKUP")
    before = n_entries(place)
    head, kept = restore(was, place)
    if before > head.number:
        n_lost = before - head.number
        entries = "one entry" if n_lost == 1 else f"{n_lost} entries"
        word = SERVER_LEDGER if file_of(place) is None else place
        accept_it = command_line(
            *("ledger", "accept", word, "--runs", "RUNS", "--reason", "WHY")
        )
        logs.note(
            f"the previous ledger had {entries} more. Nights since the backup are "
            "refused (code 4) until you put the newer ledger back, or accept this one: "
            f"{accept_it}"
        )
    answer: dict[str, object] = {"entries": head.number, "head": head.digest}
    if kept is not None:
        answer["kept"] = str(kept)
    return answer


def _enter_move(
    place: str, was: Path | None, to: Path | None, reason: str
) -> dict[str, object]:
    """Enter that files, or the whole site, were moved; return the answer."""
    from screening.ledger import register

    with open_as_owner(place) as book:
        if was is not None:
            number = register.moved(book, was, to and to.resolve(), reason)
            outcome = "moved" if to else "gone"
            return {outcome: number}
        if to is not None:
            raise UsageError(
                "--to is the new place of the files in --from; give --from too"
            )
        return {"site": register.relocate(book, reason)}
