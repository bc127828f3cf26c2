"""What system, terminal and files do to a command ends in a message and an exit code,
never a traceback.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from enum import EnumType
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, get_args, get_origin

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import as_json, screen
from hung import HUNG_SECONDS
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import make_url
from typer.models import OptionInfo
from written_files import names_in, read_json

from faults.amounts import counted
from faults.desk import content, copied
from screening.cli import app
from screening.cli.boundary import OPTION_OF_PARAMETER
from screening.cli.console import printable
from screening.cli.groups import IN_OTHER_BYTES
from screening.contract.contract import Contract
from screening.data.observed_ids import DuplicateIds
from screening.errors import CohortError, ModelError, UsageError, of_system
from screening.io.database import KeptAnswer
from screening.ledger.database import open_ledger
from screening.scoring import refused_file as refused_file_module
from screening.scoring.flagged_list import as_text
from screening.scoring.refused_file import refused_file
from screening.store.loading import load_model
from screening.store.publishing import publish, write_whole
from screening.store.serialization import canonical, read_document

NUMBERS = (
    errno.ENOSPC,
    errno.EIO,
    errno.EACCES,
    errno.EROFS,
    errno.EBUSY,
    errno.ELOOP,
    errno.ENAMETOOLONG,
)


@pytest.mark.parametrize("number", NUMBERS, ids=errno.errorcode.get)
def test_every_refusal_of_the_system_is_told_with_path_and_reason(
    number, tmp_path, monkeypatch
):
    def refuse(*words: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(
        UsageError, match=f"{tmp_path / 'page.html'}: .*{os.strerror(number)}"
    ):
        write_whole(tmp_path / "page.html", b"x")

    assert list(tmp_path.iterdir()) == []
    counted("refusals of the system", 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["--help", "recipes --json"])
def test_a_full_disk_behind_the_answer_is_told(words):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "screening", *words.split()]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("screen: ")
    assert "No space left" in ended.stderr


def add_hashes(folder):
    ids = DuplicateIds()
    ids.add(np.ones(3, np.uint64))
    ids.repeats()


def keep_answer(folder):
    rows = pa.record_batch({"x": [1.0]})
    KeptAnswer("query", make_url("sqlite://"), "select x", ["x"], [rows])


def list_refused_cells(folder):
    with refused_file(folder / "refused.csv"):
        pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("write", [add_hashes, keep_answer, list_refused_cells])
def test_full_temporary_folder_is_named(write, monkeypatch, tmp_path):
    """Its files have no names: the run directory's disk would be suspected."""

    def full_file(*args: object):
        return open("/dev/full", "w+b")

    for place in (tempfile, refused_file_module):
        monkeypatch.setattr(place, "TemporaryFile", full_file)
    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", full_file)

    with pytest.raises(OSError, match="No space left") as refusal:
        write(tmp_path)

    assert f"{tempfile.gettempdir()} (TMPDIR)" in str(of_system(refusal.value))
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves_early_gets_no_traceback():
    command = f"{sys.executable} -m screening recipes --json | head -c 1"
    ended = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True
    )
    assert ended.returncode in (0, 2)
    assert "Traceback" not in ended.stderr


def test_closed_streams_are_opened_so_that_no_file_takes_their_numbers(desk):
    command = f"{sys.executable} -m screening report {desk / 'run'} 0<&- >&- 2>&-"
    before = content(desk / "run")
    assert subprocess.run(["bash", "-c", command]).returncode == 0
    assert content(desk / "run") == before


ABORTS = "import os\nfrom screening.cli.boundary import bounded\nbounded(os.abort)"


@pytest.mark.parametrize(
    ("cap", "words", "gib"),
    [
        ("-v 600000", "-m screening report {run}", "0.6"),
        ("-c 0 -v 8000000", f"-c '{ABORTS}'", "7.6"),
    ],
)
def test_cap_on_memory_is_named(desk, cap, words, gib):
    """Also where a library aborts under it."""
    command = f"ulimit {cap}; {sys.executable} {words.format(run=desk / 'run')}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert ended.returncode == 2
    assert f"not enough memory: the process may use {gib} GiB" in ended.stderr


LATE = """
import atexit, sys
from joblib.externals.loky import get_reusable_executor
import screening.cli
from screening.__main__ import run

class Late:
    def __del__(self):
        print("taken apart", flush=True)

def check(*_):
    sys.late = Late()
    atexit.register(print, "cleaned up", flush=True)
    get_reusable_executor(1, timeout=10_000).submit(int).result()
    sys.exit(3)

screening.cli.bounded = check
run()
"""


def test_interpreter_not_taken_apart(tmp_path):
    """Nothing of a library runs after a command has cleaned up, which could end it with
    another code; its processes have ended before.
    """
    ended = subprocess.run(
        [sys.executable, "-c", LATE],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=HUNG_SECONDS,
    )

    assert ended.returncode == 3
    assert ended.stdout == "cleaned up\n"


SIGNALLED = """
import os, signal, sys
from screening.cli import boundary

def ended_at(at):
    lines = iter(range(at))
    def trace(frame, event, given):
        if frame.f_code.co_filename == boundary.__file__ and next(lines, None) is None:
            sys.settrace(None)
            os.write(sent, b"1")
            os.kill(os.getpid(), signal.SIGTERM)
        return trace
    sys.settrace(trace)
    try:
        boundary.bounded(lambda: None)
    except SystemExit as ended:
        # Without the tidying up of an interpreter, which takes longer than all else.
        os._exit(ended.code)

at, was_sent = 0, True
while was_sent:
    said, sent = os.pipe()
    child = os.fork()
    if not child:
        ended_at(at)
    print(at, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os.close(sent)
    was_sent = bool(os.read(said, 1))
    at += 1
"""


def test_signal_at_any_line():
    """A signal at any line of the boundary ends the command without a traceback.

    Every line in turn: chance finds the gap between two of them in one run of a
    hundred.
    """
    ended = subprocess.run(
        [sys.executable, "-c", SIGNALLED], capture_output=True, text=True
    )
    lines = ended.stdout.splitlines()
    codes = [int(line.split()[1]) for line in lines]
    assert len(codes) > 30
    assert 143 in codes
    assert set(codes) <= {0, 143, -signal.SIGTERM}, ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_model_is_not_damaged_because_memory_has_ended(desk, monkeypatch):
    def starved(*words, **settings):
        raise pa.ArrowMemoryError

    monkeypatch.setattr(pq, "read_table", starved)
    with pytest.raises(MemoryError):
        load_model(desk / "model")


@pytest.mark.skipif(
    sys.platform == "darwin", reason="its file systems have no such names"
)
def test_path_not_utf8(desk, tmp_path):
    """A path that is not UTF-8 is refused by its bytes and a table of such a name is
    read."""
    folder = os.fsencode(tmp_path) + b"/r\xff"
    table = os.fsdecode(folder + b".csv")
    Path(table).write_bytes((desk / "tonight.csv").read_bytes())
    refused = screen(
        "score",
        desk / "model",
        desk / "tonight.csv",
        "--out",
        os.fsdecode(folder),
        code=2,
    )
    screen("score", desk / "model", table, "--out", tmp_path / "run")
    assert "r\\xff is not UTF-8" in refused.stderr
    (file,) = read_document(tmp_path / "run", "run")["input"]["files"]
    assert file["name"] == "r\\xff.csv"


def published(place: Path) -> None:
    with publish(place, "run") as folder:
        (folder / "run.json").touch()


def test_sweep_after_dead_process(tmp_path):
    """What a dead process left in the folder is swept and a stranger's lock is not."""
    (tmp_path / ".other.partial").mkdir()
    for name in (
        ".other.partial/scores.parquet",
        ".other.screening-lock",
        ".theirs.lock",
    ):
        (tmp_path / name).touch()
    published(tmp_path / "run")
    assert names_in(tmp_path) == {"run", ".theirs.lock"}


def test_with_umask_0_nothing_is_open_to_others(tmp_path):
    before = os.umask(0)
    try:
        published(tmp_path / "made" / "run")
    finally:
        os.umask(before)
    made = tmp_path / "made"
    folders = [made, *(path for path in made.rglob("*") if path.is_dir())]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folders}
    assert modes == {0o700}


def test_a_link_is_followed_and_a_circle_of_links_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    published(tmp_path / "link")
    with pytest.raises(UsageError), publish(tmp_path / "circle", "run"):
        pytest.fail("the block must not start")
    assert (tmp_path / "there" / "run.json").exists()
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("place", ["/dev", "/dev/null"])
def test_mount_points_and_devices_are_never_replaced(place):
    with pytest.raises(UsageError), publish(place, "run"):
        pytest.fail("the block must not start")
    with pytest.raises(UsageError):
        write_whole(place, b"x")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"flagged": 9', b'"flagged": 8'),
        (b'"sha256": "', b'"sha257": "'),
        (b'"format_version": 1,', b'"format_version": 0,'),
    ],
)
def test_a_run_with_one_byte_changed_is_refused(desk, tmp_path, old, new):
    folder = Path(shutil.copytree(desk / "run", tmp_path / "run"))
    sealed = canonical(read_json(folder / "run.json"))
    changed = sealed.replace(old, new, 1)
    (folder / "run.json").write_bytes(changed)
    with pytest.raises(ModelError, match="damaged"):
        read_document(folder, "run")


WRONG = [
    "feature_order = [1]",
    "[cohort]\nminutes_per_review = inf",
    "x = " + "[" * 5000,
    "\0",
]


@pytest.mark.parametrize("text", WRONG)
def test_a_contract_with_a_wrong_value_is_refused(text, tmp_path):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(CohortError):
        Contract.load(tmp_path / "c.toml")


def test_half_an_emoji_in_a_note_is_refused(desk, tmp_path):
    verdicts = read_json(desk / "verdicts.json")
    verdicts["verdicts"][0]["note"] = "\ud83d"
    (tmp_path / "v.json").write_text(json.dumps(verdicts))
    screen(
        "review",
        desk / "run",
        tmp_path / "v.json",
        "--ledger",
        desk / "screening.db",
        code=3,
    )


def test_a_database_that_is_not_ours_is_refused_unchanged(tmp_path):
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE patients (name TEXT)")
    path.chmod(0o644)
    before = path.read_bytes()
    for make in (True, False):
        with pytest.raises(UsageError, match="it was not changed"):
            open_ledger(path, make=make)

    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_ledger_read_without_writing(desk):
    """A ledger bears our number stays shared and is read without writing."""
    path = desk / "screening.db"
    path.chmod(0o660)
    before = path.read_bytes(), path.stat().st_mtime_ns
    for words in (("history", "--verify"), ("status", "--max-age", "1000d")):
        screen(*words, "--ledger", path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    with open_ledger(path):
        pass

    assert path.read_bytes()[68:72] == b"scrn"
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_a_night_to_come_is_refused_and_not_believed(desk, tmp_path):
    folder = copied(desk, tmp_path / "desk")
    ledger = ("--ledger", folder / "screening.db")
    out = ("--out", folder / "later")
    words = (
        "score",
        folder / "model",
        folder / "tonight.csv",
        "--date",
        "2999-01-01",
        *ledger,
        *out,
    )
    screen(*words, code=2)
    screen(*words, "--allow-future", "--accept-delivery", "the same table again")
    (told,) = as_json("status", *ledger, "--max-age", "1000d")["series"]
    assert told["night"] == "2026-03-01"


@given(st.text(alphabet=" =+-@;,|\t\r\n'\"＝＋ab1​"))
def test_no_part_of_a_cell_begins_like_a_formula(text):
    parts = re.split(r"[,|;\t]", as_text(text))
    first_characters = {part.strip()[:1] for part in parts}
    assert not first_characters & set("=+-@＝＋")


@given(st.text(), st.booleans())
def test_what_is_printed_steers_no_terminal_and_json_reads_it_back(text, ascii_only):
    text_in_json = json.dumps({"id": text}, ensure_ascii=ascii_only)
    line = printable(text_in_json)
    assert not [
        c
        for c in line
        if ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066\u200f\u2028"
    ]
    assert json.loads(line) == {"id": text}


APART = ["unshare", "--map-root-user", "--net"]
CALL = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"
PERMITTED = (
    shutil.which("unshare")
    and subprocess.run([*APART, "true"], capture_output=True).returncode == 0
)


@pytest.mark.skipif(
    not PERMITTED, reason="this host lets nobody make a namespace without a network"
)
def test_a_night_runs_where_there_is_no_network(desk, tmp_path):
    """Nothing is looked up, fetched or reported anywhere."""
    folder = copied(desk, tmp_path / "desk")
    ledger = ["--ledger", folder / "screening.db"]
    score = [
        "score",
        folder / "model",
        folder / "tonight.csv",
        "--out",
        folder / "next",
    ]
    score += ["--date", "2026-03-02", "--accept-delivery", "the same table again"]
    command = [*APART, sys.executable, "-c", CALL]
    called = subprocess.run(command, capture_output=True, text=True)
    night = (
        ["check", folder / "tonight.csv", "--model", folder / "model"],
        [*score, *ledger],
        ["report", folder / "next"],
        ["status", "--max-age", "9999d", *ledger],
        ["history", "--verify", *ledger],
    )

    for words in night:
        command = [*APART, sys.executable, "-m", "screening", *map(str, words)]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.returncode == 0, (words[0], ended.stderr)
    assert "unreachable" in called.stderr
    assert read_document(folder / "next", "run")["date"] == "2026-03-02"


def texts_of_commands() -> Iterator[tuple[str, str, list[str]]]:
    """Every option of every command that takes text, and words that the command
    needs.
    """
    for registered in app.registered_commands:
        parameters = signature(registered.callback).parameters
        needed = []
        options = []
        for name, parameter in parameters.items():
            if get_origin(parameter.annotation) is not Annotated:
                continue
            kind, about = get_args(parameter.annotation)[:2]
            is_option = isinstance(about, OptionInfo)
            flag = OPTION_OF_PARAMETER.get(name, "--" + name.replace("_", "-"))
            if parameter.default is Parameter.empty:
                word = next(iter(kind)).value if isinstance(kind, EnumType) else "."
                needed += [flag, word] if is_option else [word]
            is_text = kind in (str, str | None, list[str] | None)
            if is_option and is_text and name not in IN_OTHER_BYTES:
                options.append(flag)
        for option in options:
            yield registered.name, option, needed


@pytest.mark.parametrize(("command", "option", "needed"), [*texts_of_commands()])
def test_text_in_latin_1_is_refused(command, option, needed):
    """A text in bytes that are not UTF-8, as an old script has them, ends in one
    line.
    """
    name = b"M\xfcller".decode("utf-8", "surrogateescape")

    refused = screen(command, *needed, option, name, code=2)

    assert f"{option}: the text is not UTF-8" in refused.stderr
