"""Verdicts as the page saves them, read back with all their faults at once."""

from __future__ import annotations

import datetime
import getpass
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from screening.documents.run import RunDocument
from screening.errors import UsageError, VerdictError
from screening.files import read_bounded, read_secret
from screening.ledger import VERDICTS, Ledger, Verdict, record_verdicts, reviewable
from screening.storage.serialization import read_document

FORMAT = 1
MAX_BYTES = 16 << 20
LONGEST_TOKEN = 4096
LONGEST = {"site": 100, "initials": 20, "note": 2000}


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
    reviewer = entered_by(token)
    document = RunDocument.from_dict(read_document(run, "run"))
    known = document.ledger
    if known is None:
        raise UsageError(f"{run} was scored without --ledger, so there is no memory for its verdicts")
    if series is not None and known.series != series:
        raise UsageError(f"{run} is not of series {series} but of {known.series}")
    content = _content(Path(verdicts))
    needed = document.model.stated.verdicts_need
    given = _checked(content, document.run_id, reviewable(ledger, known.key), needed)
    told = record_verdicts(ledger, known.key, given, reviewer)
    return {"run_id": document.run_id, "night": document.date, "verdicts": len(given)} | told


def entered_by(token: Path | None) -> dict[str, str]:
    """The system's user, and the digest of the reviewer's token where there is one."""
    user = {"user": _user()}
    if token is None:
        return user
    secret = read_secret(token, LONGEST_TOKEN).strip()
    return user | {"token": hashlib.sha256(secret).hexdigest()}


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
    for name in ("site", "initials"):
        faults += _text_fault(content.get(name, ""), name, "the file")
    seen: set[str] = set()
    for place, one in enumerate(content["verdicts"], start=1):
        faults += _faults(one, f"verdict {place}", known, seen)
        faults += [
            f"verdict {place}: it has no {name}, which the contract asks for"
            for name in needed
            if isinstance(one, dict) and not str(one.get(name, content.get(name, ""))).strip()
        ]
    if faults:
        raise VerdictError(faults)
    shared = {name: content.get(name, "") for name in ("site", "initials")}
    return [
        Verdict(
            one["id"],
            one["verdict"],
            **shared | {name: one[name] for name in LONGEST if name in one},
            given=_time(one["given"]) if "given" in one else None,
        )
        for one in content["verdicts"]
    ]


def _faults(one: object, place: str, known: dict[str, bool], seen: set[str]) -> list[str]:
    if not isinstance(one, dict):
        return [f"{place}: it is no object with id and verdict"]
    faults = []
    name, word = one.get("id"), one.get("verdict")
    if not isinstance(name, str) or name not in known:
        faults.append(f"{place}: its id is none of this run's flagged or sampled")
    elif name in seen:
        faults.append(f"{place}: its id occurs twice")
    else:
        seen.add(name)
    if word not in VERDICTS:
        faults.append(f"{place}: its verdict is none of {', '.join(VERDICTS)}")
    for key in LONGEST:
        faults += _text_fault(one.get(key, ""), key, place)
    if "given" in one and _time(one["given"]) is None:
        faults.append(f"{place}: the time it was given is no time with its zone, or still to come")
    strangers = sorted(set(map(str, one)) - {"id", "verdict", "given", *LONGEST})
    if strangers:
        faults.append(f"{place}: it has keys that a verdict has not")
    return faults


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


def _text_fault(value: object, name: str, place: str) -> list[str]:
    if not isinstance(value, str):
        return [f"{place}: its {name} is no text"]
    if len(value) > LONGEST[name]:
        return [f"{place}: its {name} is longer than {LONGEST[name]} characters"]
    # No ledger can hold them, and nobody types them.
    broken = "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)
    return [f"{place}: its {name} holds a null or half a character"] if broken else []
