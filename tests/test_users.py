"""Root works as the user who owns the ledger, and what replaces a file is owned
alike.
"""

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from flow_cohorts import night_of_patients, written

from screening import open_ledger
from screening.cli import users
from screening.store.model import save_model
from screening.store.publishing import publish, write_whole

NOBODY = pwd.getpwnam("nobody")


def may_give_away() -> bool:
    """Return True if this process may give a file to somebody else, as root may."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.chown(file.name, NOBODY.pw_uid, NOBODY.pw_gid)
        except PermissionError:
            return False
    return True


needs_root = pytest.mark.skipif(not may_give_away(), reason="needs root")
# Python itself must be open to the other account.
open_to_all = pytest.mark.skipif(
    any(
        not place.stat().st_mode & stat.S_IXOTH
        for prefix in (sys.prefix, sys.base_prefix)
        for place in (Path(prefix), *Path(prefix).parents)
    ),
    reason="needs a Python that every account may run",
)


@pytest.fixture
def folder(tmp_path):
    """A folder with a ledger; every account may enter it."""
    for place in (tmp_path, *tmp_path.parents[:2]):
        place.chmod(0o755)
    open_ledger(tmp_path / "l.db", make=True).close()
    return tmp_path


def test_file_replaced_keeps_mode(tmp_path):
    page = tmp_path / "page.html"
    write_whole(page, b"first")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    page.chmod(0o640)

    write_whole(page, b"second")

    assert stat.S_IMODE(page.stat().st_mode) == 0o640
    assert page.read_bytes() == b"second"


def test_directory_replaced_keeps_modes(tmp_path):
    out = tmp_path / "out"
    for words in ("first", "second"):
        with publish(out, "comparison") as partial:
            (partial / "comparison.json").write_text(words)
            (partial / f"{words}.txt").write_text(words)
            (partial / f"{words}.txt").rename(partial / "report.html")
        if words == "first":
            out.chmod(0o750)
            (out / "report.html").chmod(0o640)

    modes = {}
    for path in out.iterdir():
        modes[path.name] = stat.S_IMODE(path.stat().st_mode)
    assert stat.S_IMODE(out.stat().st_mode) == 0o750
    assert modes == {"comparison.json": 0o600, "report.html": 0o640}


@needs_root
def test_directory_replaced_keeps_owner(tmp_path):
    out = tmp_path / "out"
    for words in ("first", "second"):
        with publish(out, "comparison") as partial:
            (partial / "comparison.json").write_text(words)
        if words == "first":
            for path in (out, *out.iterdir()):
                os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)

    owners = set()
    for path in (out, *out.iterdir()):
        owners.add((path.stat().st_uid, path.stat().st_gid))
    assert owners == {(NOBODY.pw_uid, NOBODY.pw_gid)}


def test_other_user_is_told(folder, monkeypatch, caplog):
    """Somebody who is neither the owner nor root is told, and goes on."""
    owner = os.geteuid()
    became = []
    monkeypatch.setattr(users, "_become", lambda *ids: became.append(ids))
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    users.act_as_owner(str(folder / "l.db"))

    assert became == []
    assert "belongs to user" in caplog.text


def test_database_on_server_has_owner_of_folder(folder, monkeypatch):
    """A ledger that is no file is worked on as the owner of the site's runs."""
    became = []
    monkeypatch.setattr(users, "_become", lambda *ids: became.append(ids))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(users, "_owner_of", lambda path: (4711, 4712))

    users.act_as_owner("postgresql://host/ledger", folder)
    users.act_as_owner("postgresql://host/ledger")

    assert became == [(4711, 4712)]


@needs_root
@open_to_all
def test_root_goes_on_as_owner(folder, cohort, trained):
    """A night that root scores belongs to the user of the ledger, all of it."""
    save_model(trained(cohort, "logistic", search=1), folder / "m")
    written(night_of_patients(60, seed=1), folder / "night.csv")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)

    command = [sys.executable, "-m", "screening", "score", "m", "night.csv"]
    command += ["--out", "runs/1", "--ledger", "l.db", "--series", "w"]
    ended = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert "switches to nobody" in ended.stderr
    written_since = [folder / "l.db", *(folder / "runs").rglob("*")]
    assert len(written_since) > 4
    owners = {path.stat().st_uid for path in written_since}
    assert owners == {NOBODY.pw_uid}
