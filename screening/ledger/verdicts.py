"""What reviewers said of the cases of a night, read from the files that pages save, and which word stands.

Every word is an entry of the trail, with its time and its reviewer. Of one reviewer the latest stands, by
when it was given and not by when it was read in. Two who contradict each other have not judged the case: it
is "disputed", and counts as if they were unsure, until one of them says otherwise.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import pwd
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from screening.errors import UsageError, VerdictError
from screening.files import read_bounded, read_secret
from screening.ledger.database import CASES, REVIEWS, RUNS, Ledger
from screening.ledger.entries import VerdictGiven, append
from screening.ledger.trail import Part, text_part
from screening.schemas.run import HAS_IT, RunDocument, Word
from screening.store.serialization import read_document

MAX_BYTES = 16 << 20
LONGEST_TOKEN = 4096


_FIRST_YEAR = 2000


def _in_utc(text: str) -> str:
    """Return a time in UTC, so that texts sort as times do."""
    time = datetime.datetime.fromisoformat(text)
    # No page of this program is so old, and the first hours of year 1 have no UTC.
    if time.year < _FIRST_YEAR:
        raise ValueError(f"it lies before the year {_FIRST_YEAR}")
    # A clock may be a little fast.
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    if time.tzinfo is None or time > soon:
        raise ValueError("it has no zone, or is still to come")
    return time.astimezone(datetime.UTC).isoformat(timespec="milliseconds")


NO_NULL = r"^[^\x00]*$"
"""No ledger can hold a null, and nobody types one."""
Site = Annotated[str, Field(max_length=100, pattern=NO_NULL)]
Initials = Annotated[str, Field(max_length=20, pattern=NO_NULL)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", validate_by_name=True))
class Verdict:
    """One reviewer's word on one case, as a line of a file has it."""

    # Of the row, or of the group where rows come in groups.
    case_id: Annotated[str, Field(alias="id")]
    verdict: Word
    site: Site = ""
    initials: Initials = ""
    note: Annotated[str, Field(max_length=2000, pattern=NO_NULL)] = ""
    # When, ISO 8601 in UTC; None where nobody noted it.
    given: Annotated[str, AfterValidator(_in_utc)] | None = None


@dataclass(frozen=True, config=ConfigDict(extra="ignore"))
class VerdictFile:
    """What a page saves: verdicts, and who gave those that do not say so themselves."""

    format: Literal[1]
    verdicts: list[Verdict]
    site: Site = ""
    initials: Initials = ""


READER = TypeAdapter(VerdictFile)


def reviewable(connection: sa.Connection, key: str) -> tuple[Any, dict[str, bool]]:
    """A run, and by id on which a verdict may be given whether it was flagged (UsageError: there is none)."""
    run = connection.execute(sa.select(RUNS).where(RUNS.c.key == key).limit(1)).first()
    if run is None:
        raise UsageError(
            "the ledger does not know this run; was it scored with --ledger, and with this one?"
        )
    if run.shadow:
        raise UsageError(
            "the run was scored in shadow, so nobody was to review it; review the champion's"
        )
    cases = sa.select(CASES.c.case_id, CASES.c.state.is_not(None)).join(
        RUNS, RUNS.c.entry == CASES.c.entry
    )
    return run, dict(connection.execute(cases.where(RUNS.c.key == key)).all())


def record_verdicts(
    ledger: Ledger,
    key: str,
    verdicts: Iterable[Verdict],
    user: str = "",
    token: str = "",
) -> dict[str, int]:
    """Enter verdicts on a run; `user`: who enters them, `token`: the digest of the reviewer's.

    Returns how many came to what, "older" than what the same reviewer said later, and "disputed" by two now.
    """
    outcomes, names = dict.fromkeys(("new", "changed", "unchanged", "older"), 0), set()
    entered = Part("entered", names=[user, token])
    with ledger.writing() as connection:
        run, cases = reviewable(connection, key)
        for verdict in verdicts:
            names.add(verdict.case_id)
            flagged = cases[verdict.case_id]
            outcomes[
                _enter(connection, ledger.clock(), run, flagged, verdict, entered)
            ] += 1
        current = ordered_verdicts(connection, REVIEWS.c.key == key)
    return outcomes | {
        "disputed": sum(
            row.verdict == "disputed" and row.case_id in names for row in current
        )
    }


def _enter(
    connection: sa.Connection,
    recorded: str,
    run: Any,
    flagged: bool,
    verdict: Verdict,
    entered: Part,
) -> str:
    """Enter one verdict; gives which of the outcomes it came to."""
    of_case = (REVIEWS.c.key == run.key) & (REVIEWS.c.case_id == verdict.case_id)
    earlier = connection.execute(sa.select(REVIEWS).where(of_case)).all()
    reviewer = _reviewer(verdict.site, verdict.initials, *entered.names)
    own = [
        row
        for row in earlier
        if _reviewer(row.site, row.initials, row.login, row.token) == reviewer
    ]
    stated = (verdict.verdict, verdict.site, verdict.initials, verdict.note)
    repeated = [
        row for row in own if (row.verdict, row.site, row.initials, row.note) == stated
    ]
    # A file without times may be an old one: what it says again is nothing new.
    if any(verdict.given in (None, row.given) for row in repeated):
        return "unchanged"
    facts = VerdictGiven(
        key=run.key,
        series=run.series,
        night=run.night,
        flagged=flagged,
        verdict=verdict.verdict,
        given=verdict.given or recorded,
        reviewer=own[0].reviewer
        if own
        else 1 + max((row.reviewer for row in earlier), default=0),
    )
    by, case = (
        Part("by", names=[verdict.site, verdict.initials]),
        Part("case", names=[verdict.case_id]),
    )
    append(
        connection, recorded, facts, case, by, entered, text_part("note", verdict.note)
    )
    if not own:
        return "new"
    last = max(own, key=lambda row: (row.given, row.entry))
    if last.given > facts.given:
        return "older"
    return "unchanged" if last in repeated else "changed"


def _reviewer(site: str, initials: str, login: str, token: str) -> tuple[str, ...]:
    """Who speaks, as far as it is known: by a token, by initials, or by who reads the verdicts in."""
    if token:
        return ("token", token)
    return ("initials", site, initials) if initials else ("login", login)


LATEST = ("given", "entry")


def _last(
    rows: sa.FromClause, of_each: Sequence[str], by: Sequence[str]
) -> sa.Subquery:
    """Of the rows with the same values in some columns the one that is last by others."""
    columns, latest = (
        [rows.c[name] for name in of_each],
        [rows.c[name].desc() for name in by],
    )
    turn = sa.func.row_number().over(partition_by=columns, order_by=latest)
    numbered = sa.select(rows, turn.label("turn")).subquery()
    return (
        sa.select(*(numbered.c[column.name] for column in rows.c))
        .where(numbered.c.turn == 1)
        .subquery()
    )


def current_verdicts(*which: sa.ColumnElement[bool]) -> sa.Subquery:
    """The word that stands on each case of a run, of verdicts of which something holds.

    `run`: the last entry of its run; of two tables of a night the one recorded later has the last word.
    """
    given = _last(
        sa.select(REVIEWS).where(*which).subquery(),
        ("key", "case_id", "reviewer"),
        LATEST,
    )
    case = [given.c.key, given.c.case_id]
    side = sa.case(
        (given.c.verdict.in_(HAS_IT), 1), (given.c.verdict == "ruled out", -1), else_=0
    )
    apart = sa.func.max(side).over(partition_by=case) - sa.func.min(side).over(
        partition_by=case
    )
    words = _last(
        sa.select(given, apart.label("apart")).subquery(), ("key", "case_id"), LATEST
    )
    run = (
        sa.select(sa.func.max(RUNS.c.entry))
        .where(RUNS.c.key == words.c.key)
        .scalar_subquery()
    )
    verdict = sa.case((words.c.apart == 2, "disputed"), else_=words.c.verdict)
    columns = [
        words.c[name] for name in ("key", "case_id", "series", "night", "flagged")
    ]
    return sa.select(*columns, verdict.label("verdict"), run.label("run")).subquery()


def ordered_verdicts(
    connection: sa.Connection, *which: sa.ColumnElement[bool]
) -> Sequence[sa.Row[Any]]:
    """The words that stand, in order of their nights and runs."""
    words = current_verdicts(*which)
    return connection.execute(
        sa.select(words).order_by(words.c.night, words.c.run, words.c.case_id)
    ).all()


def last_verdicts(*which: sa.ColumnElement[bool]) -> sa.Subquery:
    """Of every case the word that stands on its last night; see `current_verdicts`."""
    return _last(current_verdicts(*which), ("case_id",), ("night", "run"))


def review(
    run: str | Path,
    verdicts: str | Path,
    ledger: Ledger,
    series: str | None = None,
    token: Path | None = None,
) -> dict[str, object]:
    """Enter the verdicts of a file that the page of a run saved; nothing of it where it has a fault.

    `token`: private file with a secret of the reviewer's; its SHA-256 is kept with each verdict.
    Raises VerdictError: all faults, by the place of the verdict and never by id.
    """
    secret = None if token is None else read_secret(token, LONGEST_TOKEN).strip()
    digest = "" if secret is None else hashlib.sha256(secret).hexdigest()
    document = RunDocument.from_dict(read_document(run, "run"))
    entered = document.ledger
    if entered is None:
        raise UsageError(
            f"{run} was scored without --ledger, so there is no memory for its verdicts"
        )
    if series is not None and entered.series != series:
        raise UsageError(f"{run} is not of series {series} but of {entered.series}")
    with ledger.reading() as connection:
        _, cases = reviewable(connection, entered.key)
    given = _read(Path(verdicts), document, cases, has_token=bool(digest))
    outcomes = record_verdicts(ledger, entered.key, given, _user(), digest)
    return {
        "run_id": document.run_id,
        "night": document.date,
        "verdicts": len(given),
    } | outcomes


def _user() -> str:
    # Not by the environment, which anybody may set.
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _read(
    path: Path, run: RunDocument, reviewable: Collection[str], has_token: bool
) -> Sequence[Verdict]:
    """Return the verdicts of a file that a page saved; VerdictError with all faults.

    `reviewable`: the ids on which a verdict may be given; `has_token`: the reviewer is
    known by a token.
    """
    try:
        content = json.loads(read_bounded(path, MAX_BYTES, UsageError))
    except (ValueError, RecursionError):
        raise VerdictError(
            f"{path.name} is no JSON; save the verdicts from the page again"
        ) from None
    if not isinstance(content, dict) or not isinstance(content.get("verdicts"), list):
        raise VerdictError("this is no file of verdicts: it has no list `verdicts`")
    shared = {
        name: content[name]
        for name in ("site", "initials")
        if isinstance(content.get(name), str)
    }
    lines: list[Any] = []
    for line in content["verdicts"]:
        lines.append(shared | line if isinstance(line, dict) else line)
    faults = []
    if content.get("run_id") != run.run_id:
        faults.append(f"it belongs to another run: its run_id is not {run.run_id}")
    verdicts: Sequence[Verdict] = []
    try:
        verdicts = READER.validate_python(content | {"verdicts": lines}).verdicts
    except ValidationError as error:
        for problem in error.errors():
            faults.append(_fault(*problem["loc"], message=problem["msg"]))
    faults += _faults_of_ids(lines, reviewable)
    faults += _faults_of_reviewers(lines, run.model.stated.verdicts_need, has_token)
    if faults:
        raise VerdictError(faults, parameters=["token"])
    return verdicts


def _faults_of_ids(lines: Sequence[Any], reviewable: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the ids of a file's verdicts."""
    ids = set()
    for number, line in _with_ids(lines):
        if line["id"] not in reviewable:
            yield f"verdict {number}: its id is none of this run's flagged or sampled"
        if line["id"] in ids:
            yield f"verdict {number}: its id occurs twice"
        ids.add(line["id"])


def _faults_of_reviewers(
    lines: Sequence[Any], needed: Collection[str], has_token: bool
) -> Iterator[str]:
    """Yield what is not said of the reviewers of a file's verdicts."""
    n_anonymous = 0
    for number, line in _with_ids(lines):
        empty = [
            key for key in ("site", "initials") if not str(line.get(key, "")).strip()
        ]
        for key in empty:
            if key in needed:
                yield f"verdict {number}: it has no {key}, which the contract asks for"
        n_anonymous += "initials" in empty and "initials" not in needed
    if n_anonymous and not has_token:
        # Else one who contradicts another would count as one who changed their mind.
        yield (
            f"no reviewer is given for {n_anonymous} of its verdicts; fill in the "
            "initials on the page before you save, or give `token`"
        )


def _with_ids(lines: Sequence[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the verdicts that have an id, with their numbers from 1."""
    for number, line in enumerate(lines, start=1):
        if isinstance(line, dict) and isinstance(line.get("id"), str):
            yield number, line


def _fault(*where: str | int, message: str) -> str:
    """What is wrong at a place of a file of verdicts, without anything that stands there."""
    key, names = where[-1], {*Verdict.__dataclass_fields__, "id", "format"}
    fault = (
        f"its {key}: {message}"
        if key in names
        else "it is no object with the keys of a verdict alone"
    )
    return (
        f"verdict {int(where[1]) + 1}: {fault}"
        if where[0] == "verdicts"
        else f"the file: {fault}"
    )
