"""The file of verdicts that a page saves: its keys, their limits, its reading."""

from __future__ import annotations

import datetime
import json
import unicodedata
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
)
from pydantic.dataclasses import dataclass

from screening.clock.zone import host_clock
from screening.errors import UsageError, VerdictError
from screening.files import read_bounded
from screening.schemas.run import Word

# Folders of an inbox, into which a file goes that was read or cannot be.
DONE = "done"
REFUSED = "refused"
MAX_BYTES = 16 << 20
_FIRST_YEAR = 2000


def _in_utc(text: str, info: ValidationInfo) -> str:
    """Return a time in UTC, so that texts sort as times do.

    A time without a zone is one of the `clock` of the context, else of this host's.
    """
    time = datetime.datetime.fromisoformat(text)
    # No page of this program is so old, and the first hours of year 1 have no UTC.
    if time.year < _FIRST_YEAR:
        raise ValueError(f"it is before the year {_FIRST_YEAR}")
    # A clock may be a little fast.
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    # The last hours of year 9999 have no UTC either.
    if time.year > soon.year:
        raise ValueError("it is in the future")
    if time.tzinfo is None:
        clock = (info.context or {}).get("clock") or host_clock()
        instant = clock.instant(time)
        if instant is None:
            raise ValueError(
                "it does not exist, because summer time begins in this hour; write "
                "its zone"
            )
        time = instant
    if time > soon:
        raise ValueError("it is in the future")
    return time.astimezone(datetime.UTC).isoformat(timespec="milliseconds")


# A ledger cannot store a null character, and nobody types one.
NO_NULL = r"^[^\x00]*$"
Site = Annotated[str, Field(max_length=100, pattern=NO_NULL)]
# Of a login, a name such as an address for mail.
Initials = Annotated[str, Field(max_length=100, pattern=NO_NULL)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", validate_by_name=True))
class Verdict:
    """One reviewer's verdict on one case, as an element of a file has it.

    Parameters
    ----------
    case_id : str
        Id of the row, or of the group if rows come in groups.
    verdict : str
    site, initials : str
        The reviewer.
    note : str
    action : str
        What was done, as `actions` of the contract names it; empty if not stated.
    given : str, optional
        When, as ISO 8601 in UTC; None if that was not noted. A time without a zone is
        read in that of the night.
    """

    case_id: Annotated[str, Field(alias="id")]
    verdict: Word
    site: Site = ""
    initials: Initials = ""
    note: Annotated[str, Field(max_length=2000, pattern=NO_NULL)] = ""
    action: Annotated[str, Field(max_length=200, pattern=NO_NULL)] = ""
    given: Annotated[str, AfterValidator(_in_utc)] | None = None


@dataclass(frozen=True, config=ConfigDict(extra="ignore"))
class VerdictFile:
    """The file that a page saves: verdicts, and the reviewer of those without one."""

    format: Literal[1]
    verdicts: list[Verdict]
    site: Site = ""
    initials: Initials = ""


READER = TypeAdapter(VerdictFile)


def read_verdict_file(path: Path) -> dict[str, Any]:
    """Read a file of verdicts; VerdictError if it is not one."""
    return parse_verdict_file(read_bounded(path, MAX_BYTES, UsageError), path.name)


def parse_verdict_file(text: bytes, name: str) -> dict[str, Any]:
    """Parse the content of a file of verdicts, as `read_verdict_file` does."""
    try:
        content = parse_json(text)
    except (ValueError, RecursionError):
        raise VerdictError(
            f"{name} is not JSON; save the verdicts from the page again"
        ) from None
    verdicts = content.get("verdicts") if isinstance(content, dict) else None
    if not isinstance(verdicts, list):
        raise VerdictError("this is not a file of verdicts: it has no list `verdicts`")
    return content


def parse_json(text: bytes) -> Any:
    """Parse JSON in which no key occurs twice in one object.

    ValueError or RecursionError if it is not JSON, VerdictError for such a key.
    """
    return json.loads(text, object_pairs_hook=_each_once)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a file; VerdictError if a key occurs twice in it.

    Otherwise only the last of the two would count.
    """
    content = dict(pairs)
    if len(content) < len(pairs):
        raise VerdictError(
            "a key occurs twice in one object of the file; save the verdicts from "
            "the page again"
        )
    return content


def as_compared(name: str) -> str:
    """Return a name without case, dots, and blanks at its ends.

    One person who writes "A.B." today and "ab" tomorrow is one reviewer.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return folded.replace(".", "").strip()
