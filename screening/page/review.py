"""The review form: what may be ticked, and the exact ids that a saved file of verdicts carries."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

from screening.documents.case import Case, GroupFacts
from screening.documents.run import RunDocument
from screening.page import format as shown

VERDICTS = (
    ("confirmed", "confirmed"),
    ("not", "not"),
    ("unsure", "unsure"),
    ("known", "already known"),
)
DRAWN = "drawn: please judge"
SAID = dict(VERDICTS) | {"not": "judged not a case"}


def known(case: Case | GroupFacts) -> dict[str, str]:
    """Return in words what the ledger knows of a case; empty texts where there is no ledger."""
    state, last = case.state or "", case.last_verdict
    words = f"{shown.count(case.nights)} nights in a row" if case.nights and case.nights > 1 else ""
    if last:
        words += f"{', ' if words else ''}{SAID[last.verdict]} on {shown.name(last.night)}"
    # Back after a night without a flag: new by the count, yet somebody has had a look before.
    again = "new again" if state == "new" and last else state
    return {"state": again, "history": words, "drawn": DRAWN if case.drawn else ""}


NOTHING_KNOWN = {"state": "", "history": "", "drawn": ""}


def form(run: RunDocument) -> dict[str, Any] | None:
    """Return the rows of the form: flagged cases, and those drawn at random from the rest."""
    if run.pseudonymised:
        return None
    flagged: list[tuple[str, Case | GroupFacts]]
    if run.groups:
        flagged, further = [(each.group, each) for each in run.groups if each.flagged], 0
    else:
        flagged = [(each.id, each) for each in run.cases if each.contributions is not None]
        further = len(run.cases) - len(flagged)
    if not flagged and not further and not run.sample:
        return None
    listed = [
        {
            "name": shown.name(name),
            "rank": shown.count(case.rank) if isinstance(case, Case) else "",
            "as_it_is": as_it_is(name),
            "sampled": False,
        }
        | known(case)
        for name, case in flagged
    ]
    listed += [
        {"name": shown.name(name), "rank": "", "as_it_is": as_it_is(name), "sampled": True} | NOTHING_KNOWN
        for name in run.sample
    ]
    rows = [{"number": number} | row for number, row in enumerate(listed)]
    total = run.counts.cases if run.groups else run.cases_total
    return {
        "flagged": [row for row in rows if not row["sampled"]],
        "sampled": [row for row in rows if row["sampled"]],
        "capped": total is not None and total > len(flagged) + further,
        "further": shown.count(further) if further else "",
        "shown": shown.count(len(flagged) + further),
        "total": shown.count(total),
        "drawn": shown.count(run.counts.drawn) if run.counts.drawn else "",
        "unit": "Patient" if run.groups else "Id",
        "words": VERDICTS,
        "run_id": run.run_id,
        "file": f"verdicts-{''.join(c for c in run.run_id if c.isalnum())[:40]}.json",
    }


def as_it_is(name: str) -> Markup:
    """Return an id with every character kept, for an attribute; empty where the reader sees just that."""
    if shown.name(name) == name:
        return Markup("")
    return Markup(str(escape(name)).replace("\r", "&#13;").replace("\n", "&#10;"))


def trail(run: RunDocument) -> str:
    """Return the entry of the audit trail that vouches for this run, for the foot of the page."""
    book = run.ledger
    if book is None:
        return ""
    again = f", revision {shown.count(book.revision)}" if book.revision > 1 else ""
    return f"{again} · ledger entry {shown.count(book.entry)}, {shown.text(book.head[:16])}"
