"""The reader of a request: the name of a login, or the secret of one series."""

from __future__ import annotations

import hmac
from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request

from screening.errors import UsageError
from screening.files import read_secret
from screening.site.site import Network, reader_name

SECRET_HEADER = "x-screening-secret"
# Shorter secrets can be guessed.
MIN_SECRET = 22


class Refused(HTTPException):
    """A request without the right to what it asks for; `detail` is for the audit."""


@dataclass(frozen=True)
class Reader:
    """The sender of a request, and the series that this reader may see."""

    name: str
    series: frozenset[str]


class Access:
    """Identifies the reader of a request, by the table `[serve]` of a site.

    Parameters
    ----------
    network : Network
    over_unix : bool
        The service listens on a Unix socket; its mode restricts who may reach it.

    Raises
    ------
    UsageError
        If the table's login or secrets could be forged.
    """

    def __init__(self, network: Network, over_unix: bool):
        table = network.serve
        if table is None or bool(table.login and table.readers) == bool(table.keys):
            raise UsageError(
                "serve: give either login (the header of the hospital's login) and "
                "[serve.readers] (the series of each), or [serve.keys] (one secret per "
                "series); see docs/serve.md"
            )
        self.table = table
        self.network = network
        self.over_unix = over_unix
        self.proxies = frozenset(map(str, table.proxies))
        self.secret = b""
        self.keys = {name: _digest_of_file(at) for name, at in table.keys.items()}
        if len(set(self.keys.values())) < len(self.keys):
            raise UsageError("serve.keys: two series have the same secret")
        if table.login is None or over_unix:
            return
        if not self.proxies or table.secret is None:
            raise UsageError(
                "serve.login: over TCP anybody can send this header; listen on "
                'address = "unix:/path", or give proxies (the addresses that may '
                "send it) and secret (a file)"
            )
        self.secret = _digest_of_file(table.secret)

    def reader_of(self, request: Request, address: str) -> Reader:
        """Identify the reader of a request.

        Parameters
        ----------
        request : Request
        address : str
            Of the other side; empty over a Unix socket.

        Raises
        ------
        Refused
            If the reader is unknown.
        """
        if self.table.login is None:
            return self._reader_with_key(request)
        if not self.over_unix:
            if address not in self.proxies:
                raise Refused(403, "address is not among proxies")
            sent = header(request, SECRET_HEADER)
            if not hmac.compare_digest(_digest(sent), self.secret):
                raise Refused(403, "wrong secret")
        name = _name_in(header(request, self.table.login), 403)
        series = (s for s in self.network.series if self.table.may_see(name, s))
        return Reader(name, frozenset(series))

    def _reader_with_key(self, request: Request) -> Reader:
        scheme, _, encoded = header(request, "authorization").partition(" ")
        if scheme.lower() != "basic":
            raise Refused(401, "no key")
        try:
            name, _, key = b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            raise Refused(401, "no key") from None
        digest = _digest(key)
        # Every secret is compared, so that the time does not reveal the right one.
        fits = {s: hmac.compare_digest(digest, own) for s, own in self.keys.items()}
        allowed = frozenset(series for series, fit in fits.items() if fit)
        if not allowed:
            raise Refused(401, "wrong key")
        return Reader(_name_in(name, 401), allowed)


def header(request: Request, name: str) -> str:
    """Return the value of a header, empty without one; Refused if it came twice."""
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise Refused(400, f"header {name} sent twice")
    return "".join(values).encode("latin-1").decode(errors="replace")


def _name_in(text: str, status: int) -> str:
    """Return the name of a reader; Refused if it cannot be one."""
    try:
        return reader_name(text)
    except ValueError:
        raise Refused(status, "no name") from None


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _digest_of_file(path: Path) -> bytes:
    """Return the digest of the secret in a private file."""
    secret = read_secret(path, most=4096).decode("utf-8", "replace").strip()
    if len(secret) < MIN_SECRET:
        raise UsageError(
            f"the secret in {path} has fewer than {MIN_SECRET} characters; make one:"
            f" openssl rand -base64 32 > {path}"
        )
    return _digest(secret)
