"""What reviewers said of the cases of a night, read from the files that pages save, and which word stands.

Every word is an entry of the trail, with its time and its reviewer. Of one reviewer the latest stands, by
when it was given and not by when it was read in. Two who contradict each other have not judged the case: it
is "disputed", and counts as if they were unsure, until one of them says otherwise.
"""

from __future__ import annotations

import datetime
import getpass
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from screening.documents.run import VERDICTS, RunDocument
from screening.errors import UsageError, VerdictError
from screening.files import read_bounded, read_secret
from screening.ledger.database import CASES, REVIEWS, RUNS, Ledger
from screening.ledger.kinds import VerdictGiven, append
from screening.ledger.trail import Part, text_part
from screening.storage.serialization import read_document

HAS_IT = ("confirmed", "known")
"""Verdicts that say the condition is there."""

DISPUTED = "disputed"

FORMAT = 1
MAX_BYTES = 16 << 20
LONGEST_TOKEN = 4096
LONGEST = {"site": 100, "initials": 20, "note": 2000}


@dataclass(frozen=True)
class Verdict:
    """One reviewer's word on one case."""

    case_id: str  # Id of the row, or of the group where rows come in groups.
    verdict: str  # One of `VERDICTS`.
    site: str = ""
    initials: str = ""
    note: str = ""
    given: str | None = None  # When, ISO 8601 in UTC; None where nobody noted it.


@dataclass(frozen=True)
class Judgement:
    """The word that stands on a case of a run."""

    key: str
    case_id: str
    night: str
    flagged: bool
    verdict: str  # One of `VERDICTS`, or "disputed" where two reviewers contradict each other.

    @property
    def judged(self) -> bool:
        """Whether it says that the condition is there, or that it is not."""
        return self.verdict not in ("unsure", DISPUTED)


def reviewable(ledger: Ledger, key: str) -> dict[str, bool]:
    """Ids of a run on which a verdict may be given, and whether each was flagged or drawn at random.

    Raises UsageError: the ledger has no such run.
    """
    with ledger.reading() as connection:
        return _reviewable(connection, key)[1]


def _reviewable(connection: sa.Connection, key: str) -> tuple[Any, dict[str, bool]]:
    run = connection.execute(sa.select(RUNS).where(RUNS.c.key == key).limit(1)).first()
    if run is None:
        raise UsageError("the ledger does not know this run; was it scored with --ledger, and with this one?")
    if run.shadow:
        raise UsageError("the run was scored in shadow, so nobody was to review it; review the champion's")
    cases = sa.select(CASES.c.case_id, CASES.c.state.is_not(None)).join(RUNS, RUNS.c.entry == CASES.c.entry)
    return run, {name: flagged for name, flagged in connection.execute(cases.where(RUNS.c.key == key))}


def record_verdicts(
    ledger: Ledger, key: str, verdicts: Iterable[Verdict], entered_by: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Enter verdicts on a run; the same one twice is one.

    `entered_by`: the `user` who enters them and the `token` of the reviewer, kept in the trail with each.
    Returns how many were new, changed, unchanged and older than what the same reviewer said later, and on how
    many of these cases two reviewers contradict each other now (`disputed`).
    Raises UsageError: the ledger has no such run.
    """
    outcomes = Counter({"new": 0, "changed": 0, "unchanged": 0, "older": 0})
    names = set()
    with ledger.writing() as connection:
        run, flagged = _reviewable(connection, key)
        for verdict in verdicts:
            is_flagged = flagged[verdict.case_id]
            outcomes[_enter(connection, ledger.clock(), run, is_flagged, verdict, entered_by or {})] += 1
            names.add(verdict.case_id)
        standing = in_order(connection, run.series, REVIEWS.c.key == key)
        disputed = sum(one.verdict == DISPUTED and one.case_id in names for one in standing)
    return dict(outcomes) | {"disputed": disputed}


def _enter(
    connection: sa.Connection,
    recorded: str,
    run: Any,
    flagged: bool,
    verdict: Verdict,
    entered_by: Mapping[str, str],
) -> str:
    mine = (REVIEWS.c.key == run.key) & (REVIEWS.c.case_id == verdict.case_id)
    before = connection.execute(sa.select(REVIEWS).where(mine)).all()
    login, token = entered_by.get("user", ""), entered_by.get("token", "")
    me = _reviewer(verdict.site, verdict.initials, login, token)
    own = [row for row in before if _reviewer(row.site, row.initials, row.login, row.token) == me]
    words = (verdict.verdict, verdict.site, verdict.initials, verdict.note)
    alike = [row for row in own if (row.verdict, row.site, row.initials, row.note) == words]
    # A file without times may be an old one: what it says again is nothing new.
    if any(verdict.given in (None, row.given) for row in alike):
        return "unchanged"
    given = verdict.given or recorded
    reviewer = own[0].reviewer if own else 1 + max((row.reviewer for row in before), default=0)
    facts = VerdictGiven(
        key=run.key, series=run.series, night=run.night, flagged=flagged, verdict=verdict.verdict,
        given=given, reviewer=reviewer,
    )  # fmt: skip
    append(
        connection,
        recorded,
        facts,
        Part("case", names=[verdict.case_id]),
        Part("by", names=[verdict.site, verdict.initials]),
        Part("entered", names=[login, token]),
        text_part("note", verdict.note),
    )
    if not own:
        return "new"
    last = max(own, key=lambda row: (row.given, row.entry))
    if last.given > given:
        return "older"
    return "unchanged" if last in alike else "changed"


def _reviewer(site: str, initials: str, login: str, token: str) -> tuple[str, ...]:
    """Who speaks, as far as it is known: by a token, by initials, or by who reads the verdicts in."""
    if token:
        return ("token", token)
    return ("initials", site, initials) if initials else ("login", login)


def in_order(
    connection: sa.Connection, series: str | None = None, *which: sa.ColumnElement[bool]
) -> Iterator[Judgement]:
    """The words that stand, in order of their nights; of two tables of a night that recorded later is last.

    `series`: only of this one. `which`: what holds for the verdicts besides.
    """
    entered = sa.select(RUNS.c.key, sa.func.max(RUNS.c.entry).label("run")).group_by(RUNS.c.key)
    chosen = sa.select(REVIEWS).where(*which)
    if series is not None:
        entered = entered.where(RUNS.c.series == series)
        chosen = chosen.where(REVIEWS.c.series == series)
    last = entered.subquery()
    rows = connection.execute(
        chosen.outerjoin(last, last.c.key == REVIEWS.c.key).order_by(
            REVIEWS.c.night, last.c.run, REVIEWS.c.case_id, REVIEWS.c.given, REVIEWS.c.entry
        )
    )
    for (key, case_id), words in groupby(rows, key=lambda row: (row.key, row.case_id)):
        latest = {row.reviewer: row for row in words}
        newest = max(latest.values(), key=lambda row: (row.given, row.entry))
        verdicts = {row.verdict for row in latest.values()}
        disputed = "ruled out" in verdicts and not verdicts.isdisjoint(HAS_IT)
        yield Judgement(key, case_id, newest.night, newest.flagged, DISPUTED if disputed else newest.verdict)


def review(
    run: str | Path,
    verdicts: str | Path,
    ledger: Ledger,
    series: str | None = None,
    token: Path | None = None,
) -> dict[str, object]:
    """Enter the verdicts of a file into the ledger.

    `run`: run directory whose page the verdicts were given on.
    `verdicts`: JSON file saved by that page.
    `ledger`: the one the run was scored with.
    `series`: refuse a run that is not of this series.
    `token`: private file with a secret of the reviewer's; its SHA-256 is kept with each verdict, as the name
    of the system's user is.
    Returns run, night, and what `record_verdicts` tells.
    Raises VerdictError: all faults of the file, by the place of the verdict and never by id; nothing is
    entered.
    Raises UsageError: the run was scored without a ledger, or with another one.
    """
    reviewer = {"user": _user()}
    if token is not None:
        reviewer["token"] = hashlib.sha256(read_secret(token, LONGEST_TOKEN).strip()).hexdigest()
    document = RunDocument.from_dict(read_document(run, "run"))
    known = document.ledger
    if known is None:
        raise UsageError(f"{run} was scored without --ledger, so there is no memory for its verdicts")
    if series is not None and known.series != series:
        raise UsageError(f"{run} is not of series {series} but of {known.series}")
    content = _content(Path(verdicts))
    needed = document.model.stated.verdicts_need
    given = _checked(content, document.run_id, reviewable(ledger, known.key), needed)
    outcomes = record_verdicts(ledger, known.key, given, reviewer)
    return {"run_id": document.run_id, "night": document.date, "verdicts": len(given)} | outcomes


def _user() -> str:
    try:
        import pwd

        # Not by the environment, which anybody may set.
        return pwd.getpwuid(os.getuid()).pw_name
    except ImportError:
        return getpass.getuser()
    except KeyError:
        return str(os.getuid())


def _content(path: Path) -> object:
    try:
        return json.loads(read_bounded(path, MAX_BYTES, UsageError))
    except (ValueError, RecursionError):
        raise VerdictError(f"{path.name} is no JSON; save the verdicts from the page again") from None


def _checked(content: object, run_id: str, known: dict[str, bool], needed: Sequence[str]) -> list[Verdict]:
    if not isinstance(content, dict) or not isinstance(content.get("verdicts"), list):
        raise VerdictError("this is no file of verdicts: it has no list `verdicts`")
    faults = []
    if content.get("format") != FORMAT:
        faults.append(f"its format is not {FORMAT}")
    if content.get("run_id") != run_id:
        faults.append(f"it belongs to another run: its run_id is not {run_id}")
    shared = {name: content.get(name, "") for name in ("site", "initials")}
    faults += [f"the file: {fault}" for fault in _text_faults(shared)]
    seen: set[str] = set()
    for place, one in enumerate(content["verdicts"], start=1):
        faults += [f"verdict {place}: {fault}" for fault in _faults(one, shared, known, seen, needed)]
    if faults:
        raise VerdictError(faults)
    return [
        Verdict(
            one["id"],
            one["verdict"],
            **shared | {name: one[name] for name in LONGEST if name in one},
            given=_time(one["given"]) if "given" in one else None,
        )
        for one in content["verdicts"]
    ]


def _faults(
    one: object, shared: dict[str, object], known: dict[str, bool], seen: set[str], needed: Sequence[str]
) -> Iterator[str]:
    if not isinstance(one, dict):
        yield "it is no object with id and verdict"
        return
    name = one.get("id")
    if not isinstance(name, str) or name not in known:
        yield "its id is none of this run's flagged or sampled"
    elif name in seen:
        yield "its id occurs twice"
    else:
        seen.add(name)
    if one.get("verdict") not in VERDICTS:
        yield f"its verdict is none of {', '.join(VERDICTS)}"
    yield from _text_faults(one)
    if "given" in one and _time(one["given"]) is None:
        yield "the time it was given is no time with its zone, or still to come"
    if not set(one) <= {"id", "verdict", "given", *LONGEST}:
        yield "it has keys that a verdict has not"
    for key in needed:
        if not str((shared | one).get(key, "")).strip():
            yield f"it has no {key}, which the contract asks for"


def _time(text: object) -> str | None:
    """A time in UTC, so that texts follow each other as times do; None where it is none that can be."""
    try:
        time = datetime.datetime.fromisoformat(text if isinstance(text, str) else "")
    except ValueError:
        return None
    # A clock may be a little fast.
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    if time.tzinfo is None or time > soon:
        return None
    return time.astimezone(datetime.UTC).isoformat(timespec="milliseconds")


def _text_faults(texts: Mapping[str, object]) -> Iterator[str]:
    for name, longest in LONGEST.items():
        text = texts.get(name, "")
        if not isinstance(text, str):
            yield f"its {name} is no text"
        elif len(text) > longest:
            yield f"its {name} is longer than {longest} characters"
        # No ledger can hold them, and nobody types them.
        elif "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            yield f"its {name} holds a null or half a character"
