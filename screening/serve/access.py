"""Who sends a request: the name that a login states, or the secret of one series."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from screening.errors import UsageError
from screening.files import read_secret
from screening.ledger.verdict_file import as_compared
from screening.site.site import Letterbox, Network, reader_name

SECRET_HEADER = "x-screening-secret"
# Shorter secrets can be guessed.
MIN_SECRET = 22
MAX_SECRET = 4096

Headers = Mapping[str, Sequence[str]]
"""The values of each header, by its name in small letters."""


class Refused(Exception):
    """A request without the right to what it asks for.

    Parameters
    ----------
    status : int
        Of the response.
    reason : str
        For the audit.
    reader : str
        Who it said it was, as far as that is known.
    """

    def __init__(self, status: int, reason: str, reader: str = ""):
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.reader = reader


@dataclass(frozen=True)
class Reader:
    """Who sends a request, and the series that this reader may see."""

    name: str
    series: frozenset[str]
    sees_all: bool


class Access:
    """Decides who sends a request, by the table `[serve]` of a site.

    Parameters
    ----------
    network : Network
    over_unix : bool
        The service listens on a Unix socket, whose mode says who may reach it.

    Raises
    ------
    UsageError
        If the table lacks what makes its login or its secrets worth believing.
    """

    def __init__(self, network: Network, over_unix: bool):
        assert network.serve is not None
        self.table = network.serve
        self.network = network
        self.over_unix = over_unix
        self.proxies = frozenset(map(str, self.table.proxies))
        self.secret = b""
        self.keys: dict[str, bytes] = {}
        if (self.table.login is None) == (not self.table.keys):
            raise UsageError(
                "serve: give either login, the header of the hospital's login, or"
                " [serve.keys], one secret a series"
            )
        if self.table.login is None:
            self._read_keys()
        else:
            self._prepare_login()

    def _prepare_login(self) -> None:
        """Check that a login's header cannot come from anybody else."""
        _refuse_alike(self.table)
        if self.over_unix:
            return
        if not self.proxies or self.table.secret is None:
            raise UsageError(
                "serve.login: over TCP everybody could send this header; listen on"
                ' address = "unix:/path", or give proxies, the addresses that may send'
                " it, and secret, the file with what they also send"
            )
        self.secret = _digest_of_file(self.table.secret)

    def _read_keys(self) -> None:
        """Read the secret of each series."""
        self.keys = {name: _digest_of_file(at) for name, at in self.table.keys.items()}
        if len(set(self.keys.values())) < len(self.keys):
            raise UsageError("serve.keys: two series have the same secret")

    def reader_of(self, headers: Headers, address: str) -> Reader:
        """Return who sends a request.

        Parameters
        ----------
        headers : mapping
        address : str
            Of the other side; empty over a Unix socket.

        Raises
        ------
        Refused
            If nobody is known by it.
        """
        if self.table.login is None:
            return self._reader_with_key(headers)
        return self._reader_with_login(headers, address)

    def _reader_with_login(self, headers: Headers, address: str) -> Reader:
        if not self.over_unix:
            if address not in self.proxies:
                raise Refused(403, "address is none of proxies")
            sent = _only(headers, SECRET_HEADER)
            if not hmac.compare_digest(_digest(sent), self.secret):
                raise Refused(403, "wrong secret")
        name = _name_in(_only(headers, (self.table.login or "").lower()), 403)
        if name not in self.table.readers:
            raise Refused(403, "unknown reader", name)
        series = (s for s in self.network.series if self.table.may_see(name, s))
        allowed = frozenset(series)
        return Reader(name, allowed, len(allowed) == len(self.network.series))

    def _reader_with_key(self, headers: Headers) -> Reader:
        scheme, _, encoded = _only(headers, "authorization").partition(" ")
        if scheme.lower() != "basic":
            raise Refused(401, "no key")
        try:
            text = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise Refused(401, "no key") from None
        name, _, key = text.partition(":")
        digest = _digest(key)
        # Every secret is compared, so that the time says nothing of which was right.
        fits = {s: hmac.compare_digest(digest, own) for s, own in self.keys.items()}
        if not any(fits.values()):
            raise Refused(401, "wrong key")
        allowed = frozenset(series for series, fit in fits.items() if fit)
        return Reader(_name_in(name, 401), allowed, False)


def _refuse_alike(table: Letterbox) -> None:
    """Refuse two readers whom the ledger would take for one."""
    if not table.readers:
        raise UsageError("serve.readers: with login, give the series of each reader")
    known: dict[str, str] = {}
    for name in table.readers:
        other = known.setdefault(as_compared(name), name)
        if other != name:
            raise UsageError(
                f"serve.readers: '{name}' and '{other}' are one reviewer for the"
                " ledger, which compares names without case and dots"
            )


def _only(headers: Headers, name: str) -> str:
    """Return the value of a header; Refused if it was sent twice."""
    values = headers.get(name, [""])
    if len(values) > 1:
        raise Refused(400, f"header {name} sent twice")
    return values[0]


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
    secret = read_secret(path, MAX_SECRET).decode("utf-8", "replace").strip()
    if len(secret) < MIN_SECRET:
        raise UsageError(
            f"the secret in {path} has fewer than {MIN_SECRET} characters; make one:"
            f" openssl rand -base64 32 > {path}"
        )
    return _digest(secret)
