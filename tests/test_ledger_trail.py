"""Nobody changes the ledger unseen, two may write at once, and the file is nobody else's to read."""

import multiprocessing
import stat
from pathlib import Path

import pytest
import sqlalchemy as sa
from test_ledger import FACTS, enter, night

from screening.errors import ModelError, UsageError
from screening.ledger import (
    NightCases,
    Unchained,
    Verdict,
    history,
    open_ledger,
    record_revision,
    record_verdicts,
)
from screening.ledger.audit import digest_of
from screening.ledger.database import AUDIT, CONTENTS, RUNS, SETTINGS

CHANGE = {"model_before": "a", "model_after": "b", "reason": "ten a night", "classes": []}


@pytest.fixture
def ledger(place):
    """Two nights, two verdicts and a change of threshold: five entries."""
    with open_ledger(place, make=True) as opened:
        enter(opened, night(1, "ab", "z"))
        enter(opened, night(2, "bc"))
        record_verdicts(opened, "key of 2026-01-01", [Verdict("a", "not"), Verdict("z", "confirmed")])
        record_revision(opened, "threshold", CHANGE)
        yield opened


def meddle(ledger, statement: str) -> None:
    with ledger.writing() as connection:
        connection.execute(sa.text(statement))


def test_an_untouched_trail_is_followed_to_its_head(ledger):
    trail = history(ledger, verify=True)["audit"]

    assert trail["entries"] == 5
    assert trail == history(ledger)["audit"] | {"verified": True}
    assert history(ledger, verify=True, printed=trail["head"][:16])["audit"] == trail


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE contents SET body = REPLACE(body, 'new', 'known') WHERE part = 1", "entry 1"),
        ("UPDATE contents SET salt = NULL, body = NULL WHERE entry = 3 AND part = 1", "entry 3"),
        ("UPDATE contents SET digest = '0' WHERE entry = 5", "entry 5"),
        ("DELETE FROM contents WHERE entry = 2 AND part = 1", "entry 2"),
        ("INSERT INTO contents VALUES (99, 0, '', '{}', '')", "does not know"),
        ("UPDATE audit SET recorded = '2020-01-01' WHERE number = 2", "entry 2"),
        ("UPDATE audit SET action = 'run' WHERE number = 5", "entry 5"),
        ("DELETE FROM audit WHERE number = 1", "entry 1 is missing"),
        ("DELETE FROM audit WHERE number = 4", "entry 4 is missing"),
        ("UPDATE runs SET facts = REPLACE(facts, 'svm', 'lda')", "entry 1"),
        ("DELETE FROM runs WHERE entry = 2", "entry 2"),
        ("UPDATE cases SET state = 'reviewed' WHERE case_id = 'c'", "entry 2"),
        ("DELETE FROM cases WHERE case_id = 'z'", "entry 1"),
        ("INSERT INTO cases VALUES (1, 'q', 'new', 1, FALSE)", "entry 1"),
        ("INSERT INTO cases VALUES (99, 'q', 'new', 1, FALSE)", "does not know"),
        ("UPDATE cases SET drawn = NOT drawn WHERE case_id = 'a'", "entry 1"),
        (
            "INSERT INTO runs SELECT 99, 'other', revision, series, night, model, shadow, published, facts "
            "FROM runs WHERE entry = 2",
            "does not know",
        ),
        ("UPDATE series SET champion = 'x'", "entry 1"),
        ("UPDATE verdicts SET verdict = 'confirmed' WHERE case_id = 'a'", "entry 3"),
        ("DELETE FROM verdicts WHERE case_id = 'z'", "entry 4"),
        (
            "INSERT INTO verdicts SELECT 'other', case_id, 99, series, night, verdict, flagged, site, "
            "initials, note FROM verdicts WHERE case_id = 'z'",
            "does not know",
        ),
    ],
)
def test_whatever_is_meddled_with_is_found_and_named(ledger, statement, told):
    meddle(ledger, statement)

    with pytest.raises(Unchained, match=told):
        history(ledger, verify=True)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_an_entry_written_anew_with_digests_of_its_own_breaks_the_chain_after_it(ledger, number):
    with ledger.writing() as connection:
        entry = connection.execute(sa.select(AUDIT).where(AUDIT.c.number == number)).mappings().one()
        parts = connection.execute(
            sa.select(CONTENTS).where(CONTENTS.c.entry == number).order_by(CONTENTS.c.part)
        ).mappings()
        forged = dict(entry) | {"recorded": "2020-01-01T00:00:00+00:00"}
        digest = digest_of(forged, [part["digest"] for part in parts])
        connection.execute(
            AUDIT.update().where(AUDIT.c.number == number).values(recorded=forged["recorded"], digest=digest)
        )

    with pytest.raises(Unchained, match=f"at entry {number + 1}"):
        history(ledger, verify=True)


def test_a_chain_that_was_joined_to_a_forged_entry_breaks_where_it_was_joined(ledger):
    with ledger.writing() as connection:
        forged = {"number": 2, "recorded": "2020-01-01T00:00:00+00:00", "action": "run"}
        before, own, behind = (
            connection.execute(sa.select(AUDIT).where(AUDIT.c.number == n)).mappings().one()
            for n in (1, 2, 3)
        )
        parts = connection.scalars(
            sa.select(CONTENTS.c.digest).where(CONTENTS.c.entry == 2).order_by(CONTENTS.c.part)
        ).all()
        digest = digest_of(forged | {"previous": before["digest"]}, parts)
        for row, values in (
            (own, {"recorded": forged["recorded"], "digest": digest}),
            (behind, {"previous": digest}),
        ):
            connection.execute(AUDIT.update().where(AUDIT.c.number == row["number"]).values(**values))

    with pytest.raises(Unchained, match="at entry 3"):
        history(ledger, verify=True)


def test_nobody_can_tell_from_a_digest_what_is_behind_it(ledger):
    record_verdicts(ledger, "key of 2026-01-02", [Verdict("b", "not")])
    record_verdicts(ledger, "key of 2026-01-02", [Verdict("b", "unsure")])
    with ledger.reading() as connection:
        named = sa.select(CONTENTS).where(CONTENTS.c.entry.in_((6, 7)), CONTENTS.c.part == 1)
        one, other = connection.execute(named).mappings()

    assert one["body"] == other["body"]
    assert one["digest"] != other["digest"] and one["salt"] != other["salt"]


def test_what_names_no_patient_names_none(place):
    drift = {"unit": "row", "known": [1], "counted": [1], "who": [4711], "cell": [0]}
    with open_ledger(place, make=True) as ledger:
        enter(ledger, night(1, "", "", facts=FACTS | {"drift": drift}))
        enter(ledger, NightCases(**vars(night(2, "")) | {"flagged": ("SECRET77",), "sampled": ("SECRET78",)}))
        record_verdicts(ledger, "key of 2026-01-02", [Verdict("SECRET77", "not", note="SECRET79")])
        enter(ledger, NightCases(**vars(night(3, "")) | {"flagged": ("SECRET77",)}))
        with ledger.reading() as connection:
            told = connection.scalars(sa.select(CONTENTS.c.body).where(CONTENTS.c.part == 0)).all()
            told += connection.scalars(sa.select(RUNS.c.facts)).all()
            named = "".join(connection.scalars(sa.select(CONTENTS.c.body).where(CONTENTS.c.part == 1)))

    assert "SECRET" not in "".join(told) and "4711" not in "".join(told)
    assert all(word in named for word in ("SECRET77", "SECRET78", "SECRET79", "4711"))


def test_a_change_of_threshold_that_changes_no_model_is_none(ledger):
    record_revision(ledger, "threshold", CHANGE | {"model_after": "a"})

    assert history(ledger)["audit"]["entries"] == 5


def test_a_trail_cut_short_is_found_by_a_head_that_was_printed(ledger):
    printed = history(ledger)["audit"]["head"]
    meddle(ledger, "DELETE FROM audit WHERE number = 5")
    meddle(ledger, "DELETE FROM contents WHERE entry = 5")

    assert history(ledger, verify=True)["audit"]["entries"] == 4
    with pytest.raises(Unchained, match="cut short"):
        history(ledger, verify=True, printed=printed)


@pytest.mark.parametrize("digits", [0, 11])
def test_a_head_of_a_few_digits_proves_nothing_and_is_refused(ledger, digits):
    head = history(ledger)["audit"]["head"]
    with pytest.raises(UsageError, match="--head"):
        history(ledger, verify=True, printed=head[:digits])


def test_no_message_of_a_broken_trail_names_a_patient(ledger):
    meddle(ledger, "UPDATE verdicts SET case_id = 'SECRET77' WHERE case_id = 'a'")

    with pytest.raises(Unchained) as told:
        history(ledger, verify=True)
    assert "SECRET77" not in str(told.value)


def test_the_same_change_of_threshold_twice_in_a_row_is_one(ledger):
    record_revision(ledger, "threshold", CHANGE)

    assert [change["entry"] for change in history(ledger)["threshold_changes"]] == [5]


def write_nights(place: str, first: int, ready, go) -> None:
    """What one of two processes does: every other night, and the last one, which both enter."""
    ready.release()
    go.wait()
    with open_ledger(place, make=True) as ledger:
        for day in range(first, 21, 2):
            enter(ledger, night(day, "ab" if day % 3 else "bc"))
        enter(ledger, night(21, "a"))


def test_two_processes_that_write_at_once_lose_nothing_and_keep_one_chain(place):
    context = multiprocessing.get_context("spawn")
    ready, go = context.Semaphore(0), context.Event()
    writers = [context.Process(target=write_nights, args=(place, first, ready, go)) for first in (1, 2)]
    for writer in writers:
        writer.start()
    for _ in writers:
        ready.acquire()
    go.set()
    for writer in writers:
        writer.join(60)

    assert [writer.exitcode for writer in writers] == [0, 0]
    with open_ledger(place) as ledger:
        told = history(ledger, verify=True)
    assert [run["night"][-2:] for run in told["runs"]] == [f"{day:02d}" for day in range(1, 22)]
    assert told["audit"]["entries"] == 21


def test_the_file_is_its_owners_alone_whatever_it_was(tmp_path):
    path = tmp_path / "made" / "screening.db"
    with open_ledger(path, make=True) as ledger:
        enter(ledger, night(1, "a"))
    path.chmod(0o644)
    with open_ledger(path):
        pass

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_path_and_its_url_are_the_same_ledger(tmp_path):
    with open_ledger(tmp_path / "screening.db", make=True) as ledger:
        enter(ledger, night(1, "a"))
    with open_ledger(f"sqlite:///{tmp_path}/screening.db") as ledger:
        assert len(history(ledger)["runs"]) == 1


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite://", "in memory"), ("sqlite:///:memory:", "in memory"),
        ("mysql://host/ledger", "not in mysql"), ("postgresql+psycopg2://host/ledger", "not in postgresql"),
        ("no/such/folder.db", "no ledger at"), ("://", "cannot be read"), ("sqlite://host/x", "ledger"),
        ("sqlite:///x?mode=memory", "ledger"), ("postgresql://h:port/x", "ledger"),
        ("postgresql://screen:SECRET77@/ledger?host=/no/such/socket", "cannot be used"),
    ],
)  # fmt: skip
def test_a_place_that_cannot_hold_a_ledger_is_refused_without_its_password(url, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=told) as refused:
        open_ledger(url)

    assert "SECRET77" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_ledger_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("these are notes, not a database, and long enough to tell")
    with pytest.raises(UsageError, match="not a ledger"):
        open_ledger(tmp_path / "notes.txt", make=True)

    assert (tmp_path / "notes.txt").read_text().startswith("these are notes")


def test_a_newer_format_is_refused(place):
    with open_ledger(place, make=True) as ledger, ledger.writing() as connection:
        connection.execute(SETTINGS.update().values(value="2"))

    with pytest.raises(ModelError, match="format 2, newer than 1; update screening"):
        open_ledger(place)


def test_a_missing_driver_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(UsageError, match=r"screening\[postgres\]"):
        open_ledger("postgresql://host/ledger")


def test_the_file_at_rest_is_one_file(tmp_path):
    with open_ledger(tmp_path / "screening.db", make=True) as ledger:
        enter(ledger, night(1, "a"))

    assert [path.name for path in Path(tmp_path).iterdir()] == ["screening.db"]
