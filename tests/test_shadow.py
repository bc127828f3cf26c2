"""A shadow is scored, recorded and compared beside the champion, and changes nothing of the champion's."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ledger import enter, states
from test_series import of_ward

from screening.errors import UsageError
from screening.ledger.database import open_ledger
from screening.ledger.history import compare_nights, history
from screening.ledger.model_registry import promote
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.schemas.history import HistoryDocument

HERE, SHADOW = "m" * 64, "n" * 64


def shadow(day: int, flagged: str, **other):
    """A night that the challenger scored beside the champion."""
    return of_ward("ward-1", day, flagged, "n", shadow=True, **other)


def kept(told: dict) -> list:
    return [told[name] for name in ("runs", "series", "threshold_changes")]


flags = st.lists(
    st.tuples(st.sets(st.sampled_from("abcde")), st.sets(st.sampled_from("abcde"))), min_size=1, max_size=4
)


@given(flags)
@settings(max_examples=10)
def test_whatever_a_shadow_flags_the_champions_figures_are_those_without_it(tmp_path_factory, flagged):
    folder = tmp_path_factory.mktemp("shadow")
    with (
        open_ledger(folder / "with.db", make=True, clock=lambda: "2026-01-01") as beside,
        open_ledger(folder / "alone.db", make=True, clock=lambda: "2026-01-01") as alone,
    ):
        for day, (ours, theirs) in enumerate(flagged, start=1):
            for book in (beside, alone):
                enter(book, of_ward("ward-1", day, "".join(sorted(ours))))
                said = [Verdict(name, "ruled out") for name in sorted(ours)[:1]]
                record_verdicts(book, f"ward-1 m {day}", said)
            enter(beside, shadow(day, "".join(sorted(theirs))))
        comparison = compare_nights(beside, "ward-1", SHADOW)

        assert kept(history(beside, verify=True)) == kept(history(alone))
        for names, counted in ((0, comparison.one), (1, comparison.other)):
            assert comparison.both + counted.only == sum(len(night[names]) for night in flagged)
        assert comparison.both == sum(len(ours & theirs) for ours, theirs in flagged)


def test_agreement_and_predictive_values_are_those_counted_by_hand(ledger):
    # Ten patients a night: flagged and unflagged together.
    for day, ours, theirs in ((1, "abc", "bcd"), (2, "ab", "ab")):
        for one, flagged in ((of_ward("ward-1", day, ours), ours), (shadow(day, theirs), theirs)):
            counted = one.night.replace(unflagged={"cases": 10 - len(flagged)})
            enter(ledger, replace(one, night=counted, sampled=tuple({"d"} - set(flagged))))
    verdicts = [
        Verdict("a", "ruled out"), Verdict("b", "confirmed"), Verdict("c", "unsure"),
        Verdict("d", "confirmed"),
    ]  # fmt: skip
    record_verdicts(ledger, "ward-1 m 1", verdicts)
    comparison = compare_nights(ledger, "ward-1", SHADOW[:12])

    assert (comparison.nights, comparison.both, comparison.neither, comparison.other_tables) == (2, 4, 14, 0)
    assert comparison.agreement == pytest.approx(18 / 20)
    chance = (5 * 5 + 15 * 15) / 400
    assert comparison.kappa == pytest.approx((0.9 - chance) / (1 - chance))
    assert [(each.only, each.ppv.found, each.ppv.judged) for each in (comparison.one, comparison.other)] == [
        (1, 1, 2),
        (1, 2, 3),
    ]
    assert (comparison.other.only_ppv.found, comparison.other.only_ppv.judged) == (1, 1)
    assert comparison.one.cases_per_night == 2.5
    assert comparison.one.waiting_per_night == 2.5


def test_nights_of_other_tables_are_in_no_agreement(ledger):
    enter(ledger, of_ward("ward-1", 1, "a"))
    other = shadow(1, "b")
    enter(ledger, replace(other, night=other.night.replace(table="another")))
    comparison = compare_nights(ledger, "ward-1", SHADOW)
    assert (comparison.agreement, comparison.kappa, comparison.other_tables) == (None, None, 1)


def test_a_shadows_nights_follow_each_other_and_not_the_champions(ledger):
    enter(ledger, of_ward("ward-1", 1, "a"))
    enter(ledger, shadow(1, "b"))
    assert states(enter(ledger, shadow(2, "ab"))) == {"a": "new", "b": "pending"}
    assert states(enter(ledger, of_ward("ward-1", 2, "ab"))) == {"a": "pending", "b": "new"}


def test_the_same_run_first_in_shadow_and_then_in_force_are_two_revisions(ledger):
    enter(ledger, of_ward("ward-1", 1, "a"))
    enter(ledger, shadow(2, "a"))
    again = enter(ledger, of_ward("ward-1", 2, "a", "n"), force=True)
    assert again.night.revision == 2
    assert history(ledger, verify=True)["runs"][-1]["in_force"]


def test_nobody_reviews_a_shadow(ledger):
    enter(ledger, shadow(1, "a"))
    with pytest.raises(UsageError, match="in shadow"):
        record_verdicts(ledger, "ward-1 n 1", [Verdict("a", "ruled out")])


def test_promoted_the_shadow_is_in_force_from_the_next_night_and_follows_the_champions(ledger):
    enter(ledger, of_ward("ward-1", 1, "a"))
    enter(ledger, shadow(1, "ab"))
    evidence = compare_nights(ledger, "ward-1", SHADOW)
    head = promote(ledger, "ward-1", SHADOW, "finds b", evidence)
    with pytest.raises(UsageError, match="scored with model nnnnnnnnnnnn"):
        enter(ledger, of_ward("ward-1", 2, "a"))
    second = enter(ledger, of_ward("ward-1", 2, "ab", "n"))
    told = history(ledger, "ward-1", verify=True)

    assert states(second) == {"a": "pending", "b": "new"}
    assert [run["model"] for run in told["runs"]] == [HERE[:12], SHADOW[:12]]
    (promotion,) = told["promotions"]
    assert HistoryDocument.from_dict(told).promotions[0].evidence == evidence
    assert (promotion["reason"], promotion["entry"]) == ("finds b", head.number)
    assert (promotion["model_before"], promotion["model_after"]) == (HERE, SHADOW)
    assert promote(ledger, "ward-1", SHADOW, "again", {}) == (4, history(ledger)["audit"]["head"])


def test_only_who_was_in_shadow_is_promoted_and_never_without_a_reason(ledger):
    enter(ledger, of_ward("ward-1", 1, "a"))
    with pytest.raises(UsageError, match="no night in shadow"):
        promote(ledger, "ward-1", SHADOW, "because", {})
    enter(ledger, shadow(1, "a"))
    with pytest.raises(UsageError, match="--reason"):
        promote(ledger, "ward-1", SHADOW, " ", {})

    assert history(ledger)["promotions"] == []


def test_a_series_that_begins_in_shadow_has_no_night_in_force_until_it_is_promoted(ledger):
    enter(ledger, shadow(1, "a"))
    before = history(ledger)
    promote(ledger, "ward-1", SHADOW, "begins", compare_nights(ledger, "ward-1", SHADOW))
    first = enter(ledger, of_ward("ward-1", 2, "a", "n"))

    assert before["runs"] == before["series"] == []
    assert states(first) == {"a": "new"}


def test_two_wards_may_be_put_beside_each_other(ledger):
    enter(ledger, of_ward("ward-1", 1, "ab"))
    enter(ledger, of_ward("ward-2", 1, "b"))
    comparison = compare_nights(ledger, "ward-1", "ward-2")

    assert (comparison.both, comparison.one.only, comparison.other.series) == (1, 1, "ward-2")
    with pytest.raises(UsageError, match="beside itself"):
        compare_nights(ledger, "ward-1", "ward-1")
    with pytest.raises(UsageError, match="no series"):
        compare_nights(ledger, "ward-1", SHADOW)
    with pytest.raises(UsageError, match="model aaaaaaaaaaaa has no night in shadow in series ward-1"):
        compare_nights(ledger, "ward-1", "a" * 64)


def test_nights_are_told_under_the_model_that_scored_them_whoever_is_champion_now(ledger):
    enter(ledger, of_ward("ward-1", 1, "a"))
    enter(ledger, shadow(1, "a"))
    before = compare_nights(ledger, "ward-1", SHADOW).one.model
    promote(ledger, "ward-1", SHADOW, "better", compare_nights(ledger, "ward-1", SHADOW))
    assert compare_nights(ledger, "ward-1", SHADOW).one.model == before != SHADOW[:12]
