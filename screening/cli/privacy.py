"""Commands that erase patients: `screen forget`, `purge`."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from screening.cli import options
from screening.cli.console import ATTENTION, print_answer
from screening.cli.logs import note
from screening.cli.options import AsJson, LedgerHere
from screening.cli.users import open_as_owner
from screening.cli.waiting import stop_waiting
from screening.errors import UsageError
from screening.option_groups import Option
from screening.settings import Series, Templates

if TYPE_CHECKING:
    from screening.scoring.erasing import Erasure

RETRAIN_DAYS = 30

DryRun = Annotated[
    bool, Option("List what would be erased, without erasing.", flags=("--dry-run",))
]


@dataclass(frozen=True)
class PlaceOptions:
    """Options that say where patients are erased."""

    ledger: LedgerHere = "screening.db"
    runs: Annotated[
        Path | None,
        Option("Run directory to erase in, or a folder of them.", metavar="DIR"),
    ] = None
    pages: Annotated[
        Path | None,
        Option(
            "Also erase the patient in copies of the pages in this folder.",
            metavar="DIR",
        ),
    ] = None


@dataclass(frozen=True)
class ForgetOptions:
    """Models to erase in, their last day, and the reason that the trail keeps."""

    models: Annotated[
        Path | None,
        Option("Model directory to erase in, or a folder of them.", metavar="DIR"),
    ] = None
    retrain_by: Annotated[
        str | None,
        Option(
            "Last day on which a model that contains erased rows may score; "
            "by default in 30 days.",
            metavar="YYYY-MM-DD",
        ),
    ] = None
    reason: Annotated[
        str,
        Option("Reason, kept in the trail; do not name the patient.", metavar="REASON"),
    ] = "asked for"

    @property
    def last_day(self) -> datetime.date:
        """Last day of models that contain the row."""
        day = options.day_from("--retrain-by", self.retrain_by)
        return day or datetime.date.today() + datetime.timedelta(days=RETRAIN_DAYS)


def forget_command(
    patient: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Id of a row or group; - reads standard input."
        ),
    ],
    *,
    places: PlaceOptions,
    erased: ForgetOptions,
    dry_run: DryRun = False,
    sign: options.Sign = None,
    templates: Templates = None,
    as_json: AsJson = False,
) -> None:
    """Erase one patient everywhere.

    Counts are kept, and the trail stays valid. If interrupted, run it again to finish.
    All numbers merged with ID are erased too. The command lists models that contain the
    patient's row. After the day of --retrain-by, they refuse to score.
    """
    from screening.identity.writing import BUT_FOR
    from screening.ledger.erasing import GONE, Scope
    from screening.ledger.merging import numbers_to_erase
    from screening.ledger.register import count_written_otherwise
    from screening.scoring.erasing import Erasure

    name = _id(patient)
    last_day = erased.last_day
    if GONE in Scope(name).without([erased.reason]):
        raise UsageError(
            "--reason names the patient, and the trail keeps it; write it without "
            "the name"
        )
    signer = options.signer_from(sign)
    with open_as_owner(places.ledger) as book:
        reports: list[dict[str, Any]] = []
        for number in numbers_to_erase(book, name):
            erasure = Erasure(
                Scope(number),
                book,
                places.runs,
                erased.models,
                places.pages,
                last_day,
                dry_run,
                templates,
                signer,
            )
            if not reports:
                _note_copy(erasure)
            reports.append(erasure.done(erased.reason))
        report = _together(reports)
        n_otherwise = count_written_otherwise(book, name)
    if not _is_known(report):
        note("this id was not found; ids are compared as text, including leading zeros")
    if n_otherwise:
        noun = "spelling" if n_otherwise == 1 else "spellings"
        note(
            f"the ledger has cases with {n_otherwise} other {noun} of this id, the "
            f"same {BUT_FOR}; if they are this patient's, erase each spelling"
        )
    for place in report["elsewhere"]:
        note(
            f"the source model {place} was not found, and may contain rows of this "
            "patient: erase the patient where it was trained, and recalibrate the "
            "model trained there"
        )
    print_answer(report, as_json)
    refuse_unfinished(report["left"])


def _together(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the reports on all numbers of a patient as one."""
    together: dict[str, Any] = {}
    for report in reports:
        for key, found in report.items():
            if key not in together:
                together[key] = found
            elif key == "ledger":
                counts = together[key]
                together[key] = {name: counts[name] + found[name] for name in found}
            elif isinstance(found, Mapping):
                together[key] = {**together[key], **found}
            else:
                together[key] = [*dict.fromkeys([*together[key], *found])]
    return together


def _is_known(report: Mapping[str, Any]) -> bool:
    """Return True if the ledger or some file named the patient."""
    # The last do not say that the id is known.
    unspecific = ("ledger", "pieces", "elsewhere")
    in_files = [places for kind, places in report.items() if kind not in unspecific]
    return any(report["ledger"].values()) or any(in_files)


def _note_copy(erasure: Erasure) -> None:
    """Say if the ledger is a copy of another site's."""
    original = erasure.reach.original
    if original is not None:
        note(
            f"this ledger is a copy of {original}: only this copy and the named "
            "folders are changed"
        )


def refuse_unfinished(left: list[str]) -> None:
    """Exit 5 if something still names patients."""
    if left:
        note(
            "not everything could be erased; see to these and run it again: "
            + "; ".join(left)
        )
        raise typer.Exit(ATTENTION)


def _id(text: str) -> str:
    """Return the given id, or that of standard input for "-"."""
    if text == "-":
        stop_waiting()
        content = sys.stdin.buffer.readline().rstrip(b"\r\n")
    else:
        content = os.fsencode(text)
    name = options.id_from(content)
    if not name.strip():
        raise UsageError("ID: the text is empty; give the id of a patient")
    return name


def purge_command(
    older_than: Annotated[
        str, Option("Age of the nights, such as 90d, 26w or 3y.", metavar="AGE")
    ],
    *,
    places: PlaceOptions,
    series: Series = None,
    dry_run: DryRun = False,
    templates: Templates = None,
    as_json: AsJson = False,
) -> None:
    """Erase the patients of old nights.

    Their counts are kept, and the trail stays valid.
    """
    from screening.ledger.erasing import Scope, before_age
    from screening.scoring.erasing import Erasure

    before = before_age(older_than, datetime.date.today())
    scope = Scope(before=before, series=series)
    with open_as_owner(places.ledger) as book:
        erasure = Erasure(
            scope,
            book,
            places.runs,
            pages=places.pages,
            dry_run=dry_run,
            templates=templates,
        )
        _note_copy(erasure)
        report = erasure.done(f"nights before {before}")
    print_answer({"before": before} | report, as_json)
    refuse_unfinished(report["left"])
