"""Published pages, as the letterbox shows them."""

from __future__ import annotations

import base64
import html
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from screening.report.drawing import ENVIRONMENT, text_of
from screening.site.site import Network

MAX_BYTES = 64 << 20
_POLICY = re.compile(
    r'(<meta http-equiv="Content-Security-Policy" content=")([^"]*)(">)'
)
# The policy stands in the head, before any text of a table.
_HEAD_BYTES = 4096
_RUN = re.compile(rb'data-run="([0-9A-Za-z_-]{1,64})"')
_NIGHT = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Page:
    """A page as it is sent.

    Parameters
    ----------
    content : bytes
    policy : str
        Its content security policy, for the header.
    """

    content: bytes
    policy: str


@contextmanager
def _opened(folder: Path, *names: str, flags: int = 0) -> Iterator[int]:
    """Open a path below a folder; OSError if a part of it is a link."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for i, name in enumerate(names):
            kind = os.O_DIRECTORY if i < len(names) - 1 else flags
            how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | kind
            inner = os.open(name, how, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def read_below(folder: Path, *names: str, most: int = MAX_BYTES) -> bytes | None:
    """Return the content of a file below a folder; None if there is no such file.

    Neither a link, nor what is no file, nor a file above `most` bytes is read.
    """
    with suppress(OSError), _opened(folder, *names) as handle:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and status.st_size <= most:
            with open(handle, "rb", closefd=False) as file:
                return file.read()
    return None


class Shelf:
    """The folder of published pages of a site."""

    def __init__(self, network: Network):
        assert network.site.publish is not None
        self.folder = network.site.publish
        self.script = text_of(ENVIRONMENT, "serve.js")
        digest = base64.b64encode(sha256(self.script.encode()).digest()).decode()
        self.source = f"'sha256-{digest}'"

    def latest(self, series: str) -> str | None:
        """Return the last night of a series that has a page."""
        with (
            suppress(OSError),
            _opened(self.folder, series, flags=os.O_DIRECTORY) as at,
        ):
            names = [Path(name) for name in os.listdir(at)]
            pages = [path.stem for path in names if path.suffix == ".html"]
            return max(filter(_NIGHT.fullmatch, pages), default=None)
        return None

    def run_of(self, series: str, night: str) -> str | None:
        """Return the run whose verdicts the page of a night takes; None without one."""
        found = _RUN.search(read_below(self.folder, series, f"{night}.html") or b"")
        return found[1].decode() if found else None

    def overview(self, name: str) -> Page | None:
        """Return the page over all series of a night, or the latest one."""
        content = read_below(self.folder, f"{name}.html")
        return None if content is None else Page(content, policy_of(content))

    def page(self, series: str, night: str, reader: str) -> Page | None:
        """Return the page of a night, whose *Save* sends; None if there is none.

        A page on which nothing can be judged, or whose templates have another policy,
        is sent as it is.
        """
        content = read_below(self.folder, series, f"{night}.html")
        if content is None:
            return None
        policy = policy_of(content)
        if "script-src " not in policy or not _RUN.search(content):
            return Page(content, policy)
        policy = policy.replace("script-src ", f"script-src {self.source} ")
        policy = f"{policy}; connect-src 'self'"
        head = content[:_HEAD_BYTES].decode(errors="surrogateescape")
        tag = f'<script data-reader="{html.escape(reader)}">{self.script}</script>'
        written = html.escape(policy)
        head = _POLICY.sub(lambda meta: meta[1] + written + meta[3] + tag, head, 1)
        sent = head.encode(errors="surrogateescape") + content[_HEAD_BYTES:]
        return Page(sent, policy)


def policy_of(content: bytes) -> str:
    """Return the policy of a page, which forbids everything if it states none."""
    found = _POLICY.search(content[:_HEAD_BYTES].decode(errors="replace"))
    return html.unescape(found[2]) if found else "default-src 'none'"
