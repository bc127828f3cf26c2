"""Files that show a run, entered in the register of its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from screening.cli import logs

if TYPE_CHECKING:
    from screening.ledger.entries import ArtefactKind


def enter_in_register(
    ledger: str | None,
    entry: Mapping[str, Any] | None,
    what: ArtefactKind,
    *places: Path,
    content: bytes | None = None,
    patient: str | None = None,
) -> None:
    """Enter files that show a run in the ledger's register, before they appear.

    Parameters
    ----------
    ledger : str or None
    entry : mapping or None
        Entry of the run in its ledger; nothing is done without one.
    what : str
        Kind of the files: "page", "case", "export" or "table".
    *places : Path
    content : bytes, optional
        Content of the file; None where it is there already.
    patient : str, optional
        The patient of a page.
    """
    from screening.ledger.database import open_ledger
    from screening.ledger.entries import Artefact
    from screening.ledger.register import digest_at, hand_out

    if not entry or not places:
        return
    if not ledger:
        logs.note(
            "not entered in the ledger's register, so `screen forget` will not find it:"
            " give --ledger"
        )
        return
    artefacts = []
    for place in places:
        if what != "table":
            place = place.resolve()
        if content is None:
            digest = digest_at(what, place)
        else:
            digest = sha256(content).hexdigest()
        about = {"key": entry["key"], "patient": patient}
        artefacts.append(Artefact(what=what, place=place, sha256=digest, **about))
    with open_ledger(ledger) as book:
        hand_out(book, *artefacts)
