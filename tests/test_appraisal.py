"""What is said of a model beyond its operating point: subgroups, predictive values,
chances, time.
"""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from commands import as_json, screen
from faults.amounts import repeats
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from written_files import read_json, scores_in

from screening import MinSensitivity
from screening.metrics.calibration import (
    calibrate,
    calibration_elsewhere,
    decision_curve,
    fit_curve,
    fit_platt,
    probability_intervals,
)
from screening.metrics.chances import chances_at
from screening.metrics.evaluated_rows import EvaluatedRows, weights_of_table
from screening.metrics.intervals import share_range
from screening.metrics.operating_point import FLAG_EVERYTHING, choose
from screening.metrics.performance import (
    at_local_prevalence,
    prevalence_tonight,
)
from screening.metrics.subgroups import (
    SubgroupCounts,
    band_edges,
    levels_of,
    performance_by_subgroup,
)
from screening.schemas.base import Estimate, PopulationFigures
from screening.schemas.validation import Calibration, Platt
from screening.store.model import CHANCES, chances_of


def scored(
    n: int = 2000,
    share: float = 0.2,
    shift: float = 1.5,
    seed: int = 0,
):
    rng = default_rng(seed)
    positive = rng.random(n) < share
    scores = rng.normal(size=n) + shift * positive
    return scores, positive, rng.integers(0, 5, n)


def rates(sensitivity, specificity) -> PopulationFigures:
    figures = {"sensitivity": sensitivity, "specificity": specificity}
    return PopulationFigures(
        figures={name: Estimate(*rate) for name, rate in figures.items()}
    )


def table_of(**columns) -> pd.DataFrame:
    # The dtype is said: pandas 3 makes texts of its own of objects.
    return pd.DataFrame(columns, dtype=object)


def test_platt_nearly_separated():
    """Of nearly separated scores Platt scaling is that of scikit-learn."""
    rng = default_rng(5)
    positive = np.arange(360) % 6 == 0
    scores = 0.3 * rng.normal(size=360) + 4 * positive
    positive[[3, 12]] = True, False
    weight = np.where(positive, 0.05, 1.5)
    # Its penalty is on C times the loss, ours on the loss itself.
    theirs = LogisticRegression(
        C=1e3 / scores.var(),
        tol=1e-10,
        max_iter=10_000,
        solver="newton-cholesky",
    )
    theirs.fit(scores[:, None], positive, sample_weight=weight)
    ends = np.array([scores.min(), scores.max()])
    own, _, _ = chances_at(ends, fit_platt(scores, positive, weight))
    expected = theirs.predict_proba(ends[:, None])[:, 1]

    assert_allclose(own, expected, rtol=1e-4)


def with_floor(seed: int, n_rows: int = 4_000, floor: float = 0.02):
    """Scores and cases, of which so many are told by no score."""
    rng = default_rng(seed)
    scores = rng.normal(size=n_rows)
    true = floor + (1 - floor) * expit(2 * scores - 4)
    return scores, rng.random(n_rows) < true


@pytest.mark.repeated
def test_lowest_chances_level_off_where_cases_show_a_floor():
    """The band contains the planted floor; a straight curve lies far below it."""
    at = np.array([-2.5])
    covered = []
    for seed in repeats(60, 200):
        scores, positive = with_floor(seed)
        curve = fit_curve(scores, positive, np.ones(len(scores)))
        (chance,), (low,), (high,) = chances_at(at, curve)
        covered.append(low <= 0.02 + 0.98 * expit(-9) <= high)
    straight = fit_platt(scores, positive, np.ones(len(scores)))

    assert np.mean(covered) >= 0.9
    assert chance == pytest.approx(expit(curve.floor.log_odds), rel=0.05)
    assert chances_at(at, straight)[0] < 0.005


def test_chances_have_no_floor_without_one():
    """Where the line is straight, hardly any table has one."""
    with_one = 0
    for seed in range(40):
        scores, positive = with_floor(seed, floor=0.0)
        weight = np.ones(len(scores))
        curve = fit_curve(scores, positive, weight)
        with_one += curve.floor is not None
        assert curve.floor is not None or curve == fit_platt(scores, positive, weight)
    assert with_one <= 2


def rows_of(levels, scores, positive, threshold: float = 20.0, groups=None):
    judged = EvaluatedRows(scores, positive, threshold, groups, min_units=5)
    (column,) = performance_by_subgroup(table_of(level=levels), judged)
    return column.rows


def test_subgroup_figures_own_rows():
    """Subgroup figures are those of its rows alone and missing has its own row."""
    scores, positive, _ = scored(400)
    sex = np.array(["f", "m", None, "f"] * 100, dtype=object)
    of_f = np.array([text == "f" for text in sex])
    rows = rows_of(sex, scores, positive, 1.0)
    _, low, high = rows[0]["sensitivity"].value_and_interval

    assert [row.level for row in rows] == ["f", "m", None]
    assert sum(row.n for row in rows) == 400
    sensitivity = np.mean(scores[of_f & positive] >= 1)
    specificity = np.mean(scores[of_f & ~positive] < 1)
    assert low < rows[0]["sensitivity"].value == sensitivity < high
    assert rows[0]["specificity"].value == specificity


def test_numbers_from_fewer_than_five_are_withheld_and_named():
    """Fewer than five cases, others, rows or patients; five are enough."""
    positive = np.repeat([True, False, True, False], [4, 40, 6, 3])
    levels = ["a"] * 44 + ["b"] * 9
    few_cases, few_others = rows_of(levels, np.arange(53.0), positive)
    levels = ["a"] * 50 + ["tiny"] * 4
    is_case = np.arange(54) % 2 == 0
    _, tiny = rows_of(levels, np.arange(54.0), is_case)
    scores, is_case, _ = scored(300)
    patients = np.repeat(["p1", "p2", "p3"], 100)
    (three,) = rows_of(["x"] * 300, scores, is_case, 1.0, patients)
    events = []
    for n in (4, 5):
        is_case = np.arange(60) < n
        (row,) = rows_of(["m"] * 60, np.arange(60.0), is_case)
        events.append(row.events)

    assert (
        few_cases["sensitivity"].value
        is few_cases.events
        is few_others["specificity"].value
        is None
    )
    assert few_cases["specificity"].value is not None
    assert few_others["sensitivity"].value is not None
    assert {"sensitivity", "events", "ppv"} <= set(few_cases.few)
    assert {"specificity", "flag_rate", "n"}.isdisjoint(few_cases.few)
    assert tiny.level == "tiny"
    assert tiny.n is tiny.events is tiny["flag_rate"].value is None
    assert {
        *tiny["sensitivity"].value_and_interval,
        *tiny["specificity"].value_and_interval,
    } == {None}
    assert three["sensitivity"].value is three.n is None
    assert events == [None, 5]


def test_flag_rate_enriched_sample():
    """Flag rates of a sample rich in cases are those of the whole table."""
    scores, positive, _ = scored(20_000, share=0.1)
    kept = positive | (default_rng(1).random(20_000) < 0.3)
    share = positive.mean()
    weight = weights_of_table(positive[kept], share)
    sample = EvaluatedRows(scores[kept], positive[kept], 1.0, weight=weight)
    sampled_levels = table_of(s=["x"] * kept.sum())
    (of_sample,) = performance_by_subgroup(sampled_levels, sample)
    (whole,) = rows_of(["x"] * 20_000, scores, positive, 1.0)
    flag_rate = whole["flag_rate"].value
    assert of_sample.rows[0]["flag_rate"].value == pytest.approx(flag_rate, abs=0.01)
    assert np.mean(scores[kept] >= 1) > flag_rate + 0.05


def texts(*values) -> np.ndarray:
    return np.array(values, dtype=object)


def test_subgroups_many_values():
    """Many numbers are cut at quartiles and many texts at the commonest.

    A value at an edge lies in the band above it.
    """
    ages = texts(*map(str, range(20, 100)))
    edges = band_edges(ages)

    assert edges == [39.75, 59.5, 79.25]
    assert set(levels_of(ages, edges)) == {
        "under 39.75",
        "39.75 to 59.5",
        "59.5 to 79.25",
        "79.25 and over",
    }
    of_ages = levels_of(texts("40", "39.9"), [40.0])
    assert of_ages.tolist() == ["40 and over", "under 40"]
    assert band_edges(texts("m", None, "f")) is None
    # The edges lie close.
    births = [str(10_000_001 + i) for i in range(400)]
    is_case = np.arange(400) % 3 == 0
    rows = rows_of(births, np.arange(400.0), is_case, 300.0)
    assert [row.n for row in rows] == [100, 100, 100, 100]
    assert len({row.level for row in rows}) == 4
    of_named = levels_of(texts("a", "q", None), None, ["a"])
    assert of_named.tolist() == [
        "a",
        "other",
        None,
    ]


@pytest.mark.parametrize("odd", ["nan", "inf", "-Infinity", "1e999"])
def test_texts_that_only_look_like_numbers_are_no_place_to_cut_at(odd):
    numbers = map(str, range(20, 100))
    assert band_edges(texts(*numbers, *[odd] * 30)) is None
    levels = levels_of(texts(odd, "30"), [40.0])
    assert levels.tolist() == ["other", "under 40"]


def test_a_night_counts_the_levels_of_training_whatever_the_batches():
    """Many rows of few patients tell no rate."""
    is_case = np.arange(100) % 3 == 0
    judged = EvaluatedRows(np.arange(100.0), is_case, 50.0, min_units=5)
    of_training = table_of(ward=["a", "b"] * 50)
    described = performance_by_subgroup(of_training, judged)
    wards = ["a"] * 30 + ["b"] * 4 + ["new"] * 9 + [None] * 7
    night = table_of(ward=wards)
    flagged = np.arange(50) % 2 == 0
    whole = SubgroupCounts(described, min_units=5)
    parts = SubgroupCounts(described, min_units=5)
    patients = SubgroupCounts(described, min_units=5)
    whole.add(night, flagged)
    for start in range(0, 50, 8):
        block = slice(start, start + 8)
        parts.add(night.iloc[block], flagged[block])
    one_ward = table_of(ward=["a"] * 40)
    groups = np.repeat(["p1", "p2"], 20)
    flagged_rows = np.ones(40, dtype=bool)
    patients.add(one_ward, flagged_rows, groups)
    shown = {}
    for row in whole.facts():
        shown[row.level] = (row.n, row.flag_rate)

    assert whole.facts() == parts.facts()
    of_ten = replace(whole, min_units=10).facts()
    assert [row.level for row in of_ten if row.n is not None] == ["a"]
    assert shown["a"] == ((30, 0.5))
    assert shown["b"] == ((None, None))
    assert shown["other"][0] == 9
    assert shown[None][0] == 7
    (row,) = patients.facts()
    assert row.n is None
    assert row.flag_rate is None


@given(st.floats(0.01, 0.6), st.integers(0, 100))
def test_predictive_values_prevalence(given_prevalence, seed):
    """Predictive values rise with prevalence and lie in their intervals."""
    scores, positive, _ = scored(seed=seed)
    point = choose(scores, positive, MinSensitivity(0.8, prevalence=given_prevalence))
    rows = at_local_prevalence(point, share_range(positive), given_prevalence).rows
    prevalences = [row.prevalence for row in rows]
    ppvs = [row["ppv"].value for row in rows]

    assert prevalences == sorted(prevalences)
    assert ppvs == sorted(ppvs)
    assert ppvs[1] == pytest.approx(point["ppv"].value)
    for row in rows:
        assert row["ppv"].low <= row["ppv"].value <= row["ppv"].high
    assert rows[1]["nne"].value == pytest.approx(1 / ppvs[1])


def test_estimate_row_headline():
    """The estimate row is the headline and the ends know their prevalence."""
    scores, positive, _ = scored(600)
    point = choose(scores, positive, MinSensitivity(0.9))
    low, estimate, high = at_local_prevalence(point, share_range(positive), None).rows

    for name in ("ppv", "npv", "nne", "flag_rate"):
        assert estimate[name] == point[name]
    assert low["ppv"].value < estimate["ppv"].value < high["ppv"].value
    for row in (low, high):
        assert row["nne"].low == pytest.approx(1 / row["ppv"].high)
        assert row["flag_rate"].low < row["flag_rate"].value < row["flag_rate"].high


def test_the_prevalence_of_a_night_is_recovered_from_its_flags():
    rng = default_rng(0)
    hit = 0
    for _ in range(300):
        ill = rng.random(500) < 0.15
        se = float(np.mean(rng.random(400) < 0.9))
        sp = float(np.mean(rng.random(400) < 0.8))
        of_cases = rng.random(500) < 0.9
        of_others = rng.random(500) >= 0.8
        flagged = np.where(ill, of_cases, of_others)
        sensitivity = (se, se - 0.03, se + 0.03)
        specificity = (sp, sp - 0.04, sp + 0.04)
        point = rates(sensitivity, specificity)
        found = prevalence_tonight(int(flagged.sum()), 500, point)
        hit += found.low <= 0.15 <= found.high

    assert 0.90 <= hit / 300 <= 1.0
    # An estimate comes with its interval, which fewer groups widen.
    share = share_range(np.arange(1000) % 10 == 0)
    groups = np.repeat(np.arange(20), 50)
    wide = share_range(np.arange(1000) < 100, groups)
    unsure = (0.5, 0.4, 0.6)
    expected = (0.1, 0.083, 0.120)
    assert share.value_and_interval == pytest.approx(expected, abs=0.002)
    assert wide.high - wide.low > 3 * (share.high - share.low)
    assert prevalence_tonight(5, 10, rates(unsure, unsure)) is None


@pytest.mark.parametrize(
    ("rows", "more", "reason"),
    [
        ({"n": 60}, {}, "cases are too few"),
        ({"shift": 0.0}, {}, "not be significantly better than the prevalence"),
        ({}, {"groups": np.arange(2000) % 8}, "8 patients are too few"),
    ],
)
def test_a_probability_that_is_not_earned_is_not_given(rows, more, reason):
    """Twenty cases are the fewest that earn one."""
    scores, positive, fold = scored(**rows)
    prevalence = float(positive.mean())
    fitted = calibrate(scores, positive, fold, prevalence, **more)
    few = np.arange(500)
    noise = default_rng(0).normal(size=500)
    earned = []
    for n in (19, 20):
        is_case = few < n
        found = calibrate(noise + 2.5 * is_case, is_case, few % 5, 0.1)
        earned.append(found.earned)
    assert fitted.earned is False
    assert reason in fitted.reason
    assert np.isnan(probability_intervals(fitted, scores)).all()
    assert earned == [False, True]


@pytest.mark.parametrize(
    ("apart", "fits"),
    [
        (0.3, True),
        (1.0, False),
    ],
)
def test_chances_that_differ_from_what_was_observed_are_told_apart(apart, fits):
    """Scores of one fold that lie apart make a misfit, which is stated beside the
    chance.
    """
    scores, positive, fold = scored(4000, shift=2.0)
    shifted = scores + apart * (fold == 0)
    found = calibrate(shifted, positive, fold, 0.2)
    assert found.earned
    assert (found.misfit > 0.01) == fits


def test_chances_repeated_rows():
    """Rows written ten times over in their groups make no chance surer."""
    scores, positive, fold = scored(1500)
    once = calibrate(scores, positive, fold, 0.2, np.arange(1500))
    often = calibrate(
        np.repeat(scores, 10),
        np.repeat(positive, 10),
        np.repeat(fold, 10),
        0.2,
        np.arange(15000) // 10,
    )
    for one, ten in zip(once.reliability, often.reliability, strict=True):
        assert ten.n == 10 * one.n
        assert ten.size == pytest.approx(one.size, rel=0.05)


@pytest.mark.parametrize("prevalence", [0.2, 0.02])
def test_chances_at_prevalence(prevalence):
    """Calibrated chances are those of the population at its prevalence."""
    scores, positive, fold = scored(6000, share=0.2)
    found = calibrate(scores, positive, fold, prevalence)
    at = np.linspace(-1, 3, 9)
    # The odds of normal scores shifted by d: exp(d s - d^2 / 2) times those of the
    # prevalence.
    odds = prevalence / (1 - prevalence)
    odds = odds * np.exp(1.5 * at - 1.5**2 / 2)

    assert found.earned
    assert probability_intervals(found, at)[0] == pytest.approx(
        odds / (1 + odds), abs=0.06
    )
    assert found.slope.value == pytest.approx(1, abs=0.15)
    assert found.brier_skill == pytest.approx(
        1 - found.brier / prevalence / (1 - prevalence)
    )
    assert 0.02 < found.brier_skill < 0.9
    assert all(
        b.observed.low - 0.05 <= b.predicted <= b.observed.high + 0.05
        for b in found.reliability
    )


@pytest.mark.repeated
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("prevalence", [None, 0.05])
def test_the_band_of_a_chance_holds_the_true_one(rows, prevalence):
    """Of many cohorts the band holds the true chance in 92 to 98 %, also with several
    rows a patient.

    A prevalence of None is that of the cohort, which is not known either.
    """
    rng = default_rng(1)
    at = np.array([-0.5, 0.7, 2.0])
    true = (
        1.2 * at
        - 1.2**2 / 2
        + np.log((prevalence or 0.25) / (1 - (prevalence or 0.25)))
    )
    held = []
    for _ in repeats(200, 400):
        positive = rng.random(300) < 0.25
        scores = rng.normal(1.2 * positive)
        share = positive.mean()
        at_home = prevalence or share
        of_others = (1 - at_home) / (1 - share)
        weight = np.where(positive, at_home / share, of_others)
        written = (
            np.repeat(each, rows) for each in (scores, positive, weight, np.arange(300))
        )
        _, low, high = chances_at(at, fit_platt(*written))
        chance = expit(true)
        held.append((low <= chance) & (chance <= high))

    coverage = np.mean(held, axis=0)
    assert np.all(coverage >= 0.92)
    assert np.all(coverage < 0.985)


def test_net_benefit_is_counted_as_vickers_and_elkin_do():
    p = np.array([0.9, 0.6, 0.4, 0.05])
    positive = np.array([True, False, True, False])
    curve = decision_curve(p, positive, np.ones(4))
    from_there = np.abs(np.array(curve.threshold) - 0.45)
    place = int(np.argmin(from_there))
    t = curve.threshold[place]
    harm = t / (1 - t)
    assert curve.model[place] == pytest.approx(1 / 4 - 1 / 4 * harm)
    assert curve.all[place] == pytest.approx(0.5 - 0.5 * harm)


def test_prevalence_unknown_sensitivity():
    """What is not known of sensitivity moves the prevalence by the share that has
    it.
    """
    certain = (0.9, 0.9, 0.9)
    unsure = (0.9, 0.8, 1.0)
    of_unsure = rates(unsure, certain)
    of_certain = rates(certain, certain)
    few = prevalence_tonight(2 * 10**6, 10**7, of_unsure)
    many = prevalence_tonight(8 * 10**6, 10**7, of_unsure)
    sure = prevalence_tonight(8 * 10**6, 10**7, of_certain)

    # An error of 0.1 in sensitivity, of the share that has it, over sensitivity +
    # specificity - 1.
    error = 0.1 * few.value / 0.8
    assert few.high - few.low == pytest.approx(2 * error, rel=0.02)
    error = 0.1 * many.value / 0.8
    assert many.high - many.value == pytest.approx(error, rel=0.02)
    assert sure.high - sure.low < 0.002


def calibration(seed: int) -> Calibration:
    rng = default_rng(seed)
    positive = np.arange(900) % 6 == 0
    scores = rng.normal(size=900) + 1.5 * positive
    fold = np.arange(900) % 5
    return calibrate(scores, positive, fold, 1 / 6)


EARNED = {"b": calibration(0), "c": calibration(1)}


def chances_with(
    thresholds: dict[str, float], calibrations: dict[str, Calibration], scores, column
):
    facts = SimpleNamespace(validation=SimpleNamespace(calibration=calibrations))
    at = {
        "watched": list(thresholds),
        "thresholds": np.array(list(thresholds.values())),
    }
    model = SimpleNamespace(facts=facts, **at)
    return chances_of(model, np.asarray(scores), np.asarray(column))


def test_chance_several_classes():
    """With several classes a chance is that of the class whose score it is.

    One that has earned none, or whose every row is flagged, has none.
    """
    too_few = Calibration(earned=False, reason="too few")
    unearned = {"b": too_few, "c": EARNED["c"]}
    alone = chances_with({"c": -0.2}, EARNED, [1.1], [0])
    thresholds = {"b": 0.3, "c": -0.2}
    both = chances_with(thresholds, EARNED, [1.1 + 0.2, 5.0], [1, 0])

    for name in CHANCES:
        assert both[name][0] == pytest.approx(alone[name][0])
        assert both[name][1] != both[name][0]
    for threshold, calibrations in ((0.3, unearned), (FLAG_EVERYTHING, EARNED)):
        at = {"b": threshold, "c": 0.1}
        none = chances_with(at, calibrations, [0.0], [0])
        assert np.isnan([none[name] for name in CHANCES]).all()


def test_chance_monotone_in_every_file(judged, tmp_path):
    """A chance is the same in every file and never falls as the score rises."""
    screen(
        "score",
        judged / "good",
        judged / "night.csv",
        "--out",
        tmp_path,
        "--date",
        "2026-03-01",
    )
    names = ["chance", "chance_low", "chance_high"]
    scores = scores_in(tmp_path).set_index("id")
    listed = (
        pd.read_csv(tmp_path / "flagged.csv", dtype=str)
        .set_index("id")[names]
        .astype(float)
    )
    document = read_json(tmp_path / "run.json")
    case = document["cases"][0]
    words = (
        "explain",
        tmp_path,
        case["id"],
        "--model",
        judged / "good",
        "--cohort",
        judged / "night.csv",
    )
    explained = as_json(*words)

    assert_frame_equal(listed, scores.loc[listed.index, names], check_exact=True)
    assert scores.sort_values("score")["chance"].is_monotonic_increasing
    assert (scores["chance_low"] <= scores["chance"]).all()
    assert (scores["chance"] <= scores["chance_high"]).all()
    assert scores["chance_low"].min() > 0
    assert scores["chance_high"].max() < 1
    for each in document["cases"] + document["near_misses"]:
        chances = scores.loc[each["id"], names]
        assert [*each["chance"].values()] == chances.tolist()
    assert explained["chance"] == case["chance"]
    printed = screen(*words).stdout
    assert re.search(r"^chance +(\d|>99\.9%)", printed, re.MULTILINE)


@pytest.mark.parametrize(
    ("model", "table"),
    [
        ("blind", "night.csv"),
        ("tissue", "voxels.parquet"),
    ],
)
def test_where_no_chance_is_earned_no_file_has_a_column_of_it(
    judged, tmp_path, model, table
):
    screen(
        "score",
        judged / model,
        judged / table,
        "--out",
        tmp_path,
        "--date",
        "2026-03-01",
    )
    assert "chance" not in scores_in(tmp_path).columns
    assert "chance" not in pd.read_csv(tmp_path / "flagged.csv").columns


@pytest.mark.repeated
@pytest.mark.parametrize("grouped", [False, True])
def test_intercept_of_calibration_holds_what_was_planted(grouped):
    """Its interval covers the shift of the log odds in about 95 of 100 tables."""
    rng = default_rng(1000)
    scores = rng.normal(-1.5, 1, 200_000)
    spread = 0.8 if grouped else 0.0
    noise = spread * rng.normal(size=200_000)
    chance = expit(scores + 0.5 + noise)
    shift = brentq(lambda a: (expit(scores + a) - chance).mean(), -1, 2)
    held = []
    for seed in repeats(60, 200):
        rng = default_rng(seed)
        scores = rng.normal(-1.5, 1, 600)
        of_patient = np.zeros(600)
        groups = None
        if grouped:
            groups = np.repeat(np.arange(200), 3)
            of_patient = np.repeat(rng.normal(0, 0.8, 200), 3)
        positive = rng.random(600) < expit(scores + 0.5 + of_patient)
        curve = Platt(
            centre=0.0,
            intercept=0.0,
            slope=1.0,
            covariance=(0.0, 0.0, 0.0),
        )
        written = Calibration(earned=True, reason=None, platt=curve)
        found = calibration_elsewhere(written, scores, positive, groups)
        assert found.intercept is not None
        held.append(found.intercept.low <= shift <= found.intercept.high)
    assert np.mean(held) >= 0.92
