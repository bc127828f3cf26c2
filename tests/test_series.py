"""A series is one screen of one place: nights of one never touch the cases or counts of
another.
"""

import itertools
from dataclasses import replace

import pytest
from faults.amounts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_nights import enter, night, of_ward, states, verdicts_of

from screening import load_model
from screening.errors import UsageError
from screening.ledger.database import PARTS, RUNS, Unchained, open_ledger
from screening.ledger.entries import Forgotten, append
from screening.ledger.erasing import Scope, digest_of_stand_ins, erase
from screening.ledger.history import compare_nights, history
from screening.ledger.model_registry import (
    follow_revisions,
    promote,
    record_revision,
)
from screening.ledger.trail import parts_of
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.ledger.verifying import rebuild
from screening.schemas.history import HistoryDocument
from screening.spelling import series_name


def counts_of(ledger, name: str) -> list[dict[str, int]]:
    names = (
        "night",
        "cases",
        "new",
        "pending",
        "ruled_out",
        "known",
        "no_longer_flagged",
        "verdicts",
        "ppv",
    )
    runs = history(ledger, name)["runs"]
    return [{key: run[key] for key in names} for run in runs]


ward_nights = st.lists(st.sets(st.sampled_from("abcd")), min_size=3, max_size=3)
flags = st.lists(ward_nights, min_size=1, max_size=4)


@pytest.mark.repeated
@given(flags)
@settings(max_examples=examples(4, 10))
def test_wards_share_ledger(tmp_path_factory, flagged):
    """Wards on one ledger have the counts of wards with a ledger each."""
    folder = tmp_path_factory.mktemp("wards")
    wards = ("ward-1", "ward-2", "ward-3")

    def enter_night(ledger, ward: str, day: int, names: set[str]) -> None:
        flagged = "".join(sorted(names))
        enter(ledger, of_ward(ward, day, flagged))
        said = [Verdict(name, "confirmed") for name in sorted(names)[:1]]
        record_verdicts(ledger, f"{ward} m {day}", said)

    with open_ledger(folder / "all.db", make=True) as shared:
        for (day, of_night), place in itertools.product(
            enumerate(flagged, start=1), range(3)
        ):
            enter_night(shared, wards[place], day, of_night[place])
        for place, ward in enumerate(wards):
            with open_ledger(folder / f"{ward}.db", make=True) as alone:
                for day, of_night in enumerate(flagged, start=1):
                    enter_night(alone, ward, day, of_night[place])
                assert counts_of(shared, ward) == counts_of(alone, ward)
                assert history(shared, ward)["series"] == history(alone)["series"]
        history(shared, verify=True)


def test_series_without_name(ledger):
    """A night without a name follows those with the same question."""
    enter(ledger, night(1, "a"))
    enter(ledger, of_ward("ward-1", 2, "b"))
    third = enter(ledger, night(3, "ab"))
    assert states(third) == {"a": "pending", "b": "new"}


TO_N = {
    "model_before": "m" * 64,
    "model_after": "n" * 64,
    "reason": "r",
    "classes": [],
}


def test_other_model_refused(ledger):
    """Another model is refused until the trail makes it champion."""
    enter(ledger, of_ward("ward-1", 1, "a"))
    with pytest.raises(UsageError, match="series ward-1 uses model mmmmmmmmmmmm"):
        enter(ledger, of_ward("ward-1", 2, "ab", "n"))
    enter(ledger, of_ward("ward-2", 2, "ab", "n"))
    record_revision(ledger, "threshold", TO_N)
    second = enter(ledger, of_ward("ward-1", 2, "ab", "n"))
    assert states(second) == {
        "a": "pending",
        "b": "new",
    }


def test_threshold_of_one_series(ledger):
    """A changed threshold in one series leaves the same model in others."""
    wards = ("ward-1", "ward-2")
    for ward in wards:
        enter(ledger, of_ward(ward, 1, "a"))
    record_revision(ledger, "threshold", TO_N, ["ward-1"])
    for ward, model in zip(wards, "nm", strict=True):
        enter(ledger, of_ward(ward, 2, "a", model))
    history(ledger, verify=True)
    n_changes = []
    for ward in wards:
        n_changes.append(len(history(ledger, ward)["threshold_changes"]))
    assert n_changes == [1, 0]


def test_forced_model_one_night(ledger):
    """A forced model counts for that night alone."""
    enter(ledger, of_ward("ward-1", 1, "a"))
    forced = enter(ledger, of_ward("ward-1", 1, "ab", "n"), force=True)
    third = enter(ledger, of_ward("ward-1", 2, "ab"))
    assert forced.night.revision == 2
    assert states(third) == {"a": "pending", "b": "pending"}
    runs = history(ledger, verify=True)["runs"]
    assert [run["in_force"] for run in runs] == [
        False,
        True,
        True,
    ]


def test_find_series(ledger):
    """A series is found by its name or by the digits shown for it."""
    enter(ledger, night(1, "a"))
    enter(ledger, of_ward("ward-1", 1, "a"))
    shown = [each["series"] for each in history(ledger)["series"]]
    n_runs = [len(history(ledger, name)["runs"]) for name in shown]
    assert n_runs == [1, 1]
    with pytest.raises(UsageError, match="did you mean 'ward-1'"):
        history(ledger, "ward1")


def test_digits_that_two_series_begin_with_name_neither(ledger):
    digests = ("a" * 64, "a" * 12 + "b" * 52)
    for day, digest in enumerate(digests, 1):
        enter(ledger, night(day, "a"))
        with ledger.writing() as connection:
            others = RUNS.c.series != "a" * 64
            renamed = RUNS.update().where(others)
            connection.execute(renamed.values(series=digest))
    with pytest.raises(UsageError, match="no series 'aaaaaaaaaaaa'"):
        history(ledger, "a" * 12)


@pytest.mark.parametrize(
    "name", ["", " ", "each", "a b", "../x", "-x", "a" * 41, "0123456789ab", "a\n"]
)
def test_series_name_refused(name):
    """A name that could be taken for something else is refused."""
    with pytest.raises(ValueError, match="series"):
        series_name(name)


@pytest.fixture
def forgotten(ledger):
    """A night and two verdicts, of which one patient was erased: four entries."""
    enter(ledger, of_ward("ward-1", 1, "ab"))
    for word in ("ruled out", "confirmed"):
        verdict = Verdict("a", word, note="SECRET77")
        record_verdicts(ledger, "ward-1 m 1", [verdict])
    erase(ledger, "asked", Scope("a"))
    return ledger


def test_what_an_entry_says_it_erased_may_be_gone(forgotten):
    audit = history(forgotten, verify=True)["audit"]
    # A case, of a night and of two verdicts, and two notes.
    assert audit["entries"] == 4
    assert audit["erased"] == 5


CLAIM = """UPDATE parts SET facts = REPLACE(facts, '"erased":[', '"erased":[[1,0,[0],"x"],')"""


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "UPDATE parts SET names = '[\"\",\"\"]' WHERE entry = 1 AND what = 'cases'",
            "entry 1 .run",
        ),
        (
            "UPDATE parts SET facts = REPLACE(facts, 'ruled out', 'known') WHERE entry = 2",
            "entry 2 .verdict",
        ),
        (
            "UPDATE parts SET names = REPLACE(names, 'erased-', 'erased-0') WHERE entry = 2",
            "entry 2",
        ),
        (
            "UPDATE parts SET names = '[\"b\"]' WHERE entry = 2 AND what = 'case'",
            "entry 2 .verdict",
        ),
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


@pytest.mark.parametrize(
    ("column", "before", "after"),
    [
        ("facts", "'ruled out'", "'known'"),
        ("names", "'a'", "'b'"),
    ],
)
def test_forged_forget(ledger, column, before, after):
    """What a forger appends is an entry as whole as any; facts and names of earlier
    ones still do not fit.
    """
    enter(ledger, of_ward("ward-1", 1, "ab"))
    record_verdicts(ledger, "ward-1 m 1", [Verdict("a", "ruled out")])
    change = f"UPDATE parts SET {column} = REPLACE({column}, {before}, {after}) WHERE entry = 2"
    with ledger.writing() as connection:
        connection.exec_driver_sql(change)
        digest = digest_of_stand_ins(["b"], [0])
        erased = [(2, part, [0], digest) for part in range(2)]
        append(connection, ledger.clock(), Forgotten(erased=erased))
    for look in (rebuild, lambda ledger: history(ledger, verify=True)):
        with pytest.raises(Unchained, match=r"entry 2 \(verdict"):
            look(ledger)


@pytest.mark.parametrize(
    ("name", "erased"),
    [
        # An entry claims what is no stand-in; no entry claims the stand-in; another one
        # is claimed.
        ("b", [(2, 1, [0], digest_of_stand_ins(["b"], [0]))]),
        ("erased-0123456789abcdef", []),
        (
            "erased-0123456789abcdef",
            [(2, 1, [0], digest_of_stand_ins(["erased-fedcba9876543210"], [0]))],
        ),
    ],
)
def test_stand_ins_of_entry(ledger, name, erased):
    """A forger who keeps the digest of the name as it was, as erasing does, is found as
    well.
    """
    enter(ledger, of_ward("ward-1", 1, "ab"))
    record_verdicts(ledger, "ward-1 m 1", [Verdict("a", "ruled out")])
    with ledger.writing() as connection:
        case = parts_of(connection, [2], "case")[2]
        gone = {"0": case.leaf(0, "a").hex()}
        forged = replace(case, names=[name], gone=gone).stored()
        place = (PARTS.c.entry == 2) & (PARTS.c.part == 1)
        update = PARTS.update().where(place)
        connection.execute(update.values(forged))
        append(connection, ledger.clock(), Forgotten(erased=erased))
    with pytest.raises(
        Unchained, match=r"the names of entry 2 \(verdict\) were changed"
    ):
        rebuild(ledger)


HERE = "m" * 64
SHADOW = "n" * 64


def shadow(day: int, flagged: str, **other):
    """A night that the challenger scored beside the champion."""
    return of_ward("ward-1", day, flagged, "n", shadow=True, **other)


def kept(told: dict) -> list:
    return [told[name] for name in ("runs", "series", "threshold_changes")]


some = st.sets(st.sampled_from("abcde"))
both_flag = st.lists(st.tuples(some, some), min_size=1, max_size=4)


@pytest.mark.repeated
@given(both_flag)
@settings(max_examples=examples(4, 10))
def test_shadow_leaves_champion(tmp_path_factory, flagged):
    """The champion's figures do not depend on what a shadow flags."""
    folder = tmp_path_factory.mktemp("shadow")
    with (
        open_ledger(
            folder / "with.db", make=True, clock=lambda: "2026-01-01"
        ) as beside,
        open_ledger(
            folder / "alone.db", make=True, clock=lambda: "2026-01-01"
        ) as alone,
    ):
        for day, (ours, theirs) in enumerate(flagged, start=1):
            for book in (beside, alone):
                flagged_here = "".join(sorted(ours))
                enter(book, of_ward("ward-1", day, flagged_here))
                said = [Verdict(name, "ruled out") for name in sorted(ours)[:1]]
                record_verdicts(book, f"ward-1 m {day}", said)
            flagged_there = "".join(sorted(theirs))
            enter(beside, shadow(day, flagged_there))
        comparison = compare_nights(beside, "ward-1", SHADOW)

        with_shadow = history(beside, verify=True)
        assert kept(with_shadow) == kept(history(alone))
        for names, counted in ((0, comparison.one), (1, comparison.other)):
            assert comparison.both + counted.only == sum(
                len(night[names]) for night in flagged
            )
        n_both = sum(len(ours & theirs) for ours, theirs in flagged)
        assert comparison.both == n_both


def test_compare_by_hand(ledger):
    """Agreement and predictive values are those counted by hand."""
    # Ten patients a night: flagged and unflagged together.
    for day, ours, theirs in ((1, "abc", "bcd"), (2, "ab", "ab")):
        for one, flagged in (
            (of_ward("ward-1", day, ours), ours),
            (shadow(day, theirs), theirs),
        ):
            n_unflagged = 10 - len(flagged)
            counted = one.night.replace(unflagged={"cases": n_unflagged})
            audited = tuple({"d"} - set(flagged))
            enter(ledger, replace(one, night=counted, sampled=audited))
    said = {"a": "ruled out", "b": "confirmed", "c": "unsure", "d": "confirmed"}
    record_verdicts(ledger, "ward-1 m 1", verdicts_of(said))
    comparison = compare_nights(ledger, "ward-1", SHADOW[:12])
    one = comparison.one
    other = comparison.other
    chance = (5 * 5 + 15 * 15) / 400

    assert comparison.nights == 2
    assert comparison.both == 4
    assert comparison.neither == 14
    assert comparison.other_tables == 0
    assert comparison.agreement == pytest.approx(18 / 20)
    kappa = (0.9 - chance) / (1 - chance)
    assert comparison.kappa == pytest.approx(kappa)
    assert one.only == 1
    assert one.ppv.found == 1
    assert one.ppv.judged == 2
    assert other.only == 1
    assert other.ppv.found == 2
    assert other.ppv.judged == 3
    assert other.only_ppv.found == 1
    assert other.only_ppv.judged == 1
    assert one.cases_per_night == one.waiting_per_night == 2.5


def test_nights_of_other_tables_are_in_no_agreement(ledger):
    enter(ledger, of_ward("ward-1", 1, "a"))
    other = shadow(1, "b")
    of_another_table = other.night.replace(table="another")
    enter(ledger, replace(other, night=of_another_table))
    comparison = compare_nights(ledger, "ward-1", SHADOW)
    assert comparison.agreement is None
    assert comparison.kappa is None
    assert comparison.other_tables == 1


def test_shadow_nights_in_row(ledger):
    """Nights in shadow follow each other, not the champion's."""
    enter(ledger, of_ward("ward-1", 1, "a"))
    enter(ledger, shadow(1, "b"))
    second = enter(ledger, shadow(2, "ab"))
    assert states(second) == {"a": "new", "b": "pending"}
    third = enter(ledger, of_ward("ward-1", 2, "ab"))
    assert states(third) == {
        "a": "pending",
        "b": "new",
    }


def test_shadow_then_in_force(ledger):
    """The same run in shadow and then in force are two revisions."""
    enter(ledger, of_ward("ward-1", 1, "a"))
    enter(ledger, shadow(2, "a"))
    again = enter(ledger, of_ward("ward-1", 2, "a", "n"), force=True)
    assert again.night.revision == 2
    *_, last = history(ledger, verify=True)["runs"]
    assert last["in_force"]


def test_promoted_next_night(ledger):
    """Only who was in shadow is promoted, and never without a reason; nobody reviews a
    shadow.
    """
    enter(ledger, of_ward("ward-1", 1, "a"))
    with pytest.raises(UsageError, match="no night in shadow"):
        promote(ledger, "ward-1", SHADOW, "because", {})
    enter(ledger, shadow(1, "ab"))
    with pytest.raises(UsageError, match="in shadow"):
        record_verdicts(ledger, "ward-1 n 1", [Verdict("a", "ruled out")])
    with pytest.raises(UsageError, match="reason"):
        promote(ledger, "ward-1", SHADOW, " ", {})
    assert history(ledger)["promotions"] == []
    evidence = compare_nights(ledger, "ward-1", SHADOW)
    head = promote(ledger, "ward-1", SHADOW, "finds b", evidence)
    with pytest.raises(UsageError, match="uses model nnnnnnnnnnnn"):
        enter(ledger, of_ward("ward-1", 2, "a"))
    # Nights are told under the model that scored them, whoever is champion now.
    assert (
        compare_nights(ledger, "ward-1", SHADOW).one.model
        == evidence.one.model
        == HERE[:12]
    )
    second = enter(ledger, of_ward("ward-1", 2, "ab", "n"))
    told = history(ledger, "ward-1", verify=True)
    (promotion,) = told["promotions"]

    assert states(second) == {"a": "pending", "b": "new"}
    models = [run["model"] for run in told["runs"]]
    assert models == [HERE[:12], SHADOW[:12]]
    assert HistoryDocument.from_dict(told).promotions[0].evidence == evidence
    assert promotion["reason"] == "finds b"
    assert promotion["entry"] == head.number
    assert promotion["model_before"] == HERE
    assert promotion["model_after"] == SHADOW
    assert promote(ledger, "ward-1", SHADOW, "again", {}) == (
        4,
        history(ledger)["audit"]["head"],
    )


def test_digits_of_two_shadows_name_neither(ledger):
    enter(ledger, of_ward("ward-1", 1, "a"))
    enter(ledger, shadow(1, "b"))
    another = night(
        1, "b", key="another", model="nnnn" + "o" * 60, series="ward-1", shadow=True
    )
    enter(ledger, another)

    with pytest.raises(
        UsageError, match="several models in shadow begin with these digits"
    ):
        compare_nights(ledger, "ward-1", "nnnn")
    assert compare_nights(ledger, "ward-1", "nnnno").other.model == "nnnn" + "o" * 8


def test_only_revisions_of_the_champion_follow_it(ledger, logistic_model):
    other = load_model(logistic_model).facts
    enter(ledger, of_ward("ward-1", 1, "a"))
    entries = history(ledger)["audit"]["entries"]

    with pytest.raises(UsageError, match="no night in shadow"):
        follow_revisions(ledger, "ward-1", other, "because")

    assert history(ledger)["audit"]["entries"] == entries


def test_series_begins_in_shadow(ledger):
    """A series that begins in shadow has no night in force until a promotion."""
    enter(ledger, shadow(1, "a"))
    before = history(ledger)
    promote(
        ledger, "ward-1", SHADOW, "begins", compare_nights(ledger, "ward-1", SHADOW)
    )
    assert before["runs"] == before["series"] == []
    second = enter(ledger, of_ward("ward-1", 2, "a", "n"))
    assert states(second) == {"a": "new"}


def test_two_wards_may_be_put_beside_each_other(ledger):
    for ward, flagged in (("ward-1", "ab"), ("ward-2", "b")):
        enter(ledger, of_ward(ward, 1, flagged))
    comparison = compare_nights(ledger, "ward-1", "ward-2")
    assert comparison.both == 1
    assert comparison.one.only == 1
    assert comparison.other.series == "ward-2"
    absent = "model aaaaaaaaaaaa has no night in shadow in series ward-1"
    for other, told in (
        ("ward-1", "compared with itself"),
        (SHADOW, "no series"),
        ("a" * 64, absent),
    ):
        with pytest.raises(UsageError, match=told):
            compare_nights(ledger, "ward-1", other)
