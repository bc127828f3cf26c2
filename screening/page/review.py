"""The review form: what may be ticked, and the exact ids that a saved file of verdicts carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from screening.documents.reading import mapping, part, sequence
from screening.page import format as shown

VERDICTS = (
    ("confirmed", "confirmed"),
    ("not", "not"),
    ("unsure", "unsure"),
    ("known", "already known"),
)
DRAWN = "drawn: please judge"
SAID = dict(VERDICTS) | {"not": "judged not a case"}
STATES = {"new": "new", "ongoing": "ongoing", "reviewed": "reviewed", "known": "known"}


def known(case: Mapping[str, Any]) -> dict[str, str]:
    """Return in words what the ledger knows of a case; empty texts where there is no ledger."""
    state, nights, last = STATES.get(str(case.get("state")), ""), case.get("nights"), case.get("last_verdict")
    words = f"{shown.count(nights)} nights in a row" if shown.finite(nights) and nights > 1 else ""
    said = SAID.get(str(mapping({"last": last}, "last").get("verdict")), "")
    if said:
        words += f"{', ' if words else ''}{said} on {shown.name(part(last, 'night'))}"
    # Back after a night without a flag: new by the count, yet somebody has had a look before.
    again = "new again" if state == "new" and said else state
    return {"state": again, "history": words, "drawn": DRAWN if case.get("drawn") else ""}


def form(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the rows of the form: flagged cases, and those drawn at random from the rest."""
    groups = part(run, "groups")
    grouped = isinstance(groups, (list, tuple)) and bool(groups)
    if part(run, "pseudonymised"):
        return None
    named = [c for c in sequence(run, "cases") if c.get("id") is not None]
    flagged = (
        [(str(g.get("group")), g) for g in groups if g.get("flagged") and g.get("group") is not None]
        if grouped
        else [(str(c["id"]), c) for c in named if c.get("contributions") is not None]
    )
    further = 0 if grouped else len(named) - len(flagged)
    sample: list[tuple[str, Any]] = [(str(name), {}) for name in sequence(run, "sample")]
    if not flagged and not further and not sample:
        return None
    rows = [
        {
            "number": number,
            "name": shown.name(name),
            "rank": shown.count(case["rank"]) if shown.finite(case.get("rank")) else "",
            "as_it_is": as_it_is(name),
            "sampled": number >= len(flagged),
        }
        | known(case)
        for number, (name, case) in enumerate([*flagged, *sample])
    ]
    run_id = str(part(run, "run_id"))
    drawn = part(run, "counts", "drawn")
    total = part(run, "counts", "cases") if grouped else part(run, "cases_total")
    return {
        "flagged": [row for row in rows if not row["sampled"]],
        "sampled": [row for row in rows if row["sampled"]],
        "capped": shown.finite(total) and total > len(flagged) + further,
        "further": shown.count(further) if further else "",
        "shown": shown.count(len(flagged) + further),
        "total": shown.count(total),
        "drawn": shown.count(drawn) if drawn else "",
        "unit": "Patient" if grouped else "Id",
        "words": VERDICTS,
        "run_id": run_id,
        "file": f"verdicts-{''.join(c for c in run_id if c.isalnum())[:40]}.json",
    }


def as_it_is(name: Any) -> Markup:
    """Return an id with every character kept, for an attribute; empty where the reader sees just that."""
    if name is None or shown.name(name) == str(name):
        return Markup("")
    return Markup(str(escape(str(name))).replace("\r", "&#13;").replace("\n", "&#10;"))


def trail(run: Mapping[str, Any]) -> str:
    """Return the entry of the audit trail that vouches for this run, for the foot of the page."""
    book = mapping(run, "ledger")
    if not book:
        return ""
    revision = book.get("revision")
    again = f", revision {shown.count(revision)}" if shown.finite(revision) and revision > 1 else ""
    return (
        f"{again} · ledger entry {shown.count(book.get('entry'))}, {shown.text(str(book.get('head'))[:16])}"
    )
