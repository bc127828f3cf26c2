"""The ledger tells new from known, says the same of the same night, and forgets nothing."""

import datetime
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.errors import UsageError
from screening.ledger.database import RUNS, STATES, open_ledger
from screening.ledger.entries import Night
from screening.ledger.history import history
from screening.ledger.nights import _state, audit_sample, entering, series_by
from screening.ledger.verdicts import Verdict, record_verdicts, reviewable
from screening.schemas.history import CASE_COUNTS, Question
from screening.schemas.run import VERDICTS

QUESTION = {"label": "infected", "positive": ["yes"], "id": "patient", "group": None}
FACTS = {
    "run_id": "r", "model": "m" * 64, "recipe": "svm", "thresholds": {"yes": 0.5}, "title": None,
    "minutes_per_review": 10.0, "capacity": None, "read": 10, "scored": 10, "refused": 0, "flagged": 2,
    "unflagged": {"cases": 8}, "drift": None, "question": QUESTION,
}  # fmt: skip


@dataclass(frozen=True)
class Brought:
    """A night as it is entered, with its cases."""

    night: Night
    flagged: tuple[str, ...]
    sampled: tuple[str, ...]


def night(day: int, flagged: Iterable[str], sampled: Iterable[str] = (), /, **figures) -> Brought:
    """A night, days counted from January on, on which single letters are flagged."""
    date = str(datetime.date(2025, 12, 31) + datetime.timedelta(days=day))
    facts = FACTS | {"key": f"key of {date}", "night": date} | figures
    series = series_by(facts.get("series"), Question.from_dict(facts["question"]))
    return Brought(Night.from_dict(facts | {"series": series}), tuple(flagged), tuple(sampled))


def enter(ledger, one: Brought, attention=(), **how) -> SimpleNamespace:
    """Enter a night, or find it; what the ledger says of it."""
    with entering(ledger, one.night, one.flagged, one.sampled, **how) as tonight:
        if tonight.head is None:
            tonight.enter(attention)
        return SimpleNamespace(**vars(tonight), cases=tonight.known(one.flagged))


def states(found) -> dict[str, str]:
    return {name: case.state for name, case in found.cases.items()}


def test_a_verdict_makes_a_case_reviewed_from_the_next_night_on(ledger):
    enter(ledger, night(1, "abc"))
    record_verdicts(ledger, "key of 2026-01-01", [Verdict("a", "ruled out"), Verdict("b", "unsure")])
    second = enter(ledger, night(2, "abc"))
    third = enter(ledger, night(3, "abc"))

    assert states(second) == states(third) == {"a": "ruled out", "b": "pending", "c": "pending"}
    assert third.cases["a"][-2:] == ("2026-01-01", "ruled out")


def test_who_comes_back_after_a_night_without_a_flag_is_new_and_the_old_verdict_is_told(ledger):
    enter(ledger, night(1, "a"))
    record_verdicts(ledger, "key of 2026-01-01", [Verdict("a", "ruled out")])
    enter(ledger, night(2, ""))
    third = enter(ledger, night(3, "a"))

    assert states(third) == {"a": "new"}
    assert third.cases["a"][-2:] == ("2026-01-01", "ruled out")
    assert states(enter(ledger, night(4, "a"))) == {"a": "pending"}


def test_nights_without_a_run_do_not_break_a_row(ledger):
    enter(ledger, night(1, "a"))

    assert states(enter(ledger, night(9, "a"))) == {"a": "pending"}


def test_the_same_night_twice_is_one_row_and_one_answer(ledger):
    enter(ledger, night(1, "ab"))
    first = enter(ledger, night(2, "ac", "z"))
    record_verdicts(ledger, "key of 2026-01-01", [Verdict("a", "confirmed")])
    again = enter(ledger, night(2, "ac", "z"))

    assert (again.cases, again.night.to_dict(), again.head) == (
        first.cases,
        first.night.to_dict(),
        first.head,
    )
    assert len(history(ledger)["runs"]) == 2


def test_force_makes_a_revision_by_what_is_known_now_and_keeps_the_old(ledger):
    enter(ledger, night(1, "ab"))
    enter(ledger, night(2, "ac"))
    record_verdicts(ledger, "key of 2026-01-01", [Verdict("a", "confirmed")])
    forced = enter(ledger, night(2, "ac"), force=True)

    assert forced.night.revision == 2
    assert states(forced) == {"a": "known", "c": "new"}
    runs = history(ledger, verify=True)["runs"]
    assert [(run["revision"], run["pending"], run["known"], run["in_force"]) for run in runs[1:]] == [
        (1, 1, 0, False),
        (2, 0, 1, True),
    ]


def test_an_old_night_entered_late_is_judged_by_the_nights_before_it(ledger):
    enter(ledger, night(1, "a"))
    enter(ledger, night(3, "b"))
    late = enter(ledger, night(2, "ab"))

    assert states(late) == {"a": "pending", "b": "new"}


def test_the_last_word_is_that_of_the_later_night_whenever_it_was_entered(ledger):
    enter(ledger, night(2, "a"))
    record_verdicts(ledger, "key of 2026-01-02", [Verdict("a", "ruled out")])
    enter(ledger, night(1, "a"))
    record_verdicts(ledger, "key of 2026-01-01", [Verdict("a", "confirmed")])

    assert states(enter(ledger, night(3, "a"))) == {"a": "ruled out"}


def test_a_night_is_judged_by_what_was_said_before_it_and_not_of_itself(ledger):
    enter(ledger, night(1, "a"))
    enter(ledger, night(2, "a"))
    record_verdicts(ledger, "key of 2026-01-02", [Verdict("a", "confirmed")])

    assert states(enter(ledger, night(2, "a"), force=True)) == {"a": "pending"}


def test_of_two_runs_of_a_night_the_later_counts_for_the_next(ledger):
    enter(ledger, night(1, "ab", key="first table"))
    corrected = night(1, "b", key="corrected table")
    with pytest.raises(UsageError, match="another table for the night of 2026-01-01"):
        enter(ledger, corrected)
    assert enter(ledger, corrected, force=True).night.revision == 2
    second = enter(ledger, night(2, "ab"))

    assert states(second) == {"a": "new", "b": "pending"}


def test_a_night_whose_page_never_appeared_is_not_remembered(ledger):
    with pytest.raises(OSError, match="disk"), entering(ledger, night(1, "a").night, "a") as tonight:
        tonight.enter(())
        raise OSError("the disk is full")
    before = enter(ledger, night(2, "a"))
    enter(ledger, night(1, "a"))

    assert states(before) == {"a": "new"}
    assert enter(ledger, night(3, "a")).cases["a"].nights == 2


def test_another_question_has_its_own_cases(ledger):
    enter(ledger, night(1, "a"))
    other = enter(ledger, night(2, "a", question=QUESTION | {"label": "fall"}))

    assert states(other) == {"a": "new"}


def test_without_a_column_that_names_rows_nobody_is_recognised(ledger):
    enter(ledger, night(1, "a", question=QUESTION | {"id": None}))
    second = enter(ledger, night(2, "a", question=QUESTION | {"id": None}))

    assert states(second) == {"a": "new"}
    assert second.night.no_longer_flagged == 0


def test_ids_of_any_script_come_back_as_they_went_in(ledger):
    odd = ("Müller, Ö.", "' OR 1=1 --", "‮abc", "😀", " a", "A", "a", 10_000 * "x")
    enter(ledger, night(1, odd))

    with ledger.reading() as connection:
        assert set(reviewable(connection, "key of 2026-01-01")[1]) == set(odd)


flags = st.lists(st.sets(st.sampled_from("abcdef")), min_size=1, max_size=6)
words = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from("abcdef"), st.sampled_from(VERDICTS)), max_size=8
)


@given(flags, words)
@settings(max_examples=15)
def test_counts_add_up_on_every_night_whatever_was_flagged_and_judged(flagged, judged):
    with (
        tempfile.TemporaryDirectory() as folder,
        open_ledger(Path(folder) / "screening.db", make=True) as ledger,
    ):
        found = []
        for day, names in enumerate(flagged):
            found.append(enter(ledger, night(day + 1, "".join(sorted(names)))))
            verdicts = [Verdict(name, word) for at, name, word in judged if at == day and name in names]
            record_verdicts(ledger, f"key of 2026-01-{day + 1:02d}", verdicts)

        for before, now, names in zip([set(), *flagged], found, flagged, strict=False):
            counts = {name: getattr(now.night, name) for name in CASE_COUNTS}
            assert counts["cases"] == sum(counts[state.replace(" ", "_")] for state in STATES) == len(names)
            assert counts["no_longer_flagged"] == len(before - names)
            assert sum(case.nights > 1 for case in now.cases.values()) == len(before & names)
        runs = history(ledger, verify=True)["runs"]
        assert [run["new"] for run in runs] == [one.night.new for one in found]
        again = [enter(ledger, night(day + 1, "".join(sorted(names)))) for day, names in enumerate(flagged)]
        assert [one.cases for one in again] == [one.cases for one in found]
        assert history(ledger)["audit"]["entries"] == history(ledger, verify=True)["audit"]["entries"]


def test_the_same_verdict_twice_is_one_and_a_later_word_replaces_an_earlier(ledger):
    enter(ledger, night(1, "a", "z"))
    key = "key of 2026-01-01"

    told = [
        record_verdicts(ledger, key, [Verdict("a", "ruled out", "ward 3", "xy"), Verdict("z", "confirmed")]),
        record_verdicts(ledger, key, [Verdict("a", "ruled out", "ward 3", "xy"), Verdict("z", "ruled out")]),
    ]

    assert told == [
        {"new": 2, "changed": 0, "unchanged": 0, "older": 0, "disputed": 0},
        {"new": 0, "changed": 1, "unchanged": 1, "older": 0, "disputed": 0},
    ]
    (run,) = history(ledger, verify=True)["runs"]
    assert run["verdicts"] == {"confirmed": 0, "ruled_out": 1, "unsure": 0, "known": 0, "disputed": 0}
    assert run["sample"] == {"confirmed": 0, "ruled_out": 1, "unsure": 0, "known": 0, "disputed": 0}


def test_a_night_is_one_transaction(ledger):
    with pytest.raises(ValueError, match="JSON"):
        enter(ledger, night(1, "ab", thresholds={"yes": float("nan")}))

    with ledger.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(RUNS)) == 0
    assert states(enter(ledger, night(1, "ab"))) == {"a": "new", "b": "new"}


def test_quiet_nights_are_counted_until_somebody_is_flagged(ledger):
    quiet = []
    for day, flagged in enumerate(["", "a", "", "", ""], 1):
        with entering(ledger, night(day, ()).night, flagged) as tonight:
            quiet.append(tonight.quiet)
            tonight.enter(())

    assert quiet == [1, 0, 1, 2, 3]


@pytest.mark.parametrize(("said", "state"), [("2026-02-20", "known"), ("2026-01-10", "pending")])
def test_a_case_confirmed_before_it_left_the_list_is_known_only_while_that_is_recent(said, state):
    # Flagged without a break since 5 March; what was said before 1 February is old.
    assert _state(said, "confirmed", "2026-03-05", 2, "2026-02-01") == state


def test_the_audit_is_of_other_cases_in_every_run_and_not_of_the_first_names():
    audits = {frozenset(audit_sample(40, f"run {number}", 5)) for number in range(8)}

    assert len(audits) == 8 and {len(each) for each in audits} == {5}
