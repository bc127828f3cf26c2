"""Control charts: quiet nights stay inside their limits, a change leaves them, a new
model starts anew.

All scores of a night beside those held out in training: quiet nights, and changed ones.
"""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from faults.amounts import examples, repeats
from flow_cohorts import patients, voxels, written
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_nights import enter, night
from numpy.random import default_rng
from scipy.stats import betabinom, binom
from written_files import page_in

from screening import read_cohort, score, train
from screening.ledger.database import open_ledger
from screening.ledger.history import history
from screening.metrics import control
from screening.metrics.control import (
    beta_binomial_mass,
    control_charts,
    drift_over,
    inner_edges,
    limits,
    score_cells,
    shift,
)
from screening.report.history import render_history, sentences
from screening.report.night_attention import describe_drift, drift_reason, is_alarming
from screening.schemas.base import Reason
from screening.schemas.history import HistoryDocument
from screening.schemas.run import ScoreCounts
from screening.scoring import reference_distribution
from screening.scoring.reference_distribution import compared, reference_counts

NIGHTS = 60


def signals(counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Which nights lie beyond the limits that the first of them fix."""
    baseline = slice(0, control.BASELINE)
    low, high = limits(counts[baseline], sizes[baseline]).at(sizes)
    share = counts / sizes
    return (share > high + 1e-12) | (share < low - 1e-12)


def binomial(
    rng: np.random.Generator, mean_size: int, rate: float, nights: int = NIGHTS
):
    least = max(1, mean_size // 2)
    most = 3 * mean_size // 2
    sizes = rng.integers(least, most + 1, nights)
    return rng.binomial(sizes, rate), sizes


def restless(rng: np.random.Generator, mean_size: int, rate: float):
    """Nights whose own rates differ, by three tenths of the rate."""
    least = mean_size // 2
    sizes = rng.integers(least, 3 * mean_size // 2 + 1, NIGHTS)
    weight = (1 - rate) / (0.09 * rate) - 1
    rates = rng.beta(weight * rate, weight * (1 - rate), NIGHTS)
    return rng.binomial(sizes, rates), sizes


def staying(rng: np.random.Generator, beds: int, rate: float):
    """Patients who stay ten nights, flagged on each of them or on none."""
    flagged = rng.random(beds) < rate
    counts = []
    for _ in range(NIGHTS):
        leaves = rng.random(beds) < 0.1
        is_new_case = rng.random(beds) < rate
        flagged = np.where(leaves, is_new_case, flagged)
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


@pytest.mark.repeated
@pytest.mark.parametrize("name", QUIET)
def test_control_false_alarms(name):
    """Of many quiet histories at most one night in a hundred signals."""
    rng = default_rng(0)
    shares = []
    for _ in repeats(250, 1000):
        counts, sizes = QUIET[name](rng)
        shares.append(signals(counts, sizes).mean())
    assert np.mean(shares) <= 0.011


def test_a_doubled_rate_is_seen_within_two_weeks():
    rng = default_rng(0)
    seen = []
    for _ in range(200):
        quiet, sizes = binomial(rng, 240, 0.05, 20)
        loud, later = binomial(rng, 240, 0.1, 14)
        counts = np.append(quiet, loud)
        beyond = signals(counts, np.append(sizes, later))
        seen.append(beyond[20:].any())
    assert np.mean(seen) >= 0.99


@pytest.mark.repeated
@settings(max_examples=examples(30, 60), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.floats(0, 1)),
        min_size=control.LEAST + 5,
        max_size=40,
    ),
    st.integers(1, 10**7),
)
def test_control_limits(nights, size):
    """Limits hold the centre and stay shares and are not passed by chance."""
    sizes = np.array([n for n, _ in nights])
    counts = np.array([round(n * share) for n, share in nights])
    usual = limits(counts, sizes)

    bounds = []
    if usual is not None:
        bounds.append((usual.centre, *usual.at(np.array([size]))))

    assert usual is not None or np.count_nonzero(sizes) < control.LEAST
    for centre, low, high in bounds:
        assert 0 <= low[0] <= centre <= high[0] <= 1
        above = high[0] * size + 1e-6
        below = low[0] * size - 1e-6 - 1e-9 * size
        assert binom.sf(above, size, centre) <= 1.6 * control.TAIL
        assert binom.cdf(below, size, centre) <= 1.6 * control.TAIL


def test_a_plain_p_chart_has_the_limits_of_the_textbook():
    # Sixty of a thousand each night: no night differs, so Laney's factor is 1.
    usual = limits(np.full(20, 60), np.full(20, 1000))
    low, high = usual.at(np.array([10_000]))
    variance = 0.06 * 0.94 * (1 / 10_000 + 1 / 20_000)
    reach = 3 * np.sqrt(variance)
    assert usual.spread == 1
    assert low[0] == pytest.approx(0.06 - reach)
    assert high[0] == pytest.approx(0.06 + reach)


def run(
    day: int, flagged: int, model: str = "one", recipe: str = "svm"
) -> SimpleNamespace:
    """A night as the history tells it, as far as charts look."""
    return SimpleNamespace(
        night=f"2026-03-{day:02d}" if day <= 31 else f"2026-04-{day - 31:02d}",
        model=model,
        recipe=recipe,
        read=200,
        flagged=flagged,
        refused=0,
        missing=None,
        ppv=SimpleNamespace(found=0, judged=0),
    )


@given(
    trials=st.integers(0, 3000),
    a=st.floats(0.5, 1e4),
    b=st.floats(0.5, 1e6),
)
def test_beta_binomial_mass_as_scipy_states_it(trials, a, b):
    """Of every number of events, and 0 of more events than trials."""
    events = np.arange(trials + 4)
    mass = beta_binomial_mass(events, np.array([trials]), a, b)
    expected = betabinom.pmf(events, trials, a, b)
    np.testing.assert_allclose(mass, expected, rtol=1e-12, atol=0)
    assert np.all(mass[trials + 1 :] == 0)


def test_later_nights_leave_the_limits_as_the_first_twenty_fixed_them():
    quiet = [run(day, 10 + day % 3) for day in range(1, 21)]
    loud = [run(day, 40) for day in range(21, 41)]
    chart, *_ = control_charts([*quiet, *loud], [])
    alone, *_ = control_charts(quiet, [])
    phase = chart.phases[0]
    of_alone = alone.phases[0]
    assert phase.points[:20] == of_alone.points
    assert phase.frozen
    assert phase.centre == of_alone.centre
    assert [reason.words[3:13] for reason in chart.signals] == [
        f.night for f in chart.phases[0].points[20:]
    ]


PHASES = [
    (
        ["one svm", "two svm", "three svm", "four logistic"],
        ["two" + "0" * 61, "two"],
        [],
        [
            "first night",
            "threshold changed",
            "model or threshold changed",
            "method changed",
        ],
    ),
    # A promotion begins a phase that says so, whatever else was new.
    (
        ["one svm", "two svm", "three logistic", "two svm"],
        ["two"],
        ["two", "three"],
        [
            "first night",
            "model promoted",
            "model promoted, another method",
            "model promoted, another method",
        ],
    ),
]


@pytest.mark.parametrize(("models", "revised", "promoted", "began"), PHASES)
def test_another_model_begins_a_new_phase_and_says_which_it_was(
    models, revised, promoted, began
):
    used = []
    for day in range(1, 21):
        names = models[(day - 1) // 5].split()
        used.append(run(day, 10, *names))
    changes = [SimpleNamespace(model_after=each) for each in revised]
    promotions = [SimpleNamespace(model_after=each) for each in promoted]
    phases = control_charts(used, changes, promotions)[0].phases
    assert [phase.began for phase in phases] == began
    assert all(phase.centre is None and not phase.frozen for phase in phases)


def test_approval_alone_begins_no_phase():
    """An approved model is its draft; another threshold begins a phase all the same."""
    models = ["draft", "approved", "revised", "good"]
    used = [run(day, 10, models[(day - 1) // 5], "svm") for day in range(1, 21)]
    changes = [SimpleNamespace(model_after="revised")]
    approvals = [
        SimpleNamespace(model_before="draft", model_after="approved"),
        SimpleNamespace(model_before="revised", model_after="good"),
    ]

    phases = control_charts(used, changes, approvals=approvals)[0].phases

    assert [phase.began for phase in phases] == ["first night", "threshold changed"]
    assert [len(phase.points) for phase in phases] == [10, 10]
    assert control_charts([], []) == []


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Thirty nights of two hundred rows; on the last, four times as many flags and an
    empty column.
    """
    with open_ledger(
        tmp_path_factory.mktemp("charts") / "screening.db", make=True
    ) as ledger:
        for day in range(1, 31):
            loud = day == 30
            flagged = tuple(
                f"P{day:02d}{n:02d}" for n in range(48 if loud else 10 + day % 4)
            )
            rows = {"read": 200, "scored": 200, "flagged": len(flagged)}
            n_missing = 400 if loud else 60 + day % 7
            missing = {"missing": n_missing, "values": 2000}
            rest = {"cases": 200 - len(flagged)}
            flagged_night = night(day, flagged, unflagged=rest, missing=missing, **rows)
            enter(ledger, flagged_night)
        return json.loads(json.dumps(history(ledger)))


def test_the_history_names_the_nights_beyond_the_limits_and_what_to_do(told):
    (series,) = told["series"]
    charts = {chart["measure"]: chart for chart in series["control"]}
    assert list(charts) == ["workload", "refused", "missing"]
    assert charts["refused"]["signals"] == []
    for measure in ("workload", "missing"):
        (reason,) = charts[measure]["signals"]
        assert reason["code"] == f"{measure}_out_of_control"
        assert reason["words"].startswith("On 2026-01-30 2")
        assert reason["figure"] > reason["threshold"]
        assert reason["remedy"]


def test_control_charts_on_page(told):
    """The page draws the charts and says under each what left its limits."""
    page = render_history(told)
    words = sentences(HistoryDocument.from_dict(told).series[0])
    assert page.count('class="mark signal"') == 2
    assert (
        "On 2026-01-30 24% of the rows read were flagged, above the control limit"
        in page
    )
    assert "from the first 20 nights, held since" in page
    assert sum("beyond a control limit" in sentence for sentence in words) == 2
    assert "P3001" not in page


counts = st.lists(st.integers(0, 30), min_size=4, max_size=4)


def drift_of(past: np.ndarray, tonight: np.ndarray, unit: str = "row") -> ScoreCounts:
    edges = inner_edges(past)
    n_cells = len(edges) + 1
    known = np.bincount(score_cells(past, edges), minlength=n_cells)
    seen = np.bincount(score_cells(tonight, edges), minlength=n_cells)
    difference = shift(known, seen)
    return ScoreCounts(unit=unit, known=known, counted=seen, **vars(difference))


@given(counts, counts)
@settings(max_examples=30)
def test_drift_test_repeatable(known, seen):
    """The test is the same each time and sees no difference between equal shares."""
    whole = [n + 1 for n in known]
    more = [*seen[:3], seen[3] + 1]
    once = shift(whole, more)
    equal = shift(whole, whole)
    assert once == shift(whole, more)
    assert 0 < once.p <= 1
    assert 0 <= once.distance <= 1
    assert equal.distance == 0
    assert equal.p == 1
    assert shift([0, 0], [3, 4]) is None
    assert shift([3, 4], [0, 0]) is None


def test_drift_from_nights_worth_no_row():
    """A few nights of patients who all stay are worth less than one row."""
    scores = default_rng(0).normal(size=200)
    tonight = drift_of(scores, scores + 3)

    nothing = compared(tonight, np.zeros(len(tonight.known), dtype=int))

    assert drift_reason(tonight) is not None
    assert drift_reason(nothing) is None


@pytest.mark.repeated
def test_a_p_value_is_as_often_small_as_it_says():
    rng = default_rng(0)
    p = []
    for _ in repeats(150, 300):
        past = rng.normal(size=200)
        tonight = rng.normal(size=100)
        p.append(drift_of(past, tonight).p)
    assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.08
    # Of twenty deals of three and three rows, two part them so.
    of_six = shift([3, 0], [0, 3])
    assert of_six.p == pytest.approx(0.1, abs=0.02)


def test_drift_power():
    """Half a standard deviation is seen in three hundred rows and nothing where there
    is none."""
    rng = default_rng(1)

    def drift_by(change: float) -> ScoreCounts:
        past = rng.normal(size=683)
        return drift_of(past, rng.normal(size=300) + change)

    shifted = [drift_by(-0.5) for _ in range(20)]
    steady = [drift_by(0.0) for _ in range(100)]
    assert sum(map(is_alarming, shifted)) >= 19
    assert sum(map(is_alarming, steady)) == 0
    assert not any(one.higher for one in shifted)


def test_drift_alarm_reason():
    """An alarm is a reason with figure threshold and remedy and its direction."""
    rng = default_rng(2)
    past = rng.normal(size=500)
    shifted = rng.normal(size=300) + 0.8
    up = drift_of(past, shifted, "group")
    same = drift_of(past, rng.normal(size=300))
    reason = drift_reason(up)
    assert isinstance(reason, Reason)
    assert reason.code == "scores_differ"
    assert reason.figure <= reason.threshold
    assert reason.remedy
    assert "patients score higher" in reason.words
    assert drift_reason(same) is drift_reason(None) is None
    assert "no sign" in describe_drift(same)


def test_a_trifle_of_many_rows_and_a_change_of_few_are_no_alarm():
    past = np.arange(200_000) / 200_000
    trifle = drift_of(past, past + 0.03)
    far = np.full(9, 1e3)
    few = drift_of(np.arange(300.0), far, "group")
    assert trifle.p < 0.001
    assert not is_alarming(trifle)
    assert not is_alarming(few)
    assert "Too few patients were scored (9)" in describe_drift(few)
    # An edge belongs to the cell below it, and above the last one lies the highest
    # score.
    thirds = np.repeat([1.0, 2.0, 3.0], 50)
    edges = inner_edges(thirds)
    cells = score_cells(np.array([0.9, 1.0, 1.1]), np.array([1.0]))
    assert edges.tolist() == [1.0, 2.0]
    assert cells.tolist() == [0, 0, 1]


def counts_of(cells: np.ndarray, known: tuple[int, ...], first: int = 0) -> ScoreCounts:
    """A night of patients, numbered from the first on, in these cells."""
    who = tuple(range(first, first + len(cells)))
    return ScoreCounts(
        unit="row",
        known=known,
        counted=(),
        who=who,
        cell=tuple(cells.tolist()),
    )


def stays(
    rng,
    stay: int,
    nights: int = 14,
    beds: int = 40,
    by: float = 0.0,
) -> list[ScoreCounts]:
    """Nights of a ward in which everybody stays so many nights with about the same
    score.
    """
    past = rng.normal(size=400)
    edges = inner_edges(past)
    cells = score_cells(past, edges)
    counts = np.bincount(cells, minlength=len(edges) + 1)
    known = tuple(counts.tolist())
    own = rng.normal(size=(nights, beds)) + by
    return [
        counts_of(
            score_cells(own[turn] + 0.1 * rng.normal(size=beds), edges),
            known,
            turn * beds,
        )
        for turn in (night // stay for night in range(nights))
    ]


@pytest.mark.parametrize("stay", [1, 5, 7])
def test_drift_long_stays(stay):
    """Over nights a patient counts once so that long stays raise no alarm."""
    rng = default_rng(stay)
    drifts = [drift_over(stays(rng, stay)) for _ in range(60)]
    n_drifts = sum(drift.reason is not None for drift in drifts)
    n_stays = -(-14 // stay)
    moved = drift_over(stays(rng, stay, by=1.0))
    assert n_drifts <= 2
    assert {drift.patients for drift in drifts} == {40 * n_stays}
    assert moved.reason.code == "drift_over_nights"


def test_drift_ward_unlike_training():
    """Drift over nights of a ward unlike training is held to its own nights."""
    rng = default_rng(8)
    nights = stays(rng, 5, nights=64, by=1.0)
    recent = nights[-14:]
    assert drift_over(recent).reason is not None
    assert drift_over(recent, nights[:-14]).reason is None


def test_drift_over_nights_beside_its_own_nights_is_named():
    rng = default_rng(9)
    earlier = stays(rng, 5, nights=50, by=1.0)
    recent = [
        night.replace(who=tuple(number + 10_000 for number in night.who))
        for night in stays(rng, 5, by=0.0)
    ]
    reason = drift_over(recent, earlier).reason
    assert "lower than those of the 50 nights before" in reason.words


# Patients on twenty cells that held as many training rows each, those of them in the
# last cell beyond their share, and whether that is said: one in two hundred is where
# chance ends, a trifle is no alarm however many make it sure, and fewer than twenty
# patients are no evidence.
OVER_NIGHTS = [
    (100, 17, 20, False),
    (100, 18, 20, False),
    (100, 20, 20, True),
    (100, 22, 20, True),
    (20_000, 800, 1000, False),
    (20_000, 1200, 1000, True),
    (19, 19, 20, False),
    (20, 20, 20, True),
]


@pytest.mark.parametrize(("patients", "in_the_last", "per_cell", "spoken"), OVER_NIGHTS)
def test_drift_over_nights_is_said_from_where_chance_and_trifles_end(
    patients, in_the_last, per_cell, spoken
):
    usual = np.arange(patients - in_the_last) % 20
    cells = np.append(usual, np.full(in_the_last, 19))
    drift = drift_over([counts_of(cells, (per_cell,) * 20)])
    assert (drift.reason is not None) == spoken
    assert spoken == (patients >= 20 and drift.p <= 0.005 and drift.distance >= 0.05)


def test_nights_that_cannot_be_put_together_say_nothing():
    counts = ScoreCounts(unit="row", known=(3, 4), counted=(1, 1))
    assert drift_over([counts]) is None
    placed = counts.replace(who=(1,), cell=(0,))
    assert drift_over([placed]).reason is None


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    past = written(patients(300), tmp_path_factory.mktemp("past") / "past.csv")
    return train(
        read_cohort(past, label="ill", id="patient"),
        "logistic",
        search=1,
        forward=False,
        beside=(),
    )


def test_drift_steady_and_changed_night(model, tmp_path):
    """A steady night is quiet a changed one says so and batches do not matter."""
    night = patients(200, seed=7)
    runs = [
        score(model, night, tmp_path / f"r{rows}", batch_rows=rows).document
        for rows in (7, 1000)
    ]
    odd = night.assign(crp=night["crp"] * 3)
    other = score(model, odd, tmp_path / "rc").document
    codes = []
    for run in (runs[0], other):
        codes.append([each["code"] for each in run["attention"]])
    drift = runs[0]["drift"]
    assert runs[0]["drift"] == runs[1]["drift"]
    assert sum(drift["counted"]) == len(drift["who"]) == 200
    assert "scores_differ" not in codes[0]
    assert "scores_differ" in codes[1]
    assert "score higher on the whole" in page_in(tmp_path / "rc")


def test_hashes_are_the_same_for_the_same_patient_and_hold_no_id(model, tmp_path):
    first = patients(60, seed=7)
    later = patients(60, seed=8)
    later.loc[:29, "patient"] = first.loc[:29, "patient"]
    later.loc[30:, "patient"] = [f"new{i}" for i in range(30)]
    of_first = score(model, first, tmp_path / "h0").document
    of_later = score(model, later, tmp_path / "h1").document
    one = of_first["drift"]["who"]
    other = of_later["drift"]["who"]
    assert len(set(one) & set(other)) == 30
    assert all(isinstance(who, int) for who in one)


def test_the_reference_stands_at_the_prevalence_in_use(model):
    edges, known = reference_counts(model)
    (point,) = model.operating_points
    stated = [point | {"prevalence": point["prevalence"] / 4}]
    rarer = reference_counts(
        replace(model, document=model.document | {"operating_points": stated})
    )
    assert known.sum() == 300 == len(model.validation)
    assert rarer[1].sum() < 300
    assert np.quantile(rarer[0], 0.9) < np.quantile(edges, 0.9)


def test_images_count_once_by_their_highest_voxel(tissue_model, tmp_path, monkeypatch):
    """What is thinned out on a large night are units: patients, however many voxels
    each has.
    """
    table = voxels(12, seed=9)
    whole = score(tissue_model, table, tmp_path / "whole").document["drift"]
    monkeypatch.setattr(reference_distribution, "MOST_UNITS", 12)
    thinned = score(tissue_model, table, tmp_path / "thinned", batch_rows=100).document[
        "drift"
    ]
    assert whole["unit"] == "group"
    assert sum(whole["known"]) == 8
    assert thinned["counted"] == whole["counted"]
    assert sum(whole["counted"]) == 12


def visits(n_patients, each, seed):
    """A table of patients with so many visits each, and a weak condition."""
    rng = default_rng(seed)
    n = n_patients * each
    x = rng.normal(size=(n, 3))
    crp = x[:, 0] + rng.normal(size=n)
    ill = np.where(crp > 1.4, "yes", "no")
    patients = [f"P{seed}-{i:04d}" for i in range(n_patients)]
    names = np.repeat(patients, each)
    table = {
        "visit": [f"V{seed}-{i}" for i in range(n)],
        "patient": names,
        "ill": ill,
    }
    numbers = {f"x{j}": x[:, j] for j in range(3)}
    return pd.DataFrame(table | numbers)


@pytest.mark.parametrize("each", [1, 8])
def test_more_visits_a_patient_in_training_than_tonight_are_no_change(each, tmp_path):
    past = read_cohort(
        visits(120, 4, 0),
        label="ill",
        id="visit",
        group="patient",
    )
    model = train(past, "logistic", search=1, forward=False, beside=())
    p_values = []
    for seed in range(1, 9):
        night = visits(100, each, seed)
        drift = score(model, night, tmp_path / f"{seed}").document["drift"]
        assert drift["unit"] == "group"
        assert sum(drift["counted"]) == 100
        p_values.append(drift["p"])

    # The nights share one training, so that they may lie low together; which of a
    # patient's visits counts follows the model's id, and that the installed versions.
    assert min(p_values) > 1e-5
