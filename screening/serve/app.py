"""The service: one request in, one line of audit, one response without a traceback."""

from __future__ import annotations

import datetime
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from screening.errors import Locked
from screening.report.drawing import draw
from screening.serve.access import Access, Headers, Reader, Refused
from screening.serve.pages import Page, Shelf, policy_of
from screening.serve.words import Inbox, Saying, saying_of
from screening.site.site import Network

LATEST = "latest"
# Series and night of an address; all others are refused.
_ADDRESS = re.compile(
    r"/(?:(?P<series>[^/]{1,40})/)?"
    r"(?:(?P<night>latest|\d{4}-\d{2}-\d{2})\.(?P<kind>html|json))?"
)
MAX_BODY = 1 << 20
# Requests of one reader, or of one address without a reader, in a minute.
MAX_REQUESTS = 600
MAX_SAVES = 60
MINUTE = 60
SECURITY_HEADERS = {
    "cache-control": "no-store",
    # Each connection has one request, so that none can be hidden behind another.
    "connection": "close",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex",
}
NOTHING = "default-src 'none'; frame-ancestors 'none'"
STRICT_TRANSPORT = "max-age=31536000"
# What a page says of a request that was refused; anything else is in the audit alone.
WORDS = {
    404: "there is no such page, or it is not for you",
    409: "the page was replaced, or the night has read this word; open it again",
    429: "too many requests; wait a minute",
    503: "the night is reading verdicts; wait a minute",
}

Audit = Callable[[dict[str, str | int]], None]


@dataclass
class _Asked:
    """What a request is, as far as it is known: the line of its audit.

    `ward` and `night` are those of the site, never a text of the request.
    """

    address: str
    what: str = "other"
    reader: str = ""
    ward: str = ""
    night: str = ""
    reason: str = ""


@dataclass
class _Rates:
    """Counts of this minute."""

    counts: Counter[str] = field(default_factory=Counter)
    minute: int = 0

    def refuse_above(self, most: int, key: str) -> None:
        """Count a request under a key; Refused if there were too many."""
        minute = int(time.monotonic()) // MINUTE
        if minute != self.minute:
            self.minute = minute
            self.counts.clear()
        self.counts[key] += 1
        if self.counts[key] > most:
            raise Refused(429, "rate")


class Service:
    """What readers may ask for.

    Parameters
    ----------
    network : Network
    over_unix, over_tls : bool
        How the service is reached.
    audit : callable
        Receives the line of each request.
    """

    def __init__(self, network: Network, over_unix: bool, over_tls: bool, audit: Audit):
        self.network = network
        self.access = Access(network, over_unix)
        self.shelf = Shelf(network)
        self.inbox = Inbox(network)
        self.audit = audit
        self.rates = _Rates()
        self.headers = dict(SECURITY_HEADERS)
        if over_tls:
            self.headers["strict-transport-security"] = STRICT_TRANSPORT

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request: the interface ASGI."""
        request = Request(scope, receive)
        response = await self._respond(request)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        """Return the response to a request, with its headers; write its audit."""
        asked = _Asked(request.client.host if request.client else "")
        try:
            response = await self._answer(request, asked)
        except Refused as error:
            asked.reason = error.reason
            asked.reader = asked.reader or error.reader
            response = self._refusal(error.status)
        except (Locked, ClientDisconnect) as error:
            asked.reason = type(error).__name__
            response = self._refusal(503)
        except Exception as error:
            asked.reason = _place_of(error)
            response = self._refusal(500)
        for name, value in self.headers.items():
            response.headers.setdefault(name, value)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        self.audit({"time": now, **asdict(asked), "result": response.status_code})
        return response

    async def _answer(self, request: Request, asked: _Asked) -> Response:
        """Return what a request asks for; Refused without the right to it."""
        headers = _headers_of(request)
        try:
            reader = self.access.reader_of(headers, asked.address)
        except Refused:
            self.rates.refuse_above(MAX_REQUESTS, f"address {asked.address}")
            raise
        asked.reader = reader.name
        self.rates.refuse_above(MAX_REQUESTS, f"reader {reader.name}")
        place = _ADDRESS.fullmatch(request.scope["path"])
        if place is None or request.scope["query_string"]:
            raise Refused(404, "no such address")
        series, night, kind = place.group("series", "night", "kind")
        is_words = kind == "json" and series is not None
        asked.what = _what(series, kind, request.method)
        if request.method not in (("GET", "POST") if is_words else ("GET", "HEAD")):
            raise Refused(405, "method")
        if series is not None:
            self._set_ward(asked, reader, series)
        asked.night = _night_in(night)
        if not is_words:
            return await run_in_threadpool(self._shown, reader, asked, kind)
        # Neither a form nor the script of another site can send this header.
        if headers.get("x-letterbox") != ["1"]:
            raise Refused(403, "no header of the page's script")
        saying = None
        if request.method == "POST":
            saying = await self._saying(request, headers, reader.name)
        return await run_in_threadpool(self._words, asked, saying)

    def _set_ward(self, asked: _Asked, reader: Reader, series: str) -> None:
        """Note the series of a request; Refused if the reader may not see it."""
        if series in self.network.series:
            asked.ward = series
        if asked.ward not in reader.series:
            raise Refused(404, "ward of others" if asked.ward else "no such ward")

    def _shown(self, reader: Reader, asked: _Asked, kind: str | None) -> Response:
        """Return a page, or the way to the latest one."""
        if not asked.ward and kind is None:
            return self._start(reader)
        if not asked.ward:
            if kind != "html" or not reader.sees_all:
                raise Refused(404, "overview of others")
            return _sent(self.shelf.overview(asked.night or LATEST))
        if asked.night:
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
            "sees_all": reader.sees_all,
            "reader": reader.name,
        }
        content = draw("serve.html.j2", blocks, footer="published pages").encode()
        return _sent(Page(content, policy_of(content)))

    async def _saying(self, request: Request, headers: Headers, reader: str) -> Saying:
        """Return the words that the page's own script has sent."""
        self.rates.refuse_above(MAX_SAVES, f"save {reader}")
        if headers.get("sec-fetch-site") != ["same-origin"]:
            raise Refused(403, "sent by another site")
        if headers.get("content-type") != ["application/json"]:
            raise Refused(400, "content type")
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                raise Refused(413, "body")
        return saying_of(bytes(body))

    def _words(self, asked: _Asked, saying: Saying | None) -> Response:
        """Return the words on a page, after those that its reader sends are written."""
        place = asked.ward, asked.night
        run = self.shelf.run_of(*place)
        if run is None:
            raise Refused(404, "no page")
        if saying is not None:
            if saying.run_id != run:
                raise Refused(409, "page replaced")
            asked.reason = self.inbox.save(*place, asked.reader, saying)
        return JSONResponse(
            {"done": asked.reason, "words": self.inbox.words(*place, run)}
        )

    def _refusal(self, status: int) -> Response:
        """Return what a reader is told of a request that is refused."""
        headers = {"content-security-policy": NOTHING}
        if status == 401:
            headers["www-authenticate"] = 'Basic realm="screening", charset="UTF-8"'
        return JSONResponse(
            {"error": WORDS.get(status, "this was refused")}, status, headers
        )


def _headers_of(request: Request) -> Headers:
    """Return the values of each header; Refused if one is no UTF-8."""
    headers: dict[str, list[str]] = {}
    try:
        for name, value in request.headers.raw:
            headers.setdefault(name.decode(), []).append(value.decode())
    except UnicodeDecodeError:
        raise Refused(400, "header") from None
    return headers


def _what(series: str | None, kind: str | None, method: str) -> str:
    """Return what an address is of, in one word."""
    if series is None:
        return "start" if kind is None else "overview"
    if kind == "json":
        return "save" if method == "POST" else "words"
    return "page"


def _night_in(text: str | None) -> str:
    """Return the date of an address, empty for the latest; Refused if it is none."""
    if text is None or text == LATEST:
        return ""
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise Refused(404, "no such night") from None


def _sent(page: Page | None) -> Response:
    """Return a page as a response, with its policy."""
    if page is None:
        raise Refused(404, "no page")
    policy = f"{page.policy}; frame-ancestors 'none'"
    headers = {"content-security-policy": policy}
    return Response(page.content, headers=headers, media_type="text/html")


def _place_of(error: Exception) -> str:
    """Return kind and place of a bug; its message might hold a patient's value."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
