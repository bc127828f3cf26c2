"""Published pages, as the letterbox shows them."""

from __future__ import annotations

import base64
import html
import json
import os
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from screening.files import opened_below, read_below
from screening.report.drawing import ENVIRONMENT, text_of

MAX_BYTES = 64 << 20
_META = '<meta http-equiv="Content-Security-Policy" content="'
# It is in the head, before any text of a table, in which quotes are escaped.
_POLICY = re.compile(f'{_META}([^"]*)">'.encode())
_RUN = re.compile(rb'data-run="([0-9A-Za-z_-]{1,64})"')
_ACTIONS = re.compile(rb'data-actions="([^"]*)"')
_NIGHT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.html")
# A line of the worklist or of the sample, as templates/review.js reads it.
_LINE = re.compile(rb'<li class=(?:c|"c"|"c quiet")(?=[\s>])')
_ID = re.compile(
    rb'[^<>]*\sdata-id="([^"]*)"|.*?<span class=id[^<>]*><bdi>(.*?)</bdi>', re.DOTALL
)
_TAG = re.compile(rb"<[^<>]*>")


class Shelf:
    """The folder of published pages of a site."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.script = text_of(ENVIRONMENT, "serve.js")
        digest = base64.b64encode(sha256(self.script.encode()).digest()).decode()
        self.source = f"'sha256-{digest}'"

    def latest(self, series: str) -> str | None:
        """Return the last night of a series that has a page."""
        with suppress(OSError), opened_below(self.folder, series) as handle:
            found = map(_NIGHT.fullmatch, os.listdir(handle))
            return max((night[1] for night in found if night), default=None)
        return None

    def published(self, *names: str) -> bytes | None:
        """Return a page as it was published; None if it does not exist."""
        return read_below(self.folder, *names, most=MAX_BYTES)

    def page(self, series: str, night: str, reader: str) -> bytes | None:
        """Return the page of a night with a *Save* that sends; None without a page.

        A page without review, or with a policy of its own templates, is sent unchanged.
        """
        content = self.published(series, f"{night}.html")
        policy = policy_of(content or b"")
        if content is None or "script-src " not in policy or run_of(content) is None:
            return content
        policy = policy.replace("script-src ", f"script-src {self.source} ")
        policy = html.escape(f"{policy}; connect-src 'self'")
        # What a reader has not saved is kept for these lines in this order alone.
        key = sha256(f"{series} {reader} ".encode() + content).hexdigest()
        tag = f'<script data-reader="{html.escape(reader)}" data-key="{key}">'
        meta = f'{_META}{policy}">{tag}{self.script}</script>'.encode()
        return _POLICY.sub(lambda _: meta, content, count=1)


def policy_of(content: bytes) -> str:
    """Return the policy of a page, which forbids everything if it states none."""
    found = _POLICY.search(content)
    return html.unescape(found[1].decode()) if found else "default-src 'none'"


def run_of(content: bytes) -> str | None:
    """Return the run of a page's verdicts; None if the page asks for none."""
    found = _RUN.search(content)
    return found[1].decode() if found else None


def ids_of(content: bytes) -> set[str]:
    """Return the ids of a page's lines, as templates/line.html.j2 writes them."""
    ids = set()
    for line in _LINE.split(content)[1:]:
        if found := _ID.match(line):
            text = found[1] if found[2] is None else _TAG.sub(b"", found[2])
            ids.add(html.unescape(text.decode(errors="replace")))
    return ids


def actions_of(content: bytes) -> set[str]:
    """Return what a page lets a reviewer say that was done; always also nothing."""
    found = _ACTIONS.search(content)
    return {"", *(json.loads(html.unescape(found[1].decode())) if found else ())}
