"""Words: verdicts of readers, each reader's in a file of the site's inbox."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from screening.errors import Locked, UsageError, VerdictError
from screening.files import read_below, sole_use
from screening.ledger.verdict_file import (
    DONE,
    MAX_BYTES,
    NO_NULL,
    READER,
    REFUSED,
    parse_json,
    parse_verdict_file,
)
from screening.schemas.run import Word
from screening.serve.access import Refused
from screening.store.publishing import write_whole

# Words of one request.
MAX_WORDS = 5000
# Seconds to wait for a night that is reading the inbox.
PATIENCE = 5.0
# Where a file of words lies, and what the page says of it; later ones come before.
_STATES = {DONE: "read overnight", REFUSED: "refused overnight", ".": "saved"}


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Said:
    """One word of a request; without a verdict an earlier word is withdrawn."""

    id: Annotated[str, Field(min_length=1, pattern=NO_NULL)]
    verdict: Word | Literal[""]
    note: Annotated[str, Field(max_length=2000, pattern=NO_NULL)] = ""
    action: Annotated[str, Field(max_length=200, pattern=NO_NULL)] = ""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Saying:
    """The words of a request, and the run of the page on which they were given."""

    run_id: Annotated[str, Field(max_length=64)]
    words: Annotated[list[Said], Field(min_length=1, max_length=MAX_WORDS)]


_SAYING = TypeAdapter(Saying)
_Word = dict[str, str]


def saying_of(body: bytes) -> Saying:
    """Return the words of a request; Refused if it is anything else."""
    try:
        saying = _SAYING.validate_python(parse_json(body))
    except (ValueError, RecursionError, VerdictError):
        raise Refused(400, "no words") from None
    if len({said.id for said in saying.words}) < len(saying.words):
        raise Refused(400, "a patient twice")
    return saying


class Inbox:
    """The inbox of a site, into which readers' words are written.

    Parameters
    ----------
    folder : Path
    site : str
        Its name in the files.

    Raises
    ------
    UsageError
        If the folder is missing, cannot be written, or cannot be locked.
    """

    def __init__(self, folder: Path, site: str):
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise UsageError(
                f"serve: cannot write to {folder}, the folder `verdicts` of [site]; "
                "create it, and let the account of this service write to it"
            )
        # A file system without locks is noticed now; do not wait for a lock.
        with suppress(Locked), sole_use(folder, 0):
            pass
        self.folder = folder
        self.site = site[:100]

    def words(self, series: str, night: str, run_id: str) -> list[_Word]:
        """Return the last word of every reader on every patient of a page.

        Returns
        -------
        list of dict
            With `id`, `verdict`, `note`, `action`, `by`, `given` and `state`.
        """
        last: dict[tuple[str, str], _Word] = {}
        for place, state in _STATES.items():
            for word in self._words_of(place, f"verdicts-{series}-{night}-", run_id):
                key = word["by"], word["id"]
                if key not in last or last[key]["given"] <= word["given"]:
                    last[key] = word | {"state": state}
        return sorted(last.values(), key=lambda word: (word["id"], word["given"]))

    def save(self, series: str, night: str, reader: str, saying: Saying) -> str:
        """Write the words of a reader; return in words what was done.

        They are one file, which is replaced in one step: it has all words of the
        request, or none.

        Raises
        ------
        Refused
            If a word that is to be withdrawn has been read, or the file cannot be
            replaced, or would be too large to be read.
        Locked
            While a night is reading the inbox.
        """
        digest = sha256(json.dumps([saying.run_id, reader]).encode()).hexdigest()[:12]
        path = self.folder / f"verdicts-{series}-{night}-{digest}.json"
        with sole_use(self.folder, PATIENCE):
            earlier = self._words_of(".", path.name, saying.run_id)
            kept = {word["id"]: word for word in earlier}
            if not kept and os.path.lexists(path):
                raise Refused(409, "damaged file")
            read = list(self._words_of(DONE, path.stem, saying.run_id))
            n_withdrawn = _merge(kept, saying, read)
            self._write(path, list(kept.values()), saying.run_id, reader)
        n_saved = sum(said.verdict != "" for said in saying.words)
        return f"{n_saved} saved, {n_withdrawn} withdrawn"

    def _write(self, path: Path, words: list[_Word], run_id: str, reader: str) -> None:
        """Replace a file of words as the page would save it, or remove it if empty."""
        if not words:
            path.unlink(missing_ok=True)
            return
        keys = ("id", "verdict", "given", "note", "action")
        verdicts = [{key: word[key] for key in keys if word[key]} for word in words]
        content = {"format": 1, "run_id": run_id, "site": self.site}
        content |= {"initials": reader, "verdicts": verdicts}
        text = (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
        if len(text) > MAX_BYTES:
            raise Refused(413, "file of words")
        # Readable by the inbox's group, such as the account of the night.
        folder = self.folder.stat()
        mode = 0o600 | folder.st_mode & stat.S_IRGRP
        write_whole(path, text, mode, folder.st_gid)

    def _names(self, place: str, prefix: str) -> list[str]:
        """Return the files of words with this prefix, sorted."""
        with suppress(OSError):
            now, changed = time.time_ns(), (self.folder / place).stat().st_mtime_ns
            # A folder changed in the last second may change once more in this tick.
            moment = changed if now - changed > 1e9 else now
            names = _listed(self.folder / place, moment)
            return sorted(name for name in names if name.startswith(prefix))
        return []

    def _words_of(self, place: str, prefix: str, run_id: str) -> Iterator[_Word]:
        """Yield the words on a run in the files with this prefix."""
        for name in self._names(place, prefix):
            text = read_below(self.folder, place, name, most=MAX_BYTES)
            yield from _words_in(text, run_id)


@lru_cache(maxsize=4)
def _listed(folder: Path, moment: int) -> list[str]:
    """Return what is in a folder since a moment; years of nights are listed once."""
    return os.listdir(folder)


def _merge(kept: dict[str, _Word], saying: Saying, read: list[_Word]) -> int:
    """Put the words of a request among those of a file; return how many left it.

    `read`: the words of the same reader that the night has read.
    """
    given = _later_than([*kept.values(), *read])
    read_ids = {word["id"] for word in read}
    n_withdrawn = 0
    for said in saying.words:
        word = asdict(said)
        if said.verdict == "":
            if said.id in read_ids - kept.keys():
                raise Refused(409, "read overnight")
            n_withdrawn += kept.pop(said.id, None) is not None
        # A request that is sent again changes nothing.
        elif not word.items() <= kept.get(said.id, {}).items():
            kept[said.id] = word | {"given": given}
    return n_withdrawn


def _later_than(words: list[_Word]) -> str:
    """Return the time; if the clock was set back, one that is later than all words.

    The ledger takes the word that was given last.
    """
    given = [datetime.fromisoformat(word["given"]) for word in words if word["given"]]
    later = [time + timedelta(milliseconds=1) for time in given]
    return max([datetime.now(UTC), *later]).isoformat(timespec="milliseconds")


def _words_in(text: bytes | None, run_id: str) -> list[_Word]:
    """Return the words of a file on a run; none if it is damaged or of another."""
    if text is None:
        return []
    try:
        content = parse_verdict_file(text, "it")
        file = READER.validate_python(content)
    except (VerdictError, ValidationError):
        return []
    if content.get("run_id") != run_id:
        return []
    return [
        {
            key: getattr(verdict, key) or ""
            for key in ("verdict", "note", "action", "given")
        }
        | {"id": verdict.case_id, "by": verdict.initials or file.initials}
        for verdict in file.verdicts
    ]
