"""`screen report`: the page of a run or a model drawn again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from screening.cli import options
from screening.cli.console import print_answer
from screening.cli.register import enter_in_register
from screening.cli.users import act_as_owner
from screening.errors import UsageError
from screening.settings import Templates, out_option


def report_command(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Model, run, comparison or validation directory; several models and "
            "validations are drawn as one table.",
        ),
    ],
    out: Annotated[
        Path | None,
        out_option(
            "Page to write (HTML); by default DIR/report.html. Required for "
            "several directories.",
            metavar="FILE",
        ),
    ] = None,
    ledger: options.LedgerMaybe = None,
    templates: Templates = None,
    as_json: options.AsJson = False,
) -> None:
    """Draw the report of a directory again, or one table for several.

    With --ledger, the table includes the series whose outcomes are known.
    """
    from screening.report.page import PAGES
    from screening.store.publishing import write_whole
    from screening.store.serialization import read_document

    if ledger:
        act_as_owner(ledger)
    if len(directories) > 1:
        place = _draw_side_by_side(directories, out, ledger, templates)
        print_answer({"report": str(place)}, as_json)
        return
    (directory,) = directories
    kinds = (kind for kind in PAGES if (directory / f"{kind}.json").exists())
    kind = next(kinds, "model")
    target = out or directory / "report.html"
    document = read_document(directory, kind)
    # Only a run has one.
    entry = cast(dict[str, Any], document.get("ledger") or {})
    if entry.get("shadow"):
        raise UsageError(
            f"{directory} was scored in shadow and has no page; to compare it, use the "
            "option --beside of `screen history`"
        )
    _, render = PAGES[kind]
    page = render(document, templates).encode()
    if out is not None:
        enter_in_register(ledger, entry, "page", target, content=page)
    write_whole(target, page)
    answer: dict[str, Any] = {"report": str(target)}
    # A comparison has none.
    if "attention" in document:
        answer["attention"] = document["attention"]
    print_answer(answer, as_json)


def _draw_side_by_side(
    directories: list[Path],
    out: Path | None,
    ledger: str | None,
    templates: Path | None,
) -> Path:
    """Draw one table of models and validations, and of series if there is a ledger."""
    from screening.ledger.database import open_ledger
    from screening.ledger.history import history
    from screening.report.side_by_side import (
        ComparedPopulation,
        populations_of,
        populations_of_series,
        render_side_by_side,
    )
    from screening.schemas.comparison import ExternalValidation
    from screening.schemas.history import HistoryDocument
    from screening.schemas.model import ModelDocument
    from screening.store.publishing import write_whole
    from screening.store.serialization import read_document

    if out is None:
        raise UsageError(
            "several directories are drawn on one page; name it with --out FILE",
            parameters=["out"],
        )
    populations: list[ComparedPopulation] = []
    for directory in directories:
        if (directory / "validation.json").exists():
            validation = read_document(directory, "validation")
            populations += populations_of(ExternalValidation.from_dict(validation))
        else:
            model = read_document(directory, "model")
            populations += populations_of(ModelDocument.from_dict(model))
    if ledger:
        with open_ledger(ledger) as book:
            nights = HistoryDocument.from_dict(history(book))
        for series in nights.series:
            populations += populations_of_series(series)
    write_whole(out, render_side_by_side(populations, templates).encode())
    return out
