"""Nobody changes the ledger unseen, two may write at once, and the file is nobody
else's to read.
"""

import multiprocessing
import shutil
import stat
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest
import sqlalchemy as sa
from ledger_nights import enter, night

from screening.errors import Locked, ModelError, UsageError
from screening.ledger.database import (
    CHAMPIONS,
    PARTS,
    PROJECTED,
    REVIEWS,
    SETTINGS,
    TRAIL,
    Unchained,
    open_ledger,
)
from screening.ledger.entries import (
    Artefact,
    Forgotten,
    Purged,
    append,
    champions_in_trail,
    project,
)
from screening.ledger.erasing import _Change, digest_of_stand_ins
from screening.ledger.history import history
from screening.ledger.model_registry import champions, record_revision
from screening.ledger.register import hand_out, relocate
from screening.ledger.trail import Part, add_entry, entries, part_in
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.ledger.verifying import rebuild, verify

CHANGE = {
    "model_before": "a",
    "model_after": "b",
    "reason": "ten a night",
    "classes": [],
}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def untouched(request, new_place):
    """Two nights, two verdicts and a change of threshold: five entries, which no test
    changes.
    """
    with five_entries(new_place(request.param)) as ledger:
        yield ledger


@pytest.fixture
def ledger(place):
    """The same to be changed."""
    with five_entries(place) as ledger:
        yield ledger


@contextmanager
def five_entries(place: str):
    with open_ledger(place, make=True) as ledger:
        enter(ledger, night(1, "ab", "z"))
        enter(ledger, night(2, "bc"))
        record_verdicts(
            ledger,
            "key of 2026-01-01",
            [Verdict("a", "ruled out"), Verdict("z", "confirmed")],
        )
        record_revision(ledger, "threshold", CHANGE)
        yield ledger


def test_an_untouched_trail_is_followed_to_its_head(untouched):
    trail = history(untouched, verify=True)["audit"]
    assert trail["entries"] == 5
    assert trail == history(untouched)["audit"] | {"verified": True}
    checked = history(untouched, verify=True, printed=trail["head"][:16])
    assert checked["audit"] == trail


FORGERIES = [
    (
        "UPDATE parts SET facts = REPLACE(facts, 'new', 'known') WHERE what = 'cases'",
        "entry 1 .run",
    ),
    (
        "UPDATE parts SET names = '[]', salts = '' WHERE entry = 3 AND part = 1",
        "entry 3",
    ),
    (
        "UPDATE parts SET names = REPLACE(names, 'a', 'b') WHERE entry = 3 AND part = 1",
        "entry 3",
    ),
    ("UPDATE parts SET what = 'other' WHERE entry = 3 AND part = 1", "entry 3"),
    ("UPDATE parts SET salts = '' WHERE entry = 5", "names of entry 5"),
    ("DELETE FROM parts WHERE entry = 2 AND part = 2", "entry 2"),
    ("DELETE FROM parts WHERE entry = 2", "entry 2"),
    (
        "INSERT INTO parts VALUES (99, 0, 'facts', '{}', '[]', '', '{}')",
        "belong to no entry",
    ),
    ("INSERT INTO parts VALUES (2, 9, 'cases', '[]', '[]', '', '{}')", "entry 2"),
    ("UPDATE trail SET recorded = '2020-01-01' WHERE number = 2", "entry 2"),
    ("UPDATE trail SET kind = 'retrain' WHERE number = 5", "entry 5"),
    ("DELETE FROM trail WHERE number = 1", "entry 1 is missing"),
    ("DELETE FROM trail WHERE number = 4", "entry 4 is missing"),
    ("UPDATE runs SET model = 'x'", "table runs .* entry 1"),
    ("UPDATE runs SET night = '2026-01-03' WHERE entry = 2", "entry 2"),
    ("DELETE FROM runs WHERE entry = 2", "entry 2"),
    ("UPDATE cases SET state = 'ruled out' WHERE case_id = 'c'", "entry 2"),
    ("DELETE FROM cases WHERE case_id = 'z'", "entry 1"),
    ("INSERT INTO cases VALUES (99, 'q', 'new', 1, FALSE, NULL, NULL)", "entry 99"),
    ("UPDATE cases SET drawn = NOT drawn WHERE case_id = 'a'", "entry 1"),
    ("UPDATE cases SET verdict = 'known' WHERE case_id = 'a'", "entry 1"),
    (
        "INSERT INTO runs SELECT 99, 'other', 1, series, night, model, shadow, source FROM runs "
        "WHERE entry = 2",
        "entry 99",
    ),
    ("UPDATE champions SET model = 'x'", "table champions .* entry 1"),
    ("DELETE FROM champions", "table champions .* entry 1"),
    ("UPDATE verdicts SET verdict = 'confirmed' WHERE case_id = 'a'", "entry 3"),
    ("UPDATE verdicts SET given = '2030-01-01' WHERE case_id = 'a'", "entry 3"),
    ("DELETE FROM verdicts WHERE case_id = 'z'", "entry 4"),
    ("UPDATE verdicts SET case_id = 'b' WHERE case_id = 'a'", "entry 3"),
    (
        "INSERT INTO reservations VALUES (99, 'ward-7', '2026-01-01')",
        "table reservations .* entry 99",
    ),
    ("CREATE VIEW behind AS SELECT * FROM cases", "did not make: view behind"),
    ("CREATE TABLE other (name TEXT)", "did not make: table other"),
    (
        "UPDATE parts SET names = REPLACE(REPLACE(REPLACE(names, 'a', 'q'), 'b', 'a'), 'q', 'b') "
        "WHERE entry = 1 AND what = 'cases'",
        "entry 1",
    ),
    (
        "UPDATE parts SET facts = REPLACE(facts, '0.5', '0.9') WHERE entry = 2 AND part = 0",
        "entry 2",
    ),
    (
        "UPDATE parts SET facts = (SELECT p.facts FROM parts p WHERE p.entry = 1 AND p.part = 0) "
        "WHERE entry = 2 AND part = 0",
        "entry 2",
    ),
    ("UPDATE parts SET facts = '[]' WHERE entry = 2 AND part = 0", "entry 2 .run"),
    (
        "UPDATE parts SET facts = 'half of' WHERE entry = 2 AND part = 0",
        "entry 2 cannot be read",
    ),
    (
        "UPDATE parts SET facts = 'NaN' WHERE entry = 2 AND part = 2",
        "entry 2 cannot be read",
    ),
    (
        f"UPDATE parts SET facts = '{'[' * 10_000}' WHERE entry = 2 AND part = 2",
        "entry 2 cannot be read",
    ),
    (
        'UPDATE parts SET gone = \'{"0": "no digits"}\' WHERE entry = 3 AND part = 1',
        "names of entry 3",
    ),
    ('UPDATE parts SET gone = \'{"7": "00"}\' WHERE entry = 3 AND part = 1', "entry 3"),
    (
        "UPDATE parts SET names = '[\"erased-0123456789abcdef\"]' WHERE entry = 3 AND part = 1",
        "entry 3",
    ),
    ("UPDATE parts SET what = 'other' WHERE entry = 2 AND what = 'columns'", "entry 2"),
    ("UPDATE parts SET part = 9 WHERE entry = 3 AND part = 1", "entry 3"),
    (
        "UPDATE trail SET number = number + 100",
        "entry 1 or all its contents are missing",
    ),
    ("UPDATE trail SET previous = digest WHERE number = 3", "entry 3"),
    ("UPDATE trail SET digest = 'f' WHERE number = 5", "entry 5"),
    (
        "INSERT INTO trail VALUES (6, '2026-01-09', 'retire', 'f', 'e')",
        "belong to no entry|entry 6",
    ),
    ("UPDATE runs SET series = 'ward-9'", "table runs .* entry 1"),
    ("UPDATE runs SET source = 'f' WHERE entry = 2", "table runs .* entry 2"),
    ("UPDATE cases SET state = NULL WHERE case_id = 'c'", "table cases .* entry 2"),
    (
        "INSERT INTO champions SELECT series, 5, 'x' FROM champions",
        "table champions .* entry 5",
    ),
    (
        "INSERT INTO verdicts SELECT 99, key, case_id, series, night, flagged, verdict, given, 2, 'ward 3', "
        "'xy', login, token, note, action FROM verdicts WHERE entry = 3",
        "table verdicts .* entry 99",
    ),
    (
        "UPDATE verdicts SET night = '2026-01-02' WHERE case_id = 'a'",
        "table verdicts .* entry 3",
    ),
    (
        "INSERT INTO artefacts VALUES (99, 'page', '/p.html', 'f', NULL, NULL, NULL, NULL)",
        "table artefacts .* entry 99",
    ),
    ("ALTER TABLE cases ADD COLUMN note TEXT", "did not make: column cases.note"),
    (
        "INSERT INTO screening_ledger VALUES ('champion', 'x')",
        "did not make: setting champion",
    ),
]


@pytest.mark.parametrize(("statement", "told"), FORGERIES)
def test_whatever_is_meddled_with_is_found_and_named(untouched, statement, told):
    with pytest.raises(ModelError, match=told), untouched.writing() as connection:
        connection.execute(sa.text(statement))
        verify(connection, None)


def test_no_message_of_a_broken_trail_names_a_patient(untouched):
    with pytest.raises(Unchained) as told, untouched.writing() as connection:
        of_a = REVIEWS.update().where(REVIEWS.c.case_id == "a")
        connection.execute(of_a.values(case_id="SECRET77"))
        verify(connection, None)
    assert "SECRET77" not in str(told.value)


def test_value_of_another_type_is_named(tmp_path):
    """SQLite keeps bytes in a column of texts, and nobody reads them as a text."""
    with five_entries(str(tmp_path / "l.db")) as ledger:
        with ledger.writing() as connection:
            connection.execute(sa.text("UPDATE runs SET night = x'00'"))
        with pytest.raises(Unchained, match="contains bytes instead of str"):
            history(ledger)


def test_part_that_is_missing_is_named(ledger):
    """Also where nobody verifies the trail."""
    with ledger.writing() as connection:
        is_facts = (PARTS.c.entry == 2) & (PARTS.c.what == "facts")
        connection.execute(PARTS.delete().where(is_facts))
    with pytest.raises(Unchained, match="has no part facts of entry 2"):
        history(ledger)


def test_a_trigger_is_named(tmp_path):
    trigger = (
        "CREATE TRIGGER late AFTER INSERT ON cases BEGIN DELETE FROM verdicts; END"
    )
    with (
        open_ledger(tmp_path / "screening.db", make=True) as ledger,
        ledger.writing() as connection,
    ):
        connection.execute(sa.text(trigger))
        with pytest.raises(Unchained, match="trigger late"):
            verify(connection, None)


def test_rebuild_tables(ledger):
    """Tables are derived again from the trail, whatever they held."""
    before = history(ledger)
    in_tables = [
        statement
        for statement, _ in FORGERIES
        if {*statement.split()[1:3]} & {*PROJECTED.tables}
    ]
    with ledger.writing() as connection:
        for statement in [*in_tables, "DROP TABLE verdicts"]:
            connection.execute(sa.text(statement))
    assert rebuild(ledger).digest == before["audit"]["head"]
    assert history(ledger, verify=True) == before | {
        "audit": before["audit"] | {"verified": True}
    }


@pytest.mark.parametrize(
    ("number", "joined", "broken"),
    [
        (1, (), 2),
        (2, (), 3),
        (4, (), 5),
        (2, (3,), 3),
        (2, (3, 4), 3),
    ],
)
def test_entry_written_anew_breaks_the_chain_after_it(
    untouched, number, joined, broken
):
    """With a digest that fits, even where the entries after it name it as the one
    before theirs.
    """
    with (
        pytest.raises(Unchained, match=f"at entry {broken}"),
        untouched.writing() as connection,
    ):
        entry = next(entries(connection, TRAIL.c.number == number))
        parts = [part.digest() for part in entry.parts]
        late = "2020-01-01T00:00:00+00:00"
        digest = replace(entry, recorded=late).digest_by(parts)
        changed = TRAIL.update().where(TRAIL.c.number == number)
        connection.execute(changed.values(recorded=late, digest=digest))
        of_joined = TRAIL.c.number.in_(joined)
        joined_entries = TRAIL.update().where(of_joined)
        connection.execute(joined_entries.values(previous=digest))
        verify(connection, None)


def rewritten(ledger, change) -> None:
    """Write the trail anew, with digests that fit, and the tables by it: as who has
    this program can.
    """
    with ledger.writing() as connection:
        kept = [
            [entry.recorded, entry.kind, [*entry.parts]]
            for entry in entries(connection)
        ]
        change(kept)
        for table in (PARTS, TRAIL):
            connection.execute(table.delete())
        for recorded, kind, parts in kept:
            add_entry(connection, recorded, kind, parts)
    rebuild(ledger)


def turned(kept: list) -> None:
    facts, *others = kept[2][2]
    confirmed = facts.facts | {"verdict": "confirmed"}
    kept[2][2] = [replace(facts, facts=confirmed), *others]


REWRITTEN = {
    "a verdict turned": turned,
    "a night taken out": lambda kept: kept.pop(1),
    "a verdict given once more": lambda kept: kept.insert(4, kept[2]),
    "two verdicts exchanged": lambda kept: kept.insert(2, kept.pop(3)),
    "the clock set back": lambda kept: kept[0].__setitem__(
        0, "2020-01-01T00:00:00+00:00"
    ),
    "the last entry taken away": lambda kept: kept.pop(),
}


@pytest.mark.parametrize("change", REWRITTEN.values(), ids=REWRITTEN)
def test_rewritten_trail(ledger, change):
    """A rewritten trail is found by a head kept elsewhere."""
    printed = history(ledger)["audit"]["head"]
    rewritten(ledger, change)
    history(ledger, verify=True)
    with pytest.raises(Unchained, match="cut or rewritten"):
        history(ledger, verify=True, printed=printed)


def test_nobody_can_tell_from_a_digest_what_is_behind_it(ledger):
    for word in ("ruled out", "unsure"):
        record_verdicts(ledger, "key of 2026-01-02", [Verdict("b", word)])
    with ledger.reading() as connection:
        parts = []
        for entry in entries(connection, TRAIL.c.number.in_((6, 7))):
            parts.append([*entry.parts][1])
        first, second = parts
    assert first.names == second.names
    assert first.digest() != second.digest()
    assert first.salts != second.salts


def test_what_names_no_patient_names_none(place):
    drift = {
        "unit": "row",
        "known": [1],
        "counted": [1],
        "who": [4711],
        "cell": [0],
    }
    with open_ledger(place, make=True) as ledger:
        enter(ledger, night(1, "", drift=drift))
        enter(ledger, night(2, ["SECRET77"], ["SECRET78"]))
        record_verdicts(
            ledger,
            "key of 2026-01-02",
            [Verdict("SECRET77", "ruled out", note="SECRET79")],
        )
        enter(ledger, night(3, ["SECRET77"]))
        with ledger.reading() as connection:
            all_facts = connection.scalars(sa.select(PARTS.c.facts))
            facts = "".join(all_facts)
            all_names = connection.scalars(sa.select(PARTS.c.names))
            named = "".join(all_names)

    assert "SECRET" not in facts
    assert "4711" not in facts
    for word in ("SECRET77", "SECRET78", "SECRET79", "4711"):
        assert word in named


@pytest.mark.parametrize("digits", [0, 11])
def test_head_too_short(untouched, digits):
    """A head of a few digits is refused."""
    head = history(untouched)["audit"]["head"]
    with pytest.raises(UsageError, match="head"):
        history(untouched, verify=True, printed=head[:digits])


@pytest.mark.parametrize("again", [CHANGE, CHANGE | {"model_after": "a"}])
def test_threshold_twice(ledger, again):
    """The same change twice is one entry, and no change is none."""
    record_revision(ledger, "threshold", again)
    (change,) = history(ledger)["threshold_changes"]
    assert change["entry"] == 5


def test_threshold_same_reason(ledger):
    """Another change with the same reason is another entry."""
    record_revision(ledger, "threshold", CHANGE | {"model_after": "c"})
    changes = history(ledger)["threshold_changes"]
    assert [change["entry"] for change in changes] == [
        5,
        6,
    ]


def write_nights(place: str, first: int, ready, go) -> None:
    """What one of two processes does: every other night, and the last one, which both
    enter.
    """
    ready.release()
    go.wait()
    with open_ledger(place, make=True) as ledger:
        for day in range(first, 21, 2):
            enter(ledger, night(day, "ab" if day % 3 else "bc"))
        enter(ledger, night(21, "a"))


def test_two_writers(place):
    """Two processes that write at once lose nothing and keep one chain."""
    context = multiprocessing.get_context("spawn")
    ready = context.Semaphore(0)
    go = context.Event()
    other = context.Process(target=write_nights, args=(place, 1, ready, go))
    other.start()
    ready.acquire()
    go.set()
    write_nights(place, 2, ready, go)
    other.join()
    with open_ledger(place) as ledger:
        told = history(ledger, verify=True)
    assert other.exitcode == 0
    days = [run["night"][-2:] for run in told["runs"]]
    assert days == [f"{day:02d}" for day in range(1, 22)]
    assert told["audit"]["entries"] == 21


def test_second_writer_does_not_wait_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("screening.ledger.database.WAIT_SECONDS", 0.1)
    place = tmp_path / "l.db"
    with open_ledger(place, make=True) as first, open_ledger(place) as second:
        with first.writing(), pytest.raises(Locked, match="try again"):
            enter(second, night(1, "a"))
        enter(second, night(1, "a"))


def test_file_mode(tmp_path):
    """A path and its URL are the same ledger."""
    path = tmp_path / "made" / "screening.db"
    with open_ledger(path, make=True) as ledger:
        enter(ledger, night(1, "a"))
    path.chmod(0o644)
    with open_ledger(f"sqlite:///{path}") as ledger:
        assert len(history(ledger)["runs"]) == 1

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["screening.db"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite://", "a file or"),
        ("sqlite:///:memory:", "a file or"),
        ("mysql://host/ledger", "a file or"),
        ("postgresql+psycopg2://host/ledger", "a file or"),
        ("no/such/folder.db", "does not exist"),
        ("://", "a file or"),
        ("sqlite://host/x", "a file or"),
        ("sqlite:///x?mode=memory", "a file or"),
        ("postgresql://h:port/x", "a file or"),
        ("postgresql://screen:SECRET77@/ledger?host=/no/such/socket", "cannot be used"),
        ("notes.txt", "not a ledger"),
    ],
)
def test_place_refused(url, told, tmp_path, monkeypatch):
    """Without its password."""
    monkeypatch.chdir(tmp_path)
    notes = tmp_path / "notes.txt"
    notes.write_text("these are notes, not a database, and long enough to tell")
    with pytest.raises(UsageError, match=told) as refused:
        open_ledger(url, make=url == "notes.txt")
    assert "SECRET77" not in str(refused.value)
    assert list(tmp_path.iterdir()) == [notes]
    assert notes.read_text().startswith("these are notes")


def test_a_missing_driver_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match=r"screening\[postgres\]"):
        open_ledger("postgresql://host/ledger")


def test_a_newer_format_is_refused(place):
    with open_ledger(place, make=True) as ledger, ledger.writing() as connection:
        connection.execute(SETTINGS.update().values(value="3"))
    with pytest.raises(ModelError, match="format 3, newer than 2; update screening"):
        open_ledger(place)


def test_champion_comes_from_trail(ledger):
    """A table of champions that says something else is not believed."""
    with ledger.writing() as connection:
        series = champions(connection)
        connection.execute(CHAMPIONS.delete())

    with ledger.reading() as connection:
        assert champions_in_trail(connection) == series != {}
        with pytest.raises(Unchained, match="table champions"):
            champions(connection)
    with pytest.raises(Unchained, match="ledger rebuild"):
        enter(ledger, night(3, "c"))


def places_of(connection, what: str) -> dict[tuple[int, int], Part]:
    """Parts of a kind with names, by entry and number."""
    of_kind = sa.select(PARTS).where(PARTS.c.what == what)
    rows = connection.execute(of_kind)
    parts = {}
    for row in rows:
        part = part_in(row)
        if part.names:
            parts[row.entry, row.part] = part
    return parts


# By what is blanked: the kind of erasure, the part, and what stands there afterwards.
FORGED_ERASURES = {
    "a reviewer": (Forgotten, "by", lambda number: ""),
    "who entered a verdict": (Forgotten, "entered", lambda number: ""),
    "a reason": (Forgotten, "reason", lambda number: ""),
    "a place": (Forgotten, "place", lambda number: "[erased]"),
    "a place, of nobody": (Purged, "place", lambda number: ""),
    "a reason of no night": (Purged, "reason", lambda number: ""),
    "every case at once": (Forgotten, "cases", lambda number: f"erased-{number:016x}"),
}


@pytest.mark.parametrize("forgery", FORGED_ERASURES.values(), ids=FORGED_ERASURES)
def test_erasure_that_no_command_makes(ledger, forgery):
    """An entry that erases what erasing leaves is found, though the chain fits."""
    kind, what, stand_in = forgery
    artefact = Artefact(what="page", place="/p/a.html", sha256="0" * 64)
    hand_out(ledger, artefact)

    with ledger.writing() as connection:
        erased = []
        for (entry, number), part in places_of(connection, what).items():
            places = [*range(len(part.names))]
            names = [stand_in(place) for place in places]
            change = _Change(entry, number, part, places, names)
            change.store(connection)
            digest = digest_of_stand_ins(names, places)
            erased.append((entry, number, places, digest))
        append(connection, ledger.clock(), kind(erased=erased))
    rebuild_tables(ledger)

    with pytest.raises(
        Unchained, match=r"no command erases|the place of a file is missing"
    ):
        history(ledger, verify=True)


def rebuild_tables(ledger) -> None:
    """Bring an erasure into the tables, as the command does."""
    with ledger.writing() as connection:
        for table in PROJECTED.tables.values():
            connection.execute(table.delete())
        project(connection, entries(connection))


# By what is changed: statements for SQLite and for PostgreSQL, and the table.
REDEFINED = {
    "a collation": (
        [
            "PRAGMA writable_schema = ON",
            """UPDATE sqlite_master SET sql =
            replace(sql, 'case_id TEXT', 'case_id TEXT COLLATE NOCASE')
            WHERE name = 'cases'""",
        ],
        ['ALTER TABLE cases ALTER case_id TYPE text COLLATE "C"'],
        "cases",
    ),
    "a check": (
        [
            "PRAGMA writable_schema = ON",
            """UPDATE sqlite_master SET sql =
            replace(sql, 'kind TEXT', 'kind TEXT CHECK (kind <> ''forget'')')
            WHERE name = 'trail'""",
        ],
        ["ALTER TABLE trail ADD CHECK (kind <> 'forget')"],
        "trail",
    ),
    "a unique index": (
        ["CREATE UNIQUE INDEX one_a_night ON runs (series, night)"],
        ["CREATE UNIQUE INDEX one_a_night ON runs (series, night)"],
        "runs",
    ),
    "an index less": (
        ["DROP INDEX verdicts_by_case"],
        ["DROP INDEX verdicts_by_case"],
        "verdicts",
    ),
}


@pytest.mark.parametrize("change", REDEFINED.values(), ids=REDEFINED)
def test_table_defined_otherwise(ledger, change):
    """A collation, a constraint or an index that was changed is found by its table."""
    in_sqlite, in_postgresql, table = change
    with ledger.writing() as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        for statement in in_sqlite if is_sqlite else in_postgresql:
            connection.exec_driver_sql(statement)

    with pytest.raises(Unchained, match=f"definition of table {table} was changed"):
        history(ledger, verify=True)


def test_location_of_renamed_schema(new_place, postgres):
    """A schema of another name is a copy until somebody enters that it was moved."""
    place = new_place("postgresql")
    name = place.rpartition("%3D")[2]
    psycopg = pytest.importorskip("psycopg")
    with open_ledger(place, make=True) as ledger:
        enter(ledger, night(1, "ab"))
    with psycopg.connect(host=postgres, user="screen", dbname="postgres") as connection:
        connection.execute(f"ALTER SCHEMA {name} RENAME TO {name}_restored")

    with open_ledger(f"{place}_restored") as ledger:
        with pytest.raises(ModelError, match=f"schema {name}, now at"):
            enter(ledger, night(2, "b"))
        relocate(ledger, "restored under another name")
        enter(ledger, night(2, "b"))
        history(ledger, verify=True)


def test_location_unknown(new_place, tmp_path, monkeypatch):
    """A ledger from before locations were stated is an original wherever it lies."""
    place = new_place("sqlite")
    unknown = Part("unknown")
    monkeypatch.setattr("screening.ledger.entries.location_part", lambda _: unknown)
    with open_ledger(place, make=True) as ledger:
        enter(ledger, night(1, "ab"))
    monkeypatch.undo()

    with open_ledger(shutil.copy(place, tmp_path)) as ledger:
        enter(ledger, night(2, "b"))
        relocate(ledger, "from now on it is stated")
        history(ledger, verify=True)
    copy = shutil.copy(tmp_path / "screening.db", place)
    with (
        open_ledger(copy) as ledger,
        pytest.raises(ModelError, match="use the original"),
    ):
        enter(ledger, night(3, "c"))


def test_ledger_of_two_names_is_no_copy(tmp_path):
    """As of a folder that is mounted at two places."""
    place = tmp_path / "l.db"
    with open_ledger(place, make=True) as ledger:
        enter(ledger, night(1, "ab"))
    other = tmp_path / "other.db"
    other.hardlink_to(place)

    with open_ledger(other) as ledger:
        enter(ledger, night(2, "b"))

    with open_ledger(place) as ledger:
        assert len(history(ledger, verify=True)["runs"]) == 2


def test_export_of_a_run_of_another_ledger_is_refused(ledger):
    page = Artefact(what="page", place="/p/a.html", sha256="0" * 64, key="of another")
    with pytest.raises(UsageError, match="give the ledger that the run was scored"):
        hand_out(ledger, page)
