"""Models and machines stored by earlier versions score as they did."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import screen

from screening import build
from screening.cohort.reading import open_cohort
from screening.storage.loading import load_model
from screening.storage.sealing import read_document

FOLDER = Path(__file__).parent / "format_1"
STORED = FOLDER / "machines.npz"
METHODS = {
    "williams": {"C": 3.0, "gamma": 0.4, "passes": 2, "normalise": True},
    "act_feature_space": {"C": 3.0, "gamma": 0.4, "passes": 2},
    "one_class_conformal": {"nu": 0.3, "gamma": 0.2, "passes": 2},
}
# What the version that stored the models said of the rows of night.csv, and how many it flagged.
SCORES = {
    "svm_weighted": [
        -0.4321799721472984, 0.7135784418244759, 0.4632856035903847, -0.4279770264259539,
        -0.5962892904128289, -1.3330559978109742, 0.7023227968178141, 0.3860598703641766,
        0.9269266165726535, -0.6659696477183557, -0.8261534924486591, 1.108038583203014,
    ],
    "williams": [
        -0.9859150223458217, -0.4347953416285494, -0.5208572282411914, -0.9764229845589896,
        -0.915682925523599, -0.9862129116393654, -0.35460514354735495, -0.6313763111813159,
        -0.423567483266143, -0.9456715704378372, -1.0031388956919043, -0.34997274641958315,
    ],
}  # fmt: skip
FLAGGED = {"svm_weighted": 10, "williams": 11}


@pytest.mark.parametrize("name", METHODS)
def test_machine_of_format_1_scores_as_when_it_was_stored(name):
    # Of two passes, c divided by a number and kept above 1e-12; the last row is far away.
    with np.load(STORED) as arrays:
        state = {key.removeprefix(f"{name}/"): arrays[key] for key in arrays if key.startswith(f"{name}/")}
        rows = arrays["z"]
    expected = state.pop("decisions")

    machine = build(name, **METHODS[name]).restore(state)

    np.testing.assert_allclose(machine.decision_function(rows), expected, rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_machine_of_format_1_stores_again_as_the_same_machine(name):
    with np.load(STORED) as arrays:
        state = {key.removeprefix(f"{name}/"): arrays[key] for key in arrays if key.startswith(f"{name}/")}
        rows = arrays["z"]

    machine = build(name, **METHODS[name]).restore(state)
    again = build(name, **METHODS[name]).restore(machine.state())

    np.testing.assert_array_equal(again.decision_function(rows), machine.decision_function(rows))


@pytest.fixture(params=sorted(SCORES))
def model(request, tmp_path):
    """A copy of a model directory of format 1."""
    return shutil.copytree(FOLDER / request.param, tmp_path / request.param)


def test_model_of_format_1_scores_new_rows_as_when_it_was_trained(model):
    loaded = load_model(model)
    night = next(iter(open_cohort(FOLDER / "night.csv", loaded.contract)))

    found = loaded.scores(loaded.encoder.transform(night))

    assert loaded.document["format"] == 1
    assert len(loaded.ensemble.machines) == 1
    np.testing.assert_allclose(found[:, 0], SCORES[model.name], rtol=1e-6)


def test_model_of_format_1_scores_a_night_by_command(model, tmp_path):
    screen("score", model, FOLDER / "night.csv", "--out", tmp_path / "run", "--date", "2026-03-01")

    scores = pd.read_parquet(tmp_path / "run" / "scores.parquet")
    np.testing.assert_allclose(scores["score"], SCORES[model.name], rtol=1e-6)
    assert read_document(tmp_path / "run", "run")["counts"]["flagged"] == FLAGGED[model.name]
    assert (tmp_path / "run" / "report.html").stat().st_size > 0


def test_report_of_a_model_of_format_1_is_drawn_by_command(model):
    screen("report", model)

    page = (model / "report.html").read_text(encoding="utf-8")
    assert f"<bdi>{model.name}</bdi>" in page
    assert "</html>" in page


def test_threshold_of_a_model_of_format_1_is_chosen_anew_by_command(model):
    before = load_model(model)

    screen("threshold", model, "--max-flag-rate", 0.5, "--reason", "fewer to look at")

    after = load_model(model)
    assert after.thresholds[0] > before.thresholds[0]
    assert after.operating_points[0]["rule"]["name"] == "max_flag_rate"
    np.testing.assert_array_equal(after.validation["score"], before.validation["score"])
