"""What reviewers said, for whoever trains again; and that a model was trained so, entered in the trail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from screening.ledger import trail
from screening.ledger.database import RUNS, Ledger
from screening.ledger.kinds import Retrained, append, nights_in
from screening.ledger.model_registry import find_series, refuse_other
from screening.ledger.trail import Head, portions
from screening.ledger.verdicts import in_order

GIVE_CHAMPION = "give the directory of the champion"


@dataclass(frozen=True)
class LastWord:
    """The last verdict on a case, and the table it was given on."""

    case_id: str  # Id of the row, or of the group where rows come in groups.
    night: str
    verdict: str  # One of "confirmed", "not", "unsure", "known", "disputed".
    table: str  # Digests of that night's files as the ledger keeps them; empty for nights from before it did.


@dataclass(frozen=True)
class Judged:
    """What the ledger has of a series for a model that is to be trained on it."""

    series: str  # Its key in the ledger.
    words: tuple[LastWord, ...]  # In order of their nights, one a case.


def judged(ledger: Ledger, series: str, model: str) -> Judged:
    """The last word on every case that was judged in a series, flagged or drawn at random.

    `series`: as `history` takes it.
    `model`: digest of its champion.
    Raises UsageError: there is no such series, or another model is its champion.
    """
    with ledger.reading() as connection:
        known = find_series(connection, series)
        refuse_other(connection, known, model, GIVE_CHAMPION)
        last = {said.case_id: said for said in in_order(connection, known)}
        # Every table of a series is some kilobytes of facts: only those of judged nights are read.
        keys = sorted({said.key for said in last.values()})
        chosen = sa.select(RUNS.c.key, RUNS.c.entry).order_by(RUNS.c.revision)
        entries = {
            row.key: row.entry
            for some in portions(keys)
            for row in connection.execute(chosen.where(RUNS.c.key.in_(some)))
        }
        stated = trail.stated(connection, list(entries.values()))
        tables = {key: nights_in(stated[entry]).table or "" for key, entry in entries.items()}
    ordered = sorted(last.values(), key=lambda said: (said.night, said.case_id))
    return Judged(
        known,
        tuple(LastWord(said.case_id, said.night, said.verdict, tables[said.key]) for said in ordered),
    )


def record_retraining(
    ledger: Ledger, series: str, before: str, after: str, facts: Mapping[str, object]
) -> Head:
    """Enter that a model was trained on the verdicts; the champion stays what it was.

    `before`, `after`: digests of the champion and of the new model.
    `facts`: what it was trained on; no patient in it.
    Raises UsageError: another model has become champion meanwhile.
    """
    said = {"series": series, "champion": before, "model": after, "trained_on": dict(facts)}
    with ledger.writing() as connection:
        refuse_other(connection, series, before, GIVE_CHAMPION)
        return append(connection, ledger.clock(), Retrained.from_dict(said, "the training"))
