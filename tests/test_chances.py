"""A chance is the same wherever it is written, and is written only where a calibration was earned."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from commands import screen
from hypothesis import given
from hypothesis import strategies as st

from screening.metrics.calibration import calibrate
from screening.metrics.operating_point import FLAG_EVERYTHING
from screening.schemas.validation import Calibration
from screening.store.model import CHANCES, chances_of


def calibration(seed: int) -> Calibration:
    """What a calibration of one class is, from scores that tell its rows a little apart."""
    rng = np.random.default_rng(seed)
    positive = np.arange(900) % 6 == 0
    return calibrate(rng.normal(size=900) + 1.5 * positive, positive, np.arange(900) % 5, 1 / 6)


EARNED = {"b": calibration(0), "c": calibration(1)}


def chances(thresholds: dict[str, float], calibrations: dict[str, Calibration], scores, column):
    """Of a model that watches these classes."""
    facts = SimpleNamespace(validation=SimpleNamespace(calibration=calibrations))
    at = {"watched": list(thresholds), "thresholds": np.array(list(thresholds.values()))}
    return chances_of(SimpleNamespace(facts=facts, **at), np.asarray(scores), np.asarray(column))


@given(scores=st.lists(st.floats(-20, 20), min_size=2, max_size=40), column=st.sampled_from([0, 1]))
def test_within_a_class_a_higher_score_never_has_a_lower_chance(scores, column):
    scores = np.sort(scores)

    columns = chances({"b": 0.3, "c": -0.2}, EARNED, scores, np.full(len(scores), column))

    assert (np.diff(columns["chance"]) >= 0).all()
    assert (columns["chance_low"] <= columns["chance"]).all()
    assert (columns["chance"] <= columns["chance_high"]).all()


def test_with_several_classes_a_chance_is_that_of_the_class_whose_score_it_is():
    """One that has earned none, or whose every row is flagged, has none."""
    unearned = {"b": Calibration(earned=False, reason="too few"), "c": EARNED["c"]}
    alone = chances({"c": -0.2}, EARNED, [1.1], [0])
    both = chances({"b": 0.3, "c": -0.2}, EARNED, [1.1 + 0.2, 5.0], [1, 0])

    for name in CHANCES:
        assert both[name][0] == pytest.approx(alone[name][0])
        assert both[name][1] != both[name][0]
    for threshold, calibrations in ((0.3, unearned), (FLAG_EVERYTHING, EARNED)):
        none = chances({"b": threshold, "c": 0.1}, calibrations, [0.0], [0])
        assert np.isnan([none[name] for name in CHANCES]).all()


def test_a_chance_is_the_same_in_every_file_and_never_falls_as_the_score_rises(judged, tmp_path):
    screen("score", judged / "good", judged / "night.csv", "--out", tmp_path, "--date", "2026-03-01")
    names = ["chance", "chance_low", "chance_high"]
    scores = pd.read_parquet(tmp_path / "scores.parquet").set_index("id")
    listed = pd.read_csv(tmp_path / "flagged.csv", dtype=str).set_index("id")[names].astype(float)
    document = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    case = document["cases"][0]
    words = ("explain", tmp_path, case["id"], "--model", judged / "good", "--cohort", judged / "night.csv")
    explained = json.loads(screen(*words, "--json").stdout)

    pd.testing.assert_frame_equal(listed, scores.loc[listed.index, names], check_exact=True)
    assert scores.sort_values("score")["chance"].is_monotonic_increasing
    assert (scores["chance_low"] <= scores["chance"]).all()
    assert (scores["chance"] <= scores["chance_high"]).all()
    assert scores["chance_low"].min() > 0 and scores["chance_high"].max() < 1
    for each in document["cases"] + document["near_misses"]:
        assert [*each["chance"].values()] == scores.loc[each["id"], names].tolist()
    assert explained["chance"] == case["chance"]
    assert re.search(r"^chance +(\d|>99\.9%)", screen(*words).stdout, re.MULTILINE)


@pytest.mark.parametrize(("model", "table"), [("blind", "night.csv"), ("tissue", "voxels.parquet")])
def test_where_no_chance_is_earned_no_file_has_a_column_of_it(judged, tmp_path, model, table):
    screen("score", judged / model, judged / table, "--out", tmp_path, "--date", "2026-03-01")

    assert "chance" not in pd.read_parquet(tmp_path / "scores.parquet").columns
    assert "chance" not in pd.read_csv(tmp_path / "flagged.csv").columns
