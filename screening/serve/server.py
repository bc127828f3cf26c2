"""The sockets of the service, and the patience that it has with a connection."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from screening.errors import UsageError, of_system
from screening.serve.app import Asked, Audit, Service
from screening.site.site import Letterbox, Network

# Seconds from the beginning of a connection to its end: each has one request.
MAX_SECONDS = 30
MAX_CONNECTIONS = 400
# Of one address that is not a proxy.
MAX_OF_ADDRESS = 40


def serve(network: Network, audit: Audit) -> None:
    """Answer requests until the process is stopped.

    Parameters
    ----------
    network : Network
    audit : callable
        Receives a line of each request.

    Raises
    ------
    UsageError
        If the site's table `[serve]` is missing or makes no safe service.
    """
    with _handed_over() or bound((network.serve or Letterbox()).address) as listener:
        server_at(listener, network, audit).run(sockets=[listener])


def server_at(
    listener: socket.socket, network: Network, audit: Audit
) -> uvicorn.Server:
    """Return the server of a site for a socket; UsageError as for `serve`."""
    table = network.serve or Letterbox()
    _refuse_open(listener, table)
    tls = _tls(table.certificate, table.certificate_key) if table.certificate else None
    service = Service(network, listener.family == socket.AF_UNIX, audit)
    config = uvicorn.Config(
        service,
        http=_protocol(service, tls),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=16 << 10,
        # So many are accepted at once, before any is refused.
        backlog=MAX_CONNECTIONS,
    )
    return uvicorn.Server(config)


def _handed_over() -> socket.socket | None:
    """Return the socket that systemd has opened for this process, if any."""
    is_ours = os.environ.get("LISTEN_PID") == str(os.getpid())
    # systemd counts its files from 3.
    return socket.socket(fileno=3) if is_ours else None


def bound(address: str) -> socket.socket:
    """Return a socket that listens at an address."""
    try:
        if address.startswith("unix:"):
            return _bound_to_path(Path(address.removeprefix("unix:")))
        host, _, port = address.rpartition(":")
        place = ipaddress.ip_address(host.strip("[]"))
        family = socket.AF_INET if place.version == 4 else socket.AF_INET6
        return socket.create_server((str(place), int(port)), family=family)
    except OSError as error:
        raise of_system(error, address) from error
    except ValueError as error:
        raise UsageError(f"serve.address {address}: {error}") from None


def _bound_to_path(path: Path) -> socket.socket:
    """Return a socket at a path, which its owner and group may reach."""
    if path.is_socket() and not path.is_symlink():
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    # The mode is that of the socket from its beginning.
    before = os.umask(0o117)
    try:
        listener.bind(os.fspath(path))
        listener.listen()
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def _refuse_open(listener: socket.socket, table: Letterbox) -> None:
    """Refuse a socket that is open to unauthorized readers."""
    if (table.certificate is None) != (table.certificate_key is None):
        raise UsageError("serve: give certificate and certificate_key together")
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        # An abstract socket has bytes as its name, and no mode.
        if isinstance(name, bytes) or os.stat(name).st_mode & stat.S_IWOTH:
            raise UsageError(
                f"every user of this host can reach {name}; give its socket the mode "
                "0660 and the group of the web server"
            )
        return
    if not ipaddress.ip_address(name[0]).is_loopback and table.certificate is None:
        raise UsageError(
            f"serve.address: {name[0]} is reached over the network; give certificate"
            " and certificate_key, or listen on 127.0.0.1 or a Unix socket"
        )


def _tls(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """Return what encrypts connections."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise of_system(error, certificate) from error
    return context


def _protocol(service: Service, tls: ssl.SSLContext | None) -> type[asyncio.Protocol]:
    """Return the protocol of a connection that ends in time."""

    class Impatient(H11Protocol):
        """A connection with one request, which ends after `MAX_SECONDS` in any case."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.ending = self.loop.call_later(MAX_SECONDS, transport.abort)
            host = _host_of(self)
            n_same = sum(host == _host_of(other) for other in self.connections)
            is_free = host in {"", *service.access.proxies} or n_same <= MAX_OF_ADDRESS
            if len(self.connections) > MAX_CONNECTIONS or not is_free:
                transport.abort()
            elif tls is not None:
                # Only TLS reads it; its handshake may be as slow as a request.
                transport.pause_reading()
                self.encrypting = self.loop.create_task(self._encrypt(transport, tls))

        async def _encrypt(self, plain: Any, tls: ssl.SSLContext) -> None:
            """Go on over TLS, if the other side does."""
            line = None
            with suppress(OSError):
                line = await self.loop.start_tls(plain, self, tls, server_side=True)
            if line is None:
                self.connection_lost(None)
            else:
                super().connection_made(line)

        def connection_lost(self, exc: Exception | None) -> None:
            self.ending.cancel()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            """Refuse what is not HTTP; its text may be anything, and is not shown."""
            # Once a request has begun, its own line of audit says that it ended.
            if self.cycle is None:
                service.note(Asked(_host_of(self), reason="no HTTP request"), 400)
            super().send_400_response("no HTTP request")

    return Impatient


def _host_of(connection: Any) -> str:
    """Return the address of the other side; empty over a Unix socket."""
    return connection.client[0] if connection.client else ""
