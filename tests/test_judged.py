"""What reviews say of the nights: of those judged, of all flagged, and beside what the
page promised.
"""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_nights import QUESTION, enter, of_ward, simulate, states, verdicts_of
from ledger_nights import night as flagged_night
from numpy.random import default_rng
from scipy.stats import norm

from screening import history, open_ledger
from screening.ledger.erasing import Scope, erase
from screening.ledger.status import Due, exposition, series_statuses
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.metrics.intervals import rate_interval, ratio_interval, weighted_share
from screening.metrics.reviews import count_verdicts
from screening.report.history import sentences
from screening.schemas.history import HistoryDocument


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(tmp_path / "screening.db", make=True) as opened:
        yield opened


def night(
    ledger,
    day: int,
    flagged: str,
    verdicts: dict[str, str] | None = None,
    **other,
):
    since = datetime.timedelta(days=day)
    date = str(datetime.date(2025, 12, 31) + since)
    one = flagged_night(day, flagged, key=date, **other)
    entered = enter(ledger, one)
    record_verdicts(ledger, date, verdicts_of(verdicts or {}))
    return entered


def said(
    ledger,
    word: str,
    at: str | None,
    initials: str = "ab",
    note: str = "",
) -> dict[str, int]:
    """What entering a word on patient a of the first night came to; only what
    happened.
    """
    verdict = Verdict(
        "a",
        word,
        initials=initials,
        note=note,
        given=at and f"2026-01-02T{at}:00+00:00",
    )
    return {
        name: n
        for name, n in record_verdicts(ledger, "2026-01-01", [verdict]).items()
        if n
    }


def word_of(ledger) -> dict[str, int]:
    run, *_ = history(ledger, verify=True)["runs"]
    counts = run["verdicts"]
    return {name: n for name, n in counts.items() if n}


def test_verdict_older_than_last(ledger):
    """An older word never replaces a newer and both stay in the trail.

    Of two reviewers too, however late the other is read in.
    """
    night(ledger, 1, "a")
    first = said(ledger, "ruled out", "09:00")
    second = said(ledger, "confirmed", "10:00")
    entries = [first, second]
    # The same file, an older one read late, and the first one without its times.
    late = (
        ("ruled out", "09:00"),
        ("unsure", "08:00"),
        ("ruled out", None),
    )
    replayed = [said(ledger, *words) for words in late]
    own = word_of(ledger)
    n_entries = history(ledger)["audit"]["entries"]
    said(ledger, "unsure", "12:00", "cd")
    said(ledger, "confirmed", "11:00")

    assert entries == [{"new": 1}, {"changed": 1}]
    assert replayed == [
        {"unchanged": 1},
        {"older": 1},
        {"unchanged": 1},
    ]
    assert own == {"confirmed": 1}
    assert word_of(ledger) == {"unsure": 1}
    assert n_entries == 4


def test_verdicts_contradicting(ledger):
    """Two reviewers who contradict each other are told as that until they agree.

    A dispute outlives the names of who disputed.
    """
    night(ledger, 1, "ab")
    entries = [
        said(ledger, "confirmed", "09:00"),
        said(ledger, "ruled out", "10:00", "cd"),
    ]
    disputed = word_of(ledger)
    shown = night(ledger, 2, "a").cases["a"]
    (series,) = HistoryDocument.from_dict(history(ledger)).series
    sentence = sentences(series)
    entries += [said(ledger, "ruled out", "11:00")]
    agreed = word_of(ledger)
    run, *_ = history(ledger)["runs"]
    judged = run["ppv"]["judged"]
    said(ledger, "confirmed", "12:00", "cd")
    erase(ledger, "old", Scope())

    assert entries == [
        {"new": 1},
        {"new": 1, "disputed": 1},
        {"changed": 1},
    ]
    assert disputed == {"disputed": 1}
    assert agreed == {"ruled_out": 1}
    assert word_of(ledger) == {"disputed": 1}
    assert shown.state == "pending"
    assert shown.judged == "2026-01-01"
    assert shown.verdict == "disputed"
    assert judged == 1
    assert "two reviewers disagree" in " ".join(sentence)


def test_verdict_two_tables_of_a_night(ledger):
    """Of two tables of a night the word on the one recorded later is the last."""
    for key, word in (("zz first", "ruled out"), ("aa corrected", "confirmed")):
        enter(ledger, flagged_night(1, "a", key=key), force=True)
        record_verdicts(ledger, key, [Verdict("a", word)])
    second = night(ledger, 2, "a")
    assert states(second) == {"a": "known"}


def test_counts_of_five_nights_are_those_counted_by_hand(ledger):
    night(ledger, 1, "abcd", {"a": "confirmed", "b": "ruled out", "c": "unsure"})
    night(ledger, 2, "abce", {"e": "confirmed"})
    night(ledger, 3, "bcf")
    night(ledger, 4, "aef", {"f": "ruled out", "a": "known"})
    night(ledger, 5, "bf")
    told = history(ledger, verify=True)
    names = ("cases", "new", "pending", "ruled_out", "known", "no_longer_flagged")
    series = told["series"][0]

    assert [[run[name] for name in names] for run in told["runs"]] == [
        [4, 4, 0, 0, 0, 0],
        [4, 1, 1, 1, 1, 1],
        [3, 1, 1, 1, 0, 2],
        [3, 0, 1, 0, 2, 2],
        [2, 1, 0, 1, 0, 2],
    ]
    minutes = [run["minutes"] for run in told["runs"]]
    assert minutes == [40, 20, 20, 10, 10]
    assert series["workload"] == {
        "cases_per_night": 3.2,
        "waiting_per_night": 2.0,
        "minutes_per_night": 20.0,
    }
    # By the last word: a known, b not, e confirmed, f not; c was never judged.
    assert series["ppv"]["found"] == 2
    assert series["ppv"]["judged"] == 4
    to_date = [(each["found"], each["judged"]) for each in series["ppv_to_date"]]
    assert to_date == [
        (1, 2),
        (2, 3),
        (2, 3),
        (2, 4),
        (2, 4),
    ]
    (read_series,) = HistoryDocument.from_dict(told).series
    assert "of those judged" in sentences(read_series)[2]


def test_the_audit_is_of_all_who_wait_and_the_same_for_the_same_night(ledger):
    first = night(ledger, 1, "abcdefghij", {"a": "confirmed", "b": "ruled out"})
    second = night(ledger, 2, "abcdefghijklm", draw=2)
    all_who_wait = night(ledger, 3, "abcdlm", draw=9)
    none = night(ledger, 4, "nop", draw=0)
    same_night = flagged_night(2, "abcdefghijklm", key="2026-01-02", draw=2)
    again = enter(ledger, same_night)

    assert len(first.drawn) == 5
    assert set(first.drawn) < set("abcdefghij")
    assert len(second.drawn) == 2
    assert set(second.drawn) < set("cdefghijklm")
    # Those who stay without a verdict too; who has one is asked about no more.
    assert all_who_wait.drawn == list("cdlm")
    assert none.drawn == []
    assert again.drawn == second.drawn


def test_audit_weights(ledger):
    """Each audited case stands for its night and a night half judged does not count."""
    first = night(ledger, 1, "abcdefghij")
    second = night(ledger, 2, "klmn")
    third = night(ledger, 3, "opqrstuvw")
    said = [
        {name: "ruled out" for name in entered.drawn}
        for entered in (first, second, third)
    ]
    said[0][first.drawn[0]] = "confirmed"
    said[1][second.drawn[0]] = "unsure"
    del said[2][third.drawn[0]]
    for key, words in zip(
        ("2026-01-01", "2026-01-02", "2026-01-03"), said, strict=True
    ):
        record_verdicts(ledger, key, verdicts_of(words))
    told = history(ledger)
    share = told["series"][0]["ppv_flagged"]

    assert share["nights"] == 2
    assert share["flagged"] == 14
    assert share["judged"] == 8
    assert share["found"] == 1
    weighted = 10 * 1 / 5 + 4 * 0 / 3
    assert share["value"] == pytest.approx(weighted / 14)
    assert (
        "14 flags on 2 nights"
        in sentences(HistoryDocument.from_dict(told).series[0])[3]
    )


def test_verdict_unbroken_nights(ledger):
    """A verdict holds for the unbroken row of nights it was given in."""
    night(ledger, 1, "ab", {"a": "ruled out", "b": "ruled out"})
    night(ledger, 2, "abc", {"c": "confirmed"})
    # Of a row the last word counts, on its earlier nights too.
    night(ledger, 3, "bc", {"b": "confirmed"})
    night(ledger, 4, "")
    night(ledger, 5, "a", {"a": "confirmed"})
    share = history(ledger)["series"][0]["ppv_flagged"]

    # a not on two nights, and the second time it came a case; b on three nights, c on
    # two.
    assert share["flagged"] == 8
    assert share["nights"] == 5
    assert share["value"] == pytest.approx((3 + 2 + 1) / 8)
    assert share["found"] == 3
    assert share["judged"] == 3


def test_audit_judged_late(ledger):
    """A night counts by the audit of its own page however late that is judged."""
    night(ledger, 1, "abc", {"a": "ruled out", "b": "ruled out"})
    night(ledger, 2, "c", {"c": "confirmed"})
    early = history(ledger)["series"][0]["ppv_flagged"]
    record_verdicts(ledger, "2026-01-01", [Verdict("c", "unsure")])
    late = history(ledger)["series"][0]["ppv_flagged"]

    # Only who stays is seen again: a night whose rest was judged through later pages
    # would be of those.
    assert early["flagged"] == 1
    assert early["nights"] == 1
    assert early["value"] == 1.0
    assert late["flagged"] == 4
    assert late["nights"] == 2
    assert late["value"] == 0.5


def test_where_no_column_names_the_patients_every_night_has_its_own(ledger):
    nameless = QUESTION | {"id": None}
    for day, word in ((1, "confirmed"), (2, "ruled out")):
        night(ledger, day, "0", {"0": word}, question=nameless)
    share = history(ledger)["series"][0]["ppv_flagged"]
    assert share["value"] == 0.5
    assert share["judged"] == 2
    assert share["found"] == 1


def test_a_patient_of_many_nights_tells_as_much_as_one():
    """Few cases that stand for many tell less than their share shows; who is unsure has
    not judged.
    """
    ill = np.arange(40) < 12
    patients = np.arange(40)
    once = weighted_share(ill, np.ones(40), patients)
    stayed = weighted_share(np.repeat(ill, 9), np.ones(360), np.repeat(patients, 9))
    few = weighted_share([True] + [False] * 4, [20.0] * 5, range(5))
    one = weighted_share([True] * 50, [1.0] * 50, ["a"] * 50)
    sizes = np.where(patients % 4, 1, 30)
    of_rows = np.repeat(patients, sizes)
    uneven = weighted_share(ill[of_rows], np.ones(len(of_rows)), of_rows)
    pairs = np.repeat(np.arange(20), 2)
    balanced = weighted_share(np.tile([True, False], 20), np.ones(40), pairs)
    of_twenty = weighted_share(np.arange(20) % 2, np.ones(20), np.arange(20))
    words = count_verdicts(["confirmed", "known", "ruled out", "unsure", "unsure"])

    # Few large groups tell less than their number, groups that balance no more than it.
    width = once[2] - once[1]
    assert uneven[2] - uneven[1] > 1.5 * width
    assert balanced == pytest.approx(of_twenty)
    assert stayed == pytest.approx(once)
    # Student's at 40: a little wider than Wilson's.
    assert once == pytest.approx((0.3, 0.177, 0.46), abs=2e-3)
    # Wilson's at five independent ones, by the normal quantile: 0.036 to 0.624.
    assert few[1] < 0.03
    assert few[2] > 0.68
    assert one[1] < 0.05
    assert one[2] == 1
    assert words.found == 2
    assert words.judged == 3


PROMISED = {
    "sensitivity": {"value": 0.93, "low": 0.8, "high": 0.96},
    "ppv": {"value": 0.5, "low": 0.4, "high": 0.6},
}
WARD = {
    "series": "ward-1",
    "model": "m" * 64,
    "promised": PROMISED,
    "review_by": "2026-04-01",
}


def test_rates_of_nights_coverage(ledger):
    """Sensitivity and predictive value of the nights hold those they were made by."""
    simulate(ledger, 28, seed=1, **WARD)
    told = history(ledger, "ward-1")
    forward = HistoryDocument.from_dict(told).series[0].forward
    # Scores are normal, those of the ill by two higher, and flagged from 1.5 on.
    hit = 0.15 * norm.sf(-0.5)
    false = 0.85 * norm.sf(1.5)

    assert forward.nights == 28
    assert forward.model == ("m" * 12)
    sensitivity = forward.seen.sensitivity
    ppv = forward.seen.ppv
    assert sensitivity.low < hit / 0.15 < sensitivity.high
    assert ppv.low < hit / (hit + false) < ppv.high
    # What is not known of either figure counts: by one interval alone these nights were
    # below the estimate.
    assert forward.below == []
    cases_per_night = np.mean([run["cases"] for run in told["runs"]])
    cases = cases_per_night * ppv.value
    missed = told["series"][0]["misses"]["per_night"]["value"]
    assert sensitivity.value == pytest.approx(cases / (cases + missed))


def test_only_nights_of_the_champion_speak_for_it(ledger):
    simulate(ledger, 4, **WARD)
    before = history(ledger, "ward-1")["series"][0]["forward"]
    without_promise = WARD | {"model": "n" * 64, "promised": None}
    simulate(ledger, 3, first=4, **without_promise)
    after = history(ledger, "ward-1")["series"][0]["forward"]
    assert before["nights"] == 4
    assert before["promised"] == PROMISED
    assert after["model"] == ("n" * 12)
    assert after["nights"] == 3
    assert after["first"] == "2026-01-05"
    assert after["promised"] is None


def test_nights_below_the_validation_estimate_say_so_in_words(ledger):
    """Nights nobody judged promise and show nothing."""
    estimate = {"value": 0.99, "low": 0.98, "high": 0.995}
    high = dict.fromkeys(PROMISED, estimate)
    simulate(ledger, 28, **WARD | {"promised": high})
    enter(ledger, of_ward("ward-2", 1, "ab"))
    series, silent = HistoryDocument.from_dict(history(ledger)).series
    lines = [line for line in sentences(series) if "validation estimate 99" in line]

    assert series.forward.below == ["sensitivity", "ppv"]
    assert len(lines) == 2
    assert all(line.endswith("below it by more than chance") for line in lines)
    assert silent.forward.seen.sensitivity.value is silent.forward.promised is None
    assert not [line for line in sentences(silent) if "since" in line]


def test_status_announces_a_review_two_months_before_its_day(ledger):
    simulate(ledger, 1, **WARD)
    day = datetime.datetime(2026, 4, 1, 9, tzinfo=datetime.UTC)
    sixty_days = datetime.timedelta(days=60)
    one_day = datetime.timedelta(days=1)
    (near,) = series_statuses(ledger, Due(day - sixty_days))
    (far,) = series_statuses(ledger, Due(day - sixty_days - one_day))
    assert near.review_by == far.review_by == "2026-04-01"
    assert "to be reviewed by 2026-04-01" in near.said
    assert "to be reviewed" not in far.said
    assert (
        'screening_review_timestamp_seconds{series="ward-1"} 1775001600'
        in exposition([near])
    )


figures = st.tuples(*[st.floats(0.01, 1)] * 3).map(sorted)


@given(figures, figures, st.floats(0.1, 10))
def test_the_interval_of_a_ratio_holds_it_and_keeps_its_unit(one, other, times):
    """A figure without spread or that may be nothing has a ratio that says so."""
    low, a, high = one
    other_low, b, other_high = other
    ratio = ratio_interval((a, low, high), (b, other_low, other_high))
    multiple = (times * a, times * low, times * high)
    scaled = ratio_interval(multiple, (b, other_low, other_high))
    certain = ratio_interval((0.2, 0.2, 0.2), (0.4, 0.4, 0.4))
    down_to_zero = ratio_interval((0.5, 0.4, 0.6), (0.1, 0.0, 0.2))
    of_zero = ratio_interval((0.0, 0.0, 0.3), (0.5, 0.4, 0.6))

    assert ratio[0] <= a / b * (1 + 1e-9)
    assert a / b <= ratio[1] * (1 + 1e-9)
    assert scaled == pytest.approx([times * end for end in ratio])
    assert certain == pytest.approx((0.5, 0.5), rel=1e-6)
    assert down_to_zero[1] == float("inf")
    assert of_zero[0] == 0.0


def test_ratio_interval_coverage():
    """Intervals of a ratio of shares cover it nineteen times of twenty."""
    rng = default_rng(0)
    shares = (0.05, 0.5)
    sizes = (200, 60)
    held = 0
    for counts in rng.binomial(sizes, shares, (600, 2)):
        pair = [
            (count / n, *map(float, rate_interval(count, n)))
            for count, n in zip(counts, sizes, strict=True)
        ]
        low, high = ratio_interval(*pair)
        held += low <= shares[0] / shares[1] <= high
    assert held / 600 >= 0.93


@pytest.mark.parametrize("initials", ["AB", " ab ", "A.B.", "a.b"])
def test_one_person_who_changes_their_mind_is_no_dispute(ledger, initials):
    """Reviewers are compared without case, dots, and blanks at the ends."""
    night(ledger, 1, "a")
    said(ledger, "confirmed", "09:00", "ab")

    changed = said(ledger, "ruled out", "10:00", initials)
    again = said(ledger, "ruled out", "10:00", "ab")

    assert changed == {"changed": 1}
    assert again == {"unchanged": 1}
    assert word_of(ledger) == {"ruled_out": 1}
