"""A backup is dated, private and verified; restored, it is the ledger again."""

import os
import re
import shutil
import sqlite3
import stat
import subprocess
import threading
import time
from pathlib import Path

import ledger_places
import pytest
from commands import as_json, screen
from database_places import said_to
from flow_cohorts import night_of_patients, written
from hung import HUNG_SECONDS
from written_files import names_in

from screening import open_ledger
from screening.errors import Locked, ModelError, UsageError
from screening.ledger import backup
from screening.ledger.backup import back_up, restore
from screening.ledger.database import file_of
from screening.ledger.entries import Reserved, append
from screening.ledger.trail import head

RUNBOOK = Path(__file__).parents[1] / "docs" / "runbook.md"
# The first of the statements that the runbook names for PostgreSQL.
VACUUM = re.compile(r"```sql\n(.*?;)", re.DOTALL)
SITE = """
[site]
title = "County"
ledger = "{ledger}"
runs = "runs"
jobs = 1

[series.ward]
model = "{model}"
cohort = "{{date}}.csv"
"""


def enter(place: str, night: str) -> None:
    """Enter something in a ledger."""
    with open_ledger(place, make=True) as book, book.writing() as connection:
        reserved = Reserved(series="w", night=night)
        append(connection, book.clock(), reserved)


def last(place: str) -> int:
    with open_ledger(place, read_only=True) as book, book.reading() as connection:
        return head(connection).number


def schema_of(place: str) -> str:
    """Return the schema that the URL of a ledger of `new_place` leads to."""
    return place.rpartition("%3D")[2]


@pytest.fixture
def ledger_file(tmp_path) -> str:
    """Path of a ledger in a file, in which one night was entered."""
    place = str(tmp_path / "l.db")
    enter(place, "2026-03-01")
    return place


def test_backup_restored(place, tmp_path):
    """What was entered after the backup is gone, and the ledger verifies."""
    enter(place, "2026-03-01")
    path, made = back_up(place, tmp_path / "backups")
    enter(place, "2026-03-02")
    assert last(place) == made.number + 1

    restored, kept = restore(path, place)

    assert restored == made
    assert last(place) == made.number
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    screen("history", "--ledger", place, "--verify")
    enter(place, "2026-03-03")
    file = file_of(place)
    if file is not None:
        assert kept is not None
        assert last(str(kept)) == made.number + 1
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_backup_by_command(place, tmp_path):
    """The folder keeps this backup, the newest others of the ledger, and other
    files.
    """
    enter(place, "2026-03-01")
    folder = tmp_path / "backups"
    answer = as_json("ledger", "backup", place, "--to", folder)
    first = Path(answer["backup"])
    stem = first.stem.rpartition("-")[0]
    others = [
        "screening-notes.txt",
        f"screening-0123456789ab-20250101T000000Z{first.suffix}",
    ]
    for name in others:
        (folder / name).write_text("of others")
    first.rename(folder / f"{stem}-20250101T000000Z{first.suffix}")
    ahead = f"{stem}-20990101T000000Z{first.suffix}"
    (folder / ahead).write_bytes(b"a clock that ran ahead")

    answer = as_json("ledger", "backup", place, "--to", folder, "--keep", 2)

    names = names_in(folder)
    made = Path(answer["backup"]).name
    assert names == {*others, ahead, made}
    back = as_json("ledger", "restore", place, "--from", answer["backup"])
    assert back["head"] == answer["head"]


def test_backup_while_writing(ledger_file, tmp_path):
    """A backup that is made while a night is entered has it whole, or not at all."""
    before = last(ledger_file)
    entered = threading.Event()

    def write():
        with open_ledger(ledger_file) as book, book.writing() as connection:
            reserved = Reserved(series="w", night="2026-03-02")
            append(connection, book.clock(), reserved)
            entered.set()
            time.sleep(0.5)

    writer = threading.Thread(target=write)
    writer.start()
    entered.wait(HUNG_SECONDS)
    _, made = back_up(ledger_file, tmp_path / "backups")
    writer.join()

    assert made.number in (before, before + 1)


def test_damaged_backup_is_refused(ledger_file, tmp_path):
    path, _ = back_up(ledger_file, tmp_path / "backups")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE trail SET recorded = '2020-01-01T00:00:00Z'")
    connection.close()
    before = (tmp_path / "l.db").read_bytes()

    with pytest.raises(ModelError):
        restore(path, ledger_file)

    assert (tmp_path / "l.db").read_bytes() == before
    assert sorted(names_in(tmp_path)) == ["backups", "l.db"]


def test_bad_dump_is_put_right(new_place, tmp_path):
    """A dump that does not verify leaves the ledger on the server as it was."""
    place = new_place("postgresql")
    enter(place, "2026-03-01")
    good, _ = back_up(place, tmp_path / "good")
    with open_ledger(place) as book, book.writing() as connection:
        connection.exec_driver_sql("UPDATE trail SET recorded = '2020'")
    bad = tmp_path / "bad.dump"
    backup._dump(place, bad)
    restore(good, place)
    enter(place, "2026-03-02")
    before = last(place)

    with pytest.raises(ModelError):
        restore(bad, place)

    assert last(place) == before
    screen("history", "--ledger", place, "--verify")
    # Without a ledger there is nothing to put back: a good dump can still follow.
    name = schema_of(place)
    said_to(place, f"DROP SCHEMA {name} CASCADE", f"CREATE SCHEMA {name}")
    with pytest.raises(ModelError):
        restore(bad, place)
    restore(good, place)
    assert last(place) == 1


PROGRAMS = [binary.parent for binary in ledger_places.BINARIES]
ONE_VERSION = "this Debian has one version of PostgreSQL"


@pytest.mark.parametrize("version", [-1, 0], ids=["newest", "oldest"])
def test_backup_of_site_on_server(
    postgres, logistic_model, tmp_path, monkeypatch, version
):
    """A site whose ledger is in a database of its own goes on from its backup, by the
    real programs: what came later is gone, and is scored again.
    """
    if version == 0 and len(PROGRAMS) < 2:
        pytest.skip(ONE_VERSION)
    path = f"{PROGRAMS[version]}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    place = ledger_places.database(postgres, f"site{abs(version)}")
    file = tmp_path / "NIGHT.toml"
    file.write_text(SITE.format(ledger=place, model=logistic_model))
    for day in (1, 2):
        night = night_of_patients(60, seed=day)
        written(night, tmp_path / f"2026-03-0{day}.csv")
    screen("run", file, "--date", "2026-03-01")
    answer = as_json("ledger", "backup", place, "--to", tmp_path / "kept")
    screen("run", file, "--date", "2026-03-02")
    connect = ["psql", "--no-psqlrc", "--host", postgres, "--user", "screen"]
    drop = [*connect, "--dbname", f"site{abs(version)}", "--command"]
    subprocess.run(
        [*drop, "DROP SCHEMA public CASCADE; CREATE SCHEMA public"], check=True
    )
    screen("status", "--site", file, code=5)

    back = as_json("ledger", "restore", place, "--from", answer["backup"])

    assert back["head"] == answer["head"]
    screen("history", "--ledger", place, "--verify")
    shutil.rmtree(tmp_path / "runs/ward/2026-03-02")
    screen("run", file, "--date", "2026-03-02")
    subprocess.run([*drop, *VACUUM.findall(RUNBOOK.read_text())], check=True)
    screen("history", "--ledger", place, "--verify")


def test_backup_with_blank_in_url(postgres, tmp_path):
    """Words of the URL that have blanks reach the programs as they are."""
    place = ledger_places.database(postgres, "blank")
    place += "&application_name=night%20of+wards&options=-c%20work_mem%3D8MB"
    enter(place, "2026-03-01")

    path, made = back_up(place, tmp_path / "backups")

    assert restore(path, place)[0] == made


def test_password_is_no_word_of_a_program(postgres, tmp_path, monkeypatch):
    """Everybody on a host sees the words of a process, and only its owner what is in
    its environment.
    """
    place = ledger_places.database(postgres, "guarded")
    place = place.replace("screen@", "screen:s3cret@")
    enter(place, "2026-03-01")
    said = tmp_path / "said"
    program = tmp_path / "bin" / "pg_dump"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$PGPASSWORD" "$@" > {said}\n'
        f'exec {shutil.which("pg_dump")} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    back_up(place, tmp_path / "backups")

    password, _, words = said.read_text().partition(" ")
    assert password == "s3cret"
    assert "dbname=guarded" in words
    assert "s3cret" not in words


def test_dump_of_another_schema(postgres, tmp_path):
    """A dump of the original's schema is not restored for a copy in another one: the
    original's tables would be replaced.
    """
    original = ledger_places.schema(postgres, "ward_original")
    copy = ledger_places.schema(postgres, "ward_copy")
    enter(original, "2026-03-01")
    path, _ = back_up(original, tmp_path / "backups")
    enter(original, "2026-03-02")
    before = last(original)

    with pytest.raises(UsageError, match="names ward_copy; nothing was changed"):
        restore(path, copy)

    assert last(original) == before


def test_dump_of_something_else(new_place, tmp_path):
    place = new_place("postgresql")
    enter(place, "2026-03-01")
    other = tmp_path / "other.dump"
    other.write_bytes(b"no dump")

    with pytest.raises(UsageError):
        restore(other, place)

    assert last(place) == 1


def test_dump_of_other_tables(postgres, new_place, tmp_path):
    """A dump of somebody else's tables in the ledger's schema is no backup."""
    place = new_place("postgresql")
    enter(place, "2026-03-01")
    table = f"{schema_of(place)}.wards"
    said_to(place, f"CREATE TABLE {table} (name TEXT)")
    other = tmp_path / "other.dump"
    connect = ["--host", postgres, "--user", "screen", "--dbname", "postgres"]
    subprocess.run(
        ["pg_dump", *connect, "-Fc", f"--table={table}", f"--file={other}"], check=True
    )

    with pytest.raises(UsageError, match="is not a backup of a ledger"):
        restore(other, place)


def test_restore_while_somebody_reads(new_place, tmp_path, monkeypatch):
    """The programs of PostgreSQL would wait for the reader without a limit."""
    monkeypatch.setattr(backup, "WAIT_SECONDS", 1)
    place = new_place("postgresql")
    enter(place, "2026-03-01")
    path, _ = back_up(place, tmp_path / "backups")
    enter(place, "2026-03-02")

    with open_ledger(place, read_only=True) as book, book.reading() as connection:
        head(connection)
        with pytest.raises(Locked, match="another command is using the ledger"):
            restore(path, place)

    assert last(place) == 2
    restore(path, place)
    assert last(place) == 1


def test_backup_while_tables_are_replaced(new_place, tmp_path, monkeypatch):
    monkeypatch.setattr(backup, "WAIT_SECONDS", 1)
    place = new_place("postgresql")
    enter(place, "2026-03-01")

    with open_ledger(place) as book, book.writing() as connection:
        connection.exec_driver_sql("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(Locked, match="another command is using the ledger"):
            backup._dump(place, tmp_path / "night.dump")


def test_restore_into_missing_schema(new_place, tmp_path):
    place = new_place("postgresql")
    enter(place, "2026-03-01")
    path, _ = back_up(place, tmp_path / "backups")

    with pytest.raises(
        UsageError, match="schema named in the ledger's URL does not exist"
    ):
        restore(path, f"{place}_missing")


def test_full_disk(ledger_file, tmp_path, monkeypatch):
    """What SQLite cannot write is an error in words."""
    connect = sqlite3.connect

    def connect_small(target, **options):
        connection = connect(target, **options)
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(backup.sqlite3, "connect", connect_small)

    with pytest.raises(UsageError, match="cannot write a backup"):
        back_up(ledger_file, tmp_path / "backups")

    assert not list((tmp_path / "backups").glob("*.db"))


def test_restore_waits_for_no_writer(ledger_file, tmp_path, monkeypatch):
    """A ledger that somebody is writing in is not replaced."""
    monkeypatch.setattr(backup, "WAIT_SECONDS", 0.1)
    path, _ = back_up(ledger_file, tmp_path / "backups")

    with open_ledger(ledger_file) as book, book.writing(), pytest.raises(Locked):
        restore(path, ledger_file)


def test_restore_damaged_ledger(ledger_file, tmp_path):
    """A ledger's file that is no database any more is put aside like any other."""
    path, made = back_up(ledger_file, tmp_path / "backups")
    (tmp_path / "l.db").write_bytes(b"damaged")
    for ending in ("journal", "wal"):
        (tmp_path / f"l.db-{ending}").write_bytes(b"of the damaged file")

    restored, kept = restore(path, ledger_file)

    assert restored == made
    assert kept is not None
    assert kept.read_bytes() == b"damaged"
    assert not (tmp_path / "l.db-journal").exists()
    assert not (tmp_path / "l.db-wal").exists()
    assert Path(f"{kept}-wal").read_bytes() == b"of the damaged file"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("backup",), "give --to DIR"),
        (("restore",), "give --from BACKUP"),
        (("restore", "--from", "nowhere.db"), "file nowhere.db does not exist"),
    ],
)
def test_backup_usage(tmp_path, words, said):
    place = tmp_path / "l.db"
    enter(str(place), "2026-03-01")
    action, *options = words

    refused = screen("ledger", action, place, *options, code=2)
    assert said in refused.stderr


def test_backup_keeps_one_at_least(ledger_file, tmp_path):
    with pytest.raises(UsageError, match="`keep` must be 1 or more"):
        back_up(ledger_file, tmp_path / "backups", keep=0)

    assert names_in(tmp_path) == {"l.db"}


def test_backup_without_client(monkeypatch, tmp_path):
    monkeypatch.setattr(backup.shutil, "which", lambda name: None)
    (tmp_path / "screening-20250101T000000Z.dump").write_bytes(b"")

    with pytest.raises(UsageError, match="needs pg_restore"):
        restore(
            tmp_path / "screening-20250101T000000Z.dump", "postgresql://host/ledger"
        )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_backup_into_closed_folder(ledger_file, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)

    with pytest.raises(UsageError):
        back_up(ledger_file, closed / "backups")


def test_restore_over_newer(ledger_file, tmp_path):
    """What a backup lacks is said at once, with the command that goes on."""
    path, _ = back_up(ledger_file, tmp_path / "backups")
    enter(ledger_file, "2026-03-02")

    answer = screen("ledger", "restore", ledger_file, "--from", path)

    assert "one entry more" in answer.stderr
    assert f"screen ledger accept {ledger_file} --runs RUNS" in answer.stderr


def test_restore_of_another_site_refused(place, tmp_path):
    """A backup of another site replaces no ledger."""
    enter(place, "2026-03-01")
    other = str(tmp_path / "other.db")
    if file_of(place) is None:
        pytest.skip("a dump is restored into the schema that it was made of")
    enter(other, "2026-03-01")
    enter(other, "2026-03-02")
    path, _ = back_up(other, tmp_path / "backups")
    before = last(place)

    with pytest.raises(UsageError, match="move that ledger away"):
        restore(path, place)

    assert last(place) == before


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%23b", "a b&mode=ro"])
def test_ledger_path_is_taken_as_it_is(tmp_path, name):
    """A sign that URLs give a meaning is a letter of the path of a ledger's file."""
    place = tmp_path / name / "l.db"

    enter(str(place), "2026-03-01")

    assert names_in(tmp_path) == {name}
    assert place.stat().st_size > 0
    assert last(str(place)) == 1
