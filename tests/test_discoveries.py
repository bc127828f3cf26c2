"""False discoveries among many screened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from flow_cohorts import patients, voxels, written
from hypothesis import given
from hypothesis import strategies as st
from report_fixture import nosocomial_run
from scipy.stats import false_discovery_control

from screening import read_cohort, score, train
from screening.documents.stored import run_in
from screening.page.night import rarity
from screening.scoring.reference_distribution import Discoveries
from screening.statistics.p_values import p_values


@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=60),
    st.lists(st.floats(-3, 6), min_size=1, max_size=60),
    st.sampled_from([0.05, 0.1, 0.3, 0.5]),
)
def test_the_cut_over_counted_ranks_is_that_of_benjamini_and_hochberg(calibration, scores, q):
    known = np.sort(calibration)
    p = p_values(known, np.array(scores))
    counted = Discoveries(known)
    counted.add(p)
    expected = false_discovery_control(p) <= q * (1 + 1e-12)

    cut = counted.cut(q)

    assert np.array_equal(p <= (-1 if cut is None else cut * (1 + 1e-12)), expected)
    assert counted.facts("row", 0, q).found == expected.sum()


def test_ranks_are_exact_at_both_ends():
    known = np.arange(1, 100.0)
    counted = Discoveries(known)
    counted.add(p_values(known, np.array([1000.0, -1000.0])))

    assert counted.counts[0] == counted.counts[-1] == 1
    assert counted.counts.sum() == 2


def test_a_false_discovery_rate_below_the_resolution_is_said_aloud():
    counted = Discoveries(np.arange(50.0))
    counted.add(np.full(400, 30 / 51))
    facts = counted.facts("row", 7)

    assert facts.found == 0
    assert "needs at least 79 of them above every known negative" in facts.warning
    night = replace(run_in(nosocomial_run()), discoveries=facts)
    assert "Too coarse to tell" in rarity(night)["sentences"][1]


def test_enough_known_negatives_need_no_warning():
    counted = Discoveries(np.arange(5000.0))
    counted.add(np.full(400, 0.5))

    assert counted.facts("row", 7).warning is None


def test_a_night_marks_its_discoveries_and_its_page_explains_the_mark(tmp_path):
    past = read_cohort(written(patients(400), tmp_path / "past.csv"), label="ill", id="patient")
    night = patients(120, seed=7)
    night.loc[:24, "fever"], night.loc[:24, "crp"] = 38.4, 28.0
    run = score(train(past, "svm_weighted", search=1), written(night, tmp_path / "n.csv"), tmp_path / "run")
    said, cases = run.document["discoveries"], run.document["cases"]
    marked = [case["discovery"] for case in cases]

    assert said["per"] == "row" and said["n_screened"] == 120
    assert sum(marked) == said["found"] > 0
    assert all(case["p_value"] <= said["p_cut"] for case in cases if case["discovery"])
    assert "· FDR" in (run.directory / "report.html").read_text()


def test_rows_of_one_patient_are_screened_as_one(tmp_path):
    past = read_cohort(written(voxels(8), tmp_path / "past.csv"), label="tissue", group="patient")
    night = written(voxels(3, seed=9), tmp_path / "n.csv")
    run = score(train(past, "one_vs_rest", search=1), night, tmp_path / "run").document

    assert run["discoveries"]["per"] == "group"
    assert run["discoveries"]["n_screened"] == len(run["groups"]) == 3
    assert all("discovery" in group for group in run["groups"])
    assert run["discoveries"]["n_calibration"] == 8
    assert run["groups_total"] == 3
    assert run["groups_flagged"] == sum(group["flagged"] > 0 for group in run["groups"])
