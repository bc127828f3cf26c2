"""`screen export`: the flagged patients of a run for another system."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from screening.cli import logs, options
from screening.cli.console import print_answer
from screening.cli.register import enter_in_register
from screening.cli.users import act_as_owner
from screening.errors import UsageError
from screening.option_groups import Option
from screening.scoring.exports import form_names
from screening.settings import ExportOptions

if TYPE_CHECKING:
    from screening.ledger.entries import ArtefactKind
    from screening.ledger.merging import Merges
    from screening.schemas.run import RunDocument


MODEL_CARD = "model-card"
FORMS = sorted([*form_names(), MODEL_CARD])
Form = StrEnum("Form", {form: form for form in FORMS})  # type: ignore[misc]


def export_command(
    run: options.RunFolder,
    to: Annotated[Form, Option("Format to write.")],
    *,
    form: ExportOptions,
    force: Annotated[bool, Option("Replace existing files.")] = False,
    ledger: options.LedgerMaybe = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the flagged rows of RUN for another system.

    For images, flags and scores are written as volumes. With --to model-card, RUN is a
    model, and FILE its card in the format of CHAI (FILE.xml) or HL7, which includes
    CHAI's (FILE.json).
    """
    if to == MODEL_CARD:
        _export_card(run, form.out, force, as_json)
        return
    from screening.scoring.exporting import prepared
    from screening.scoring.id_reasons import note_on_writing

    out = form.out
    place = _place_of(form)
    if ledger:
        act_as_owner(ledger)
    is_own = _is_own_export(ledger, run, place)
    flagged, write = prepared(
        run, to, force or is_own, form.stated(), _merges_in(ledger)
    )
    of_writing = note_on_writing(flagged.run)
    if of_writing is not None:
        logs.note(of_writing)
    is_table = form.url is not None
    with _export_registered(ledger, flagged.run, place, is_table=is_table):
        # A directory of volumes is not replaced as a whole: its names are the
        # patients'.
        if is_own and out is not None and out.is_dir():
            shutil.rmtree(out)
        written = write() or str(out)
    answer = {
        "run_id": flagged.run.run_id,
        "rows": flagged.rows.num_rows,
        "erased": flagged.run.erased,
        "out": written,
    }
    print_answer(answer, as_json)


def _place_of(form: ExportOptions) -> Path | None:
    """Return the path of an export's file or directory, or of its table."""
    from screening.io.connections import described, read_url

    if form.url is not None:
        return Path(f"{described(read_url(form.url))}/{form.table}")
    return form.out and form.out.resolve()


def _merges_in(ledger: str | None) -> Merges:
    """Return the merged numbers of a ledger; none without."""
    from screening.ledger.database import open_ledger
    from screening.ledger.merging import NO_MERGES, merges_of

    if ledger is None:
        return NO_MERGES
    with open_ledger(ledger) as book, book.reading() as connection:
        return merges_of(connection)


@contextmanager
def _export_registered(
    ledger: str | None, run: RunDocument, place: Path | None, *, is_table: bool
) -> Iterator[None]:
    """Enter an export in the ledger's register before it is written, and after.

    If it is killed in between, it is known to be unfinished.
    """
    if place is None:
        yield
        return
    what: ArtefactKind = "table" if is_table else "export"
    entry = run.ledger.to_dict() if run.ledger else None
    enter_in_register(ledger, entry, what, place, content=b"")
    yield
    if ledger:
        content = run.sha256.encode() if is_table else None
        enter_in_register(ledger, entry, what, place, content=content)


def _export_card(model: Path, out: Path | None, force: bool, as_json: bool) -> None:
    """Write the card of a model: XML of CHAI, or HL7's JSON that carries it."""
    from screening.report.model_card import applied_model_card, document_reference
    from screening.store.loading import load_model
    from screening.store.publishing import write_whole

    if out is None or out.suffix not in (".xml", ".json"):
        raise UsageError(
            "--out FILE: give FILE.xml for CHAI's card, or FILE.json for HL7's document"
        )
    if out.exists() and not force:
        raise UsageError(
            f"{out} already exists; give another --out, or --force to replace it"
        )
    loaded = load_model(model)
    content = applied_model_card(loaded.facts, loaded.id)
    if out.suffix == ".json":
        title = loaded.facts.stated.title or loaded.facts.task.label
        reference = document_reference(content, loaded.id, title)
        content = (json.dumps(reference, indent=1) + "\n").encode()
    write_whole(out, content)
    print_answer({"model": loaded.id, "out": str(out)}, as_json)


def _is_own_export(ledger: str | None, run: Path, place: Path | None) -> bool:
    """Return True if an export of this run lies at a place, unaltered or unfinished.

    A command that was killed is then finished by the same command.
    """
    from screening.ledger.database import open_ledger
    from screening.ledger.register import may_be_replaced
    from screening.store.serialization import read_document

    if ledger is None or place is None:
        return False
    entry = read_document(run, "run").get("ledger")
    if not entry:
        return False
    with open_ledger(ledger) as book:
        return may_be_replaced(book, entry["key"], place)
