"""A series is one screen of one place: nights of one never touch the cases or counts of another."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ledger import FlaggedNight, enter, night, states

from screening.errors import UsageError
from screening.ledger.database import RUNS, Unchained, open_ledger
from screening.ledger.entries import Forgotten, append
from screening.ledger.erasing import Scope, digest_of_stand_ins, erase
from screening.ledger.history import history
from screening.ledger.model_registry import record_revision
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.ledger.verifying import rebuild
from screening.spelling import series_name


def of_ward(name: str, day: int, flagged: str, model: str = "m", sampled=(), /, **other) -> FlaggedNight:
    """A night of a ward; every ward asks the same question."""
    return night(day, flagged, sampled, key=f"{name} {model} {day}", model=model * 64, series=name, **other)


def counts_of(ledger, name: str) -> list[dict[str, int]]:
    names = ("night", "cases", "new", "pending", "ruled_out", "known", "no_longer_flagged", "verdicts", "ppv")
    return [{key: run[key] for key in names} for run in history(ledger, name)["runs"]]


flags = st.lists(st.lists(st.sets(st.sampled_from("abcd")), min_size=3, max_size=3), min_size=1, max_size=4)


@given(flags)
@settings(max_examples=10)
def test_wards_on_one_ledger_have_the_counts_of_wards_on_their_own(tmp_path_factory, flagged):
    folder = tmp_path_factory.mktemp("wards")
    wards = ("ward-1", "ward-2", "ward-3")
    with open_ledger(folder / "all.db", make=True) as shared:
        for (day, of_night), place in itertools.product(enumerate(flagged, start=1), range(3)):
            names = sorted(of_night[place])
            enter(shared, of_ward(wards[place], day, "".join(names)))
            said = [Verdict(name, "confirmed") for name in names[:1]]
            record_verdicts(shared, f"{wards[place]} m {day}", said)
        for place, ward in enumerate(wards):
            with open_ledger(folder / f"{ward}.db", make=True) as alone:
                for day, of_night in enumerate(flagged, start=1):
                    names = sorted(of_night[place])
                    enter(alone, of_ward(ward, day, "".join(names)))
                    said = [Verdict(name, "confirmed") for name in names[:1]]
                    record_verdicts(alone, f"{ward} m {day}", said)
                assert counts_of(shared, ward) == counts_of(alone, ward)
                assert history(shared, ward)["series"] == history(alone)["series"]
        history(shared, verify=True)


def test_a_night_without_a_name_follows_those_that_asked_the_same_question(ledger):
    enter(ledger, night(1, "a"))
    enter(ledger, of_ward("ward-1", 2, "b"))
    assert states(enter(ledger, night(3, "ab"))) == {"a": "pending", "b": "new"}


def test_another_model_is_refused_until_the_trail_has_put_it_there(ledger):
    enter(ledger, of_ward("ward-1", 1, "a"))
    with pytest.raises(UsageError, match="series ward-1 is scored with model mmmmmmmmmmmm"):
        enter(ledger, of_ward("ward-1", 2, "ab", "n"))
    enter(ledger, of_ward("ward-2", 2, "ab", "n"))
    record_revision(
        ledger, "threshold", {"model_before": "m" * 64, "model_after": "n" * 64, "reason": "r", "classes": []}
    )
    second = enter(ledger, of_ward("ward-1", 2, "ab", "n"))

    assert states(second) == {"a": "pending", "b": "new"}


def test_a_change_of_threshold_in_one_series_leaves_the_same_model_in_others(ledger):
    for ward in ("ward-1", "ward-2"):
        enter(ledger, of_ward(ward, 1, "a"))
    change = {"model_before": "m" * 64, "model_after": "n" * 64, "reason": "r", "classes": []}
    record_revision(ledger, "threshold", change, "ward-1")
    enter(ledger, of_ward("ward-1", 2, "a", "n"))
    enter(ledger, of_ward("ward-2", 2, "a"))
    history(ledger, verify=True)

    assert [len(history(ledger, ward)["threshold_changes"]) for ward in ("ward-1", "ward-2")] == [1, 0]


def test_a_forced_night_by_another_model_is_that_night_alone(ledger):
    enter(ledger, of_ward("ward-1", 1, "a"))
    forced = enter(ledger, of_ward("ward-1", 1, "ab", "n"), force=True)
    third = enter(ledger, of_ward("ward-1", 2, "ab"))

    assert forced.night.revision == 2
    assert states(third) == {"a": "pending", "b": "pending"}
    assert [run["in_force"] for run in history(ledger, verify=True)["runs"]] == [False, True, True]


def test_a_series_is_asked_for_by_its_name_or_the_digits_it_is_shown_by(ledger):
    enter(ledger, night(1, "a"))
    enter(ledger, of_ward("ward-1", 1, "a"))
    shown = [each["series"] for each in history(ledger)["series"]]

    assert sorted(len(history(ledger, name)["runs"]) for name in shown) == [1, 1]
    with pytest.raises(UsageError, match="did you mean 'ward-1'"):
        history(ledger, "ward1")


def test_digits_that_two_series_begin_with_name_neither(ledger):
    for day, digest in ((1, "a" * 64), (2, "a" * 12 + "b" * 52)):
        enter(ledger, night(day, "a"))
        with ledger.writing() as connection:
            connection.execute(RUNS.update().where(RUNS.c.series != "a" * 64).values(series=digest))

    with pytest.raises(UsageError, match="no series 'aaaaaaaaaaaa'"):
        history(ledger, "a" * 12)


@pytest.mark.parametrize("name", ["", " ", "each", "a b", "../x", "-x", "a" * 41, "0123456789ab", "a\n"])
def test_what_could_be_taken_for_something_else_is_no_name(name):
    with pytest.raises(ValueError, match="series"):
        series_name(name)


@pytest.fixture
def forgotten(ledger):
    """A night and two verdicts, of which one patient was erased: four entries."""
    enter(ledger, of_ward("ward-1", 1, "ab"))
    for word in ("ruled out", "confirmed"):
        record_verdicts(ledger, "ward-1 m 1", [Verdict("a", word, note="SECRET77")])
    erase(ledger, "forget", "asked", Scope("a"))
    return ledger


def test_what_an_entry_says_it_erased_may_be_gone(forgotten):
    audit = history(forgotten, verify=True)["audit"]
    # A case, of a night and of two verdicts, and two notes.
    assert (audit["entries"], audit["erased"]) == (4, 5)


CLAIM = """UPDATE parts SET facts = REPLACE(facts, '"erased":[', '"erased":[[1,0,[0],"x"],')"""


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE parts SET names = '[\"\",\"\"]' WHERE entry = 1 AND what = 'cases'", "entry 1 .run"),
        ("UPDATE parts SET facts = REPLACE(facts, 'ruled out', 'known') WHERE entry = 2", "entry 2 .verdict"),
        ("UPDATE parts SET names = REPLACE(names, 'erased-', 'erased-0') WHERE entry = 2", "entry 2"),
        ("UPDATE parts SET names = '[\"b\"]' WHERE entry = 2 AND what = 'case'", "entry 2 .verdict"),
        ("UPDATE parts SET gone = '{}' WHERE entry = 3", "entry 3 .verdict"),
        (CLAIM + " WHERE entry = 4 AND part = 0", "entry 1 .run"),
        ("DELETE FROM parts WHERE entry = 2 AND part = 4", "entry 2"),
    ],
)
def test_only_what_an_entry_names_may_be_gone(forgotten, statement, told):
    with forgotten.writing() as connection:
        connection.exec_driver_sql(statement)
    with pytest.raises(Unchained, match=told):
        history(forgotten, verify=True)


@pytest.mark.parametrize("kind", ["facts", "names"])
def test_an_entry_made_by_hand_that_forgets_rewrites_nothing_else(ledger, kind):
    """What a forger appends is an entry as whole as any; facts and names of earlier ones still do not fit."""
    enter(ledger, of_ward("ward-1", 1, "ab"))
    record_verdicts(ledger, "ward-1 m 1", [Verdict("a", "ruled out")])
    words = {"facts": ("'ruled out'", "'known'", "facts"), "names": ("'a'", "'b'", "what = 'case' AND names")}
    with ledger.writing() as connection:
        before, after, column = words[kind]
        column = column.rsplit(maxsplit=1)[-1]
        connection.exec_driver_sql(
            f"UPDATE parts SET {column} = REPLACE({column}, {before}, {after}) WHERE entry = 2"
        )
        erased = [(2, part, [0], digest_of_stand_ins(["b"], [0])) for part in range(2)]
        append(connection, ledger.clock(), Forgotten(erased=erased))

    with pytest.raises(Unchained, match=r"entry 2 \(verdict"):
        rebuild(ledger)
    with pytest.raises(Unchained, match=r"entry 2 \(verdict"):
        history(ledger, verify=True)
