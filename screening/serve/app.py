"""The service: one request in, one line of audit, one response without a traceback."""

from __future__ import annotations

import datetime
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from screening.errors import ScreenError, UsageError
from screening.report.drawing import draw
from screening.serve.access import Access, Reader, Refused, header
from screening.serve.pages import Shelf, actions_of, ids_of, policy_of, run_of
from screening.serve.words import Inbox, Saying, saying_of
from screening.site.site import Network, read_network

# Series, night and kind of an address; all others are refused. Words (json) are those
# on the page of one series on one night.
_ADDRESS = re.compile(
    r"/(?:(?:(?P<series>[^/]{1,40})/)?"
    r"(?P<night>latest(?=\.html)|20[0-9]{2}-[01][0-9]-[0-3][0-9])"
    r"\.(?P<kind>html|(?(series)json|html)))?"
)
# Name of a request, by whether its address has a series, its kind and its method.
_WHAT = {
    (False, None): {"GET": "start"},
    (False, "html"): {"GET": "overview"},
    (True, "html"): {"GET": "page"},
    (True, "json"): {"GET": "words", "POST": "save"},
}
MAX_BODY = 1 << 19
# Requests of one reader, or of one address without a reader, in a minute.
MAX_REQUESTS = 600
MAX_SAVES = 60
SECURITY_HEADERS = {
    "cache-control": "no-store",
    # Each connection has one request, so that none can be hidden behind another.
    "connection": "close",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    # Browsers heed it over TLS alone.
    "strict-transport-security": "max-age=31536000",
    "x-content-type-options": "nosniff",
}
ASK_KEY = 'Basic realm="screening", charset="UTF-8"'
# Messages of pages about refused requests; other details are only in the audit.
WORDS = {
    404: "this page does not exist, or is not for you",
    409: "the page was replaced, or this verdict has already been read; open it again",
    429: "too many requests; try again in a minute",
    503: "the service cannot do this now; try again in a minute",
}

Audit = Callable[[dict[str, str | int]], None]


@dataclass
class Asked:
    """What a request is, as far as it is known: the line of its audit.

    `ward` and `night` are those of the site, never a text of the request.
    """

    address: str
    what: str = "other"
    reader: str = ""
    ward: str = ""
    night: str = ""
    reason: str = ""


class Service:
    """What readers may ask for.

    Parameters
    ----------
    network : Network
    over_unix : bool
        The service is reached by a Unix socket.
    audit : callable
        Receives the line of each request.

    Raises
    ------
    UsageError
        If the site makes no safe service.
    """

    def __init__(self, network: Network, over_unix: bool, audit: Audit):
        self.over_unix = over_unix
        self.audit = audit
        self.counts: Counter[object] = Counter()
        # The first request reads the file again: it may have changed meanwhile.
        self.changed_at = 0
        self._use(network)

    def _use(self, network: Network) -> None:
        """Serve what a file of the site says."""
        publish, verdicts = network.site.publish, network.site.verdicts
        if publish is None or verdicts is None:
            raise UsageError("screen serve needs `publish` and `verdicts` under [site]")
        access = Access(network, self.over_unix)
        self.inbox = Inbox(verdicts, network.site.title)
        # Nothing can fail any more: all that a file says is used, or nothing of it.
        self.network, self.access, self.shelf = network, access, Shelf(publish)

    def _follow_file(self) -> None:
        """Read the site's file, with its access rights, again if it has changed."""
        changed_at = self.network.file.stat().st_mtime_ns
        if changed_at != self.changed_at:
            self._use(read_network(self.network.file, needs_ledger=False))
            self.changed_at = changed_at

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with its headers and its audit: the interface ASGI."""
        request = Request(scope, receive)
        asked = Asked(request.client.host if request.client else "")
        try:
            response = await self._answer(request, asked)
        except Refused as error:
            asked.reason = error.detail
            response = _refusal(error.status_code)
        except (ScreenError, OSError, ClientDisconnect) as error:
            asked.reason = str(error) or "the reader disconnected"
            response = _refusal(503)
        except Exception as error:
            # Not its message, which might contain a patient's value.
            place = traceback.format_tb(error.__traceback__)[-1].strip()
            asked.reason = f"{type(error).__name__}: {place}"
            response = _refusal(500)
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        self.note(asked, response.status_code)
        await response(scope, receive, send)

    def note(self, asked: Asked, status: int) -> None:
        """Write the audit of a request."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        self.audit({"time": now, **asdict(asked), "result": status})

    def _count(self, most: int, key: str) -> None:
        """Count a request of this minute under a key; Refused if there are too many."""
        minute = int(time.monotonic()) // 60
        if not self.counts[minute]:
            self.counts = Counter({minute: 1})
        self.counts[key] += 1
        if self.counts[key] > most:
            raise Refused(429, "rate")

    async def _answer(self, request: Request, asked: Asked) -> Response:
        """Return what a request asks for; Refused without the right to it."""
        try:
            reader = self._reader(request, asked)
        finally:
            # Read even if it is refused: a web server in front that is still sending
            # would miss why.
            body = await _body_of(request)
        place = _ADDRESS.fullmatch(request.scope["path"])
        if place is None or request.scope["query_string"]:
            raise Refused(404, "no such address")
        series, night, kind = place.group("series", "night", "kind")
        methods = _WHAT[series is not None, kind]
        asked.what = methods.get(request.method, "other")
        if series is not None:
            asked.ward = series if series in self.network.series else ""
            if series not in reader.series:
                raise Refused(404, "ward of others" if asked.ward else "no such ward")
        asked.night = night or ""
        if request.method not in methods:
            raise Refused(405, "method")
        if asked.what == "save":
            self._count(MAX_SAVES, f"save {reader.name}")
        if asked.what in ("words", "save"):
            return await run_in_threadpool(self._exchange, request, asked, body)
        return await run_in_threadpool(self._shown, reader, asked)

    def _reader(self, request: Request, asked: Asked) -> Reader:
        """Identify the reader of a request; Refused if unknown, or too often."""
        self._follow_file()
        try:
            reader = self.access.reader_of(request, asked.address)
        except Refused:
            self._count(MAX_REQUESTS, f"address {asked.address}")
            raise
        asked.reader = reader.name
        self._count(MAX_REQUESTS, f"reader {reader.name}")
        if not reader.series:
            raise Refused(403, "reader without a ward")
        return reader

    def _shown(self, reader: Reader, asked: Asked) -> Response:
        """Return a page, or the way to the latest one."""
        if asked.what == "start":
            return self._start(reader)
        if asked.what == "overview":
            if len(reader.series) < len(self.network.series):
                raise Refused(404, "overview of others")
            return _sent(self.shelf.published(f"{asked.night}.html"))
        if asked.night != "latest":
            return _sent(self.shelf.page(asked.ward, asked.night, reader.name))
        night = self.shelf.latest(asked.ward)
        if night is None:
            raise Refused(404, "no page")
        return RedirectResponse(f"{night}.html", 303)

    def _start(self, reader: Reader) -> Response:
        """Return the page that names the wards of a reader."""
        wards = [(name, self.shelf.latest(name)) for name in sorted(reader.series)]
        blocks = {
            "banner": {"title": self.network.site.title, "kind": "Pages", "date": ""},
            "wards": [(name, night) for name, night in wards if night],
            "sees_all": len(reader.series) == len(self.network.series),
            "reader": reader.name,
        }
        return _sent(draw("serve.html.j2", blocks, footer="published pages").encode())

    def _exchange(self, request: Request, asked: Asked, body: bytes) -> Response:
        """Return the words on a page, after those that are sent are written."""
        # Neither a form nor the script of another site can send this header.
        if header(request, "x-letterbox") != "1":
            raise Refused(403, "the page script's header is missing")
        place = asked.ward, asked.night
        content = self.shelf.published(asked.ward, f"{asked.night}.html") or b""
        run = run_of(content)
        if run is None:
            raise Refused(404, "no page")
        if asked.what == "save":
            saying = _saying_in(request, body)
            if saying.run_id != run:
                raise Refused(409, "page replaced")
            ids, actions = ids_of(content), actions_of(content)
            if not all(one.id in ids and one.action in actions for one in saying.words):
                raise Refused(400, "a line or an action that the page does not have")
            asked.reason = self.inbox.save(*place, asked.reader, saying)
        words = self.inbox.words(*place, run)
        return JSONResponse({"done": asked.reason, "words": words})


async def _body_of(request: Request) -> bytes:
    """Read the body of a request; only its beginning if it is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part if len(body) <= MAX_BODY else b""
    return bytes(body)


def _saying_in(request: Request, body: bytes) -> Saying:
    """Return the words of a request; Refused if the page's script cannot send them."""
    if header(request, "sec-fetch-site") != "same-origin":
        raise Refused(403, "sent by another site")
    if header(request, "content-type") != "application/json":
        raise Refused(400, "content type")
    if len(body) > MAX_BODY:
        raise Refused(413, "body")
    return saying_of(body)


def _refusal(status: int) -> Response:
    """Return the response to a refused request."""
    headers = {"www-authenticate": ASK_KEY} if status == 401 else None
    error = WORDS.get(status, "this was refused")
    return JSONResponse({"error": error}, status, headers)


def _sent(page: bytes | None) -> Response:
    """Return a page as a response, with its policy; Refused if it does not exist."""
    if page is None:
        raise Refused(404, "no page")
    headers = {"content-security-policy": f"{policy_of(page)}; frame-ancestors 'none'"}
    return Response(page, headers=headers, media_type="text/html")
