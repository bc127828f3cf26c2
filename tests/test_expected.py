"""Cases that the chances of a night expect, against what chance then draws."""

import numpy as np
import pandas as pd
import pytest
from faults.amounts import repeats
from numpy.random import default_rng
from scipy.special import expit
from written_files import scores_in

from screening import MaxFlagRate, score, train
from screening.metrics.calibration import fit_curve, fit_platt
from screening.metrics.chances import chances_at
from screening.metrics.intervals import Z
from screening.scoring.expected import count_expected, expected_cases


def curve(n_rows=400, seed=0):
    rng = default_rng(seed)
    scores = rng.normal(size=n_rows)
    positive = rng.random(n_rows) < expit(1.3 * scores - 2)
    return fit_platt(scores, positive, np.ones(n_rows))


def expected_of(platt, scores):
    chances = chances_at(scores, platt)[0]
    flagged = scores > 1
    return expected_cases(platt, count_expected(platt, scores, chances, flagged))


@pytest.mark.repeated
def test_intervals_hold_what_nights_then_show():
    """Curves of 400 past rows, nights of 60: in 95 of 100 nights the number lies
    within.
    """
    held = []
    for seed in repeats(100, 300):
        rng = default_rng(1000 + seed)
        scores = rng.normal(size=60)
        expected = expected_of(curve(seed=seed), scores)
        ill = rng.random(60) < expit(1.3 * scores - 2)
        for estimate, number in (
            (expected.cases, ill.sum()),
            (expected.flagged, ill[scores > 1].sum()),
            (expected.missed, ill[scores <= 1].sum()),
        ):
            # A whole number lies within its interval if its neighbourhood does.
            held.append(estimate.low - 0.5 <= number <= estimate.high + 0.5)
    assert 0.93 <= np.mean(held) <= 0.99


def test_parts_add_up_exactly():
    platt = curve()
    scores = default_rng(3).normal(size=1000)
    chances = chances_at(scores, platt)[0]
    flagged = scores > 0.7
    whole = count_expected(platt, scores, chances, flagged)

    parts = []
    for rows in (slice(0, 17), slice(17, 600), slice(600, 1000)):
        part = count_expected(platt, scores[rows], chances[rows], flagged[rows])
        parts.append(part)

    assert (whole == sum(parts)).all()
    facts = expected_cases(platt, whole)
    cases = facts.flagged.value + facts.missed.value
    assert facts.cases.value == pytest.approx(chances.sum(), abs=1e-5)
    assert cases == pytest.approx(facts.cases.value)
    ppv = chances[flagged].mean()
    assert facts.ppv.value == pytest.approx(ppv, abs=1e-6)


def test_interval_counts_what_is_not_known_of_a_floor():
    """Most cases of rows with low scores come from the floor."""
    rng = default_rng(2)
    scores = rng.normal(size=2_000)
    positive = rng.random(2_000) < 0.02 + 0.98 * expit(2 * scores - 4)
    platt = fit_curve(scores, positive, np.ones(2_000))
    low = np.full(5_000, -2.0)
    chances, *band = chances_at(low, platt)
    sums = count_expected(platt, low, chances, np.zeros(5_000, dtype=bool))

    cases = expected_cases(platt, sums).cases
    drawn = np.sqrt(cases.value)
    of_curve = 5_000 * np.ptp([ends[0] for ends in band]) / (2 * Z)
    assert cases.high - cases.low == pytest.approx(
        2 * Z * np.hypot(drawn, of_curve), rel=0.1
    )


def test_rows_without_chance_are_not_counted():
    platt = curve()
    scores = np.zeros(4)
    chances = np.array([0.5, np.nan, 0.5, np.nan])

    flagged = np.array([True, True, False, False])
    sums = count_expected(platt, scores, chances, flagged)

    assert expected_cases(platt, sums).rows == 2
    assert expected_cases(None, sums) is None
    nothing = np.zeros((2, 6), dtype=np.int64)
    assert expected_cases(platt, nothing) is None


def test_night_says_what_its_chances_expect(tmp_path):
    rng = default_rng(0)
    ill = rng.random(500) < 0.25
    past = pd.DataFrame(
        {
            "id": [f"p{number}" for number in range(500)],
            "x": rng.normal(size=500) + 1.5 * ill,
            "ill": np.where(ill, "yes", "no"),
        }
    )
    quick = {
        "search": 1,
        "beside": (),
        "jobs": 1,
        "rule": MaxFlagRate(0.2),
    }
    model = train(past, "logistic", label="ill", id="id", **quick)
    night = past.iloc[:80].drop(columns="ill")
    night["id"] = [f"q{n}" for n in range(80)]

    run = score(model, night, tmp_path / "run")

    expected = run.document["expected"]
    rows = scores_in(run.directory)
    assert expected["rows"] == 80
    n_cases = rows.chance.sum()
    assert expected["cases"]["value"] == pytest.approx(n_cases, abs=1e-5)
    missed = rows.chance[~rows.flagged].sum()
    assert expected["missed"]["value"] == pytest.approx(missed, abs=1e-5)
