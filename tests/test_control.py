"""Control charts: quiet nights stay inside their limits, a change leaves them, a new model starts anew."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from test_ledger import enter, night

from screening.ledger.database import open_ledger
from screening.ledger.history import history
from screening.metrics.control import BASELINE, LEAST, TAIL, control_charts, limits
from screening.report.history import render_history, sentences
from screening.schemas.history import HistoryDocument

NIGHTS = 60


def signals(counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Which nights lie beyond the limits that the first of them fix."""
    low, high = limits(counts[:BASELINE], sizes[:BASELINE]).at(sizes)
    share = counts / sizes
    return (share > high + 1e-12) | (share < low - 1e-12)


def binomial(rng: np.random.Generator, mean_size: int, rate: float, nights: int = NIGHTS):
    sizes = rng.integers(max(1, mean_size // 2), 3 * mean_size // 2 + 1, nights)
    return rng.binomial(sizes, rate), sizes


def restless(rng: np.random.Generator, mean_size: int, rate: float):
    """Nights whose own rates differ, by three tenths of the rate."""
    sizes = rng.integers(mean_size // 2, 3 * mean_size // 2 + 1, NIGHTS)
    weight = (1 - rate) / (0.09 * rate) - 1
    return rng.binomial(sizes, rng.beta(weight * rate, weight * (1 - rate), NIGHTS)), sizes


def staying(rng: np.random.Generator, beds: int, rate: float):
    """Patients who stay ten nights, flagged on each of them or on none."""
    flagged, counts = rng.random(beds) < rate, []
    for _ in range(NIGHTS):
        flagged = np.where(rng.random(beds) < 0.1, rng.random(beds) < rate, flagged)
        counts.append(flagged.sum())
    return np.array(counts), np.full(NIGHTS, beds)


QUIET = {
    "a ward": lambda rng: binomial(rng, 60, 0.05),
    "a hospital": lambda rng: binomial(rng, 1000, 0.01),
    "few verdicts": lambda rng: binomial(rng, 5, 0.3),
    "hardly a refused row": lambda rng: binomial(rng, 200, 0.001),
    "nights that differ": lambda rng: restless(rng, 300, 0.1),
    "missing values": lambda rng: restless(rng, 30_000, 0.1),
    "patients who stay": lambda rng: staying(rng, 100, 0.1),
}


@pytest.mark.parametrize("name", QUIET)
def test_of_a_thousand_quiet_histories_at_most_one_night_in_a_hundred_signals(name):
    rng = np.random.default_rng(0)
    shares = [signals(*QUIET[name](rng)).mean() for _ in range(1000)]
    assert np.mean(shares) <= 0.011


def test_a_doubled_rate_is_seen_within_two_weeks():
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(200):
        (quiet, sizes), (loud, later) = binomial(rng, 240, 0.05, 20), binomial(rng, 240, 0.1, 14)
        seen.append(signals(np.append(quiet, loud), np.append(sizes, later))[20:].any())
    assert np.mean(seen) >= 0.99


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.floats(0, 1)), min_size=LEAST + 5, max_size=40),
    st.integers(1, 10**7),
)
def test_limits_hold_the_centre_and_stay_shares_and_are_not_passed_by_chance(nights, size):
    sizes = np.array([n for n, _ in nights])
    counts = np.array([round(n * share) for n, share in nights])
    usual = limits(counts, sizes)

    bounds = [] if usual is None else [(usual.centre, *usual.at(np.array([size])))]

    assert usual is not None or np.count_nonzero(sizes) < LEAST
    for centre, low, high in bounds:
        assert 0 <= low[0] <= centre <= high[0] <= 1
        assert binom.sf(high[0] * size + 1e-6, size, centre) <= 1.6 * TAIL
        assert binom.cdf(low[0] * size - 1e-6 - 1e-9 * size, size, centre) <= 1.6 * TAIL


def test_a_plain_p_chart_has_the_limits_of_the_textbook():
    # Sixty of a thousand each night: no night differs, so Laney's factor is 1.
    usual = limits(np.full(20, 60), np.full(20, 1000))
    low, high = usual.at(np.array([10_000]))
    reach = 3 * np.sqrt(0.06 * 0.94 * (1 / 10_000 + 1 / 20_000))
    assert usual.spread == 1
    assert np.allclose([low[0], high[0]], [0.06 - reach, 0.06 + reach])


def run(day: int, flagged: int, model: str = "one", recipe: str = "svm") -> SimpleNamespace:
    """A night as the history tells it, as far as charts look."""
    return SimpleNamespace(
        night=f"2026-03-{day:02d}" if day <= 31 else f"2026-04-{day - 31:02d}",
        model=model, recipe=recipe, read=200, flagged=flagged, refused=0,
        missing=None, ppv=SimpleNamespace(found=0, judged=0),
    )  # fmt: skip


def test_later_nights_leave_the_limits_as_the_first_twenty_fixed_them():
    quiet = [run(day, 10 + day % 3) for day in range(1, 21)]
    chart = control_charts([*quiet, *(run(day, 40) for day in range(21, 41))], [])[0]
    alone = control_charts(quiet, [])[0]
    assert chart.phases[0].points[:20] == alone.phases[0].points
    assert chart.phases[0].frozen and chart.phases[0].centre == alone.phases[0].centre
    assert [reason.words[3:13] for reason in chart.signals] == [f.night for f in chart.phases[0].points[20:]]


PHASES = [
    (["one svm", "two svm", "three svm", "four logistic"], ["two" + "0" * 61, "two"], [],
     ["first night", "threshold changed", "model or threshold changed", "method changed"]),
    # A promotion begins a phase that says so, whatever else was new.
    (["one svm", "two svm", "three logistic", "two svm"], ["two"], ["two", "three"],
     ["first night", "model promoted", "model promoted, another method", "model promoted, another method"]),
]  # fmt: skip


@pytest.mark.parametrize(("models", "revised", "promoted", "began"), PHASES)
def test_another_model_begins_a_new_phase_and_says_which_it_was(models, revised, promoted, began):
    used = [run(day, 10, *models[(day - 1) // 5].split()) for day in range(1, 21)]
    changes, promotions = ([SimpleNamespace(model_after=each) for each in to] for to in (revised, promoted))
    phases = control_charts(used, changes, promotions)[0].phases
    assert [phase.began for phase in phases] == began
    assert all(phase.centre is None and not phase.frozen for phase in phases)
    assert control_charts([], []) == []


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Thirty nights of two hundred rows; on the last, four times as many flags and an empty column."""
    with open_ledger(tmp_path_factory.mktemp("charts") / "screening.db", make=True) as ledger:
        for day in range(1, 31):
            loud = day == 30
            flagged = tuple(f"P{day:02d}{n:02d}" for n in range(48 if loud else 10 + day % 4))
            rows = {"read": 200, "scored": 200, "flagged": len(flagged)}
            missing = {"missing": 400 if loud else 60 + day % 7, "values": 2000}
            rest = {"cases": 200 - len(flagged)}
            enter(ledger, night(day, flagged, unflagged=rest, missing=missing, **rows))
        return json.loads(json.dumps(history(ledger)))


def test_the_history_names_the_nights_beyond_the_limits_and_what_to_do(told):
    charts = {chart["measure"]: chart for chart in told["series"][0]["control"]}
    assert list(charts) == ["workload", "refused", "missing"]
    assert charts["refused"]["signals"] == []
    for measure in ("workload", "missing"):
        (reason,) = charts[measure]["signals"]
        assert reason["code"] == f"{measure}_out_of_control"
        assert reason["words"].startswith("On 2026-01-30 2")
        assert reason["figure"] > reason["threshold"] and reason["remedy"]


def test_the_page_draws_the_charts_and_says_under_each_what_left_its_limits(told):
    page, words = render_history(told), sentences(HistoryDocument.from_dict(told).series[0])
    assert page.count('class="mark signal"') == 2
    assert "On 2026-01-30 24% of the rows read were flagged, above the control limit" in page
    assert "from the first 20 nights, held since" in page
    assert sum("beyond a control limit" in sentence for sentence in words) == 2
    assert "P3001" not in page
