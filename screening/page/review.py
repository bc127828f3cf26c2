"""The review: what may be said of a case, what was said before, and what a saved file of verdicts carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
SAID = dict(VERDICTS) | {"not": "judged not a case"}


@dataclass(frozen=True)
class Drawn:
    """One of the unflagged that lots chose for review."""

    id: str
    as_it_is: Markup


@dataclass(frozen=True)
class Form:
    """What the review needs beside the list."""

    run_id: str
    file: str
    words: Sequence[tuple[str, str]]
    drawn: str
    sampled: Sequence[Drawn]


def form(run: RunDocument) -> Form | None:
    """Return what the review needs; None where verdicts on pseudonyms could not be read back."""
    if run.pseudonymised or not (run.to_review or run.sample):
        return None
    return Form(
        run_id=run.run_id,
        file=f"verdicts-{''.join(c for c in run.run_id if c.isalnum())[:40]}.json",
        words=VERDICTS,
        drawn=shown.count(run.counts.drawn) if run.counts.drawn else "",
        sampled=[Drawn(shown.name(name), as_it_is(name)) for name in run.sample],
    )


def judged_words(case: Case | GroupFacts) -> str:
    """Return how long a case is flagged and what was last said of it, empty where nothing is known."""
    words = f"{shown.count(case.nights)} nights in a row" if case.nights and case.nights > 1 else ""
    last = case.last_verdict
    if last:
        words += f"{', ' if words else ''}{SAID[last.verdict]} on {shown.name(last.night)}"
    return words


def known(case: Case | GroupFacts) -> str:
    """Return what the ledger knows of a case, as its line says it."""
    nights = f"{shown.count(case.nights)} nights" if case.nights and case.nights > 1 else ""
    last = case.last_verdict
    said = f"{SAID[last.verdict]} on {shown.name(last.night)}" if last else ""
    if case.state == "known":
        nights = "known"
    elif case.state == "new" and last:
        # Back after a night without a flag: new by the count, yet somebody has had a look before.
        nights = "new again"
    return ", ".join(words for words in (nights, said) if words)


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
