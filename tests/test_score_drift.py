"""All scores of a night beside those held out in training: quiet nights, and changed ones."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients, voxels, written
from hypothesis import given, settings
from hypothesis import strategies as st

from screening import read_cohort, score, train
from screening.metrics.control import cells_of, drift_over, inner_edges, shift
from screening.report.rules import drift_alarms, drift_reason, drift_words
from screening.schemas.base import Reason
from screening.schemas.run import ScoreCounts
from screening.scoring import reference_distribution
from screening.scoring.reference_distribution import reference

counts = st.lists(st.integers(0, 30), min_size=4, max_size=4)


def told(past: np.ndarray, tonight: np.ndarray, unit: str = "row") -> ScoreCounts:
    edges = inner_edges(past)
    known, seen = (np.bincount(cells_of(one, edges), minlength=len(edges) + 1) for one in (past, tonight))
    difference = shift(known, seen)
    return ScoreCounts(unit=unit, known=known, counted=seen, **vars(difference))


@given(counts, counts)
@settings(max_examples=30)
def test_the_test_is_the_same_each_time_and_sees_no_difference_between_equal_shares(known, seen):
    whole, more = [n + 1 for n in known], [*seen[:3], seen[3] + 1]
    once, equal = shift(whole, more), shift(whole, whole)
    assert once == shift(whole, more) and 0 < once.p <= 1 and 0 <= once.distance <= 1
    assert equal.distance == 0 and equal.p == 1
    assert shift([0, 0], [3, 4]) is shift([3, 4], [0, 0]) is None


def test_a_p_value_is_as_often_small_as_it_says():
    rng = np.random.default_rng(0)
    p = [told(rng.normal(size=200), rng.normal(size=100)).p for _ in range(300)]
    assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.08


def test_half_a_standard_deviation_is_seen_in_three_hundred_rows_and_nothing_where_there_is_none():
    rng = np.random.default_rng(1)
    shifted = [told(rng.normal(size=683), rng.normal(size=300) - 0.5) for _ in range(20)]
    steady = [told(rng.normal(size=683), rng.normal(size=300)) for _ in range(100)]
    assert sum(map(drift_alarms, shifted)) >= 19
    assert sum(map(drift_alarms, steady)) == 0
    assert not any(one.higher for one in shifted)


def test_an_alarm_is_a_reason_with_figure_threshold_and_remedy_and_its_direction():
    rng = np.random.default_rng(2)
    past = rng.normal(size=500)
    up, same = told(past, rng.normal(size=300) + 0.8, "group"), told(past, rng.normal(size=300))
    reason = drift_reason(up)
    assert isinstance(reason, Reason) and reason.code == "scores_differ"
    assert reason.figure <= reason.threshold and reason.remedy
    assert "patients score higher" in reason.words
    assert drift_reason(same) is drift_reason(None) is None and "no sign" in drift_words(same)


def test_a_trifle_of_many_rows_and_a_change_of_few_are_no_alarm():
    trifle = told(np.arange(200_000) / 200_000, np.arange(200_000) / 200_000 + 0.03)
    few = told(np.arange(300.0), np.full(9, 1e3), "group")
    assert trifle.p < 0.001 and not drift_alarms(trifle) and not drift_alarms(few)
    assert "Too few patients were scored (9)" in drift_words(few)
    # An edge belongs to the cell below it, and above the last one lies the highest score.
    assert inner_edges(np.repeat([1.0, 2.0, 3.0], 50)).tolist() == [1.0, 2.0]
    assert cells_of(np.array([0.9, 1.0, 1.1]), np.array([1.0])).tolist() == [0, 0, 1]


def counts_of(cells: np.ndarray, known: tuple[int, ...], first: int = 0) -> ScoreCounts:
    """A night of patients, numbered from the first on, in these cells."""
    who = tuple(range(first, first + len(cells)))
    return ScoreCounts(unit="row", known=known, counted=(), who=who, cell=tuple(cells.tolist()))


def stays(rng, stay: int, nights: int = 14, beds: int = 40, by: float = 0.0) -> list[ScoreCounts]:
    """Nights of a ward in which everybody stays so many nights with about the same score."""
    past = rng.normal(size=400)
    edges = inner_edges(past)
    known = tuple(np.bincount(cells_of(past, edges), minlength=len(edges) + 1).tolist())
    own = rng.normal(size=(nights, beds)) + by
    return [
        counts_of(cells_of(own[turn] + 0.1 * rng.normal(size=beds), edges), known, turn * beds)
        for turn in (night // stay for night in range(nights))
    ]


@pytest.mark.parametrize("stay", [1, 5, 7])
def test_over_nights_a_patient_counts_once_so_that_long_stays_raise_no_alarm(stay):
    rng = np.random.default_rng(stay)
    drifts = [drift_over(stays(rng, stay)) for _ in range(60)]
    assert sum(drift.reason is not None for drift in drifts) <= 2
    assert {drift.patients for drift in drifts} == {40 * -(-14 // stay)}
    assert drift_over(stays(rng, stay, by=1.0)).reason.code == "drift_over_nights"


# Patients on twenty cells that held as many training rows each, those of them in the last cell beyond
# their share, and whether that is said: one in two hundred is where chance ends, a trifle is no alarm
# however many make it sure, and fewer than twenty patients are no evidence.
OVER_NIGHTS = [
    (100, 17, 20, False), (100, 18, 20, False), (100, 20, 20, True), (100, 22, 20, True),
    (20_000, 800, 1000, False), (20_000, 1200, 1000, True), (19, 19, 20, False), (20, 20, 20, True),
]  # fmt: skip


@pytest.mark.parametrize(("patients", "in_the_last", "per_cell", "spoken"), OVER_NIGHTS)
def test_drift_over_nights_is_said_from_where_chance_and_trifles_end(patients, in_the_last, per_cell, spoken):
    cells = np.concatenate([np.arange(patients - in_the_last) % 20, np.full(in_the_last, 19)])
    drift = drift_over([counts_of(cells, (per_cell,) * 20)])
    assert (drift.reason is not None) == spoken
    assert spoken == (patients >= 20 and drift.p <= 0.005 and drift.distance >= 0.05)


def test_nights_that_cannot_be_put_together_say_nothing():
    counts = ScoreCounts(unit="row", known=(3, 4), counted=(1, 1))
    assert drift_over([counts]) is None
    assert drift_over([counts.replace(who=(1,), cell=(0,))]).reason is None


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    past = written(patients(300), tmp_path_factory.mktemp("past") / "past.csv")
    return train(read_cohort(past, label="ill", id="patient"), "logistic", search=1, forward=False, beside=())


def test_a_steady_night_is_quiet_a_changed_one_says_so_and_batches_do_not_matter(model, tmp_path):
    night = patients(200, seed=7)
    runs = [score(model, night, tmp_path / f"r{rows}", batch_rows=rows).document for rows in (7, 1000)]
    other = score(model, night.assign(crp=night["crp"] * 3), tmp_path / "rc").document
    codes = [[each["code"] for each in run["attention"]] for run in (runs[0], other)]
    assert runs[0]["drift"] == runs[1]["drift"]
    assert sum(runs[0]["drift"]["counted"]) == len(runs[0]["drift"]["who"]) == 200
    assert "scores_differ" not in codes[0] and "scores_differ" in codes[1]
    assert "score higher on the whole" in (tmp_path / "rc" / "report.html").read_text()


def test_hashes_are_the_same_for_the_same_patient_and_hold_no_id(model, tmp_path):
    first, later = patients(60, seed=7), patients(60, seed=8)
    later.loc[:29, "patient"] = first.loc[:29, "patient"]
    later.loc[30:, "patient"] = [f"new{i}" for i in range(30)]
    one, other = (
        score(model, table, tmp_path / f"h{i}").document["drift"]["who"]
        for i, table in enumerate((first, later))
    )
    assert len(set(one) & set(other)) == 30
    assert all(isinstance(who, int) for who in one)


def test_the_reference_stands_at_the_prevalence_in_use(model):
    edges, known = reference(model)
    (point,) = model.operating_points
    stated = [point | {"prevalence": point["prevalence"] / 4}]
    rarer = reference(replace(model, document=model.document | {"operating_points": stated}))
    assert known.sum() == 300 == len(model.validation)
    assert rarer[1].sum() < 300
    assert np.quantile(rarer[0], 0.9) < np.quantile(edges, 0.9)


def test_images_count_once_by_their_highest_voxel(tissue_model, tmp_path, monkeypatch):
    """What is thinned out on a large night are units: patients, however many voxels each has."""
    table = voxels(12, seed=9)
    whole = score(tissue_model, table, tmp_path / "whole").document["drift"]
    monkeypatch.setattr(reference_distribution, "MOST_UNITS", 12)
    thinned = score(tissue_model, table, tmp_path / "thinned", batch_rows=100).document["drift"]
    assert whole["unit"] == "group" and sum(whole["known"]) == 8
    assert thinned["counted"] == whole["counted"] and sum(whole["counted"]) == 12


def visits(n_patients, each, seed):
    """A table of patients with so many visits each, and a weak condition."""
    rng = np.random.default_rng(seed)
    n = n_patients * each
    x = rng.normal(size=(n, 3))
    ill = np.where(x[:, 0] + rng.normal(size=n) > 1.4, "yes", "no")
    names = np.repeat([f"P{seed}-{i:04d}" for i in range(n_patients)], each)
    table = {"visit": [f"V{seed}-{i}" for i in range(n)], "patient": names, "ill": ill}
    return pd.DataFrame(table | {f"x{j}": x[:, j] for j in range(3)})


@pytest.mark.parametrize("each", [1, 8])
def test_more_visits_a_patient_in_training_than_tonight_are_no_change(each, tmp_path):
    past = read_cohort(visits(120, 4, 0), label="ill", id="visit", group="patient")
    model = train(past, "logistic", search=1, forward=False, beside=())
    for seed in range(1, 9):
        drift = score(model, visits(100, each, seed), tmp_path / f"{seed}").document["drift"]
        assert (drift["unit"], sum(drift["counted"])) == ("group", 100)
        assert drift["p"] > 0.001
