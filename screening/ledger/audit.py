"""The append-only trail: an entry holds the digest of the one before, so that none can be changed unseen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger.tables import AUDIT, CASES, REVIEWS, RUNS, Unchained

GENESIS = "0" * 64
SHORTEST_HEAD = 12


class Head(NamedTuple):
    """The last entry of the trail, or one that is vouched for by it."""

    number: int
    digest: str


def head(connection: sa.Connection) -> Head:
    """The end of the chain; entry 0 where there is none yet."""
    last = connection.execute(
        sa.select(AUDIT.c.number, AUDIT.c.digest).order_by(AUDIT.c.number.desc()).limit(1)
    ).first()
    return Head(*last) if last else Head(0, GENESIS)


def append(connection: sa.Connection, recorded: str, action: str, body: Mapping[str, Any]) -> Head:
    """Add an entry at the end, inside a transaction that nobody else writes in."""
    before = head(connection)
    number = before.number + 1
    row = {"number": number, "recorded": recorded, "action": action, "body": plain(body)}
    row |= {"previous": before.digest}
    digest = digest_of(row)
    connection.execute(AUDIT.insert().values(**row, digest=digest))
    return Head(number, digest)


def plain(value: Any) -> str:
    """JSON text that is the same for the same content."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(row: Mapping[str, Any]) -> str:
    """SHA-256 over an entry and, by way of `previous`, over all before it."""
    kept = [row[name] for name in ("number", "recorded", "action", "body", "previous")]
    return hashlib.sha256(plain(kept).encode()).hexdigest()


def digest_of_cases(cases: Mapping[str, tuple[str | None, int]]) -> str:
    """SHA-256 over the cases of a run: which, in what state, for how many nights."""
    return hashlib.sha256(plain(sorted([name, *facts] for name, facts in cases.items())).encode()).hexdigest()


def verify(connection: sa.Connection, printed: str | None = None) -> Head:
    """Follow the chain from its first entry, and hold every run, case and verdict to the entry it came with.

    Parameters
    ----------
    printed : str, optional
        Head as printed at the foot of a report (its beginning will do): it must be in the chain, or the
        chain has been cut short or written anew since.

    Returns
    -------
    Head

    Raises
    ------
    UsageError
        Too little of the printed head is given.
    Unchained
        Naming the first entry that is not as it was written.
    """
    if printed is not None and len(printed) < SHORTEST_HEAD:
        raise UsageError(f"--head: give at least {SHORTEST_HEAD} of the digits printed on the report")
    at, known = Head(0, GENESIS), printed is None
    runs: dict[tuple[str, int], Mapping[str, Any]] = {}
    verdicts: dict[tuple[str, str], Mapping[str, Any]] = {}
    for found in connection.execute(sa.select(AUDIT).order_by(AUDIT.c.number)):
        row = found._asdict()
        if row["number"] != at.number + 1:
            raise Unchained(f"the audit trail is broken: entry {at.number + 1} is missing")
        if row["previous"] != at.digest or row["digest"] != digest_of(row):
            raise Unchained(f"the audit trail is broken at entry {row['number']} ({row['action']})")
        at = Head(row["number"], row["digest"])
        known = known or at.digest.startswith(printed or "")
        body = json.loads(row["body"]) | {"entry": at.number}
        if row["action"] == "run":
            runs[body["key"], body["revision"]] = body
        if row["action"] == "verdict":
            verdicts[body["key"], body["case_id"]] = body
    if not known:
        raise Unchained("the printed head is not in the audit trail: it was cut short or written anew")
    _verify_runs(connection, runs)
    _verify_verdicts(connection, verdicts)
    return at


def _verify_runs(connection: sa.Connection, runs: dict[tuple[str, int], Mapping[str, Any]]) -> None:
    cases: dict[tuple[str, int], dict[str, tuple[str | None, int]]] = {}
    for case in connection.execute(sa.select(CASES)):
        cases.setdefault((case.key, case.revision), {})[case.case_id] = (case.state, case.nights)
    for found in connection.execute(sa.select(RUNS)):
        row = found._asdict()
        place = (row["key"], row["revision"])
        said = runs.pop(place, None)
        if said is None:
            raise Unchained(f"a run of {row['night']} has no entry in the audit trail")
        held = {name: row[name] for name in ("series", "night", "entry")} | {
            "facts": json.loads(row["facts"])
        }
        held["cases"] = digest_of_cases(cases.pop(place, {}))
        if any(said[name] != value for name, value in held.items()):
            raise Unchained(
                f"a run or its cases are not as entry {said['entry']} of the audit trail has them"
            )
    for said in runs.values():
        raise Unchained(f"the run of entry {said['entry']} of the audit trail is gone")
    if cases:
        raise Unchained("there are cases of a run that the audit trail does not know")


def _verify_verdicts(connection: sa.Connection, verdicts: dict[tuple[str, str], Mapping[str, Any]]) -> None:
    for row in connection.execute(sa.select(REVIEWS)).mappings():
        said = verdicts.pop((row["key"], row["case_id"]), None)
        if said is None:
            raise Unchained(f"a verdict on the night of {row['night']} has no entry in the audit trail")
        if any(said[name] != value for name, value in row.items()):
            raise Unchained(f"a verdict is not as entry {said['entry']} of the audit trail has it")
    for said in verdicts.values():
        raise Unchained(f"the verdict of entry {said['entry']} of the audit trail is gone")
