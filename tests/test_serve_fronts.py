"""The letterbox behind real web servers and a real login, in a real browser: the
configurations of docs/serve.md are the ones that run.
"""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import ssl
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from browser_pages import WIDTH, browser, pressed
from commands import as_json, screen
from docs_pages import read_blocks
from flow_cohorts import night_of_patients, written
from hung import HUNG_SECONDS
from letterbox import Served, make_certificate, served

from screening.contract.contract import Contract
from screening.data.reading import read_cohort
from screening.schemas.figures import MaxFlagRate
from screening.store.model import save_model

__all__ = ["browser"]
ROOT = Path(__file__).parents[1]
BLOCKS = [block.text for block in read_blocks(ROOT / "docs" / "serve.md")]
NIGHT, NEXT_NIGHT = "2026-03-03", "2026-03-04"
BY_LOGIN_OF_WARD = """
[serve]
login = "X-Remote-User"
[serve.readers]
"anna.weber" = ["ward-a"]
"b.klein" = ["ward-a"]
chief = ["*"]
"""
PASSWORDS = {"anna.weber": "a-long-password", "b.klein": "another-password"}
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
APACHE = shutil.which("apache2", path="/usr/sbin:/usr/bin")
MODULES = Path("/usr/lib/apache2/modules")
NODE = shutil.which("node")
# npm install --prefix build/oidc oidc-provider@9
PROVIDER = Path(
    os.environ.get("OIDC_PROVIDER", ROOT / "build" / "oidc" / "node_modules")
)
CLIENT_SECRET = "secret-of-the-client-with-43-characters-000"
PHONE = {"width": 360, "height": 740}


def shown(beginning: str) -> str:
    """Return the configuration of the page that begins so."""
    (text,) = [text for text in BLOCKS if text.startswith(beginning)]
    return text


def free_port() -> int:
    """Return a port on which nothing listens now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a process answers at a port."""
    until = time.monotonic() + HUNG_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 10):
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace")[-3000:])


@contextmanager
def running(
    command: list[object], port: int, log: Path, **more: object
) -> Iterator[None]:
    """Run a server until the end of the block."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(word) for word in command], stdout=out, stderr=out, **more
        )
        try:
            wait_for(port, process, log)
            yield
        finally:
            process.terminate()
            process.wait(HUNG_SECONDS)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of this host's, and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


def adapted(text: str, port: int, certificate: tuple[Path, Path], site: Path) -> str:
    """Return a configuration of the page with the places of a test."""
    places = {
        "443": str(port),
        "screening.hospital.example": "localhost",
        "/etc/ssl/screening.pem": str(certificate[0]),
        "/etc/ssl/private/screening.key": str(certificate[1]),
        "/run/screening-serve.sock": str(site / "s"),
    }
    for here, there in places.items():
        assert here in text
        text = text.replace(here, there)
    return text


# The letterbox reached by the account of the web server, which is root's here.
@contextmanager
def nginx(site: Path, certificate: tuple[Path, Path]) -> Iterator[str]:
    """Run nginx with the page's configuration; yield its address."""
    port = free_port()
    passwords = site / "passwords"
    for name, password in PASSWORDS.items():
        digest = ["openssl", "passwd", "-6", password]
        made = subprocess.run(digest, check=True, capture_output=True, text=True)
        with passwords.open("a") as file:
            file.write(f"{name}:{made.stdout}")
    server = adapted(shown("# /etc/nginx"), port, certificate, site)
    server = server.replace("/etc/nginx/screening.passwords", str(passwords))
    server = server.replace("listen ", "listen 127.0.0.1:")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {site}/{kind};" for kind in kinds)
    user = "user root;" if os.geteuid() == 0 else ""
    (site / "nginx.conf").write_text(
        f"daemon off; {user} pid {site}/nginx.pid; error_log {site}/nginx.log;\n"
        f"events {{}}\nhttp {{ access_log off; {temporary}\n{server}}}\n"
    )
    command = [NGINX, "-p", site, "-c", site / "nginx.conf"]
    with running(command, port, site / "nginx.out"):
        yield f"https://localhost:{port}"


LOGIN_PAGE = """
import { Provider } from "oidc-provider";
const [port, redirect, secret] = process.argv.slice(2);
const provider = new Provider(`http://localhost:${port}`, {
  clients: [{
    client_id: "screening", client_secret: secret,
    redirect_uris: [redirect],
  }],
  pkce: { required: () => false },
});
provider.listen(Number(port), "127.0.0.1");
"""


@contextmanager
def provider(folder: Path, redirect: str) -> Iterator[str]:
    """Run an OpenID provider whose page of login believes a name; yield its address."""
    port = free_port()
    (folder / "node_modules").symlink_to(PROVIDER)
    (folder / "provider.mjs").write_text(LOGIN_PAGE)
    command = [NODE, folder / "provider.mjs", port, redirect, CLIENT_SECRET]
    with running(command, port, folder / "provider.out", cwd=folder):
        yield f"http://localhost:{port}"


LOADED = (
    "mpm_event",
    "authn_core",
    "authz_core",
    "authz_user",
    "headers",
    "proxy",
    "proxy_http",
    "ssl",
    "socache_shmcb",
    "auth_openidc",
)


@contextmanager
def apache(site: Path, certificate: tuple[Path, Path]) -> Iterator[str]:
    """Run apache2 with the page's configuration and a provider; yield its address."""
    port = free_port()
    address = f"https://localhost:{port}"
    (site / "screening.secrets").write_text(
        f"OIDCClientSecret {CLIENT_SECRET}\nOIDCCryptoPassphrase {CLIENT_SECRET}\n"
    )
    with provider(site, f"{address}/oidc") as login:
        text = adapted(shown("# /etc/apache2"), port, certificate, site)
        text = text.replace("https://login.hospital.example", login)
        text = text.replace("https://localhost/oidc", f"{address}/oidc")
        text = text.replace(
            "/etc/apache2/screening.secrets", f"{site}/screening.secrets"
        )
        loaded = "".join(
            f"LoadModule {name}_module {MODULES}/mod_{name}.so\n" for name in LOADED
        )
        (site / "apache.conf").write_text(
            f"ServerRoot {site}\nServerName localhost\nPidFile {site}/apache.pid\n"
            f"DefaultRuntimeDir {site}\nErrorLog {site}/apache.log\n{loaded}"
            f"User www-data\nGroup www-data\nListen 127.0.0.1:{port}\n{text}"
        )
        command = [APACHE, "-f", site / "apache.conf", "-DFOREGROUND"]
        with running(command, port, site / "apache.out"):
            yield address


FRONTS = [
    pytest.param(
        nginx,
        id="nginx",
        marks=pytest.mark.skipif(
            NGINX is None, reason="needs nginx: apt install nginx"
        ),
    ),
    pytest.param(
        apache,
        id="apache2",
        marks=pytest.mark.skipif(
            APACHE is None
            or NODE is None
            or not (MODULES / "mod_auth_openidc.so").exists()
            or not (PROVIDER / "oidc-provider").exists(),
            reason="needs apache2, libapache2-mod-auth-openidc, node and"
            " npm install --prefix build/oidc oidc-provider@9",
        ),
    ),
]


def logged_in(browser, address: str, name: str, **more: object):
    """Return a window of a reader who has logged in, on the page of a ward."""
    context = browser.new_context(
        ignore_https_errors=True,
        http_credentials={"username": name, "password": PASSWORDS[name]},
        **more,
    )
    context.set_default_timeout(1000 * HUNG_SECONDS)
    view = context.new_page()
    view.clock.install()
    view.goto(f"{address}/ward-a/{NIGHT}.html")
    # The login of the provider, where the web server has one.
    if view.locator("[name=login]").count():
        view.fill("[name=login]", name)
        view.fill("[name=password]", "any")
        view.press("[name=password]", "Enter")
        view.locator("button", has_text="Continue").press("Enter")
        view.wait_for_url(f"{address}/ward-a/{NIGHT}.html")
    return view


def give(view, number: int, *keys: str) -> None:
    """Give the verdict on a line by the keyboard alone: its first one, or another."""
    box = view.locator(".list .c .t").nth(number)
    box.scroll_into_view_if_needed()
    box.locator("input").first.focus()
    pressed(view, "Space", *keys)


SITE = """
[site]
title = "County hospital"
ledger = "l.db"
runs = "runs"
publish = "pages"
verdicts = "inbox"
jobs = 1

[series.ward-a]
model = "m"
cohort = "in/{date}.csv"
"""


@pytest.fixture
def site(table, trained, monkeypatch):
    """A site after a night, in a folder that the account of a web server may enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        contract = Contract(label="ill", id="patient", actions=["isolated"])
        cohort = read_cohort(table, contract=contract, need_label=True)
        model = trained(cohort, "logistic", search=1, rule=MaxFlagRate(0.3))
        save_model(model, folder / "m")
        for inner in ("in", "inbox"):
            (folder / inner).mkdir(mode=0o700)
        for night, seed in ((NIGHT, 2), (NEXT_NIGHT, 3)):
            written(night_of_patients(60, seed=seed), folder / "in" / f"{night}.csv")
        (folder / "NIGHT.toml").write_text(SITE + BY_LOGIN_OF_WARD)
        monkeypatch.chdir(folder)
        screen("run", "NIGHT.toml", "--date", NIGHT)
        yield folder


@contextmanager
def reachable(site: Path) -> Iterator[Served]:
    """Serve the site on a socket that the web server's group may reach."""
    with served(site / "NIGHT.toml") as box:
        if os.geteuid() == 0:
            shutil.chown(site / "s", group="www-data")
        yield box


def message(view) -> str:
    """Return what the page says beside *Save verdicts*."""
    return view.locator("#review-save [role=status]").inner_text()


def said(view, words: str) -> None:
    """Wait until the page says these words."""
    view.locator("#review-save", has_text=words).wait_for()


@pytest.mark.parametrize("front", FRONTS)
def test_morning(browser, certificate, site, front):
    """Two reviewers differ, one of them on a telephone, with the keyboard alone; the
    service is stopped in between, and the night finds both words.
    """
    with front(site, certificate) as address:
        with reachable(site) as box:
            anna = logged_in(browser, address, "anna.weber")
            klein = logged_in(browser, address, "b.klein", viewport=PHONE)
            assert klein.evaluate(WIDTH) <= PHONE["width"]
            give(anna, 0)
            anna.locator(".list .c summary").first.focus()
            pressed(anna, "Enter")
            anna.locator(".did").focus()
            pressed(anna, "ArrowDown", "Control+s")
            said(anna, "1 saved, 0 withdrawn by anna.weber")
            klein.clock.fast_forward(31_000)
            klein.locator(
                ".word", has_text="confirmed, isolated: anna.weber"
            ).wait_for()
            give(klein, 0, "ArrowRight")
            said(klein, "1 not saved yet")
        # The service is stopped.
        pressed(klein, "Control+s")
        said(klein, "not saved, kept here")
        context = klein.context
        klein.close()
        with reachable(site) as later:
            klein = context.new_page()
            klein.clock.install()
            klein.goto(f"{address}/ward-a/{NIGHT}.html")
            said(klein, "1 verdict not saved yet")
            give(klein, 1)
            pressed(klein, "Control+s")
            said(klein, "2 saved, 0 withdrawn by b.klein")
            anna.clock.fast_forward(31_000)
            anna.locator(".word", has_text="ruled out: b.klein").wait_for()
            give(anna, 1)
            pressed(anna, "Control+s")
            said(anna, "1 saved, 0 withdrawn by anna.weber")
            # Taken back again: "no verdict" stands last.
            give(anna, 1, "ArrowLeft")
            pressed(anna, "Control+s")
            said(anna, "0 saved, 1 withdrawn by anna.weber")
            night = as_json("run", "NIGHT.toml", "--date", NEXT_NIGHT)
            klein.clock.fast_forward(31_000)
            klein.locator(".word", has_text="b.klein").first.wait_for()
            klein.locator(".word", has_text="read overnight").first.wait_for()
        audit = box.audit + later.audit
        anna.context.close()
        context.close()

    read = night["verdicts"]
    assert [line["refused"] for line in read] == [None, None]
    assert sorted(line["verdicts"] for line in read) == [1, 2]
    assert sum(line["disputed"] for line in read) == 1
    assert {line["reader"] for line in audit} == {"anna.weber", "b.klein"}
    history = as_json("history", "--ledger", "l.db", "--verify")
    assert history["runs"][0]["verdicts"]["disputed"] == 1
    assert history["audit"]["verified"]
    with sqlite3.connect("l.db") as ledger:
        found = ledger.execute("SELECT initials, verdict, action FROM verdicts")
        assert sorted(found) == [
            ("anna.weber", "confirmed", "isolated"),
            ("b.klein", "confirmed", ""),
            ("b.klein", "ruled out", ""),
        ]
    ledger.close()


SECOND = "GET /latest.html HTTP/1.1\r\nHost: localhost\r\nX-Remote-User: chief\r\n\r\n"
SMUGGLED = {
    "two logins": ("GET", "X-Remote-User: chief\r\nX-Remote-User: chief", ""),
    "header not to be sent on": ("GET", "Connection: close, X-Remote-User", ""),
    "length and chunks": (
        "POST",
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        f"0\r\n\r\n{SECOND}",
    ),
    "chunks with a blank": (
        "POST",
        "Transfer-Encoding : chunked",
        f"0\r\n\r\n{SECOND}",
    ),
    "other chunks": ("POST", "Transfer-Encoding: xchunked", f"0\r\n\r\n{SECOND}"),
    "two lengths": ("POST", "Content-Length: 0\r\nContent-Length: 90", SECOND),
    "header in the address": ("GET%0d%0aX-Remote-User:%20chief", "X: y", ""),
}


def sent_to(address: str, request: str) -> bytes:
    """Send a request as it is, over TLS; return all that comes back within seconds."""
    port = int(address.rpartition(":")[2])
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    answer = b""
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", port), HUNG_SECONDS) as plain,
        unchecked.wrap_socket(plain, server_hostname="localhost") as line,
    ):
        line.sendall(request.encode())
        line.settimeout(3)
        while part := line.recv(65536):
            answer += part
    return answer


@pytest.mark.parametrize("front", FRONTS)
def test_login_forged(browser, certificate, site, front):
    """A header of the login that a browser sends itself is replaced by the web server,
    whichever way it is hidden in a request, and nobody gets past the login.
    """
    with front(site, certificate) as address, reachable(site) as box:
        forged = {"X-Remote-User": "chief", "X_Remote_User": "chief"}
        view = logged_in(browser, address, "anna.weber", extra_http_headers=forged)
        assert view.locator("[data-run]").count() == 1
        pair = f"anna.weber:{PASSWORDS['anna.weber']}".encode()
        cookies = [f"{one['name']}={one['value']}" for one in view.context.cookies()]
        by_login = (
            f"Host: localhost\r\nAuthorization: Basic {b64encode(pair).decode()}\r\n"
            f"Cookie: {'; '.join(cookies)}\r\n"
        )
        plain = f"GET /ward-a/{NIGHT}.html HTTP/1.1\r\nConnection: close\r\n{by_login}"
        assert b"data-run" in sent_to(address, f"{plain}\r\n")
        for method, headers, body in SMUGGLED.values():
            first = f"{method} /latest.html HTTP/1.1\r\n{by_login}{headers}\r\n\r\n"
            before = len(box.audit)
            sent_to(address, first + body)
            assert len(box.audit) - before <= 1
        stranger = browser.new_context(ignore_https_errors=True)
        page = f"{address}/ward-a/{NIGHT}.html"
        assert "data-run" not in stranger.request.get(page, headers=forged).text()
        for context in (view.context, stranger):
            context.close()
    answered = [line for line in box.audit if line["result"] < 400]
    assert {line["reader"] for line in answered} == {"anna.weber"}
    # A web server may obey a browser that tells it to send no login's header on.
    assert {line["reader"] for line in box.audit} <= {"anna.weber", ""}
