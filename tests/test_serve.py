"""The letterbox: pages to their readers, words into the inbox, nothing else."""

import ast
import base64
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import invoked
from hung import HUNG_SECONDS
from letterbox import (
    ACTIONS,
    BY_LOGIN,
    BY_SCRIPT,
    IDS,
    LOGIN,
    NIGHT,
    PAGE,
    RUN_ID,
    lay_site,
    make_certificate,
    served,
    words_of,
)

from screening import open_ledger
from screening.errors import Locked, UsageError
from screening.files import sole_use
from screening.ledger.verdict_file import READER
from screening.serve import app, words
from screening.serve import server as serving
from screening.serve.pages import Shelf, ids_of, policy_of
from screening.site import inbox
from screening.site.site import read_network

ROOT = Path(__file__).parents[1]
SECRET = "s" * 43
OTHER_SECRET = "t" * 43
BY_PROXY = BY_LOGIN.replace(
    "[serve]",
    '[serve]\naddress = "127.0.0.1:0"\nproxies = ["127.0.0.1"]\nsecret = "secret"',
)
BY_KEYS = """
[serve]
address = "127.0.0.1:0"
[serve.keys]
ward-a = "secret"
ward-b = "other"
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """A letterbox behind a login, over a Unix socket; words of one test stay."""
    folder = tmp_path_factory.mktemp("s")
    with served(lay_site(folder)) as answering:
        yield answering


@pytest.fixture
def empty(box, monkeypatch):
    """The same letterbox without a word, and without a limit that a test could meet."""
    monkeypatch.setattr(app, "MAX_REQUESTS", 100_000)
    monkeypatch.setattr(app, "MAX_SAVES", 100_000)
    for file in box.inbox.rglob("*.*"):
        file.unlink()
    box.audit.clear()
    return box


@pytest.fixture
def site(tmp_path):
    """Two private secrets in a folder for a site."""
    for name, secret in (("secret", SECRET), ("other", OTHER_SECRET)):
        file = tmp_path / name
        file.write_text(secret)
        file.chmod(0o600)
    return tmp_path


def basic(name: str, key: str) -> dict[str, str]:
    """Return the header with which a browser sends a name and a key."""
    pair = base64.b64encode(f"{name}:{key}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def file_in(folder):
    """Return the content of the only file of words in a folder."""
    (file,) = folder.glob("*.json")
    return json.loads(file.read_text("utf-8"))


# Who


def test_service_opens_no_ledger():
    """It has neither the code that opens one, nor what reads a table or a model."""
    code = "import sys, screening.serve.server; print(*sys.modules)"
    words_of_python = [sys.executable, "-c", code]
    ended = subprocess.run(words_of_python, capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.split())
    assert "screening.serve.words" in loaded
    absent = {"screening.ledger.database", "screening.store.loading", "sqlalchemy"}
    assert loaded & (absent | {"pandas", "pyarrow", "sklearn", "numba"}) == set()


def lines_of_code(path: Path) -> int:
    """Return the number of lines that are neither blank, comment nor docstring."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    numbers = {n for n, line in enumerate(lines, 1) if line.strip(" ")[:1] not in "#"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            numbers -= set(range(node.lineno, node.end_lineno + 1))
    return len(numbers)


def test_size():
    """Who is to judge whether it is safe can read it: 650 lines and a script of 60."""
    python = [
        *(ROOT / "screening" / "serve").glob("*.py"),
        ROOT / "screening/cli/serve.py",
    ]
    assert 500 < sum(map(lines_of_code, python)) <= 650
    script = (ROOT / "templates" / "serve.js").read_text(encoding="utf-8")
    assert len(script.splitlines()) <= 60


def test_page_of_ward(empty):
    """A reader gets the own ward; another one looks like one that is not there."""
    own = empty.ask(f"/ward-a/{NIGHT}.html")
    other = empty.ask(f"/ward-b/{NIGHT}.html")
    unknown = empty.ask(f"/ward-c/{NIGHT}.html")

    assert own.status == 200
    assert other.status == unknown.status == 404
    assert other.body == unknown.body
    reasons = [line["reason"] for line in empty.audit]
    assert reasons == ["", "ward of others", "no such ward"]


def test_words_of_other_ward(empty):
    """Neither the words of another ward are shown, nor are any taken for it."""
    script = {"X-Letterbox": "1"}
    assert empty.ask(f"/ward-b/{NIGHT}.json", **script).status == 404
    assert empty.save(words_of(IDS[:1]), ward="ward-b").status == 404
    assert list(empty.inbox.rglob("*.json")) == []


def test_start_page_of_reader(empty):
    """The first page names the wards of its reader; who may see all of them gets the
    page over all of them.
    """
    first, chief = empty.ask("/"), empty.ask("/", "chief")

    assert f'href="ward-a/{NIGHT}.html"' in first.body.decode()
    assert b"ward-b" not in first.body
    assert f'href="ward-b/{NIGHT}.html"' in chief.body.decode()
    assert b"latest.html" in chief.body
    assert b"latest.html" not in first.body
    assert empty.ask("/latest.html", "chief").body == b"<p>overview</p>"
    assert empty.ask("/latest.html").status == 404


@pytest.mark.parametrize("name", ["latest", NIGHT])
def test_overview_of_others(empty, name):
    """The page over all wards is for who may see all of them, by whichever address."""
    assert empty.ask(f"/{name}.html", "chief").body == b"<p>overview</p>"
    assert empty.ask(f"/{name}.json", "chief").status == 404
    for kind in ("html", "json"):
        for headers in ({}, BY_SCRIPT):
            answer = empty.ask(f"/{name}.{kind}", **headers)
            assert answer.status == 404
            assert b"overview" not in answer.body


def test_latest_page(empty):
    """The latest page of a ward has the address of its night, under which words are,
    and under no other.
    """
    answer = empty.ask("/ward-a/latest.html")
    assert answer.status == 303
    assert answer.headers["location"] == f"{NIGHT}.html"
    latest = "/ward-a/latest.json"
    assert empty.ask(latest, **BY_SCRIPT).status == 404
    body = words_of(IDS[:1])
    assert empty.ask(latest, "anna.weber", "POST", body, **BY_SCRIPT).status == 404
    assert list(empty.inbox.rglob("*.json")) == []


@pytest.mark.parametrize("reader", ["mallory", None, "", "x" * 101, "anna\tweber"])
def test_reader_unknown(empty, reader):
    """Who is in no table, or is named by nothing, gets nothing."""
    assert empty.ask(f"/ward-a/{NIGHT}.html", reader).status == 403


def test_login_sent_twice(empty):
    """A second header of the login, such as one that a browser added, is refused."""
    twice = (
        f"GET /ward-a/{NIGHT}.html HTTP/1.1\r\nHost: a\r\n{LOGIN}: anna.weber\r\n"
        f"{LOGIN}: chief\r\n\r\n"
    )
    assert empty.raw(twice.encode()).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("name", ["X_Remote_User", "X-Remote-User-", "Remote-User"])
def test_login_by_similar_header(empty, name):
    """A header that only looks like that of the login names nobody."""
    like = f"GET / HTTP/1.1\r\nHost: a\r\n{name}: chief\r\n\r\n"
    assert empty.raw(like.encode()).startswith(b"HTTP/1.1 403 ")


def test_table_changed(tmp_path):
    """Who loses a ward sees it no more from the next request on; a table that cannot
    be read shows nothing to anybody.
    """
    file = lay_site(tmp_path)
    with served(file) as box:
        before = box.ask(f"/ward-a/{NIGHT}.html")
        text = file.read_text()
        file.write_text(text.replace('["ward-a"]', '["ward-b"]'))
        moved = box.ask(f"/ward-a/{NIGHT}.html")
        file.write_text(text.replace('["ward-a"]', '["ward-x"]'))
        damaged = box.ask(f"/ward-a/{NIGHT}.html")
        file.write_text(text)
        after = box.ask(f"/ward-a/{NIGHT}.html")

    statuses = [each.status for each in (before, moved, damaged, after)]
    assert statuses == [200, 404, 503, 200]
    assert "series 'ward-x' does not exist" in box.audit[2]["reason"]


def test_table_changed_and_refused(tmp_path):
    """Of a file that makes no service nothing is used, and nothing of it remains."""
    file = lay_site(tmp_path)
    with served(file) as box:
        text, before = file.read_text(), file.stat()
        moved = text.replace('["ward-a"]', '["ward-b"]')
        file.write_text(moved.replace('verdicts = "inbox"', 'verdicts = "absent"'))
        refused = box.ask(f"/ward-b/{NIGHT}.html")
        file.write_text(text)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        other, own = box.ask(f"/ward-b/{NIGHT}.html"), box.ask(f"/ward-a/{NIGHT}.html")
    assert [each.status for each in (refused, other, own)] == [503, 404, 200]


def test_login_over_tcp(site):
    """Over TCP the login's header counts from a named address with the secret alone."""
    with served(lay_site(site, BY_PROXY), "127.0.0.1:0") as box:
        page = f"/ward-a/{NIGHT}.html"
        secret = {"X-Screening-Secret": SECRET}
        right = box.ask(page, **secret)
        without = box.ask(page)
        wrong = box.ask(page, **{"X-Screening-Secret": OTHER_SECRET})
        elsewhere = box.ask(page, source="127.0.0.2", **secret)

    assert right.status == 200
    assert without.status == wrong.status == elsewhere.status == 403
    assert [line["reason"] for line in box.audit][1:] == [
        "wrong secret",
        "wrong secret",
        "address is not among proxies",
    ]
    assert [line["address"] for line in box.audit][2:] == ["127.0.0.1", "127.0.0.2"]


def test_key_of_ward(site):
    """Without a login the secret of a ward opens that ward alone; the name that one
    gives with it is in the file.
    """
    with served(lay_site(site, BY_KEYS), "127.0.0.1:0") as box:
        page = f"/ward-a/{NIGHT}.html"
        key = basic("Jörg", SECRET)
        right = box.ask(page, None, **key)
        other = box.ask(f"/ward-b/{NIGHT}.html", None, **key)
        overview = box.ask("/latest.html", None, **key)
        wrong = box.ask(page, None, **basic("Jörg", SECRET[1:]))
        unnamed = box.ask(page, None, **basic("", SECRET))
        damaged = box.ask(page, None, Authorization="Basic ?")
        without = box.ask(page, None)
        saved = box.save(words_of(IDS[:1]), None, **key)

    assert (right.status, saved.status) == (200, 200)
    assert other.status == overview.status == 404
    for refused in (wrong, unnamed, damaged, without):
        assert refused.status == 401
        assert refused.headers["www-authenticate"].startswith("Basic ")
    assert file_in(box.inbox)["initials"] == "Jörg"


# Starting


REFUSED_SITES = {
    "no table": ("", "see docs/serve.md"),
    "neither login nor keys": ("[serve]", "give either login"),
    "both": (BY_PROXY + '[serve.keys]\nward-a = "other"', "give either login"),
    "login for everybody": (
        BY_LOGIN.replace("[serve]", '[serve]\naddress = "127.0.0.1:0"'),
        "listen on address",
    ),
    "login without secret": (
        BY_PROXY.replace('secret = "secret"', ""),
        "give proxies",
    ),
    "no readers": ('[serve]\nlogin = "X-User"', "the series of each"),
    "one secret for two": (
        BY_KEYS.replace('"other"', '"secret"'),
        "two series have the same secret",
    ),
    "open to the network": (
        BY_PROXY.replace("127.0.0.1:0", "0.0.0.0:0"),
        "give certificate and certificate_key, or listen on 127.0.0.1",
    ),
    "no certificate": (
        BY_KEYS.replace(
            "[serve]", '[serve]\ncertificate = "secret"\ncertificate_key = "secret"'
        ),
        "secret: .*PEM",
    ),
    "half of TLS": (
        BY_PROXY.replace("[serve]", '[serve]\ncertificate = "c.pem"'),
        "give certificate and certificate_key together",
    ),
}


@pytest.mark.parametrize("case", REFUSED_SITES)
def test_start_refused(site, case):
    """A service whose login anybody could forge does not start, and says what to do."""
    serve, remedy = REFUSED_SITES[case]
    network = read_network(lay_site(site, serve), needs_ledger=False)
    address = "unix:/s" if network.serve is None else network.serve.address
    address = address if "0" in address else f"unix:{site / 's'}"
    with serving.bound(address) as listener, pytest.raises(UsageError, match=remedy):
        serving.server_at(listener, network, print)


@pytest.mark.parametrize(
    ("mode", "secret", "remedy"),
    [
        (0o640, SECRET, "chmod 600"),
        (0o604, SECRET, "chmod 600"),
        (0o600, "short", "openssl rand -base64 32"),
        (0o600, "s" * 5000, "more than the allowed 4096"),
    ],
)
@pytest.mark.parametrize("serve", [BY_PROXY, BY_KEYS])
def test_start_with_open_secret(site, serve, mode, secret, remedy):
    """A secret that others can read, or guess, is refused with the remedy."""
    (site / "secret").write_text(secret)
    (site / "secret").chmod(mode)
    network = read_network(lay_site(site, serve), needs_ledger=False)
    with (
        serving.bound("127.0.0.1:0") as listener,
        pytest.raises(UsageError, match=remedy),
    ):
        serving.server_at(listener, network, print)


def test_start_on_open_socket(tmp_path):
    """A socket that every user of the host may reach is refused; its own is private to
    owner and group.
    """
    network = read_network(lay_site(tmp_path), needs_ledger=False)
    path = tmp_path / "s"
    with serving.bound(f"unix:{path}") as listener:
        assert path.stat().st_mode & 0o777 == 0o660
        path.chmod(0o666)
        with pytest.raises(UsageError, match="give its socket the mode 0660"):
            serving.server_at(listener, network, print)


def test_start_on_abstract_socket(tmp_path):
    """A socket without a file has no mode, so that anybody may reach it."""
    network = read_network(lay_site(tmp_path), needs_ledger=False)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{tmp_path}")
        with pytest.raises(UsageError, match="give its socket the mode 0660"):
            serving.server_at(listener, network, print)


def test_start_while_night_reads(tmp_path):
    """A service that starts, or follows its file, waits for no night."""
    began = time.monotonic()
    with sole_use(tmp_path, 1):
        words.Inbox(tmp_path, "County hospital")
    assert time.monotonic() - began < words.PATIENCE


def test_start_without_folders(tmp_path):
    """A site needs the folder of its pages, and an inbox in which can be written."""
    file = lay_site(tmp_path)
    (tmp_path / "inbox").rmdir()
    with pytest.raises(UsageError, match=r"cannot write to .*inbox"), served(file):
        pass
    file.write_text(file.read_text().replace('publish = "pages"', ""))
    with (
        pytest.raises(UsageError, match="needs `publish` and `verdicts`"),
        served(file),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("somewhere:80", "somewhere"),
        ("unix:/no/such/folder/s", "/no/such/folder/s"),
        ("192.0.2.1:0", "192.0.2.1"),
    ],
)
def test_address_not_usable(address, reason):
    """An address at which nothing can listen is named."""
    with pytest.raises(UsageError, match=reason):
        serving.bound(address)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('address = "8750"', "write unix:/path/of/socket"),
        ('address = "127.0.0.1:65536"', "write unix:/path/of/socket"),
        ('login = "X Remote"', "login"),
        ('proxies = ["nginx"]', "proxies"),
        ('proxy = "127.0.0.1"', "proxy"),
        ('[serve.readers]\n"" = ["*"]', "a reader's name has"),
        ('[serve.readers]\na = ["ward-x"]', "series 'ward-x' does not exist"),
        ('[serve.keys]\nward-x = "secret"', "series 'ward-x' does not exist"),
        ('[serve.readers]\nchief = ["*"]\n"Chief." = ["*"]', "cannot distinguish"),
    ],
)
def test_table_refused(tmp_path, line, reason):
    """A fault in the table [serve] is named when the file is read, by every command."""
    file = tmp_path / "NIGHT.toml"
    series = '[series.ward-a]\nmodel = "m"\ncohort = "a.csv"\n'
    file.write_text(f'[site]\nledger = "l.db"\n[serve]\n{line}\n{series}')
    with pytest.raises(UsageError, match=reason):
        read_network(file)


def test_command_without_extra(tmp_path, monkeypatch):
    """Where starlette is missing, the command says what to install."""
    monkeypatch.delitem(sys.modules, "screening.serve.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = invoked("serve", lay_site(tmp_path))
    assert result.exit_code == 2
    assert 'uvicorn; install it: pip install "screening[serve]"' in result.stderr


def test_command_with_socket_of_systemd(tmp_path):
    """`screen serve` answers on the socket that systemd hands over, writes its audit to
    stdout, and ends by SIGTERM.
    """
    file = lay_site(tmp_path)
    path = tmp_path / "handed"
    with serving.bound(f"unix:{path}") as listener:
        os.set_inheritable(listener.fileno(), True)
        # The shell gives the socket the first number after the three streams.
        words = f'LISTEN_PID=$$ exec "$0" "$@" 3<&{listener.fileno()}'
        screen = Path(sys.executable).with_name("screen")
        command = ["bash", "-c", words, screen, "serve", file]
        process = subprocess.Popen(
            command, pass_fds=[listener.fileno()], stdout=subprocess.PIPE, text=True
        )
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(os.fspath(path))
        asking.sendall(f"GET / HTTP/1.1\r\nHost: a\r\n{LOGIN}: chief\r\n\r\n".encode())
        asking.settimeout(HUNG_SECONDS)
        assert asking.recv(15) == b"HTTP/1.1 200 OK"
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode in (143, -signal.SIGTERM)
    line = json.loads(printed)
    assert (line["reader"], line["what"], line["result"]) == ("chief", "start", 200)


# Words


def test_word_saved(empty):
    """A word becomes a file as the page would save it, named by the login."""
    answer = empty.save(words_of(IDS[:2], note="seen at 7", action="isolated"))

    assert answer.status == 200
    assert answer.json["done"] == "2 saved, 0 withdrawn"
    content = file_in(empty.inbox)
    READER.validate_python(content)
    assert (content["run_id"], content["site"]) == (RUN_ID, "County hospital")
    assert content["initials"] == "anna.weber"
    assert [one["id"] for one in content["verdicts"]] == IDS[:2]
    assert [one["action"] for one in content["verdicts"]] == ["isolated"] * 2
    (file,) = empty.inbox.glob("*.json")
    assert inbox._SAVED.fullmatch(file.name)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("action", ["", *ACTIONS])
def test_actions_of_page(empty, action):
    """What was done is one of what the page offers, or not stated."""
    assert empty.save(words_of(IDS[:1], action=action)).status == 200
    assert [word["action"] for word in empty.words("b.klein")] == [action]


def test_word_for_account_of_night(empty):
    """Where a group may read the inbox, such as the account of the night, it may read
    the file.
    """
    empty.inbox.chmod(0o750)
    empty.save(words_of(IDS[:1]))
    empty.inbox.chmod(0o700)
    (file,) = empty.inbox.glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o640


def test_words_of_two_reviewers(empty):
    """The words of two who differ are both kept, and both see both."""
    empty.save(words_of(IDS[:1]))
    empty.save(words_of(IDS[:1], "ruled out"), "b.klein")

    for reader in ("anna.weber", "b.klein"):
        seen = {(word["by"], word["verdict"]) for word in empty.words(reader)}
        assert seen == {("anna.weber", "confirmed"), ("b.klein", "ruled out")}
    assert len(list(empty.inbox.glob("*.json"))) == 2
    assert {word["state"] for word in empty.words()} == {"saved"}


def test_word_changed(empty):
    """The later word of a reader replaces the earlier one; other words stay."""
    empty.save(words_of(IDS[:2]))
    empty.save(words_of(IDS[:1], "unsure"))

    verdicts = {one["id"]: one["verdict"] for one in file_in(empty.inbox)["verdicts"]}
    assert verdicts == {IDS[0]: "unsure", IDS[1]: "confirmed"}


def test_post_replayed(empty):
    """A request that is sent again changes nothing."""
    empty.save(words_of(IDS[:2]))
    before = file_in(empty.inbox)
    empty.save(words_of(IDS[:2]))
    assert file_in(empty.inbox) == before


def test_word_withdrawn(empty):
    """A word without a verdict is withdrawn; with the last one its file is gone."""
    empty.save(words_of(IDS[:2]))
    empty.save(words_of(IDS[:1], "ruled out"), "b.klein")

    first = empty.save(words_of(IDS[:1], ""))
    assert first.json["done"] == "0 saved, 1 withdrawn"
    assert [word["by"] for word in first.json["words"] if word["id"] == IDS[0]] == [
        "b.klein"
    ]
    empty.save(words_of(IDS[1:2], ""))
    assert file_in(empty.inbox)["initials"] == "b.klein"


def test_word_read_by_night(empty):
    """What the night has read can be changed, and not be withdrawn."""
    empty.save(words_of(IDS[:1]))
    (file,) = empty.inbox.glob("*.json")
    (empty.inbox / "done").mkdir(exist_ok=True)
    file.rename(empty.inbox / "done" / file.name)

    assert empty.words()[0]["state"] == "read overnight"
    withdrawn = empty.save(words_of(IDS[:1], ""))
    assert withdrawn.status == 409
    assert "this verdict has already been read" in withdrawn.json["error"]
    assert empty.save(words_of(IDS[:1], "ruled out")).status == 200
    assert empty.words()[0]["verdict"] == "ruled out"
    assert empty.words()[0]["state"] == "saved"


def test_word_changed_after_clock(empty):
    """Where the clock was set back since the night read a word, the changed word is
    still the later one.
    """
    empty.save(words_of(IDS[:1]))
    (file,) = empty.inbox.glob("*.json")
    content = file_in(empty.inbox)
    (verdict,) = content["verdicts"]
    given = datetime.fromisoformat(verdict["given"]) + timedelta(hours=1)
    verdict["given"] = given.isoformat()
    (empty.inbox / "done").mkdir(exist_ok=True)
    (empty.inbox / "done" / file.name).write_text(json.dumps(content))
    file.unlink()

    empty.save(words_of(IDS[:1], "ruled out"))
    (word,) = empty.words()
    assert (word["verdict"], word["state"]) == ("ruled out", "saved")
    assert datetime.fromisoformat(word["given"]) > given


def test_word_refused_by_night(empty):
    """What the night refused is shown so."""
    empty.save(words_of(IDS[:1]))
    (file,) = empty.inbox.glob("*.json")
    (empty.inbox / "refused").mkdir(exist_ok=True)
    file.rename(empty.inbox / "refused" / file.name)
    assert empty.words()[0]["state"] == "refused overnight"


FORGED = {
    "no JSON": b"{",
    "not UTF-8": b'{"run_id": "\xff"}',
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "no words": words_of([]),
    "unknown verdict": words_of(IDS[:1], "cured"),
    "another key": words_of(IDS[:1], initials="b.klein"),
    "a time": words_of(IDS[:1], given="2025-03-11T07:00:00Z"),
    "a key twice": words_of(IDS[:1]).replace(b'"run_id"', b'"run_id": "x", "run_id"'),
    "a patient twice": words_of([IDS[0], IDS[0]]),
    "a long note": words_of(IDS[:1], note="x" * 2001),
    "an action that the page does not offer": words_of(IDS[:1], action="discharged"),
    "a null": words_of(IDS[:1], note="\0"),
    "a forged id": words_of(["no-such-patient"]),
    "a forged id among others": words_of([*IDS[:1], "no-such-patient"]),
    "a number as id": words_of([1]),
}


@pytest.mark.parametrize("case", FORGED)
def test_words_forged(empty, case):
    """What the page cannot have sent is refused as a whole, and nothing is written."""
    answer = empty.save(FORGED[case])
    assert answer.status == 400
    assert answer.json == {"error": "this was refused"}
    assert list(empty.inbox.rglob("*.*")) == []


def test_words_too_many(empty):
    """A body of more than half a megabyte is refused."""
    answer = empty.save(b" " * (app.MAX_BODY + 1))
    assert answer.status == 413
    assert list(empty.inbox.rglob("*.*")) == []
    seen = [tuple(line.values())[2:] for line in empty.audit]
    assert seen == [("save", "anna.weber", "ward-a", NIGHT, "body", 413)]


def test_file_of_words_too_large(empty, monkeypatch):
    """A file that the night could not read is not written; the earlier words stay."""
    empty.save(words_of(IDS[:1]))
    before = file_in(empty.inbox)
    monkeypatch.setattr(words, "MAX_BYTES", 2000)
    assert empty.save(words_of(IDS[:2], note="x" * 1000)).status == 413
    assert file_in(empty.inbox) == before


def test_word_on_long_id():
    """An id may have any length: it has to be one of the page."""
    (said,) = words.saying_of(words_of(["x" * 600])).words
    assert said.id == "x" * 600


def test_words_on_replaced_page(empty):
    """Words on a page that was replaced since are refused, and the page says so."""
    answer = empty.save(words_of(IDS[:1]).replace(RUN_ID.encode(), b"20250311-000000"))
    assert answer.status == 409
    assert "the page was replaced" in answer.json["error"]


@pytest.mark.parametrize(
    "header",
    [
        {"X-Letterbox": ""},
        {"X-Letterbox": "0"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
)
def test_post_of_another_site(empty, header):
    """What a form, or the script of another site, can send is refused."""
    answer = empty.save(words_of(IDS[:1]), **header)
    assert answer.status in (400, 403)
    assert list(empty.inbox.rglob("*.*")) == []


def test_words_asked_without_header(empty):
    """Words are shown to the page's own script alone, and asking changes nothing."""
    address, body = f"/ward-a/{NIGHT}.json", words_of(IDS[:1])
    assert empty.ask(address).status == 403
    assert empty.ask(address, body=body, **BY_SCRIPT).json["words"] == []
    assert list(empty.inbox.rglob("*.json")) == []


def test_rates(empty, monkeypatch):
    """A reader who saves or asks too often waits; others do not."""
    monkeypatch.setattr(app, "MAX_SAVES", 3)
    monkeypatch.setattr(app, "time", SimpleNamespace(monotonic=lambda: 7.0e6))
    statuses = [empty.save(words_of(IDS[:1])).status for _ in range(4)]
    other = empty.save(words_of(IDS[:1]), "b.klein")
    monkeypatch.setattr(app, "MAX_REQUESTS", 6)
    asked = [empty.ask("/").status for _ in range(3)]
    unknown = [empty.ask("/", "").status for _ in range(7)]
    monkeypatch.setattr(app, "time", SimpleNamespace(monotonic=lambda: 7.0e6 + 60))
    later = empty.save(words_of(IDS[:1]))

    assert statuses == [200, 200, 200, 429]
    assert other.status == 200
    assert asked == [200, 200, 429]
    assert unknown == [403] * 6 + [429]
    assert later.status == 200


def test_word_while_night_reads(empty, monkeypatch):
    """While a night reads the inbox, a word is not saved, and the page is told."""
    monkeypatch.setattr(words, "PATIENCE", 0.1)
    with sole_use(empty.inbox, 1):
        answer = empty.save(words_of(IDS[:1]))
    assert answer.status == 503
    assert "cannot do this now" in answer.json["error"]
    assert list(empty.inbox.glob("*.json")) == []


def test_night_while_word_is_saved(tmp_path, monkeypatch):
    """A night leaves a file that the service is writing, and reads it the next time."""
    monkeypatch.setattr(inbox, "LETTERBOX_SECONDS", 0.1)
    network = read_network(lay_site(tmp_path), needs_ledger=False)
    folder = tmp_path / "inbox"
    (folder / "a.json").write_text("{}")
    with open_ledger(tmp_path / "l.db", make=True) as ledger, sole_use(folder, 1):
        (line,) = inbox.read_inbox(network, ledger, folder)
    assert line.waits
    assert (folder / "a.json").exists()


@pytest.mark.parametrize("what", ["reason", "folder"])
def test_night_follows_no_link(tmp_path, what):
    """Who may write to the inbox, as the service may, does not choose where the night
    writes.
    """
    network = read_network(lay_site(tmp_path), needs_ledger=False)
    folder, elsewhere = tmp_path / "inbox", tmp_path / "elsewhere"
    (folder / "a.json").write_text("[]")
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("of the night's account")
    refused = folder / "refused"
    if what == "folder":
        refused.symlink_to(elsewhere)
    else:
        refused.mkdir()
        (refused / "a.txt").symlink_to(elsewhere / "a.txt")
    with open_ledger(tmp_path / "l.db", make=True) as ledger, suppress(UsageError):
        (line,) = inbox.read_inbox(network, ledger, folder)
        assert "cannot be moved" in line.refused
    assert [path.name for path in elsewhere.iterdir()] == ["a.txt"]
    assert (elsewhere / "a.txt").read_text() == "of the night's account"


def test_sole_use_waits(tmp_path):
    """Who asks for a folder waits for its user, and no longer than it is said."""
    had = threading.Event()

    def use():
        with sole_use(tmp_path, 1):
            had.set()
            time.sleep(0.3)

    user = threading.Thread(target=use)
    user.start()
    had.wait()
    with pytest.raises(Locked), sole_use(tmp_path, 0):
        pass
    with sole_use(tmp_path, HUNG_SECONDS):
        user.join()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["{", '{"format": 1, "verdicts": []}'])
def test_file_damaged(empty, damage):
    """A file of words that was damaged is shown to nobody, and is not replaced."""
    empty.save(words_of(IDS[:1]))
    (file,) = empty.inbox.glob("*.json")
    file.write_text(damage)
    assert empty.words() == []
    assert empty.save(words_of(IDS[1:2])).status == 409
    assert file.read_text() == damage


def test_file_is_link(empty, tmp_path):
    """A link in the place of a file of words is neither read nor followed."""
    empty.save(words_of(IDS[:1]))
    (file,) = empty.inbox.glob("*.json")
    file.rename(tmp_path / "elsewhere.json")
    before = (tmp_path / "elsewhere.json").read_bytes()
    file.symlink_to(tmp_path / "elsewhere.json")
    assert empty.words() == []
    assert empty.save(words_of(IDS[1:2])).status == 409
    assert (tmp_path / "elsewhere.json").read_bytes() == before


# Pages


def test_page_changed_by_button_alone(empty):
    """Of a published page nothing changes but the script that gives *Save* its target,
    and the policy that allows it.
    """
    sent = empty.ask(f"/ward-a/{NIGHT}.html").body
    own, _, rest = sent.partition(b"<script data-reader=")
    _, _, rest = rest.partition(b"</script>")
    policy = policy_of(own).encode().replace(b"'", b"&#x27;")
    published = policy_of(PAGE).encode().replace(b"'", b"&#39;")

    assert policy in own
    assert (own.replace(policy, published) + rest).replace(b"&#39;", b"'") == (
        PAGE.replace(b"&#39;", b"'")
    )
    assert (empty.folder / "pages" / "ward-a" / f"{NIGHT}.html").read_bytes() == PAGE


def test_policy_of_page(empty):
    """The header has the policy of the page, no frame, and no other script."""
    answer = empty.ask(f"/ward-a/{NIGHT}.html")
    policy = answer.headers["content-security-policy"]
    assert policy.endswith("connect-src 'self'; frame-ancestors 'none'")
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert policy.count("'sha256-") == policy_of(PAGE).count("'sha256-") + 1


def test_names_escaped(tmp_path):
    """A reader's name is text on every page, whatever is in it."""
    name = "<b>\"'&"
    table = f"[serve]\nlogin = '{LOGIN}'\n[serve.readers]\n{json.dumps(name)} = ['*']\n"
    with served(lay_site(tmp_path, table)) as box:
        page, start = box.ask(f"/ward-a/{NIGHT}.html", name), box.ask("/", name)
        box.save(words_of(IDS[:1]), name)
    assert page.status == start.status == 200
    assert b"<b>\"'" not in page.body + start.body
    assert b'data-reader="&lt;b&gt;&quot;&#x27;&amp;"' in page.body
    assert file_in(box.inbox)["initials"] == name


def test_page_without_verdicts(empty):
    """A page on which nothing can be judged is sent as it was published."""
    page = PAGE.replace(b"data-run=", b"data-ran=")
    file = empty.folder / "pages" / "ward-a" / "2025-03-10.html"
    file.write_bytes(page)
    assert empty.ask("/ward-a/2025-03-10.html").body == page
    script = {"X-Letterbox": "1"}
    assert empty.ask("/ward-a/2025-03-10.json", **script).status == 404


def test_ids_of_page():
    """The lines of a page are those that its own script would judge."""
    shown = '<ol><li class=c data-score="1"><span class=id><bdi>{}</bdi></span>'
    assert ids_of(PAGE) >= set(IDS)
    assert ids_of(shown.format("a&amp;b").encode()) == {"a&b"}
    assert ids_of(shown.format("<span>12</span>34").encode()) == {"1234"}
    kept = '<li class="c" data-id="a&#9;b"><span class=id><bdi>a b</bdi></span>'
    assert ids_of(kept.encode()) == {"a\tb"}
    assert ids_of(b"<p class=c><span class=id><bdi>1</bdi></span>") == set()


@pytest.mark.parametrize("what", ["page", "ward", "circle", "pipe", "folder"])
def test_links_not_followed(empty, tmp_path, what):
    """Neither a link nor what is no file is shown, wherever it leads."""
    pages = empty.folder / "pages"
    ward = pages / "ward-b"
    kept = tmp_path / "kept"
    ward.rename(kept)
    try:
        page = ward / f"{NIGHT}.html"
        if what == "ward":
            ward.symlink_to(pages / "ward-a")
        else:
            ward.mkdir()
        if what == "page":
            page.symlink_to(pages / "ward-a" / f"{NIGHT}.html")
        if what == "circle":
            page.symlink_to(page.name)
        if what == "pipe":
            os.mkfifo(page)
        if what == "folder":
            page.mkdir()
        assert empty.ask(f"/ward-b/{NIGHT}.html", "b.klein").status == 404
    finally:
        ward.unlink() if ward.is_symlink() else shutil.rmtree(ward)
        kept.rename(ward)


def test_link_put_in_between(empty, monkeypatch):
    """A folder that becomes a link while a page in it is opened leads nowhere else."""
    pages = empty.folder / "pages"
    ward, kept = pages / "ward-b", pages / "kept"
    (pages / "ward-a" / "2025-03-09.html").write_text("of others")
    (ward / "2025-03-09.html").write_text("own")
    opened = os.open

    def swapping(name, *args, **more):
        if name == "2025-03-09.html":
            ward.rename(kept)
            ward.symlink_to(pages / "ward-a")
        return opened(name, *args, **more)

    monkeypatch.setattr(os, "open", swapping)
    try:
        assert empty.ask("/ward-b/2025-03-09.html", "b.klein").body == b"own"
    finally:
        ward.unlink()
        kept.rename(ward)


def test_nights_behind_link(tmp_path):
    """The nights of a folder behind a link are not named."""
    (tmp_path / "ward-a").mkdir()
    (tmp_path / "ward-a" / f"{NIGHT}.html").touch()
    (tmp_path / "ward-b").symlink_to("ward-a")
    assert Shelf(tmp_path).latest("ward-a") == NIGHT
    assert Shelf(tmp_path).latest("ward-b") is None


# What leaves the service, and what is kept of a request


def test_headers_of_every_answer(empty):
    """Nothing is stored by a browser, framed, or taken for something else."""
    answers = [
        empty.ask("/"),
        empty.ask(f"/ward-a/{NIGHT}.html"),
        empty.ask("/ward-a/latest.html"),
        empty.save(words_of(IDS[:1])),
        empty.ask("/nothing"),
        empty.ask("/", "mallory"),
        empty.ask("/", method="DELETE"),
    ]
    assert [each.status for each in answers] == [200, 200, 303, 200, 404, 403, 405]
    for answer in answers:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        policy = answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        assert not {"server", "set-cookie", "etag"} & answer.headers.keys()
        assert not [name for name in answer.headers if name.startswith("access-")]


def test_answers_over_tls(site):
    """With a certificate a page comes by TLS 1.2 and later, and by nothing else."""
    certificate, key = make_certificate(site)
    places = f'[serve]\ncertificate = "{certificate}"\ncertificate_key = "{key}"'
    current = ssl.create_default_context(cafile=certificate)
    old = ssl.create_default_context(cafile=certificate)
    # OpenSSL itself has these only at its lowest level.
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    key_of_ward = basic("anna", SECRET)["Authorization"]
    asked = (
        f"GET /ward-a/{NIGHT}.html HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: {key_of_ward}\r\n\r\n"
    ).encode()

    table = BY_KEYS.replace("[serve]", places)
    with served(lay_site(site, table), "127.0.0.1:0") as box:
        plain = box.raw(asked)
        with current.wrap_socket(box.connected(), server_hostname="localhost") as line:
            line.sendall(asked)
            answer = b"".join(iter(lambda: line.recv(65536), b""))
        with box.connected() as line, pytest.raises(ssl.SSLError, match=r"VERSION|EOF"):
            old.wrap_socket(line, server_hostname="localhost")

    assert plain == b""
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"strict-transport-security: max-age=31536000\r\n" in answer


def test_audit(empty):
    """Each request leaves one line: who, when, what, of which ward, its result."""
    empty.ask(f"/ward-a/{NIGHT}.html")
    empty.save(words_of(IDS[:1]))
    empty.ask(f"/ward-b/{NIGHT}.html")
    empty.ask("/", "mallory")
    empty.raw(b"\x16\x03\x01\r\n\r\n")
    chunked = (
        f"POST / HTTP/1.1\r\nHost: a\r\n{LOGIN}: chief\r\nTransfer-Encoding: chunked"
    )
    empty.raw(f"{chunked}\r\n\r\nno length\r\n".encode())
    empty.ask(f"/ward-a/{NIGHT}.html", method="PUT")

    seen = [tuple(line.values())[1:] for line in empty.audit]
    assert seen == [
        ("", "page", "anna.weber", "ward-a", NIGHT, "", 200),
        ("", "save", "anna.weber", "ward-a", NIGHT, "1 saved, 0 withdrawn", 200),
        ("", "page", "anna.weber", "ward-b", "", "ward of others", 404),
        ("", "other", "mallory", "", "", "reader without a ward", 403),
        ("", "other", "", "", "", "no HTTP request", 400),
        ("", "other", "chief", "", "", "the reader disconnected", 503),
        ("", "other", "anna.weber", "ward-a", NIGHT, "method", 405),
    ]
    assert next(iter(empty.audit[0])) == "time"


def test_audit_holds_no_id(empty):
    """No id is in an address that the page uses, nor in a line of the audit."""
    empty.save(words_of(IDS))
    empty.save(words_of(["forged-id-4711"]))
    empty.ask("/ward-a/4711-0815.html")
    empty.ask(f"/ward-a/{NIGHT}.html?id=4711")
    empty.ask("/4711/2025-03-11.html")

    assert [line["result"] for line in empty.audit] == [200, 400, 404, 404, 404]
    text = json.dumps(empty.audit)
    assert "4711" not in text
    assert [name for name in IDS if name in text] == []


def test_traceback_stays(empty, monkeypatch):
    """Neither message nor traceback of a bug leaves; the audit has its place."""
    value = "patient 4711"

    def fails(*args):
        raise ValueError(value)

    monkeypatch.setattr(Shelf, "page", fails)
    answer = empty.ask(f"/ward-a/{NIGHT}.html")
    assert answer.status == 500
    assert answer.json == {"error": "this was refused"}
    (line,) = empty.audit
    assert "ValueError: File" in line["reason"]
    assert "test_serve.py" in line["reason"]
    assert value not in line["reason"]
