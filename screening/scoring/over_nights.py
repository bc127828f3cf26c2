"""Show on a night's page what its nights show together, once the site has found it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from screening.files import digest_of
from screening.ledger.database import Ledger
from screening.ledger.entries import Artefact
from screening.ledger.register import hand_out
from screening.report import draw_run
from screening.schemas.base import Reason
from screening.schemas.run import RunDocument
from screening.store.publishing import publish
from screening.store.serialization import read_run, written


def show_over_nights(
    ledger: Ledger,
    folder: Path,
    reasons: Sequence[Reason],
    templates: Path | None = None,
) -> RunDocument:
    """Write a run directory again with what its nights show together; return it.

    It is not changed if its document has these reasons.

    Parameters
    ----------
    ledger : Ledger
        Its register gets the document's new digest.
    folder : Path
        The run directory, with a page.
    reasons : sequence of Reason
        Those of the series' nights up to this one.
    templates : Path, optional
        As for `draw_run`.
    """
    run = read_run(folder)
    if [*run.over_nights] == [*reasons]:
        return run
    assert run.ledger is not None, "its night is in the ledger"
    document, text = written(run.replace(over_nights=reasons).to_dict())
    run_with_reasons = RunDocument.from_dict(document)
    page = draw_run(run_with_reasons, templates)
    drawn_again = shutil.ignore_patterns("run.json", "report.html")
    with publish(folder, "run") as new:
        shutil.copytree(folder, new, ignore=drawn_again, dirs_exist_ok=True)
        (new / "report.html").write_text(page, encoding="utf-8", newline="\n")
        (new / "run.json").write_bytes(text)
        # The newest head of the trail is found by this time.
        written_at = (folder / "run.json").stat().st_mtime_ns
        os.utime(new / "run.json", ns=(written_at, written_at))
        artefact = Artefact(
            what="run",
            place=folder.resolve(),
            sha256=digest_of(new / "run.json"),
            key=run.ledger.key,
        )
        hand_out(ledger, artefact)
    return run_with_reasons
