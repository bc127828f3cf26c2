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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import sqlalchemy as sa
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from screening.errors import UsageError, VerdictError
from screening.files import read_bounded, read_secret
from screening.ledger.database import CASES, REVIEWS, RUNS, Ledger
from screening.ledger.kinds import VerdictGiven, append
from screening.ledger.trail import Part, text_part
from screening.schemas.run import RunDocument, Word
from screening.store.serialization import read_document

HAS_IT = ("confirmed", "known")
"""Verdicts that say the condition is there."""

DISPUTED = "disputed"
UNDECIDED = ("unsure", DISPUTED)
"""Words after which a case is not judged."""

FORMAT = 1
MAX_BYTES = 16 << 20
LONGEST_TOKEN = 4096


def _in_utc(text: str) -> str:
    """A time in UTC, so that texts follow each other as times do."""
    time = datetime.datetime.fromisoformat(text)
    # A clock may be a little fast.
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    if time.tzinfo is None or time > soon:
        raise ValueError("it has no zone, or is still to come")
    return time.astimezone(datetime.UTC).isoformat(timespec="milliseconds")


NO_NULL = r"^[^\x00]*$"
"""No ledger can hold a null, and nobody types one."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", validate_by_name=True))
class Verdict:
    """One reviewer's word on one case, as a line of a file has it."""

    # Of the row, or of the group where rows come in groups.
    case_id: Annotated[str, Field(alias="id")]
    verdict: Word
    site: Annotated[str, Field(max_length=100, pattern=NO_NULL)] = ""
    initials: Annotated[str, Field(max_length=20, pattern=NO_NULL)] = ""
    note: Annotated[str, Field(max_length=2000, pattern=NO_NULL)] = ""
    # When, ISO 8601 in UTC; None where nobody noted it.
    given: Annotated[str, AfterValidator(_in_utc)] | None = None


def reviewable(connection: sa.Connection, key: str) -> tuple[Any, dict[str, bool]]:
    """A run, and the ids on which a verdict may be given, with whether each was flagged or drawn at random.

    Raises UsageError: the ledger has no such run, or nobody was to review it.
    """
    run = connection.execute(sa.select(RUNS).where(RUNS.c.key == key).limit(1)).first()
    if run is None:
        raise UsageError("the ledger does not know this run; was it scored with --ledger, and with this one?")
    if run.shadow:
        raise UsageError("the run was scored in shadow, so nobody was to review it; review the champion's")
    cases = sa.select(CASES.c.case_id, CASES.c.state.is_not(None)).join(RUNS, RUNS.c.entry == CASES.c.entry)
    return run, dict(connection.execute(cases.where(RUNS.c.key == key)).all())


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
        run, flagged = reviewable(connection, key)
        for verdict in verdicts:
            is_flagged = flagged[verdict.case_id]
            outcomes[_enter(connection, ledger.clock(), run, is_flagged, verdict, entered_by or {})] += 1
            names.add(verdict.case_id)
        words = in_order(connection, REVIEWS.c.key == key)
        disputed = sum(word.verdict == DISPUTED and word.case_id in names for word in words)
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


def standing(*which: sa.ColumnElement[bool]) -> sa.Subquery:
    """The word that stands on each case of a run: `key`, `case_id`, `series`, `night`, `flagged`, `verdict`.

    `run`: the last entry of its run; of two tables of a night the one recorded later has the last word.
    `which`: what holds for the verdicts that are looked at.
    """
    mine, latest = [REVIEWS.c.key, REVIEWS.c.case_id], [REVIEWS.c.given.desc(), REVIEWS.c.entry.desc()]
    turn = sa.func.row_number().over(partition_by=[*mine, REVIEWS.c.reviewer], order_by=latest)
    last = sa.select(REVIEWS, turn.label("turn")).where(*which).subquery()
    case, latest = [last.c.key, last.c.case_id], [last.c.given.desc(), last.c.entry.desc()]
    side = sa.case((last.c.verdict.in_(HAS_IT), 1), (last.c.verdict == "ruled out", -1), else_=0)
    apart = sa.func.max(side).over(partition_by=case) - sa.func.min(side).over(partition_by=case)
    newest = sa.func.row_number().over(partition_by=case, order_by=latest)
    words = sa.select(last, apart.label("apart"), newest.label("newest")).where(last.c.turn == 1).subquery()
    run = sa.select(sa.func.max(RUNS.c.entry)).where(RUNS.c.key == words.c.key).scalar_subquery()
    verdict = sa.case((words.c.apart == 2, DISPUTED), else_=words.c.verdict)
    columns = [words.c[name] for name in ("key", "case_id", "series", "night", "flagged")]
    return (
        sa.select(*columns, verdict.label("verdict"), run.label("run")).where(words.c.newest == 1).subquery()
    )


def in_order(connection: sa.Connection, *which: sa.ColumnElement[bool]) -> Sequence[sa.Row[Any]]:
    """The words that stand, in order of their nights and runs; see `standing`."""
    words = standing(*which)
    return connection.execute(sa.select(words).order_by(words.c.night, words.c.run, words.c.case_id)).all()


def last_words(*which: sa.ColumnElement[bool]) -> sa.Subquery:
    """Of every case the word that stands on its last night; see `standing`."""
    words = standing(*which)
    later = sa.func.row_number().over(
        partition_by=words.c.case_id, order_by=[words.c.night.desc(), words.c.run.desc()]
    )
    numbered = sa.select(words, later.label("turn")).subquery()
    return sa.select(numbered).where(numbered.c.turn == 1).subquery()


def review(
    run: str | Path,
    verdicts: str | Path,
    ledger: Ledger,
    series: str | None = None,
    token: Path | None = None,
) -> dict[str, object]:
    """Enter the verdicts of a file that the page of a run saved; nothing of it where it has a fault.

    `token`: private file with a secret of the reviewer's; its SHA-256 is kept with each verdict, as the name
    of the system's user is.
    Raises VerdictError: all faults, by the place of the verdict and never by id.
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
    with ledger.reading() as connection:
        _, cases = reviewable(connection, known.key)
    given = _read(Path(verdicts), document, cases)
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


def _read(path: Path, run: RunDocument, known: Mapping[str, bool]) -> list[Verdict]:
    """The verdicts of a file that a page saved (VerdictError with all faults)."""
    try:
        content = json.loads(read_bounded(path, MAX_BYTES, UsageError))
    except (ValueError, RecursionError):
        raise VerdictError(f"{path.name} is no JSON; save the verdicts from the page again") from None
    if not isinstance(content, dict) or not isinstance(content.get("verdicts"), list):
        raise VerdictError("this is no file of verdicts: it has no list `verdicts`")
    faults = []
    if content.get("format") != FORMAT:
        faults.append(f"its format is not {FORMAT}")
    if content.get("run_id") != run.run_id:
        faults.append(f"it belongs to another run: its run_id is not {run.run_id}")
    shared = {name: content[name] for name in ("site", "initials") if name in content}
    _, problems = _line({"id": "", "verdict": "unsure"}, shared)
    if problems:
        faults, shared = [*faults, *(f"the file: {problem}" for problem in problems)], {}
    verdicts, names, needed = [], set[str](), run.model.stated.verdicts_need
    for place, line in enumerate(content["verdicts"], start=1):
        verdict, problems = _line(line, shared)
        name = line.get("id") if isinstance(line, dict) else None
        if isinstance(name, str):
            problems += [] if name in known else ["its id is none of this run's flagged or sampled"]
            problems += ["its id occurs twice"] if name in names else []
            names.add(name)
        if verdict is not None:
            lacking = [key for key in needed if not getattr(verdict, key).strip()]
            problems += [f"it has no {key}, which the contract asks for" for key in lacking]
            verdicts.append(verdict)
        faults += [f"verdict {place}: {problem}" for problem in problems]
    if faults:
        raise VerdictError(faults)
    return verdicts


def _line(line: object, shared: Mapping[str, object]) -> tuple[Verdict | None, list[str]]:
    """A verdict, or what is wrong with it, without anything that the line holds."""
    try:
        whole = {**shared, **line} if isinstance(line, dict) else line
        return TypeAdapter(Verdict).validate_python(whole), []
    except ValidationError as error:
        names = {*Verdict.__dataclass_fields__, "id"}
        return None, [
            f"its {problem['loc'][0]}: {problem['msg']}"
            if problem["loc"] and problem["loc"][0] in names
            else "it is no object with the keys of a verdict alone"
            for problem in error.errors(include_input=False)
        ]
