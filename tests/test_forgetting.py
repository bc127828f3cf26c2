"""One patient, or the patients of old nights, leave the ledger; every count and the
trail stay.
"""

import datetime
import itertools
import json
import re
import unicodedata
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import sqlalchemy as sa
from faults.amounts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_nights import enter, night, states
from typer.testing import CliRunner

from screening.cli import app
from screening.cli.options import id_from
from screening.errors import UsageError
from screening.identity.hashes import keyed_hashes, short_hashes
from screening.ledger.database import PROJECTED, TABLES, open_ledger
from screening.ledger.entries import Artefact
from screening.ledger.erasing import Scope, before_age, erase
from screening.ledger.history import history
from screening.ledger.model_registry import record_revision, record_sealed
from screening.ledger.register import hand_out
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.ledger.verifying import follow, rebuild, verify
from screening.schemas.run import VERDICTS
from screening.scoring.mentions import mentions

RUNBOOK = Path(__file__).parents[1] / "docs" / "runbook.md"
# The statements that the runbook names for PostgreSQL.
VACUUM = re.compile(r"```sql\n(.*?)```", re.DOTALL)
WHY = "asked for"
SECRET = "Žofie-00123"
NOTHING = {"nights": 0, "cases": 0, "verdicts": 0, "mentions": 0}


def drift_of(*names: str) -> dict:
    """What a night's facts hold of drift, with the hashes of these patients."""
    names = np.array(names, dtype=object)
    hashes = keyed_hashes(names, "m" * 64)
    who = [int(lot) for lot in short_hashes(hashes)]
    return {
        "unit": "row",
        "known": [5, 5],
        "counted": [1, 1],
        "distance": None,
        "p": None,
        "higher": False,
        "who": who,
        "cell": [0] * len(who),
    }


def three_nights(ledger) -> None:
    """Nights on which the secret patient is flagged, drawn, judged twice and hashed."""
    for day in (1, 2, 3):
        drift = drift_of(SECRET, "b")
        one = night(
            day,
            [SECRET, "b"],
            ["c"],
            drift=drift,
            draw=1 + day,
        )
        enter(ledger, one)
    for verdict in (
        Verdict(SECRET, "unsure", "ward 7", "ab", "his note of old"),
        Verdict(SECRET, "confirmed", "ward 7", "ab", "her note"),
        Verdict("b", "ruled out", "ward 7", "cd", f"in one room with {SECRET}, not 1"),
    ):
        record_verdicts(ledger, "key of 2026-01-01", [verdict])
    record_verdicts(
        ledger, "key of 2026-01-02", [Verdict("c", "confirmed", "", "cd", "")]
    )


def everything(ledger) -> str:
    """All that the ledger's tables hold, as text."""
    with ledger.reading() as connection:
        tables = [*TABLES.sorted_tables, *PROJECTED.sorted_tables]
        held = []
        for table in tables:
            held += connection.execute(sa.select(table))
    return "\n".join(map(str, held))


def figures(told: dict) -> dict:
    """History without the trail's head, which erasing adds to, and without drift, whose
    hashes go.

    Sums over patients go by their names, so that stand-ins change the last digit of
    some.
    """
    series = [
        {key: value for key, value in each.items() if key != "drift"}
        for each in told["series"]
    ]
    text = json.dumps({"runs": told["runs"], "series": series})

    def rounded(figure: str) -> float:
        return round(float(figure), 12)

    return json.loads(text, parse_float=rounded)


def test_erase_patient(ledger):
    """A patient is erased from every table, and the history stays the same."""
    three_nights(ledger)
    before = history(ledger)

    counts = erase(ledger, WHY, Scope(SECRET))

    assert counts == {
        "nights": 3,
        "cases": 3,
        "verdicts": 2,
        "mentions": 1,
    }
    held = everything(ledger)
    hashed = drift_of(SECRET)["who"][0]
    gone = [SECRET, "her note", "his note", str(hashed)]
    assert [word for word in gone if word in held] == []
    assert "in one room with [erased], not 1" in held
    assert figures(history(ledger, verify=True)) == figures(before)
    assert (
        history(ledger, verify=True, printed=before["audit"]["head"])["audit"][
            "entries"
        ]
        == 8
    )


def test_erase_twice(ledger):
    """Erasing twice is once; afterwards the patient is new like anybody."""
    three_nights(ledger)
    erase(ledger, WHY, Scope(SECRET))
    before = everything(ledger)
    assert erase(ledger, WHY, Scope(SECRET)) == NOTHING
    assert everything(ledger) == before
    again = enter(ledger, night(4, [SECRET, "b"]))
    assert states(again) == {SECRET: "new", "b": "ruled out"}
    history(ledger, verify=True)


nights_of = st.lists(st.sets(st.sampled_from("abcd")), min_size=1, max_size=4)
words = st.lists(st.sampled_from(VERDICTS), min_size=4, max_size=4)


@pytest.mark.repeated
@given(nights_of, words, st.sampled_from("abcde"))
@settings(max_examples=examples(6, 15))
def test_no_count_depends_on_who_was_forgotten(
    tmp_path_factory, flagged, given_words, name
):
    """And the trail always verifies."""
    said = dict(zip("abcd", given_words, strict=True))
    with open_ledger(
        tmp_path_factory.mktemp("forgotten") / "screening.db", make=True
    ) as ledger:
        for day, names in enumerate(flagged, start=1):
            one = night(day, sorted(names))
            enter(ledger, one)
            record_verdicts(
                ledger,
                one.night.key,
                [Verdict(each, said[each]) for each in sorted(names)],
            )
        before = figures(history(ledger))
        for scope in (Scope(name), Scope()):
            erase(ledger, WHY, scope)
            assert figures(history(ledger, verify=True)) == before


@pytest.mark.parametrize(
    "given", [b"x" * 10_000, "é\u2028é".encode(), "café".encode("latin-1")]
)
def test_erase_any_id(tmp_path, given):
    """An id of any length and encoding is erased by its bytes."""
    with open_ledger(tmp_path / "l.db", make=True) as ledger:
        enter(ledger, night(1, [id_from(given)]))
    words = ["forget", "-", "--ledger", str(tmp_path / "l.db"), "--json"]
    told = CliRunner().invoke(app, words, input=given + b"\n")
    assert json.loads(told.stdout)["ledger"]["cases"] == 1


def test_purge_scope(ledger):
    """A purge erases the names of old nights and no others."""
    three_nights(ledger)
    before = history(ledger)["runs"]
    counts = erase(ledger, WHY, Scope(before="2026-01-02"))
    assert counts["nights"] == 1
    assert counts["verdicts"] == 3
    assert history(ledger, verify=True)["runs"] == before
    again = enter(ledger, night(4, [SECRET]))
    assert states(again) == {SECRET: "pending"}
    assert "her note" not in everything(ledger)
    assert erase(ledger, WHY, Scope(before="2026-01-02")) == NOTHING


def test_purge_keeps_the_places_of_files_that_are_gone(ledger):
    """Whether or not a file is there, its place is no name of a patient."""
    enter(ledger, night(1, [SECRET]))
    table = Artefact(
        what="export", place="/p/a.csv", sha256="0" * 64, key="key of 2026-01-01"
    )
    hand_out(ledger, table)
    hand_out(ledger, table.replace(sha256=None))

    erase(ledger, WHY, Scope(before="2026-01-02"))

    assert SECRET not in everything(ledger)
    assert "/p/a.csv" in everything(ledger)
    history(ledger, verify=True)


def test_a_purge_of_one_series_leaves_the_others(ledger):
    for (day, name), ward in itertools.product(
        enumerate("ab", 1), ("ward-1", "ward-2")
    ):
        name_of_ward = f"{name}-{ward}"
        one = night(day, [name_of_ward], key=f"{name} {ward}", series=ward)
        enter(ledger, one)
    erase(ledger, WHY, Scope(before="2030-01-01", series="ward-1"))
    held = everything(ledger)
    kept = [
        text
        for text in ("a-ward-1", "b-ward-1", "a-ward-2", "b-ward-2")
        if text in held
    ]
    assert kept == ["a-ward-2", "b-ward-2"]
    history(ledger, verify=True)


def test_sealed_champion(ledger):
    """A model rewritten without a patient stays champion."""
    enter(ledger, night(1, "a", series="ward-1"))
    # An attempt was killed before its model stood in the old one's place; the next
    # makes another one.
    for before, after in ("mn", "mo", "mo", "xy"):
        record_sealed(ledger, before * 64, after * 64)
    enter(ledger, night(2, "a", series="ward-1", model="o" * 64))
    told = history(ledger, verify=True)
    change = {
        "model_before": "o" * 64,
        "model_after": "p" * 64,
        "reason": "r",
        "classes": [],
    }
    record_revision(ledger, "threshold", change)
    record_sealed(ledger, "p" * 64, "q" * 64)
    enter(ledger, night(3, "a", series="ward-1", model="q" * 64))
    assert told["threshold_changes"] == []
    assert told["audit"]["entries"] == 4


@pytest.mark.parametrize(
    ("age", "today", "first"),
    [
        ("3y", "2026-03-01", "2023-03-01"),
        ("1y", "2024-02-29", "2023-03-01"),
        ("4y", "2024-02-29", "2020-03-01"),
        ("2w", "2026-03-01", "2026-02-15"),
        ("90d", "2026-03-01", "2025-12-01"),
    ],
)
def test_an_age_is_counted_back_from_today(age, today, first):
    assert before_age(age, datetime.date.fromisoformat(today)) == first


@pytest.mark.parametrize("age", ["", "3", "0d", "-1y", "3m", "99999y", "3 y"])
def test_no_age_is_no_purge(age):
    with pytest.raises(UsageError, match="older_than"):
        before_age(age, datetime.date(2026, 3, 1))


PEOPLE = ("A", "B", "A B", "erased", "o'Neil", "erased-0123456789abcdef")
NOTES = st.lists(st.sampled_from([*PEOPLE, "beside", "[erased]", ","]), max_size=5)
STEPS = st.one_of(
    st.tuples(st.just("forget"), st.sampled_from(PEOPLE)),
    st.tuples(st.just("purge"), st.integers(1, 5)),
    st.tuples(st.just("verdict"), st.sampled_from(PEOPLE), NOTES.map(" ".join)),
)


@pytest.mark.repeated
@given(steps=st.lists(STEPS, min_size=2, max_size=6))
@settings(max_examples=examples(8, 20), deadline=None)
def test_erasing_any_order(steps):
    """Erasures of overlapping texts in any order leave a trail that verifies."""
    with (
        TemporaryDirectory() as folder,
        open_ledger(f"{folder}/l", make=True) as ledger,
    ):
        for day in (1, 2):
            drift = drift_of(*PEOPLE)
            enter(ledger, night(day, PEOPLE, drift=drift))
        for step, *words in steps:
            if step == "forget":
                erase(ledger, WHY, Scope(patient=words[0]))
            elif step == "purge":
                erase(ledger, WHY, Scope(before=f"2026-01-0{words[0]}"))
            else:
                verdict = Verdict(words[0], "unsure", "ward 7", "ab", words[1])
                with suppress(KeyError):  # The case was erased.
                    record_verdicts(ledger, "key of 2026-01-02", [verdict])
            with ledger.reading() as connection:
                follow(connection)
        rebuild(ledger)
        with ledger.writing() as connection:
            verify(connection, None)


def test_erasing_mention_then_patient(ledger):
    """A note that was erased in part is erased in full later, and verifies."""
    enter(ledger, night(1, ["A", "B"]))
    verdict = Verdict("A", "unsure", "ward 7", "ab", "in one room with B")
    record_verdicts(ledger, "key of 2026-01-01", [verdict])

    of_b = erase(ledger, WHY, Scope(patient="B"))
    of_a = erase(ledger, WHY, Scope(patient="A"))
    assert of_b["mentions"] == 1
    assert of_a["verdicts"] == 1

    assert "room" not in everything(ledger)
    with ledger.writing() as connection:
        verify(connection, None)
    rebuild(ledger)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_mention_either_unicode_form(form, ledger):
    """An id is found in a note whichever way its letters are composed."""
    name = unicodedata.normalize("NFC", "Žofie-7")
    enter(ledger, night(1, [name, "B"]))
    note = f"beside {unicodedata.normalize(form, name)}, at the window"
    verdict = Verdict("B", "unsure", "ward 7", "ab", note)
    record_verdicts(ledger, "key of 2026-01-01", [verdict])

    counts = erase(ledger, WHY, Scope(patient=name))
    assert counts["mentions"] == 1


@pytest.mark.parametrize("other", ["AB-1", "X/AB", "1AB", "AB.2", "AB_"])
def test_mention_longer_id(other, ledger):
    """A note on another patient whose id has this one as a part stays word for word."""
    enter(ledger, night(1, ["AB", other]))
    note = f"moved from {other} to AB, at the window"
    verdict = Verdict(other, "unsure", "ward 7", "ab", note)
    record_verdicts(ledger, "key of 2026-01-01", [verdict])

    counts = erase(ledger, WHY, Scope(patient="AB"))

    assert counts["mentions"] == 1
    assert f"moved from {other} to [erased], at the window" in everything(ledger)


@given(text=st.text("aAbB1-./ ,;:(", max_size=12))
def test_mention_same_rule_in_notes_and_pages(text):
    """An id ends in a note where it ends in a page."""
    is_erased = "".join(Scope("AB").without(list(text))) != text

    assert is_erased == mentions(text.encode(), "AB")


def files_naming(cluster: Path, text: str) -> set[str]:
    """Return the files of a PostgreSQL cluster in which a text stands, but of its
    WAL.
    """
    kept = []
    for path in (cluster / "tables").rglob("*"):
        if path.is_file() and "pg_wal" not in path.parts:
            kept.append(path)
    return {str(path) for path in kept if text.encode() in path.read_bytes()}


def test_no_dead_row_on_postgresql(postgres, new_place):
    """After the statements of the runbook no file of the tables names the patient."""
    patient = "ZxCANARY00123"
    page = Artefact(what="case", place="/p/a.html", sha256="0" * 64, patient=patient)
    with open_ledger(new_place("postgresql"), make=True) as ledger:
        for day in (1, 2):
            everyone = [patient, *map(str, range(300))]
            enter(ledger, night(day, everyone))
        key = "key of 2026-01-01"
        verdict = Verdict(patient, "unsure", note=patient)
        record_verdicts(ledger, key, [verdict])
        hand_out(ledger, page)
        hand_out(ledger, page.replace(sha256=None))
        with ledger.engine.connect() as connection:
            autocommit = connection.execution_options(isolation_level="AUTOCOMMIT")
            autocommit.exec_driver_sql("ANALYZE")
            erase(ledger, WHY, Scope(patient))
            autocommit.exec_driver_sql("CHECKPOINT")
            before = files_naming(Path(postgres), patient)
            statements = VACUUM.search(RUNBOOK.read_text("utf-8"))[1]
            for statement in statements.split(";"):
                if statement.strip():
                    autocommit.exec_driver_sql(statement)
            autocommit.exec_driver_sql("CHECKPOINT")

    assert before
    assert files_naming(Path(postgres), patient) == set()
