"""A site with published pages and a letterbox, served in a thread, and who asks it."""

import http.client
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hung import HUNG_SECONDS
from report_fixture import nosocomial_run

from screening.report import render_run
from screening.serve import server as serving
from screening.site.site import read_network

NIGHT = "2025-03-11"
WARDS = ("ward-a", "ward-b")
LOGIN = "X-Remote-User"
BY_LOGIN = f"""
[serve]
login = "{LOGIN}"

[serve.readers]
"anna.weber" = ["ward-a"]
"b.klein" = ["ward-a", "ward-b"]
"chief" = ["*"]
"""
SITE = """
[site]
title = "County hospital"
runs = "runs"
publish = "pages"
verdicts = "inbox"
"""
SERIES = """
[series.{name}]
model = "m"
cohort = "in/{name}/{{date}}.csv"
"""
RUN = nosocomial_run()
ACTIONS = ["isolated", 'asked "why"']
RUN["model"]["contract"]["cohort"]["actions"] = ACTIONS
RUN_ID = RUN["run_id"]
IDS = [case["id"] for case in RUN["cases"]]
PAGE = render_run(RUN).encode()
# What the page's own script sends besides.
BY_SCRIPT = {
    "X-Letterbox": "1",
    "Content-Type": "application/json",
    "Sec-Fetch-Site": "same-origin",
}


def lay_site(
    folder: Path, serve: str = BY_LOGIN, wards: tuple[str, ...] = WARDS, **more: str
) -> Path:
    """Write a site with a page of one night in each ward; return its NIGHT.toml."""
    for ward in wards:
        pages = folder / "pages" / ward
        pages.mkdir(parents=True)
        (pages / f"{NIGHT}.html").write_bytes(PAGE)
        (pages / "latest.html").write_bytes(PAGE)
    for name in ("latest", NIGHT):
        (folder / "pages" / f"{name}.html").write_text("<p>overview</p>")
    (folder / "inbox").mkdir(mode=0o700)
    series = "".join(SERIES.format(name=ward) for ward in wards)
    file = folder / "NIGHT.toml"
    file.write_text(SITE + serve + series)
    return file


def words_of(ids: list[str], verdict: str = "confirmed", **more: str) -> bytes:
    """Return the body with which the page's script sends the same word on patients."""
    words = [{"id": name, "verdict": verdict, **more} for name in ids]
    return json.dumps({"run_id": RUN_ID, "words": words}).encode()


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for localhost and its key into a folder; return both."""
    made = (
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem"
        " -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run(made.split(), check=True, capture_output=True, cwd=folder)
    return folder / "cert.pem", folder / "key.pem"


@dataclass
class Answer:
    """What a request got."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A letterbox that answers; `audit` has its lines."""

    folder: Path
    address: Any
    audit: list[dict[str, Any]] = field(default_factory=list)

    @property
    def inbox(self) -> Path:
        return self.folder / "inbox"

    def connected(self, source: str | None = None) -> socket.socket:
        """Return a connection, over TCP from an address of this host."""
        if isinstance(self.address, str):
            connection = socket.socket(socket.AF_UNIX)
        else:
            connection = socket.socket()
            connection.bind((source or "127.0.0.1", 0))
        connection.settimeout(HUNG_SECONDS)
        try:
            connection.connect(self.address)
        except OSError:
            connection.close()
            raise
        return connection

    def raw(self, request: bytes, source: str | None = None) -> bytes:
        """Send bytes; return all that comes back."""
        with self.connected(source) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def ask(
        self,
        path: str,
        reader: str | None = "anna.weber",
        method: str = "GET",
        body: bytes | None = None,
        source: str | None = None,
        **headers: str,
    ) -> Answer:
        """Send a request as the web server in front does, with the login's header."""
        asking = http.client.HTTPConnection("letterbox")
        asking.sock = self.connected(source)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if reader is not None:
            sent[LOGIN] = reader.encode().decode("latin-1")
        with closing(asking):
            asking.request(method, path, body, sent)
            came = asking.getresponse()
            return Answer(came.status, dict(came.getheaders()), came.read())

    def words(
        self, reader: str | None = "anna.weber", ward: str = "ward-a", **more: str
    ) -> list[Any]:
        """Return the words that a reader sees on the page of a ward."""
        headers = {"X-Letterbox": "1", **more}
        return self.ask(f"/{ward}/{NIGHT}.json", reader, **headers).json["words"]

    def save(
        self,
        body: bytes,
        reader: str | None = "anna.weber",
        ward: str = "ward-a",
        **more: str,
    ) -> Answer:
        """Send words as the page's script does."""
        headers = BY_SCRIPT | {
            key.replace("_", "-"): value for key, value in more.items()
        }
        return self.ask(f"/{ward}/{NIGHT}.json", reader, "POST", body, **headers)


@contextmanager
def served(file: Path, address: str | None = None) -> Iterator[Served]:
    """Serve a site in a thread, by default on a Unix socket."""
    network = read_network(file, needs_ledger=False)
    with serving.bound(address or f"unix:{file.parent / 's'}") as listener:
        answering = Served(file.parent, listener.getsockname())
        server = serving.server_at(listener, network, answering.audit.append)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield answering
        finally:
            server.should_exit = True
            thread.join(HUNG_SECONDS)
