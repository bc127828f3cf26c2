"""Attacks on the letterbox: addresses, requests in requests, floods, slow clients, and
kills in the middle of a write.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import socket
import subprocess
import threading
import time
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest
from hung import HUNG_SECONDS
from letterbox import (
    BY_LOGIN,
    BY_SCRIPT,
    IDS,
    LOGIN,
    NIGHT,
    PAGE,
    Served,
    lay_site,
    make_certificate,
    served,
    words_of,
)

from faults.amounts import attempts
from screening.ledger.verdict_file import READER
from screening.serve import app
from screening.serve import server as serving
from screening.site.site import read_network

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["screening.serve.server"])
BY_KEYS = """
[serve]
address = "127.0.0.1:0"
[serve.keys]
ward-a = "secret"
"""
KEY = "k" * 43


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """A letterbox behind a login; beside its folder of pages lies a secret."""
    folder = tmp_path_factory.mktemp("s")
    file = lay_site(folder)
    (folder / "hidden.html").write_text("secret")
    (folder / "pages" / "hidden.json").write_text("secret")
    with served(file) as answering:
        yield answering


@pytest.fixture
def unlimited(monkeypatch):
    """No limit of a minute."""
    monkeypatch.setattr(app, "MAX_REQUESTS", 1_000_000)
    monkeypatch.setattr(app, "MAX_SAVES", 1_000_000)


WAYS = [
    "/../hidden.html",
    "/ward-a/../../hidden.html",
    "/ward-a/../ward-b/{night}.html",
    "/ward-a/%2e%2e/ward-b/{night}.html",
    "/%2e%2e/hidden.html",
    "/%2e%2e%2fhidden.html",
    "/..%2fhidden.html",
    "/..%5chidden.html",
    "/%252e%252e/hidden.html",
    "/ward-a/..;/..;/hidden.html",
    "//hidden.html",
    "///etc/passwd",
    "/etc/passwd",
    "/hidden.json",
    "/{night}.html",
    "/{night}.json",
    "/latest.html",
    "/latest.json",
    "/ward-a/latest.json",
    "/ward-a/20\u0662\u0665-03-11.html",
    "/ward-a/20%D9%A2%D9%A5-03-11.html",
    "/ward-a/",
    "/ward-a",
    "/ward-a/.",
    "/ward-a//{night}.html",
    "/ward-a/{night}.html/",
    "/ward-a/{night}.html%00.txt",
    "/ward-a/{night}.html%0a",
    "/ward-a/{night}%2ehtml/../../..",
    "/ward-a/{night}.HTML",
    "/ward-a/.{night}.html.partial",
    "/WARD-A/{night}.html",
    "/ward-a%00/{night}.html",
    "/ward-a/\u0662025-03-11.html",
    "/pages/ward-a/{night}.html",
    "/inbox",
    "/NIGHT.toml",
    "/ward-a/{night}.html?x=1",
    "/ward-a/{night}.html;x",
    "http://other/ward-b/{night}.html",
    "*",
    "/" + "a" * 5000,
]


@pytest.mark.parametrize("way", WAYS)
def test_address_leads_nowhere(box, unlimited, way):
    """No address leads out of the pages of a reader's wards, and none to a listing."""
    path = way.format(night=NIGHT).encode().decode("latin-1")
    request = f"GET {path} HTTP/1.1\r\nHost: a\r\n{LOGIN}: anna.weber\r\n\r\n"
    answer = box.raw(request.encode("latin-1"))
    assert answer.split(b" ", 2)[1] in (b"400", b"404")
    assert b"secret" not in answer
    assert b"overview" not in answer
    assert b"list" not in answer


SECOND = f"GET / HTTP/1.1\r\nHost: a\r\n{LOGIN}: chief\r\n\r\n"
SMUGGLED = {
    "two in one": ("GET / HTTP/1.1\r\nHost: a\r\n{login}\r\n\r\n", SECOND),
    "two lengths": (
        "POST / HTTP/1.1\r\nHost: a\r\n{login}\r\nContent-Length: 0\r\n"
        "Content-Length: 90\r\n\r\n",
        SECOND,
    ),
    "length and chunks": (
        "POST / HTTP/1.1\r\nHost: a\r\n{login}\r\nContent-Length: 90\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        SECOND,
    ),
    "chunks written oddly": (
        "POST / HTTP/1.1\r\nHost: a\r\n{login}\r\nContent-Length: 0\r\n"
        "Transfer-Encoding: xchunked\r\n\r\n",
        SECOND,
    ),
    "length with a sign": (
        "POST / HTTP/1.1\r\nHost: a\r\n{login}\r\nContent-Length: +0\r\n\r\n",
        SECOND,
    ),
    "blank before colon": (f"GET / HTTP/1.1\r\nHost: a\r\n{LOGIN} : chief\r\n\r\n", ""),
    "folded header": (
        f"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n {LOGIN}: chief\r\n\r\n",
        "",
    ),
    "end of line in header": (f"GET / HTTP/1.1\r\nX: b\n{LOGIN}: chief\r\n\r\n", ""),
    "lone return in header": (f"GET / HTTP/1.1\r\nX: b\r{LOGIN}: chief\r\n\r\n", ""),
    "null in header": (f"GET / HTTP/1.1\r\n{LOGIN}: chief\0\r\n\r\n", ""),
    "no version": (f"GET /\r\n{LOGIN}: chief\r\n\r\n", ""),
    "upgrade": (
        "GET / HTTP/1.1\r\nHost: a\r\n{login}\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        SECOND,
    ),
    "chunk that is none": (
        "POST / HTTP/1.1\r\nHost: a\r\n{login}\r\nTransfer-Encoding: chunked\r\n\r\nz",
        SECOND,
    ),
    "headers without end": (f"GET / HTTP/1.1\r\n{'X: y' * 9000}\r\n\r\n", ""),
}


@pytest.mark.parametrize("case", SMUGGLED)
def test_request_smuggled(box, unlimited, case):
    """A connection has one answer, and who it is for is the login's header alone."""
    first, second = SMUGGLED[case]
    before = len(box.audit)
    request = first.format(login=f"{LOGIN}: anna.weber") + second
    answer = b""
    with suppress(ConnectionError):
        answer = box.raw(request.encode())
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert b"ward-b" not in answer
    # A line may come after the answer: waited for, it is not the next request's.
    end = time.monotonic() + HUNG_SECONDS
    while len(box.audit) == before and time.monotonic() < end:
        time.sleep(0.001)
    readers = {line["reader"] for line in box.audit[before:]}
    assert "chief" not in readers or b" 400 " in answer or b" 403 " in answer
    assert len(box.audit) - before == 1


def odd_request(rng: random.Random) -> tuple[str, str, str, bytes | None, dict]:
    """Return method, path, reader, body and headers of a request, mostly wrong."""
    path = rng.choice(
        [
            "/",
            f"/ward-a/{NIGHT}.html",
            f"/ward-a/{NIGHT}.json",
            f"/ward-b/{NIGHT}.json",
            "/latest.html",
            "/x",
            f"/ward-a/{NIGHT}.json?a=b",
        ]
    )
    method = rng.choice(["GET", "GET", "POST", "PUT", "HEAD", "OPTIONS", "QUERY"])
    reader = rng.choice(["anna.weber", "anna.weber", "chief", "mallory", ""])
    names = rng.choice([IDS[:1], IDS[:3], ["forged"], []])
    body = rng.choice(
        [None, b"", b"{", words_of(names, rng.choice(["unsure", "", "x"]))]
    )
    headers = {
        name.replace("-", "_"): value
        for name, value in BY_SCRIPT.items()
        if rng.random() < 0.8
    }
    return method, path, reader, body, headers


def test_many_requests(box, unlimited):
    """Whatever is asked, however often: an answer, one line of audit, no bug, and the
    service goes on.
    """
    allowed = {200, 303, 400, 403, 404, 405, 409}
    for number in attempts("requests to the letterbox", 200, 10_000):
        method, path, reader, body, headers = odd_request(random.Random(number))
        box.audit.clear()
        answer = box.ask(path, reader, method, body, **headers)
        assert answer.status in allowed, (method, path)
        assert [line["result"] for line in box.audit] == [answer.status]
    assert box.ask(f"/ward-a/{NIGHT}.html").status == 200


# Slow clients


@pytest.fixture
def by_key(tmp_path):
    """A letterbox without a login, over TCP."""
    (tmp_path / "secret").write_text(KEY)
    (tmp_path / "secret").chmod(0o600)
    return lay_site(tmp_path, BY_KEYS)


def seconds_to_answer(box: Served, source: str) -> float:
    """Return how long a request from an address takes, though it has no key."""
    began = time.monotonic()
    assert box.ask("/", None, source=source).status == 401
    return time.monotonic() - began


def is_closed(connection: socket.socket) -> bool:
    """Return True if the other side has ended a connection."""
    with suppress(ConnectionError):
        return connection.recv(1) == b""
    return True


def test_slow_clients(by_key, monkeypatch):
    """Clients that send nothing more keep others out neither while they wait nor later:
    their connections are few, and end.
    """
    monkeypatch.setattr(serving, "MAX_SECONDS", 12)
    with served(by_key, "127.0.0.1:0") as box:
        slow = [box.connected("127.0.0.3") for _ in range(100)]
        for connection in slow:
            with suppress(ConnectionError):
                connection.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert seconds_to_answer(box, "127.0.0.2") < 10
        time.sleep(0.2)
        for connection in slow:
            connection.setblocking(False)
        n_open = 0
        for connection in slow:
            with suppress(BlockingIOError):
                n_open -= is_closed(connection)
            n_open += 1
        assert n_open <= serving.MAX_OF_ADDRESS
        for connection in slow:
            connection.settimeout(HUNG_SECONDS)
        assert all(map(is_closed, slow))
        for connection in slow:
            connection.close()


def test_slow_handshakes(by_key, tmp_path, monkeypatch):
    """Over TLS the same is true of clients that do not even begin to encrypt."""
    monkeypatch.setattr(serving, "MAX_SECONDS", 4)
    certificate, key = make_certificate(tmp_path)
    places = f'[serve]\ncertificate = "{certificate}"\ncertificate_key = "{key}"'
    by_key.write_text(by_key.read_text().replace("[serve]", places))
    with served(by_key, "127.0.0.1:0") as box:
        slow = [box.connected("127.0.0.3") for _ in range(100)]
        refused = []
        for connection in slow[serving.MAX_OF_ADDRESS :]:
            connection.settimeout(3)
            refused.append(is_closed(connection))
        for connection in slow:
            connection.settimeout(HUNG_SECONDS)
        assert all(refused)
        assert all(map(is_closed, slow))
        for connection in slow:
            connection.close()
        # None of them is counted any more.
        later = [box.connected("127.0.0.3") for _ in range(serving.MAX_OF_ADDRESS)]
        time.sleep(0.2)
        for connection in later:
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                is_closed(connection)
            connection.close()


@pytest.mark.skipif(
    shutil.which("slowhttptest") is None,
    reason="needs slowhttptest: apt install slowhttptest",
)
@pytest.mark.parametrize("kind", ["-H", "-B", "-X"])
def test_slowhttptest(by_key, tmp_path, kind):
    """While slowhttptest holds what it can get, others are answered."""
    with served(by_key, "127.0.0.1:0") as box:
        host, port = box.address
        attack = (
            f"slowhttptest {kind} -c 300 -r 300 -i 1 -l 3 -p 2 -u http://{host}:{port}/"
        )
        process = subprocess.Popen(
            attack.split(), stdout=subprocess.DEVNULL, cwd=tmp_path
        )
        taken = []
        while process.poll() is None:
            taken.append(seconds_to_answer(box, "127.0.0.2"))
            time.sleep(0.1)
    assert len(taken) > 1
    assert max(taken) < 10


# Kills


def begun(box: Served, file: Path) -> multiprocessing.Process:
    """Return a service that answers, in a process of its own."""
    network = read_network(file, needs_ledger=False)
    process = FORKED.Process(target=serving.serve, args=(network, str))
    process.start()
    until = time.monotonic() + HUNG_SECONDS
    while time.monotonic() < until and process.is_alive():
        with suppress(OSError):
            box.ask("/")
            return process
        time.sleep(0.02)
    raise AssertionError("the service does not answer")


def test_killed_while_writing(tmp_path, unlimited):
    """Killed at any moment of a save, a word is there whole, or was not saved."""
    address = f'[serve]\naddress = "unix:{tmp_path / "s"}"'
    file = lay_site(tmp_path, BY_LOGIN.replace("[serve]", address))
    box = Served(tmp_path, os.fspath(tmp_path / "s"))
    rng = random.Random(76)
    for number in attempts("kills of the letterbox in a save", 10, 200):
        process = begun(box, file)
        verdict, before = [("confirmed", "unsure"), ("unsure", "confirmed")][number % 2]
        assert box.save(words_of(IDS, before)).status == 200
        # At some moment of the request: a save takes some 10 ms.
        killer = threading.Timer(rng.random() / 50, process.kill)
        killer.start()
        status = 0
        with suppress(OSError, ValueError, HTTPException):
            status = box.save(words_of(IDS, verdict)).status
        killer.join()
        process.join()
        (kept,) = box.inbox.glob("*.json")
        content = json.loads(kept.read_text())
        READER.validate_python(content)
        found = {one["verdict"] for one in content["verdicts"]}
        assert len(content["verdicts"]) == len(IDS)
        assert found in ({verdict}, {before})
        assert status != 200 or found == {verdict}
    process = begun(box, file)
    assert box.save(words_of(IDS)).status == 200
    process.terminate()
    process.join()
    left = [path.name for path in box.inbox.iterdir()]
    assert [name for name in left if not name.startswith("verdicts-")] == []
    assert (box.folder / "pages" / "ward-a" / f"{NIGHT}.html").read_bytes() == PAGE
