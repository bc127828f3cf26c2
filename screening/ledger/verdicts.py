"""Read reviewers' verdicts from the files that pages save, and find the current ones.

Every verdict is an entry of the trail, with its time and its reviewer. If a reviewer
changes a verdict, the latest one counts, by the time it was given and not by the time
it was read. If two reviewers contradict each other, the case is "disputed" and counts
as unsure until they agree.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import pwd
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from pydantic import ValidationError

from screening.clock.zone import Clock, clock_of
from screening.errors import UsageError, VerdictError
from screening.files import read_secret
from screening.identity.writing import BUT_FOR, colliding
from screening.ledger.current import ordered_verdicts
from screening.ledger.database import CASES, REVIEWS, RUNS, Ledger
from screening.ledger.entries import VerdictGiven, append, run_id_of
from screening.ledger.trail import Part, text_part
from screening.ledger.verdict_file import (
    READER,
    Verdict,
    as_compared,
    read_verdict_file,
)
from screening.schemas.run import RunDocument
from screening.store.serialization import read_run

MAX_TOKEN_BYTES = 4096


def reviewable(connection: sa.Connection, key: str) -> tuple[Any, dict[str, bool]]:
    """Return a run, and the cases that may be reviewed.

    Returns
    -------
    run : row
    is_flagged : dict
        By the id of a case, False if it was drawn from those not flagged.

    Raises
    ------
    UsageError
        If the run is not in the ledger, or was not for review.
    """
    of_key = sa.select(RUNS).where(RUNS.c.key == key).limit(1)
    run = connection.execute(of_key).first()
    if run is None:
        raise UsageError(
            "the ledger has no such run; was the run scored with this `ledger`?",
            parameters=["ledger"],
        )
    if run.shadow:
        raise UsageError(
            "the run was scored in shadow, so it is not reviewed; review the "
            "champion's run"
        )
    cases = (
        sa.select(CASES.c.case_id, CASES.c.state.is_not(None))
        .join(RUNS, RUNS.c.entry == CASES.c.entry)
        .where(RUNS.c.key == key)
    )
    return run, dict(connection.execute(cases).all())


def record_verdicts(
    ledger: Ledger,
    key: str,
    verdicts: Iterable[Verdict],
    user: str = "",
    token: str = "",
) -> dict[str, int]:
    """Enter verdicts on a run.

    Parameters
    ----------
    ledger : Ledger
    key : str
        Of the run.
    verdicts : iterable of Verdict
    user : str
        Login of the user who enters them.
    token : str
        Digest of the reviewer's token.

    Returns
    -------
    dict
        Numbers of verdicts that are "new", "changed", "unchanged" or "older" than the
        same reviewer's last one, and of cases that are "disputed" now.
    """
    outcomes = dict.fromkeys(("new", "changed", "unchanged", "older"), 0)
    names = set()
    entered = Part("entered", names=[user, token])
    with ledger.writing() as connection:
        run, is_flagged = reviewable(connection, key)
        for verdict in verdicts:
            names.add(verdict.case_id)
            new = _NewVerdict(run, is_flagged[verdict.case_id], verdict, entered)
            outcomes[new.enter(connection, ledger.clock())] += 1
        current = ordered_verdicts(connection, REVIEWS.c.key == key)
    disputed = [row.case_id for row in current if row.verdict == "disputed"]
    return outcomes | {"disputed": len(names.intersection(disputed))}


class _NewVerdict(NamedTuple):
    """A verdict to enter.

    `entered`: the part with the login and the token it is entered with.
    """

    run: Any
    is_flagged: bool
    verdict: Verdict
    entered: Part

    def enter(self, connection: sa.Connection, recorded: str) -> str:
        """Enter the verdict; return its outcome, a key of `record_verdicts`."""
        verdict = self.verdict
        is_of_case = REVIEWS.c.case_id == verdict.case_id
        chosen = sa.select(REVIEWS).where(REVIEWS.c.key == self.run.key, is_of_case)
        earlier = connection.execute(chosen).all()
        of_reviewer = list(filter(self._is_of_reviewer, earlier))
        repeated = list(filter(self._is_same, of_reviewer))
        # A file without times may be an old one: what it repeats is nothing new.
        if any(verdict.given in (None, row.given) for row in repeated):
            return "unchanged"
        facts = VerdictGiven(
            key=self.run.key,
            series=self.run.series,
            night=self.run.night,
            flagged=self.is_flagged,
            verdict=verdict.verdict,
            given=verdict.given or recorded,
            action=verdict.action,
            reviewer=_reviewer_number(of_reviewer, earlier),
        )
        append(
            connection,
            recorded,
            facts,
            Part("case", names=[verdict.case_id]),
            Part("by", names=[verdict.site, verdict.initials]),
            self.entered,
            text_part("note", verdict.note),
        )
        if not of_reviewer:
            return "new"
        last = max(of_reviewer, key=lambda row: (row.given, row.entry))
        if last.given > facts.given:
            return "older"
        return "unchanged" if last in repeated else "changed"

    def _is_of_reviewer(self, row: sa.Row[Any]) -> bool:
        """Return True if an earlier verdict is the same reviewer's."""
        verdict = self.verdict
        reviewer = _reviewer(verdict.site, verdict.initials, *self.entered.names)
        return _reviewer(row.site, row.initials, row.login, row.token) == reviewer

    def _is_same(self, row: sa.Row[Any]) -> bool:
        """Return True if an earlier verdict has the same words."""
        contents = attrgetter("verdict", "note", "action")
        is_by_same = all(
            as_compared(getattr(row, name)) == as_compared(getattr(self.verdict, name))
            for name in ("site", "initials")
        )
        return is_by_same and bool(contents(row) == contents(self.verdict))


def _reviewer_number(
    of_reviewer: Sequence[sa.Row[Any]], earlier: Sequence[sa.Row[Any]]
) -> int:
    """Return the number of a reviewer among those of a case, or the next free one."""
    if of_reviewer:
        return int(of_reviewer[0].reviewer)
    return 1 + max((row.reviewer for row in earlier), default=0)


def _reviewer(site: str, initials: str, login: str, token: str) -> tuple[str, ...]:
    """Identify the reviewer: by token, initials, or else the login that entered it."""
    if token:
        return ("token", token)
    if initials:
        return ("initials", as_compared(site), as_compared(initials))
    return ("login", login)


def review(
    run: str | Path,
    verdicts: str | Path,
    ledger: Ledger,
    series: str | None = None,
    token: Path | None = None,
) -> dict[str, object]:
    """Enter the verdicts of a file that the page of a run saved, all or none.

    Parameters
    ----------
    run : str or Path
        Run directory whose page was reviewed.
    verdicts : str or Path
        The file.
    ledger : Ledger
    series : str, optional
        The run must be of this series.
    token : Path, optional
        Private file with a secret of the reviewer's; its SHA-256 is recorded.

    Returns
    -------
    dict
        As `screen review --json` prints it. Verdicts of the page of an earlier run of
        the night, which a corrected table has replaced, count for the cases that both
        runs have; the others are kept with the earlier run, and counted as
        "superseded".

    Raises
    ------
    VerdictError
        With all faults, by the number of the verdict and never by its id.
    """
    digest = _digest_of_token(token)
    document = read_run(run)
    entered = document.ledger
    if entered is None:
        raise UsageError(
            f"{run} was scored without `ledger`, so verdicts cannot be recorded",
            parameters=["ledger"],
        )
    if series is not None and entered.series != series:
        raise UsageError(f"{run} belongs to series {entered.series}, not to {series}")
    content = read_verdict_file(Path(verdicts))
    run_id = document.run_id
    with ledger.reading() as connection:
        recorded, cases = reviewable(connection, entered.key)
        listed = cases
        earlier = _replaced_run(connection, recorded, content.get("run_id"))
        if earlier is not None:
            _, listed = reviewable(connection, earlier)
            run_id = run_id_of(earlier)
    verdicts_read = _checked(content, document, run_id, listed, bool(digest))
    of_run = [verdict for verdict in verdicts_read if verdict.case_id in cases]
    outcomes = record_verdicts(ledger, entered.key, of_run, _user(), digest)
    if earlier is not None:
        others = [verdict for verdict in verdicts_read if verdict.case_id not in cases]
        record_verdicts(ledger, earlier, others, _user(), digest)
        outcomes["superseded"] = len(others)
    return {
        "run_id": document.run_id,
        "night": document.date,
        "verdicts": len(verdicts_read),
    } | outcomes


def _digest_of_token(token: Path | None) -> str:
    """Return SHA-256 of a reviewer's secret; empty without one."""
    if token is None:
        return ""
    secret = read_secret(token, MAX_TOKEN_BYTES).strip()
    return hashlib.sha256(secret).hexdigest()


def _replaced_run(
    connection: sa.Connection, run: sa.Row[Any], run_id: object
) -> str | None:
    """Return the key of an earlier run of the same night by its id, else None."""
    keys = sa.select(RUNS.c.key).where(
        RUNS.c.series == run.series,
        RUNS.c.night == run.night,
        ~RUNS.c.shadow,
        RUNS.c.key != run.key,
    )
    key_of: dict[object, str] = {
        run_id_of(key): key for key in connection.scalars(keys.distinct())
    }
    return key_of.get(run_id)


def _user() -> str:
    """Return the login of this process."""
    # Not by the environment, which users may set.
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _checked(
    content: dict[str, Any],
    run: RunDocument,
    run_id: str,
    reviewable: Collection[str],
    has_token: bool,
) -> Sequence[Verdict]:
    """Return the verdicts of a file that a page saved; VerdictError with all faults.

    Parameters
    ----------
    content : dict
    run : RunDocument
        Run of the night that is in force.
    run_id : str
        Id of the run of the same night whose page saved the file.
    reviewable : collection of str
        Ids on which a verdict may be given.
    has_token : bool
        The reviewer is known by a token.
    """
    clock = clock_of(run.times.time_zone)
    stated = run.model.stated
    shared = {
        name: content[name]
        for name in ("site", "initials")
        if isinstance(content.get(name), str)
    }
    lines: list[Any] = []
    for line in content["verdicts"]:
        if isinstance(line, dict):
            line = shared | line
        lines.append(line)
    faults = []
    if content.get("run_id") != run_id:
        faults.append(f"it belongs to another run: its run_id is not {run_id}")
    verdicts: Sequence[Verdict] = []
    try:
        read = READER.validate_python(
            content | {"verdicts": lines}, context={"clock": clock}
        )
        verdicts = read.verdicts
    except ValidationError as error:
        for problem in error.errors():
            faults.append(_fault(*problem["loc"], message=problem["msg"]))
    faults += _faults_of_times(verdicts, run.date, run.times.started, clock)
    faults += _faults_of_actions(verdicts, stated.actions)
    faults += _faults_of_ids(lines, reviewable)
    faults += _faults_of_reviewers(lines, stated.verdicts_need, has_token)
    if faults:
        raise VerdictError(faults, parameters=["token"])
    return verdicts


def _faults_of_times(
    verdicts: Sequence[Verdict], night: str, started: str, clock: Clock
) -> Iterator[str]:
    """Yield which verdicts were given before their night.

    A night's page may be made, at `started`, on the evening before, so a verdict may be
    given then.
    """
    midnight = datetime.datetime.fromisoformat(night).replace(tzinfo=clock.zone)
    made = datetime.datetime.fromisoformat(started)
    begins = min(midnight, made).astimezone(datetime.UTC)
    first = begins.isoformat(timespec="milliseconds")
    for number, verdict in enumerate(verdicts, start=1):
        if verdict.given is not None and verdict.given < first:
            yield (
                f"verdict {number}: it was given before its night, {night}; "
                "check the clock, and save the verdicts again"
            )


def _faults_of_actions(
    verdicts: Sequence[Verdict], actions: Collection[str]
) -> Iterator[str]:
    """Yield which verdicts name an action that the contract does not."""
    for number, verdict in enumerate(verdicts, start=1):
        if verdict.action and verdict.action not in actions:
            yield (
                f"verdict {number}: its action is not one of `actions` in the model's "
                "contract; save the verdicts from the page again, or leave it out"
            )


def _faults_of_ids(lines: Sequence[Any], reviewable: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the ids of a file's verdicts."""
    ids = set()
    written_otherwise = _written_otherwise(lines, reviewable)
    for number, line in _with_ids(lines):
        if number in written_otherwise:
            yield f"verdict {number}: its id is one of this run's ids {BUT_FOR}"
        elif line["id"] not in reviewable:
            yield (
                f"verdict {number}: its id is not among the flagged or sampled ids "
                "of this run"
            )
        if line["id"] in ids:
            yield f"verdict {number}: its id occurs twice"
        ids.add(line["id"])


def _written_otherwise(lines: Sequence[Any], reviewable: Collection[str]) -> set[int]:
    """Return the numbers of verdicts whose id is a reviewable one but for writing."""
    numbers = []
    names = []
    for number, line in _with_ids(lines):
        if line["id"] not in reviewable:
            numbers.append(number)
            names.append(line["id"])
    return {numbers[place] for place in colliding(names, reviewable, within=False)}


def _faults_of_reviewers(
    lines: Sequence[Any], needed: Collection[str], has_token: bool
) -> Iterator[str]:
    """Yield what is missing about the reviewers of a file's verdicts."""
    n_anonymous = 0
    for number, line in _with_ids(lines):
        for key in ("site", "initials"):
            if str(line.get(key, "")).strip():
                continue
            if key in needed:
                yield f"verdict {number}: it has no {key}, which the contract asks for"
            elif key == "initials":
                n_anonymous += 1
    if n_anonymous and not has_token:
        # Otherwise a contradiction would count as a change of mind.
        yield (
            f"no reviewer is given for {n_anonymous} of its verdicts; fill in the "
            "initials on the page before you save, or give `token`"
        )


def _with_ids(lines: Sequence[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the verdicts that have an id, with their numbers from 1."""
    for number, line in enumerate(lines, start=1):
        has_id = isinstance(line, dict) and isinstance(line.get("id"), str)
        if has_id:
            yield number, line


def _fault(*where: str | int, message: str) -> str:
    """Describe a fault of a file of verdicts without any content of the file."""
    key = where[-1]
    if key in {*Verdict.__dataclass_fields__, "id", "format"}:
        fault = f"its {key}: {message}"
    else:
        fault = "it is not an object with only the keys of a verdict"
    if where[0] == "verdicts":
        return f"verdict {int(where[1]) + 1}: {fault}"
    return f"the file: {fault}"
