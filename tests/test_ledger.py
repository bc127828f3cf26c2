"""The ledger tells new from known, says the same of the same night, and forgets
nothing.
"""

from types import SimpleNamespace

import pytest
from faults.amounts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_nights import QUESTION, enter, night, of_ward, states, verdicts_of

from screening.errors import UsageError
from screening.ledger.database import CHAMPIONS, open_ledger
from screening.ledger.history import history
from screening.ledger.nights import audit_sample, open_night
from screening.ledger.past_nights import past_nights
from screening.ledger.verdicts import Verdict, record_verdicts, reviewable
from screening.schemas.history import CASE_COUNTS
from screening.schemas.run import STATES, VERDICTS


def night_after_night(ledger, nights) -> SimpleNamespace:
    """Enter nights with what is said of each afterwards; what the ledger says of the
    last.
    """
    for day, flagged, verdicts, figures in nights:
        one = night(day, flagged, **figures)
        entered = enter(ledger, one, force=True)
        record_verdicts(ledger, one.night.key, verdicts_of(verdicts))
    return entered


def days(*nights) -> list:
    """Nights as `night_after_night` takes them: day, flagged, and what more there is to
    be said.
    """
    padded = []
    for day, flagged, *more in nights:
        padded.append((day, flagged, *more, *({}, {})[len(more) :]))
    return padded


OTHER = {"question": QUESTION | {"label": "fall"}}
NAMELESS = {"question": QUESTION | {"id": None}}
HAS = {"a": "confirmed"}
HAS_NOT = {"a": "ruled out"}
CASE_STATES = {
    "a verdict holds from the next night on": (
        days((1, "abc", {"a": "ruled out", "b": "unsure"}), (2, "abc"), (3, "abc")),
        {"a": "ruled out", "b": "pending", "c": "pending"},
    ),
    "back after a night without a flag": (
        days((1, "a", HAS_NOT), (2, ""), (3, "a")),
        {"a": "new"},
    ),
    "a word on an earlier row": (
        days((1, "a", HAS_NOT), (2, ""), (3, "a"), (4, "a")),
        {"a": "pending"},
    ),
    "nights without a run do not break a row": (
        days((1, "a"), (9, "a")),
        {"a": "pending"},
    ),
    "an old night entered late": (
        days((1, "a"), (3, "b"), (2, "ab")),
        {"a": "pending", "b": "new"},
    ),
    "the later night's word": (
        days((2, "a", HAS_NOT), (1, "a", HAS), (3, "a")),
        {"a": "ruled out"},
    ),
    "what was said of itself": (
        days((1, "a"), (2, "a", HAS), (2, "a")),
        {"a": "pending"},
    ),
    "another question has its own cases": (
        days((1, "a"), (2, "a", {}, OTHER)),
        {"a": "new"},
    ),
    "no column of ids": (
        days((1, "a", {}, NAMELESS), (2, "a", {}, NAMELESS)),
        {"a": "new"},
    ),
    "who was confirmed last week comes back as known": (
        days(
            (1, "abc", {"a": "confirmed", "b": "ruled out", "c": "known"}),
            (2, ""),
            (8, "abc"),
        ),
        {"a": "known", "b": "new", "c": "known"},
    ),
    "thirty days later too": (days((1, "a", HAS), (2, ""), (31, "a")), {"a": "known"}),
    "not after thirty-one": (days((1, "a", HAS), (2, ""), (32, "a")), {"a": "new"}),
    "never by contract": (
        days((1, "a", HAS), (2, ""), (3, "a", {}, {"known_days": 0})),
        {"a": "new"},
    ),
    "longer by contract": (
        days((1, "a", HAS), (2, ""), (40, "a", {}, {"known_days": 60})),
        {"a": "known"},
    ),
    "who stays flagged stays known, and a later word changes it": (
        days(
            (1, "ab", HAS | {"b": "confirmed"}),
            (20, "ab", {"b": "ruled out"}),
            (58, "ab"),
        ),
        {"a": "known", "b": "ruled out"},
    ),
}


@pytest.mark.parametrize(("nights", "expected"), CASE_STATES.values(), ids=CASE_STATES)
def test_case_states(ledger, nights, expected):
    """What a case is tonight follows from the nights before and what was said of
    them.
    """
    assert states(night_after_night(ledger, nights)) == expected


def test_an_old_verdict_is_told_of_who_is_new_again(ledger):
    nights = days((1, "a", HAS_NOT), (2, ""), (3, "a"))
    back = night_after_night(ledger, nights)
    assert back.cases["a"][-2:] == ("2026-01-01", "ruled out")


ODD_IDS = (
    "Müller, Ö.",
    "' OR 1=1 --",
    "‮abc",
    "😀",
    " a",
    "A",
    "a",
    10_000 * "x",
    "two\nlines",
    "caf\\xe9",
)


def test_ids_of_any_script_come_back_as_they_went_in(ledger):
    enter(ledger, night(1, ODD_IDS))
    with ledger.reading() as connection:
        assert set(reviewable(connection, "key of 2026-01-01")[1]) == set(ODD_IDS)
    history(ledger, verify=True)


def test_the_same_night_twice_is_one_row_and_one_answer(ledger):
    enter(ledger, night(1, "ab"))
    first = enter(ledger, night(2, "ac", "z"))
    record_verdicts(ledger, "key of 2026-01-01", [Verdict("a", "confirmed")])
    again = enter(ledger, night(2, "ac", "z"))
    assert again.cases == first.cases
    assert again.head == first.head
    assert again.night.to_dict() == first.night.to_dict()
    assert len(history(ledger)["runs"]) == 2


def test_force_revision(ledger):
    """--force enters a revision by what is known now and keeps the old one."""
    for day, names in ((1, "ab"), (2, "ac")):
        enter(ledger, night(day, names))
    record_verdicts(ledger, "key of 2026-01-01", [Verdict("a", "confirmed")])
    forced = enter(ledger, night(2, "ac"), force=True)
    runs = history(ledger, verify=True)["runs"][1:]
    assert forced.night.revision == 2
    assert states(forced) == {"a": "known", "c": "new"}
    first, second = [
        (run["revision"], run["pending"], run["known"], run["in_force"]) for run in runs
    ]
    assert first == (1, 1, 0, False)
    assert second == (2, 0, 1, True)


def test_two_runs_later_counts(ledger):
    """Of two runs of a night the later one counts for the next night."""
    enter(ledger, night(1, "ab", key="first table"))
    corrected = night(1, "b", key="corrected table")
    with pytest.raises(UsageError, match="another table for the night of 2026-01-01"):
        enter(ledger, corrected)
    assert enter(ledger, corrected, force=True).night.revision == 2
    second = enter(ledger, night(2, "ab"))
    assert states(second) == {"a": "new", "b": "pending"}


def test_night_without_page(ledger):
    """A night whose page was never published is not entered."""
    with (
        pytest.raises(OSError, match="disk"),
        open_night(ledger, night(1, "a").night, "a") as tonight,
    ):
        tonight.enter()
        raise OSError("the disk is full")
    before = enter(ledger, night(2, "a"))
    enter(ledger, night(1, "a"))
    assert states(before) == {"a": "new"}
    later = enter(ledger, night(3, "a"))
    assert later.cases["a"].nights == 2


flags = st.lists(st.sets(st.sampled_from("abcdef")), min_size=1, max_size=6)
word = st.tuples(
    st.integers(0, 7), st.sampled_from("abcdef"), st.sampled_from(VERDICTS)
)
words = st.lists(word, max_size=8)


@pytest.mark.repeated
@given(flags, words)
@settings(max_examples=examples(6, 15))
def test_counts_add_up(tmp_path_factory, flagged, judged):
    """Counts add up on every night, whatever was flagged and judged."""
    with open_ledger(
        tmp_path_factory.mktemp("counts") / "screening.db", make=True
    ) as ledger:
        nights = [
            night(day, "".join(sorted(names)))
            for day, names in enumerate(flagged, start=1)
        ]
        entered = []
        for day, (one, names) in enumerate(zip(nights, flagged, strict=True)):
            entered.append(enter(ledger, one))
            verdicts = [
                Verdict(name, word)
                for at, name, word in judged
                if at == day and name in names
            ]
            record_verdicts(ledger, one.night.key, verdicts)

        for before, now, names in zip(
            [set(), *flagged], entered, flagged, strict=False
        ):
            counts = {name: getattr(now.night, name) for name in CASE_COUNTS}
            assert (
                counts["cases"]
                == sum(counts[state.replace(" ", "_")] for state in STATES)
                == len(names)
            )
            assert counts["no_longer_flagged"] == len(before - names)
            n_again = sum(case.nights > 1 for case in now.cases.values())
            assert n_again == len(before & names)
        runs = history(ledger, verify=True)["runs"]
        n_new = [one.night.new for one in entered]
        assert [run["new"] for run in runs] == n_new
        assert [enter(ledger, one).cases for one in nights] == [
            one.cases for one in entered
        ]
        assert (
            history(ledger)["audit"]["entries"]
            == history(ledger, verify=True)["audit"]["entries"]
        )


def test_verdict_twice(ledger):
    """The same verdict twice is one, and a later verdict replaces an earlier one."""
    enter(ledger, night(1, "a", "z"))
    same = Verdict("a", "ruled out", "ward 3", "xy")
    key = "key of 2026-01-01"
    found = Verdict("z", "confirmed")
    not_found = Verdict("z", "ruled out")
    first = record_verdicts(ledger, key, [same, found])
    second = record_verdicts(ledger, key, [same, not_found])
    none = {
        "new": 0,
        "changed": 0,
        "unchanged": 0,
        "older": 0,
        "disputed": 0,
    }
    assert first == (none | {"new": 2})
    assert second == (none | {"changed": 1, "unchanged": 1})
    (run,) = history(ledger, verify=True)["runs"]
    ruled_out = {
        "confirmed": 0,
        "ruled_out": 1,
        "unsure": 0,
        "known": 0,
        "disputed": 0,
    }
    assert run["verdicts"] == run["sample"] == ruled_out


def test_a_night_is_one_transaction(ledger):
    unwritable = night(1, "ab", thresholds={"yes": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        enter(ledger, unwritable)
    assert history(ledger)["runs"] == []
    after = enter(ledger, night(1, "ab"))
    assert states(after) == {"a": "new", "b": "new"}


def test_quiet_nights(ledger):
    """Nights without a case are counted until somebody is flagged."""
    quiet = []
    for day, flagged in enumerate(["", "a", "", "", ""], 1):
        with open_night(ledger, night(day, ()).night, flagged) as tonight:
            tonight.enter()
            quiet.append(tonight.quiet)
    assert quiet == [1, 0, 1, 2, 3]


def test_audit_sample_varies():
    """The audit has other cases in every run, and not the first by name."""
    runs = [f"run {number}" for number in range(8)]
    audits = set()
    for run in runs:
        audits.add(frozenset(audit_sample(40, run, 5)))
    assert len(audits) == 8
    assert {len(each) for each in audits} == {5}


def test_ledger_read_only(tmp_path):
    """A ledger that this user may not write is named by its file, with what to do."""
    place = tmp_path / "l.db"
    open_ledger(place, make=True).close()
    row = CHAMPIONS.insert().values(series="a", entry=1, model="m")
    with (
        open_ledger(place, read_only=True) as ledger,
        pytest.raises(UsageError) as refused,
        ledger.writing() as connection,
    ):
        connection.execute(row)

    assert str(refused.value).startswith(f"the ledger at {place} cannot be used: ")
    assert "let this user write the file and its folder" in str(refused.value)


def test_night_entered_late_is_compared_in_its_place(ledger):
    """The last night before tonight is the latest one, not the one entered last."""
    delivery = {"rows": 10, "units": 10}
    for day in (3, 1, 2):
        enter(ledger, of_ward("w", day, "a", delivery=delivery))

    past = past_nights(ledger, "w", "2026-01-05", "m" * 64, "table")

    assert list(past.deliveries) == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert list(past.flags) == ["2026-01-01", "2026-01-02", "2026-01-03"]
