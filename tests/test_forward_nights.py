"""What a model's nights show beside what its page promised, and when it is to be reviewed."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ledger import enter
from test_series import of_ward

from screening.ledger.history import history
from screening.ledger.status import Due, exposition, pulses
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.metrics.intervals import ratio_interval, wilson
from screening.report.history import sentences
from screening.schemas.history import HistoryDocument

PATIENTS, ILL, FOUND, FALSE = 60, 0.15, 0.8, 0.1
PROMISED = {
    "sensitivity": {"value": 0.9, "low": 0.8, "high": 0.96},
    "ppv": {"value": 0.5, "low": 0.4, "high": 0.6},
}


def simulate(ledger, nights: int, model: str = "m", first: int = 1, promised=PROMISED, seed: int = 0):
    """Nights of a ward where others lie every night; everybody flagged or drawn is judged."""
    rng = np.random.default_rng(seed)
    for day in range(first, first + nights):
        ill = rng.random(PATIENTS) < ILL
        flagged = rng.random(PATIENTS) < np.where(ill, FOUND, FALSE)
        names = np.array([f"{day}-{at}" for at in range(PATIENTS)], object)
        sampled = rng.permutation(np.flatnonzero(~flagged))[:8]
        one = of_ward(
            "ward-1", day, names[flagged], model, names[sampled], promised=promised,
            review_by="2026-04-01", read=PATIENTS, scored=PATIENTS, flagged=int(flagged.sum()),
            unflagged={"cases": int((~flagged).sum())},
        )  # fmt: skip
        enter(ledger, one, force=True)
        judged = [*np.flatnonzero(flagged), *sampled]
        words = [Verdict(names[at], "confirmed" if ill[at] else "ruled out") for at in judged]
        record_verdicts(ledger, one.night.key, words)


def test_sensitivity_and_predictive_value_of_the_nights_hold_those_they_were_made_by(ledger):
    simulate(ledger, 28)
    told = history(ledger, "ward-1")
    forward = HistoryDocument.from_dict(told).series[0].forward
    truth = ILL * FOUND / (ILL * FOUND + (1 - ILL) * FALSE)

    assert (forward.nights, forward.model) == (28, "m" * 12)
    assert forward.seen.sensitivity.low < FOUND < forward.seen.sensitivity.high
    assert forward.seen.ppv.low < truth < forward.seen.ppv.high
    cases = np.mean([run["cases"] for run in told["runs"]]) * forward.seen.ppv.value
    missed = told["series"][0]["misses"]["per_night"]["value"]
    assert forward.seen.sensitivity.value == pytest.approx(cases / (cases + missed))


def test_only_nights_of_the_champion_speak_for_it(ledger):
    simulate(ledger, 4)
    before = history(ledger, "ward-1")["series"][0]["forward"]
    simulate(ledger, 3, model="n", first=5, promised=None, seed=1)
    after = history(ledger, "ward-1")["series"][0]["forward"]

    assert (before["nights"], before["promised"]) == (4, PROMISED)
    assert (after["model"], after["nights"], after["first"]) == ("n" * 12, 3, "2026-01-05")
    assert after["promised"] is None


def test_nights_below_the_validation_estimate_say_so_in_words(ledger):
    """Nights nobody judged promise and show nothing."""
    high = {name: {"value": 0.99, "low": 0.98, "high": 0.995} for name in PROMISED}
    simulate(ledger, 28, promised=high)
    enter(ledger, of_ward("ward-2", 1, "ab"))
    series, silent = HistoryDocument.from_dict(history(ledger)).series
    lines = [line for line in sentences(series) if "validation estimate 99" in line]

    assert series.forward.below == ["sensitivity", "ppv"]
    assert len(lines) == 2 and all(line.endswith("below it by more than chance") for line in lines)
    assert silent.forward.seen.sensitivity.value is silent.forward.promised is None
    assert not [line for line in sentences(silent) if "since" in line]


def test_status_announces_a_review_two_months_before_its_day(ledger):
    simulate(ledger, 1)
    day = datetime.datetime(2026, 4, 1, 9, tzinfo=datetime.UTC)
    near, far = (pulses(ledger, Due(day - datetime.timedelta(days=days)))[0] for days in (60, 61))

    assert near.review_by == far.review_by == "2026-04-01"
    assert "to be reviewed by 2026-04-01" in near.said
    assert "to be reviewed" not in far.said
    assert 'screening_review_timestamp_seconds{series="ward-1"} 1775001600' in exposition([near])


figures = st.tuples(*[st.floats(0.01, 1)] * 3).map(lambda ends: sorted(ends))


@given(figures, figures, st.floats(0.1, 10))
def test_the_interval_of_a_ratio_holds_it_and_keeps_its_unit(one, other, times):
    """A figure without spread or that may be nothing has a ratio that says so."""
    (low, a, high), (other_low, b, other_high) = one, other
    ratio = ratio_interval((a, low, high), (b, other_low, other_high))
    scaled = ratio_interval((times * a, times * low, times * high), (b, other_low, other_high))

    assert ratio[0] <= a / b * (1 + 1e-9) and a / b <= ratio[1] * (1 + 1e-9)
    assert scaled == pytest.approx([times * end for end in ratio])
    assert ratio_interval((0.2, 0.2, 0.2), (0.4, 0.4, 0.4)) == pytest.approx((0.5, 0.5), rel=1e-6)
    assert ratio_interval((0.5, 0.4, 0.6), (0.1, 0.0, 0.2))[1] == float("inf")
    assert ratio_interval((0.0, 0.0, 0.3), (0.5, 0.4, 0.6))[0] == 0.0


def test_intervals_of_a_ratio_of_shares_cover_it_nineteen_times_of_twenty():
    rng, shares, sizes = np.random.default_rng(0), (0.05, 0.5), (200, 60)
    held = 0
    for counts in rng.binomial(sizes, shares, (600, 2)):
        pair = [(count / n, *map(float, wilson(count, n))) for count, n in zip(counts, sizes, strict=True)]
        low, high = ratio_interval(*pair)
        held += low <= shares[0] / shares[1] <= high

    assert held / 600 >= 0.93
