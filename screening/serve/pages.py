"""Published pages, as the letterbox shows them."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from screening.report.drawing import ENVIRONMENT, text_of

MAX_BYTES = 64 << 20
_POLICY = re.compile(
    r'(<meta http-equiv="Content-Security-Policy" content=")([^"]*)(">)'
)
# The policy stands in the head, before any text of a table.
_HEAD_BYTES = 4096
_RUN = re.compile(rb'data-run="([0-9A-Za-z_-]{1,64})"')
_ACTIONS = re.compile(rb'data-actions="([^"]*)"')
_NIGHT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.html")
# A line of the worklist or of the sample, as templates/review.js reads it.
_LINE = re.compile(rb'<li class=(?:c|"c"|"c quiet")(?=[\s>])')
_ID = re.compile(
    rb'[^<>]*\sdata-id="([^"]*)"|.*?<span class=id[^<>]*><bdi>(.*?)</bdi>', re.DOTALL
)
_TAG = re.compile(rb"<[^<>]*>")


@contextmanager
def _below(folder: Path, *names: str) -> Iterator[int]:
    """Open what lies below a folder; OSError if a link leads there.

    Each name is looked up in the open folder above it, so that no link can take its
    place in between.
    """
    with ExitStack() as opened:
        handle = os.open(folder, os.O_RDONLY)
        opened.callback(os.close, handle)
        for name in names:
            # Nobody may write to a pipe for ever.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            handle = os.open(name, flags, dir_fd=handle)
            opened.callback(os.close, handle)
        yield handle


def read_below(folder: Path, *names: str, most: int = MAX_BYTES) -> bytes | None:
    """Return the content of a file below a folder; None if there is no such file.

    Neither a link, nor what is no file, nor a file above `most` bytes is read, and no
    folder below the first may be a link.
    """
    with suppress(OSError), _below(folder, *names) as handle:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and status.st_size <= most:
            with open(handle, "rb", closefd=False) as file:
                return file.read()
    return None


class Shelf:
    """The folder of published pages of a site."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.script = text_of(ENVIRONMENT, "serve.js")
        digest = base64.b64encode(sha256(self.script.encode()).digest()).decode()
        self.source = f"'sha256-{digest}'"

    def latest(self, series: str) -> str | None:
        """Return the last night of a series that has a page."""
        with suppress(OSError), _below(self.folder, series) as handle:
            found = map(_NIGHT.fullmatch, os.listdir(handle))
            return max((night[1] for night in found if night), default=None)
        return None

    def overview(self, name: str) -> bytes | None:
        """Return the page over all series of a night, or the latest one."""
        return read_below(self.folder, f"{name}.html")

    def reviewed(self, series: str, night: str) -> tuple[str, bytes] | None:
        """Return the run whose verdicts a page takes, and the page.

        None if there is no such page, or no verdict is asked for on it.
        """
        content = read_below(self.folder, series, f"{night}.html") or b""
        found = _RUN.search(content)
        return None if found is None else (found[1].decode(), content)

    def page(self, series: str, night: str, reader: str) -> bytes | None:
        """Return the page of a night, whose *Save* sends; None if there is none.

        A page on which nothing can be judged, or whose templates have another policy,
        is sent as it is.
        """
        content = read_below(self.folder, series, f"{night}.html")
        policy = policy_of(content or b"")
        if content is None or "script-src " not in policy or not _RUN.search(content):
            return content
        policy = policy.replace("script-src ", f"script-src {self.source} ")
        policy = html.escape(f"{policy}; connect-src 'self'")
        head = content[:_HEAD_BYTES].decode(errors="surrogateescape")
        # What a reader has not saved is kept for these lines in this order alone.
        key = sha256(f"{series} {reader} ".encode() + content).hexdigest()
        tag = f'<script data-reader="{html.escape(reader)}" data-key="{key}">'
        script = f"{tag}{self.script}</script>"
        head = _POLICY.sub(lambda meta: meta[1] + policy + meta[3] + script, head, 1)
        return head.encode(errors="surrogateescape") + content[_HEAD_BYTES:]


def policy_of(content: bytes) -> str:
    """Return the policy of a page, which forbids everything if it states none."""
    found = _POLICY.search(content[:_HEAD_BYTES].decode(errors="replace"))
    return html.unescape(found[2]) if found else "default-src 'none'"


def ids_of(content: bytes) -> set[str]:
    """Return whose lines a page has, as templates/line.html.j2 writes them."""
    ids = set()
    for line in _LINE.split(content)[1:]:
        found = _ID.match(line)
        if found is not None:
            text = found[1] if found[2] is None else _TAG.sub(b"", found[2])
            ids.add(html.unescape(text.decode(errors="replace")))
    return ids


def actions_of(content: bytes) -> set[str]:
    """Return what a page lets a reviewer say that was done; always also nothing."""
    found = _ACTIONS.search(content)
    return {"", *(json.loads(html.unescape(found[1].decode())) if found else ())}
